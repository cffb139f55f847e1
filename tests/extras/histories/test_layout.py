"""Histories taken apart into first and later rows: each row beside the one before it, and nothing lost."""

import warnings

import numpy as np
import pandas as pd
import pytest

from benchmarks.history_tables import patients, patients_schema
from synth.errors import TableError
from synth.generators.fitting.training_data import bound_contributions
from synth.row_order import histories_of
from synth.schema import build_schema
from synth.table import conform
from synth.table.rows import Rows, observe
from understudy.extras.histories.layout import HistoryLayout


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return conform(patients(80), patients_schema())


def test_later_rows_stand_beside_the_row_before(table: pd.DataFrame) -> None:
    schema = patients_schema()
    layout = HistoryLayout(schema, 40)
    histories = histories_of(table, schema)
    first, later = layout.taken_apart(table, histories)
    assert list(first.columns) == list(layout.first_rows.kept)
    assert list(later.columns) == list(layout.later_rows.kept)
    assert len(first) + len(later) == len(table)
    assert (first[layout.n_rows] == histories.lengths).all()
    pieces = {who: part.sort_values("visit").reset_index(drop=True) for who, part in table.groupby("who")}
    for who, rows in later.groupby("who"):
        whole = pieces[who]
        placed = rows.sort_values(layout.place)
        assert placed[layout.place].tolist() == list(range(2, len(whole) + 1))
        assert placed[layout.left].tolist() == list(range(len(whole) - 2, -1, -1))
        assert placed[layout.before("state")].tolist() == whole["state"].tolist()[:-1]
        assert placed["state"].tolist() == whole["state"].tolist()[1:]
        gaps = np.diff(whole["day"].to_numpy().astype("datetime64[D]").astype(int))
        assert placed[layout.gain("day")].tolist() == gaps.tolist()
        means = [whole["value"].iloc[:n].mean() for n in range(1, len(whole))]
        assert placed[layout.average("value")].to_numpy() == pytest.approx(means)


def test_gains_lead_back_to_the_values(table: pd.DataFrame) -> None:
    schema = patients_schema()
    layout = HistoryLayout(schema, 40)
    histories = histories_of(table, schema)
    _, later = layout.taken_apart(table, histories)
    now, _ = histories.pairs
    for name in schema.growing:
        grown, beyond = layout.grown(name, later[layout.before(name)], later[layout.gain(name)])
        assert not beyond.any()
        assert (grown.to_numpy() == table[name].iloc[now].to_numpy()).all()
    far = pd.Series([10**6] * len(later), dtype="Int64")
    grown, beyond = layout.grown("age", later[layout.before("age")], far)
    assert beyond.all()
    assert (grown == 100).all()


@pytest.mark.parametrize(
    ("column", "cells", "words"),
    [("sex", ["f", "m"], "varies within an entity"), ("age", [50, 49], "falls within an entity")],
)
def test_what_the_schema_says_of_an_entity_is_checked(column: str, cells: list[object], words: str) -> None:
    schema = patients_schema()
    table = conform(patients(30), schema)
    histories = histories_of(table, schema)
    whole = np.flatnonzero(histories.lengths > 1)[0]
    rows = histories.rows[histories.starts[whole] : histories.starts[whole] + 2]
    table[column] = table[column].where(~table.index.isin(rows), cells[0])
    table[column] = table[column].where(table.index != rows[1], cells[1])
    with pytest.raises(TableError, match=words):
        HistoryLayout(schema, 40).check(table, histories)


ORDERS: dict[str, dict[str, object]] = {
    "names": {"kind": "identifier", "template": "##"},
    "times of any zone": {
        "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T00:00:00"], "timezone": "mixed",
    },
}  # fmt: skip
ODD = ["n/a", None, "A7", "1.5", "1e400", "9" * 30, ""]


@pytest.mark.parametrize("kind", ORDERS)
def test_a_cell_that_cannot_be_read_changes_nothing_for_others_and_stops_no_fit(kind: str) -> None:
    """Whatever one entity holds in its order, in a table that a private fit clamps, all others stay as they are."""
    columns = {"who": {"kind": "identifier", "bounds": [0, 99]}, "at": ORDERS[kind], "x": {"kind": "boolean"}}
    schema = build_schema({
        "status": "declared", "n_units": 50, "entity": "who", "order": "at", "max_rows_per_unit": 2, "columns": columns,
    })  # fmt: skip
    at = ["9", "10", "100"] * 6 if kind == "names" else [f"2020-0{month}-01T10:00:00+00:00" for month in (9, 8, 7)] * 6
    plain = pd.DataFrame({"who": np.repeat(np.arange(6), 3), "at": at, "x": ["True", "False", "True"] * 6})

    def of_others(frame: pd.DataFrame) -> list[pd.DataFrame]:
        bound = bound_contributions(Rows.of(frame, schema), schema, in_order=True).frame()
        layout = HistoryLayout(observe(schema, bound), 2, reads_domains=False, averages=False)
        parts = layout.taken_apart(bound, histories_of(bound, schema))
        later = parts[1]
        return [parts[0].iloc[:6], later[(later["who"] < 6).to_numpy()].reset_index(drop=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = of_others(plain)
        for cells in (ODD, ODD[::-1], [*at[:2], *ODD]):
            odd = pd.DataFrame({"who": 77, "at": cells, "x": "True"})
            for own, other in zip(alone, of_others(pd.concat([plain, odd], ignore_index=True)), strict=True):
                pd.testing.assert_frame_equal(own, other)

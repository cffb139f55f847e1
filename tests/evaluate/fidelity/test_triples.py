from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import triples
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema


def find(measurement: MetricResult, measure: str) -> Estimate:
    return next(e for e in measurement.estimates if e.measure == measure and not e.subject)


def test_every_triple_agrees_with_counting_rows_one_by_one(tables: Tables) -> None:
    coded = EncodedSamples.of(tables, Samples.draw(tables), together=3)
    beyond = []
    for triple in map(list, combinations(range(5), 3)):
        shares = [
            pd.Series(map(tuple, codes[:, triple])).value_counts(normalize=True)
            for codes in (rows.codes for rows in coded.rows[:3])
        ]
        tvd, reference = (shares[0].sub(part, fill_value=0).abs().sum() / 2 for part in shares[1:])
        beyond.append(tvd - reference)
    measurement = triples.measure(tables)
    assert find(measurement, triples.WORST).value == pytest.approx(max(beyond), abs=1e-12)
    drawn = [row["tvd"] - row["reference"] for row in measurement.figures["triples"]["worst"]]
    assert drawn == pytest.approx(sorted(beyond, reverse=True), abs=1e-12)


def test_what_only_three_columns_show_together_is_seen() -> None:
    rng = np.random.default_rng(0)

    def rows(n: int, *, tied: bool) -> pd.DataFrame:
        a, b, free = rng.random((3, n)) < 0.5
        return pd.DataFrame({"a": a, "b": b, "c": a ^ b if tied else free})

    schema = build_schema({"status": "declared", "columns": {name: {"kind": "boolean"} for name in "abc"}})
    tables = Tables.prepare(rows(2000, tied=True), rows(1000, tied=True), rows(1000, tied=False), schema)
    worst = find(triples.measure(tables), triples.WORST)
    assert worst.low is not None
    assert worst.low > 0.4
    assert "'a' and 'b' and 'c'" in worst.note

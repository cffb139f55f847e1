"""Synthetic histories: transitions, ends, gaps and growth as in the table, and no entity a copy."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from benchmarks.history_tables import STATES, TRANSITIONS, patients, patients_schema
from synth.errors import JobError, ModelError, TableError
from synth.generators import registry
from synth.generators.models.chunked_output import write_rows
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.wrapper import cautions, fit_model
from synth.row_order import Histories, histories_of
from synth.schema import Schema, build_schema
from synth.table import conform, violations
from understudy.extras.histories.model import HistoryModel

N = 3_000
FITS: dict[str, dict[str, Any]] = {
    "trees": {"rounds": 80},
    "arn": {"order": "fixed", "epochs": 8},
    "aim": {"epsilon": 50.0, "rounds": 14, "n_draws": 10_000},
    "mst": {"epsilon": 50.0},
}


@cache
def model(name: str) -> HistoryModel:
    if name == "arn":
        pytest.importorskip("torch")
    found = fit_model(registry.generator(name, **FITS[name]), patients(N), patients_schema(), seed=1)
    assert isinstance(found, HistoryModel)
    return found


@cache
def drawn(name: str) -> tuple[pd.DataFrame, Histories]:
    table = conform(model(name).sample(12_000, seed=3), patients_schema())
    return table, histories_of(table, patients_schema())


@cache
def real() -> tuple[pd.DataFrame, Histories]:
    table = conform(patients(N), patients_schema())
    return table, histories_of(table, patients_schema())


def transitions(table: pd.DataFrame, histories: Histories) -> np.ndarray:
    """Counts of each state after each, shape (4, 4)."""
    now, before = histories.pairs
    states = pd.Categorical(table["state"], categories=STATES).codes.astype(int)
    return np.bincount(4 * states[before] + states[now], minlength=16).reshape(4, 4)


def lag(table: pd.DataFrame, histories: Histories, name: str) -> float:
    """The correlation of a number with that of the row before."""
    now, before = histories.pairs
    values = table[name].to_numpy(dtype=float)
    return float(np.corrcoef(values[now], values[before])[0, 1])


@pytest.mark.parametrize("name", FITS)
def test_transitions_are_those_of_the_chain(name: str) -> None:
    counts = transitions(*drawn(name))
    alive = counts[1:] / counts[1:].sum(axis=1, keepdims=True)
    assert np.abs(alive - TRANSITIONS[1:]).max() < (0.05 if name in ("trees", "arn") else 0.08)
    # Drawn independently, a state would say nothing of the next.
    shares = counts.sum(axis=0) / counts.sum()
    assert np.abs(alive - shares).max() > 0.3


@pytest.mark.parametrize("name", ["trees", "arn"])
def test_the_dead_do_not_come_back(name: str) -> None:
    assert transitions(*drawn(name))[0].sum() == 0


@pytest.mark.parametrize("name", FITS)
def test_histories_are_as_long_as_in_the_table(name: str) -> None:
    longest = 8 if name in ("aim", "mst") else 60
    lengths = [np.minimum(each[1].lengths, longest) for each in (real(), drawn(name))]
    shares = [np.bincount(each, minlength=longest + 1) / len(each) for each in lengths]
    assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05


@pytest.mark.parametrize("name", FITS)
def test_numbers_go_along_and_gaps_follow_the_state(name: str) -> None:
    expected, found = lag(*real(), "value"), lag(*drawn(name), "value")
    assert found > (0.85 if name in ("trees", "arn") else 0.5) * expected
    table, histories = drawn(name)
    now, before = histories.pairs
    days = table["day"].to_numpy().astype("datetime64[D]").astype(int)
    gaps = pd.Series(days[now] - days[before]).groupby(table["state"].to_numpy()[before]).median()
    assert (days[now] > days[before]).all()  # a patient has one row a day
    if name in ("trees", "arn", "aim"):
        assert gaps["ward"] < 0.5 * gaps["well"]


def test_a_number_keeps_its_level_over_many_rows() -> None:
    """The averages so far carry it: the row before alone would lose it within a few rows."""
    found = []
    for table, histories in (real(), drawn("trees")):
        values, places = table["value"].to_numpy(dtype=float)[histories.rows], histories.places
        later = np.flatnonzero(places > 6)
        found.append(float(np.corrcoef(values[later], values[later - 6])[0, 1]))
    assert abs(found[0] - found[1]) < 0.12


@pytest.mark.parametrize("name", FITS)
def test_what_is_said_of_an_entity_holds(name: str) -> None:
    table, histories = drawn(name)
    now, before = histories.pairs
    assert violations(table, patients_schema()) == []
    assert (table["sex"].to_numpy()[now] == table["sex"].to_numpy()[before]).all()
    for column in ("age", "visit"):
        values = table[column].to_numpy(dtype=int)
        assert (values[now] >= values[before]).all()
    visits = table["visit"].to_numpy(dtype=int)
    if name != "mst":
        assert (visits[now] == visits[before] + 1).mean() > 0.97
    # Rows of an entity stand side by side, in their order.
    shown = model(name).sample(500, seed=1)
    assert shown.groupby((shown["who"] != shown["who"].shift()).cumsum())["who"].first().is_unique
    assert shown.groupby("who")["day"].apply(lambda days: days.is_monotonic_increasing).all()


def test_no_entity_is_a_copy() -> None:
    """As many real histories of three rows and more are met again as in a fresh table of the same population."""
    table, _ = drawn("trees")
    fresh = conform(patients(N, seed=99), patients_schema())

    def histories(rows: pd.DataFrame) -> set[tuple[Any, ...]]:
        parts = rows.sort_values(["who", "day"]).groupby("who")
        return {(*part["state"], *part["value"].round(1)) for _, part in parts if len(part) > 2}

    known = histories(real()[0])
    met, by_chance = (len(histories(each) & known) for each in (table, fresh))
    assert met <= by_chance + 3


@pytest.mark.parametrize("name", FITS)
def test_a_saved_model_draws_the_same(name: str, tmp_path: Path) -> None:
    model(name).save(tmp_path / "model")
    again = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(again.sample(300, seed=5), model(name).sample(300, seed=5))
    assert again.statement == model(name).statement
    assert (again.statement is None) == (name in ("trees", "arn"))


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    model("trees").save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    whole = path.read_text()
    for change in (
        ('"averages": true', '"averages": 1'),
        ('"rows left"', '"row left"'),
        ('"n_given": 0', '"n_given": 9'),
    ):
        assert change[0] in whole
        path.write_text(whole.replace(*change, 1))
        with pytest.raises(ModelError, match="damaged"):
            registry.load_model(tmp_path / "model")


def test_files_hold_whole_histories(tmp_path: Path) -> None:
    written = write_rows(model("trees"), tmp_path / "rows", 3_000, seed=1, rows_a_file=1_000)
    parts = [pd.read_parquet(path) for path in sorted(written.folder.iterdir())]
    owners = [set(part["who"]) for part in parts]
    assert [len(part) for part in parts] == [1_000] * 3
    assert not owners[0] & owners[1]
    assert not owners[1] & owners[2]


def test_conditions_are_on_what_is_constant() -> None:
    assert set(model("trees").sample(200, seed=1, given={"sex": "f"})["sex"]) == {"f"}
    with pytest.raises(JobError, match="not in constant_in_entity"):
        model("trees").sample(200, given={"state": "ill"})
    with pytest.raises(JobError, match="not balanced"):
        model("trees").sample(200, balance={"sex": None})


@pytest.mark.parametrize("name", ["trees", "aim"])
def test_parents_that_are_known_have_their_rows(name: str) -> None:
    parents = pd.DataFrame({"who": [f"P-{n:06d}" for n in range(300)], "sex": ["m", "f"] * 150})
    counts = np.arange(300) % 4
    rows = model(name).rows_of(parents, counts, seed=1)
    assert (rows.groupby("who").size().reindex(parents["who"], fill_value=0).to_numpy() == counts).all()
    both = rows.merge(parents, on="who", suffixes=("", " of the parent"))
    assert (both["sex"] == both["sex of the parent"]).all()
    assert violations(rows, patients_schema()) == []


def test_parents_without_rows_have_none() -> None:
    parents = pd.DataFrame({"who": ["P-000001", "P-000002"], "sex": ["m", "f"]})
    rows = model("trees").rows_of(parents, np.zeros(2, dtype=np.int64), seed=1)
    assert len(rows) == 0
    assert list(rows.columns) == list(patients_schema().kept)


def by_identifier() -> tuple[pd.DataFrame, Schema]:
    content = patients_schema().model_dump(mode="json")
    content["columns"]["number"] = {"kind": "identifier", "bounds": [1, 10**9]}
    content |= {"order": "number", "nondecreasing_in_entity": ["visit", "day"]}
    table = patients(400)
    order = table.sort_values("day").index
    table["number"] = pd.Series(np.arange(len(table)), index=order) * 7 + 1_000
    return table, build_schema(content)


def test_an_identifier_may_give_the_order() -> None:
    table, schema = by_identifier()
    made = fit_model(registry.generator("trees", rounds=20), table, schema).sample(1_000, seed=1)
    assert made["number"].is_unique
    ordered = made.sort_values(["who", "number"])
    assert (ordered.groupby("who")["visit"].diff().dropna() >= 0).all()
    assert (ordered.groupby("who")["day"].diff().dropna() > pd.Timedelta(0)).all()


def test_an_entity_has_one_row_where_all_have() -> None:
    table = patients(300).drop_duplicates("who")
    found = fit_model(registry.generator("trees", rounds=10), table, patients_schema())
    assert isinstance(found, HistoryModel)
    assert found.later is None
    assert found.sample(100, seed=1)["who"].is_unique


def test_a_constraint_across_the_order_holds_in_every_row() -> None:
    content = patients_schema().model_dump(mode="json")
    content["columns"]["until"] = content["columns"]["day"]
    content["constraints"].append({"kind": "inequality", "low": "day", "high": "until"})
    table = patients(400)
    table["until"] = table["day"] + pd.Timedelta(days=3)
    made = fit_model(registry.generator("trees", rounds=20), table, build_schema(content)).sample(1_000, seed=1)
    assert (made["until"] >= made["day"]).all()


def test_generators_that_know_no_histories_say_so() -> None:
    schema, said = patients_schema(), {}
    for name, parameters in {
        "trees": {}, "arn": {}, "aim": {"epsilon": 1.0}, "mst": {"epsilon": 1.0}, "auto": {"epsilon": 1.0},
        "latent_class": {"epsilon": 1.0}, "ctgan": {}, "independent": {},
    }.items():  # fmt: skip
        said[name] = cautions(registry.generator(name, **parameters), schema)
    assert {name for name, sentences in said.items() if sentences} == {"latent_class", "ctgan", "independent"}
    assert "counts for nothing" in said["ctgan"][0]
    plain = schema.model_copy(update={"order": None, "nondecreasing_in_entity": ()})
    assert cautions(registry.generator("ctgan"), plain) == ()


@pytest.mark.parametrize("name", ["aim", "mst"])
def test_choices_from_noisy_pairs_draw_rows_independently_and_say_so(name: str) -> None:
    (caution,) = cautions(registry.generator(name, epsilon=1.0, choices="noisy_pairs"), patients_schema())
    assert caution.endswith('choices="noisy_pairs" reads rows alone; set choices="exponential"')


def test_a_budget_that_tells_no_pairs_draws_rows_independently_and_says_so() -> None:
    schema = patients_schema(n_units=400)
    generator = registry.generator("aim", epsilon=0.05)
    assert "raise epsilon" in cautions(generator, schema)[0]
    with pytest.warns(UserWarning, match="noise would hide how they follow each other"):
        found = synth.fit(patients(400), schema, "aim", epsilon=0.05)
    assert isinstance(found, MarginalModel)


def test_rows_drawn_alone_have_entities_of_their_sizes_whatever_is_constant() -> None:
    """A birthday that hardly two rows share by chance does not leave every entity with one row."""
    content = patients_schema().model_dump(mode="json") | {"order": None, "nondecreasing_in_entity": []}
    content["columns"]["born"] = {"kind": "date", "bounds": ["1930-01-01", "2010-12-31"]}
    content |= {"constant_in_entity": ["sex", "born"], "constraints": []}
    table = patients(600)
    days = np.random.default_rng(0).integers(0, 29_000, 600)
    table["born"] = np.datetime64("1930-01-01", "us") + days[table["who"].str[2:].astype(int)] * np.timedelta64(1, "D")
    made = fit_model(registry.generator("independent"), table, build_schema(content)).sample(seed=1)
    sizes = [each.groupby("who").size().mean() for each in (table, made)]
    assert abs(sizes[0] - sizes[1]) < 0.15 * sizes[0]
    assert len(made[["who", "sex", "born"]].drop_duplicates()) == made["who"].nunique()


def test_a_table_that_breaks_its_schema_is_refused() -> None:
    table = patients(100)
    table["age"] = table["age"].to_numpy()[::-1]
    with pytest.raises(TableError, match="falls within an entity"):
        fit_model(registry.generator("trees"), table, patients_schema())

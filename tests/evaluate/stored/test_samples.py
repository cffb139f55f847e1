"""Tables larger than their samples: what was not looked at is said, and never taken for safe."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate, evaluate_stored, measure_candidate
from evaluate.privacy import copies
from evaluate.real_facts import SampleSizes
from evaluate.result import Estimate, EvaluationError
from evaluate.sample_notes import on_samples
from evaluate.sampling import seeded_order, side_seed
from evaluate.tables import MetricResult, Real
from evaluate.utility import dp_alternative
from evaluate.utility.dp_alternative import PublicFeatures
from evaluate.utility.task import Task
from synth.errors import TableError
from synth.schema import build_schema
from synth.stored import StoredTable
from synth.stored.row_hash import POSITION
from tests.evaluate.stored.conftest import COLUMNS, Put, rows, schema_of, sides
from tests.synth.stored.conftest import LEFT_OPEN

LARGE = {"train": 1_500, "holdout": 900, "synthetic": 1_200}
ON_DUCKDB = pytest.mark.parametrize("put", ["duckdb"], indirect=True)
SERVERS_LATER = pytest.mark.parametrize(
    "put",
    ["duckdb", *(pytest.param(name, marks=[pytest.mark.slow, *LEFT_OPEN]) for name in ("postgres", "pyspark"))],
    indirect=True,
)


def prepared(stored: dict[str, StoredTable], *, entities: bool = False, sample_rows: int = 150) -> Real:
    return Real.prepare_stored(
        stored["train"], stored["holdout"], schema_of(entities=entities), seed=1, outside="clamp",
        sample_rows=sample_rows,
    )  # fmt: skip


@ON_DUCKDB
def test_a_sample_is_the_first_rows_of_the_seeded_order(put: Put) -> None:
    frames, schema = sides(n=LARGE), schema_of()
    real = prepared(put(frames))
    order = seeded_order(frames["train"], schema, side_seed(1, "train"))[:150]
    pd.testing.assert_frame_equal(
        real.train, frames["train"].iloc[order].reset_index(drop=True), check_dtype=False, check_like=True
    )
    assert (len(real.fresh) + len(real.control), len(real.shuffled)) == (150, 150)


@ON_DUCKDB
def test_a_sample_holds_whole_entities(put: Put) -> None:
    frames = sides(entities=True, n=LARGE)
    real = prepared(put(frames), entities=True, sample_rows=300)
    assert 200 < len(real.train) <= 300
    sizes = frames["train"]["who"].value_counts()
    assert real.train["who"].value_counts().eq(sizes.loc[real.train["who"].unique()]).all()


@SERVERS_LATER
def test_copies_are_counted_among_all_rows(put: Put) -> None:
    for entities in (False, True):
        frames = sides(entities=entities, n=LARGE)
        stored = put({f"{name}_{entities}": frame for name, frame in frames.items()})
        real = prepared({name: stored[f"{name}_{entities}"] for name in frames}, entities=entities)
        found = copies.measure(real.beside_stored(stored[f"synthetic_{entities}"])).estimates
        whole = Real.prepare(frames["train"], frames["holdout"], schema_of(entities=entities), seed=1)
        expected = copies.measure(whole.beside(frames["synthetic"])).estimates
        for there, here in zip(found, expected, strict=True):
            if not there.measure.endswith("excess"):  # which rests on a fresh sample, too
                numbers = [[e.value, e.low, e.high, e.n] for e in (there, here)]
                assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)


@SERVERS_LATER
def test_synthetic_rows_without_an_entity_stand_alone_as_in_memory(put: Put) -> None:
    frames, schema = sides(entities=True), schema_of(entities=True)
    frames["synthetic"].loc[::3, "who"] = None
    stored = put(frames)
    there = Real.prepare_stored(stored["train"], stored["holdout"], schema, seed=1).beside_stored(stored["synthetic"])
    here = Real.prepare(frames["train"], frames["holdout"], schema, seed=1).beside(frames["synthetic"])
    for name in ("privacy.copies", "fidelity.columns"):
        found, expected = (measure_candidate("a", tables, measures=[name]) for tables in (there, here))
        reasons = {failure.reason for failure in (*found.failures, *expected.failures)}
        assert reasons - {"not applicable"} == {"skipped"}
        for one, other in zip(found.estimates, expected.estimates, strict=True):
            assert (one.measure, one.subject) == (other.measure, other.subject)
            numbers = [[e.value, e.low, e.high] for e in (one, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=1e-9)


@ON_DUCKDB
def test_facts_are_of_all_rows_and_tell_of_samples(put: Put) -> None:
    frames = sides(n=LARGE)
    frames["train"] = pd.concat([frames["train"], frames["train"].head(30)], ignore_index=True)
    frames["holdout"] = pd.concat([frames["holdout"], frames["train"].head(12)], ignore_index=True)
    stored = put(frames)
    options = {"measures": ["privacy.copies"], "outside": "clamp"}
    there = evaluate_stored(**stored, schema=schema_of(), sample_rows=100, **options)
    here = evaluate(**frames, schema=schema_of(), **options)
    assert there.real.sampled == SampleSizes(100, 100)
    assert there.real.duplicate_share_train == pytest.approx(here.real.duplicate_share_train)
    sizes = [(one.shift.n_train, one.shift.n_holdout) for one in (there.real, here.real)]
    assert sizes == [(100, 100), tuple(map(len, list(frames.values())[:2]))]
    parts = ("sampled", "duplicate_share_train", "shift")
    assert replace(there.real, **{name: getattr(here.real, name) for name in parts}) == here.real


@ON_DUCKDB
def test_an_attack_on_a_sample_says_so_and_allows_for_what_it_did_not_search(put: Put) -> None:
    frames = sides(n={"train": 1_500, "holdout": 900, "synthetic": 3_000})
    stored = put(frames)
    found = evaluate_stored(
        **stored, schema=schema_of(), outside="clamp", sample_rows=120,
        measures=["privacy.membership", "utility.queries", "privacy.copies"],
    ).candidates[0]  # fmt: skip
    numbers = {estimate.measure: estimate for estimate in found.estimates}
    auc, queries = numbers["privacy.membership.auc"], numbers["utility.queries.excess"]
    said = "on seeded samples: 120 of 1,500 training, 120 of 900 held-out, 600 of 3,000 synthetic rows"
    assert said in auc.note and said in queries.note and "samples" not in numbers["privacy.copies"].note
    assert "80.0% of the rows" in auc.note and "not searched" not in queries.note
    assert auc.low is not None
    of_the_sample = 2 * auc.value - auc.low
    assert of_the_sample > 0.5
    assert auc.high == pytest.approx(0.5 + (of_the_sample - 0.5) / 0.2)


def estimate(value: float, low: float, high: float, name: str = "privacy.membership.auc") -> MetricResult:
    return MetricResult((Estimate(name, value, 1_000, "lower", low=low, high=high),))


@ON_DUCKDB
def test_the_upper_end_grows_with_the_share_that_was_not_searched(put: Put) -> None:
    stored = prepared(put(sides(n=LARGE))).beside_stored(put({"more": rows(1_500, 9)})["more"]).stored
    assert stored is not None and stored.searched == 0.5
    auc = on_samples("privacy.membership", estimate(0.52, 0.5, 0.55), stored).estimates[0]
    assert (auc.low, auc.value, auc.high) == (0.5, 0.52, pytest.approx(0.6))
    tpr = on_samples("privacy.membership", estimate(0.01, 0.0, 0.03, "privacy.membership.tpr_at_0.01"), stored)
    assert tpr.estimates[0].high == pytest.approx(0.05)
    told = replace(estimate(0.52, 0.5, 0.55).estimates[0], detectable=0.56)
    assert on_samples("privacy.membership", MetricResult((told,)), stored).estimates[0].detectable == pytest.approx(
        0.62
    )
    nothing = on_samples("privacy.personal", estimate(0.0, 0.0, 0.0, "privacy.personal"), stored).estimates[0]
    assert (nothing.low, nothing.high) == (0.0, 0.0)  # no column of the schema holds anybody's name
    sides_of_people = replace(stored.real.sides, schema=schema_of(entities=True))
    stored = replace(stored, real=replace(stored.real, sides=sides_of_people))
    all_real = replace(stored, real=replace(stored.real, n_sampled=stored.real.n_rows))
    personal = on_samples("privacy.personal", estimate(0.0, 0.0, 0.0, "privacy.personal"), all_real).estimates[0]
    assert personal.low == 0.0 and personal.high is not None and 0.0 < personal.high < 0.01
    leaked = on_samples("privacy.personal", estimate(0.01, 0.01, 0.01, "privacy.personal"), stored).estimates[0]
    assert leaked.low is not None and leaked.low > 0.0
    for name in ("privacy.personal", "privacy.personal.excess"):  # all of them may be of somebody outside the sample
        unseen = on_samples("privacy.personal", estimate(0.0, 0.0, 0.0, name), stored).estimates[0]
        assert (unseen.low, unseen.high) == (0.0, 1.0)
    whole = replace(stored, n_sampled=1_500, real=replace(stored.real, n_sampled=stored.real.n_rows))
    assert on_samples("privacy.membership", estimate(0.52, 0.5, 0.55), whole) == estimate(0.52, 0.5, 0.55)


@ON_DUCKDB
def test_who_is_singled_out_in_a_part_of_the_table_rules_nothing_out(put: Put) -> None:
    """What is alone in a sample of the synthetic table may be one of many in the table."""
    frames = sides(n=LARGE)
    name, stored = "privacy.singling_out.univariate", put({**frames, "more": rows(1_500, 9), "few": rows(700, 8)})
    found = {}
    for table in ("more", "few"):
        of = prepared(stored).beside_stored(stored[table]).stored
        assert of is not None
        found[table] = on_samples("privacy.singling_out", estimate(0.01, 0.0, 0.02, name), of).estimates[0]
    assert (found["more"].low, found["more"].high) == (0.0, 1.0) and "may hold anything" in found["more"].note
    assert found["few"].high == pytest.approx(0.02 * 1_500 / 150)
    assert "among the people of the sample" in found["few"].note


@ON_DUCKDB
def test_a_model_that_learns_from_a_sample_has_the_noise_that_all_rows_allow(put: Put) -> None:
    frames = sides(n=LARGE)
    stored = put(frames)
    tables = prepared(stored).beside_stored(stored["synthetic"])
    target = dp_alternative.Target.of(tables.declared, Task.of(tables, "smoker"))
    units, share = dp_alternative.units_of(tables, PublicFeatures.of(tables.declared), target, 1)
    assert (len(units), share) == (150, pytest.approx(0.1))


@ON_DUCKDB
def test_a_copy_is_found_whatever_the_sample(put: Put) -> None:
    frames = sides(n=LARGE)
    stored = put({**frames, "copy": frames["train"]})
    real = prepared(stored, sample_rows=60)
    numbers = {e.measure: e for e in copies.measure(real.beside_stored(stored["copy"])).estimates}
    assert numbers["privacy.copies.excess"].value > 0.95
    multiset = numbers["privacy.multiset"]
    assert multiset.high is not None and multiset.high < 0.05


def test_a_holdout_that_is_not_held_out_is_refused(put: Put) -> None:
    frames = sides(n=LARGE)
    stored = put({"train": frames["train"], "holdout": frames["train"].head(400)})
    with pytest.raises(EvaluationError, match="held out"):
        prepared(stored)


@ON_DUCKDB
def test_what_does_not_fit_is_refused_before_anything_is_drawn(put: Put) -> None:
    frames = sides(n=LARGE)
    frames["holdout"].loc[7, "age"] = 1_000
    stored = put({**frames, "few": rows(20, 4), "single": rows(1, 5), "less": frames["train"].drop(columns="age")})
    with pytest.raises(TableError, match=r"^holdout: column='age'"):
        Real.prepare_stored(stored["train"], stored["holdout"], schema_of())
    with pytest.raises(EvaluationError, match="at least 40 rows of holdout"):
        Real.prepare_stored(stored["train"], stored["few"], schema_of())
    with pytest.raises(TableError, match=r"^train: column='age'"):
        Real.prepare_stored(stored["less"], stored["holdout"], schema_of())
    real = prepared(stored)
    with pytest.raises(EvaluationError, match="at least 2 rows"):
        real.beside_stored(stored["single"])
    with pytest.raises(TableError, match=r"^synthetic: column='age'"):
        real.beside_stored(stored["less"])
    with pytest.raises(EvaluationError, match="stays where it is stored"):
        real.beside(frames["synthetic"])
    with pytest.raises(EvaluationError, match="are in memory"):
        Real.prepare(frames["train"], rows(300, 6), schema_of()).beside_stored(stored["synthetic"])


@ON_DUCKDB
def test_drawn_rows_of_a_side_are_those_of_its_order(put: Put) -> None:
    frames, schema = sides(n=LARGE), schema_of()
    stored = put(frames)
    tables = prepared(stored).beside_stored(stored["synthetic"])
    assert tables.stored is not None
    for side in ("train", "synthetic", "holdout"):
        drawn = tables.stored.drawn(side, 400)
        found = drawn.place.fetch(drawn.rows.order_by(POSITION)).column("score").to_numpy()
        order = seeded_order(frames[side], schema, side_seed(1, side))[:400]
        np.testing.assert_array_equal(found, frames[side]["score"].to_numpy()[order])
        assert tables.stored.drawn(side, 400) is drawn


@ON_DUCKDB
def test_domains_that_are_not_declared_are_read_off_both_sides(put: Put) -> None:
    measured = {
        name: {"kind": COLUMNS[name]["kind"], "measure": True, "missing": True}
        for name in ("age", "score", "since", "region")
    }
    schema = build_schema({"status": "declared", "n_units": 9_999, "columns": measured})
    frames = {name: frame[list(measured)] for name, frame in sides(n=LARGE).items()}
    stored = put(frames)
    there = Real.prepare_stored(stored["train"], stored["holdout"], schema, outside="clamp")
    assert there.schema == Real.prepare(frames["train"], frames["holdout"], schema, outside="clamp").schema

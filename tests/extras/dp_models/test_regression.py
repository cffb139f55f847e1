import numpy as np
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from evaluate.utility.task import Task
from synth.schema import build_schema
from tests.evaluate.test_large_tables import real_of, sides
from tests.evaluate.utility.conftest import COLUMNS, population, reordered, schema_of, values
from tests.evaluate.utility.test_task import INTEGER, coded
from tests.evaluate.utility.test_task import estimates as estimates_of
from tests.evaluate.utility.test_task import tables as task_tables
from tests.evaluations import stated
from understudy.extras.dp_models import regression
from understudy.extras.dp_models.regression import Target, encode, public_columns, units_of

CLAIM = stated(epsilon=3.0, delta=1e-5, n_units=600)
GAP = regression.GAP


@pytest.fixture(scope="module")
def tables(make):
    """Their plain models are fitted once; each measurement trains a private one."""
    return make(claim=CLAIM)


@pytest.fixture(scope="module")
def found(tables):
    return {e.measure: e for e in regression.measure(tables).estimates}


def test_a_model_without_a_table_costs_privacy_but_not_much_of_it(found):
    assert found[GAP].floor > 0.2 and found[GAP].reference < 0.02
    assert found[GAP].low < found[GAP].value < found[GAP].high


def test_against_a_useless_table_training_directly_wins(make):
    bad = make(claim=CLAIM, synthetic=lambda train: shuffle_columns(train, np.random.default_rng(5)))
    gap = {e.measure: e for e in regression.measure(bad).estimates}[GAP]
    assert gap.value > 0.1


@pytest.mark.statistical
def test_less_privacy_makes_a_better_model(make):
    strict = regression.measure(make(claim=stated(epsilon=0.05, delta=1e-5, n_units=600))).estimates[0]
    loose = regression.measure(make(claim=stated(epsilon=10.0, delta=1e-5, n_units=600))).estimates[0]
    assert strict.value < loose.value - 0.02


def test_numbers_are_predicted_too(make):
    gap = regression.measure(make(schema_of("amount"), claim=stated(epsilon=10.0, delta=1e-5, n_units=600))).estimates[
        0
    ]
    assert gap.floor > 0.3 and gap.reference < 0.02


def test_rows_of_an_entity_are_one_unit(make):
    claim = stated(epsilon=5.0, delta=1e-5, n_units=300, max_rows_per_unit=2)
    gap = regression.measure(make(schema_of(entity="who", max_rows_per_unit=2), claim=claim)).estimates[0]
    assert gap.floor > 0.1


def test_the_order_of_rows_and_columns_does_not_matter(make, found):
    again = values(regression.measure(reordered(make(claim=CLAIM))))
    assert again[GAP, ()] == pytest.approx(found[GAP].value, abs=0.02)


def _skipped(tables):
    measurement = regression.measure(tables)
    assert not measurement.estimates and {f.measure for f in measurement.failures} == {GAP}
    return {f.message for f in measurement.failures}.pop()


def test_what_cannot_be_trained_privately_is_said(make):
    assert "no privacy claim" in _skipped(make())
    assert "no target" in _skipped(make(schema_of(None), claim=CLAIM))
    assert "inferred" in _skipped(make(schema_of().model_copy(update={"status": "inferred"}), claim=CLAIM))


def test_a_column_whose_domain_is_to_be_measured_is_left_out():
    columns = {**COLUMNS, "x": {"kind": "real", "measure": True, "missing": True}}
    schema = build_schema({"status": "declared", "n_units": 600, "columns": columns, "target": "y"})
    assert [column.name for column in public_columns(schema).columns] == ["group", "hours", "sex"]


def test_public_features_are_of_length_one_at_most_whatever_the_values():
    frame = population(300, np.random.default_rng(0))
    X = encode(public_columns(schema_of()), frame.assign(x=frame["x"] * 100, group="unheard of"))
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-6


def test_tables_know_what_was_stated_of_the_synthetic_one():
    statement = stated(n_units=10, max_rows_per_unit=3, unit="who")
    frame = population(400, np.random.default_rng(1))[list(schema_of().kept)].assign(who=range(400))
    tables = Tables.prepare(frame[:200], frame[200:300], frame[300:], schema_of(), statement=statement)
    assert tables.claim == statement


def test_of_many_units_a_sample_is_learned_from_with_the_noise_that_all_allow(tables, found, monkeypatch):
    monkeypatch.setattr(regression, "MAX_UNITS", 300)
    sampled = regression.measure(tables).estimates[0]
    assert sampled.value == pytest.approx(found[GAP].value, abs=0.05)
    assert sampled.note.split(":")[1] == found[GAP].note.split(":")[1]


def test_a_sample_smaller_than_one_step_takes_is_learned_from_as_a_whole_with_less_noise(tables, found, monkeypatch):
    monkeypatch.setattr(regression, "MAX_UNITS", 60)
    sampled = regression.measure(tables).estimates[0]
    assert sampled.value == pytest.approx(found[GAP].value, abs=0.1)
    assert sampled.note.split(":")[1] == found[GAP].note.split(":")[1]


def test_a_model_that_learns_from_a_sample_has_the_noise_that_all_rows_allow() -> None:
    frames = sides()
    tables = real_of(frames).beside(frames["synthetic"])
    target = Target(tables.declared, Task.of(tables, "smoker"))
    units, share = units_of(tables, public_columns(tables.declared), target.encode(tables.train))
    assert (len(units), share) == (150, pytest.approx(0.1))


def test_a_private_model_of_a_number_of_two_values_predicts_classes() -> None:
    found = estimates_of(regression.measure(task_tables(INTEGER, coded)))[GAP]
    assert found.floor > 0.1 and found.reference < 0.02
    wide = regression.measure(task_tables({"kind": "integer", "bounds": [0, 90]}, coded))
    assert all("its classes are not public" in failure.message for failure in wide.failures)

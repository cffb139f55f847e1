"""The privacy benchmark: anonymeter's definitions against brute force and its own numbers."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.anonymeter_neighbors import guessed, links, right, ties
from benchmarks.anonymeter_predicates import Different, Predicate, control_successes, multivariate, univariate
from benchmarks.anonymeter_risk import risk


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    towns = np.array(["Ulm", "Bonn", "", None], dtype=object)
    frame = pd.DataFrame({"age": rng.integers(18, 60, 300), "town": towns[rng.integers(4, size=300)]})
    return frame.assign(pay=np.where(rng.random(300) < 0.1, np.nan, rng.lognormal(8, 1, 300).round()))


@pytest.mark.parametrize(
    ("attack", "control", "expected"),
    [
        ((300, 1000), (100, 1000), (0.22174897801800716, 0.18630327453385237, 0.25719468150216196)),
        ((1000, 1000), (25.01, 1000), (0.9980338741785482, 0.9960676480696359, 1.0)),
        ((10, 500), (30, 500), (0.0, 0.0, 0.0)),
    ],
)
def test_the_risk_is_what_anonymeter_says(
    attack: tuple[float, float], control: tuple[float, float], expected: tuple[float, ...]
) -> None:
    """Numbers of `anonymeter.stats.confidence.EvaluationResults` 1.1.0."""
    assert tuple(vars(risk(attack, control)).values()) == pytest.approx(expected, abs=1e-12)


def test_a_predicate_counts_the_different_rows_that_it_holds_for(people: pd.DataFrame) -> None:
    twice = Different(pd.concat([people, people.head(50)]))
    predicates: list[Predicate] = [
        (("age", "ge", 40), ("town", "eq", "Ulm")),
        (("town", "null", None), ("pay", "le", 2000.0)),
        (("town", "eq", "nowhere"),),
        (("pay", "null", None),),
    ]
    rows = people.drop_duplicates()
    expected = [
        ((rows["age"] >= 40) & (rows["town"] == "Ulm")).sum(),
        (rows["town"].isna() & (rows["pay"] <= 2000)).sum(),
        0,
        rows["pay"].isna().sum(),
    ]
    assert twice.counts(predicates).tolist() == expected


def test_predicates_single_out_a_synthetic_row_each_and_the_same_in_a_copy(people: pd.DataFrame) -> None:
    synthetic, copy = Different(people), Different(people.sample(frac=1, random_state=0))
    for result in (
        univariate(synthetic, 100, np.random.default_rng(0)),
        multivariate(synthetic, 20, 2, np.random.default_rng(0)),
    ):
        assert len(set(result)) == len(result) >= 20
        assert (synthetic.counts(result) == 1).all()
        assert (copy.counts(result) == 1).all()


def test_predicates_on_several_columns_look_away_from_the_median(people: pd.DataFrame) -> None:
    result = multivariate(Different(people), 20, 2, np.random.default_rng(1))
    ages = [condition for predicate in result for condition in predicate if condition[0] == "age"]
    middle = people.drop_duplicates()["age"].median()
    assert ages
    assert all(operator == ("ge" if value > middle else "le") for _, operator, value in ages)
    assert all(json.loads(json.dumps(predicate)) for predicate in result), "the peer reads them from a file"


def test_successes_on_a_smaller_control_are_brought_to_the_size_of_train() -> None:
    """Predicates true of one row in 10,000 each or of none: four times as many rows, four times as many successes."""
    rng = np.random.default_rng(3)
    control = Different(pd.DataFrame({"id": np.arange(2000)}))
    predicates: list[Predicate] = [(("id", "eq", int(value)),) for value in rng.choice(10_000, 1000, replace=False)]
    counted = int((control.counts(predicates) == 1).sum())
    assert control_successes(control, 2000, predicates, rng) == counted
    assert control_successes(control, 8000, predicates, rng) == pytest.approx(4 * counted, rel=0.1)


def test_the_nearest_rows_are_those_that_a_loop_over_all_pairs_finds(people: pd.DataFrame) -> None:
    targets, synthetic = people.head(7), people.tail(60).reset_index(drop=True)
    whole = pd.concat([targets, synthetic])
    span = {name: whole[name].max() - whole[name].min() for name in ("age", "pay")}

    def apart(each: Any, other: Any) -> float:
        towns = float(not (each.town == other.town or (pd.isna(each.town) and pd.isna(other.town))))
        gaps = [(getattr(each, name), getattr(other, name), span[name]) for name in span]
        numbers = sum(1.0 if pd.isna(a) and pd.isna(b) else abs(a - b) / width for a, b, width in gaps)
        return towns + numbers

    result = list(ties(targets, synthetic, list(people.columns)))
    for target, near in zip(targets.itertuples(), result, strict=True):
        distances = np.array([apart(target, row) for row in synthetic.itertuples()])
        assert near.tolist() == np.flatnonzero(distances <= np.nanmin(distances) + 1e-12).tolist()


def test_targets_that_were_copied_are_linked_and_their_secrets_guessed() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.random(80) + 1 for name in "abc"})
    assert links(frame.head(20), frame, (["a"], ["b", "c"])) == (20, 20.0)
    assert guessed(frame.head(20), frame, "c") == (20, 20.0)
    assert links(frame.head(20), frame.tail(40), (["a"], ["b", "c"]))[0] <= 5


def test_equally_near_rows_count_by_their_share() -> None:
    synthetic = pd.DataFrame({"known": ["a", "a", "b"], "secret": ["yes", "no", "no"]})
    target = pd.DataFrame({"known": ["a"], "secret": ["yes"]})
    assert guessed(target, synthetic, "secret") == (1, 0.5)


def test_a_guess_is_right_by_anonymeters_rule() -> None:
    assert right(np.array([0.0, 104.0, 106.0, np.nan]), 100.0).tolist() == [False, True, False, False]
    assert right(np.array([-5.0]), 100.0).tolist() == [True], "as there: a negative guess is right whatever the secret"
    assert right(np.array(["x", None], dtype=object), None).tolist() == [False, True]

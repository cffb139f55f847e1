from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.privacy import quasi_identifiers
from evaluate.privacy.quasi_identifiers import EquivalenceClasses, equivalence_classes, excess_of
from evaluate.result import Failure
from synth.schema import build_schema

EXCESS = "privacy.quasi_identifiers.excess"
RATIOS = [(800, 100, 100, 100), (400, 200, 200, 200), (200, 200, 200, 200)]
"""Rows of train, both halves of the holdout and synthetic: ratios of 4:1, 1:1, 1:2 between train and holdout."""


def levels(shares):
    """Some columns of categories that hang together, as many levels in each as said."""

    def population(n, rng):
        base = rng.beta(2, 4, n)
        columns = {}
        for i, k in enumerate(shares):
            codes = np.floor(np.clip(base + 0.15 * rng.standard_normal(n), 0, 0.999) * k).astype(int)
            columns[f"q{i}"] = np.array([f"v{code}" for code in codes], dtype=object)
        return pd.DataFrame({**columns, "x": rng.standard_normal(n)})

    return population


def long_tail(n, rng):
    """One column in which few values are frequent and many are rare."""
    values = np.minimum(rng.zipf(1.5, n), 10**6)
    return pd.DataFrame({"q": np.array([f"v{value}" for value in values], dtype=object), "x": rng.standard_normal(n)})


def ages(n, rng):
    """Two columns of numbers, one of them with missing values."""
    frame = pd.DataFrame({"q0": rng.geometric(0.03, n).astype(float), "q1": rng.integers(0, 3, n).astype(float)})
    return frame.assign(q0=frame["q0"].mask(rng.random(n) < 0.05), x=rng.standard_normal(n))


KINDS = {
    "many levels": levels((200, 50, 6)), "some levels": levels((60, 8, 6)), "few levels": levels((10, 5, 4)),
    "long tail": long_tail, "ages": ages,
}  # fmt: skip


def named(tables, columns=None):
    """The tables with a schema that names quasi-identifiers."""
    columns = [name for name in tables.train if name[0] == "q"] if columns is None else columns
    schema = build_schema({**tables.schema.model_dump(), "quasi_identifiers": columns})
    return replace(tables, schema=schema, declared=schema)


def by_name(tables):
    measurement = quasi_identifiers.measure(tables)
    return {one.measure: one for one in (*measurement.estimates, *measurement.failures)}


def by_hand(evaluate_frames, train, control, synthetic):
    """Tables of one column, each row a letter."""
    frames = [pd.DataFrame({"q": np.array(list(rows), dtype=object)}) for rows in (train, control, synthetic)]
    return named(evaluate_frames(frames[0], frames[1], frames[1], frames[2]))


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", RATIOS)
def test_half_of_the_holdout_as_synthetic_gives_no_excess_at_any_ratio(kinds_drawn, sizes):
    """Of 100 draws; right intervals exceed the bound once in a million runs, intervals of half the width nearly always.

    A draw in which nobody of one side is alone gives no number.
    """
    found = [one for one in kinds_drawn(sizes, 20) if not isinstance(one, Failure)]
    assert len(found) >= 90
    missed = [one for one in found if not one.low <= 0 <= one.high]
    assert len(missed) <= stats.binom.isf(1e-6, len(found), 0.05), missed


@pytest.fixture
def kinds_drawn(draw):
    """The excess in some draws of each kind, nothing leaked."""

    def drawn(sizes, n_seeds):
        for kind in KINDS:
            for seed in range(n_seeds):
                yield by_name(named(draw(KINDS[kind], sizes, seed=20_000 + seed)))[EXCESS]

    return drawn


@pytest.mark.parametrize("sizes", RATIOS)
@pytest.mark.parametrize("kind", ["many levels", "some levels", "long tail", "ages"])
def test_a_copy_alarms_at_every_ratio(kind, sizes, draw):
    found = quasi_identifiers.measure(named(draw(KINDS[kind], (*sizes[:3], sizes[0]), seed=1, leak=1.0)))
    alone, excess = found.figures["quasi_identifiers"]["classes"][0], found.estimates[0]
    assert alone["train"] == alone["train_matched"] > 0
    assert excess.low > 0.3
    assert 0 < excess.detectable < excess.value


def test_people_who_are_alone_are_counted_by_hand(evaluate_frames):
    # a is alone in train; of the control rows x and y are, as train without its last row has neither.
    found = by_hand(evaluate_frames, "abbccccccb", "bxxy", "abx")
    train, control = equivalence_classes(found, ["q"])
    assert [len(train.of_size(size, size)) for size in (1, 3, 6)] == [1, 3, 6] and len(train) == 10
    alone = control.of_size(1, 1)
    assert (len(alone), alone.n_matched) == (3, 2)
    assert train.of_size(1, 1).rate[0] == 1.0
    assert by_name(found)[EXCESS].value == pytest.approx(1 / 3)


def test_classes_of_k_count_everybody_once(draw):
    tables = named(draw(KINDS["few levels"], (300, 100, 100, 80), seed=1))
    classes = quasi_identifiers.measure(tables).figures["quasi_identifiers"]["classes"]
    assert [one["k"] for one in classes] == ["1", "2-4", "5+"]
    assert sum(one["train"] for one in classes) == 300
    assert sum(one["control"] for one in classes) == 100
    for one in classes:
        assert one["train_matched"] <= one["train"] and one["control_matched"] <= one["control"]


def share_alone(people):
    return len(people.of_size(1, 1)) / len(people)


def test_members_and_others_are_alone_equally_often(draw):
    """Both among as many people, whatever the sizes of the tables are; four standard errors are allowed for."""
    for sizes in RATIOS:
        gaps = []
        for seed in range(12):
            train, control = equivalence_classes(
                named(draw(KINDS["some levels"], sizes, seed=seed)), ["q0", "q1", "q2"]
            )
            gaps.append(share_alone(train) - share_alone(control))
        assert abs(np.mean(gaps)) <= 4 * np.std(gaps) / 12**0.5


def test_of_every_entity_one_row_is_a_person(draw):
    tables = draw(KINDS["many levels"], (200, 80, 80, 100), seed=1)
    columns = {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 10**9]}}
    schema = build_schema({"status": "inferred", "columns": columns, "entity": "who"})

    def twice(frame):
        return pd.concat([frame, frame], ignore_index=True).assign(who=list(range(len(frame))) * 2)

    sides = {side: twice(getattr(tables, side)) for side in ("train", "control", "synthetic")}
    train, control = equivalence_classes(
        named(replace(tables, schema=schema, declared=schema, **sides)), ["q0", "q1", "q2"]
    )
    assert (len(train), len(control)) == (200, 80)
    assert share_alone(train) > 0.5


@pytest.mark.parametrize("columns", [[], ["who"]])
def test_without_quasi_identifiers_that_are_learned_nothing_is_counted(columns, draw):
    tables = draw(KINDS["few levels"], (100, 50, 50, 60), seed=1)
    kinds = {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 9]}}
    schema = build_schema({"status": "inferred", "columns": kinds})
    found = by_name(named(replace(tables, schema=schema), columns))
    assert {one.reason for one in found.values()} == {"skipped"}
    assert "names no quasi-identifiers" in found[EXCESS].message


def test_where_nobody_is_alone_nothing_is_counted(draw, make):
    found = by_name(named(draw(make["many duplicates"], (400, 100, 100, 100), seed=1), ["a", "b"]))
    assert "nobody is alone" in found[EXCESS].message


def test_the_order_of_rows_does_not_matter(draw, evaluate_frames):
    tables = named(draw(KINDS["ages"], (200, 100, 100, 200), seed=2, leak=0.1))
    rng = np.random.default_rng(0)
    frames = (tables.train, tables.fresh, tables.control, tables.synthetic)
    moved = named(evaluate_frames(*(f.iloc[rng.permutation(len(f))] for f in frames), seed=tables.seed))
    assert by_name(moved) == by_name(tables)


def drawn_excess(kind, sizes, n_draws, leak=0.0):
    """The excess and its interval in independent draws of train, control and synthetic, a share of the last copied."""
    found, (n_train, n_control, n_synthetic) = [], sizes
    for seed in range(n_draws):
        frame = KINDS[kind](sum(sizes), np.random.default_rng(seed))
        keys = frame.drop(columns="x").astype(str).sum(axis=1).factorize()[0]
        train, control, synthetic = np.split(keys, [n_train, n_train + n_control])
        n_leaked = round(leak * n_synthetic)
        synthetic = np.unique(np.concatenate([train[:n_leaked], synthetic[n_leaked:]]))
        others = times(train, train) - 1, times(control, train[:-1])
        matched = [np.isin(side, synthetic) for side in (train, control)]
        sides = [EquivalenceClasses.of(*side) for side in zip((train, control), others, matched, strict=True)]
        if all(len(side.of_size(1, 1)) for side in sides):
            found.append(excess_of(*sides))
    return np.array(found)


def times(keys, among):
    """How often each key occurs among others."""
    return np.bincount(among, minlength=keys.max() + 1)[keys]


def test_without_a_leak_few_intervals_lie_above_zero():
    low = drawn_excess("few levels", (200, 100, 100), 60)[:, 1]
    assert np.mean(low > 0) <= 0.025 + 3 * (0.025 * 0.975 / len(low)) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(800, 100, 400), (400, 200, 200), (200, 200, 200), (200, 200, 50)])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_without_a_leak_lie_above_zero_in_no_more_than_a_fortieth(kind, sizes):
    """Of 400 draws; two and a half standard errors of a share of 2.5% are allowed for."""
    low = drawn_excess(kind, sizes, 400)[:, 1]
    assert np.mean(low > 0) <= 0.025 + 2.5 * (0.025 * 0.975 / len(low)) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("leak", [0.1, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_under_a_leak_hold_the_mean_excess(kind, leak):
    """At least 93 of 100 draws."""
    found = drawn_excess(kind, (400, 200, 400), 300, leak)
    mean = found[:, 0].mean()
    assert np.mean((found[:, 1] <= mean) & (mean <= found[:, 2])) >= 0.93

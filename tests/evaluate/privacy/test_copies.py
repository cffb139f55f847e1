"""Copies of people, of their values, of parts of rows, and near them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.intervals import newcombe, wilson
from evaluate.privacy import copied_parts, copies
from evaluate.privacy.copies import chi_square
from synth.schema import build_schema

LIMIT = 0.05


def by_name(measurement):
    return {estimate.measure: estimate for estimate in measurement.estimates}


def test_a_copy_alarms_whatever_its_make(population, draw):
    tables = draw(population, (1000, 500, 500, 1000), seed=1, leak=1.0)
    result = by_name(copies.measure(tables))
    assert result["privacy.copies"].value == 1.0
    assert result["privacy.multiset"].high < LIMIT


@pytest.mark.parametrize(
    ("n_synthetic", "n_holdout", "most"), [(4000, 1000, 0.001), (1000, 1000, 0.001), (300, 1200, 0.002)]
)
def test_rows_that_equal_training_rows_as_often_as_held_out_ones_are_hardly_ever_certain_copies(
    n_synthetic, n_holdout, most
):
    for share in (0.0005, 0.005, 0.03):
        hits = [stats.binom(n, share) for n in (n_synthetic, n_holdout)]
        rates = [
            [(part.pmf(k), wilson(k / n, n, copies.CERTAINLY)) for k in range(int(part.isf(1e-8)) + 1)]
            for part, n in zip(hits, (n_synthetic, n_holdout), strict=True)
        ]
        assert sum(p * q for p, a in rates[0] for q, b in rates[1] if newcombe(a, b)[1] > 0) <= most


def test_mean_and_variance_of_the_chi_square_are_exact():
    rng, both, n = np.random.default_rng(0), np.array([5, 9, 1, 1, 2, 30, 2]), 20
    draws = rng.multivariate_hypergeometric(both, n, size=5_000)
    result = [chi_square([np.array([draw, both - draw])]) for draw in draws]
    values = np.array([each.statistic for each in result])
    assert values.mean() == pytest.approx(result[0].mean, abs=4 * values.std() / 5_000**0.5)
    assert values.var() == pytest.approx(result[0].variance, rel=0.05)


def test_a_copy_under_swapped_sides_alarms_whatever_its_make_and_an_honest_table_does_not(
    population, draw, evaluate_frames
):
    tables = draw(population, (600, 300, 300, 600), seed=4)
    halves = tables.train[:300], tables.train[300:]
    swapped = evaluate_frames(tables.holdout, *halves, tables.train)
    result = by_name(copies.measure(swapped))
    assert result["privacy.copies.holdout"].low > 0.5 or result["privacy.multiset"].high < LIMIT
    honest = by_name(copies.measure(tables))
    assert honest["privacy.copies.holdout"].low == 0.0
    copied = by_name(copies.measure(evaluate_frames(tables.train, tables.fresh, tables.control, tables.train)))
    assert copied["privacy.copies.holdout"].low == 0.0


def coarse(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Twelve answers of four kinds of people: half of the rows repeat another one."""
    kind, answers = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]), {}
    odds = np.random.default_rng(0)
    for i, n_levels in enumerate([2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 2]):
        shares = odds.dirichlet(np.full(n_levels, 0.7), 4)[kind].cumsum(axis=1)
        level = (shares < rng.random(n)[:, None]).sum(axis=1).clip(0, n_levels - 1)
        answers[f"a{i}"] = np.array([f"v{each}" for each in level], dtype=object)
    return pd.DataFrame(answers)


def rarest_first(frame: pd.DataFrame) -> np.ndarray:
    surprise = sum(-np.log(frame[name].map(frame[name].value_counts(normalize=True))) for name in frame)
    return np.argsort(-surprise.to_numpy(), kind="stable")


def test_the_most_outlying_people_of_a_coarse_table_are_certain_and_only_as_they_are_tested_apart(
    draw, evaluate_frames, monkeypatch
):
    tables = draw(coarse, (4600, 1200, 1200, 4600), seed=1)
    leaked = tables.train.iloc[rarest_first(tables.train)[:46]]
    spoiled = pd.concat([tables.synthetic.iloc[46:], leaked])
    for rows, certain in ((spoiled, True), (tables.synthetic, False)):
        result = by_name(copies.measure(evaluate_frames(tables.train, tables.fresh, tables.control, rows)))
        assert (result["privacy.copies.people"].low > 0) == certain
    monkeypatch.setattr(copies, "RAREST", ())
    result = by_name(copies.measure(evaluate_frames(tables.train, tables.fresh, tables.control, spoiled)))
    assert result["privacy.copies.people"].low == 0


def mixed_answers(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """The same beside three answers that nothing explains."""
    others = {f"b{i}": rng.choice(np.array(["u", "v", "w"], dtype=object), n) for i in range(3)}
    return coarse(n, rng).assign(**others)


def test_people_copied_at_random_from_a_coarse_table_are_certain_as_all_are_weighed(draw, evaluate_frames, monkeypatch):
    tables = draw(mixed_answers, (2800, 1050, 1050, 2100), seed=2)
    spoiled = pd.concat([tables.synthetic.iloc[63:], tables.train.iloc[:63]])
    for rows, certain in ((spoiled, True), (tables.synthetic, False)):
        result = by_name(copies.measure(evaluate_frames(tables.train, tables.fresh, tables.control, rows)))
        assert (result["privacy.copies.people"].low > 0) == certain
    monkeypatch.setattr(copies._Rows, "weighed", lambda *_: 0.0)
    result = by_name(copies.measure(evaluate_frames(tables.train, tables.fresh, tables.control, spoiled)))
    assert result["privacy.copies.people"].low == 0


@pytest.mark.statistical
def test_fresh_rows_of_a_coarse_table_copy_nobody(draw):
    """Of 40 tables; at two in a thousand each, three and more happen once in 15,000 runs."""
    lows = [
        by_name(copies.measure(draw(coarse, (1200, 500, 500, 1000), seed=seed)))["privacy.copies.people"].low
        for seed in range(40)
    ]
    assert np.sum(np.array(lows) > 0) < 3


def test_a_row_is_expected_as_often_as_equal_rows_near_rows_and_its_values_say(evaluate_frames):
    frame = pd.DataFrame({"a": ["x"] * 6 + ["y"] * 2, "b": ["k"] * 4 + ["l"] * 4})
    tables = evaluate_frames(frame, frame[:4], frame[4:], frame[:7])
    rows = [tuple(row) for part in (tables.train, tables.holdout, tables.synthetic) for row in part.to_numpy()]
    result = copies._Rows.of(tables, ["a", "b"])
    shares = {"x": 0.75, "y": 0.25, "k": 0.5, "l": 0.5}
    for i, (a, b) in enumerate(rows[:16]):
        near = sum(shares[a] * (r[0] != a and r[1] == b) + shares[b] * (r[0] == a and r[1] != b) for r in rows) / 2
        assert result.density[i] == pytest.approx(rows[:16].count((a, b)) - 1 + near + 23 * shares[a] * shares[b])
        assert result.surprise[i] == pytest.approx(-np.log(shares[a] * shares[b]))


PEOPLE, VALUES, PARTS, NEAR = (f"privacy.copies.{name}" for name in ("people", "values", "parts", "near"))
SIZES = (2000, 1000, 1000, 2000)


def both_by_name(tables):
    result = (copies.measure(tables), copied_parts.measure(tables))
    return {each.measure: each for part in result for each in (*part.estimates, *part.failures)}


def with_synthetic(tables, rows):
    return replace(tables, synthetic=rows.reset_index(drop=True).reset_index(drop=True))


@pytest.mark.statistical
def test_an_independent_sample_copies_nobody(population, draw):
    for seed, sizes in enumerate([(1200, 300, 300, 800), (600, 600, 600, 600), (400, 800, 800, 1200)]):
        result = both_by_name(draw(population, sizes, seed=seed + 30))
        for name in (PEOPLE, VALUES, PARTS, NEAR):
            assert result[name].low == 0.0, name


def test_ten_people_of_a_thousand_are_certain_also_where_they_are_the_most_outlying(draw, make):
    tables = draw(make["mixed"], (1000, 500, 500, 1000), seed=1)
    far = tables.train["x0"].abs().sort_values(ascending=False).index
    for copied in (tables.train.head(10), tables.train.loc[far].head(10)):
        result = both_by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[10:], copied])))[PEOPLE]
        assert result.low > 0.0
        assert result.value == pytest.approx(0.01)
        assert "about 10 people" in result.note


def test_neither_bounds_nor_categories_are_anybodys_own_values(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=3)
    schema = build_schema({
        **tables.schema.model_dump(),
        "columns": {n: {"kind": "real", "bounds": [-0.25, 0.25], "missing": True} for n in tables.schema.columns},
    })  # fmt: skip
    frames = {name: getattr(tables, name).clip(-0.25, 0.25) for name in ("train", "fresh", "control", "synthetic")}
    result = both_by_name(replace(tables, **frames, schema=schema, declared=schema))
    assert result[VALUES].low == 0.0
    categories = both_by_name(draw(make["all categorical"], SIZES, seed=3, leak=1.0))
    assert categories[VALUES].high == 0.0 and "nobody" in categories[VALUES].note


def test_of_a_sample_of_people_the_upper_end_allows_for_all_others(draw, make):
    covered, n_most = [], 4000
    for seed in range(6):
        tables = replace(draw(make["all numeric"], (n_most, 500, 500, n_most), seed=40 + seed), n_targets=100)
        moved = tables.train.sample(120, random_state=seed) + 1e-3
        result = both_by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[120:], moved])))[NEAR]
        assert result.n == 100
        assert result.high > 0.02
        covered.append(result.low <= 0.03 <= result.high)
    assert sum(covered) >= 5

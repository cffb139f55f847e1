"""Alpha-precision, beta-recall and coverage against plain counting, and what they tell apart."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import support
from evaluate.fidelity.joint_samples import JointSamples
from evaluate.fidelity.support import N_NEIGHBORS, agreement, cloud, figures
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables


def found(measurement: MetricResult) -> dict[str, Estimate]:
    return {estimate.measure: estimate for estimate in measurement.estimates}


def gaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(((a[:, None] - b[None]) ** 2).sum(axis=2))


def area(base: np.ndarray, other: np.ndarray) -> float:
    """One minus twice the area between P(alpha) and alpha, on a fine grid of alpha."""
    alphas = (np.arange(20_000) + 0.5) / 20_000
    radii = np.sort(base)[np.ceil(alphas * len(base)).astype(int) - 1]
    shares = (other[None] <= radii[:, None]).mean(axis=1)
    return float(1 - 2 * np.abs(shares - alphas).mean())


@pytest.fixture(scope="module")
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((130, 3)), rng.standard_normal((90, 3)) * 0.8 + 0.2


def everything(train: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    own, other = cloud(train, train), cloud(train, rows)
    values = figures(own, other, np.ones(len(train), dtype=bool), np.ones(len(rows), dtype=bool))
    return dict(zip(support.FIGURES, map(float, values), strict=True))


def test_coverage_is_that_of_plain_counting(points, monkeypatch):
    monkeypatch.setattr(support, "BLOCK_ROWS", 33)
    train, rows = points
    own = gaps(train, train)
    np.fill_diagonal(own, np.inf)
    balls = np.sort(own, axis=1)[:, N_NEIGHBORS - 1]
    covered = (gaps(train, rows) <= balls[:, None]).any(axis=1)
    assert everything(train, rows)["coverage"] == pytest.approx(covered.mean(), abs=1e-12)


def test_alpha_precision_and_beta_recall_are_those_of_plain_counting(points):
    train, rows = points
    values = everything(train, rows)
    about_train, about_rows = (train.mean(axis=0)[None], rows.mean(axis=0)[None])
    precision = area(gaps(train, about_train)[:, 0], gaps(rows, about_train)[:, 0])
    assert values["alpha_precision"] == pytest.approx(precision, abs=0.02)
    own, across = gaps(train, train), gaps(train, rows)
    np.fill_diagonal(own, np.inf)
    level = gaps(rows, about_rows)[:, 0]
    covered = across.min(axis=1) <= np.sort(own, axis=1)[:, N_NEIGHBORS - 1]
    recall = area(level, np.where(covered, level[across.argmin(axis=1)], np.inf))
    assert values["beta_recall"] == pytest.approx(recall, abs=0.02)


def test_a_half_sample_counts_what_its_own_rows_would_give(points):
    train, rows = points
    own, other = cloud(train, train), cloud(train, rows)
    rng = np.random.default_rng(0)
    kept_train, kept = rng.random(len(train)) < 0.5, rng.random(len(rows)) < 0.5
    part = figures(own, other, kept_train, kept)
    alone = everything(train[kept_train], rows[kept])
    assert dict(zip(support.FIGURES, part, strict=True)) == pytest.approx(
        {name: alone[name] for name in support.FIGURES}
    )


def test_the_area_of_ties_is_that_of_a_straight_line():
    assert agreement(np.zeros(5), np.zeros(3)) == 1.0
    assert agreement(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 2.0])) == pytest.approx(1 - 2 * (1 / 3) / 2)


def test_a_copy_of_train_scores_best(tables, offer, population):
    copy = found(support.measure(offer(tables.train)))
    for name in ("alpha_precision", "beta_recall", "coverage"):
        assert copy[f"joint.{name}"].value == 1.0
    fresh = found(support.measure(offer(population(700, np.random.default_rng(8)))))
    for name in support.FIGURES:
        assert copy[f"joint.{name}"].value >= fresh[f"joint.{name}"].value


@pytest.mark.statistical
def test_a_fresh_sample_scores_at_the_reference_and_shuffled_columns_below_it(population, tables_of, schema):
    """Over 20 draws: the mean difference of fresh rows is within three standard errors of none."""
    beyond: dict[str, list[float]] = {name: [] for name in support.FIGURES}
    below = []
    for seed in range(20):
        rng = np.random.default_rng([41, seed])
        drawn = tables_of(*(population(n_rows, rng) for n_rows in (500, 250, 250)), schema, seed)
        fresh = found(support.measure(drawn))
        for name, values in beyond.items():
            estimate = fresh[f"joint.{name}"]
            assert estimate.reference is not None
            values.append(estimate.value - estimate.reference)
        coverage = fresh["joint.coverage"]
        assert coverage.floor is not None
        below.append(coverage.value - coverage.floor)
    for name, values in beyond.items():
        assert abs(np.mean(values)) < 3.3 * np.std(values) / np.sqrt(len(values)), name
    assert np.mean(below) > 3.3 * np.std(below) / np.sqrt(len(below))


def test_a_column_off_by_a_thousand_shows(tables, offer, population):
    rows = population(700, np.random.default_rng(8))
    moved = found(support.measure(offer(rows.assign(length=rows["length"] * 1000))))["joint.coverage"]
    assert moved.reference is not None and moved.value < moved.reference - 0.1


def test_too_few_rows_and_equal_rows_are_failures_with_a_sentence(tables, offer, population):
    few = support.measure(offer(population(5, np.random.default_rng(0))))
    assert {failure.measure for failure in few.failures} == set(support.NAMES)
    same = pd.concat([tables.train.iloc[:1]] * 60, ignore_index=True)
    equal = replace(tables, **dict.fromkeys(("train", "fresh", "control", "synthetic", "shuffled"), same))
    assert "are equal" in support.measure(equal).failures[0].message


def test_rows_of_one_entity_are_in_one_group(tables_with_entities: Tables) -> None:
    samples = JointSamples.draw(tables_with_entities)
    for side in (samples.train, samples.fresh, samples.synthetic):
        assert side.rows.assign(group=side.groups).groupby("person")["group"].nunique().eq(1).all()
    assert all(e.low is not None for e in support.measure(tables_with_entities).estimates)

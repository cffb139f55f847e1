from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.privacy import experiment, reconstruction
from evaluate.result import Failure
from synth.schema import build_schema

RATIOS = [(400, 50, 50, 400), (200, 100, 100, 200), (200, 200, 200, 200)]
"""Rows of train, both halves of the holdout and synthetic: ratios of 4:1, 1:1, 1:2 between train and holdout."""


def named(tables, *columns):
    schema = build_schema(
        {**tables.schema.model_dump(), "quasi_identifiers": list(columns or tables.train.columns[:2])}
    )
    return replace(tables, schema=schema, declared=schema)


def found(tables):
    measured = reconstruction.measure(tables)
    return (*measured.estimates, *measured.failures)[0]


def by_column(tables):
    return {one["column"]: one for one in reconstruction.measure(tables).figures["reconstruction"]}


@pytest.mark.parametrize("sizes", RATIOS)
@pytest.mark.parametrize("kind", ["all categorical", "all numeric", "mixed"])
def test_a_copy_alarms_at_every_ratio(kind, sizes, draw, make):
    tables = draw(make[kind], (*sizes[:3], sizes[0]), seed=1, leak=1.0)
    known = {"mixed": ("x0", "c0"), "all numeric": ("x0",)}.get(kind, [f"c{i}" for i in range(6)])
    worst = found(named(tables, *known))
    assert worst.low > 0.05
    assert worst.value > worst.detectable


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", RATIOS)
@pytest.mark.parametrize("kind", ["all categorical", "all numeric", "mixed", "many duplicates"])
def test_an_independent_sample_raises_no_alarm(kind, sizes, draw, make):
    worst = found(named(draw(make[kind], sizes, seed=2)))
    assert worst.low <= 0 <= worst.high


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all categorical", "all numeric", "mixed", "many duplicates"])
def test_false_alarms_keep_to_their_rate(kind, draw, make):
    """Of 60 independent samples, no more alarm than 2.5% allow in 999 of 1000 runs."""
    lows = [found(named(draw(make[kind], RATIOS[1], seed=seed))).low for seed in range(60)]
    assert np.sum(np.array(lows) > 0) <= stats.binom.ppf(0.999, 60, 0.025)


def test_every_value_of_a_column_weighs_alike(evaluate_frames):
    """A table that has the rare values of its training rows right, and no other, tells half of a column of two."""
    rng = np.random.default_rng(0)

    def rows(n: int) -> pd.DataFrame:
        ill = np.where(rng.random(n) < 0.08, "rare", "none")
        return pd.DataFrame({"who": rng.standard_normal(n), "town": rng.integers(0, 50, n).astype(float), "ill": ill})

    train, fresh, control, synthetic = (rows(n) for n in (1500, 700, 700, 1400))
    leaked = pd.concat([synthetic, train[train["ill"] == "rare"]])
    tables = named(evaluate_frames(train, fresh, control, leaked), "who", "town")
    assert by_column(tables)["ill"]["advantage"][1] > 0.2


def test_the_score_is_the_mean_over_values_of_how_often_each_is_found(evaluate_frames, monkeypatch):
    frame = pd.DataFrame({"q": ["a", "b"] * 20, "s": ["x"] * 30 + ["y"] * 10})
    tables = named(evaluate_frames(frame, frame[:20], frame[20:], frame), "q")
    monkeypatch.setattr(reconstruction, "_guesses", lambda pool, targets, *_: {"s": np.zeros(len(targets), dtype=int)})
    drawn = by_column(tables)["s"]  # the usual value is always named: all of one value and none of the other
    assert drawn["attack"][0] == drawn["baseline"] == pytest.approx(0.5)


def test_the_interval_allows_for_all_columns_and_names_the_worst(draw, make):
    tables = named(draw(make["mixed"], (400, 200, 200, 400), seed=1, leak=0.5), "x0", "c0")
    drawn, worst = by_column(tables), found(tables)
    assert set(drawn) == {"c1", "c2", "x1", "day", "flag"}
    assert worst.low == max(one["advantage"][1] for one in drawn.values())
    assert worst.high == max(one["advantage"][2] for one in drawn.values())
    assert any(f"'{name}' stands out most of 5" in worst.note for name in drawn)
    assert "'c0', 'x0'" in worst.note


def test_the_same_seed_gives_the_same_numbers(draw, make):
    tables = named(draw(make["mixed"], RATIOS[1], seed=3, leak=0.2))
    assert reconstruction.measure(tables) == reconstruction.measure(replace(tables))


def test_without_quasi_identifiers_or_anything_beside_them_it_says_so(draw, make):
    tables = draw(make["mixed"], (60, 40, 40, 60), seed=1)
    for one in (tables, named(draw(make["many duplicates"], (60, 40, 40, 60), seed=1), "a", "b", "c")):
        assert isinstance(found(one), Failure)
        assert "quasi-identifiers" in found(one).message
    few = named(draw(make["mixed"], (60, 40, 6, 60), seed=1))
    assert "give a larger holdout" in found(few).message


def test_what_everybody_is_guessed_right_of_gives_nobody_away():
    """A mean of weighed hits is then 1, and a last digit."""
    hits = np.full(300, np.nextafter(1, 2))
    found = experiment.Experiment(hits, hits, 1.0, 1.5).estimate("", note="")
    assert found.value == 0 and found.low < 0 < found.high and found.detectable == 1.0

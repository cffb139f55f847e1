"""How much of a real table has to leak before an attack raises an alarm: Adult, 8,000 rows of each kind."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.engine import measure_candidate
from evaluate.metrics import MODULES
from evaluate.tables import Real, Tables
from synth.schema import Schema, build_schema
from synth.schema_file import read_schema

N = 8_000
N_NUMBERS = 40
"""That attacks on Adult give, about."""
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ROLES = {"sensitive": ("sex", "race"), "quasi_identifiers": ("age", "sex", "native-country")}
REAL: dict[int, Real] = {}
"""Train and holdout of the last seed, whose searches serve every synthetic table beside them."""
ATTACKS = [
    name for name in MODULES if name.startswith("privacy.") and name not in ("privacy.distance", "privacy.personal")
]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return build_schema({**read_schema(BENCHMARKS / "adult.schema.toml").model_dump(), **ROLES})


@pytest.fixture(scope="module")
def adult(schema: Schema, shared_table: Callable[[str], Path]) -> pd.DataFrame:
    frame = pd.read_csv(shared_table("adult.csv.gz"), keep_default_na=False, na_values=[""])
    return frame[[name for name in frame.columns if name in schema.columns]]


def jittered(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Age +-1, fnlwgt +-1%, and one category of each row drawn anew from its column."""
    n, moved = len(rows), rows.reset_index(drop=True)
    moved["age"] = (moved["age"] + rng.choice([-1, 0, 1], n)).clip(17, 90)
    moved["fnlwgt"] = np.round(moved["fnlwgt"] * (1 + rng.uniform(-0.01, 0.01, n))).astype(int)
    moved["fnlwgt"] = moved["fnlwgt"].clip(rows["fnlwgt"].min(), rows["fnlwgt"].max())
    names = [name for name in rows.columns if rows[name].dtype == object]
    column = rng.integers(len(names), size=n)
    for i, name in enumerate(names):
        moved[name] = np.where(column == i, rng.permutation(moved[name].to_numpy()), moved[name])
    return moved


def leaking(adult: pd.DataFrame, schema: Schema, seed: int, share: float, jitter: bool = False) -> Tables:
    """Three samples of Adult, a share of the synthetic rows being training rows, or training rows with noise."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(adult))
    train, holdout, synthetic = (adult.iloc[order[i * N : (i + 1) * N]].reset_index(drop=True) for i in range(3))
    n = round(share * N)
    leaked = train.iloc[rng.permutation(N)[:n]]
    leaked = jittered(leaked, rng) if jitter and n else leaked
    real = REAL.get(seed)
    if real is None:  # of one seed alone, since each is large
        REAL.clear()
        real = REAL[seed] = Real.prepare(train, holdout, schema, seed=seed, outside="clamp")
    return real.beside(pd.concat([synthetic.iloc[n:], leaked], ignore_index=True))


def alarms(tables: Tables, measures: list[str]) -> set[str]:
    """Every number of an attack, and of the copies, whose interval lies above chance."""
    result = measure_candidate("synthetic", tables, measures=measures)
    assert not [failure for failure in result.failures if failure.reason != "skipped"]
    above = set()
    for estimate in result.estimates:
        chance = 0.0 if estimate.measure.endswith(".excess") else estimate.reference
        counts = estimate.detectable is not None or estimate.measure.startswith("privacy.copies.unique.excess")
        if counts and chance is not None and estimate.low is not None and estimate.low > chance:
            above.add(" ".join((estimate.measure, *estimate.subject)))
    return above


@pytest.mark.parametrize(("share", "jitter"), [(0.005, False), (0.05, True)])
def test_half_a_percent_verbatim_and_five_percent_with_noise_raise_an_alarm(share, jitter, adult, schema):
    result = alarms(leaking(adult, schema, 0, share, jitter), ["privacy.membership"])
    assert "privacy.membership.tpr_at_0.001" in result


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [False, True])
def test_every_rung_of_the_ladder_raises_an_alarm_in_every_table(jitter, adult, schema):
    for share in (0.05, 0.2) if jitter else (0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        for seed in range(20):
            result = alarms(leaking(adult, schema, seed, share, jitter), ["privacy.membership", "privacy.copies"])
            assert any(name.startswith("privacy.membership") for name in result), (share, seed)
            assert jitter or "privacy.copies.unique.excess" in result, (share, seed)


@pytest.mark.slow
def test_without_a_leak_no_number_alarms_more_often_than_is_stated(adult: pd.DataFrame, schema: Schema) -> None:
    """Each in at most 2.5 of 100 honest tables, and all of them together.

    Over 20 tables, the bounds are passed by chance in fewer than one in a thousand runs.
    """
    counts: Counter[str] = Counter()
    for seed in range(20):
        counts.update(alarms(leaking(adult, schema, seed, 0.0), ATTACKS))
    assert max(counts.values(), default=0) <= stats.binom.isf(1e-3 / N_NUMBERS, 20, 0.025), counts
    assert sum(counts.values()) <= 2 * 20 * N_NUMBERS * 0.025, counts

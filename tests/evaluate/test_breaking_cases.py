"""Tables on which other tools report a high score, crash or say nothing, measured end to end and judged by a policy."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.result import Candidate, Estimate
from evaluate.sampling import shuffle_columns
from synth.infer import infer_schema

POLICIES = Path(__file__).parents[2] / "evaluate" / "policies"
FIDELITY = ("validity", "fidelity.columns", "fidelity.pairs", "fidelity.triples")


def population(n: int, seed: int) -> pd.DataFrame:
    """Rows of 8 columns that hang together: negative numbers, a spike at zero, dates, missing values, odd names."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n)
    return pd.DataFrame(
        {
            "balance": np.round(hidden * 1000 + rng.normal(size=n) * 300, 2),
            "gain": np.where(rng.random(n) < 0.92, 0, np.round(np.exp(hidden + 5))),
            "a b": np.where(rng.random(n) < 0.2, np.nan, np.round(hidden + rng.normal(size=n), 3)),
            "day": pd.to_datetime("2020-06-01") + pd.to_timedelta(np.round(hidden * 100), unit="D"),
            '</script>"': np.where(hidden + rng.normal(size=n) * 0.5 > 0, "high", "low"),
            "it's": np.where(rng.random(n) < 0.3, None, np.where(hidden > 0.5, "x", "y")),
            "flag": hidden + rng.normal(size=n) > 0,
            "level": np.clip(np.round(hidden * 2 + 5), 0, 10).astype(int),
        }
    )


def measured(synthetic: pd.DataFrame, train: pd.DataFrame, holdout: pd.DataFrame) -> Candidate:
    kinds = {"level": "integer"} if "level" in train else {}  # an amount here, of few values though it is
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True), kinds=kinds)
    return evaluate(train, synthetic, holdout=holdout, schema=schema, measures=FIDELITY).candidates[0]


def number(candidate: Candidate, measure: str, *subject: str) -> Estimate:
    found = candidate.find(measure, subject)
    assert isinstance(found, Estimate), found
    return found


@pytest.fixture(scope="module")
def real() -> tuple[pd.DataFrame, pd.DataFrame]:
    return population(3000, 0), population(1500, 1)


def test_columns_shuffled_independently_fail_on_fidelity(real: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    shuffled = measured(shuffle_columns(real[0], np.random.default_rng(0)), *real)
    for policy in ("internal", "partner", "public"):
        findings = judge_candidate(shuffled, load_policy(POLICIES / f"{policy}.toml")).findings
        failed = {f.rule.measure for f in findings if f.outcome == "FAIL" and f.rule.severity == "fail"}
        assert "pairs.dependence.floor_share" in failed


def test_a_column_times_a_thousand_and_shifted_shows(real: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    scaled = population(1500, 2)
    scaled["level"] = scaled["level"] * 1000 + 7
    candidate = measured(scaled, *real)
    for measure in ("columns.tvd.excess", "columns.ks"):
        low = number(candidate, measure, "level").low
        assert low is not None
        assert low > 0.5
    assert number(candidate, "validity.column", "level").value < 0.05


def test_fifty_fifty_against_eighty_twenty_is_seen_at_ten_thousand_rows() -> None:
    def rows(n: int, share: float, seed: int) -> pd.DataFrame:
        return pd.DataFrame({"side": np.where(np.random.default_rng(seed).random(n) < share, "a", "b")})

    candidate = measured(rows(10_000, 0.8, 2), rows(10_000, 0.5, 0), rows(5_000, 0.5, 1))
    low = number(candidate, "columns.chi2", "side").low
    assert low is not None
    assert low > 0.2
    stated = re.search(r"p = ([0-9.e-]+);", number(candidate, "columns.chi2", "side").note)
    assert stated is not None
    assert float(stated[1]) < 1e-200


def test_missing_against_missing_is_no_difference_and_missing_against_none_is_one(
    real: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    honest = measured(population(1500, 6), *real)
    assert number(honest, "columns.tvd.excess", "a b").value < 0.05
    filled = population(1500, 6)
    filled["a b"] = filled["a b"].fillna(0.0)
    candidate = measured(filled, *real)
    assert number(candidate, "columns.tvd.excess", "a b").value > 0.1


def test_a_spike_at_zero_that_is_smeared_out_shows(real: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    smeared = population(1500, 6)
    zero = smeared["gain"] == 0
    smeared.loc[zero, "gain"] = np.random.default_rng(0).integers(1, 40, int(zero.sum()))
    assert number(measured(smeared, *real), "columns.tvd.excess", "gain").value > 0.8


def test_dates_that_are_off_by_a_year_show(real: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    late = population(1500, 6)
    late["day"] += pd.Timedelta(days=365)
    candidate = measured(late, *real)
    assert number(candidate, "columns.ks", "day").value > 0.5
    assert number(candidate, "columns.wasserstein", "day").value > 1.0

"""Tables on which other tools report a high score, accuse honest rows, crash or say nothing: measured and judged."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.engine import evaluate
from evaluate.gate.policy import load_policy, shipped
from evaluate.gate.verdict import judge_candidate
from evaluate.privacy import singling_out
from evaluate.result import Candidate, Estimate
from evaluate.sampling import shuffle_columns
from synth.infer import infer_schema

FIDELITY = ("validity", "fidelity.columns", "fidelity.pairs", "fidelity.triples")
PRIVACY = ("privacy.copies", "privacy.membership", "privacy.singling_out", "privacy.inference")


def population(n: int, seed: int) -> pd.DataFrame:
    """Columns that hang together: negative numbers, a spike at zero, dates, missing values, a constant, odd names."""
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
            "level": np.clip(np.round(hidden * 2 + 5), 0, 10).astype(int),
            "same": "k",
        }
    )


def answers(n: int, seed: int) -> pd.DataFrame:
    """Yes and no in six columns: every row has many twins, and distances see nothing."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: np.where(rng.random(n) < 0.4, "yes", "no") for name in "abcdef"})


def measured(
    train: pd.DataFrame, holdout: pd.DataFrame, synthetic: pd.DataFrame, measures: tuple[str, ...] = FIDELITY
) -> Candidate:
    kinds = {"level": "integer"} if "level" in train else {}  # an amount here, of few values though it is
    schema = infer_schema(pd.concat([train, holdout], ignore_index=True), kinds=kinds)
    return evaluate(train, synthetic, holdout=holdout, schema=schema, measures=measures).candidates[0]


def failed(candidate: Candidate, policy: str) -> set[str]:
    findings = judge_candidate(candidate, load_policy(policy)).findings
    return {f.rule.measure for f in findings if f.outcome == "FAIL" and f.rule.severity == "fail"}


REAL = population(3000, 0), population(1500, 1)


def test_columns_shuffled_independently_fail_on_fidelity() -> None:
    shuffled = measured(*REAL, shuffle_columns(REAL[0], np.random.default_rng(0)))
    assert all("pairs.dependence.floor_share" in failed(shuffled, policy) for policy in shipped())


def test_fifty_fifty_against_eighty_twenty_is_seen_at_ten_thousand_rows() -> None:
    def rows(n: int, share: float, seed: int) -> pd.DataFrame:
        return pd.DataFrame({"side": np.where(np.random.default_rng(seed).random(n) < share, "a", "b")})

    result = measured(rows(10_000, 0.5, 0), rows(5_000, 0.5, 1), rows(10_000, 0.8, 2)).find("columns.chi2", ("side",))
    assert isinstance(result, Estimate) and result.low is not None and result.low > 0.2
    assert float(result.note.split("p = ")[1].split(";")[0]) < 1e-200


def test_a_single_column_that_is_off_shows() -> None:
    rows, rng = population(1500, 6), np.random.default_rng(0)
    spoiled = {
        "level": rows["level"] * 1000 + 7,
        "a b": rows["a b"].fillna(0.0),
        "gain": rows["gain"].mask(rows["gain"] == 0, rng.integers(1, 40, 1500)),
        "day": rows["day"] + pd.Timedelta(days=365),
    }
    result = measured(*REAL, rows.assign(**spoiled))
    honest = measured(*REAL, rows)
    for name, least in (("level", 0.5), ("a b", 0.1), ("gain", 0.8), ("day", 0.5)):
        here, there = (each.find("columns.tvd.excess", (name,)) for each in (result, honest))
        assert isinstance(here, Estimate) and isinstance(there, Estimate)
        assert here.value > least and there.value < 0.05, name
    valid, moved = result.find("validity.column", ("level",)), result.find("columns.wasserstein", ("day",))
    assert isinstance(valid, Estimate) and valid.value < 0.05
    assert isinstance(moved, Estimate) and moved.value > 1.0


def other_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    """The same values: numbers as text or float, dates as text, categories as such; rows and columns turned round."""
    built = {
        name: column.astype("category") if column.dtype == object else column.astype(object)
        for name, column in frame.items()
    }
    if "day" in built:
        built |= {"day": frame["day"].dt.strftime("%Y-%m-%d"), "level": frame["level"].astype(float)}
    return pd.DataFrame(built).sample(frac=1.0, random_state=3)[list(frame.columns[::-1])]


@pytest.mark.parametrize("make", [population, answers])
def test_an_exact_copy_fails_under_every_policy_whatever_its_dtypes(make) -> None:
    train = make(1200, 0)
    candidate = measured(train, make(800, 1), other_dtypes(train), ("privacy.copies", "privacy.membership"))
    for policy in shipped():
        assert any(name.startswith("privacy.") for name in failed(candidate, policy)), policy


@pytest.mark.statistical
@pytest.mark.parametrize("n_seeds", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_equal_samples_of_one_population_show_no_leak_at_any_size_ratio(n_seeds, monkeypatch) -> None:
    """Each number lies above chance by its stated rate at most; right ones exceed the bounds once in a million runs."""
    monkeypatch.setattr(singling_out, "N_PREDICATES", 250)
    monkeypatch.setattr(singling_out, "N_GUESSES", 20)
    n_drawn, above, broken = (Counter[str]() for _ in range(3))
    for sizes in ((400, 100, 100), (400, 100, 400), (200, 200, 100), (200, 200, 400), (125, 250, 100), (125, 250, 400)):
        for seed in range(n_seeds):
            candidate = measured(*(population(n, 30_000 + 3 * seed + i) for i, n in enumerate(sizes)), PRIVACY)
            broken.update(name for name in failed(candidate, "internal") if name.startswith("privacy."))
            for each in candidate.estimates:
                if each.detectable is not None and each.low is not None:
                    n_drawn[each.measure] += 1
                    above[each.measure] += each.low > each.reference
    for name, n in n_drawn.items():
        assert above[name] <= stats.binom.isf(1e-6 / len(n_drawn), n, 0.025), name
    # The policy's limits lie far above chance, or where one honest sample in a hundred is.
    assert max(broken.values(), default=0) <= stats.binom.isf(1e-6, 6 * n_seeds, 0.01), broken

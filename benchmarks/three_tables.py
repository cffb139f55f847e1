"""Three tables that a program draws: a coarse one, one of heavy tails, and one whose relations are hard to see.

``python -m benchmarks.three_tables FOLDER`` writes them as CSV files.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd


def subscribers(n: int = 7_043, seed: int = 11) -> pd.DataFrame:
    """Customers of a telephone company, in columns of two to six values: few rows stand alone."""
    rng = np.random.default_rng(seed)
    senior = rng.random(n) < 0.16
    partner = rng.random(n) < np.where(senior, 0.55, 0.48)
    children = rng.random(n) < np.where(partner, 0.5, 0.09)
    contract = _draw(rng, np.where(partner[:, None], [0.42, 0.24, 0.34], [0.66, 0.19, 0.15]))
    internet = _draw(rng, np.where(senior[:, None], [0.1, 0.2, 0.7], [0.25, 0.38, 0.37]))
    years = _draw(rng, np.array([[0.48, 0.21, 0.12, 0.09, 0.06, 0.04], [0.15, 0.2, 0.19, 0.17, 0.16, 0.13],
                                 [0.03, 0.07, 0.12, 0.18, 0.25, 0.35]])[contract])  # fmt: skip
    extras = [np.where(internet == 0, 2, rng.random(n) < 0.25 + 0.07 * years) for _ in range(2)]
    leaves = -1.1 - 1.1 * contract + 0.8 * (internet == 2) - 0.35 * years + 0.4 * senior + 0.5 * (extras[0] == 0)
    return pd.DataFrame({
        "sex": np.where(rng.random(n) < 0.5, "f", "m"), "senior": np.where(senior, "yes", "no"),
        "partner": np.where(partner, "yes", "no"), "children": np.where(children, "yes", "no"),
        "years": np.array(["0", "1", "2", "3", "4", "5 or more"])[years],
        "internet": np.array(["none", "line", "fiber"])[internet],
        **{name: np.array(["no", "yes", "no internet"])[extra.astype(int)]
           for name, extra in zip(("security", "support"), extras, strict=True)},
        "contract": np.array(["month", "year", "two years"])[contract],
        "payment": np.array(["check", "bank", "card", "transfer"])[_draw(rng, _payments(internet))],
        "left": np.where(rng.random(n) < 1 / (1 + np.exp(-leaves - 0.6)), "yes", "no"),
    })  # fmt: skip


def claims(n: int = 12_000, seed: int = 12) -> pd.DataFrame:
    """Claims to an insurer: amounts with a heavy tail, flat rates, nothing paid in many, and a cap."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["glass", "collision", "theft", "storm", "liability"], n, p=[0.34, 0.3, 0.08, 0.18, 0.1])
    level = pd.Series(kind).map({"glass": 5.6, "collision": 7.6, "theft": 8.3, "storm": 7.0, "liability": 8.1})
    age, urban = np.clip(rng.gamma(9, 5, n), 18, 95).round().astype(int), rng.random(n) < 0.6
    amount = np.exp(level.to_numpy() + 0.3 * urban + rng.normal(0, 1.3, n))
    amount = np.where((kind == "glass") & (rng.random(n) < 0.6), rng.choice([250.0, 400.0, 650.0], n), amount)
    amount = np.minimum(amount, 50_000).round(2)
    deductible = rng.choice([0, 150, 300, 500, 1_000], n, p=[0.15, 0.3, 0.35, 0.15, 0.05])
    refused = rng.random(n) < np.where(kind == "theft", 0.35, 0.12)
    paid = np.where(refused, 0.0, np.maximum(amount - deductible, 0)).round(2)
    days = np.floor(5 + 3 * (1 + amount / 1_000) * rng.pareto(1.8, n))
    income = np.where(
        rng.random(n) < 0.7, np.round(rng.lognormal(10.5, 0.6, n), -3), rng.lognormal(10.5, 0.6, n).round()
    )
    reported = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 730, n), "D")
    still_open = rng.random(n) < np.where(days > 90, 0.5, 0.04)
    return pd.DataFrame({
        "reported": reported.strftime("%Y-%m-%d"), "kind": kind, "urban": np.where(urban, "yes", "no"), "age": age,
        "income": income.astype(int), "bonus_class": np.clip(rng.poisson(age / 12), 0, 14), "amount": amount,
        "deductible": deductible, "paid": paid, "days": pd.Series(days).where(~still_open),
        "witness": np.where(rng.random(n) < np.where(kind == "collision", 0.4, 0.1), "yes", "no"),
        "refused": np.where(refused, "yes", "no"),
    })  # fmt: skip


def trial(n: int = 12_000, seed: int = 13) -> pd.DataFrame:
    """Patients of a trial: a response that arm and gene decide together and neither alone, a dose that works the other
    way round in one patient of five, and centers of one to three patients in a hundred.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([0.22, 0.17, 0.13, 0.11, 0.09, 0.08, 0.06, 0.05, 0.03, 0.025, 0.02, 0.015])
    center = rng.choice(len(shares), n, p=shares / shares.sum())
    arm, gene = rng.random(n) < 0.5, rng.random(n) < 0.5
    kidneys = _draw(rng, np.tile([0.65, 0.2, 0.15], (n, 1)))
    age, sex = np.clip(rng.normal(58, 13, n), 18, 92).round().astype(int), rng.random(n) < 0.47
    weight = (rng.normal(72, 12, n) + 9 * sex - 0.1 * (age - 58)).round(1)
    dose = np.round(np.clip(rng.normal(40, 12, n), 5, 90) * 2) / 2
    # In patients whose kidneys are weak (1), the level falls with the dose.
    level = np.where(kidneys == 1, 5.4 - 0.05 * dose, 1.4 + 0.05 * dose) + rng.normal(0, 0.35, n) + 0.006 * (age - 58)
    responds = rng.random(n) < np.where(arm ^ gene, 0.78, 0.22)
    harm = rng.random(n) < 1 / (1 + np.exp(2.2 - 0.6 * (level - 3.4) - 0.03 * (age - 58)))
    visits = np.where(responds, rng.poisson(3, n), rng.poisson(5, n)) + 1
    return pd.DataFrame({
        "center": np.array([f"C{i + 1:02d}" for i in range(len(shares))])[center],
        "country": np.array(list("AAABBBCCCDDE"))[center], "sex": np.where(sex, "m", "f"), "age": age, "weight": weight,
        "kidneys": np.array(["well", "weak", "unknown"])[kidneys], "arm": np.where(arm, "drug", "placebo"),
        "gene": np.where(gene, "present", "absent"), "dose": dose, "level": level.round(2), "visits": visits,
        "smoker": rng.choice(["never", "former", "daily"], n, p=[0.55, 0.28, 0.17]),
        "harm": np.where(harm, "yes", "no"), "response": np.where(responds, "yes", "no"),
    })  # fmt: skip


def _payments(internet: np.ndarray) -> np.ndarray:
    return np.array([[0.35, 0.25, 0.2, 0.2], [0.2, 0.25, 0.25, 0.3], [0.12, 0.18, 0.2, 0.5]])[internet]


def _draw(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """A category of each row by its own chances, shape (n, k)."""
    return np.asarray((rng.random(len(chances))[:, None] > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1))


THREE: Mapping[str, Callable[[], pd.DataFrame]] = {"subscribers": subscribers, "claims": claims, "trial": trial}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for table, draw in THREE.items():
        draw().to_csv(folder / f"{table}.csv", index=False)

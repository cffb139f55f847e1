"""What the eye sees first in a synthetic table's numbers: steps, frequent values, tails, spread and correlations."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

MANY = 12
"""A column of more distinct numbers than this is looked at."""
TAIL = 0.001
"""Share of the real values beyond each end."""
FREQUENT, LEAST_ROWS = 0.01, 30
"""Share of the real rows, and rows, from which on a value is a frequent one."""
STEPS = (1000.0, 500.0, 250.0, 100.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.01)
STEPPED = 0.9
"""Share of the real values on multiples of a step from which on a column has it."""


@dataclass(frozen=True)
class Looks:
    """The worst column of each, and the column's name.

    Attributes:
        tail: largest share of values beyond the real 99.9% or .1% quantile; .001 is real.
        std: standard deviation over the real one, of the column where it is furthest from 1.
        correlation: largest difference of Pearson's correlation of two columns.
        spikes: least share kept of the mass on frequent values, each counted up to its real share.
        steps: least share of values on a column's step, over the real share.
        worst: the columns, by attribute.
    """

    tail: float
    std: float
    correlation: float
    spikes: float
    steps: float
    worst: dict[str, str]


def looks(real: pd.DataFrame, synthetic: pd.DataFrame) -> Looks:
    """How the numbers of a synthetic table look beside the real ones; texts beside numbers are left out."""
    columns = {name: _numbers(real[name]) for name in real.columns}
    columns = {name: values for name, values in columns.items() if len(np.unique(values[~np.isnan(values)])) > MANY}
    others = {name: _numbers(synthetic[name]) for name in columns}
    measured: dict[str, list[tuple[float, float, str]]] = {key: [] for key in ("tail", "std", "spikes", "steps")}
    for name, values in columns.items():
        each, other = values[~np.isnan(values)], others[name][~np.isnan(others[name])]
        if len(other) < 2:
            continue
        low, high = np.quantile(each, [TAIL, 1 - TAIL])
        tail = max(float((other > high).mean()), float((other < low).mean()))
        measured["tail"].append((tail, tail, name))
        ratio = float(other.std() / each.std())
        measured["std"].append((abs(np.log(max(ratio, 1e-9))), ratio, name))
        spikes = _spikes(each, other)
        measured["spikes"] += [(1 - spikes, spikes, name)] if spikes is not None else []
        steps = _steps(each, other)
        measured["steps"] += [(1 - steps, steps, name)] if steps is not None else []
    worst = {key: max(entries) for key, entries in measured.items() if entries}
    correlation = _correlation(columns, others)
    return Looks(
        **{key: worst[key][1] if key in worst else float("nan") for key in measured},
        correlation=correlation[0],
        worst={key: entry[2] for key, entry in worst.items()} | {"correlation": correlation[1]},
    )


def _numbers(series: pd.Series) -> np.ndarray:
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _spikes(real: np.ndarray, other: np.ndarray) -> float | None:
    values, counts = np.unique(real, return_counts=True)
    shares = counts / len(real)
    frequent = (shares >= FREQUENT) & (counts >= LEAST_ROWS)
    if not frequent.any():
        return None
    exists = np.array([np.mean(other == value) for value in values[frequent]])
    return float(np.minimum(exists, shares[frequent]).sum() / shares[frequent].sum())


def _steps(real: np.ndarray, other: np.ndarray) -> float | None:
    """Of the coarsest step that most real values but 0 are multiples of; `None` where there is no such step."""
    real, other = real[real != 0], other[other != 0]
    for step in STEPS if len(real) else ():
        share = _on(real, step)
        if share >= STEPPED:
            return _on(other, step) / share if len(other) else 0.0
    return None


def _on(values: np.ndarray, step: float) -> float:
    return float(
        np.mean(np.abs(values / step - np.round(values / step)) <= 1e-9 * np.maximum(1, np.abs(values / step)))
    )


def _correlation(columns: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> tuple[float, str]:
    worst = (0.0, "")
    for first, second in itertools.combinations(columns, 2):
        sides = [_pearson(side[first], side[second]) for side in (columns, others)]
        worst = max(worst, (abs(sides[0] - sides[1]), f"{first} and {second}"))
    return worst


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    both = ~np.isnan(first) & ~np.isnan(second)
    if both.sum() < 2 or first[both].std() == 0 or second[both].std() == 0:
        return 0.0
    return float(np.corrcoef(first[both], second[both])[0, 1])

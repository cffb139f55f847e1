"""anonymeter's singling-out attack, written anew from its definition and seeded throughout.

A predicate is a conjunction of conditions that holds for exactly one different row of the synthetic table. It succeeds
where it holds for exactly one different row of the training table.

Source: Giomi et al. 2023, arXiv:2211.10459, and anonymeter 1.1.0; Cohen and Nissim 2020, arXiv:1904.06009.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

Operator = Literal["null", "eq", "ge", "le"]
Condition = tuple[str, Operator, Any]
Predicate = tuple[Condition, ...]
BATCH = 1000
"""Predicates that are drawn before those that single out are kept."""
MAX_BATCHES = 10_000
"""Batches that are drawn at most: a small table may not have as many as are asked for."""


class Different:
    """The different rows of a table, ready to be counted.

    Args:
        frame: numbers, and anything else as categories.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame.drop_duplicates().reset_index(drop=True)
        self._missing = {name: column.isna().to_numpy() for name, column in self.frame.items()}
        self._numbers = {
            name: column.to_numpy(dtype=np.float64) for name, column in self.frame.items() if _is_number(column)
        }
        texts = {name: pd.factorize(column) for name, column in self.frame.items() if name not in self._numbers}
        self._codes = {name: codes for name, (codes, _) in texts.items()}
        self._code_of = {name: {value: code for code, value in enumerate(known)} for name, (_, known) in texts.items()}

    def __len__(self) -> int:
        return len(self.frame)

    def counts(self, predicates: Sequence[Predicate]) -> np.ndarray:
        """For how many rows each predicate holds; shape (len(predicates),)."""
        return np.array([self._holds(predicate).sum() for predicate in predicates], dtype=np.int64)

    def sample_counts(self, predicates: Sequence[Predicate], orders: Sequence[np.ndarray]) -> np.ndarray:
        """For how many predicates exactly one of some rows holds; shape (len(orders),).

        Args:
            predicates: which.
            orders: positions of rows.
        """
        holds = [np.flatnonzero(self._holds(predicate)) for predicate in predicates]
        chosen = []
        for order in orders:
            taken = np.zeros(len(self), dtype=bool)
            taken[order] = True
            chosen.append(sum(int(taken[rows].sum() == 1) for rows in holds))
        return np.array(chosen)

    def _holds(self, predicate: Predicate) -> np.ndarray:
        holds = np.ones(len(self), dtype=bool)
        for condition in predicate:
            holds &= self._meets(*condition)
        return holds

    def _meets(self, name: str, operator: Operator, value: Any) -> np.ndarray:
        if operator == "null":
            return np.asarray(self._missing[name])
        if name not in self._numbers:
            return np.asarray(self._codes[name] == self._code_of[name].get(value, -2))
        numbers = self._numbers[name]
        return np.asarray({"eq": np.equal, "ge": np.greater_equal, "le": np.less_equal}[operator](numbers, value))


def univariate(synthetic: Different, n: int, rng: np.random.Generator) -> list[Predicate]:
    """At most n predicates of one column each: a value that occurs once, the least, the greatest, the only gap.

    Args:
        synthetic: the rows that they single out.
        n: how many at most.
        rng: draws which.
    """
    everywhere = [predicate for name in synthetic.frame.columns for predicate in _extremes(synthetic.frame, name)]
    drawn = [everywhere[index] for index in rng.permutation(len(everywhere))]
    single = synthetic.counts(drawn) == 1
    return [predicate for predicate, alone in zip(drawn, single, strict=True) if alone][:n]


def _extremes(frame: pd.DataFrame, name: str) -> Iterator[Predicate]:
    column = frame[name]
    if column.isna().sum() == 1:
        yield ((name, "null", None),)
    if _is_number(column):
        yield ((name, "le", _plain(column.min())),)
        yield ((name, "ge", _plain(column.max())),)
    counts = column.value_counts()
    for value in counts.index[counts == 1]:
        yield ((name, "eq", _plain(value)),)


def multivariate(synthetic: Different, n: int, n_columns: int, rng: np.random.Generator) -> list[Predicate]:
    """Different predicates of a drawn row and drawn columns each: equal, or as far out of the median or further.

    Args:
        synthetic: the rows that they single out.
        n: how many at most.
        n_columns: conditions of each.
        rng: draws rows and columns.
    """
    frame = synthetic.frame
    names = list(frame.columns)
    cells = {name: frame[name].to_numpy() for name in names}
    medians = {name: frame[name].median() for name in names if _is_number(frame[name])}
    counts: dict[Predicate, None] = {}
    for _ in range(MAX_BATCHES):
        drawn = []
        for row in rng.integers(len(frame), size=BATCH):
            chosen = sorted(rng.choice(names, size=n_columns, replace=False).tolist())
            drawn.append(tuple(_condition(name, cells[name][row], medians) for name in chosen))
        single = synthetic.counts(drawn) == 1
        counts |= {predicate: None for predicate, alone in zip(drawn, single, strict=True) if alone}
        if len(counts) >= n:
            break
    return list(counts)[:n]


def _condition(name: str, value: Any, medians: dict[str, float]) -> Condition:
    if pd.isna(value):
        return (name, "null", None)
    if name in medians:
        return (name, "ge" if value > medians[name] else "le", _plain(value))
    return (name, "eq", _plain(value))


def control_successes(
    control: Different, n_train: int, predicates: Sequence[Predicate], rng: np.random.Generator
) -> float:
    """Successes on the control, brought to the size of train, as anonymeter means to.

    DEVIATES: version 1.1.0 fits the number of predicates, not of those that succeed.

    The expected number that single out among n rows, if all predicates had one weight, is fitted to samples of the
    control and read off at the size of train.

    Args:
        control: different rows that were not used.
        n_train: different rows of train.
        predicates: which.
        rng: draws the samples.
    """
    counted = float((control.counts(predicates) == 1).sum())
    if len(control) == n_train or counted == 0:
        return counted
    sizes = np.repeat(np.linspace(min(1000, len(control)), len(control), 10).astype(int), 5)
    orders = [rng.permutation(len(control))[:size] for size in sizes]
    weight = _fitted_weight(sizes, control.sample_counts(predicates, orders))
    return float(counted * _expected(n_train, weight) / _expected(len(control), weight))


def _expected(n: Any, weight: float) -> Any:
    """What is proportional to the chance of singling out among n rows, over weights from 0 up to this one."""
    return (1 - (n * weight + 1) * (1 - weight) ** n) / (n + 1)


def _fitted_weight(sizes: np.ndarray, successes: np.ndarray) -> float:
    """The weight of the least squares, the best factor taken for each.

    DEVIATES: sought on a fine grid. anonymeter's solver may stop short of it, or give up, where few predicates succeed.
    """
    best, chosen = np.inf, 0.0
    for weight in np.geomspace(1e-9, 0.1, 2000):
        shape = _expected(sizes, weight)
        left = float(np.sum((successes - shape * (successes @ shape) / (shape @ shape)) ** 2))
        if left < best:
            best, chosen = left, float(weight)
    return chosen


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _plain(value: Any) -> Any:
    """Without numpy's type, so that it can be written as JSON."""
    return value.item() if isinstance(value, np.generic) else value

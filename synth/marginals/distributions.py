"""Distributions over every attribute of a domain: a Markov random field, and a mixture of products.

All that either says is exact. Its arrays may come from a file, of which any part may be damaged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import ModelError
from synth.marginals.factor import Array, Clique, Factor, shape_of
from synth.marginals.inference import Beliefs, eliminate, place, propagate
from synth.marginals.junction_tree import JunctionTree, junction_tree

HIGHEST = 1e12
"""Of a potential that is read: no estimation goes so far, and sums of larger ones lose what the others say."""
MOST_CLASSES = 100_000
CLASS_SHARES, CLASS_TABLES = "class_shares", "class_tables"
"""Names of the arrays of a latent class model."""
TOLERANCE = 1e-3
"""Tolerance of sums of shares that are read: they are rounded to float32."""
_UNREADABLE = (KeyError, TypeError, ValueError, IndexError, OverflowError)


@dataclass(frozen=True, eq=False)
class MarkovRandomField:
    """A distribution over the codes of a domain, known by its potentials, with a number of rows to scale counts to.

    >>> model = MarkovRandomField({"a": 2, "b": 2}, (Factor(("a",), np.log([3.0, 1.0])),), total=8)
    >>> model.marginal(("a", "b")).round(6).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """

    domain: Mapping[str, int]
    potentials: Sequence[Factor]
    total: float = field(repr=False)

    def __post_init__(self) -> None:
        _check_scale(self.domain, self.total)
        object.__setattr__(self, "domain", dict(self.domain))
        object.__setattr__(self, "potentials", tuple(self.potentials))
        for factor in self.potentials:
            names, table = factor.attributes, factor.log_values
            if not set(names) <= self.domain.keys() or table.shape != shape_of(self.domain, names):
                raise ValueError(f"a potential fits the domain: {names} has shape={table.shape}")
            if np.isnan(table).any() or np.isposinf(table).any():
                raise ValueError(f"a potential is finite, or -inf for a structural zero: {names} is not")

    @cached_property
    def tree(self) -> JunctionTree:
        return junction_tree(self.domain, [factor.attributes for factor in self.potentials])

    @cached_property
    def beliefs(self) -> Beliefs:
        return propagate(self.tree, place(self.tree, self.potentials))

    def marginal(self, clique: Clique) -> Array:
        """Expected counts of a clique's cells; they sum to the total."""
        _check_clique(clique, self.domain)
        return eliminate(self.beliefs, clique) * self.total

    def to_arrays(
        self, dtype: type[np.float32] | type[np.float64] = np.float64
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data that describe the model, fit for JSON, and its numbers as named arrays of floats."""
        cliques = [list(factor.attributes) for factor in self.potentials]
        described = {"domain": [[*item] for item in self.domain.items()], "cliques": cliques, "total": self.total}
        return described, {
            f"potential.{i}": factor.log_values.astype(dtype) for i, factor in enumerate(self.potentials)
        }

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "MarkovRandomField":
        try:
            domain, cliques = _domain_of(description), [tuple(clique) for clique in description["cliques"]]
            tables = [np.asarray(arrays[f"potential.{i}"], dtype=np.float64) for i in range(len(cliques))]
            if any(not _is_height(table) for table in tables) or len(arrays) > len(cliques):
                raise ValueError("each clique has heights that can be added to others, and rule out not every cell")
            shaped = [table.reshape(shape_of(domain, clique)) for clique, table in zip(cliques, tables, strict=True)]
            factors = [Factor(clique, table) for clique, table in zip(cliques, shaped, strict=True)]
            return cls(domain, factors, float(description["total"]))
        except _UNREADABLE as error:
            raise _damaged(error) from None


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A mixture of products: classes, in each of which all attributes are independent.
    `shares`: of the classes, shape (n_classes,); they sum to 1.
    `tables`: for each attribute the share of each code within each class, shape (size, n_classes).

    Source: Lazarsfeld & Henry 1968; for synthetic tables Si & Reiter 2013 (DPMPM).

    >>> halves = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> LatentClasses({"a": 2, "b": 2}, np.array([0.75, 0.25]), (halves, halves), 8.0).marginal(("a", "b")).tolist()
    [[6.0, 0.0], [0.0, 2.0]]
    """

    domain: Mapping[str, int]
    shares: Array = field(repr=False)
    tables: Sequence[Array] = field(repr=False)
    total: float = field(repr=False)

    def __post_init__(self) -> None:
        _check_scale(self.domain, self.total)
        object.__setattr__(self, "domain", dict(self.domain))
        object.__setattr__(self, "shares", np.asarray(self.shares, dtype=np.float64))
        object.__setattr__(self, "tables", tuple(np.asarray(table, dtype=np.float64) for table in self.tables))
        if self.shares.ndim != 1 or not _are_shares(self.shares) or len(self.tables) != len(self.domain):
            raise ValueError("shares of classes sum to 1, and each attribute has a table")
        for (name, size), table in zip(self.domain.items(), self.tables, strict=True):
            if table.shape != (size, len(self.shares)) or not _are_shares(table):
                raise ValueError(f"a table has the shares of all codes in each class: attribute={name!r}")

    def marginal(self, clique: Clique) -> Array:
        """Expected counts of a clique's cells; they sum to the total."""
        _check_clique(clique, self.domain)
        tables = dict(zip(self.domain, self.tables, strict=True))
        joint = self.shares[np.newaxis]
        for name in clique:
            joint = (joint[:, np.newaxis] * tables[name]).reshape(-1, len(self.shares))
        return np.asarray(joint.sum(axis=1).reshape(shape_of(self.domain, clique)) * self.total)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        described = {"domain": [[*item] for item in self.domain.items()], "total": self.total}
        return described, {CLASS_SHARES: self.shares, CLASS_TABLES: np.concatenate(self.tables).astype(np.float32)}

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "LatentClasses":
        try:
            domain, shares, stacked = _domain_of(description), arrays[CLASS_SHARES], arrays[CLASS_TABLES]
            if len(arrays) > 2 or not 1 <= len(shares) <= MOST_CLASSES or len(stacked) != sum(domain.values()):
                raise ValueError("there is one table of all codes, and not too many classes")
            tables = np.split(stacked.astype(np.float64), np.cumsum([*domain.values()])[:-1])
            return cls(domain, shares, tables, float(description["total"]))
        except _UNREADABLE as error:
            raise _damaged(error) from None


def _check_scale(domain: Mapping[str, int], total: float) -> None:
    if not (np.isfinite(total) and total > 0):
        raise ValueError(f"a total is positive: total={total}")
    for name, size in domain.items():
        if size < 1:
            raise ValueError(f"an attribute has at least one code: attribute={name!r}, size={size}")


def _check_clique(clique: Clique, domain: Mapping[str, int]) -> None:
    if len(set(clique)) != len(clique) or not set(clique) <= domain.keys():
        raise ValueError(f"a clique names attributes of the domain, each once: clique={clique}")


def _domain_of(description: Mapping[str, Any]) -> dict[str, int]:
    domain = dict(description["domain"])
    if any(type(size) is not int for size in domain.values()) or len(domain) < len(description["domain"]):
        raise ValueError("a domain has a number of codes for each attribute")
    return domain


def _damaged(error: Exception) -> ModelError:
    return ModelError(f"a model's arrays fit its description ({type(error).__name__}); fit it again")


def _is_height(table: Array) -> bool:
    """True if the logarithms of a table are only -inf and numbers whose sums are finite, and not all -inf."""
    heights = np.abs(table[~np.isneginf(table)])
    return heights.size > 0 and bool((heights < HIGHEST).all())


def _are_shares(table: Array) -> bool:
    """True if no number is below zero and each column sums to 1, but for rounding."""
    return bool((table >= 0).all() and (np.abs(table.sum(axis=0) - 1) < TOLERANCE).all())

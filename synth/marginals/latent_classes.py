"""A latent class model: a mixture of products of categorical distributions over every attribute of a domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import ModelError
from synth.marginals.factor import Array, Clique

MOST_CLASSES = 100_000
CLASS_SHARES, CLASS_TABLES = "class_shares", "class_tables"
"""Names of the arrays of a model."""
SMALLEST = np.finfo(np.float64).tiny
"""Least divisor of weights of evidence."""
TOLERANCE = 1e-3
"""Tolerance of sums of shares that are read: they are rounded to float32."""


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A distribution over the codes of a domain: classes, in each of which all attributes are independent.

    Attributes:
        shares: of the classes, shape (n_classes,); they sum to 1.
        tables: for each attribute the share of each code within each class, shape (size, n_classes).

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
        object.__setattr__(self, "domain", dict(self.domain))
        object.__setattr__(self, "shares", np.asarray(self.shares, dtype=np.float64))
        object.__setattr__(self, "tables", tuple(np.asarray(table, dtype=np.float64) for table in self.tables))
        if not (np.isfinite(self.total) and self.total > 0):
            raise ValueError(f"a total is positive: total={self.total}")
        if self.shares.ndim != 1 or not _are_shares(self.shares) or len(self.tables) != len(self.domain):
            raise ValueError("shares of classes sum to 1, and each attribute has a table")
        for (name, size), table in zip(self.domain.items(), self.tables, strict=True):
            if size < 1 or table.shape != (size, len(self.shares)) or not _are_shares(table):
                raise ValueError(f"a table has the shares of all codes in each class: attribute={name!r}")

    def marginal(self, clique: Clique) -> Array:
        """Expected counts of a clique's cells; they sum to the total."""
        if len(set(clique)) != len(clique) or not set(clique) <= self.domain.keys():
            raise ValueError(f"a clique names attributes of the domain, each once: clique={clique}")
        tables = dict(zip(self.domain, self.tables, strict=True))
        joint = self.shares[np.newaxis]
        for name in clique:
            joint = (joint[:, np.newaxis] * tables[name]).reshape(-1, len(self.shares))
        return np.asarray(joint.sum(axis=1).reshape([self.domain[name] for name in clique]) * self.total)

    def condition(self, evidence: Mapping[str, Array]) -> "LatentClasses":
        """The distribution given what is known of some attributes, one by one; exact, by the posterior of the classes.

        Args:
            evidence: for each attribute a weight of each of its codes, shape (size,), finite and nonnegative; only
                proportions matter.
        """
        tables = dict(zip(self.domain, self.tables, strict=True))
        log_shares = _log(self.shares)
        for name, each in evidence.items():
            weights = np.asarray(each, dtype=np.float64)
            if name not in tables or weights.shape != (self.domain[name],):
                raise ValueError(f"evidence is one weight for each code of an attribute: attribute={name!r}")
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise ValueError(f"evidence is of finite weights of at least 0: attribute={name!r}")
            weighted = weights[:, np.newaxis] / max(weights.max(), SMALLEST) * tables[name]
            likelihoods = weighted.sum(axis=0)
            log_shares = log_shares + _log(likelihoods)
            tables[name] = np.where(likelihoods > 0, weighted, tables[name]) / np.where(likelihoods > 0, likelihoods, 1)
        if np.isneginf(log_shares).all():
            raise ModelError(
                f"a distribution has no mass where the evidence lies: attributes={sorted(evidence)}; ask for codes "
                "that go together"
            )
        shares = np.exp(log_shares - log_shares.max())
        return LatentClasses(self.domain, shares / shares.sum(), tuple(tables.values()), self.total)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        described = {"domain": [[*item] for item in self.domain.items()], "total": self.total}
        return described, {CLASS_SHARES: self.shares, CLASS_TABLES: np.concatenate(self.tables).astype(np.float32)}

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "LatentClasses":
        try:
            domain = dict(description["domain"])
            if any(type(size) is not int for size in domain.values()) or len(domain) < len(description["domain"]):
                raise ValueError("a domain has a number of codes for each attribute")
            shares, stacked = arrays[CLASS_SHARES], arrays[CLASS_TABLES]
            sizes = list(domain.values())
            if len(arrays) > 2 or not 1 <= len(shares) <= MOST_CLASSES or len(stacked) != sum(sizes):
                raise ValueError("there is one table of all codes, and not too many classes")
            tables = np.split(stacked.astype(np.float64), np.cumsum(sizes)[:-1])
            return cls(domain, shares, tables, float(description["total"]))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise ModelError(f"a model's arrays fit its description ({type(error).__name__}); fit it again") from None


def _log(values: Array) -> Array:
    """Natural logarithms, minus infinity for zero: products of many likelihoods are no numbers otherwise."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _are_shares(table: Array) -> bool:
    """True if no number is below zero and each column sums to 1, but for rounding."""
    return bool((table >= 0).all() and (np.abs(table.sum(axis=0) - 1) < TOLERANCE).all())

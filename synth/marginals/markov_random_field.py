"""A Markov random field: a distribution over every attribute of a domain, known by its potentials.

All it says is exact. Given evidence on single attributes it stays a Markov random field, no harder to sample than
before.
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


@dataclass(frozen=True, eq=False)
class MarkovRandomField:
    """A distribution over the codes of a domain, with a number of rows to scale counts to.

    >>> model = MarkovRandomField({"a": 2, "b": 2}, (Factor(("a",), np.log([3.0, 1.0])),), total=8)
    >>> model.marginal(("a", "b")).round(6).tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """

    domain: Mapping[str, int]
    potentials: Sequence[Factor]
    total: float = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", dict(self.domain))
        object.__setattr__(self, "potentials", tuple(self.potentials))
        if not (np.isfinite(self.total) and self.total > 0):
            raise ValueError(f"a total is positive: total={self.total}")
        for name, size in self.domain.items():
            if size < 1:
                raise ValueError(f"an attribute has at least one code: attribute={name!r}, size={size}")
        for factor in self.potentials:
            _check_fits(factor, self.domain)

    @cached_property
    def tree(self) -> JunctionTree:
        return junction_tree(self.domain, [factor.attributes for factor in self.potentials])

    @cached_property
    def beliefs(self) -> Beliefs:
        return propagate(self.tree, place(self.tree, self.potentials))

    def marginal(self, clique: Clique) -> Array:
        """Expected counts of a clique's cells, exact; they sum to the total."""
        if len(set(clique)) != len(clique) or not set(clique) <= self.domain.keys():
            raise ValueError(f"a clique names attributes of the domain, each once: clique={clique}")
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
            domain = dict(description["domain"])
            if any(type(size) is not int for size in domain.values()) or len(domain) < len(description["domain"]):
                raise ValueError("a domain has a number of codes for each attribute")
            cliques = [tuple(clique) for clique in description["cliques"]]
            tables = [np.asarray(arrays[f"potential.{i}"], dtype=np.float64) for i in range(len(cliques))]
            shaped = [table.reshape(shape_of(domain, clique)) for clique, table in zip(cliques, tables, strict=True)]
            if any(not _is_height(table) for table in tables):
                raise ValueError("a potential has a height that can be added to others, and rules out not every cell")
            factors = [Factor(clique, table) for clique, table in zip(cliques, shaped, strict=True)]
            if arrays.keys() != {f"potential.{i}" for i in range(len(cliques))}:
                raise ValueError("there is one array for each clique")
            return cls(domain, factors, float(description["total"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"a model's arrays fit its description ({type(error).__name__}); fit it again") from None


def _is_height(table: Array) -> bool:
    """True if the logarithms of a table are only -inf and numbers whose sums are finite, and not all -inf."""
    heights = np.abs(table[~np.isneginf(table)])
    return heights.size > 0 and bool((heights < HIGHEST).all())


def _check_fits(factor: Factor, domain: Mapping[str, int]) -> None:
    if not set(factor.attributes) <= domain.keys() or factor.log_values.shape != shape_of(domain, factor.attributes):
        raise ValueError(f"a potential fits the domain: {factor.attributes} has shape={factor.log_values.shape}")
    if np.isnan(factor.log_values).any() or np.isposinf(factor.log_values).any():
        raise ValueError(f"a potential is finite, or -inf for a structural zero: {factor.attributes} is not")


def condition(model: MarkovRandomField, evidence: Mapping[str, Array]) -> MarkovRandomField:
    """The model given what is known of some attributes, one by one; exact.

    Evidence on one attribute is a factor of one, which joins no cliques: the tree stays as it was.

    Args:
        evidence: for each attribute a weight of each of its codes, shape (size,), nonnegative: how much likelier the
            code makes what is known. Zero rules a code out, ones say nothing; only proportions matter.

    Source: Koller & Friedman 2009, Probabilistic Graphical Models, section 9.3.2 (evidence reduces factors).

    >>> model = MarkovRandomField({"a": 2, "b": 2}, (Factor(("a", "b"), np.log([[4.0, 2.0], [1.0, 3.0]])),), total=10)
    >>> condition(model, {"b": np.array([0.0, 1.0])}).marginal(("a",)).round(6).tolist()
    [4.0, 6.0]
    """
    if not evidence:
        return model
    known = [_factor(name, np.asarray(weights, dtype=np.float64), model) for name, weights in evidence.items()]
    conditioned = MarkovRandomField(model.domain, (*model.potentials, *known), model.total)
    if not conditioned.beliefs.marginals[0].sum() > 0:
        raise ModelError(
            f"a distribution has no mass where the evidence lies: attributes={sorted(evidence)}; ask for codes that "
            "go together"
        )
    return conditioned


def _factor(name: str, weights: Array, model: MarkovRandomField) -> Factor:
    if name not in model.domain:
        raise ValueError(f"evidence names attributes of the domain: attribute={name!r}")
    if weights.shape != (model.domain[name],) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"evidence is one finite weight of at least 0 for each code: attribute={name!r}, shape={weights.shape}, "
            f"codes={model.domain[name]}"
        )
    with np.errstate(divide="ignore"):
        return Factor((name,), np.log(weights))

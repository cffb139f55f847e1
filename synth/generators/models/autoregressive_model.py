"""The model of columns learned in turn: a distribution over rows of codes and ranks, drawn column by column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.discretizer import Attribute, CodedRows, Evidence
from synth.generators.models.constraints import structural_zeros
from synth.generators.models.known_rows import Candidates, accept_by_weight
from synth.generators.models.table_model import TableModel, facts_of
from synth.marginals.sampling import row_groups
from synth.schema import Schema

FEWEST_MEMBERS = 15  # rows of a category below which nothing is learned of it


def is_too_rare(attribute: Attribute, code: int) -> bool:
    """True of a code that several categories share, or that too few rows have for anything to be learned of it."""
    mass = attribute.mass[attribute.group == code]
    return bool(np.count_nonzero(mass) > 1 or mass.sum() < FEWEST_MEMBERS)


class Autoregression(Protocol):
    """A distribution over codes, and ranks within them, column by column."""

    @property
    def order(self) -> tuple[int, ...]:
        """Places of the columns in the order in which they are drawn."""

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        """Rows; those of given columns have what is given, and weigh how likely the others make it."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays."""


@runtime_checkable
class AnyOrder(Autoregression, Protocol):
    """A distribution that may have learned each column from any others."""

    @property
    def in_any_order(self) -> bool:
        """True if it has."""

    def draw_directly(self, n_rows: int, rng: np.random.Generator, evidence: Evidence) -> CodedRows:
        """Rows by its conditionals given some columns, which are less exact than its joint distribution."""


@dataclass(frozen=True, eq=False, repr=False)
class AutoregressiveModel(TableModel):
    """A distribution over codes and ranks, what these stand for, and the schema: **no formal guarantee**.
    `allowed_pairs`: pairs of columns, and which of their codes go together; shape (size, size) each.
    """

    name: str
    schema: Schema
    default_rows: int
    discretizer: Discretizer
    distribution: Autoregression
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any]
    allowed_pairs: Mapping[tuple[str, str], NDArray[np.bool_]] = field(default_factory=dict)
    statement: None = None

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted."""
        return self.distribution.draw(n_rows, rng, Evidence(zeros=self._zeros)).decoded(self.discretizer, rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted, given the columns that are known of each: exactly where these come first; else by a
        network of any order; else the columns before them are drawn, and rows are chosen by how likely these make what
        is known.
        """
        evidence = self._evidence(known)
        if evidence.is_leading(self.distribution.order):
            coded = self.distribution.draw(len(known), rng, evidence)
        elif self._is_direct:
            coded = self.distribution.draw_directly(len(known), rng, evidence)  # type: ignore[attr-defined]
        else:

            def candidates(rows: np.ndarray) -> Candidates:
                coded = self.distribution.draw(len(rows), rng, evidence.taken(rows))
                return coded.log_weights, lambda at: self._decoded(coded.taken(at), known.iloc[rows[at]], rng)

            attributes = [each for each in self.discretizer.attributes if each.name in known]
            cells = {each.name: each.cells(known[each.name]) for each in attributes}
            return accept_by_weight(row_groups(cells, len(known)), candidates, rng)
        return self._decoded(coded, known, rng)

    def way(self, known: pd.DataFrame) -> str:
        attributes = [each for each in self.discretizer.attributes if each.name in known and each.edges is None]
        if any(is_too_rare(each, code) for each in attributes for code in np.unique(each.codes(known[each.name]))):
            return "merged"
        is_leading = self._evidence(known).is_leading(self.distribution.order)
        return "exact" if is_leading else "direct" if self._is_direct else "weights"

    @property
    def _is_direct(self) -> bool:
        return isinstance(self.distribution, AnyOrder) and self.distribution.in_any_order

    def _evidence(self, known: pd.DataFrame) -> Evidence:
        places = frozenset(at for at, each in enumerate(self.discretizer.attributes) if each.name in known)
        return Evidence(CodedRows.encoded(self.discretizer, known), places, self._zeros)

    def _decoded(self, coded: CodedRows, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        drawn = coded.decoded(self.discretizer, rng, known.columns)
        return drawn.assign(**{str(name): known[name].array for name in known})[list(self.discretizer.columns)]

    @cached_property
    def _zeros(self) -> tuple[tuple[tuple[int, ...], NDArray[np.bool_]], ...]:
        """Codes that go together by no constraint, or in no row though many were to be expected."""
        index = self.discretizer.columns.index
        zeros = structural_zeros(self.schema, self.discretizer)
        return (
            *((tuple(map(index, zero.attributes)), np.isfinite(zero.log_values)) for zero in zeros),
            *((tuple(map(index, pair)), together) for pair, together in self.allowed_pairs.items()),
        )

    def _described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        description, arrays = self.distribution.to_arrays()
        pairs = enumerate(self.allowed_pairs.values())
        content = {
            "discretizer": self.discretizer.to_plain(),
            "distribution": description,
            "allowed_pairs": [list(pair) for pair in self.allowed_pairs],
        }
        return content, {**arrays, **{f"allowed_pairs.{at}": flags.astype(np.uint8) for at, flags in pairs}}

    @classmethod
    def restored(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> Autoregression:
        """The distribution that its own `to_arrays` took apart. A generator's model says which this is."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], schema: Schema, statement: Any
    ) -> Self:
        if statement is not None:
            raise ValueError("such a model promises nothing")
        discretizer = Discretizer.from_plain(content["discretizer"], schema)
        allowed_pairs = _allowed_pairs(content.get("allowed_pairs", []), arrays, discretizer.sizes)
        others = {name: each for name, each in arrays.items() if not name.startswith("allowed_pairs.")}
        distribution = cls.restored(content["distribution"], others, discretizer)
        return cls(
            **facts_of(content, schema), discretizer=discretizer, distribution=distribution, allowed_pairs=allowed_pairs
        )


def _allowed_pairs(
    pairs: Sequence[Sequence[str]], arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """The pairs of columns, and which of their codes go together, as `taken_apart` gave them."""
    allowed = {(first, second): arrays[f"allowed_pairs.{at}"] != 0 for at, (first, second) in enumerate(pairs)}
    if any(flags.shape != (sizes[first], sizes[second]) for (first, second), flags in allowed.items()):
        raise ValueError("a pair of columns has a flag for each pair of codes")
    return allowed

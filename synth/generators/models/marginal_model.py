"""The model of all generators on marginals: a distribution over codes, and how codes become rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.domain.copula import FITTED_ROWS, Copula
from synth.domain.counts import MARK, fine
from synth.dp.statement import PrivacyStatement
from synth.generators.models.table_model import TableModel, facts_of
from synth.marginals import LatentClasses, MarkovRandomField, sample, sample_classes
from synth.marginals.distributions import CLASS_SHARES
from synth.marginals.factor import CELLS_A_MB
from synth.marginals.sampling import sample_given
from synth.schema import Schema

LARGEST_MB = 4096.0  # the largest size of a model's tables, whatever its parameters say


@dataclass(frozen=True, repr=False)
class MarginalModel(TableModel):
    """Released marginals, the distribution they make, and the schema: nothing else of the real table."""

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    discretizer: Discretizer
    distribution: MarkovRandomField | LatentClasses
    entity_shares: tuple[float, ...] | None = None
    parameters: Mapping[str, Any] | None = None

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted."""
        return self._decoded(_sampled(self.distribution, n_rows, rng), rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted, given the columns that are known of each: exactly, by their codes."""
        attributes = self.discretizer.attributes
        codes = {a.name: a.codes(known[a.name]) for a in attributes if a.name in known}
        if isinstance(self.distribution, LatentClasses):
            return self._decoded(sample_classes(self.distribution, len(known), rng, codes), rng, known)
        for name, groups in self._coarse_codes.items():
            if name in codes:
                codes[name + MARK] = groups[codes[name]]
        drawn = {**sample_given(self.distribution, codes, rng), **codes}
        return self._decoded(np.column_stack([drawn[a.name] for a in attributes]), rng, known)

    def way(self, known: pd.DataFrame) -> str:
        return "exact"

    def _decoded(self, codes: np.ndarray, rng: np.random.Generator, known: pd.DataFrame | None = None) -> pd.DataFrame:
        return self.discretizer.decode(codes[:, : len(self.discretizer.attributes)], rng, self._copula, known)

    @cached_property
    def _coarse_codes(self) -> dict[str, np.ndarray]:
        """The coarse code of every code, of the columns that have coarse ones."""
        coarse = {}
        for factor in self.distribution.potentials if isinstance(self.distribution, MarkovRandomField) else ():
            if len(factor.attributes) == 2 and factor.attributes[1] == factor.attributes[0] + MARK:
                coarse[factor.attributes[0]] = factor.log_values.argmax(axis=1).astype(np.int32)
        return coarse

    @cached_property
    def _copula(self) -> Copula | None:
        """Of numbers within their codes, fitted to codes that the distribution gives."""
        rng = np.random.default_rng(0)
        return Copula.fitted(self.discretizer, _sampled(self.distribution, FITTED_ROWS, rng), rng)

    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        description, arrays = self.distribution.to_arrays()
        return {"discretizer": self.discretizer.to_plain(), "distribution": description}, dict(arrays)

    @classmethod
    def load(
        cls,
        content: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        schema: Schema,
        statement: PrivacyStatement | None,
    ) -> Self:
        facts, discretizer = facts_of(content, schema), Discretizer.from_plain(content["discretizer"], schema)
        distribution = _distribution(content["distribution"], arrays, facts["parameters"])
        sizes = discretizer.sizes
        coarse = {name: size for name, size in distribution.domain.items() if name not in sizes}
        if list(distribution.domain.items()) != [*sizes.items(), *coarse.items()] or any(
            not name.endswith(MARK) or size > sizes.get(fine(name), 0) for name, size in coarse.items()
        ):
            raise ValueError("the distribution is not over the codes of the discretizer")
        if isinstance(distribution, LatentClasses) and coarse:
            raise ValueError("a latent class model is over fine codes alone")
        return cls(**facts, statement=statement, discretizer=discretizer, distribution=distribution)


def _sampled(distribution: MarkovRandomField | LatentClasses, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of codes, shape (n_rows, n_attributes)."""
    if isinstance(distribution, LatentClasses):
        return sample_classes(distribution, n_rows, rng)
    return sample(distribution, n_rows, rng)


def _distribution(
    description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], parameters: Mapping[str, Any] | None
) -> MarkovRandomField | LatentClasses:
    """The distribution that was taken apart, as its arrays tell its kind."""
    if CLASS_SHARES in arrays:
        return LatentClasses.from_arrays(description, arrays)
    field = MarkovRandomField.from_arrays(description, arrays)
    # Beside what its tables have themselves, a fit gives its junction tree so many cells at most.
    named = min(float((parameters or {}).get("max_model_mb", LARGEST_MB)), LARGEST_MB)
    least = sum(factor.log_values.size for factor in field.potentials) + sum(field.domain.values())
    if field.tree.n_cells > least + named * CELLS_A_MB:
        raise ValueError("the cliques make a larger model than any fit does")
    return field

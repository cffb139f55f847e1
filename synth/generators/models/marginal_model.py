"""The model of all generators on marginals: a distribution over codes, and how codes become rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.domain import Discretizer
from synth.domain.coded_rows import CodedRows
from synth.domain.copula import FITTED_ROWS, Copula
from synth.domain.counts import MARK, fine
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, ModelError
from synth.generators.models.conditions import ConditionMixture, Conditions
from synth.generators.models.constraints import structural_zeros
from synth.generators.models.imputation import Imputation
from synth.generators.models.table_model import TableModel, facts_of
from synth.marginals import LatentClasses, MarkovRandomField, sample, sample_classes
from synth.marginals.conditional_sampling import sample_given
from synth.marginals.factor import CELLS_A_MB
from synth.marginals.latent_classes import CLASS_SHARES
from synth.marginals.sampling import impute_codes
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

    def learned_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Columns that are not given are drawn from their distribution given the others."""
        mixture = ConditionMixture.of(given, balance, self.discretizer, self.schema)
        zeros = structural_zeros(self.schema, self.discretizer) if mixture.is_asked else ()
        distributions = {id(each): each.applied(self.distribution, zeros) for each in mixture.conditions}

        def draw(n: int, conditions: Conditions) -> pd.DataFrame:
            codes = _sampled(distributions[id(conditions)], n, rng)
            fine_codes = codes[:, : len(self.discretizer.attributes)]  # coarse attributes are last
            return self.discretizer.decode(fine_codes, rng, self._copula, conditions.values)

        return mixture.lawful_rows(n_rows, rng, draw, part)

    def drawn_after(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Canonical columns of rows, drawn given those that are known of each row."""
        if not isinstance(self.distribution, MarkovRandomField):
            raise ModelError("rows are drawn given others by a Markov random field; fit aim or mst")
        attributes = self.discretizer.attributes
        codes = {a.name: a.codes(known[a.name]) for a in attributes if a.name in known}
        for name, groups in self._coarse_codes.items():
            if name in codes:
                codes[name + MARK] = groups[codes[name]]
        drawn = sample_given(self.distribution, codes, rng)
        made = {a.name: a.values(drawn[a.name], rng) for a in attributes if a.name not in known}
        return pd.DataFrame(made, index=pd.RangeIndex(len(known)), copy=False)

    @cached_property
    def _coarse_codes(self) -> dict[str, np.ndarray]:
        """The coarse code of every code, of the columns that have coarse ones."""
        found = {}
        for factor in self.distribution.potentials if isinstance(self.distribution, MarkovRandomField) else ():
            if len(factor.attributes) == 2 and factor.attributes[1] == factor.attributes[0] + MARK:
                found[factor.attributes[0]] = factor.log_values.argmax(axis=1).astype(np.int32)
        return found

    def impute(self, frame: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """The rows of a table with missing cells drawn from their distribution given the cells that are there.

        The posterior of the classes given a row's known codes is exact, and given the class all columns are
        independent. So cells that are missing together are drawn together. Within their codes, values drawn together
        follow the copula; `Imputation.filled` says which cells stay missing. Known values of the row bear on the codes
        alone. Free of any budget, as often as wanted. A filled cell is made from the model and the other cells of its
        row, and can repeat what these determine. It is as sensitive as the row, and no guarantee of the model covers
        it.

        Source: Si & Reiter 2013 (imputation by latent classes).
        `frame`: *Sensitive*. Rows with all columns of the schema; any may have missing cells. Not changed.
        """
        if not isinstance(self.distribution, LatentClasses):
            raise JobError(f"generator={self.name!r} cannot fill in missing cells; fit latent_class or arn, which can")
        classes, rng = self.distribution, np.random.default_rng(seed)

        def fill(known: CodedRows, is_open: Mapping[int, np.ndarray]) -> pd.DataFrame:
            return self.discretizer.decode(impute_codes(classes, known.codes, is_open, rng), rng, self._copula)

        return Imputation(self.schema, self.discretizer, fill).filled(frame)

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
    held = sum(factor.log_values.size for factor in field.potentials) + sum(field.domain.values())
    if field.tree.n_cells > held + named * CELLS_A_MB:
        raise ValueError("the cliques make a larger model than any fit does")
    return field

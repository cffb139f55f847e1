"""Fits with epsilon to rows that are drawn given others: what is known of these costs nothing.

How often which rows stand above others is told by synthetic ones, which are drawn from the models of parents. So no
noise is spent on inherited columns, nor on pairs of these; nor on rows per unit, which columns of parents hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, regroup
from synth.dp.budget import Budget
from synth.dp.schedule import EventsOfRho
from synth.generators.base import Wrapper
from synth.generators.fitting.private_fit import even_mass_groups, start, with_schema_events
from synth.generators.marginal_generator import MarginalGenerator
from synth.generators.models.fitted import MarginalModel
from synth.marginals import Factor, Measurement
from synth.progress import Progress, quiet
from synth.schema import Schema

PILOT_ROWS = 20_000  # synthetic rows above others that are looked at, at most
CODES = 8  # of a known number or time: pairs of more drown in noise


class BelowOthers(Wrapper):
    """A generator of counts whose rows are drawn given some columns. `rows`: of these, synthetic."""

    base: MarginalGenerator
    known: tuple[str, ...]
    rows: Any = None

    def own_events(self, schema: Schema) -> Callable[[float], Any]:
        return self.base.row_events(schema, len(self.known))

    def all_events(self, schema: Schema, delta: float) -> EventsOfRho:
        return with_schema_events(self.own_events(schema), without_known(schema, self.known), delta, sizes=False)

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> MarginalModel:
        """A model of the table. `train`: *Sensitive*. Real rows."""
        fit = start(self, train, schema, budget, progress, seed)
        told = ToldRows(fit.schema, self.known, self.rows) if self.known else None
        model, _ = self.base.fitted(fit, fit.scheduled_events(self.own_events(fit.schema)), told)
        return replace(model, statement=fit.statement(), entity_shares=(1.0,), parameters=self.base.parameters())


def without_known(schema: Schema, known: Sequence[str]) -> Schema:
    """The schema without known columns, and what is said of them."""
    columns = {name: column for name, column in schema.columns.items() if name not in known}
    kept = tuple(each for each in schema.constraints if {*each.columns} <= columns.keys())
    roles = {"constraints": kept, "constant_in_entity": ()}
    return Schema.model_validate({**dict(schema), **roles, "columns": columns})


@dataclass(frozen=True)
class ToldRows:
    """What is known of rows before they are drawn, told by synthetic ones."""

    schema: Schema
    known: tuple[str, ...]
    rows: pd.DataFrame

    @property
    def alone(self) -> Schema:
        return without_known(self.schema, self.known)

    def complete(self, drawn: Discretizer, measured: Sequence[Measurement]) -> tuple[Discretizer, tuple[Factor, ...]]:
        """The codes of all columns, and the log shares of those of known ones, none of them zero."""
        counted = {each.name: each for each in drawn.attributes}
        attributes, factors = [], []
        for each in Discretizer.by_schema(self.schema).attributes:
            if each.name not in self.known:
                attributes.append(counted[each.name])
                continue
            if each.edges is not None:
                counts = np.bincount(each.cells(self.rows[each.name]), minlength=each.n_cells)[:OTHER]
                each = regroup(each, even_mass_groups(counts.astype(np.float64), 0.0, CODES))
            shares = np.bincount(each.codes(self.rows[each.name]), minlength=each.size) + 0.5
            attributes.append(each)
            factors.append(Factor((each.name,), np.log(shares / shares.sum())))
        return Discretizer(tuple(attributes)), tuple(factors)

"""Fits of a generator that are made to be thrown away: what an attack learns a generator by."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.generators.base import Generator, Model, PrivateGenerator
from synth.schema import Schema

Budgets = Callable[[int], Budget]
"""The budget of a fit, by its number; whoever pays for it learns that it is about to begin."""


@dataclass(frozen=True)
class Refits:
    """Fits of one generator under one schema. Their models are never saved, and no statement of theirs is given on.

    Attributes:
        generator: with an epsilon or without.
        schema: of the tables.
        schedule: of a private fit, calibrated once for all; none: without epsilon.
        budgets: of private fits; none: without epsilon.
    """

    generator: Generator
    schema: Schema
    schedule: Schedule | None
    budgets: Budgets | None

    @classmethod
    def of(cls, generator: Generator, schema: Schema, budgets: Budgets | None = None) -> "Refits":
        """Fits under a schema, each private one with a budget of its own outside any ledger unless budgets are given.

        Args:
            generator: with an epsilon or without.
            schema: of the tables.
            budgets: on the generator's schedule.

        Raises:
            BudgetError: the schema is not declared, or the budget cannot be met; nothing was fitted.
            SchemaError: the generator cannot be fitted under this schema; nothing was fitted.
        """
        schedule = generator.schedule(schema) if isinstance(generator, PrivateGenerator) else None
        if schedule is None:
            generator.check(schema)
            return cls(generator, schema, None, None)
        return cls(generator, schema, schedule, budgets or (lambda index: Budget(schedule)))

    def model(self, table: pd.DataFrame, *, index: int, seed: int) -> Model:
        """One fit.

        Args:
            table: *Sensitive* where it is real.
            index: of the fit, from 0.
            seed: of all draws but the noise and the sampling of a private fit.
        """
        if isinstance(self.generator, PrivateGenerator) and self.budgets is not None:
            return self.generator.fit(table, self.schema, seed=seed, budget=self.budgets(index))
        return self.generator.fit(table, self.schema, seed=seed)

"""Local: rows as respondents who randomize their own answers, and a table from these reports alone.

A fit gives every declared unit a slot. Rows go to slots in a random order of the system, and each slot is dealt
questions by its place. A slot without a row sends the report of somebody who answers nothing. So neither the number of
rows nor a row's place shows. After the randomization no row is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget, statement_of
from synth.dp.mechanisms import system_words
from synth.dp.schedule import Plan, Schedule, require_declared
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.private_fit import as_it_is
from synth.generators.fitting.training_data import bound_contributions
from synth.generators.models.constraints import affordable, structural_zeros
from synth.generators.models.marginal_model import MarginalModel
from synth.local.estimation import ReportCounts, distribution
from synth.local.survey import Survey, public_bins, questions_of, require_askable
from synth.marginals import Measurement
from synth.marginals.factor import CELLS_A_MB
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table.rows import Rows

EXACT_SIGMA = 0.5  # standard deviation, in rows, that counts without noise are taken to have
Pair = Annotated[tuple[str, str], Field(description="Two columns.")]


class Local(PrivateGenerator):
    """Reports that respondents randomize on their own, for those who trust no collector."""

    name: ClassVar[str] = "local"
    composes: ClassVar[bool] = False
    local: ClassVar[bool] = True
    delta: Annotated[float, Field(ge=0, le=0)] | Literal["auto"] = Field(
        default="auto", description="A local claim has a delta of 0."
    )
    pairs: Literal["auto", "none", "all"] | tuple[Pair, ...] = Field(
        default="auto",
        description="Pairs of columns that are asked beside columns; auto: all where noise leaves something of them.",
    )
    answers: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto", description="Questions that each respondent answers; auto: by the smallest variance."
    )
    n_bins: int = Field(default=16, ge=2, le=1000, description="Bins of a number or time without declared ones.")
    max_model_mb: float = Field(default=64.0, ge=0.01, le=4096, description="Size of the model's tables at most.")
    n_iterations: int = Field(default=1000, ge=1, description="Steps of the estimation at most.")

    @classmethod
    def asking(cls, survey: Survey) -> Self:
        """The generator that asks the questions of a survey."""
        pairs = tuple((one.columns[0], one.columns[1]) for one in survey.questions if len(one.columns) > 1)
        return cls(epsilon=survey.epsilon, pairs=pairs, answers=survey.n_answers, n_bins=survey.n_bins)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if self.epsilon is not None:
            require_askable(schema)

    def claimed_delta(self, schema: Schema) -> float:
        """0: every report is pure."""
        require_declared(schema)
        return 0.0

    def survey(self, schema: Schema, *, allows_no_answer: bool = True) -> Survey:
        """The questions of a fit with epsilon."""
        if self.epsilon is None:
            raise BudgetError(f"generator={self.name!r} has no epsilon to randomize answers by; set one")
        return Survey.of(
            schema,
            self.epsilon,
            pairs=self.pairs,
            n_bins=self.n_bins,
            n_answers=self.answers,
            allows_no_answer=allows_no_answer,
        )

    def plan(self, schema: Schema) -> Plan:
        """The answers of one respondent, whatever rho: epsilon alone sets their randomness."""
        event = self.survey(schema).event
        return lambda rho: [event]

    def calibrated(self, schema: Schema) -> Schedule:
        """The schedule: the answers of one respondent, at delta 0."""
        return self.survey(schema).schedule

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> MarginalModel:
        """A model of what respondents report. `train`: *Sensitive*. A row for each respondent."""
        self.check(schema)
        if not self.promises:
            return self._as_it_is(train, schema, progress)
        survey = self.survey(schema)
        if budget is None:
            budget = Budget(survey.schedule)
        elif budget.schedule != survey.schedule:
            raise BudgetError(
                f"the budget is not on the schedule of generator={self.name!r} under this schema; make it with "
                "`Budget(generator.schedule(schema))`"
            )
        progress("randomizing answers", None)
        known = self._reported(train, survey, budget)
        return self.of_reports(known, budget.statement(schema), progress)

    def of_reports(
        self, known: ReportCounts, statement: PrivacyStatement | None = None, progress: Progress = quiet
    ) -> MarginalModel:
        """A model of reports, without any row."""
        survey = known.survey
        stated = statement_of(survey.schedule, survey.schema) if statement is None else statement
        return self._estimated(
            known.measurements(), survey.discretizer, survey.schema, stated, stated.n_units, progress
        )

    def _reported(self, train: Any, survey: Survey, budget: Budget) -> ReportCounts:
        """The reports of all slots, counted; nothing but these leaves."""
        # Conformed first: one name may be spelled in several ways, and each would send a report.
        rows = bound_contributions(Rows.of(train, survey.schema), survey.schema).frame()
        n_slots = require_declared(survey.schema)
        order = _slots(len(rows), n_slots)
        cells = list(survey.answers(survey.codes(rows), order))
        asked = [(each, question.oracle) for each, question in zip(cells, survey.questions, strict=True)]
        supports = budget.respond(asked, survey.event)
        n_each = tuple(len(survey.respondents_of(place, n_slots)) for place in range(len(survey.questions)))
        return ReportCounts(survey, tuple(supports), n_each, n_slots)

    def _estimated(
        self,
        measured: Sequence[Measurement],
        discretizer: Discretizer,
        schema: Schema,
        statement: PrivacyStatement | None,
        n_rows: int,
        progress: Progress,
    ) -> MarginalModel:
        progress("estimating the distribution", None)
        sizes = discretizer.sizes
        zeros = affordable(structural_zeros(schema, discretizer), sizes, self.max_model_mb * CELLS_A_MB / 2)
        found = distribution(measured, discretizer, zeros=zeros, n_iterations=self.n_iterations)
        shares = None if schema.entity is None else (1.0,)
        return MarginalModel(self.name, schema, statement, n_rows, discretizer, found, shares, self.parameters())

    def _as_it_is(self, train: Any, schema: Schema, progress: Progress) -> MarginalModel:
        """The model of the same questions answered by everybody, truthfully."""
        table, seen = as_it_is(train, schema)
        discretizer = public_bins(seen, self.n_bins)
        coded = table.coded(discretizer)
        pairs = "all" if self.pairs == "auto" else self.pairs
        cliques = questions_of(pairs, discretizer.sizes)
        measured = [Measurement(clique, coded.counts(clique).astype(np.float64), EXACT_SIGMA) for clique in cliques]
        model = self._estimated(measured, discretizer, seen, None, len(table), progress)
        if seen.entity is None:
            return model
        sizes = table.rows_per_entity()
        return replace(model, entity_shares=tuple((sizes / max(sizes.sum(), 1)).tolist()))


def _slots(n_rows: int, n_slots: int) -> np.ndarray:
    """The row in each slot, -1 for none: rows in a random order of the system, those beyond the slots left out."""
    rows = np.full(max(n_slots, n_rows), -1, dtype=np.int64)
    rows[:n_rows] = np.arange(n_rows)
    return rows[np.argsort(system_words(len(rows), np.uint64), kind="stable")][:n_slots]

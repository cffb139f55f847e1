"""Local: rows as respondents who randomize their own answers, and a table from these reports alone.

A fit gives every declared unit a slot. Rows go to slots in a random order of the system, and each slot is dealt
questions by its number. A slot without a row sends the report of somebody who answers nothing. So neither the number of
rows nor a row's place shows. After the randomization no row is read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from synth.domain import Discretizer
from synth.dp.budget import Budget, statement_of
from synth.dp.schedule import EventsOfRho, Schedule, require_declared
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError
from synth.generators.base import PrivateGenerator, off_schedule
from synth.generators.fitting.private_fit import as_it_is
from synth.generators.models.constraints import affordable, structural_zeros
from synth.generators.models.fitted import MarginalModel
from synth.marginals import Clique, MarkovRandomField, Measurement, estimate
from synth.marginals.factor import CELLS_A_MB, EXACT_SIGMA, MEAN_ABSOLUTE
from synth.marginals.junction_tree import pieces
from synth.progress import Progress, quiet
from synth.schema import Schema
from understudy.extras.local.survey import ReportCounts, Survey, public_bins, questions_of, require_askable

BLURRED = 0.1  # Half a 95% interval of a share beyond this is called wide
Pair = Annotated[tuple[str, str], Field(description="Two columns.")]


class Local(PrivateGenerator):
    """Reports that respondents randomize on their own, for those who trust no collector."""

    name: ClassVar[str] = "local"
    composes: ClassVar[bool] = False
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
        pairs = tuple((each.columns[0], each.columns[1]) for each in survey.questions if len(each.columns) > 1)
        return cls(epsilon=survey.epsilon, pairs=pairs, answers=survey.n_answers, n_bins=survey.n_bins)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if self.epsilon is not None:
            require_askable(schema)

    def claimed_delta(self, schema: Schema) -> float:
        """0: every report is pure."""
        require_declared(schema)
        return 0.0

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Beside those of every generator: shares that so few respondents leave too blurred."""
        if self.epsilon is None:
            return super().cautions(schema)
        survey, n = self.survey(schema), schema.n_units or 0
        width = max(survey.half_width(question, n) for question in survey.questions)
        few = (
            f"n_units={n} is few for respondents who randomize their own answers at epsilon={self.epsilon:g}: a share "
            f"of answers is known to within {100 * width:.2g} points at worst; `understudy survey` says how many it "
            "takes"
        )
        return (*super().cautions(schema), *([few] if width > BLURRED else []))

    def survey(self, schema: Schema) -> Survey:
        if self.epsilon is None:
            raise BudgetError(f"generator={self.name!r} has no epsilon to randomize answers by; set one")
        return Survey.of(
            schema, self.epsilon, pairs=self.pairs, n_bins=self.n_bins, n_answers=self.answers, allows_no_answer=True
        )

    def own_events(self, schema: Schema) -> EventsOfRho:
        """The answers of one respondent, whatever rho: epsilon alone sets their randomness."""
        event = self.survey(schema).event
        return lambda rho: [event]

    def counted_schedule(self, schema: Schema) -> Schedule:
        return self.survey(schema).schedule

    def fit_budget(self, schema: Schema, budget: Budget | None, progress: Progress) -> Budget:
        schedule = self.counted_schedule(schema)
        if budget is not None and budget.schedule != schedule:
            raise off_schedule(self.name)
        return budget or Budget(schedule)

    def fit_rows(
        self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet, budget: Budget | None = None
    ) -> MarginalModel:
        self.check(schema)
        if not self.promises:
            return self._as_it_is(train, schema, progress)
        survey, budget = self.survey(schema), self.fit_budget(schema, budget, progress)
        progress("randomizing answers", None)
        return self.of_reports(ReportCounts.of(train, survey, budget), budget.statement(schema), progress)

    def of_reports(
        self, counts: ReportCounts, statement: PrivacyStatement | None = None, progress: Progress = quiet
    ) -> MarginalModel:
        survey = counts.survey
        stated = statement or statement_of(survey.schedule, survey.schema)
        model = self._estimated(counts.measurements(), survey.discretizer, survey.schema, stated.n_units, progress)
        return replace(model, statement=stated)

    def _as_it_is(self, train: Any, schema: Schema, progress: Progress) -> MarginalModel:
        """The model of the same questions answered by everybody, truthfully."""
        table, seen = as_it_is(train, schema)
        discretizer = public_bins(seen, self.n_bins)
        coded = table.coded(discretizer)
        cliques = questions_of("all" if self.pairs == "auto" else self.pairs, discretizer.sizes)
        measured = [Measurement(clique, coded.counts(clique).astype(np.float64), EXACT_SIGMA) for clique in cliques]
        model = self._estimated(measured, discretizer, seen, len(table), progress)
        sizes = None if seen.entity is None else table.rows_per_entity()
        return model if sizes is None else replace(model, entity_shares=tuple((sizes / max(sizes.sum(), 1)).tolist()))

    def _estimated(
        self, measured: Sequence[Measurement], discretizer: Discretizer, schema: Schema, n_rows: int, progress: Progress
    ) -> MarginalModel:
        progress("estimating the distribution", None)
        most = self.max_model_mb * CELLS_A_MB / 2
        zeros = affordable(structural_zeros(schema, discretizer), discretizer.sizes, most)
        pairs = {each.clique: each for each in measured if len(each.clique) > 1}
        single = [each for each in measured if len(each.clique) == 1]
        for pair in pairs.values():  # each also says something of its two columns
            for axis, name in enumerate(pair.clique):
                sigma = float(pair.sigma) * math.sqrt(pair.values.shape[1 - axis])
                single.append(Measurement((name,), pair.values.sum(axis=1 - axis), sigma))
        apart = estimate(discretizer.sizes, single, n_iterations=self.n_iterations)
        tree = spanning_tree(pairs, apart, [zero.attributes for zero in zeros])
        released = [*single, *(pairs[pair] for pair in tree)]
        estimated = estimate(discretizer.sizes, released, n_iterations=self.n_iterations, zeros=zeros)
        shares = None if schema.entity is None else (1.0,)
        return MarginalModel(self.name, schema, None, n_rows, discretizer, estimated, shares, self.parameters())


def spanning_tree(
    pairs: Mapping[Clique, Measurement], apart: MarkovRandomField, constrained: Sequence[Clique]
) -> list[Clique]:
    """The pairs of a tree that are furthest from independent columns, beyond what noise alone would be.

    Free of charge: it reads what was released. DEVIATES: MST pays for a private choice (2108.04978, Algorithm 1); here
    all pairs were measured.
    """
    gains, inside = {}, {frozenset(two) for clique in constrained for two in combinations(clique, 2)}
    for clique, pair in pairs.items():
        if frozenset(clique) not in inside:
            expected = apart.marginal(clique)
            gap = float(np.abs(pair.values.reshape(expected.shape) - expected).sum())
            gains[clique] = gap - MEAN_ABSOLUTE * float(np.mean(pair.sigma)) * expected.size
    tree: list[Clique] = []
    for clique in sorted(gains, key=lambda pair: (-gains[pair], pair)):
        part = pieces(apart.domain, tree)
        if gains[clique] > 0 and part[clique[0]] != part[clique[1]]:
            tree.append(clique)
    return tree

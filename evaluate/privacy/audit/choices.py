"""An audit of choices: how far do units move the chances of what the exponential mechanism chooses?

The table is made for it. Its first two columns hang together, and so do its last two, so that both pairs are worth
choosing. Units that are there or not hold what the first pair has and the second has not: they raise the score of the
one by a row each and lower that of the other, which is the worst that units can do to a choice. The generator scores
both tables by its own code, at the same published numbers, and its budget then chooses again and again by each table's
scores, with the system's noise. Where histories are drawn, the units of the same two tables have k rows each. Choices
for first rows and for later ones are made from them.

Of m units, no set of candidates may become more likely by a factor above e^a while another becomes less likely by one
above e^b, where a + b is m times the event's epsilon: that is its bounded range. Exact ends of four rates bound the
range from below, and with it the epsilon of one choice.

Source: Dong, Durfee, Rogers 2020 (2004.07223), bounded range; its composition over m units is that of ratios.
"""

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from evaluate.audit_result import AuditCheck, Power
from evaluate.privacy.audit.bounds import epsilon_of_less
from evaluate.privacy.audit.power import N_SIMULATED, power_of
from evaluate.privacy.audit.rehearsal import ChoiceArguments, Script, rehearse, schedule_like
from evaluate.privacy.audit.stand_in import IDENTIFIER, ORDER, UNIT, text_columns, with_texts
from synth.dp.budget import Budget
from synth.dp.events import SelectionEvent
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator
from synth.generators.wrapper import draws_in_order, unwrapped
from synth.row_order import FIRST_ROWS, LATER_ROWS
from synth.schema import Schema, build_schema

N_CHOICES = 250  # Choices by each of the two tables' scores
N_CODES = 3
RANGE, MOST_ROWS = 3.0, 2_000
"""Units are as many as should move log chances by this, and their rows no more than so many."""
DEEP = 2  # Depth of a table whose triples of columns lead
_SEED = 20_241


@dataclass(frozen=True)
class ChoiceTable:
    schema: Schema
    n_units: int
    depth: int = 1

    @classmethod
    def like(cls, schema: Schema, epsilon: float, depth: int = 1) -> "ChoiceTable":
        columns: dict[str, Any] = {
            f"column {i + 1}": {"kind": "integer", "bounds": [0, N_CODES - 1], "bins": list(range(N_CODES + 1))}
            for i in range(4)
        }
        columns |= text_columns(schema)
        content = {"status": "declared", "n_units": schema.n_units, "columns": columns}
        if schema.entity is not None:
            columns[UNIT] = IDENTIFIER
            content |= {"entity": UNIT, "max_rows_per_unit": schema.max_rows_per_unit}
        if schema.order is not None:
            columns[ORDER] = IDENTIFIER
            content |= {"order": ORDER}
        most = max(MOST_ROWS // schema.max_rows_per_unit, 2)
        n_units = min(max(math.ceil(RANGE / epsilon), 2), most)
        return cls(build_schema(content), n_units + n_units % 2, depth)

    def table(self, present: bool) -> pd.DataFrame:
        k, histories = self.schema.max_rows_per_unit, self.schema.order is not None
        n, codes = self.n_units * (1 if histories else k), range(N_CODES)
        tied = np.array([(a, a, b, b) for a, b in product(codes, codes)])
        rows = np.tile(tied, (self.depth * max(n, 10), 1))
        # Without the units the second pair leads by as much as the units move the two: they meet halfway.
        apart = np.array([(a, (a + 1 + i) % N_CODES) for a, i in product(codes, range(N_CODES - 1))])
        rows[: n // 2, :2] = np.resize(apart, (n // 2, 2))
        cells = np.array([(a, a, b, c) for a, b, c in product(codes, codes, codes) if b != c])
        moving = np.resize(cells, (n, 4)) if present else np.zeros((0, 4), dtype=np.int64)
        names = list(self.schema.modeled)
        if histories:
            made = self._of_histories([rows[: n // 2], rows[n // 2 :], moving]).set_axis([*names, UNIT, ORDER], axis=1)
            return with_texts(made, self.schema)
        frame = pd.DataFrame(np.concatenate([rows, moving]), columns=names)
        if self.schema.entity is not None:
            units = len(rows) + np.repeat(np.arange(self.n_units), k)
            frame[UNIT] = np.concatenate([np.arange(len(rows)), units[: len(moving)]])
        return with_texts(frame, self.schema)

    def _of_histories(self, kinds: list[np.ndarray]) -> pd.DataFrame:
        """Histories of k rows, all of one kind and in turn any of it, so that no row tells the next one. `kinds`: rows,
        as many as there are units of each kind; shape (n_units, n_columns) each.
        """
        k, rng = self.schema.max_rows_per_unit, np.random.default_rng(_SEED)
        rows = [
            np.stack([rng.permutation(kind) for _ in range(k)], axis=1).reshape(-1, kind.shape[1]) for kind in kinds
        ]
        n = sum(map(len, kinds))
        place = np.tile(np.arange(k), n)
        return pd.DataFrame(np.column_stack([np.concatenate(rows), np.repeat(np.arange(n), k), place]))


@dataclass(frozen=True)
class Chances:
    """Two neighboring tables' scores, and the two sets of candidates that a choice is held to."""

    without: ChoiceArguments
    with_units: ChoiceArguments
    scale: float
    n_units: int

    @property
    def sets(self) -> tuple[np.ndarray, np.ndarray]:
        """Candidates whose score the units raise most, and those whose score they lower most; boolean, each."""
        moved = self.with_units.scores - self.without.scores
        middle = (moved.max() + moved.min()) / 2
        span = (moved.max() - moved.min()) / 4
        return moved > middle + span, moved < middle - span

    def rates(self, share: float) -> np.ndarray:
        """Chances of both sets without the units and with them, by so much of the stated noise; shape (2, 2)."""
        scale = max(share, 1e-6) * self.scale
        chances = [special.softmax(choice.scores / scale) for choice in (self.without, self.with_units)]
        return np.array([[float(chance[inside].sum()) for inside in self.sets] for chance in chances]).clip(0.0, 1.0)


def audit_choices(
    generator: PrivateGenerator, schema: Schema, schedule: Schedule, confidence: float
) -> tuple[AuditCheck, ...]:
    """The check of the first kind of choice that a generator makes, of first rows and of later ones in histories. None
    is made where the generator makes no choice, and where it would not draw histories of the table for it.
    """
    kinds = _kinds(schedule, schema)
    if not kinds:
        return ()
    # Pairs are what the table's units move; a marginal of more columns would only be weighed against them. Where these
    # cannot be left out, rows are so many that they lead: units move those that hold one of the pairs as far.
    degree = {"degree": 2} if "degree" in type(unwrapped(generator)).model_fields else {}
    chooser = generator.model_copy(update=degree)
    least = min(event.epsilon for event, _ in kinds)
    arena = ChoiceTable.like(schema, least, 1 if degree else DEEP)
    if draws_in_order(chooser, arena.schema) != (schema.order is not None):
        return ()
    plan = schedule_like(chooser, arena.schema, schedule)

    def scored(present: bool, follows: Script | None = None) -> Script:
        frame = arena.table(present)
        return rehearse(
            lambda budget: chooser.fit(frame, arena.schema, budget=budget), plan, follows, kinds[-1][0].what
        )

    without = scored(present=False)
    scripts = (without, scored(present=True, follows=without))
    checks = []
    for event, n_rows in kinds:
        made = [[choice for choice in script.choices if choice.event.what == event.what] for script in scripts]
        if not all(made):
            return ()
        pair, level = (made[0][0], made[1][0]), 1 - (1 - confidence) / len(kinds)
        checks.append(_check_of(pair, n_rows, arena.n_units, schedule, level))
    return tuple(checks)


def _kinds(schedule: Schedule, schema: Schema) -> list[tuple[SelectionEvent, int]]:
    """The first kind of choice of each fit that a schedule has, and how many rows of a unit count in it."""
    choices = [event for event in schedule.events if isinstance(event, SelectionEvent)]
    k = schema.max_rows_per_unit
    if schema.order is None:
        return [(choices[0], k)] if choices else []
    fits = ((FIRST_ROWS, 1), (LATER_ROWS, k - 1))
    firsts = ((next((event for event in choices if event.what.endswith(rows)), None), n) for rows, n in fits)
    return [(event, n) for event, n in firsts if event is not None]


def _check_of(
    choices: tuple[ChoiceArguments, ChoiceArguments], n_rows: int, n_units: int, schedule: Schedule, confidence: float
) -> AuditCheck:
    event = choices[0].event
    chances = Chances(*choices, 2 * n_rows / event.epsilon, n_units)
    counts = np.array([_counts(choice, chances.sets, schedule.delta) for choice in choices])
    bound = float(_least_range(counts[None], confidence)[0]) / n_units
    looked_at = (
        f"{N_CHOICES:,} choices by each of two tables that differ in {n_units:,} units, which at "
        f"{confidence:.4%} confidence have an epsilon of at least {bound:.3g} each, where {event.epsilon:.3g} is stated"
    )
    check = AuditCheck(event.what, looked_at, "", _power(chances, event.epsilon, confidence))
    if bound <= event.epsilon:
        return check
    proved = epsilon_of_less(schedule, event.what, event.epsilon / bound)
    return replace(check, fault=f"{event.what}: units move the chances by more than is stated", bound=proved)


def _counts(choice: ChoiceArguments, sets: tuple[np.ndarray, np.ndarray], delta: float) -> list[int]:
    event = replace(choice.event, count=N_CHOICES)
    budget = Budget(Schedule((event,), delta))
    chosen = [budget.choose(choice.scores, choice.score_sensitivity, event) for _ in range(N_CHOICES)]
    return [int(inside[chosen].sum()) for inside in sets]


def _least_range(counts: np.ndarray, confidence: float) -> np.ndarray:
    """The bounded range that is at least there, by how often two sets were chosen; shape (n,). `counts`: without the
    units and with them, of both sets, shape (n, 2, 2).
    """
    tail = (1 - confidence) / 4
    low = np.where(counts == 0, 0.0, stats.beta.ppf(tail, np.maximum(counts, 1), N_CHOICES - counts + 1))
    high = np.where(counts == N_CHOICES, 1.0, stats.beta.isf(tail, counts + 1, np.maximum(N_CHOICES - counts, 1)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low[:, 1, 0] / high[:, 0, 0]) + np.log(low[:, 0, 1] / high[:, 1, 1]))


def _power(chances: Chances, epsilon: float, confidence: float) -> Power:
    """The power to show less Gumbel noise than is stated."""
    rng = np.random.default_rng(_SEED)

    def shows(share: float) -> float:
        rates = chances.rates(share)
        drawn = np.stack(
            [rng.multinomial(N_CHOICES, [*pair, max(1 - pair.sum(), 0.0)], N_SIMULATED)[:, :2] for pair in rates],
            axis=1,
        )
        return float(np.mean(_least_range(drawn, confidence) > chances.n_units * epsilon))

    return power_of(shows)

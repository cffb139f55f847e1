"""Charge first, draw second: a budget holds a plan of events, and a draw that is not in the plan does not happen."""

from collections import Counter
from collections.abc import Sequence
from importlib import metadata

import numpy as np

from synth.dp.accounting import epsilon_pld, epsilon_rdp
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.mechanisms import Noise, release_counts, select
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError
from synth.schema import Schema

CAVEATS = (
    "The fit clamps values beyond the declared bounds and treats unknown categories as one; no row is refused.",
    "Everything in the schema (bounds, categories, n_units) is taken to be public: whoever declared it asserts that.",
    "Checking the table against its schema, evaluating and the internal report read real rows outside this guarantee.",
    "Choosing to publish because exact measures came out well is a release that this guarantee does not cover.",
)


class Budget:
    """The events of one private fit. Drawing spends them; statement and draws come from the same list."""

    def __init__(self, events: Sequence[Event], noise: Noise) -> None:
        self._events = tuple(events)
        self._noise = noise
        self._spent: Counter[Event] = Counter()

    def counts(self, exact: np.ndarray, event: GaussianEvent) -> np.ndarray:
        """Noisy counts; spends one of the event's releases.

        Args:
            exact: *Sensitive*. Integer counts, any shape.
            event: one of the plan's.

        Raises:
            BudgetError: the event is not in the plan or is spent; nothing was drawn.
        """
        self._spend(event)
        return release_counts(exact, event, self._noise)

    def choice(self, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
        """The index of a noisy best score; spends one of the event's choices.

        Args:
            scores: *Sensitive*. One score per public candidate.
            score_sensitivity: how far one unit can move any score.
            event: one of the plan's.

        Raises:
            BudgetError: the event is not in the plan or is spent; nothing was drawn.
        """
        self._spend(event)
        return select(scores, score_sensitivity, event, self._noise)

    def _spend(self, event: Event) -> None:
        planned = sum(e.count for e in self._events if e == event)
        if self._spent[event] >= planned:
            raise BudgetError(f"the budget holds no further release of {event.what!r}; plan it before drawing")
        self._spent[event] += 1

    def statement(self, delta: float, schema: Schema) -> PrivacyStatement:
        """What the plan promises, whether or not all of it was drawn.

        Args:
            delta: at which epsilon is stated.
            schema: declared; names the unit and `n_units`.
        """
        assert schema.n_units is not None
        claim, check = epsilon_pld(self._events, delta), epsilon_rdp(self._events, delta)
        if claim > check * (1 + 1e-3):  # the grid of the first is pessimistic by less than that
            raise RuntimeError(f"the accountants disagree: PLD epsilon={claim:.6g} exceeds RDP epsilon={check:.6g}")
        return PrivacyStatement(
            epsilon=claim,
            delta=delta,
            unit="row" if schema.entity is None else schema.entity,
            n_units=schema.n_units,
            max_rows_per_unit=schema.max_rows_per_unit,
            accountant="PLD (dp-accounting)",
            epsilon_rdp=check,
            events=tuple(event.record() for event in self._events),
            versions={name: metadata.version(name) for name in ("dp-accounting", "opendp", "numpy")},
            caveats=CAVEATS,
            private=self._noise.private,
        )

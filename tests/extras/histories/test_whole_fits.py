"""One history less, in two whole fits of pinned noise: lies about first or later rows show, whatever epsilon is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import row_order as ordering
from synth.dp import budget, mechanisms
from synth.dp.events import GaussianEvent
from synth.generators.base import compose
from synth.generators.fitting import training_data
from synth.schema import Schema
from tests.chunks import in_chunks
from tests.synth.generators import test_whole_fits_one_unit_less as whole_fits
from understudy.extras.histories import wrapper
from understudy.extras.histories.layout import HistoryLayout

_later, _release, _choose = HistoryLayout.__dict__["later_rows"].func, mechanisms.release, mechanisms.select
_of, _taken_apart = ordering.histories_of, HistoryLayout.taken_apart


def one_history_less_moves_what_is_paid_for() -> None:
    whole_fits.one_unit_less_moves_what_is_paid_for(whole_fits.small("mst"), "history")


def another_order_of_the_table_moves_nothing() -> None:
    frame, schema = whole_fits.visits(), whole_fits.schema_of("history")
    generator: Any = compose(whole_fits.small("mst"), schema)
    whole = whole_fits.Fit(generator, in_chunks(frame, schema, None), schema)
    turned = frame.iloc[::-1].reset_index(drop=True)
    again = whole_fits.Fit(generator, in_chunks(turned, schema, None), schema, whole)
    assert max(whole.differences(again), default=0.0) == 0.0
    assert whole_fits.told_by(again.model) == whole_fits.told_by(whole.model)


def _lag_of_one(patch: pytest.MonkeyPatch) -> None:
    def later_rows(self: HistoryLayout) -> Schema:
        return Schema.model_validate({**_later(self).model_dump(), "max_rows_per_unit": 1})

    patch.setattr(HistoryLayout, "later_rows", property(later_rows))


def _less_noise_asked_for(exact: Any, event: Any, noise: Any) -> Any:
    less = GaussianEvent(event.what, event.sigma / 2, event.sensitivity, count=event.count)
    return _release(exact, less if event.what.endswith("later rows") else event, noise)


def _less_noise_of_choices(scores: Any, most: float, event: Any, noise: Any) -> int:
    return _choose(scores, most / 2 if event.what.endswith("later rows") else most, event, noise)


def _exact_lengths(patch: pytest.MonkeyPatch) -> None:
    """The numbers of rows of histories without noise."""
    seen: list[Any] = []

    def apart(self: HistoryLayout, *more: Any) -> Any:
        seen.append(_taken_apart(self, *more))
        return seen[-1]

    def lengths(codes: Any, measured: Any, layout: HistoryLayout) -> tuple[float, ...]:
        n_rows = seen[-1][0][layout.n_rows].to_numpy(dtype=int)
        return tuple(np.bincount(n_rows, minlength=layout.longest + 1)[1:] / max(len(n_rows), 1))

    patch.setattr(HistoryLayout, "taken_apart", apart)
    patch.setattr(wrapper, "length_shares", lengths)


def _ties_by_position(patch: pytest.MonkeyPatch) -> None:
    """Rows that have the order in common follow each other as they stand in the table."""

    def by_position(table: pd.DataFrame, schema: Schema) -> Any:
        keys = (np.arange(len(table)), table[schema.order].to_numpy(), table[schema.entity].to_numpy())
        return replace(_of(table, schema), rows=np.lexsort(keys))

    for module in (training_data, wrapper):
        patch.setattr(module, "histories_of", by_position)


def _planted(owner: Any, name: str, lie: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, lie)


CHECKS = (one_history_less_moves_what_is_paid_for, another_order_of_the_table_moves_nothing)
FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "later rows that count once": (_lag_of_one, CHECKS[0]),
    "histories that are not bounded": (
        _planted(ordering.Histories, "first", lambda self, most: self), CHECKS[0]
    ),
    "half the noise of later rows": (_planted(budget, "release", _less_noise_asked_for), CHECKS[0]),
    "half the noise of choices of later rows": (_planted(budget, "select", _less_noise_of_choices), CHECKS[0]),
    "the rows of a history without noise": (_exact_lengths, CHECKS[0]),
    "an order by positions in the table": (_ties_by_position, CHECKS[1]),
}  # fmt: skip


# Five fits; the slow tests of all generators have it, too.
@pytest.mark.parametrize("check", [pytest.param(CHECKS[0], marks=pytest.mark.slow), CHECKS[1]])
def test_the_check_passes_on_the_code_as_it_is(check: Callable[[], None]) -> None:
    check()


SLOW = [name for name in FAULTS if "noise" in name]  # they show in the second fit or later


@pytest.mark.parametrize(
    ("plant", "check"),
    [pytest.param(*fault, id=name, marks=[pytest.mark.statistical] * (name in SLOW)) for name, fault in FAULTS.items()],
)
def test_a_lie_about_first_or_later_rows_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(whole_fits, "_scheduled", whole_fits._scheduled.__wrapped__)  # a lie may change the plan, too
    with pytest.raises(AssertionError):
        check()

"""One history less, in two whole fits of pinned noise: lies about first or later rows show, whatever epsilon is."""

from typing import Any

import pytest

from synth import row_order as ordering
from synth.dp import budget, mechanisms
from synth.dp.events import GaussianEvent
from synth.schema import Schema
from tests.synth.generators.test_whole_fits_one_unit_less import one_unit_less_moves_what_is_paid_for, small
from understudy.extras.histories.layout import HistoryLayout

_later, _release, _choose = HistoryLayout.__dict__["later_rows"].func, mechanisms.release, mechanisms.select


def _lag_of_one(self: HistoryLayout) -> Schema:
    return Schema.model_validate({**_later(self).model_dump(), "max_rows_per_unit": 1})


def _less_noise_asked_for(exact: Any, event: Any, noise: Any) -> Any:
    less = GaussianEvent(event.what, event.sigma / 2, event.sensitivity, count=event.count)
    return _release(exact, less if event.what.endswith("later rows") else event, noise)


def _less_noise_of_choices(scores: Any, most: float, event: Any, noise: Any) -> int:
    return _choose(scores, most / 2 if event.what.endswith("later rows") else most, event, noise)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "later rows that count once": (HistoryLayout, "later_rows", property(_lag_of_one)),
    "histories that are not bounded": (ordering.Histories, "first", lambda self, most: self),
    "half the noise of later rows": (budget, "release", _less_noise_asked_for),
    "half the noise of choices of later rows": (budget, "select", _less_noise_of_choices),
}


# Two to six seconds each, of which the schedule of a history takes one.
@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[pytest.mark.slow] * (i > 0)) for i, fault in enumerate(FAULTS)]
)
def test_a_lie_about_first_or_later_rows_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(small("mst"), "history")

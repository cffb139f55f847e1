"""Audits of fits that draw histories: the stand-in is fitted as they are, and faults in later rows alone show."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from evaluate.audit_result import NO_FAULT, OUTSIDE, AuditError
from evaluate.privacy.audit import white_box
from evaluate.privacy.audit.canaries import N_CANARIES, CountTrials, StandIn, measurement_log
from evaluate.privacy.audit.white_box import audit
from synth import row_order as ordering
from synth.dp import budget, mechanisms
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.base import PrivateGenerator, compose
from synth.schema import Schema, build_schema
from understudy.extras.histories.layout import HistoryLayout

K, N_UNITS = 4, 1_000
SLOW = pytest.mark.slow
CHEAP: dict[str, dict[str, Any]] = {"mst": {"n_iterations": 1}, "aim": {"n_iterations": 1, "n_draws": 1_000}}
_later, _release = HistoryLayout.__dict__["later_rows"].func, mechanisms.release


def schema_of(order: str = "time", k: int = K, **more: Any) -> Schema:
    columns: dict[str, Any] = {
        "who": {"kind": "identifier", "bounds": [0, 10**6]},
        "visit": {"kind": "identifier", "bounds": [0, 10**6]},
        "group": {"kind": "categorical", "categories": ["a", "b"]},
        "time": {"kind": "integer", "bounds": [0, 60]},
        "state": {"kind": "categorical", "categories": ["x", "y", "z"]},
        "level": {"kind": "integer", "bounds": [0, 30]},
    }
    return build_schema({
        "status": "declared", "n_units": N_UNITS, "entity": "who", "max_rows_per_unit": k, "order": order,
        "constant_in_entity": ["group"], "columns": {**columns, **more.pop("columns", {})}, **more,
    })  # fmt: skip


def generator(name: str = "mst", epsilon: float = 3.0) -> PrivateGenerator:
    built = compose(registry.generator(name, epsilon=epsilon, delta=1e-6, **CHEAP[name]), schema_of())
    assert isinstance(built, PrivateGenerator)
    return built


@cache
def planned(built: PrivateGenerator, order: str) -> tuple[Schedule, StandIn]:
    stand_in = StandIn.like(schema_of(order), histories=True)
    schedule = built.schedule(stand_in.schema)
    assert schedule is not None
    return schedule, stand_in


def _lag_of_one(self: HistoryLayout) -> Schema:
    return Schema.model_validate({**_later(self).model_dump(), "max_rows_per_unit": 1})


def _less_noise_asked_for(exact: np.ndarray, event: Any, noise: Any) -> np.ndarray:
    less = GaussianEvent(event.what, event.sigma / 2, event.sensitivity, count=event.count)
    return _release(exact, less if event.what.endswith("later rows") else event, noise)


RELEASED: dict[str, tuple[Any, str, Any]] = {
    "later rows that count once": (HistoryLayout, "later_rows", property(_lag_of_one)),
    "histories that are not bounded": (ordering.Histories, "first", lambda self, most: self),
    "half the noise of later rows": (budget, "release", _less_noise_asked_for),
}


@pytest.mark.parametrize("fault", RELEASED)
def test_a_lie_about_later_rows_shows_in_one_fit(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned.cache_clear()
    monkeypatch.setattr(*RELEASED[fault])
    built = generator()
    try:
        schedule, stand_in = planned(built, "visit")
    finally:
        planned.cache_clear()
    trials, present = CountTrials(), np.arange(N_CANARIES) % 2 == 0
    trials.add(stand_in, measurement_log(built, schedule, stand_in, present), present)
    result = white_box.of_noise_on_counts(schedule, trials, 0.9999)
    assert result.fault is not None
    assert "later rows" in result.fault
    assert schedule.epsilon < result.bound < np.inf


@pytest.mark.parametrize("name", ["mst", pytest.param("aim", marks=SLOW)])
def test_the_code_as_it_is_raises_no_alarm_and_covers_all(name: str) -> None:
    result, built = audit(generator(name), schema_of(), n_fits=1), generator(name)
    schedule = built.schedule(schema_of())
    assert schedule is not None
    assert result.faults == ()
    assert result.verdict in (NO_FAULT, "too weak to say")
    choices = tuple(event.what for event in schedule.events if not isinstance(event, GaussianEvent))
    assert result.covered == tuple(event.what for event in schedule.events if isinstance(event, GaussianEvent))
    assert {what.rsplit(", ", 1)[1] for what in result.covered} == {"first rows", "later rows"}
    assert result.not_covered == (*choices, *OUTSIDE)
    assert "stand-in of histories" in result.ran_on


def test_a_stand_in_that_is_fitted_otherwise_is_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    like = StandIn.like
    monkeypatch.setattr(white_box.StandIn, "like", lambda schema, **_: like(schema))
    with pytest.raises(AuditError, match="histories"):
        audit(generator(), schema_of(), n_fits=1)

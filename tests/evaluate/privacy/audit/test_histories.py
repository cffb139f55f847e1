"""Audits of fits that draw histories: the stand-in is fitted as they are, and faults in later rows alone show."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT, OUTSIDE, AuditError
from evaluate.privacy.audit import white_box
from evaluate.privacy.audit.counts import N_CANARIES, CountTrials, StandIn, measurement_log
from evaluate.privacy.audit.white_box import audit
from synth import row_order as ordering
from synth.dp import budget, mechanisms
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.wrapper import compose, draws_in_order
from synth.schema import Schema, build_schema
from understudy.extras.histories.layout import HistoryLayout

K, N_UNITS = 4, 1_000
SLOW = pytest.mark.slow
CHEAP: dict[str, dict[str, Any]] = {"mst": {"n_iterations": 1}, "aim": {"n_iterations": 1, "n_draws": 1_000}}
_later, _release = HistoryLayout.__dict__["later_rows"].func, mechanisms.release
_gaussian = SystemNoise.gaussian


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
    made = compose(registry.generator(name, epsilon=epsilon, delta=1e-6, **CHEAP[name]), schema_of())
    assert isinstance(made, PrivateGenerator)
    return made


@cache
def planned(made: PrivateGenerator, order: str) -> tuple[Schedule, StandIn]:
    stand_in = StandIn.like(schema_of(order), histories=True)
    schedule = made.schedule(stand_in.schema)
    assert schedule is not None
    return schedule, stand_in


def test_canaries_are_told_apart_by_one_first_row_and_by_all_their_later_ones() -> None:
    made = generator()
    schedule, stand_in = planned(made, "time")
    present = np.arange(N_CANARIES) % 2 == 0
    log = measurement_log(made, schedule, stand_in, present)
    events = [event for event in schedule.events if isinstance(event, GaussianEvent)]
    drawn = [event for event in events for _ in range(event.count)]
    assert len(drawn) == len(log.releases)
    moved: dict[str, list[float]] = {"first rows": [], "later rows": []}
    for event, release in zip(drawn, log.releases, strict=True):
        assert release.event == event
        told = stand_in.weights(release.exact.astype(float), present)
        if told is not None:
            _, weight, added = told
            assert round(added - weight, 6) == 0
            moved[event.what.rsplit(", ", 1)[1]].append(round(added, 6))
    # Of first rows the number of rows is the same for all, and one pair may hold it beside the column of gains.
    assert {name: set(sizes) for name, sizes in moved.items()} == {"first rows": {1.0}, "later rows": {K - 1.0}}
    assert len(moved["first rows"]) + len(moved["later rows"]) >= len(drawn) - 4


@pytest.mark.parametrize("n_columns", [0, 1, 3, 9])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 10.0])
def test_the_stand_in_draws_histories_where_the_schema_does(n_columns: int, epsilon: float) -> None:
    made = generator(epsilon=epsilon)
    more = {f"column {i}": {"kind": "boolean"} for i in range(n_columns)}
    for order in ("time", "visit"):
        whole = schema_of(order, columns=more)
        kept = {name: column for name, column in whole.columns.items() if name in more or name in ("who", order)}
        schema = whole.model_copy(update={"columns": kept, "constant_in_entity": ()})
        if not schema.modeled:
            continue
        drawn = draws_in_order(made, schema)
        stand_in = StandIn.like(schema, histories=drawn)
        assert (draws_in_order(made, stand_in.schema), stand_in.histories) == (drawn, drawn)


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
    made = generator()
    try:
        schedule, stand_in = planned(made, "visit")
    finally:
        planned.cache_clear()
    trials, present = CountTrials(), np.arange(N_CANARIES) % 2 == 0
    trials.add(stand_in, measurement_log(made, schedule, stand_in, present), present)
    found = white_box.of_noise_on_counts(schedule, trials, 0.9999)
    assert found.fault is not None
    assert "later rows" in found.fault
    assert schedule.epsilon < found.bound < np.inf


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mst", pytest.param("aim", marks=SLOW)])
def test_half_the_noise_in_later_rows_alone_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is asked for, and half of it is drawn."""
    drawn_for: list[str] = []

    def release(exact: np.ndarray, event: Any, noise: Any) -> np.ndarray:
        drawn_for.append(event.what)
        return _release(exact, event, noise)

    def gaussian(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        return _gaussian(self, values, sigma / 2 if drawn_for[-1].endswith("later rows") else sigma)

    monkeypatch.setattr(budget, "release", release)
    monkeypatch.setattr(SystemNoise, "gaussian", gaussian)
    found = audit(generator(name), schema_of(), n_fits=4)
    assert found.verdict == EXCEEDS
    assert found.faults == ("the noise of counts is smaller than is asked for",)


@pytest.mark.parametrize("name", ["mst", pytest.param("aim", marks=SLOW)])
def test_the_code_as_it_is_raises_no_alarm_and_covers_all(name: str) -> None:
    found, made = audit(generator(name), schema_of(), n_fits=4), generator(name)
    schedule = made.schedule(schema_of())
    assert schedule is not None
    assert found.faults == ()
    assert found.verdict in (NO_FAULT, "too weak to say")
    choices = tuple(event.what for event in schedule.events if not isinstance(event, GaussianEvent))
    assert found.covered == tuple(event.what for event in schedule.events if isinstance(event, GaussianEvent))
    assert {what.rsplit(", ", 1)[1] for what in found.covered} == {"first rows", "later rows"}
    assert found.not_covered == (*choices, *OUTSIDE)
    assert "stand-in of histories" in found.ran_on


def test_a_stand_in_that_is_fitted_otherwise_is_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    like = StandIn.like
    monkeypatch.setattr(white_box.StandIn, "like", lambda schema, **_: like(schema))
    with pytest.raises(AuditError, match="histories"):
        audit(generator(), schema_of(), n_fits=1)


def test_an_audit_that_saw_nothing_of_a_fit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "release", lambda exact, event, noise: exact)
    with pytest.raises(AuditError, match="canaries apart"):
        audit(generator(), schema_of(), n_fits=1)

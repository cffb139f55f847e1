"""Audits of fits that draw histories: the stand-in is fitted as they are, and lies about first or later rows show."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT, OUTSIDE, AuditCheck, AuditError
from evaluate.privacy.audit import white_box
from evaluate.privacy.audit.choices import audit_choices
from evaluate.privacy.audit.counts import measurement_log
from evaluate.privacy.audit.rehearsal import audit_domain, audit_releases
from evaluate.privacy.audit.stand_in import N_CANARIES, StandIn
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
CONFIDENCE = 0.9995
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


def releases(name: str = "mst", order: str = "visit") -> tuple[AuditCheck, set[str], Schedule]:
    made = generator(name)
    schedule, stand_in = planned(made, order)
    return (*audit_releases(made, schedule, stand_in), schedule)


def choices(name: str = "mst") -> tuple[AuditCheck, ...]:
    made = generator(name)
    schedule, stand_in = planned(made, "visit")
    return audit_choices(made, stand_in.schema, schedule, CONFIDENCE)


@pytest.mark.parametrize(
    ("name", "order"),
    [("mst", "time"), *(pytest.param(*case, marks=SLOW) for case in (("mst", "visit"), ("aim", "time")))],
)
def test_every_event_of_first_and_later_rows_is_seen_and_none_is_at_fault(name: str, order: str) -> None:
    found, covered, schedule = releases(name, order)
    assert (found.fault, found.bound) == (None, 0.0)
    assert covered == {event.what for event in schedule.events}
    assert {what.rsplit(", ", 1)[1] for what in covered} == {"first rows", "later rows"}


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
        cells = np.flatnonzero(release.exact)
        weight = None
        if len(cells) == N_CANARIES:
            weight = stand_in.weight(release.exact, cells[np.argsort(release.exact[cells])], present)
        if weight is not None:
            moved[event.what.rsplit(", ", 1)[1]].append(round(weight * stand_in.n_counted, 6))
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


Plant = Callable[[pytest.MonkeyPatch], None]
RELEASED: dict[str, Plant] = {
    "later rows that count once": lambda patch: patch.setattr(HistoryLayout, "later_rows", property(_lag_of_one)),
    "histories that are not bounded": lambda patch: patch.setattr(ordering.Histories, "first", lambda self, most: self),
    "half the noise of later rows": lambda patch: patch.setattr(budget, "release", _less_noise_asked_for),
}


@pytest.mark.parametrize("fault", RELEASED)
def test_a_lie_about_later_rows_shows_whatever_epsilon_is(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned.cache_clear()
    RELEASED[fault](monkeypatch)
    try:
        found, _, schedule = releases()
    finally:
        planned.cache_clear()
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
    assert found.covered == tuple(event.what for event in schedule.events)
    assert found.not_covered == OUTSIDE
    assert "stand-in of histories" in found.ran_on


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mst", pytest.param("aim", marks=SLOW)])
def test_sound_choices_of_both_kinds_of_rows_have_no_fault(name: str) -> None:
    found = choices(name)
    assert [check.what.rsplit(", ", 1)[1] for check in found] == ["first rows", "later rows"]
    for check in found:
        assert (check.fault, check.bound) == (None, 0.0)
        assert check.power is not None
        assert check.power.in_ten >= 9


def test_choices_of_later_rows_whose_scores_move_further_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    planned.cache_clear()
    monkeypatch.setattr(HistoryLayout, "later_rows", property(_lag_of_one))
    try:
        first, later = choices()
    finally:
        planned.cache_clear()
    assert first.fault is None
    assert later.fault is not None
    assert later.bound > 3.0


def test_a_domain_is_measured_on_the_first_rows_of_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    for order in ("time", "visit"):
        schema = schema_of(order, columns={"town": {"kind": "categorical", "measure": True}})
        made = generator()
        claimed, _ = planned(made, order)
        sound = audit_domain(made, schema, claimed)
        assert sound is not None
        assert sound[0].fault is None
        with monkeypatch.context() as patch:
            RELEASED["histories that are not bounded"](patch)
            found = audit_domain(made, schema, claimed)
        assert found is not None
        assert found[0].fault is not None


def test_a_stand_in_that_is_fitted_otherwise_is_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    like = StandIn.like
    monkeypatch.setattr(white_box.StandIn, "like", lambda schema, **_: like(schema))
    with pytest.raises(AuditError, match="histories"):
        audit(generator(), schema_of(), n_fits=1)


@pytest.mark.parametrize(("name", "seen"), [("independent", "histograms"), ("mst", "first rows")])
def test_an_audit_that_saw_nothing_of_a_fit_is_none(name: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(white_box, "audit_releases", lambda *given: (audit_releases(*given)[0], {seen}))
    made = registry.generator(name, epsilon=3.0, **CHEAP.get(name, {}))
    assert isinstance(made, PrivateGenerator)
    with pytest.raises(AuditError, match="saw none"):
        audit(made, schema_of(), n_fits=1)


def test_choices_that_no_table_brings_out_are_not_called_covered() -> None:
    """Of one column the budget tells pairs of rows, and of the four columns that choices need it does not."""
    whole = schema_of("visit", k=3)
    kept = {name: whole.columns[name] for name in ("who", "visit", "state")}
    schema = whole.model_copy(update={"columns": kept, "constant_in_entity": (), "n_units": 200})
    made = registry.generator("mst", epsilon=0.1, **CHEAP["mst"])
    assert isinstance(made, PrivateGenerator)
    assert draws_in_order(made, schema)
    found = audit(made, schema, n_fits=1)
    left_out = tuple(f"choices of column pairs, {rows}" for rows in ("first rows", "later rows"))
    assert found.not_covered == (*left_out, *OUTSIDE)
    assert "one-way histograms of the columns, later rows" in found.covered

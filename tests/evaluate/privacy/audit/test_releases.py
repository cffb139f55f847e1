"""Audits of what a fit draws: a planted fault in releases, choices or measured domains shows at any epsilon."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluate.audit_result import AuditCheck
from evaluate.privacy.audit.choices import N_CHOICES, Chances, ChoiceTable, _counts, _least_range, audit_choices
from evaluate.privacy.audit.rehearsal import CERTAIN, DOMAIN, RELEASES, ChoiceArguments, audit_domain, audit_releases
from evaluate.privacy.audit.stand_in import StandIn
from synth.domain.counts import CodedTable
from synth.dp import budget, mechanisms
from synth.dp.events import GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.mechanisms import SystemNoise
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import fixed_costs, private_fit
from synth.generators.fitting import fixed_costs as measured_domain
from synth.generators.fitting.marginal_selection import ClassSearch
from synth.generators.fitting.training_data import TrainingTable
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema

CONFIDENCE = 0.9995
SCHEDULES: dict[Any, Schedule] = {}
"""Calibrated once for all tests."""
_choose, _noisy_max, _release, _named = (
    mechanisms.select, SystemNoise.noisy_max, mechanisms.release, mechanisms.name_stable,
)  # fmt: skip
_score, _places, _sizes = Mst._score, TrainingTable.place_counts, TrainingTable.rows_per_entity
_values, _class_scores = TrainingTable.value_counts, ClassSearch.scores


def schema_of(k: int = 1, *, measured: bool = False) -> Schema:
    columns: dict[str, Any] = {"a": {"kind": "boolean"}}
    if measured:
        columns |= {
            "size": {"kind": "real", "measure": True},
            "visits": {"kind": "integer", "measure": True, "measure_spikes": True},
            "paid": {"kind": "real", "bounds": [0, 9], "decimals": 2, "measure_spikes": True},
            "born": {"kind": "date", "measure": True},
            "town": {"kind": "categorical", "measure": True},
        }
    content = {"status": "declared", "n_units": 1_000, "columns": columns}
    if k > 1:
        columns["who"] = {"kind": "identifier", "bounds": [0, 10**6]}
        content |= {"entity": "who", "max_rows_per_unit": k}
    return build_schema(content)


def generator(name: str, epsilon: float = 1.0) -> PrivateGenerator:
    cheap = {
        "independent": {}, "mst": {"n_iterations": 1}, "aim": {"n_iterations": 1, "n_draws": 1_000},
        "latent_class": {"n_classes": 1},
        "pategan": {"rounds": 4, "labels_per_round": 16, "generator_steps": 1, "n_teachers": 20},
    }[name]  # fmt: skip
    made = registry.generator(name, epsilon=epsilon, delta=1e-6, **cheap)
    assert isinstance(made, PrivateGenerator)
    return made


def planned(made: PrivateGenerator, schema: Schema) -> Schedule:
    key = (made, schema.max_rows_per_unit, tuple(schema.columns))
    if key not in SCHEDULES:
        schedule = made.schedule(schema)
        assert schedule is not None
        SCHEDULES[key] = schedule
    return SCHEDULES[key]


def releases(name: str, k: int = 1) -> tuple[AuditCheck, set[str], Schedule]:
    made, stand_in = generator(name), StandIn.like(schema_of(k))
    schedule = planned(made, stand_in.schema)
    return (*audit_releases(made, schedule, stand_in), schedule)


def choices(name: str = "mst", k: int = 1) -> AuditCheck:
    made, schema = generator(name), StandIn.like(schema_of(k)).schema
    (found,) = audit_choices(made, schema, planned(made, schema), CONFIDENCE)
    return found


def domain(k: int = 1) -> tuple[AuditCheck, float]:
    made = generator("independent")
    claimed = planned(made, StandIn.like(schema_of(k)).schema)
    found = audit_domain(made, schema_of(k, measured=True), claimed)
    assert found is not None
    return found[0], claimed.epsilon


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("independent", 3), ("mst", 1), ("latent_class", 3),
        *(
            pytest.param(*case, marks=SLOW)
            for case in (
                ("pategan", 1), ("pategan", 3), ("independent", 1), ("mst", 3), ("aim", 1), ("aim", 3),
                ("latent_class", 1),
            )
            if case[0] in registry.names()
        ),
    ],
)  # fmt: skip
def test_every_event_of_a_sound_fit_is_seen_and_none_is_at_fault(name: str, k: int) -> None:
    found, covered, schedule = releases(name, k)
    assert (found.what, found.fault, found.bound) == (RELEASES, None, 0.0)
    assert covered == {event.what for event in schedule.events}


def _twice(exact: np.ndarray, event: GaussianEvent, noise: Any) -> np.ndarray:
    return _release(2 * exact, event, noise)


def _asking_for_less(exact: np.ndarray, event: GaussianEvent, noise: Any) -> np.ndarray:
    return _release(exact, replace(event, sigma=0.95 * event.sigma), noise)


def _without_noise(exact: np.ndarray, event: GaussianEvent, noise: Any) -> np.ndarray:
    return exact


def _half_the_scores(scores: np.ndarray, sensitivity: float, event: SelectionEvent, noise: Any) -> int:
    return _choose(scores, sensitivity / 2, event, noise)


def _argmax(scores: np.ndarray, sensitivity: float, event: SelectionEvent, noise: Any) -> int:
    return int(np.argmax(scores))


def _scores_twice(self: Mst, *given: Any) -> Any:
    candidates, scores = _score(self, *given)
    return candidates, 2 * scores


def _class_scores_twice(self: ClassSearch, *given: Any) -> Any:
    return 2 * _class_scores(self, *given)


def _all_rows(rows: Any, schema: Schema, *, in_order: bool) -> Any:
    return rows


def _row_numbers(self: TrainingTable) -> np.ndarray:
    return np.asarray(_sizes(self) * 2)


RELEASED: dict[str, tuple[Any, str, Any, str, int]] = {
    "a unit counts twice": (budget, "release", _twice, "mst", 1),
    "a twentieth less noise is asked for": (budget, "release", _asking_for_less, "mst", 1),
    "counts without noise": (budget, "release", _without_noise, "independent", 1),
    "half the sensitivity of scores": (budget, "select", _half_the_scores, "mst", 1),
    "choices without noise": (budget, "select", _argmax, "mst", 1),
    "scores that move twice as far": (Mst, "_score", _scores_twice, "mst", 1),
    "scores of marginals that move twice as far": (ClassSearch, "scores", _class_scores_twice, "latent_class", 1),
    "rows of an entity without a bound": (private_fit, "bound_contributions", _all_rows, "independent", 3),
    "rows per entity counted twice": (TrainingTable, "rows_per_entity", _row_numbers, "independent", 3),
}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[SLOW] * (RELEASED[fault][3] == "mst")) for fault in RELEASED]
)
def test_a_fault_in_what_is_released_shows_whatever_epsilon_is(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, planted, audited, k = RELEASED[fault]
    monkeypatch.setattr(owner, name, planted)
    found, _, schedule = releases(audited, k)
    assert found.fault is not None
    assert schedule.epsilon < found.bound < np.inf


def test_a_domain_that_is_measured_soundly_has_no_fault() -> None:
    for k in (1, 3):
        found, _ = domain(k)
        assert (found.what, found.fault, found.bound) == (DOMAIN, None, 0.0)
        assert "6 draws for 5 columns" in found.looked_at
    made, schema = generator("independent"), schema_of()
    assert audit_domain(made, schema, planned(made, schema)) is None


def _low_threshold(counts: Any, event: StabilityEvent, noise: Any) -> Any:
    return _named(counts, replace(event, threshold=event.threshold - 20), noise)


def _exact_values(counts: Any, event: StabilityEvent, noise: Any) -> Any:
    _named(counts, event, noise)
    return sorted(counts)


def _of_one_row(schema: Schema, rho: float, delta: float) -> Any:
    return _domain_events(schema.model_copy(update={"max_rows_per_unit": 1}), rho, delta)


def _exact_bounds(train: Any, schema: Schema, budget: Any) -> Schema:
    found = _measure_domain(train, schema, budget)
    rows = train.rows.frame("size")["size"]
    exact = found.columns["size"].model_copy(update={"bounds": (float(rows.min()), float(rows.max()))})
    return found.model_copy(update={"columns": {**found.columns, "size": exact}})


def _values_counted_twice(self: TrainingTable, name: str) -> Any:
    return {value: 2 * n for value, n in _values(self, name).items()}


def _counted_twice(self: TrainingTable, *given: Any) -> Any:
    return 2 * _places(self, *given)


_domain_events, _measure_domain = fixed_costs.domain_events, measured_domain.measure_domain
MEASURED: dict[str, tuple[Any, str, Any, int]] = {
    "a low threshold": (budget, "name_stable", _low_threshold, 1),
    "values named whatever their count": (budget, "name_stable", _exact_values, 1),
    "k rows forgotten": (fixed_costs, "domain_events", _of_one_row, 3),
    "exact bounds": (private_fit, "measure_domain", _exact_bounds, 1),
    "values counted twice": (TrainingTable, "value_counts", _values_counted_twice, 1),
    "rows counted twice": (TrainingTable, "place_counts", _counted_twice, 1),
    "no noise": (budget, "release", _without_noise, 1),
}


@pytest.mark.parametrize("fault", MEASURED)
def test_a_fault_in_a_measured_domain_shows(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, planted, k = MEASURED[fault]
    monkeypatch.setattr(owner, name, planted)
    found, claimed = domain(k)
    assert found.fault is not None
    assert claimed < found.bound <= CERTAIN


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("mst", 1), ("latent_class", 1),
        *(pytest.param(*case, marks=SLOW) for case in (("mst", 3), ("aim", 1), ("latent_class", 3))),
    ],
)  # fmt: skip
def test_sound_choices_have_no_fault_and_the_power_to_show_half_the_noise(name: str, k: int) -> None:
    found = choices(name, k)
    assert (found.fault, found.bound) == (None, 0.0)
    assert found.power is not None
    assert found.power.in_ten == 10
    assert found.power.share is not None
    assert found.power.share > 0.5


def _half_gumbel(self: SystemNoise, scores: np.ndarray, scale: float) -> int:
    return _noisy_max(self, scores, scale / 2)


CHOSEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "half the Gumbel noise": (SystemNoise, "noisy_max", _half_gumbel),
    "half the sensitivity of scores": (budget, "select", _half_the_scores),
    "scores that move twice as far": (Mst, "_score", _scores_twice),
    "no noise": (SystemNoise, "noisy_max", lambda self, scores, scale: int(np.argmax(scores))),
    "no noise, and none asked for": (budget, "select", _argmax),
}


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=[SLOW] * (i > 0)) for i, fault in enumerate(CHOSEN)])
def test_a_fault_in_choices_shows(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*CHOSEN[fault])
    found = choices()
    assert found.fault is not None
    assert found.bound > 1.0


@SLOW
@pytest.mark.parametrize("fault", [None, *CHOSEN])
def test_ten_of_ten_audits_of_choices_are_right(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault is not None:
        monkeypatch.setattr(*CHOSEN[fault])
    assert [choices().fault is not None for _ in range(10)] == [fault is not None] * 10


def test_a_generator_without_choices_has_no_audit_of_any() -> None:
    made, schema = generator("independent"), StandIn.like(schema_of()).schema
    assert audit_choices(made, schema, planned(made, schema), CONFIDENCE) == ()


def test_chances_on_the_table_of_choices_are_those_that_counts_come_to() -> None:
    event = SelectionEvent("pairs", epsilon=0.1)
    scores = np.array([100.0, 70.0, 60.0]), np.array([115.0, 55.0, 60.0])
    one, other = (ChoiceArguments(each, 1.0, event) for each in scores)
    chances = Chances(one, other, 2 / event.epsilon, 30)
    rates, n = chances.rates(1.0), N_CHOICES
    for row, choice in zip(rates, (one, other), strict=True):
        measured = np.array(_counts(choice, chances.sets, 1e-6)) / n
        assert np.all(np.abs(measured - row) < 4.5 * np.sqrt(row * (1 - row) / n) + 1e-3)


def test_the_least_range_stays_below_the_range_as_often_as_its_confidence_says() -> None:
    rng, rates = np.random.default_rng(0), np.array([[0.3, 0.6], [0.7, 0.2]])
    span = float(np.log(rates[1, 0] / rates[0, 0]) + np.log(rates[0, 1] / rates[1, 1]))
    counts = np.stack([rng.multinomial(N_CHOICES, [*row, 1 - row.sum()], 4_000)[:, :2] for row in rates], axis=1)
    bounds = _least_range(counts, 0.9)
    assert np.mean(bounds > span) < 0.1
    assert np.median(bounds) > 0.5 * span
    nothing = np.zeros((1, 2, 2), dtype=np.int64)
    assert _least_range(nothing, 0.9)[0] == -np.inf


def test_units_of_the_table_move_two_pairs_as_far_as_units_can() -> None:
    table = ChoiceTable.like(schema_of(), 0.1)
    names = list(table.schema.columns)
    frames = [table.table(present) for present in (False, True)]
    assert len(frames[1]) - len(frames[0]) == table.n_units == 30
    coded = [CodedTable(dict.fromkeys(names, 3), frame.to_numpy()) for frame in frames]
    first, second = tuple(names[:2]), tuple(names[2:])
    n = len(frames[0])
    moved = [
        np.abs(coded[1].counts(pair) - n / 9).sum() - np.abs(coded[0].counts(pair) - n / 9).sum()
        for pair in (first, second)
    ]
    assert moved == [30.0, -30.0]

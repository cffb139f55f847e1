"""The latent class generator: its books, what one unit can move, and what it keeps of related columns.

Fits that are compared get the same answers, as in `test_selection`. The lies here are about what this generator has
alone: pairs of several weights, and coarse codes made of released counts.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain.counts import MARK, CoarseCounts, Coarsening, fine
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.mechanisms import InjectedNoise
from synth.dp.schedule import Schedule
from synth.errors import JobError
from synth.generators import latent_class
from synth.generators.fitting.columns import COLUMNS
from synth.generators.fitting.selection import ClassSearch
from synth.generators.latent_class import CHOICES, CHOSEN, EXACT_SIGNAL, FINER, LatentClass, pairs_of
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.mst import Mst
from synth.generators.registry import generator as build
from synth.generators.registry import load_model
from synth.marginals import LatentClasses, Measurement
from synth.marginals.latent_class_estimation import ClassEstimation, CoarseCodes
from synth.schema import Schema, build_schema
from tests.synth.generators.test_selection import Asked, Canned, Watched

ROUNDING = 1e-9


def schema_of(n_columns: int, n_units: int = 20_000, **more: Any) -> Schema:
    columns = {f"c{index}": {"kind": "categorical", "categories": ["x", "y", "z"]} for index in range(n_columns)}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **more})


def of_entities(schema: Schema, k: int) -> Schema:
    content = schema.model_dump(mode="json", exclude_unset=True)
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    return build_schema({**content, "columns": {**who, **content["columns"]}, "entity": "who", "max_rows_per_unit": k})


PLANS = [
    (LatentClass(), schema_of(1)),
    (LatentClass(), schema_of(2)),
    (LatentClass(rounds=0), schema_of(2)),
    (LatentClass(), schema_of(5)),
    (LatentClass(rounds=0), schema_of(5, target="c1")),
    (LatentClass(rounds=7, focus=0.5), schema_of(5, target="c1", sensitive=["c3"])),
    (LatentClass(workload={"c0": 1000.0, "c1": 0.001}), schema_of(6, target="c0")),
    (LatentClass(columns_share=0.5, pairs_share=0.2, choices_share=0.7), schema_of(4, target="c2")),
    (LatentClass(), of_entities(schema_of(4, target="c2"), 3)),
]


@pytest.mark.parametrize(("generator", "schema"), PLANS)
@pytest.mark.parametrize("rho", [1e-4, 0.3, 50.0])
def test_the_events_of_a_plan_cost_the_whole_and_have_names_of_their_own(
    generator: LatentClass, schema: Schema, rho: float
) -> None:
    events = generator.plan(schema)(rho)
    assert sum(event.rho or 0.0 for event in events) == pytest.approx(rho)
    assert len({event.what for event in events}) == len(events)
    for event in events:
        assert not isinstance(event, GaussianEvent) or event.sensitivity == schema.max_rows_per_unit


@pytest.mark.parametrize(("generator", "schema"), PLANS)
def test_the_account_has_each_column_each_pair_at_its_weight_and_each_round(
    generator: LatentClass, schema: Schema
) -> None:
    n, counts = len(schema.modeled), {event.what: event.count for event in generator.plan(schema)(1.0)}
    expected = {COLUMNS: n}
    for weight in generator._pair_weights(schema).values():
        expected[pairs_of(weight)] = expected.get(pairs_of(weight), 0) + 1
    if generator.n_rounds(schema):
        expected |= dict.fromkeys((CHOICES, CHOSEN), generator.n_rounds(schema))
    assert counts == expected
    assert sum(count for what, count in counts.items() if what.startswith("pairs")) == math.comb(n, 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("n_columns", [1, 2, 6])
def test_the_whole_budget_is_planned_and_no_more(epsilon: float, n_columns: int) -> None:
    schedule = LatentClass(epsilon=epsilon).schedule(schema_of(n_columns, target="c0"))
    assert schedule is not None
    assert epsilon * 0.999 <= schedule.epsilon <= epsilon


def test_shares_of_the_budget_are_those_of_the_parameters() -> None:
    generator = LatentClass(columns_share=0.2, pairs_share=0.75, choices_share=0.1)
    costs = {event.what: event.rho for event in generator.plan(schema_of(5))(10.0)}
    assert costs == pytest.approx({COLUMNS: 2.0, pairs_of(1.0): 6.0, CHOICES: 0.2, CHOSEN: 1.8})


def sigmas(generator: LatentClass, schema: Schema) -> dict[tuple[str, ...], float]:
    """The noise of each pair at the same total cost."""
    events = {event.what: event for event in generator.plan(schema)(1.0)}
    found = {}
    for pair, weight in generator._pair_weights(schema).items():
        event = events[pairs_of(weight)]
        assert isinstance(event, GaussianEvent)
        found[pair] = event.sigma
    return found


def test_a_pair_of_twice_the_weight_costs_twice_as_much() -> None:
    generator, schema = LatentClass(focus=3.0), schema_of(5, target="c0")
    weights = generator._pair_weights(schema)
    precisions = {pair: sigma**-2 / weights[pair] for pair, sigma in sigmas(generator, schema).items()}
    assert set(weights.values()) == {1.0, 4.0}
    assert list(precisions.values()) == pytest.approx([precisions["c0", "c1"]] * 10)


def test_weights_of_pairs_are_powers_of_two_nearest_to_the_products_the_least_of_them_1() -> None:
    generator = LatentClass(focus=4.0, workload={"c1": 2.9, "c2": 0.7})
    weights = generator._pair_weights(schema_of(4, target="c0"))
    assert weights == {
        ("c0", "c1"): 32.0, ("c0", "c2"): 8.0, ("c0", "c3"): 8.0, ("c1", "c2"): 4.0, ("c1", "c3"): 8.0,
        ("c2", "c3"): 1.0,
    }  # fmt: skip


def test_a_heavy_column_of_the_workload_has_less_noise_in_its_pairs_and_the_others_more() -> None:
    schema = schema_of(5, target="c0")
    plain, heavy = sigmas(LatentClass(), schema), sigmas(LatentClass(workload={"c3": 5.0}), schema)
    for pair, sigma in plain.items():
        assert (heavy[pair] < sigma) == ("c3" in pair), pair


@pytest.mark.parametrize("weight", [1e-300, 1e-9, 1000.0])
def test_the_least_and_the_largest_weights_leave_a_plan(weight: float) -> None:
    generator, schema = LatentClass(epsilon=1.0, workload={"c0": weight, "c1": weight}), schema_of(4)
    schedule = generator.schedule(schema)
    assert schedule is not None
    assert 0.99 < schedule.epsilon <= 1.0
    names = np.array(["x", "y", "z"], dtype=object)
    frame = pd.DataFrame({name: names[np.arange(60) % 3] for name in schema.columns})
    assert len(generator.fit(frame, schema).sample(10, seed=0)) == 10


def test_more_budget_chooses_more_and_tells_more_codes_apart_within_limits() -> None:
    schema, epsilons = schema_of(5, target="c0"), (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    rounds = [LatentClass(epsilon=epsilon).n_rounds(schema) for epsilon in epsilons]
    groups = [LatentClass(epsilon=epsilon).n_groups(schema)["c1"] for epsilon in epsilons]
    assert rounds == sorted(rounds)
    assert (rounds[0], rounds[-1]) == (5, 4 * 5)
    assert groups == sorted(groups)
    assert (groups[0], groups[-1]) == (4, 24)
    assert LatentClass().n_groups(schema) == {"c0": FINER * 23, **dict.fromkeys(["c1", "c2", "c3", "c4"], 23)}
    assert LatentClass(coarse_codes=2).n_groups(schema)["c1"] == 2


def test_rounds_and_groups_rest_on_the_declared_number_of_units_and_on_no_row() -> None:
    """The same table under a declaration of more units: what is asked is what the declaration says."""
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0)[::-1]})
    column = {"kind": "real", "bounds": [0.0, 40.0]}
    found = []
    for n_units in (300, 30_000):
        schema = build_schema({"status": "declared", "n_units": n_units, "columns": {"x": column, "y": column}})
        generator = LatentClass(epsilon=1.0, n_classes=5)
        for table in (frame, frame.iloc[:3]):
            shapes = [values.shape for event, values, _ in asked(generator, table, schema) if "pairs" in event.what]
            found.append((generator.n_rounds(schema), generator.n_groups(schema)["x"], shapes))
    assert found[0] == found[1] != found[2] == found[3]
    assert found[0][1] < found[2][1]
    # Groups, and `other` and `missing` beside them.
    assert all(shape <= (groups + 2, groups + 2) for _, groups, shapes in found for shape in shapes)


def test_without_epsilon_the_signal_is_a_constant() -> None:
    assert LatentClass().signal(schema_of(3, n_units=10)) == EXACT_SIGNAL


# What one unit can move.

K = 2
COLUMN: dict[str, Any] = {
    "x": {"kind": "integer", "bounds": [0, 19]},
    "y": {"kind": "boolean", "missing": True},
    "z": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "w": {"kind": "real", "bounds": [0.0, 1.0]},
}
PEOPLE = pd.DataFrame({
    "x": pd.array([0, 0, 1, 3, 4, 7, 8, 11, 15, 19, 19, 19], dtype="Int64"),
    "y": pd.array([True, None, False, True, True, False, None, True, False, True, True, False], dtype="boolean"),
    "z": list("aabcabcabcab"),
    "w": np.linspace(0, 1, 12) ** 2,
})  # fmt: skip


@cache
def private(entities: bool) -> tuple[LatentClass, Schema]:
    """Of two weights of pairs; a number is coarser in pairs than on its own."""
    rows = build_schema({"status": "declared", "n_units": 12, "target": "z", "columns": COLUMN})
    schema = of_entities(rows, K) if entities else rows
    return LatentClass(epsilon=20.0, n_classes=5, coarse_codes=4), schema


def neighbors() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The table, and it without each of its units: a row, or the two rows of an entity."""
    for index in range(len(PEOPLE)):
        yield PEOPLE, PEOPLE.drop(index=index).reset_index(drop=True)
    visits = PEOPLE.assign(who=np.arange(12) // K)
    for index in range(12 // K):
        yield visits, visits[visits["who"] != index].reset_index(drop=True)
    alike = pd.concat([visits, visits.iloc[:1].assign(who=99), visits.iloc[:1].assign(who=99)], ignore_index=True)
    yield alike, visits


KNOWN: dict[tuple[LatentClass, str], Schedule] = {}


def scheduled(generator: LatentClass, schema: Schema) -> Schedule:
    """The schedule, calibrated once: the lies lie beyond it."""
    key = generator, schema.model_dump_json()
    if key not in KNOWN:
        schedule = generator.schedule(schema)
        assert schedule is not None
        KNOWN[key] = schedule
    return KNOWN[key]


def asked(generator: LatentClass, frame: pd.DataFrame, schema: Schema) -> Asked:
    """Everything that a fit asked of a table."""
    noise = Canned()
    purse = Watched(scheduled(generator, schema), noise)
    generator.fit(frame, schema, budget=purse)
    return [(event, *question) for event, question in zip(purse.drawn, noise.asked, strict=True)]


def moved() -> Iterator[tuple[Event, float, float]]:
    """For each pair of neighbors and each draw: its event, how far one unit moved what was asked, and its noise."""
    for frame, without in neighbors():
        generator, schema = private("who" in frame)
        for (event, values, scale), (same, rest, _) in zip(
            asked(generator, frame, schema), asked(generator, without, schema), strict=True
        ):
            assert event == same
            assert values.shape == rest.shape, "a shape depends on one unit"
            norm = np.linalg.norm(values - rest) if isinstance(event, GaussianEvent) else np.abs(values - rest).max()
            yield event, float(norm), scale


def one_unit_moves_no_count_and_no_score_by_more_than_stated() -> None:
    largest: dict[str, float] = {}
    for event, distance, scale in moved():
        if isinstance(event, GaussianEvent):
            stated = float(event.sensitivity)
        else:
            assert isinstance(event, SelectionEvent)
            stated = event.epsilon * scale / 2  # Gumbel noise of scale b is a choice at epsilon 2 s / b
        assert distance <= stated * (1 + 1e-6), event.what
        largest[event.what] = max(largest.get(event.what, 0.0), distance / stated)
    assert {pairs_of(1.0), pairs_of(4.0), CHOICES, CHOSEN, COLUMNS} <= largest.keys()
    assert min(largest.values()) > 0.99, "no unit comes near the bound: the check would miss a slight fault"


def what_reached_the_sampler_costs_what_is_claimed() -> None:
    for frame in (PEOPLE, PEOPLE.assign(who=np.arange(12) // K)):
        generator, schema = private("who" in frame)
        schedule, k = scheduled(generator, schema), schema.max_rows_per_unit
        costs: dict[str, float] = {}
        for event, _, scale in asked(generator, frame, schema):
            # The books are kept anew from nothing but the noise that the sampler was asked for. One unit is in one
            # cell of the rows per entity, and in k cells at most of all else.
            if isinstance(event, SelectionEvent):
                cost = (2 * k / scale) ** 2 / 8
            else:
                cost = (k if event.what in {COLUMNS, CHOSEN} or "pairs" in event.what else 1) ** 2 / (2 * scale**2)
            costs[event.what] = costs.get(event.what, 0.0) + cost
        assert costs == pytest.approx({event.what: event.rho for event in schedule.events}, rel=ROUNDING)


def groups_rest_on_released_counts_alone() -> None:
    for frame, without in neighbors():
        generator, schema = private("who" in frame)
        seen: list[dict[str, list[int]]] = []

        class Listening(ClassEstimation):
            def __init__(self, domain: Any, coarse: dict[str, CoarseCodes], *more: Any) -> None:
                seen.append({name: codes.groups.tolist() for name, codes in coarse.items()})  # noqa: B023
                super().__init__(domain, coarse, *more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(latent_class, "ClassEstimation", Listening)
            for table in (frame, without):
                asked(generator, table, schema)
        assert "x" + MARK in seen[0]
        assert seen[0] == seen[1]


Check = Callable[[], None]
CHECKS: tuple[Check, ...] = (
    one_unit_moves_no_count_and_no_score_by_more_than_stated,
    what_reached_the_sampler_costs_what_is_claimed,
    groups_rest_on_released_counts_alone,
)
_release, _scores, _choose, _estimated, _of_all, _each = (
    Budget.release, ClassSearch.scores, Budget.choose, LatentClass._estimated, Coarsening.of_all,
    CoarseCounts.each,
)  # fmt: skip


def _with_sigma(of: Callable[[Budget, GaussianEvent], float]) -> Any:
    """Releases of pairs with other noise than the event has that pays for them."""

    def release(self: Budget, exact: np.ndarray, event: GaussianEvent) -> np.ndarray:
        if not event.what.startswith("pairs"):
            return _release(self, exact, event)
        noisy = self._charge_then_draw(event, lambda: self._noise.gaussian(exact.astype(np.int64), of(self, event)))
        return np.asarray(noisy)

    return release


def _of_the_heaviest(self: Budget, event: GaussianEvent) -> float:
    return min(e.sigma for e in self.schedule.events if isinstance(e, GaussianEvent) and e.what.startswith("pairs"))


def _weighed_as_columns_are(self: ClassSearch, *more: Any) -> np.ndarray:
    """Weights as they are given, not as shares of the largest."""
    return _scores(self, *more) * 4


def _by_the_largest(self: ClassSearch, *more: Any) -> np.ndarray:
    """Scores as shares of the rows that there are."""
    return _scores(self, *more) * 12 / max(float(self.counts[0].sum()), 1)


def _without_k(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, scores, 1.0, event)


def _rows_of_a_pair_twice(self: Any, cliques: Any) -> Iterator[np.ndarray]:
    return (2 * counts for counts in _each(self, cliques))


def _exact_groups(self: LatentClass, fit: Any, events: Any, discretizer: Any, *more: Any) -> LatentClasses:
    table = fit.train.coded(discretizer)
    exact = {name: table.counts((name,)) for name in discretizer.sizes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coarsening, "of_all", lambda known, masses, *limits: _of_all(known, exact, *limits))
        return _estimated(self, fit, events, discretizer, *more)


Plant = tuple[Any, str, Any]
MUTANTS: Sequence[tuple[str, Plant, Check]] = (
    ("scores at raw weights", (ClassSearch, "scores", _weighed_as_columns_are), CHECKS[0]),
    ("scores normalized by the data", (ClassSearch, "scores", _by_the_largest), CHECKS[0]),
    ("counts of a pair counted twice", (CoarseCounts, "each", _rows_of_a_pair_twice), CHECKS[0]),
    ("pairs with half the noise", (Budget, "release", _with_sigma(lambda _, event: event.sigma / 2)), CHECKS[1]),
    ("all pairs at the noise of the heaviest", (Budget, "release", _with_sigma(_of_the_heaviest)), CHECKS[1]),
    ("choices that forget the rows of an entity", (Budget, "choose", _without_k), CHECKS[1]),
    ("groups of exact counts", (LatentClass, "_estimated", _exact_groups), CHECKS[2]),
)


@pytest.mark.statistical
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_books_hold_for_every_unit_of_a_small_table(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_lie_of_the_books_is_caught(plant: Plant, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError) as caught:
        check()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert str(caught.traceback[-1].path) == __file__


def test_every_check_has_a_mutant() -> None:
    assert {check for _, _, check in MUTANTS} == set(CHECKS)


def test_no_draw_of_the_schedule_is_left() -> None:
    for entities in (False, True):
        generator, schema = private(entities)
        schedule = scheduled(generator, schema)
        frame = PEOPLE.assign(who=np.arange(12) // K) if entities else PEOPLE
        drawn = [event.what for event, _, _ in asked(generator, frame, schema)]
        assert {what: drawn.count(what) for what in drawn} == {e.what: e.count for e in schedule.events}


def test_the_estimation_is_told_the_noise_that_each_marginal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Measurement] = []

    def add(self: ClassEstimation, measurements: Sequence[Measurement]) -> None:
        told.extend(measurements)
        _add(self, measurements)

    _add = ClassEstimation.add
    monkeypatch.setattr(ClassEstimation, "add", add)
    generator, schema = private(entities=True)
    weights = generator._pair_weights(schema)
    questions = [
        (event, scale)
        for event, _, scale in asked(generator, PEOPLE.assign(who=np.arange(12) // K), schema)
        if isinstance(event, GaussianEvent) and (event.what == CHOSEN or event.what.startswith("pairs"))
    ]
    assert [each.sigma for each in told] == [scale for _, scale in questions]
    for each, (event, _) in zip(told[:6], questions[:6], strict=True):
        one, other = map(fine, each.clique)
        assert event.what == pairs_of(weights[one, other])
    assert len({each.sigma for each in told}) == 3


def test_a_batch_holds_the_best_that_are_apart_and_the_next_one_knows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the choices are known: the largest score among what shares no two columns with those before."""
    searches, scores, batches = list[ClassSearch](), list[np.ndarray](), list[list[Measurement]]()

    def scored(self: ClassSearch, *more: Any) -> np.ndarray:
        searches.append(self)
        scores.append(_scores(self, *more))
        return scores[-1]

    def add(self: ClassEstimation, measurements: Sequence[Measurement]) -> None:
        batches.append(list(measurements))
        _add(self, measurements)

    _add = ClassEstimation.add
    monkeypatch.setattr(ClassSearch, "scores", scored)
    monkeypatch.setattr(ClassEstimation, "add", add)
    rng = np.random.default_rng(7)
    a, b, c, d = rng.integers(0, 2, (4, 2000))
    names = np.array(["x", "y", "z"], dtype=object)
    # Two triples of which any two columns are independent; the first is in several candidates' errors.
    frame = pd.DataFrame(
        dict(zip(schema_of(6).columns, (names[part] for part in (a, b, a ^ b, c, d, c ^ d)), strict=True))
    )
    LatentClass(rounds=6, n_classes=50).fit(frame, schema_of(6))
    assert [len(batch) for batch in batches] == [math.comb(6, 2), 2, 2, 2]
    for search, of_batch, batch in zip(searches, scores, batches[1:], strict=True):
        is_open, expected = np.ones(len(of_batch), dtype=bool), []
        for _ in batch:
            index = int(np.argmax(np.where(is_open, of_batch, -np.inf)))
            expected.append(search.cliques[index])
            is_open &= search.apart(index)
        assert [each.clique for each in batch] == expected
    assert {each.clique for each in batches[1]} == {("c0", "c1", "c2"), ("c3", "c4", "c5")}
    for each in batches[1]:
        index = searches[0].cliques.index(each.clique)
        assert scores[1][index] < 0.7 * scores[0][index]


def test_where_all_candidates_touch_what_was_chosen_others_are_chosen_all_the_same() -> None:
    """Two columns have one pair: it is measured in every round."""
    generator, schema = LatentClass(epsilon=1.0, rounds=7, n_classes=5), schema_of(2, 60)
    frame = pd.DataFrame({name: np.array(["x", "y", "z"], dtype=object)[np.arange(60) % 3] for name in schema.columns})
    drawn = [event.what for event, _, _ in asked(generator, frame, schema)]
    assert drawn.count(CHOSEN) == drawn.count(CHOICES) == 7


def test_no_marginal_is_measured_twice_in_a_batch_while_others_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list[list[Measurement]]()
    _add = ClassEstimation.add

    def add(self: ClassEstimation, measurements: Sequence[Measurement]) -> None:
        batches.append(list(measurements))
        _add(self, measurements)

    monkeypatch.setattr(ClassEstimation, "add", add)
    names = np.array(["x", "y", "z"], dtype=object)
    frame = pd.DataFrame({f"c{i}": names[np.random.default_rng(i).integers(0, 3, 200)] for i in range(3)})
    LatentClass(rounds=12, n_classes=5).fit(frame, schema_of(3))
    for batch in batches[1:]:
        assert len({each.clique for each in batch}) == 4 == len(batch)  # three pairs and the triple


# What it keeps.


def related(n_rows: int = 4000) -> tuple[pd.DataFrame, Schema]:
    """Three numbers and a target, all of which go up and down with one that nobody sees."""
    rng = np.random.default_rng(8)
    hidden = rng.normal(0, 1, n_rows)
    parts = {
        name: sign * 0.9 * hidden + 0.44 * rng.normal(0, 1, n_rows)
        for name, sign in zip("abc", (1, -1, 1), strict=True)
    }
    frame = pd.DataFrame({**parts, "target": 0.8 * hidden + 0.6 * rng.normal(0, 1, n_rows)}).clip(-4, 4)
    columns = {name: {"kind": "real", "bounds": [-4, 4]} for name in frame}
    return frame, build_schema({"status": "declared", "n_units": n_rows, "target": "target", "columns": columns})


def injected(generator: Any, frame: pd.DataFrame, schema: Schema) -> Any:
    """A large synthetic table at a noise that is the same on every run."""
    schedule = generator.schedule(schema)
    model = generator.fit(frame, schema, budget=Budget(schedule, InjectedNoise(np.random.default_rng(1))))
    return model.sample(20_000, seed=1)


def test_related_numbers_stay_related() -> None:
    """All correlations, where a tree has three of the six pairs, and single columns none."""
    frame, schema = related()
    real = frame.corr().to_numpy()
    assert np.abs(real).min() > 0.6
    errors = {}
    for generator in (LatentClass(epsilon=3.0, n_classes=200), Mst(epsilon=3.0), build("independent", epsilon=3.0)):
        errors[generator.name] = np.abs(injected(generator, frame, schema).corr().to_numpy() - real).max()
    assert errors["independent"] > 0.6
    assert errors["latent_class"] < 0.1
    assert errors["latent_class"] < errors["mst"] / 2


def test_what_only_three_columns_show_is_chosen_where_rounds_allow_it() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2, (2, 8000))
    names = np.array(["x", "y", "z"], dtype=object)
    frame = pd.DataFrame({"c0": names[a], "c1": names[b], "c2": names[a ^ b], "c3": names[rng.integers(0, 3, 8000)]})
    agreeing = []
    for rounds in (0, 4):
        table = injected(LatentClass(epsilon=3.0, n_classes=50, rounds=rounds), frame, schema_of(4, 8000))
        x, y, z = (table[name] == "y" for name in ("c0", "c1", "c2"))
        agreeing.append(float(((x ^ y) == z).mean()))
    assert agreeing[0] < 0.65
    assert agreeing[1] > 0.9


def constrained(kind: str) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(2)
    if kind == "inequality":
        low = rng.integers(0, 30, 3000)
        frame = pd.DataFrame({"low": low, "high": np.minimum(low + rng.integers(0, 8, 3000), 39)})
        columns: Any = {name: {"kind": "integer", "bounds": [0, 39]} for name in frame}
        constraint: Any = {"kind": "inequality", "low": "low", "high": "high"}
    else:
        cities = np.array([f"t{index:02}" for index in range(12)], dtype=object)
        drawn = rng.integers(0, 12, 3000)
        frame = pd.DataFrame(
            {
                "city": cities[drawn],
                "land": np.array(list("abcd"), dtype=object)[(drawn // 3 + rng.integers(0, 2, 3000)) % 4],
            }
        )
        columns = {
            "city": {"kind": "categorical", "categories": cities.tolist()},
            "land": {"kind": "categorical", "categories": list("abcd")},
        }
        listed = [[city, "abcda"[index // 3 + more]] for index, city in enumerate(cities) for more in (0, 1)]
        constraint = {"kind": "fixed_combinations", "columns": ["city", "land"], "combinations": listed}
    frame = frame.assign(other=rng.random(3000))
    columns = {**columns, "other": {"kind": "real", "bounds": [0.0, 1.0]}}
    content = {"status": "declared", "n_units": 3000, "columns": columns, "constraints": [constraint]}
    return frame, build_schema(content)


@pytest.mark.parametrize("kind", ["inequality", "fixed_combinations"])
def test_few_rows_break_a_constraint_whose_zeros_are_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, schema = constrained(kind)
    shares = []
    for _ in range(2):
        table = injected(LatentClass(epsilon=1.0, n_classes=100), frame, schema)
        shares.append(table.attrs["rejected"] / (len(table) + table.attrs["rejected"]))
        monkeypatch.setattr(latent_class, "structural_zeros", lambda *_: ())
    # The second fit knows of no zeros: what they are good for shows.
    assert shares[0] < 0.07
    assert shares[1] > 1.5 * shares[0]


def test_categories_are_fewer_where_all_columns_have_too_many_codes() -> None:
    columns = {f"c{i}": {"kind": "categorical", "categories": [str(j) for j in range(60)]} for i in range(12)}
    numbers = {f"n{i}": {"kind": "integer", "bounds": [0, 99]} for i in range(2)}
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": {**columns, **numbers}})
    generator = LatentClass(epsilon=1.0)
    few = {name: 62 if name in columns else 24 for name in schema.modeled}
    assert generator.n_categories(schema, few) == 100
    assert generator.n_categories(schema, {**few, **dict.fromkeys(columns, 402)}) == 100
    many = {f"c{i}": {"kind": "categorical", "categories": ["a"]} for i in range(300)}
    wide = build_schema({"status": "declared", "n_units": 10_000, "columns": many})
    assert generator.n_categories(wide, dict.fromkeys(wide.modeled, 402)) == 4
    forty = build_schema({"status": "declared", "n_units": 10_000, "columns": dict(list(many.items())[:40])})
    assert generator.n_categories(forty, dict.fromkeys(forty.modeled, 402)) == 25  # 40 x 27 codes


@pytest.mark.parametrize("rounds", [None, 0])
@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_few_columns_are_no_special_case(n_columns: int, rounds: int | None) -> None:
    schema, names = schema_of(n_columns, 500), np.array(["x", "y", "z"], dtype=object)
    frame = pd.DataFrame({name: names[np.arange(500) % 3] for name in schema.columns})
    for epsilon in (1.0, None):
        model = LatentClass(epsilon=epsilon, rounds=rounds, n_classes=20).fit(frame, schema)
        assert model.sample(50, seed=0).shape == (50, n_columns)


def test_a_saved_model_gives_the_table_of_the_model_that_was_saved(tmp_path: Path) -> None:
    frame, schema = related(1000)
    model = LatentClass(epsilon=1.0, n_classes=300, rounds=2, workload={"a": 3.0}).fit(frame, schema)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, MarginalModel)
    assert isinstance(loaded.distribution, LatentClasses)
    for one, other in zip(model.distribution.tables, loaded.distribution.tables, strict=True):  # type: ignore[union-attr]
        np.testing.assert_array_equal(one, other)
    pd.testing.assert_frame_equal(loaded.sample(5000, seed=1), model.sample(5000, seed=1))
    assert loaded.parameters is not None
    assert build("latent_class", **json.loads(json.dumps(dict(loaded.parameters)))) == LatentClass(
        epsilon=1.0, n_classes=300, rounds=2, workload={"a": 3.0}
    )


def test_equal_specifications_are_one_key_in_whichever_order_their_weights_are() -> None:
    one, other = LatentClass(workload={"c0": 2.0, "c1": 3.0}), LatentClass(workload={"c1": 3.0, "c0": 2.0})
    assert len({one, other, LatentClass(workload={"c0": 2.0}), LatentClass()}) == 3


def test_a_weight_of_what_is_not_modeled_is_refused_before_anything_is_drawn() -> None:
    for generator in (LatentClass(workload={"c9": 2.0}), LatentClass(epsilon=1.0, workload={"c9": 2.0})):
        with pytest.raises(JobError, match="not in the schema"):
            generator.check(schema_of(3))


def test_a_value_on_condition_is_held_and_pulls_what_goes_with_it() -> None:
    frame, schema = related()
    model = LatentClass(n_classes=200).fit(frame, schema)
    low, high = (model.sample(2000, seed=0, given={"target": value}) for value in (-1.5, 1.5))
    assert set(low["target"]) == {-1.5}
    for name, sign in zip("abc", (1, -1, 1), strict=True):
        bounds = [frame.loc[(frame["target"] - value).abs() < 0.2, name].mean() for value in (-1.5, 1.5)]
        assert [low[name].mean(), high[name].mean()] == pytest.approx(bounds, abs=0.25)
        assert sign * (high[name].mean() - low[name].mean()) > 1


def test_pairs_of_columns_are_all_in_the_model_at_once() -> None:
    """Of six columns that copy each other no pair is forgotten, though a tree would have five of fifteen."""
    drawn = np.random.default_rng(1).integers(0, 3, 3000)
    frame = pd.DataFrame({f"c{index}": np.array(["x", "y", "z"], dtype=object)[drawn] for index in range(6)})
    table = injected(LatentClass(epsilon=3.0, n_classes=50, rounds=0), frame, schema_of(6, 3000))
    for one, other in combinations(table, 2):
        assert (table[one] == table[other]).mean() > 0.9, (one, other)

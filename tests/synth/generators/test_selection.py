"""Scores and counts of one unit, brute force over neighbors; the search for classes, and its balance."""

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable, SpooledTable, fine
from synth.dp import budget
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.mechanisms import NoNoise, SystemNoise
from synth.dp.schedule import Schedule
from synth.errors import JobError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import private_fit, selection
from synth.generators.fitting.selection import ClassSearch, NoisyPairs, distance_of, noisy_pair_events
from synth.generators.models.model import Model
from synth.marginals import Measurement
from synth.marginals.latent_class_estimation import ClassEstimation, CoarseCodes
from synth.schema import Schema, build_schema
from synth.table import conform

CHOOSING = ("mst", "aim", "latent_class")
"""Generators that make private choices."""
SMALL = {"n_iterations": 1, "n_classes": 5}
"""Parameters that make a fit quick; how far one unit moves what is asked rests on none of them."""
K = 3
N_UNITS = 60
ROUNDING = 1e-6
COLUMNS: dict[str, Any] = {
    "x": {"kind": "integer", "bounds": [0, 8]},
    "y": {"kind": "boolean"},
    "z": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "w": {"kind": "real", "bounds": [0.0, 100.0]},
}


class Canned:
    """Answers that rest on the turn and the shape of a question, never on the values asked about; keeps those."""

    private = False

    def __init__(self) -> None:
        self.asked: list[tuple[np.ndarray, float]] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        answer = self._turn(values, sigma).exponential(N_UNITS / values.size, values.shape)
        return answer.astype(np.int64) if values.dtype.kind in "iu" else answer

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self.gaussian(values, scale)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(self._turn(scores, scale).integers(len(scores)))

    def _turn(self, values: np.ndarray, scale: float) -> np.random.Generator:
        self.asked.append((values.astype(np.float64), scale))
        return np.random.default_rng(len(self.asked))


class Watched(Budget):
    """Keeps the events in the order in which they were drawn."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.drawn: list[Event] = []

    def _charge_then_draw(self, event: Event, draw: Callable[[], Any]) -> Any:
        self.drawn.append(event)
        return super()._charge_then_draw(event, draw)


@cache
def specified(name: str, entities: bool) -> tuple[PrivateGenerator, Schema, Schedule]:
    """A generator, a schema of rows or of entities, and what a fit will draw; the lies lie beyond the schedule."""
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    content = {"status": "declared", "n_units": N_UNITS, "columns": COLUMNS}
    of_entities = {"entity": "who", "max_rows_per_unit": K, "columns": {**who, **COLUMNS}}
    schema = build_schema({**content, **(of_entities if entities else {})})
    fields = registry.generator_class(name).model_fields
    generator = registry.generator(name, epsilon=2.0, **{key: SMALL[key] for key in SMALL if key in fields})
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(schema)
    assert schedule is not None
    return generator, schema, schedule


Asked = list[tuple[Event, np.ndarray, float]]
"""Event, what was asked about, and the scale of its noise."""


def asked(name: str, frame: pd.DataFrame) -> Asked:
    """Everything that a fit asked of a table."""
    generator, schema, schedule = specified(name, "who" in frame)
    noise = Canned()
    purse = Watched(schedule, noise)
    generator.fit(frame, schema, budget=purse)
    return [(event, *question) for event, question in zip(purse.drawn, noise.asked, strict=True)]


def people(n: int) -> pd.DataFrame:
    i = np.arange(n)
    table = {"x": i % 9, "y": i % 2 == 0, "z": np.array(["a", "b", "c"])[i % 3], "w": i * 7 % 101}
    return pd.DataFrame(table).astype({"w": float})


def visit(**values: Any) -> pd.DataFrame:
    return pd.DataFrame({name: [value] for name, value in {"x": 8, "y": True, "z": "c", "w": 100.0, **values}.items()})


def neighbors() -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Pairs of tables that differ in one unit: plain ones, and such as nobody would expect."""
    crowd = people(N_UNITS - 1)
    odd = visit(x=None, y=None, z="never heard of", w=np.nan)
    for what, row in (("a row", visit()), ("a row out of every bound", visit(x=10**9, w=1e300)), ("an odd row", odd)):
        yield what, pd.concat([crowd, row], ignore_index=True), crowd
    yield "the only row", visit(), visit().iloc[:0]

    several = crowd.assign(who=np.arange(len(crowd)) // 2)  # two rows each: which of them count is left to no hash
    for what, unit in (
        ("a unit with K equal rows", pd.concat([visit()] * K)),
        ("a unit with 500 equal rows", pd.concat([visit()] * 500)),
        ("a unit with K unlike rows", pd.concat([visit(), odd, visit(x=0, y=False, z="a", w=0.0)])),
    ):
        yield what, pd.concat([several, unit.assign(who=999)], ignore_index=True), several


def moved(name: str) -> Iterator[tuple[str, Event, np.ndarray, float]]:
    """For each pair of neighbors and each draw: its event, how far one unit moved what was asked, and its noise."""
    for what, with_unit, without in neighbors():
        one, other = asked(name, with_unit), asked(name, without)
        assert [event for event, _, _ in one] == [event for event, _, _ in other], what
        for (event, values, scale), (_, rest, scale_without) in zip(one, other, strict=True):
            assert values.shape == rest.shape, f"{what}: its shape depends on one unit"
            assert scale == scale_without, f"{what}: its noise depends on one unit"
            yield what, event, values - rest, scale


def scores_move_by_no_more_than_their_noise_allows(name: str) -> None:
    # Gumbel noise of scale b on scores that one unit moves by at most s is a choice at epsilon 2 s / b.
    largest = 0.0
    for what, event, change, scale in moved(name):
        if isinstance(event, SelectionEvent):
            allowed = event.epsilon * scale / 2
            assert np.abs(change).max() <= allowed + ROUNDING, what
            largest = max(largest, float(np.abs(change).max() / allowed))
    assert largest > 0.99, "no pair of neighbors comes near the bound: the check would miss a slight fault"


def counts_move_by_no_more_than_their_noise_allows(name: str) -> None:
    largest: dict[str, float] = {}
    for what, event, change, sigma in moved(name):
        if isinstance(event, GaussianEvent):
            length = float(np.linalg.norm(change))
            # The books price sensitivity and sigma as they state them; what counts is their ratio.
            assert length / sigma <= (1 + ROUNDING) / event.noise_multiplier, what
            largest[event.what] = max(largest.get(event.what, 0.0), length * event.noise_multiplier / sigma)
    assert len(largest) >= 3  # rows per entity, columns, and marginals of several columns
    assert min(largest.values()) > 0.99, "no pair of neighbors comes near the bound: a slight fault would be missed"


Check = Callable[[str], None]
CHECKS: tuple[Check, ...] = (
    scores_move_by_no_more_than_their_noise_allows,
    counts_move_by_no_more_than_their_noise_allows,
)
_choose, _release, _counted = Budget.choose, Budget.release, SpooledTable._counted


def _doubled(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, 2 * scores, score_sensitivity, event)


def _twice_a_square(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, scores**2, score_sensitivity, event)


def _without_k(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, scores, 1.0, event)


def _marginals_twice(self: Budget, exact: np.ndarray, event: Any) -> np.ndarray:
    return _release(self, 2 * exact if event == self.schedule.events[-1] else exact, event)


def _every_row_twice(self: SpooledTable, cliques: Any) -> list[np.ndarray]:
    return [2 * counts for counts in _counted(self, cliques)]


def _filled_to_n_units(self: SpooledTable, cliques: Any) -> list[np.ndarray]:
    """Rows made up to the public number: shares of the table in place of counts."""
    found = _counted(self, cliques)
    return [np.rint(counts * (N_UNITS / max(counts.sum(), 1))).astype(np.int64) for counts in found]


Plant = tuple[Any, str, Any]
MUTANTS: Sequence[tuple[str, Plant, Check]] = (
    ("scores doubled at the stated scale", (Budget, "choose", _doubled), CHECKS[0]),
    ("scores squared", (Budget, "choose", _twice_a_square), CHECKS[0]),
    ("a choice that forgets the rows of an entity", (Budget, "choose", _without_k), CHECKS[0]),
    ("scores normalized by the data", (SpooledTable, "_counted", _filled_to_n_units), CHECKS[0]),
    ("scores of rows counted twice", (SpooledTable, "_counted", _every_row_twice), CHECKS[0]),
    ("choices with half the noise", (budget, "select", lambda s, d, e, n: n.noisy_max(s, d / e.epsilon)), CHECKS[0]),
    ("counts of a pair counted twice", (Budget, "release", _marginals_twice), CHECKS[1]),
    ("rows counted twice", (SpooledTable, "_counted", _every_row_twice), CHECKS[1]),
    ("counts normalized by the data", (SpooledTable, "_counted", _filled_to_n_units), CHECKS[1]),
    ("half the noise", (budget, "release", lambda x, e, n: n.gaussian(x, e.sigma / 2)), CHECKS[1]),
    (
        "rows of an entity not bounded",
        (private_fit, "bound_contributions", lambda train, schema, **_: train),
        CHECKS[1],
    ),
)


@pytest.mark.statistical
@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_one_unit_moves_no_more_than_the_books_say(check: Check, name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize(("plant", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_lie_about_what_one_unit_moves_is_caught(
    plant: Plant, check: Check, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError) as caught:
        check(name)
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert str(caught.traceback[-1].path) == __file__


def test_every_check_has_a_mutant() -> None:
    assert {check for _, _, check in MUTANTS} == set(CHECKS)


N_ROWS, SIGMA = 600, 6.0
DOMAIN = {"a": 12, "b": 3, "c": 6, "d": 2}
GROUPS = {"a": np.arange(12) // 4, "c": np.array([0, 1, 0, 1, 2, 2])}
COARSENING = Coarsening(GROUPS)
MEAN_ABSOLUTE = np.sqrt(2 / np.pi)
"""Of a standard normal number."""


def codes_of(n_rows: int = N_ROWS) -> np.ndarray:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n_rows) for size in DOMAIN.values()], axis=1)
    codes[:, 2] = codes[:, 0] // 2  # what a and c have in common no model of single columns knows
    return codes


def searching(
    weights: dict[str, float] | None = None, max_cells: int = 4000, codes: np.ndarray | None = None
) -> ClassSearch:
    table = CoarseCounts(CodedTable(DOMAIN, codes_of() if codes is None else codes), COARSENING)
    return ClassSearch(table, {**dict.fromkeys(DOMAIN, 1.0), **(weights or {})}, max_cells)


def estimation() -> ClassEstimation:
    table = CodedTable(DOMAIN, codes_of())
    one_way = [Measurement((name,), table.counts((name,)).astype(float), 1.0) for name in DOMAIN]
    coarse = {name + MARK: CoarseCodes(name, groups) for name, groups in GROUPS.items()}
    started = ClassEstimation(DOMAIN, coarse, one_way, 4, np.random.default_rng(1))
    started.run(5, 1.0)
    return started


def test_candidates_are_pairs_by_fine_codes_and_triples_by_coarse_ones() -> None:
    a, c = "a" + MARK, "c" + MARK
    triples = [(a, "b", c), (a, "b", "d"), (a, c, "d"), ("b", c, "d")]
    assert searching().cliques == [*combinations(DOMAIN, 2), *triples]


def test_no_candidate_has_more_cells_than_are_allowed_and_one_is_left_always() -> None:
    cells = {clique: counts.size for clique, counts in zip(searching().cliques, searching().counts, strict=True)}
    assert searching(max_cells=30).cliques == [clique for clique, size in cells.items() if size <= 30]
    a, c = "a" + MARK, "c" + MARK
    assert searching(max_cells=1).cliques == [(a, "b"), (a, c), (a, "d"), ("b", c), ("b", "d"), (c, "d")]


def test_no_candidate_is_counted_by_more_fine_codes_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searching().cliques
    sizes = {clique: math.prod(DOMAIN[fine(name)] for name in clique) for clique in whole}
    limit = sorted(sizes.values())[-2]
    monkeypatch.setattr("synth.generators.fitting.selection.MOST_FINE_CELLS", limit)
    assert searching().cliques == [clique for clique in whole if sizes[clique] <= limit] != whole


def test_counts_are_those_of_each_candidate() -> None:
    merged = np.column_stack([codes_of(), GROUPS["a"][codes_of()[:, 0]], GROUPS["c"][codes_of()[:, 2]]])
    table = CodedTable({**DOMAIN, "a" + MARK: 3, "c" + MARK: 3}, merged)
    for clique, counts in zip(searching().cliques, searching().counts, strict=True):
        np.testing.assert_array_equal(counts, table.counts(clique))


@pytest.mark.parametrize("weights", [{}, {"b": 4.0}, {"a": 0.1, "d": 3.0}])
def test_a_score_is_the_weight_times_the_error_less_a_share_of_the_noise(weights: dict[str, float]) -> None:
    search, model = searching(weights), estimation()
    scores = search.scores(model, SIGMA)
    expected = []
    for clique, counts, of_model in zip(search.cliques, search.counts, model.expected(search.cliques), strict=True):
        error = float(np.abs(counts - of_model.astype(np.float64)).sum())
        expected.append(
            search._workload.weight(tuple(map(fine, clique))) * (error - 0.3 * MEAN_ABSOLUTE * SIGMA * counts.size)
        )
    assert scores == pytest.approx(expected)
    assert max(search._workload.weight(tuple(map(fine, clique))) for clique in search.cliques) <= 1


def test_what_hangs_together_comes_first() -> None:
    search = searching()
    assert search.cliques[int(np.argmax(search.scores(estimation(), SIGMA)))] == ("a", "c")


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_by_more_than_one_whatever_the_weights(weight: float) -> None:
    model = estimation()
    scores = [searching({"a": weight}, codes=codes_of()[:n]).scores(model, SIGMA) for n in (N_ROWS, N_ROWS - 1)]
    # Single precision rounds the counts that the model expects, the same for both.
    assert np.abs(scores[0] - scores[1]).max() <= 1 + 1e-4
    assert np.abs(scores[0] - scores[1]).max() > 0.9


def test_candidates_are_apart_where_they_share_no_pair_of_columns() -> None:
    search = searching()
    for index, clique in enumerate(search.cliques):
        shared = [len(set(map(fine, clique)) & set(map(fine, other))) for other in search.cliques]
        np.testing.assert_array_equal(search.apart(index), np.array(shared) < 2)


def test_of_too_many_triples_those_of_the_heaviest_columns_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four triples three hold a column; two columns are in all of them."""
    triples = [set(map(fine, clique)) for clique in searching({"b": 2.0}).cliques if len(clique) == 3]
    assert len(triples) == 4
    monkeypatch.setattr(selection, "MOST_TRIPLES", 3)
    assert [set(map(fine, c)) for c in searching({"b": 2.0}).cliques if len(c) == 3] == [t for t in triples if "b" in t]
    assert {len(clique) for clique in searching({"b": 2.0, "c": 2.0}).cliques} == {2}
    assert {len(clique) for clique in searching().cliques} == {2}


QUICK: dict[str, dict[str, Any]] = {
    "aim": {"rounds": 12, "n_draws": 1000},
    "latent_class": {"n_classes": 60, "rounds": 4},
    "trees": {},
}
N = 2000
SCHEMA = build_schema({
    "status": "declared",
    "missing_values": [""],
    "columns": {
        "age": {"kind": "integer", "bounds": [20, 69]},
        "job": {"kind": "categorical", "categories": ["clerk", "farmer", "nurse"]},
        "ill": {"kind": "boolean", "tokens": ["healthy", "sick"], "missing": True},
        "flag": {"kind": "boolean"},
        "id": {"kind": "identifier", "template": "P-####"},
        "twice": {"kind": "integer", "bounds": [0, 200]},
    },
    "constraints": [{"kind": "formula", "column": "twice", "expression": "age * 2"}],
})  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Four in five are clerks, below 45; a nurse is older than 50; the sick are nurses and a few others."""
    rng = np.random.default_rng(0)
    job = rng.choice(np.array(["clerk", "farmer", "nurse"], dtype=object), N, p=[0.8, 0.1, 0.1])
    age = np.where(job == "nurse", rng.integers(50, 70, N), rng.integers(20, 45, N))
    sick = np.where(rng.random(N) < np.where(job == "nurse", 0.8, 0.04), "sick", "healthy").astype(object)
    return conform(
        pd.DataFrame({
            "age": age, "job": job, "ill": pd.Series(sick).mask(rng.random(N) < 0.1), "flag": rng.random(N) < 0.2,
            "id": [f"P-{i:04d}" for i in range(N)], "twice": 2 * age,
        }),
        SCHEMA,
    )  # fmt: skip


@pytest.fixture(scope="module", params=list(QUICK))
def model(request: pytest.FixtureRequest, table: pd.DataFrame) -> Model:
    return registry.generator(request.param, **QUICK[request.param]).fit(table, SCHEMA, seed=0)


def counts(drawn: pd.Series) -> dict[Any, int]:
    return dict(drawn.value_counts(dropna=False))


def test_every_category_has_as_many_rows(model: Model) -> None:
    drawn = model.sample(900, seed=1, balance={"job": None})
    assert counts(drawn["job"]) == {"clerk": 300, "farmer": 300, "nurse": 300}
    ages = drawn.groupby("job")["age"].median()
    assert ages["clerk"] < 45
    assert ages["nurse"] > 48
    assert (drawn["twice"] == 2 * drawn["age"]).all()
    assert drawn["id"].is_unique
    # Parts are mixed: no half of the table has all of one.
    assert set(drawn["job"].head(50)) == {"clerk", "farmer", "nurse"}


def test_rows_that_cannot_be_shared_evenly_are_rounded_at_random(model: Model) -> None:
    found = [counts(model.sample(10, seed=seed, balance={"job": None})["job"]) for seed in range(8)]
    assert all(sorted(shares.values()) == [3, 3, 4] for shares in found)
    assert len({max(shares, key=lambda job: shares[job]) for shares in found}) > 1


def test_each_value_has_the_share_that_is_given_in_any_unit(model: Model) -> None:
    asked: dict[Any, float] = {"nurse": 3, "clerk": 1, "farmer": 0}
    drawn = model.sample(400, seed=1, balance={"job": asked})
    assert counts(drawn["job"]) == {"nurse": 300, "clerk": 100}
    alone = model.sample(60, seed=1, balance={"job": {"farmer": 0.5}})
    assert counts(alone["job"]) == {"farmer": 60}


def test_booleans_are_balanced_by_their_tokens(model: Model) -> None:
    assert counts(model.sample(200, seed=1, balance={"flag": None})["flag"]) == {True: 100, False: 100}
    drawn = model.sample(200, seed=1, balance={"ill": None})
    assert counts(drawn["ill"]) == {True: 100, False: 100}
    shares = drawn.groupby("ill")["job"].apply(lambda jobs: (jobs == "nurse").mean())
    assert shares[True] > shares[False] + 0.15
    drawn = model.sample(100, seed=1, balance={"ill": {"sick": 0.7, "": 0.3}})
    assert drawn["ill"].isna().sum() == 30
    assert drawn["ill"].sum() == 70


def test_numbers_are_balanced_over_values_that_are_named(model: Model) -> None:
    drawn = model.sample(100, seed=1, balance={"age": {30: 0.25, "60": 0.75}})
    assert counts(drawn["age"]) == {30: 25, 60: 75}
    assert (drawn.loc[drawn["age"] == 60, "job"] == "nurse").mean() > 0.5
    with pytest.raises(JobError, match="give the share of each value"):
        model.sample(100, seed=1, balance={"age": None})


def test_what_is_given_holds_in_every_part(model: Model) -> None:
    drawn = model.sample(120, seed=1, given={"flag": True}, balance={"ill": None})
    assert drawn["flag"].all()
    assert counts(drawn["ill"]) == {True: 60, False: 60}
    with pytest.raises(JobError, match="not given"):
        model.sample(10, seed=1, given={"ill": "sick"}, balance={"ill": None})


@pytest.mark.parametrize(
    ("balance", "message"),
    [
        ({"job": {"poet": 1.0}}, "one of its 3 categories"),
        ({"ill": {"unwell": 1.0}}, "one of"),
        ({"flag": {"": 1.0}}, "never missing"),
        ({"nobody": None}, "balance='nobody' is not a column"),
        ({"nobody": {"x": 1.0}}, "'nobody' is not a column"),
        ({"twice": {40: 1.0}}, "computed by a formula"),
        ({"twice": None}, "computed by a formula"),
        ({"id": None}, "kind identifier"),
        ({"job": {}}, "some more"),
        ({"job": {"clerk": 0.0}}, "some more"),
        ({"job": {"clerk": -1.0, "nurse": 2.0}}, "at least 0"),
        ({"job": {"clerk": float("nan")}}, "at least 0"),
        ({"job": {"clerk": float("inf"), "nurse": 1.0}}, "at least 0"),
        ({"job": None, "ill": None}, "must be one column"),
    ],
    ids=str,
)
def test_what_cannot_be_balanced_is_refused_in_a_sentence(model: Model, balance: Any, message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        model.sample(10, seed=1, balance=balance)
    assert "\n" not in str(caught.value)


def test_the_same_seed_gives_the_same_table_and_an_empty_balance_is_none(model: Model) -> None:
    one, same, other = (model.sample(50, seed=seed, balance={"job": None}) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)
    pd.testing.assert_frame_equal(model.sample(50, seed=1, balance={}), model.sample(50, seed=1))


def test_a_column_that_another_determines_is_balanced() -> None:
    pairs = [["Rome", "RM"], ["Milan", "MI"], ["Paris", "PA"]]
    schema = build_schema({
        "status": "declared",
        "columns": {
            "town": {"kind": "categorical", "categories": [town for town, _ in pairs]},
            "code": {"kind": "categorical", "categories": [code for _, code in pairs]},
        },
        "constraints": [{"kind": "fixed_combinations", "columns": ["town", "code"], "combinations": pairs}],
    })  # fmt: skip
    chosen = np.random.default_rng(0).choice(3, 500, p=[0.8, 0.1, 0.1])
    frame = pd.DataFrame(np.array(pairs, dtype=object)[chosen], columns=["town", "code"])
    made = registry.generator("trees", rounds=10).fit(frame, schema)
    for name in ("town", "code"):
        shares = {pair[name == "code"]: 1.0 for pair in pairs}
        drawn = made.sample(90, seed=0, balance={name: shares})
        assert set(counts(drawn[name]).values()) == {30}
        assert {tuple(pair) for pair in drawn.to_numpy()} == {tuple(pair) for pair in pairs}


def test_rare_categories_of_trees_are_balanced_like_all_others() -> None:
    """They share a code, and the column holds each of them all the same; what never occurs is not made up."""
    schema = build_schema({
        "status": "declared", "columns": {"x": {"kind": "categorical", "categories": ["a", "b", "c", "d"]}},
    })  # fmt: skip
    frame = pd.DataFrame({"x": np.repeat(np.array(list("abc"), dtype=object), [500, 5, 6])})
    drawn = registry.generator("trees").fit(frame, schema).sample(90, seed=0, balance={"x": None})
    assert counts(drawn["x"]) == {"a": 30, "b": 30, "c": 30}


def test_a_mixture_of_nothing_asks_for_nothing(table: pd.DataFrame) -> None:
    made: Any = registry.generator("trees", rounds=10).fit(table, SCHEMA)
    assert "given" not in made.sample(10, seed=0).attrs
    assert made.sample(10, seed=0, balance={"job": None}).attrs["given"] == "weights"
    assert made.sample(10, seed=0, balance={"age": {30: 1, 31: 1}}).attrs["given"] == "exact"


@pytest.mark.skipif(importlib.util.find_spec("sdv") is None, reason="the extra sdv is not installed")
def test_sdv_refuses_to_balance(frame: pd.DataFrame, schema: Schema) -> None:
    fitted = registry.generator("sdv.gaussian_copula").fit(frame, schema, seed=0)
    with pytest.raises(JobError, match="job"):
        fitted.sample(10, seed=0, balance={"job": None})


PAIRS_SCHEMA = build_schema({
    "status": "declared", "n_units": N_ROWS, "target": "d",
    "columns": {
        "a": {"kind": "categorical", "categories": [str(i) for i in range(10)]},
        "b": {"kind": "categorical", "categories": ["0", "1", "2"]},
        "c": {"kind": "categorical", "categories": [str(i) for i in range(10)]},
        "d": {"kind": "boolean"},
    },
})  # fmt: skip


def noisy_pairs(codes: pd.DataFrame, noise: Any) -> NoisyPairs:
    """All pairs of four columns, with noise or without."""
    discretizer = Discretizer.by_schema(PAIRS_SCHEMA)
    events = noisy_pair_events(0.5, PAIRS_SCHEMA)
    table = CodedTable(discretizer.sizes, discretizer.encode(codes))
    one_way = [Measurement((n,), np.arange(size, 0.0, -1.0), 1.0) for n, size in discretizer.sizes.items()]
    return NoisyPairs.measure(
        table, PAIRS_SCHEMA, discretizer, one_way, events, Budget(Schedule(tuple(events), 1e-6), noise)
    )


def related_rows(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 10, n_rows)
    return pd.DataFrame({
        "a": a.astype(str), "b": rng.integers(0, 3, n_rows).astype(str), "c": (9 - a).astype(str), "d": a > 4,
    }).astype({"d": "boolean"})  # fmt: skip


def test_one_row_is_in_one_cell_of_each_noisy_pair() -> None:
    rows = related_rows(40)
    whole = noisy_pairs(rows, NoNoise())
    for left_out in range(len(rows)):
        part = noisy_pairs(rows.drop(index=left_out).reset_index(drop=True), NoNoise())
        for pair, counts in whole.released.items():
            moved = counts - part.released[pair]
            assert sorted(moved.ravel().tolist())[-2:] == [0.0, 1.0] and moved.sum() == 1


def test_noise_alone_shows_no_pair_and_what_hangs_together_is_far_from_independence() -> None:
    noisy = noisy_pairs(related_rows(20_000), SystemNoise())
    distances = {}
    for pair, counts in noisy.released.items():
        independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        distances[pair] = noisy.distance(pair, independent)
    told = {("a", "c"), ("a", "d"), ("c", "d")}
    assert min(distances[pair] for pair in told) > 5_000
    assert max(distance for pair, distance in distances.items() if pair not in told) < 500
    assert distance_of(("a", "c", "d"), distances) == pytest.approx(sum(distances[pair] for pair in told))

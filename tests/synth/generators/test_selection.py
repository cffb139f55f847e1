"""What one unit can move: every score of a private choice and every count, against what the books say of them.

Both fits are given the same answers, whatever they asked about. So all that a later question rests on beside the table
(codes, models, earlier choices) is equal, and what differs is what one unit moved. Each check stands beside lies that
it must catch.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.dp import budget
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import private_fit
from synth.schema import Schema, build_schema

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

    def _draw(self, event: Event, draw: Callable[[], Any]) -> Any:
        self.drawn.append(event)
        return super()._draw(event, draw)


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
_choose, _release, _encode = Budget.choose, Budget.release, Discretizer.encode


def _doubled(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, 2 * scores, score_sensitivity, event)


def _twice_a_square(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, scores**2, score_sensitivity, event)


def _without_k(self: Budget, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
    return _choose(self, scores, 1.0, event)


def _marginals_twice(self: Budget, exact: np.ndarray, event: Any) -> np.ndarray:
    return _release(self, 2 * exact if event == self.schedule.events[-1] else exact, event)


def _every_row_twice(self: Discretizer, frame: pd.DataFrame) -> np.ndarray:
    return np.repeat(_encode(self, frame), 2, axis=0)


def _filled_to_n_units(self: Discretizer, frame: pd.DataFrame) -> np.ndarray:
    """Rows made up to the public number by repeating those at hand: shares of the table in place of counts."""
    codes = _encode(self, frame)
    return codes if len(codes) == 0 else np.resize(codes, (N_UNITS, codes.shape[1]))


Plant = tuple[Any, str, Any]
MUTANTS: Sequence[tuple[str, Plant, Check]] = (
    ("scores doubled at the stated scale", (Budget, "choose", _doubled), CHECKS[0]),
    ("scores squared", (Budget, "choose", _twice_a_square), CHECKS[0]),
    ("a choice that forgets the rows of an entity", (Budget, "choose", _without_k), CHECKS[0]),
    ("scores normalized by the data", (Discretizer, "encode", _filled_to_n_units), CHECKS[0]),
    ("scores of rows counted twice", (Discretizer, "encode", _every_row_twice), CHECKS[0]),
    ("choices with half the noise", (budget, "select", lambda s, d, e, n: n.noisy_max(s, d / e.epsilon)), CHECKS[0]),
    ("counts of a pair counted twice", (Budget, "release", _marginals_twice), CHECKS[1]),
    ("rows counted twice", (Discretizer, "encode", _every_row_twice), CHECKS[1]),
    ("counts normalized by the data", (Discretizer, "encode", _filled_to_n_units), CHECKS[1]),
    ("half the noise", (budget, "release", lambda x, e, n: n.gaussian(x, e.sigma / 2)), CHECKS[1]),
    ("rows of an entity not bounded", (private_fit, "bound_contributions", lambda train, schema: train), CHECKS[1]),
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

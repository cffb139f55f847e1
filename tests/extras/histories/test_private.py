"""One entity more or less, in private fits of histories: every count moves by no more than what is stated.

All answers are the same whatever the table holds, so that both fits ask the same questions. Each lie in the table below
must be caught.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import row_order as ordering
from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.mechanisms import InjectedNoise
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import training_data
from synth.generators.wrapper import compose
from synth.schema import Schema, build_schema
from tests.synth.generators.deaf_noise import Watched
from understudy.extras.histories import wrapper
from understudy.extras.histories.layout import HistoryLayout
from understudy.extras.histories.model import HistoryModel
from understudy.extras.histories.wrapper import WithHistories

K, N_UNITS = 4, 90
SMALL: dict[str, dict[str, Any]] = {"mst": {"n_iterations": 5}, "aim": {"n_iterations": 5, "rounds": 4, "n_draws": 300}}


@cache
def schema() -> Schema:
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 10**6]},
        "group": {"kind": "categorical", "categories": ["a", "b"]},
        "time": {"kind": "integer", "bounds": [0, 60]},
        "state": {"kind": "categorical", "categories": ["x", "y", "z"]},
        "level": {"kind": "integer", "bounds": [0, 30], "measure": False},
        "total": {"kind": "integer", "bounds": [0, 99]},
        "job": {"kind": "categorical", "measure": True},
    }
    return build_schema({
        "status": "declared", "n_units": N_UNITS, "entity": "who", "max_rows_per_unit": K, "order": "time",
        "constant_in_entity": ["group"], "nondecreasing_in_entity": ["total"], "columns": columns,
    })  # fmt: skip


def visits(seed: int) -> pd.DataFrame:
    """Entities of one to nine rows; one of them has all rows alike, at one time, and one has them backwards."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, 7)
    who = np.repeat(np.arange(7), sizes)
    n = len(who)
    frame = pd.DataFrame({
        "who": who, "group": np.where(who % 2 == 0, "a", "b"), "time": rng.integers(0, 61, n),
        "state": rng.choice(["x", "y", "z"], n), "level": rng.integers(0, 31, n), "total": rng.integers(0, 100, n),
        "job": rng.choice(["clerk", "cook"], n),
    })  # fmt: skip
    for name, value in {"time": 7, "state": "x", "level": 30, "total": 0}.items():
        frame[name] = frame[name].where(frame["who"] != 3, value)
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


@dataclass
class Asked:
    """A question: the event that pays, the exact numbers, and the scale of a choice."""

    event: Event
    exact: np.ndarray
    scale: float


class Recorded(Watched):
    """A budget that answers alike whatever is asked, and keeps every question."""

    def __init__(self, schedule: Any) -> None:
        super().__init__(schedule)
        self.asked: list[Asked] = []
        for name in ("gaussian", "noisy_max"):
            setattr(self.deaf, name, self._keeping(getattr(self.deaf, name)))

    def _keeping(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def kept(values: np.ndarray, scale: float) -> Any:
            assert self.deaf.event is not None
            self.asked.append(Asked(self.deaf.event, np.array(values, dtype=np.float64), scale))
            return answer(values, scale)

        return kept


@cache
def specified(name: str) -> tuple[PrivateGenerator, Any]:
    generator = compose(registry.generator(name, epsilon=100.0, **SMALL[name]), schema())
    assert isinstance(generator, WithHistories)
    return generator, generator.schedule(schema())


def questions(name: str, rows: Any) -> tuple[list[Asked], Any]:
    generator, schedule = specified(name)
    budget = Recorded(schedule)
    model: Any = generator.fit(rows, schema(), budget=budget)
    assert isinstance(model, HistoryModel)
    return budget.asked, model


def too_far(name: str, seed: int, ask: Callable[[str, pd.DataFrame], Any] = questions) -> list[str]:
    """The questions whose answers one entity moves by more than its event states, or that it changes in kind."""
    frame = visits(seed)
    whole, model = ask(name, frame)
    beyond = []
    for gone in [*frame["who"].unique(), None]:
        # Another order of the rows is no other table: it moves nothing.
        others = frame[frame["who"] != gone] if gone is not None else frame.iloc[::-1]
        fewer, without = ask(name, others.reset_index(drop=True))
        if model.default_rows != without.default_rows or model.entity_shares != without.entity_shares:
            beyond.append("the rows of a sample")
        for question, other in zip(whole, fewer, strict=True):
            if question.event.mechanism == "stability histogram":
                continue
            moved = np.abs(question.exact - other.exact)
            if isinstance(question.event, SelectionEvent):
                stated = question.scale * question.event.epsilon / 2
                reached = float(moved.max())
            else:
                assert isinstance(question.event, GaussianEvent)
                stated, reached = question.event.sensitivity, float(np.sqrt((moved**2).sum()))
            if reached > (stated + 1e-9 if gone is not None else 1e-9):
                beyond.append(f"{question.event.what}: {reached} where {stated} is stated")
    return sorted(set(beyond))


@pytest.mark.parametrize("name", ["aim", "mst"])
def test_one_entity_moves_every_count_by_no_more_than_is_stated(name: str) -> None:
    assert [too_far(name, seed) for seed in range(2)] == [[]] * 2
    gaussians = [each.event for each in questions(name, visits(0))[0] if isinstance(each.event, GaussianEvent)]
    kinds = {(event.what.split(", ")[-1], event.sensitivity) for event in gaussians}
    assert kinds == {("first rows", 1), ("later rows", K - 1)}


def test_the_statement_is_of_what_reached_the_sampler() -> None:
    """The books kept anew, from sensitivities of counts and the noise that was asked for."""
    for name in ("aim", "mst"):
        generator, schedule = specified(name)
        noise = _Kept()
        statement = generator.fit(visits(1), schema(), budget=Budget(schedule, noise)).statement
        assert statement is not None
        named = [event for event in schedule.events if event.mechanism == "stability histogram"]
        gaussians = [event for event in schedule.events if isinstance(event, GaussianEvent)]
        assert len(noise.sigmas) == len(named) + sum(event.count for event in gaussians)
        of_first = [e for e in gaussians if e.what.endswith("first rows")]
        of_later = [e for e in gaussians if e.what.endswith("later rows")]
        assert {*of_first, *of_later} == {*gaussians}
        drawn: list[Event] = [GaussianEvent(e.what, e.sigma, 1, count=e.count) for e in of_first]
        drawn += [GaussianEvent(e.what, e.sigma, K - 1, count=e.count) for e in of_later]
        choices = [e for e in schedule.events if isinstance(e, SelectionEvent)]
        assert epsilon_pld([*named, *drawn, *choices], statement.delta) <= statement.epsilon * 1.002
        assert statement.epsilon <= 100.0
        assert statement.unit == "who"
        assert statement.max_rows_per_unit == K


class _Kept(InjectedNoise):
    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.sigmas: list[float] = []

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        self.sigmas.append(sigma)
        return super().gaussian(values, sigma)


_of, _taken_apart = ordering.histories_of, HistoryLayout.taken_apart
_later = HistoryLayout.__dict__["later_rows"].func


def _by_place(table: pd.DataFrame, schema: Schema) -> Any:
    """Rows that have the order in common follow each other as they stand in the table."""
    histories = _of(table, schema)
    order = np.lexsort((np.arange(len(table)), table["time"].to_numpy(), table["who"].to_numpy()))
    return replace(histories, rows=order)


def _lag_of_one(self: HistoryLayout) -> Schema:
    return Schema.model_validate({**_later(self).model_dump(), "max_rows_per_unit": 1})


Plant = Callable[[pytest.MonkeyPatch], None]


def _exact_end(patch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def apart(self: HistoryLayout, *more: Any) -> Any:
        parts = _taken_apart(self, *more)
        seen.append(parts[0])
        return parts

    patch.setattr(HistoryLayout, "taken_apart", apart)

    def lengths(codes: Any, measured: Any, layout: HistoryLayout) -> tuple[float, ...]:
        n_rows = seen[-1][layout.n_rows].to_numpy(dtype=int)
        return tuple(np.bincount(n_rows, minlength=K + 1)[1:] / max(len(n_rows), 1))

    patch.setattr(wrapper, "length_shares", lengths)


def _order_of_places(patch: pytest.MonkeyPatch) -> None:
    for module in (training_data, wrapper):
        patch.setattr(module, "histories_of", _by_place)


MUTANTS: tuple[tuple[str, Plant], ...] = (
    (
        "rows of an entity not bounded",
        lambda patch: patch.setattr(ordering.Histories, "first", lambda self, most: self),
    ),
    ("pairs of rows that count once", lambda patch: patch.setattr(HistoryLayout, "later_rows", property(_lag_of_one))),
    ("the rows of a history without noise", _exact_end),
    ("an order by places in the table", _order_of_places),
)


@pytest.mark.parametrize("plant", [m[1] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_lie_about_histories_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    specified.cache_clear()
    try:
        assert any(too_far("mst", seed) for seed in range(2))
    finally:
        specified.cache_clear()

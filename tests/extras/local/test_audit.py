"""The audit of local claims: planted faults exceed the claim, and the generator as it ships does not."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT, Audit
from evaluate.privacy.audit.white_box import audit
from synth.dp.budget import Budget
from synth.dp.mechanisms import SystemNoise
from synth.schema import Schema, build_schema
from tests.extras.local.test_survey import schema_of
from understudy.extras.local import survey as surveys
from understudy.extras.local.audit import _chances, _power, attack, bounds
from understudy.extras.local.generator import Local
from understudy.extras.local.oracles import NO_ANSWER, DirectEncoding, UnaryEncoding
from understudy.extras.local.survey import Survey

TOWNS = ["Aston", "Bray", "Coln", "Dunn", "Esk", "Fife"]
N_UNITS = 20_000
_direct, _unary, _answers = DirectEncoding.randomize, UnaryEncoding.randomize, Survey.answers
_respond, _asked_of, _slots = SystemNoise.respond, Survey.respondents_of, surveys.deal


def towns(n_bins: int = 0) -> Schema:
    """One column of six towns: nine symbols with silence, more than e + 1."""
    columns: dict[str, Any] = {"town": {"kind": "categorical", "categories": TOWNS}}
    if n_bins:
        columns["age"] = {"kind": "integer", "bounds": [0, 59]}
    return build_schema({"status": "declared", "n_units": N_UNITS, "columns": columns})


def audited_claim(epsilon: float = 1.0, schema: Schema | None = None, seed: int = 0, **parameters: Any) -> Audit:
    return audit(Local(epsilon=epsilon, **parameters), schema_of(N_UNITS) if schema is None else schema, seed=seed)


def _of_epsilon(times: float) -> dict[str, Callable[..., Any]]:
    return {
        "direct": lambda self, cells, words: _direct(replace(self, epsilon=times * self.epsilon), cells, words),
        "unary": lambda self, cells, words: _unary(replace(self, epsilon=times * self.epsilon), cells, words),
    }


def _swapped(self: DirectEncoding, cells: np.ndarray, words: Any) -> np.ndarray:
    """The truth is told where a lie should be."""
    truth = np.where(cells == NO_ANSWER, self.n_cells, cells)
    is_other = words(len(cells), np.uint64) < np.uint64(self.n_true_words)
    other = np.random.default_rng(int(words(1, np.uint64)[0])).integers(0, self.n_symbols - 1, len(cells))
    return np.where(is_other, other + (other >= truth), truth)


def _exact(self: Budget, answers: Any, event: Any) -> list[np.ndarray]:
    return [np.bincount(cells[cells >= 0], minlength=oracle.size) for cells, oracle in answers]


def _sent_as_it_is(self: DirectEncoding, cells: np.ndarray, words: Any) -> np.ndarray:
    """Of the smallest questions the answers go out unchanged."""
    if self.n_cells > 4:
        return _direct(self, cells, words)
    return np.where(cells == NO_ANSWER, self.n_cells, cells).astype(np.int64)


def _silence_kept(self: DirectEncoding, cells: np.ndarray, words: Any) -> np.ndarray:
    return np.where(cells == NO_ANSWER, self.n_cells, _direct(self, cells, words))


def _first_twice(self: Survey, codes: Any, order: np.ndarray) -> Iterator[np.ndarray]:
    for number, cells in enumerate(_answers(self, codes, order)):
        yield np.repeat(cells, 2) if number == 0 else cells


def _one_more(self: Survey, question: int, n: int) -> np.ndarray:
    return _asked_of(replace(self, n_answers=self.n_answers + 1), question, n)


def _as_many_as_rows(n_rows: int, n_slots: int) -> np.ndarray:
    return _slots(n_rows, n_rows)


def _beside_reports(self: SystemNoise, cells: np.ndarray, oracle: Any) -> np.ndarray:
    """Counts with a report too many, which the answers themselves make."""
    return _respond(self, cells, oracle) + np.bincount(cells[:1] + 1, minlength=oracle.size + 1)[1:]


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], dict[str, Any]]] = {
    "epsilon doubled": (DirectEncoding, "randomize", _of_epsilon(2)["direct"], {}),
    "epsilon doubled, 0.1": (DirectEncoding, "randomize", _of_epsilon(2)["direct"], {"epsilon": 0.1}),
    "epsilon doubled, 4": (DirectEncoding, "randomize", _of_epsilon(2)["direct"], {"epsilon": 4.0}),
    "epsilon doubled, bits": (UnaryEncoding, "randomize", _of_epsilon(2)["unary"], {"pairs": "all"}),
    "epsilon doubled, three answers": (DirectEncoding, "randomize", _of_epsilon(2)["direct"], {"answers": 3}),
    "p and q swapped": (DirectEncoding, "randomize", _swapped, {"schema": towns()}),
    "answers exact": (Budget, "respond", _exact, {}),
    "a small question sent as it is": (DirectEncoding, "randomize", _sent_as_it_is, {}),
    "silence not randomized": (DirectEncoding, "randomize", _silence_kept, {}),
    "a question answered twice": (Survey, "answers", _first_twice, {}),
    "one answer more": (Survey, "respondents_of", _one_more, {}),
    "slots of rows alone": (surveys, "deal", _as_many_as_rows, {}),
    "counts beside reports": (SystemNoise, "respond", _beside_reports, {}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_exceeds_the_claim(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, plant, claim = FAULTS[fault]
    monkeypatch.setattr(owner, name, plant)
    audited = audited_claim(**claim)
    assert audited.verdict == EXCEEDS
    assert audited.bound > audited.epsilon
    assert audited.estimate.low is not None and audited.estimate.low > 0


@pytest.mark.statistical
@pytest.mark.parametrize("claim", [{}, {"answers": 2}], ids=str)
def test_the_generator_as_it_ships_raises_no_alarm_in_ten_audits(claim: dict[str, Any]) -> None:
    for seed in range(10):
        audited = audited_claim(seed=seed, **claim)
        assert (audited.verdict, audited.faults) == (NO_FAULT, ())
        assert 0.4 * audited.epsilon < audited.bound < audited.epsilon


@pytest.mark.parametrize(
    "oracle", [DirectEncoding(6, 1.0, True), UnaryEncoding(20, 1.0, True)], ids=["direct", "unary"]
)
def test_the_stated_power_is_that_of_simulated_audits(oracle: Any) -> None:
    rng, repeats, level, n = np.random.default_rng(5), 400, 0.99, 400

    def shows(first: int, n_one: int, other: int, n_other: int) -> bool:
        return bool(bounds(first, other, (n_one, n_other), level) > oracle.epsilon)

    first, other = _chances(replace(oracle, epsilon=2 * oracle.epsilon))
    chances = np.array([[first, other, 1 - first - other], [other, first, 1 - first - other]])
    drawn = np.array([[[rng.multinomial(n, row) for row in chances] for _ in range(2)] for _ in range(repeats)])
    shown = np.mean([shows(*attack(*counts[:, None], level)[1]) for counts in drawn])
    stated = _power(oracle, n, level)
    assert abs(shown - stated) < 4.5 * math.sqrt(max(stated * (1 - stated), 0.01) / repeats) + 0.03


def test_a_bound_is_below_the_true_epsilon_as_often_as_is_said() -> None:
    rng, n, level = np.random.default_rng(6), 2_000, 0.9
    p, q = _chances(DirectEncoding(4, 1.0))
    drawn = [rng.binomial(n, chance, 1_000) for chance in (p, q)]
    assert np.mean(bounds(drawn[0], drawn[1], (n, n), level) > 1.0) < 0.1
    assert bounds(0, 10, (10, 10), level) == 0.0

"""The next event: models that learn from dealt histories know nothing of it, those of fresh histories all of it."""

import pytest

from evaluate.engine import measure_candidate
from evaluate.result import Candidate, Estimate, Failure
from evaluate.tables import Real
from synth.schema import build_schema
from tests.extras.histories.markov import SCHEMA, dealt, markov
from understudy.extras.histories.next_event import GAP, NAME, step_tables

N = 500


@pytest.fixture(scope="module")
def real() -> Real:
    return Real.prepare(markov(N, 0), markov(N, 1, N), SCHEMA)


@pytest.fixture(scope="module")
def candidates(real: Real) -> dict[str, Candidate]:
    tables = {"fresh": markov(N, 2, 3 * N), "dealt": dealt(markov(N, 2, 3 * N), 5)}
    return {name: measure_candidate(name, real.beside(table), measures=[NAME]) for name, table in tables.items()}


def test_fresh_histories_lose_nothing_and_dealt_ones_all(candidates: dict[str, Candidate]) -> None:
    fresh, lost = (candidates[name].find(GAP) for name in ("fresh", "dealt"))
    assert isinstance(fresh, Estimate)
    assert isinstance(lost, Estimate)
    assert fresh.low <= 0.0 <= fresh.high
    assert lost.low > 0.1
    assert lost.value == pytest.approx(lost.floor, abs=0.1)


def test_a_step_holds_the_row_before_and_nothing_else_of_its_own_row(real: Real) -> None:
    steps = step_tables(real.beside(markov(N, 2, 3 * N)))
    kept = {"machine", "site", "state", "place in the history"}
    before = {f"{name}, row before" for name in ("state", "reading", "hours")}
    assert {*steps.schema.columns} == kept | before
    assert steps.schema.target == "state"


@pytest.mark.parametrize("target", ["site", None])
def test_a_target_that_does_not_follow_is_not_predicted(target: str | None) -> None:
    schema = build_schema({**SCHEMA.model_dump(), "target": target})
    real = Real.prepare(markov(100, 0), markov(100, 1, 100), schema)
    candidate = measure_candidate("t", real.beside(markov(100, 2, 300)), measures=[NAME])
    assert not candidate.estimates
    assert isinstance(candidate.find(GAP), Failure)

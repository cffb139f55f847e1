"""The next event: models that learn from dealt histories know nothing of it, those of fresh histories all of it."""

import pytest

from evaluate.engine import measure_candidate
from evaluate.result import Candidate, Estimate
from evaluate.tables import Real
from tests.extras.histories.markov import SCHEMA, dealt, markov
from understudy.extras.histories.next_event import GAP, NAME, step_tables

N = 250


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

"""Self-tests of a table whose texts tell of their row while its other columns are independent of each other."""

from dataclasses import replace

import pytest

from evaluate.engine import evaluate
from evaluate.gate.checks import BROKEN, Check, checks_of
from evaluate.gate.policy import load_policy
from evaluate.result import Estimate, Evaluation, SelfTest
from tests.text_tables import complaint_schema, complaints

AGREEMENT = "texts.agreement.floor_share"


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    train, holdout, synthetic = (complaints(n, seed) for n, seed in ((300, 0), (600, 1), (100, 2)))
    return evaluate(train, synthetic, holdout=holdout, schema=complaint_schema(), measures=["fidelity.texts"])


def checks_by_case(tests: tuple[SelfTest, ...]) -> dict[str, Check]:
    return {check.case: check for check in checks_of(tests, load_policy("internal"))}


def test_a_measure_that_does_not_see_dealt_texts_is_found_out(measured: Evaluation) -> None:
    blind = tuple(
        replace(test, candidate=replace(test.candidate, estimates=tuple(map(blinded, test.candidate.estimates))))
        if test.candidate is not None
        else test
        for test in measured.self_tests
    )
    assert checks_by_case(blind)["shuffled"].outcome == BROKEN


def blinded(estimate: Estimate) -> Estimate:
    return replace(estimate, value=0.0, low=-0.01, high=0.01) if estimate.measure == AGREEMENT else estimate

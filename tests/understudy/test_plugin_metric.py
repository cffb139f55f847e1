"""A metric that an installed package brings by an entry point."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate import metrics
from evaluate.engine import evaluate
from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.metrics import MODULES
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import MetricResult
from reports import render_html
from tests.evaluations import evaluation_of
from understudy.job.load import check_measures

PLUGIN = Path(__file__).parents[1] / "plugin"
NAME = "order.repeats"
POLICY = {
    "name": "ordered", "version": 1, "audience": "partners",
    "rules": [
        {"measure": NAME, "limit": 0.05, "why": "order"},
        {"measure": "privacy.copies", "limit": 1.0, "why": "whatever rows there are"},
    ],
}  # fmt: skip


def forget() -> None:
    """Packages are looked for once in a process."""
    for cached in (metrics._modules, metrics._catalog, metrics._gateable):
        cached.cache_clear()


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(PLUGIN)
    forget()
    yield
    forget()


def evaluated(synthetic: pd.DataFrame, *measures: str) -> Evaluation:
    return evaluate(
        table(300, 1), synthetic, holdout=table(200, 2), schema=synth.infer_schema(table(300, 1)), measures=measures
    )


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n)})


@pytest.mark.usefixtures("plugin")
def test_it_is_measured_judged_by_a_policy_and_shown_in_the_report() -> None:
    check_measures(["order"])
    evaluation = evaluation_from(evaluated(table(300, 3), "order", "validity").to_json())
    result = evaluation.candidates[0].find(NAME)
    assert (MODULES["order"], MODULES["validity"]) == ("understudy_repeats", "evaluate.validity")
    assert isinstance(result, Estimate) and result.value < 0.05 and result.floor is not None
    verdicts = judge(evaluation, build_policy(POLICY))
    assert (verdicts[0].findings[0].rule.measure, verdicts[0].findings[0].outcome) == (NAME, "PASS")
    page = render_html(evaluation, verdicts=verdicts)
    assert "Rows that repeat" in page.split('id="comparison"')[1].split('id="columns"')[0]
    assert "Share of synthetic rows equal to the row above them." in page.split('id="glossary"')[1]


@pytest.mark.usefixtures("plugin")
def test_one_that_cannot_be_imported_fails_in_a_sentence_and_takes_nothing_else_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(PLUGIN / "refused")
    forget()
    candidate = evaluated(table(300, 3), "absent", "unruly", "validity").candidates[0]
    failures = {failure.measure: failure for failure in candidate.failures}
    assert all("mend that package" in failures[name].message for name in ("absent", "unruly"))
    assert not isinstance(candidate.find("validity.rows"), Failure)


def spoilt(result: object) -> Candidate:
    """A candidate of which the plug-in's measure gives this, or ends by this."""

    def measure(_: object) -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy_repeats.measure", measure)
        return evaluated(table(300, 3), "order", "fidelity.columns").candidates[0]


OWN = Estimate(NAME, 0.0, 9, "lower")


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    "result",
    [
        SystemExit(0), None, MetricResult((OWN, OWN)), MetricResult((replace(OWN, direction="higher"),)),
        MetricResult((OWN,), figures={"columns": []}),
        MetricResult((OWN,), failures=(Failure("privacy.membership", "failed", "x"),)),
    ],
    ids=["exit 0", "nothing", "twice", "the other way", "our figure", "another's failure"],
)  # fmt: skip
def test_a_careless_package_fails_alone_and_the_evaluation_can_be_read(result: object) -> None:
    importlib.import_module("understudy_repeats")
    outcome = spoilt(result)
    assert isinstance(outcome.find(NAME), Failure)
    assert outcome.figures["columns"]
    assert isinstance(outcome.find("columns.tvd.excess"), Estimate)
    assert evaluation_from(evaluation_of(outcome).to_json())

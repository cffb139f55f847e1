"""A metric that an installed package brings by an entry point."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate import metrics
from evaluate.engine import evaluate, isolated
from evaluate.gate.policy import Policy, build_policy
from evaluate.gate.verdict import judge
from evaluate.metrics import CATALOG, GATEABLE, MODULES
from evaluate.result import Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import MetricResult
from reports import render_html
from synth.errors import JobError
from understudy.job.load import check_measures

PLUGIN = Path(__file__).parents[1] / "plugin"
NAME = "order.repeats"
POLICY = {
    "name": "ordered", "version": 1, "audience": "partners",
    "rules": [{"measure": NAME, "limit": 0.05, "why": "order"}],
}  # fmt: skip


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(PLUGIN)
    metrics.forget()
    yield
    metrics.forget()


def evaluated(synthetic: pd.DataFrame, *measures: str) -> Evaluation:
    return evaluate(table(300, 1), table(200, 2), synthetic, synth.infer_schema(table(300, 1)), measures=measures)


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n)})


@pytest.mark.usefixtures("plugin")
def test_it_is_measured_judged_by_a_policy_and_shown_in_the_report() -> None:
    evaluation = evaluation_from(evaluated(table(300, 3), "order", "validity").to_json())
    found = evaluation.candidates[0].find(NAME)
    assert isinstance(found, Estimate) and found.value < 0.05 and found.floor is not None
    verdicts = judge(evaluation, build_policy(POLICY))
    assert [(finding.rule.measure, finding.outcome) for finding in verdicts[0].findings] == [(NAME, "PASS")]
    page = render_html(evaluation, verdicts=verdicts)
    figures = page.split('id="comparison"')[1].split('id="columns"')[0]
    assert "Rows that repeat" in figures and "<svg" in figures.split("Rows that repeat")[1].split("</tr>")[0]
    assert "Share of synthetic rows equal to the row above them." in page.split('id="glossary"')[1]


@pytest.mark.usefixtures("plugin")
def test_catalog_policies_and_jobs_know_it_and_keep_their_own_names() -> None:
    assert (CATALOG[NAME].by, GATEABLE[NAME], MODULES["order"]) == ("order", "lower", "understudy_repeats")
    assert (MODULES["validity"], CATALOG["validity.rows"].by) == ("evaluate.validity.validity", "validity")
    assert CATALOG["validity.rows"].title == "Valid rows"
    assert NAME in Policy.model_json_schema()["$defs"]["Rule"]["properties"]["measure"]["enum"]
    check_measures(["order"])


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["absent", "unruly"])
def test_one_that_cannot_be_imported_fails_in_a_sentence_and_takes_nothing_else_down(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGIN / "refused")
    metrics.forget()
    candidate = evaluated(table(300, 3), name, "validity").candidates[0]
    failure = next(failure for failure in candidate.failures if failure.measure == name)
    assert failure.reason == "failed" and "mend that package" in failure.message
    assert not isinstance(candidate.find("validity.rows"), Failure)


def test_it_is_unknown_where_the_package_is_not_installed() -> None:
    assert NAME not in CATALOG
    with pytest.raises(JobError, match="measure='order' is unknown"):
        check_measures(["order"])


def test_a_measure_does_not_answer_for_a_number_of_another_one() -> None:
    given = Estimate("privacy.membership.auc", 0.5, 100, "lower", low=0.45, high=0.52)
    found, _ = isolated("order", lambda: MetricResult((given,)), None)
    assert not found.estimates
    assert "a number of another measure" in found.failures[0].message

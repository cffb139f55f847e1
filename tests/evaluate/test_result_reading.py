"""An evaluation is read strictly: whatever none of ours writes is damage, said in one sentence."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.result_io import evaluation_from
from reports.html import render_html
from tests.evaluations import evaluation_of, stated

AUC, PAIRS = "privacy.membership.auc", "pairs.tvd.excess"
Change = Callable[[dict[str, Any]], object]


def table(name: str, auc: float = 0.5) -> Candidate:
    result = (
        Estimate(AUC, auc, 1000, "lower", low=auc - 0.01, high=auc + 0.01),
        Estimate(PAIRS, 0.01, 1000, "lower", low=0.0, high=0.02),
    )
    return Candidate(name, result, (Failure("privacy.copies", "skipped", "it was not asked for"),))


def made() -> Evaluation:
    tests = (
        SelfTest("honest", table("honest")),
        SelfTest("copy", table("copy", 0.9)),
        SelfTest("shuffled", absent="Why."),
    )
    return evaluation_of(replace(table("m"), statement=stated()), self_tests=tests, versions={"understudy": "1.0"})


def first(content: dict[str, Any]) -> Any:
    return content["candidates"][0]


def estimate(content: dict[str, Any]) -> Any:
    return first(content)["estimates"][0]


def test_columns_of_days_times_and_huge_numbers_are_read_back_unchanged() -> None:
    rng = np.random.default_rng(0)
    day = pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 400, 300), "D")
    at = day + pd.to_timedelta(rng.integers(0, 86_400, 300), "s")
    frame = pd.DataFrame({"day": day, "at": at, "huge": rng.normal(size=300) * 1e300})
    result = evaluate(frame[:150], frame[250:], holdout=frame[150:250], measures=["fidelity.columns"])
    edges = [figure["edges"] for figure in result.candidates[0].figures["columns"]]
    assert [type(part[0]) for part in edges] == [str, str, float]
    assert evaluation_from(result.to_json()).to_json() == result.to_json()
    assert "2015-01" in render_html(result)


def updating(**values: Any) -> Change:
    return lambda content: estimate(content).update(values)


def claiming(**values: Any) -> Change:
    return lambda content: first(content)["statement"].update(values)


def failing(measure: str) -> Change:
    each = {"measure": measure, "reason": "failed", "message": "it broke", "subject": []}
    return lambda content: first(content)["failures"].append(each)


DAMAGES: dict[str, Change] = {
    "two estimates of one number": lambda c: first(c)["estimates"].append({**estimate(c), "value": 0.9, "high": 0.9}),
    "a failure of the whole measure beside its number": failing("privacy.membership"),
    "a self-test twice": lambda c: c["self_tests"].append(c["self_tests"][0]),
    "a candidate twice": lambda c: c["candidates"].append(first(c)),
    "no candidate": lambda c: c.update(candidates=[]),
    "an area of 7": updating(value=7.0, high=7.0),
    "one end of an interval": updating(low=None),
    "a truth value as a number": updating(value=True, low=False, high=True),
    "the wrong way": updating(direction="higher"),
    "an unknown key": updating(unheard_of=1),
    "an epsilon of zero": claiming(epsilon=0, epsilon_rdp=0),
    "an accountant that claims less than the tight one": claiming(epsilon_rdp=0.5),
    "figures of another form": lambda c: first(c).update(figures={"columns": [{"column": 1}]}),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_no_evaluation_writes_is_damage(what: str) -> None:
    content = json.loads(made().to_json())
    DAMAGES[what](content)
    with pytest.raises(EvaluationError, match=r"^the evaluation is damaged \([^)\n]+\); evaluate again$"):
        evaluation_from(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('"value": 0.5', '"value": 1e400'),
        ('"value": 0.5', '"value": 0.99, "value": 0.5'),
        ('"n": 1000', '"n": ' + "[" * 5000 + "]" * 5000),
        ('"name": "m"', '"name": "\\ud800"'),
    ],
)
def test_what_is_no_plain_json_is_refused_in_one_sentence(text: str, other: str) -> None:
    whole = made().to_json()
    assert text in whole
    with pytest.raises(EvaluationError, match=r"^[^\n]+$"):
        evaluation_from(whole.replace(text, other, 1))

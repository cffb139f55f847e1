"""An evaluation is read strictly: whatever none of ours writes is damage, said in one sentence."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate
from evaluate.metrics import UNJUDGED
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.result_io import evaluation_from
from reports.html import render_html
from tests.damaging import damaged
from tests.evaluations import evaluation_of, stated

AUC, PAIRS = "privacy.membership.auc", "pairs.tvd.excess"
Change = Callable[[dict[str, Any]], object]


def table(name: str, auc: float = 0.5) -> Candidate:
    found = (
        Estimate(AUC, auc, 1000, "lower", low=auc - 0.01, high=auc + 0.01),
        Estimate(PAIRS, 0.01, 1000, "lower", low=0.0, high=0.02),
    )
    return Candidate(name, found, (Failure("privacy.copies", "skipped", "it was not asked for"),))


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


def test_what_is_written_is_read_back_unchanged() -> None:
    assert evaluation_from(made().to_json()).to_json() == made().to_json()


def test_columns_of_days_times_and_huge_numbers_are_read_back_unchanged() -> None:
    rng = np.random.default_rng(0)
    day = pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 400, 300), "D")
    at = day + pd.to_timedelta(rng.integers(0, 86_400, 300), "s")
    frame = pd.DataFrame({"day": day, "at": at, "huge": rng.normal(size=300) * 1e300})
    found = evaluate(frame[:150], frame[250:], holdout=frame[150:250], measures=["fidelity.columns"])
    edges = [figure["edges"] for figure in found.candidates[0].figures["columns"]]
    assert [type(of[0]) for of in edges] == [str, str, float]
    assert evaluation_from(found.to_json()).to_json() == found.to_json()
    assert "2015-01" in render_html(found)


def updating(**values: Any) -> Change:
    return lambda content: estimate(content).update(values)


def stating(statement: Any) -> Change:
    return lambda content: first(content).update(statement=statement)


def claiming(**values: Any) -> Change:
    return lambda content: first(content)["statement"].update(values)


def failing(measure: str) -> Change:
    one = {"measure": measure, "reason": "failed", "message": "it broke", "subject": []}
    return lambda content: first(content)["failures"].append(one)


def absent_as(value: Any) -> Change:
    return lambda content: content["self_tests"][2].update(absent=value)


DAMAGES: dict[str, Change] = {
    "two estimates of one number": lambda c: first(c)["estimates"].append({**estimate(c), "value": 0.9, "high": 0.9}),
    "a failure beside its estimate": failing(AUC),
    "a failure of the whole measure beside its number": failing("privacy.membership"),
    "a self-test twice": lambda c: c["self_tests"].append(c["self_tests"][0]),
    "a candidate twice": lambda c: c["candidates"].append(first(c)),
    "no candidate": lambda c: c.update(candidates=[]),
    "an interval upside down": updating(low=0.9, high=0.1),
    "a value outside its interval": updating(value=0.99),
    "an area of 7": updating(value=7.0, high=7.0),
    "an area whose end is below 0": updating(low=-0.1),
    "a share below 0 of real rows": updating(reference=-1.0),
    "an excess above 1": lambda c: first(c)["estimates"][1].update(high=1.5),
    "a share below 0 of unjudged columns": updating(measure=UNJUDGED, direction="lower", value=-1, low=-1, high=-1),
    "one end of an interval": updating(low=None),
    "a truth value as a number": updating(value=True, low=False, high=True),
    "a text as a number": updating(value="0.5"),
    "no whole number of rows": updating(n=1.5),
    "a negative number of rows": updating(n=-1),
    "the wrong way": updating(direction="higher"),
    "no way at all": updating(direction="sideways"),
    "a note that is no text": updating(note=5),
    "a subject that is a text": updating(subject="ab"),
    "no subject": lambda c: estimate(c).pop("subject"),
    "an unknown key": updating(unheard_of=1),
    "an unknown reason": lambda c: first(c)["failures"][0].update(reason="tired"),
    "a message that is no text": lambda c: first(c)["failures"][0].update(message=7),
    "a name that is no text": lambda c: first(c).update(name=5),
    "an absence without a sentence": absent_as(""),
    "an absence that is no text": absent_as(True),
    "versions without names": lambda c: c["provenance"].update(versions=["1.0"]),
    "versions that are no texts": lambda c: c["provenance"].update(versions={"understudy": 1}),
    "seconds that are texts": lambda c: first(c).update(seconds={"fit": "1"}),
    "no statement but an empty one": stating({}),
    "a statement that is a list": stating([]),
    "a statement that is a text": stating("x"),
    "a statement that is a number": stating(1),
    "a statement of a claim alone": stating({"private": True, "epsilon": 1.0}),
    "a statement private in other words": claiming(private=1),
    "an epsilon of zero": claiming(epsilon=0, epsilon_rdp=0),
    "a negative epsilon": claiming(epsilon=-1.0),
    "a truth value as epsilon": claiming(epsilon=True),
    "a text as epsilon": claiming(epsilon="1"),
    "a delta of one": claiming(delta=1.0),
    "an accountant that claims less than the tight one": claiming(epsilon_rdp=0.5),
    "books that are no list": claiming(events=3),
    "a number that fits no float": updating(value=10**400),
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
        ('"value": 0.5', '"value": NaN'),
        ('"value": 0.5', '"value": -Infinity'),
        ('"value": 0.5', '"value": 1e400'),
        ('"value": 0.5', '"value": 0.99, "value": 0.5'),
        ('"n": 1000', '"n": 1' + "0" * 5000),
        ('"n": 1000', '"n": ' + "[" * 5000 + "]" * 5000),
        ('"n": 1000', '"n": ' + "[" * 100_000 + "]" * 100_000),
        ('"schema_version": 4', '"schema_version": 4.0'),
        ('"schema_version": 4', '"schema_version": true'),
        ('"name": "m"', '"name": "\\ud800"'),
    ],
)
def test_what_is_no_plain_json_is_refused_in_one_sentence(text: str, other: str) -> None:
    whole = made().to_json()
    assert text in whole
    with pytest.raises(EvaluationError, match=r"^[^\n]+$"):
        evaluation_from(whole.replace(text, other, 1))


def test_a_large_evaluation_is_read_at_once() -> None:
    many = replace(made(), candidates=tuple(replace(table(str(i)), figures={"x": [0.1] * 2000}) for i in range(30)))
    text = many.to_json()
    began = time.process_time()
    evaluation_from(text)
    assert time.process_time() - began < 0.5 * max(1.0, len(text) / 5e6)


def drawn() -> dict[str, Any]:
    """Each figure that is drawn as a whole."""
    losses = {"gap": 0.1, "low": 0.0, "high": 0.2}
    scores = {"model": "linear", "tstr": 0.7, "trtr": 0.8, "fresh": 0.8, "matched": 0.8, "floor": None, **losses}
    levels = {"model": "linear", "parity_tstr": 0.1, "parity_trtr": 0.1}
    clique = {"columns": ["a", "b"], "tvd": 0.1, "reference": 0.1, "floor": 0.2}
    law = {
        "rule": "a <= b", "n": 90, "n_broken": 1, "n_unreadable": 0, "reference": 1.0, "floor": 0.5,
        "shapes": [{"shape": "9", "n": 1}],
    }  # fmt: skip
    shares = {
        "labels": ["0", "1", "other", "missing"],
        "train": [0.5, 0.4, 0.0, 0.1],
        "synthetic": [0.5, 0.5, 0.0, 0.0],
    }
    return {
        "columns": [
            {"column": "a", "kind": "integer", "edges": [0.0, 1.0, 2.0], "tvd": 0.1, **shares},
            {"column": "b", "kind": "categorical", "edges": None, "tvd": 0.1, **shares},
        ],
        "associations": {"columns": ["a", "b"], "train": [[None, 0.5], [0.5, None]], "synthetic": [[1, 0.4], [0.4, 1]]},
        "pairs": {"columns": ["a", "b"], "tvd": [[0.0]], "worst": [clique]},
        "triples": {"worst": [clique], "n_triples": 1, "share": 1.0},
        "utility": {"target": "b", "task": "binary", "metric": "roc_auc", "models": [scores]},
        "fairness_columns": [
            {"column": "b", "groups": [{"group": "x", "real": 0.5, "synthetic": 0.5, "few": False, "excess": 0.1}]}
        ],
        "fairness_models": [
            {"column": "b", "groups": [{"group": "x", "n": 9, "few": False, "linear": losses}], "levels": [levels]}
        ],
        "distance": {
            "quantiles": [0.0, 0.5, 1.0], "dcr": {"synthetic": [0, 1.5, 2], "holdout": [0, 1.5, 2]},
            "nndr": {"synthetic": [0, 0.5, 1], "holdout": [0, 0.5, 1]},
        },
        "membership": {"fpr": [0.0, 0.1, 1.0], "tpr": [0.0, 0.2, 1.0], "auc": 0.5, "n_members": 90, "n_controls": 90},
        "validity": {"constraints": [law], "columns": [{"column": "a", "n": 9, "n_broken": 1, "note": "is odd"}]},
    }  # fmt: skip


def read_and_shown(content: dict[str, Any]) -> str:
    """The report of an evaluation, or why it is refused."""
    try:
        return render_html(evaluation_from(json.dumps(content)))
    except EvaluationError as error:
        assert "\n" not in str(error)
        return str(error)


def test_figures_that_are_damaged_anywhere_are_drawn_or_refused_in_one_sentence() -> None:
    content = json.loads(made().to_json())
    first(content)["figures"] = drawn()
    assert read_and_shown(content).startswith("<!doctype html>")
    said = []
    for seed in range(200):
        first(content)["figures"] = damaged(drawn(), seed)
        said.append(read_and_shown(content))
    assert sum(one.startswith("the evaluation is damaged") for one in said) > 60


@pytest.mark.parametrize("name", drawn())
@pytest.mark.parametrize("value", [1, "x", [1], {"a": 1}, [{}], None], ids=str)
def test_a_figure_of_another_form_is_refused_by_its_name(name: str, value: Any) -> None:
    content = json.loads(made().to_json())
    first(content)["figures"] = {**drawn(), name: value}
    if name in ("pairs", "triples") and value == {"a": 1}:
        return  # it lists nothing, and nothing is drawn
    assert f"({name}" in read_and_shown(content)


@pytest.mark.parametrize(
    "changes",
    [
        {"real": {"train_rows": [1]}}, {"real": {}}, {"schema": {}}, {"schema": {"columns": {"a": 1}}},
        {"schema": {"sensitive": 1}}, {"provenance": {}}, {"provenance": None}, {"ranking": {}},
    ],
    ids=str,
)  # fmt: skip
def test_facts_that_cannot_be_shown_are_refused(changes: dict[str, Any]) -> None:
    assert "damaged" in read_and_shown({**json.loads(made().to_json()), **changes})

"""An evaluation is read strictly: whatever none of ours writes is damage, said in one sentence."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, SelfTest
from evaluate.result_reading import evaluation_from
from synth.dp.statement import EventRecord, PrivacyStatement

AUC, PAIRS = "privacy.membership.auc", "pairs.tvd.excess"
STATEMENT = PrivacyStatement(
    epsilon=1.0, delta=1e-6, unit="row", n_units=900, accountant="PLD", epsilon_rdp=1.1,
    events=(EventRecord("counts", "Gaussian", {"sigma": 9.0, "sensitivity": 1, "whole": True}, 1, 0.01),),
)  # fmt: skip
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
    provenance = {"sweep": None, "versions": {"understudy": "1.0"}}
    return Evaluation((replace(table("m"), statement=STATEMENT.to_dict()),), {"n": 1}, {}, provenance, tests)


def first(content: dict[str, Any]) -> Any:
    return content["candidates"][0]


def estimate(content: dict[str, Any]) -> Any:
    return first(content)["estimates"][0]


def test_what_is_written_is_read_back_unchanged() -> None:
    assert evaluation_from(made().to_json()).to_json() == made().to_json()


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
        ('"n": 1\n', '"n": 1' + "0" * 5000),
        ('"n": 1\n', '"n": ' + "[" * 5000 + "]" * 5000),
        ('"n": 1\n', '"n": ' + "[" * 100_000 + "]" * 100_000),
        ('"schema_version": 2', '"schema_version": 2.0'),
        ('"schema_version": 2', '"schema_version": true'),
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

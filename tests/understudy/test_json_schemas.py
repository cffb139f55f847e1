"""The JSON Schemas that ship: they accept what the program reads and writes, and refuse what it refuses."""

import json
import tomllib
import typing
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from pydantic import BeforeValidator
from pydantic_core import PydanticUndefined

from evaluate.engine import evaluate
from evaluate.gate.policy import Policy, Rule, Waiver, Waivers, build_policy, build_waivers, find_policy, shipped
from evaluate.result import CASES, Candidate, EvaluationError
from evaluate.result_io import evaluation_from
from synth.dp.statement import EventRecord, PrivacyStatement
from synth.errors import JobError
from synth.schema import build_schema
from synth.usage_terms import Terms
from tests.evaluations import evaluation_of
from understudy.job.load import KINDS, json_schema
from understudy.job.spec import EvaluationSpec, Job, SweepSpec, build_job

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = {"measure": "privacy.copies", "limit": 0.1, "why": "because"}
POLICY: dict[str, Any] = {"name": "p", "version": 1, "audience": "a", "valid_days": 30, "rules": [RULE]}
WAIVER: dict[str, Any] = {
    "policy": "p", "version": 1, "candidate": "c", "measure": "privacy.copies", "owner": "o", "reason": "r",
    "until": "2026-01-01",
}  # fmt: skip
JOB: dict[str, Any] = {
    "waivers": "waivers.toml", "table": {"path": "t.csv", "schema": "s.toml"}, "generators": {"independent": {}},
}  # fmt: skip

STATEMENT: dict[str, Any] = PrivacyStatement(
    epsilon=1.0, delta=1e-6, unit="row", n_units=120, accountant="PLD", epsilon_rdp=1.1,
    events=(EventRecord("counts", "Gaussian", {"sigma": 9.0, "sensitivity": 1, "whole": True}, 1, 0.01),),
).to_dict()  # fmt: skip


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(kind))


def accepts(kind: str, content: dict[str, Any]) -> bool:
    """TOML as JSON has it: a date is a text."""
    return validator(kind).is_valid(json.loads(json.dumps(content, default=date.isoformat)))


@pytest.fixture(scope="module")
def evaluation() -> dict[str, Any]:
    columns = {"age": {"kind": "integer", "bounds": [0, 99]}, "ill": {"kind": "boolean"}}
    schema = build_schema({"status": "declared", "columns": columns})
    rng = np.random.default_rng(0)
    real, holdout, synthetic = (
        pd.DataFrame({"age": rng.integers(0, 99, 120), "ill": rng.random(120) < 0.4}) for _ in range(3)
    )
    measures = ["validity", "privacy.copies", "fidelity.columns"]
    statements = {"synthetic": PrivacyStatement.from_dict(STATEMENT)}
    written = evaluate(real, synthetic, holdout=holdout, schema=schema, measures=measures, statements=statements)
    content: dict[str, Any] = json.loads(written.to_json())
    return content


@pytest.mark.parametrize("kind", KINDS)
def test_every_json_schema_is_one_and_says_what_it_is_for(kind: str) -> None:
    content = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(content)
    assert content["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert content["$id"] == f"urn:understudy:{kind}"
    assert content["title"]
    assert content["description"].endswith(".")


@pytest.mark.parametrize("name", shipped())
def test_the_shipped_policies_are_policies(name: str) -> None:
    assert accepts("policy", tomllib.loads(find_policy(name).read_text()))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_are_jobs_or_schemas(path: Path) -> None:
    assert accepts("schema" if "schema" in path.name else "job", tomllib.loads(path.read_text()))


def refused_by_the_reader(kind: str, content: dict[str, Any]) -> bool:
    build: Any = {"policy": build_policy, "waivers": build_waivers, "job": build_job}[kind]
    try:
        build(content)
    except JobError:
        return True
    return False


def without(content: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != key}


def ruled(**changes: Any) -> dict[str, Any]:
    return {**POLICY, "rules": [{**RULE, **changes}]}


def waived(**changes: Any) -> dict[str, Any]:
    return {"waivers": [{**WAIVER, **changes}]}


WEIGHED = {name: {"epsilon": 1.0, "workload": {"age": 3.0}} for name in ("aim", "latent_class")}
VALID: dict[str, list[dict[str, Any]]] = {
    "policy": [POLICY],
    "waivers": [{}, waived(), waived(subject=["age"])],
    "job": [
        JOB, {**JOB, "generators": WEIGHED}, *({**JOB, "sweep": {"seeds": seeds}} for seeds in (1, 100, [4, 7])),
        *({**JOB, "card": {"tags": tags}} for tags in ("en", ["en", "de"])),
        {**JOB, "evaluation": {"measures": "validity"}},
    ],
}  # fmt: skip
INVALID: dict[str, list[dict[str, Any]]] = {
    "policy": [
        {**POLICY, "rule": []}, without(POLICY, "audience"), *({**POLICY, "version": odd} for odd in (0, "1", True)),
        *({**POLICY, "valid_days": odd} for odd in (0, 1.5)), *(ruled(limit=odd) for odd in ("high", "0.6", True)),
        ruled(measure="privacy.copys"), ruled(severity="error"), ruled(wy="w"),
    ],
    "waivers": [
        {"waiver": [WAIVER]}, *(waived(version=odd) for odd in (0, True)), waived(owner=""),
        *(waived(until=odd) for odd in (2026, 4102444800, "4102444800", "2999-12-31T00:00:00")),
        {"waivers": [without(WAIVER, "reason")]},
    ],
    "job": [
        {**JOB, "waiver": "w.toml"}, *({**JOB, "waivers": odd} for odd in ("", ["w.toml"])), {**JOB, "generators": {}},
        *({**JOB, "sweep": {"seeds": odd}} for odd in (0, 101, True, [], [-1], "3")),
        *({**JOB, "card": {"tags": odd}} for odd in (7, [7], {"a": 1})),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALID)
def test_reader_and_json_schema_agree(kind: str) -> None:
    for contents, valid in ((VALID[kind], True), (INVALID[kind], False)):
        for content in contents:
            assert accepts(kind, content) == valid, content
            assert refused_by_the_reader(kind, content) != valid, content


def test_what_an_evaluation_writes_is_an_evaluation(evaluation: dict[str, Any]) -> None:
    assert accepts("evaluation", evaluation)
    assert [test["case"] for test in evaluation["self_tests"]] == [*CASES]
    assert accepts("evaluation", json.loads(evaluation_of(Candidate("c", ())).to_json()))


def parts_of(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every kind of object of which an evaluation is made."""
    candidate = content["candidates"][0]
    return {
        "evaluation": content, "candidate": candidate, "estimate": candidate["estimates"][0],
        "failure": candidate["failures"][0], "self-test": content["self_tests"][0],
    }  # fmt: skip


LATER = [("evaluation", "notice"), *(("candidate", name) for name in ("audit", "expected", "n_rejected_rows"))]
"""What the reader does without: a heading, and what older files of this version lack."""


WITHIN_TYPES = [
    ("candidate", "statement", {**STATEMENT, "epsilon": 0}), ("estimate", "low", None),
    ("self-test", "absent", "it says nothing"),
]  # fmt: skip
"""What the reader alone refuses: values of the right type that contradict another one, or are out of bounds."""


@pytest.mark.parametrize("part", ["evaluation", "candidate", "estimate", "failure", "self-test"])
def test_an_evaluation_with_another_key_or_without_one_is_refused(evaluation: dict[str, Any], part: str) -> None:
    for key in (*parts_of(evaluation)[part], None):
        changed = json.loads(json.dumps(evaluation))
        if key is None:
            parts_of(changed)[part]["unheard_of"] = 1
        else:
            del parts_of(changed)[part][key]
        assert not accepts("evaluation", changed), key
        if (part, key) not in LATER:
            with pytest.raises(EvaluationError):
                evaluation_from(json.dumps(changed))


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("evaluation", "schema_version", 1), ("evaluation", "candidates", []), ("evaluation", "ranking", "best"),
        ("candidate", "name", 3), ("candidate", "statement", {}), ("candidate", "n_rejected_rows", -1),
        *(("candidate", "statement", {**STATEMENT, key: odd}) for key, odd in (("private", 1), ("epsilon", 0))),
        ("estimate", "value", "0.5"), ("estimate", "value", True), ("estimate", "direction", "up"),
        ("estimate", "low", None), ("failure", "reason", "tired"), ("self-test", "absent", "it says nothing"),
    ],
)  # fmt: skip
def test_an_evaluation_with_a_value_of_another_type_is_refused(
    evaluation: dict[str, Any], part: str, key: str, value: Any
) -> None:
    changed = json.loads(json.dumps(evaluation))
    evaluation_from(json.dumps(changed))
    parts_of(changed)[part][key] = value
    assert accepts("evaluation", changed) == ((part, key, value) in WITHIN_TYPES)
    with pytest.raises(EvaluationError):
        evaluation_from(json.dumps(changed))


def test_the_command_prints_the_json_schema_and_knows_no_other(workspace: Any) -> None:
    ran = workspace.run("check", "--json-schema", "policy")
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, json_schema("policy"))
    wrong = workspace.run("check", "--json-schema", "polcy")
    assert wrong.exit_code == 2 and "did you mean 'policy'?" in wrong.stderr


def test_every_key_that_takes_more_forms_than_it_holds_says_so() -> None:
    """A validator that turns what is written into what is kept is told to the JSON Schema, too."""
    for model in (Job, EvaluationSpec, Terms, SweepSpec, Policy, Rule, Waiver, Waivers):
        for name, field in model.model_fields.items():
            for part in (field, *typing.get_args(field.annotation)):
                text = [each for each in getattr(part, "metadata", getattr(part, "__metadata__", ()))
                        if isinstance(each, BeforeValidator)]  # fmt: skip
                for each in text:
                    assert each.json_schema_input_type is not PydanticUndefined, (model, name)

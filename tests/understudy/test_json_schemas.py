"""The JSON Schemas that ship: they accept what the program reads and writes, and refuse what it refuses."""

import json
import tomllib
import typing
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from pydantic import BeforeValidator, ValidationError
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
from tests.understudy.bundle.small_bundle import fill, seal_both
from understudy.bundle.documents import canonical
from understudy.bundle.keys import make_keys
from understudy.bundle.records import SignOff, Withdrawal
from understudy.job.spec import EvaluationSpec, Job, build_job
from understudy.job.sweep import SweepSpec
from understudy.json_schemas import KINDS, json_schema

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


def plain(content: dict[str, Any]) -> Any:
    """TOML as JSON has it: a date is a text."""
    return json.loads(json.dumps(content, default=date.isoformat))


def accepts(kind: str, content: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(json_schema(kind)).is_valid(plain(content))


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
    made = evaluate(real, synthetic, holdout=holdout, schema=schema, measures=measures, statements=statements)
    content: dict[str, Any] = json.loads(made.to_json())
    return content


@pytest.mark.parametrize("kind", KINDS)
def test_every_json_schema_is_one_and_says_what_it_is_for(kind: str) -> None:
    made = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(made)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert made["$id"] == f"urn:understudy:{kind}"
    assert made["title"]
    assert made["description"].endswith(".")


@pytest.mark.parametrize("kind", ["policy", "waivers", "evaluation"])
def test_every_key_is_explained(kind: str) -> None:
    made = json_schema(kind)
    of_schema = {"Schema", *json_schema("schema")["$defs"]} if kind == "evaluation" else set()
    for described in (made, *(part for name, part in made["$defs"].items() if name not in of_schema)):
        for key, found in described.get("properties", {}).items():
            assert found.get("description") or "$ref" in found or "const" in found or key == "waivers", key


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


@pytest.mark.parametrize(
    ("kind", "content", "valid"),
    [
        ("policy", POLICY, True),
        ("policy", {**POLICY, "rule": []}, False),
        ("policy", {**POLICY, "version": 0}, False),
        ("policy", {**POLICY, "version": "two"}, False),
        ("policy", {**POLICY, "valid_days": 0}, False),
        ("policy", {**POLICY, "valid_days": 1.5}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "limit": "high"}]}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "measure": "privacy.copys"}]}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "severity": "error"}]}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "wy": "w"}]}, False),
        ("policy", {key: value for key, value in POLICY.items() if key != "audience"}, False),
        ("waivers", {}, True),
        ("waivers", {"waivers": [WAIVER]}, True),
        ("waivers", {"waivers": [{**WAIVER, "subject": ["age"]}]}, True),
        ("waivers", {"waiver": [WAIVER]}, False),
        ("waivers", {"waivers": [{**WAIVER, "version": 0}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "until": 2026}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "until": 4102444800}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "until": "4102444800"}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "until": "2999-12-31T00:00:00"}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "version": True}]}, False),
        ("policy", {**POLICY, "version": True}, False),
        ("policy", {**POLICY, "version": "1"}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "limit": True}]}, False),
        ("policy", {**POLICY, "rules": [{**RULE, "limit": "0.6"}]}, False),
        ("waivers", {"waivers": [{**WAIVER, "owner": ""}]}, False),
        ("waivers", {"waivers": [{key: value for key, value in WAIVER.items() if key != "reason"}]}, False),
        ("job", JOB, True),
        ("job", {**JOB, "waiver": "w.toml"}, False),
        ("job", {**JOB, "waivers": ""}, False),
        ("job", {**JOB, "waivers": ["w.toml"]}, False),
        ("job", {**JOB, "generators": {}}, False),
        ("job", {**JOB, "generators": {"aim": {"epsilon": 1.0, "workload": {"age": 3.0}}}}, True),
        ("job", {**JOB, "generators": {"latent_class": {"epsilon": 1.0, "workload": {"age": 3.0}}}}, True),
    ],
)
def test_reader_and_json_schema_agree(kind: str, content: dict[str, Any], valid: bool) -> None:
    assert accepts(kind, content) == valid
    assert refused_by_the_reader(kind, content) != valid


def test_a_waiver_is_read_from_toml_with_a_date_of_its_own() -> None:
    content = tomllib.loads(
        '[[waivers]]\npolicy = "p"\nversion = 1\ncandidate = "c"\nmeasure = "validity.rows"\nowner = "o"\n'
        'reason = "r"\nuntil = 2026-01-01\n'
    )
    assert accepts("waivers", content)
    assert build_waivers(content)[0].until == date(2026, 1, 1)


def test_what_an_evaluation_writes_is_an_evaluation(evaluation: dict[str, Any]) -> None:
    jsonschema.validate(evaluation, json_schema("evaluation"))
    assert [test["case"] for test in evaluation["self_tests"]] == [*CASES]
    bare = evaluation_of(Candidate("c", ()))
    jsonschema.validate(json.loads(bare.to_json()), json_schema("evaluation"))


def parts_of(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every kind of object of which an evaluation is made."""
    candidate = content["candidates"][0]
    return {
        "evaluation": content, "candidate": candidate, "estimate": candidate["estimates"][0],
        "failure": candidate["failures"][0], "self-test": content["self_tests"][0],
    }  # fmt: skip


LATER = [("evaluation", "notice"), *(("candidate", name) for name in ("audit", "expected", "n_rejected_rows"))]
"""What the reader does without: a heading, and what older files of this version lack."""
PARTS = ("evaluation", "candidate", "estimate", "failure", "self-test")


@pytest.mark.parametrize("part", PARTS)
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
        ("evaluation", "schema_version", 1), ("evaluation", "candidates", {}), ("evaluation", "real", []),
        ("evaluation", "ranking", "best"), ("candidate", "name", 3), ("candidate", "statement", []),
        ("candidate", "n_rejected_rows", "many"), ("estimate", "value", "0.5"), ("estimate", "value", None),
        ("estimate", "low", "0.1"), ("estimate", "direction", "up"), ("estimate", "n", 1.5),
        ("estimate", "subject", "age"), ("failure", "reason", "tired"), ("self-test", "case", 3),
        ("evaluation", "candidates", []), ("candidate", "statement", {}), ("candidate", "name", None),
        ("candidate", "statement", {**STATEMENT, "private": 1}), ("candidate", "statement", "x"),
        ("candidate", "statement", {**STATEMENT, "epsilon": 0}), ("candidate", "n_rejected_rows", -1),
        ("candidate", "statement", {**STATEMENT, "epsilon": True}), ("candidate", "seconds", {"fit": "1"}),
        ("estimate", "value", True), ("estimate", "n", -1), ("estimate", "note", 5), ("estimate", "low", None),
        ("failure", "message", 7), ("self-test", "absent", True), ("self-test", "absent", "it says nothing"),
    ],
)  # fmt: skip
def test_an_evaluation_with_a_value_of_another_type_is_refused(
    evaluation: dict[str, Any], part: str, key: str, value: Any
) -> None:
    changed = json.loads(json.dumps(evaluation))
    evaluation_from(json.dumps(changed))
    parts_of(changed)[part][key] = value
    assert not accepts("evaluation", changed)
    with pytest.raises(EvaluationError):
        evaluation_from(json.dumps(changed))


@pytest.mark.parametrize("waiver_until", [None, "2999-01-01"])
@pytest.mark.parametrize("signed", [True, False])
def test_what_people_write_into_a_bundle_is_a_sign_off_and_a_withdrawal(
    workspace: Any, waiver_until: str | None, signed: bool
) -> None:
    signer = make_keys(workspace.folder / "a.key", {})
    bundle = seal_both(fill(workspace.folder / "bundle", waiver_until=waiver_until), signer if signed else None)
    key = ["--key", workspace.folder / "a.key"]
    by = ["--name", "A. Lind", "--role", "officer"]
    ran = workspace.run("sign-off", bundle, *by, *key)
    assert ran.exit_code == 0, ran.stderr
    ran = workspace.run("withdraw", bundle, *by, "--reason", "a column was misdeclared", *(key if signed else []))
    assert ran.exit_code == 0, ran.stderr
    for kind, model, path in (
        ("sign-off", SignOff, bundle / "sign-off-1.json"),
        ("withdrawal", Withdrawal, bundle / "withdrawal.json"),
        ("withdrawal", Withdrawal, bundle / "to-hand-on" / "withdrawal.json"),
    ):
        content = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(content, json_schema(kind))
        said = content["predicate"]
        assert (said["public_key"] is not None) == (signed or kind == "sign-off")
        without = [{name: value for name, value in content.items() if name != key_of_it} for key_of_it in content]
        predicates = [{name: value for name, value in said.items() if name != key_of_it} for key_of_it in said]
        without += [{**content, "predicate": one} for one in (*predicates, {**said, "unheard_of": 1})]
        for changed in (*without, {**content, "unheard_of": 1}):
            assert not accepts(kind, changed), changed
            assert not is_read(as_canonical(changed), model), changed
        assert is_read(path.read_bytes(), model)


def is_read(content: bytes, model: type[SignOff | Withdrawal]) -> bool:
    try:
        return canonical(model.model_validate_json(content, strict=True)) == content
    except ValidationError:
        return False


def as_canonical(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, sort_keys=True, indent=1, separators=(",", ": ")) + "\n").encode("ascii")


def test_the_help_names_every_kind(workspace: Any) -> None:
    said = " ".join(workspace.run("check", "--help").stdout.split())
    assert not [kind for kind in KINDS if kind not in said]


def test_the_command_prints_the_json_schema_and_knows_no_other(workspace: Any) -> None:
    asked = ("check", "--json-schema", "policy")
    ran = workspace.run(*asked)
    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == json_schema("policy") == workspace.run(*asked, "--json").json
    wrong = workspace.run("check", "--json-schema", "polcy")
    assert wrong.exit_code == 2
    assert "did you mean 'policy'?" in wrong.stderr


ONE_OR_SEVERAL = (
    *(("card", key) for key in ("intended_use", "prohibited_use", "language", "tags")), ("evaluation", "measures"),
)  # fmt: skip
"""Keys of a job that take a text or a list of texts."""


@pytest.mark.parametrize(("section", "key"), ONE_OR_SEVERAL)
@pytest.mark.parametrize(("value", "valid"), [("en", True), (["en"], True), (["en", "de"], True), (7, False),
                                              ([7], False), ({"a": 1}, False)])  # fmt: skip
def test_a_text_may_stand_where_a_list_of_texts_may(section: str, key: str, value: Any, valid: bool) -> None:
    content = {**JOB, section: {key: value}}
    assert refused_by_the_reader("job", content) != valid
    assert accepts("job", content) == valid


@pytest.mark.parametrize(("seeds", "valid"), [(1, True), (100, True), ([4, 7], True), (0, False), (101, False),
                                              (True, False), ([], False), ([-1], False), ("3", False)])  # fmt: skip
def test_seeds_are_a_number_or_a_list(seeds: Any, valid: bool) -> None:
    content = {**JOB, "sweep": {"seeds": seeds}}
    assert refused_by_the_reader("job", content) != valid
    assert accepts("job", content) == valid


def test_every_key_that_takes_more_forms_than_it_holds_says_so() -> None:
    """A validator that turns what is written into what is kept is told to the JSON Schema, too."""
    for model in (Job, EvaluationSpec, Terms, SweepSpec, Policy, Rule, Waiver, Waivers):
        for name, field in model.model_fields.items():
            for part in (field, *typing.get_args(field.annotation)):
                said = [one for one in getattr(part, "metadata", getattr(part, "__metadata__", ()))
                        if isinstance(one, BeforeValidator)]  # fmt: skip
                for one in said:
                    assert one.json_schema_input_type is not PydanticUndefined, (model, name)

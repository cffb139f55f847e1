"""Parts of evaluations for tests, made of the few keys that a test is about."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from pydantic import TypeAdapter

from evaluate.audit_result import Audit
from evaluate.privacy.audit.white_box import attacked
from evaluate.provenance import Provenance
from evaluate.real_facts import RealFacts
from evaluate.result import CASES, Candidate, Evaluation, SelfTest
from synth.dp.statement import PrivacyStatement
from synth.schema import Schema, build_schema

SCHEMA = build_schema({"status": "declared", "n_units": 900, "columns": {"a": {"kind": "boolean"}}})
ABSENT = tuple(SelfTest(case, absent="It says nothing here.") for case in CASES)
EVENT: dict[str, Any] = {
    "what": "counts", "mechanism": "Gaussian", "noise": {"sigma": 9.0, "sensitivity": 1, "whole": True}, "count": 1,
    "rho": 0.01, "delta": 0.0,
}  # fmt: skip


def stated(**known: Any) -> PrivacyStatement:
    """A statement; what is not named is that of a small fit, whose events cost less than it claims."""
    epsilon = known.get("epsilon", 1.0)
    event = {**EVENT, "noise": {**EVENT["noise"], "sigma": 9.0 / min(1.0, epsilon)}}
    content = {
        "epsilon": epsilon, "delta": 1e-6, "unit": "row", "n_units": 900, "accountant": "PLD (dp-accounting)",
        "epsilon_rdp": 1.1 * epsilon, "events": [event], **known,
    }  # fmt: skip
    return TypeAdapter(PrivacyStatement).validate_json(json.dumps(content, default=plain))


def facts(**known: Any) -> RealFacts:
    """Facts about a real table; what is not named is that of a table of 1,200 rows, of which nothing is tested."""
    base = {
        "train_rows": 900, "holdout_rows": 300, "duplicates_across": 0, "duplicate_share_train": 0.0,
        "columns": 1,
    }  # fmt: skip
    return RealFacts(**{**base, **known})


def origin(**known: Any) -> Provenance:
    """Provenance; what parts of it do not name is filled in."""
    for name, base in _PARTS.items():
        if isinstance(known.get(name), Mapping):
            known[name] = {**base, **known[name]}
    if isinstance(known.get("released_numbers"), Mapping):
        parts = {"statement": {"epsilon": 0.3}, "together": {"epsilon": 1.1}, **known["released_numbers"]}
        whole = {each: stated(**parts[each]) for each in ("statement", "together") if isinstance(parts[each], Mapping)}
        known["released_numbers"] = {**parts, **whole}
    return TypeAdapter(Provenance).validate_json(json.dumps(known, default=plain))


_PARTS: Mapping[str, Mapping[str, Any]] = {
    "sweep": {"composed": None, "points": [], "releasable": True},
    "released_numbers": {"table": "mst", "numbers": [], "every": None, "n_fits": 1},
    "attempts": {"evaluations": 1, "tables": 1, "since": "2026-01-31"},
    "ledger": {
        "dataset": "patients", "unit": "row", "reserved_epsilon": {}, "spent_epsilon": 1.0, "left_epsilon": 2.0,
        "total_epsilon": 3.0, "total_delta": 1e-5,
    },
}  # fmt: skip


def schema_of(**known: Any) -> Schema:
    """A declared schema of one column, and of an entity where one is named."""
    columns = {"a": {"kind": "boolean"}}
    if known.get("entity") is not None:
        columns[known["entity"]] = {"kind": "identifier", "template": "####"}
    return build_schema({"status": "declared", "columns": columns, **known})


def swept(known: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A sweep whose points are these tables."""
    return {**known, "points": [{"label": name, "generator": name, "epsilon": 1.0, "seed": 0} for name in names]}


def evaluation_of(*candidates: Candidate, self_tests: tuple[SelfTest, ...] = (), **known: Any) -> Evaluation:
    """An evaluation of some candidates, of which the provenance is known; they are the points of a sweep."""
    if isinstance(known.get("sweep"), Mapping) and "points" not in known["sweep"]:
        known["sweep"] = swept(known["sweep"], *(each.name for each in candidates))
    return Evaluation(candidates, facts(), SCHEMA, origin(**known), self_tests)


def plain(value: object) -> Any:
    """A dataclass as plain data."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(value)


def altered(part: Any, changes: Mapping[str, Any]) -> Any:
    """A part of an evaluation with other content, read as a file would be."""
    if isinstance(part, Schema):
        return build_schema({**part.model_dump(mode="json", exclude_none=True), **changes})
    content = TypeAdapter(type(part)).dump_python(part, mode="json")
    if isinstance(part, Provenance):
        return origin(**{**content, **changes})
    return TypeAdapter(type(part)).validate_json(json.dumps({**content, **changes}, default=plain))


def conclude(
    claim: tuple[float, float], errors: tuple[int, int], n_each: int, confidence: float, *, ran_on: str
) -> Audit:
    """An audit of a claim by an attacker's errors of either kind, of as many trials each."""
    return Audit.of_parts(claim, [attacked("", claim[1], errors, n_each, confidence, ran_on)], confidence)

"""The JSON Schemas of the files that people write and programs read, for editors and for checks by others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth import extras
from synth.errors import JobError, nearest

if TYPE_CHECKING:
    from understudy.bundle.documents import Statement

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Described:
    """A kind of file."""

    title: str
    description: str
    made: Callable[[], dict[str, Any]]
    read: Callable[[Path], object] = lambda path: None
    """Reads a file, or says what is wrong with it: of kinds that extras bring."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file."""
    kinds: Mapping[str, Described] = {**KINDS, **extras.load("settings")}
    if name not in kinds:
        raise JobError(f"kind={name!r} is no file that has a JSON Schema; {nearest(name, kinds)}")
    kind = kinds[name]
    head = {"$schema": DIALECT, "$id": f"urn:understudy:{name}", "title": kind.title, "description": kind.description}
    return {**head, **{key: value for key, value in kind.made().items() if key not in head}}


def _policy() -> dict[str, Any]:
    from evaluate.gate.policy import Policy

    return Policy.model_json_schema()


def _waivers() -> dict[str, Any]:
    from evaluate.gate.policy import Waivers

    return Waivers.model_json_schema()


def _job() -> dict[str, Any]:
    from understudy.job.spec import job_json

    return job_json()


def _schema() -> dict[str, Any]:
    from synth.schema_file import schema_json

    return schema_json()


def _evaluation() -> dict[str, Any]:
    from evaluate.result_io import evaluation_json

    return evaluation_json()


def _model_card() -> dict[str, Any]:
    from reports.model_card.schema import card_json

    return card_json()


def _manifest() -> dict[str, Any]:
    from understudy.bundle.manifest import Manifest

    return _one_form(Manifest)


def _sign_off() -> dict[str, Any]:
    from understudy.bundle.records import SignOff

    return _one_form(SignOff)


def _withdrawal() -> dict[str, Any]:
    from understudy.bundle.records import Withdrawal

    return _one_form(Withdrawal)


def _one_form(document: "type[Statement]") -> dict[str, Any]:
    """The JSON Schema of a document of a bundle, which is refused where any of its keys is left out."""
    made = document.model_json_schema()
    for part in (made, *made["$defs"].values()):
        part["required"] = list(part["properties"])
    return made


KINDS: Mapping[str, Described] = {
    "schema": Described("Schema", "What is public about one table: its columns, bounds and unit of privacy.", _schema),
    "job": Described("Job", "One run: a table, its schema, generators, measures and a policy.", _job),
    "policy": Described("Policy", "What must hold before a table may go to an audience, and why.", _policy),
    "waivers": Described("Waivers", "Rules of a policy that a named person answers for, until a date.", _waivers),
    "evaluation": Described("Evaluation", "What was measured of synthetic tables beside a real one.", _evaluation),
    "model-card": Described("Model card", "What a synthetic table is, for whoever is given it.", _model_card),
    "manifest": Described("Manifest", "What belongs to a bundle of evidence, with the hash of every file.", _manifest),
    "sign-off": Described("Sign-off", "Who answers for the release of a table, in which role, until when.", _sign_off),
    "withdrawal": Described("Withdrawal", "Why a bundle is not to be relied on any more, by whom.", _withdrawal),
}
"""Every kind of file by the name that the command takes; extras bring others."""

"""The JSON Schemas of the files that people write and programs read, for editors and for checks by others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from synth import extras
from synth.errors import JobError, nearest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Described:
    """A kind of file. `make` gives its JSON Schema, or is where that function lies; `read` is of kinds of extras."""

    title: str
    description: str
    make: str | Callable[[], dict[str, Any]]
    read: Callable[[Path], object] = lambda path: None


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file."""
    kinds: Mapping[str, Described] = {**KINDS, **extras.load("settings")}
    if name not in kinds:
        raise JobError(f"kind={name!r} is no file that has a JSON Schema; {nearest(name, kinds)}")
    kind = kinds[name]
    content = (resolve_name(kind.make) if isinstance(kind.make, str) else kind.make)()
    if name in IN_ONE_FORM:
        for part in (content, *content["$defs"].values()):
            part["required"] = list(part["properties"])
    head = {"$schema": DIALECT, "$id": f"urn:understudy:{name}", "title": kind.title, "description": kind.description}
    return {**head, **{key: value for key, value in content.items() if key not in head}}


KINDS: Mapping[str, Described] = {
    "schema": Described(
        "Schema", "What is public about one table: its columns, bounds and unit of privacy.",
        "synth.schema_file:schema_json",
    ),
    "job": Described(
        "Job", "One run: a table, its schema, generators, measures and a policy.", "understudy.job.spec:job_json"
    ),
    "policy": Described(
        "Policy", "What must hold before a table may go to an audience, and why.",
        "evaluate.gate.policy:Policy.model_json_schema",
    ),
    "waivers": Described(
        "Waivers", "Rules of a policy that a named person answers for, until a date.",
        "evaluate.gate.policy:Waivers.model_json_schema",
    ),
    "evaluation": Described(
        "Evaluation", "What was measured of synthetic tables beside a real one.",
        "evaluate.result_io:evaluation_json",
    ),
    "model-card": Described(
        "Model card", "What a synthetic table is, for whoever is given it.", "reports.model_card.schema:card_json"
    ),
    "manifest": Described(
        "Manifest", "What belongs to a bundle of evidence, with the hash of every file.",
        "understudy.bundle.manifest:Manifest.model_json_schema",
    ),
    "sign-off": Described(
        "Sign-off", "Who answers for the release of a table, in which role, until when.",
        "understudy.bundle.manifest:SignOff.model_json_schema",
    ),
    "withdrawal": Described(
        "Withdrawal", "Why a bundle is not to be relied on any more, by whom.",
        "understudy.bundle.manifest:Withdrawal.model_json_schema",
    ),
}  # fmt: skip
"""Every kind of file by the name that the command takes; extras bring others."""
IN_ONE_FORM = ("manifest", "sign-off", "withdrawal")
"""Documents of a bundle, which are refused where any of their keys is left out."""

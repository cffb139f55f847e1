"""The JSON Schema of `evaluation.json`, read off the dataclasses that it is written from."""

import inspect
import re
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import TypeAdapter

from evaluate import result
from evaluate.result import NOTICE, SCHEMA_VERSION, Evaluation
from synth.dp import statement
from synth.dp.statement import PrivacyStatement

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n      .+)*)", re.MULTILINE)
"""A line of the section "Attributes" of a docstring, with the lines that go on from it."""


_ONCE = ("candidates", "estimates", "self_tests")
"""Lists that hold nothing twice."""
_EITHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SelfTest": (
        {"candidate": {"type": "null"}, "absent": {"minLength": 1}},
        {"candidate": {"type": "object"}, "absent": {"const": ""}},
    ),
    "Estimate": (
        {"low": {"type": "null"}, "high": {"type": "null"}},
        {"low": {"type": "number"}, "high": {"type": "number"}},
    ),
}
"""What goes together: a table that was measured or why not, both ends of an interval or none."""


def evaluation_json() -> dict[str, Any]:
    """The JSON Schema of what `Evaluation.to_json` writes: every key is there, and no other."""
    made = TypeAdapter(Evaluation).json_schema()
    stated = TypeAdapter(PrivacyStatement).json_schema(ref_template="#/$defs/{model}")
    for name in ("epsilon", "epsilon_rdp"):
        stated["properties"][name]["exclusiveMinimum"] = 0
    stated["properties"]["delta"].update(minimum=0, exclusiveMaximum=1)
    definitions = {**made.pop("$defs"), **stated.pop("$defs"), "PrivacyStatement": stated}
    for name, definition in definitions.items():
        _close(definition, getattr(result, name, None) or getattr(statement, name))
        if name in _EITHER:
            definition["oneOf"] = [{"properties": case} for case in _EITHER[name]]
    promised = definitions["Candidate"]["properties"]["statement"]
    promised["anyOf"] = [{"$ref": "#/$defs/PrivacyStatement"}, {"type": "null"}]
    _close(made, Evaluation)
    head = {
        "schema_version": {
            "const": SCHEMA_VERSION,
            "description": "Version of this file's form; a newer one is refused.",
        },
        "notice": {"const": NOTICE, "description": "Whom the file is for."},
    }
    made["properties"] = {**head, **made["properties"]}
    made["required"] = list(made["properties"])
    return {**made, "$defs": definitions}


def _close(definition: dict[str, Any], of: Any) -> None:
    """Every field of a dataclass required, explained by its docstring, and no other key allowed."""
    assert is_dataclass(of)
    text = inspect.getdoc(of) or ""
    explained = {name: " ".join(said.split()) for name, said in _ENTRY.findall(text.partition("Attributes:")[2])}
    definition["description"] = " ".join(text.partition("\n\n")[0].split())
    definition["required"] = [one.name for one in fields(of)]
    definition["additionalProperties"] = False
    for name, found in definition["properties"].items():
        found.pop("default", None)
        if name in _ONCE:
            found["uniqueItems"] = True
        if name in explained:
            found["description"] = explained[name]

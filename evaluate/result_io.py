"""The file form of an evaluation, `evaluation.json`: its strict reader and its JSON Schema.

A gate judges from this file alone, so that whatever no evaluation writes is damage, and never a verdict. Schema and
reader are read off the dataclasses of `evaluate.result`.
"""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

from pydantic import ValidationError

from evaluate.figures import check_figures
from evaluate.metrics import CATALOG
from evaluate.result import NOTICE, SCHEMA_VERSION, Candidate, Evaluation, EvaluationError, adapter, plain_content
from synth.validation import NotPlain, plain_json

ROUNDING = 1e-9  # By how much a number may lie beyond its own interval


def evaluation_from(text: str) -> Evaluation:
    """An evaluation from JSON text.

    Raises:
        EvaluationError: the text is not an evaluation, a damaged one, or another version's.
    """
    try:
        content = plain_json(text)
        version = content.pop("schema_version")
    except NotPlain as damage:
        raise _damaged(str(damage)) from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise EvaluationError("this is not an evaluation; pass a file that `understudy evaluate` wrote") from None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise EvaluationError(
            f"this version reads evaluations of schema_version={SCHEMA_VERSION}, not {str(version)[:20]!r}; "
            f"{'evaluate again' if type(version) is int and version < SCHEMA_VERSION else 'upgrade understudy'}"
        )
    content.pop("notice", None)
    try:
        return _consistent(_typed(content))
    except _DamagedError as damage:
        raise _damaged(str(damage)) from None
    except ValidationError as error:
        raise _damaged(".".join(map(str, error.errors(include_input=False)[0]["loc"]))) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise _damaged(type(error).__name__) from None


class _DamagedError(ValueError):
    """Damage of a file, in a few words; becomes an `EvaluationError`."""


def _damaged(why: str) -> EvaluationError:
    remedy = "compare again" if why.startswith("ranking") else "evaluate again"
    return EvaluationError(f"the evaluation is damaged ({why}); {remedy}")


def _typed(content: dict[str, Any]) -> Evaluation:
    """The content as an evaluation that would be written alike: every key there, and every value of its type."""
    evaluation = adapter().validate_json(json.dumps(content))
    if plain_content(evaluation) != content:
        raise _DamagedError("a key is missing, or a value is not written as it should be")
    return evaluation


def _consistent(evaluation: Evaluation) -> Evaluation:
    """The evaluation, once it says nothing twice and contradicts itself nowhere."""
    _unique("a candidate", (each.name for each in evaluation.candidates))
    _unique("a self-test", (each.case for each in evaluation.self_tests))
    tested = (test.candidate for test in evaluation.self_tests if test.candidate is not None)
    for candidate in (*evaluation.candidates, *tested):
        _check(candidate)
    return evaluation


def _unique(what: str, keys: Iterable[Hashable]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise _DamagedError(f"{what} stands there twice")
        seen.add(key)


def _check(candidate: Candidate) -> None:
    check_figures(candidate.figures)
    _unique("an estimate", ((number.measure, number.subject) for number in candidate.estimates))
    failed = {(number.measure, number.subject) for number in candidate.failures}
    for number in candidate.estimates:
        known = CATALOG.get(number.measure)
        family = () if known is None else ((known.by, ()),)
        if failed & {(number.measure, number.subject), *family}:
            raise _DamagedError("a number is there that could not be measured")
        if known is not None and number.direction != known.direction:
            raise _DamagedError("a number is better the other way")
        slack = ROUNDING * (1 + abs(number.value))
        if (
            number.low is not None
            and number.high is not None
            and not number.low - slack <= number.value <= number.high + slack
        ):
            raise _DamagedError("a number lies outside its interval")
        least, most = (-math.inf, math.inf) if known is None else known.range
        numbers = (number.value, number.low, number.high, number.reference, number.floor, number.detectable)
        if any(end is not None and not least - slack <= end <= most + slack for end in numbers):
            raise _DamagedError(f"{number.measure} lies beyond {least:g} to {most:g}")


_ONCE = ("candidates", "estimates", "self_tests")  # Lists that hold nothing twice
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
"""Keys that go together: a table that was measured or the reason, both ends of an interval or none."""


def evaluation_json() -> dict[str, Any]:
    """The JSON Schema of what `Evaluation.to_json` writes: every key is there, and no other."""
    schema = adapter().json_schema()
    definitions = schema.pop("$defs")
    stated = definitions["PrivacyStatement"]["properties"]
    for name in ("epsilon", "epsilon_rdp"):
        stated[name]["exclusiveMinimum"] = 0
    stated["delta"].update(minimum=0, exclusiveMaximum=1)
    for name, base in (("Audit", "AuditPart"), ("CountedAttempts", "EvaluationCounts")):
        definitions[name]["properties"] |= definitions[base]["properties"]  # explained where they are declared
    for name, definition in {**definitions, "Evaluation": schema}.items():
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
            definition["description"] = " ".join(definition["description"].partition("\n\n")[0].split())
        for key, value in definition.get("properties", {}).items():
            value.pop("default", None)
            if key in _ONCE:
                value["uniqueItems"] = True
        if name in _EITHER:
            definition["oneOf"] = [{"properties": case} for case in _EITHER[name]]
    head = {
        "schema_version": {
            "const": SCHEMA_VERSION,
            "description": "Version of this file's form; a newer one is refused.",
        },
        "notice": {"const": NOTICE, "description": "Whom the file is for."},
    }
    schema["properties"] = {**head, **schema["properties"]}
    schema["required"] = list(schema["properties"])
    return {**schema, "$defs": definitions}

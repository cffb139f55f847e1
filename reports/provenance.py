"""Where the numbers come from: seeds, versions, fingerprints and the schema, flattened into rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluate.result import Evaluation
from reports.text import count, number, plain

_NAMES = {
    "files_sha256": "SHA-256 of", "fingerprints": "keyed fingerprint of",
    "real": "real table:", "schema": "schema:", "job_sha256": "SHA-256 of the job",
    "schema_sha256": "SHA-256 of the schema", "policy_sha256": "SHA-256 of the policy", "n_units": "declared units",
    "duplicates_across": "held-out rows equal to a training row,", "duplicate_share_train": "share of training rows "
    "with a twin",
}  # fmt: skip
"""Keys of an evaluation that say little to a reader; a file's name is left as it is."""


@dataclass(frozen=True)
class Fact:
    """A name and a value."""

    name: str
    value: str


@dataclass(frozen=True)
class SchemaRow:
    """One column as the schema declares it."""

    column: str
    kind: str
    holds: str
    missing: bool
    roles: tuple[str, ...]


def facts(evaluation: Evaluation, *, versions: bool = False) -> tuple[Fact, ...]:
    """What identifies this evaluation; with `versions`, what was installed instead."""
    if versions:
        return tuple(Fact(str(k), plain(v)) for k, v in evaluation.provenance.get("versions", {}).items())
    rest = {name: value for name, value in evaluation.provenance.items() if name not in ("versions", "warnings")}
    schema = {name: evaluation.schema[name] for name in ("status", "n_units", "entity") if evaluation.schema.get(name)}
    return (*_flat(rest), *_flat(evaluation.real, "real"), *_flat(schema, "schema"))


def schema_rows(schema: Mapping[str, Any]) -> tuple[SchemaRow, ...]:
    """One row for every kept column."""
    columns = schema.get("columns", {})
    return tuple(_schema_row(name, column, schema) for name, column in columns.items() if not column.get("drop"))


def _schema_row(name: str, column: Mapping[str, Any], schema: Mapping[str, Any]) -> SchemaRow:
    roles = [role for role in ("target", "entity") if schema.get(role) == name]
    roles += [
        word
        for key, word in (("sensitive", "sensitive"), ("quasi_identifiers", "quasi-identifier"))
        if name in schema.get(key, ())
    ]
    return SchemaRow(name, str(column.get("kind", "")), _holds(column), bool(column.get("missing")), tuple(roles))


def _holds(column: Mapping[str, Any]) -> str:
    if column.get("categories"):
        return f"{count(len(column['categories']))} categories"
    if column.get("bounds"):
        low, high = column["bounds"]
        return f"{plain(low)} to {plain(high)}"
    if column.get("personal"):
        return f"{plain(column['personal']).replace('_', ' ')}, {plain(column.get('locale', ''))}"
    return plain(column.get("template") or "")


def _flat(content: Mapping[str, Any], *above: str) -> Iterator[Fact]:
    for name, value in content.items():
        path = (*above, str(name))
        if isinstance(value, Mapping):
            yield from _flat(value, *path)
        elif isinstance(value, list | tuple):
            yield Fact(_named(path), ", ".join(plain(v) for v in value) or "none")
        elif value is not None:
            yield Fact(_named(path), _shown(value, path[0]))


def _named(path: tuple[str, ...]) -> str:
    words = (_NAMES.get(key, plain(key) if "/" in key else plain(key).replace("_", " ")) for key in path)
    return " ".join(words)


def _shown(value: Any, group: str) -> str:
    """Counts with commas and shares with few digits; seeds and versions as they are."""
    if type(value) is int and group in ("real", "schema"):
        return count(value)
    return number(value) if isinstance(value, float) else plain(value)

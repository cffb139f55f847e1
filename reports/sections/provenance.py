"""Provenance of the numbers: seeds, versions, fingerprints and the schema, flattened into rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluate.result import Evaluation
from evaluate.text import count, number, plain
from synth.schema import Schema
from synth.schema.kinds import Column

UNVERIFIED = (
    "The statement is that of a model. That this table came from the model is what whoever offered it says; it was not "
    "verified."
)
_NAMES = {
    "files_sha256": "SHA-256 of", "fingerprints": "keyed fingerprint of",
    "real": "real table:", "schema": "schema:", "job_sha256": "SHA-256 of the job",
    "schema_sha256": "SHA-256 of the schema", "policy_sha256": "SHA-256 of the policy",
    "waivers_sha256": "SHA-256 of the waivers", "n_units": "declared units",
    "duplicates_across": "held-out rows equal to a training row", "duplicate_share_train": "share of training rows "
    "with a twin",
}  # fmt: skip
"""Keys of an evaluation that say little to a reader; a file's name is left as it is."""


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class FactGroup:
    """Facts of one kind, under a heading, with a sentence on what they are good for; it may be empty."""

    title: str
    facts: tuple[Fact, ...]
    note: str


@dataclass(frozen=True)
class SchemaRow:
    column: str
    kind: str
    holds: str
    missing: bool
    roles: tuple[str, ...]


_OUTPUTS = ("files_sha256",)
_ASKED = ("job_sha256", "schema_sha256", "policy_sha256", "waivers_sha256")
_INPUTS = ("fingerprints",)
_ELSEWHERE = ("versions", "warnings", "attempts", "released_numbers", *_OUTPUTS, *_ASKED, *_INPUTS)
"""Keys with a group of their own, or told in another section."""


def fact_groups(evaluation: Evaluation) -> tuple[FactGroup, ...]:
    """Facts that identify this evaluation: outputs, job, inputs, run and real table."""
    found = asdict(evaluation.provenance)

    def of(names: Iterable[str]) -> tuple[Fact, ...]:
        return tuple(_flat({name: found[name] for name in names}))

    schema = {name: getattr(evaluation.schema, name) for name in ("status", "n_units", "entity")}
    real = {name: fact for name, fact in asdict(evaluation.real).items() if name != "shift"}  # told on the first screen
    groups = (
        FactGroup("Files that were written", of(_OUTPUTS), "sha256sum gives the same for a file that nobody changed."),
        FactGroup("What was asked for", of(_ASKED), "Hashes of the files that lie beside this report."),
        FactGroup(
            "Real inputs", of(_INPUTS),
            "Keyed (HMAC) with a key that stays where this ran: without it nobody can use them to confirm a guess.",
        ),
        FactGroup("The run", of(name for name in found if name not in _ELSEWHERE), ""),
        FactGroup("The real table and its schema", (*_flat(real, "real"), *_flat(schema, "schema")), ""),
    )  # fmt: skip
    return tuple(group for group in groups if group.facts)


def versions_of(evaluation: Evaluation) -> tuple[Fact, ...]:
    return tuple(Fact(plain(k), plain(v)) for k, v in evaluation.provenance.versions.items())


def schema_rows(schema: Schema) -> tuple[SchemaRow, ...]:
    return tuple(_schema_row(name, schema.columns[name], schema) for name in schema.kept)


def _schema_row(name: str, column: Column, schema: Schema) -> SchemaRow:
    roles = [role for role, of in (("target", schema.target), ("entity", schema.entity)) if of == name]
    sets = (("sensitive", schema.sensitive), ("quasi-identifier", schema.quasi_identifiers))
    roles += [word for word, names in sets if name in names]
    return SchemaRow(name, column.kind, plain(column.domain_words), column.missing, tuple(roles))


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

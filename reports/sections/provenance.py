"""Provenance of the numbers: seeds, versions, fingerprints and the schema, flattened into rows."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluate.result import Evaluation
from evaluate.text import count, number, plain
from synth.schema import Schema

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
_GROUPS = (
    ("Files that were written", "sha256sum gives the same for a file that nobody changed.", ("files_sha256",)),
    (
        "What was asked for", "Hashes of the files that lie beside this report.",
        ("job_sha256", "schema_sha256", "policy_sha256", "waivers_sha256"),
    ),
    (
        "Real inputs", "Keyed (HMAC) with a key that stays where this ran: nobody else can confirm a guess by them.",
        ("fingerprints",),
    ),
    ("The run", "", ()),
)  # fmt: skip
"""Groups of keys; what has no group and is told in no other section is of the run."""
_ELSEWHERE = {"versions", "warnings", "attempts", "released_numbers", *(key for *_, keys in _GROUPS for key in keys)}


@dataclass(frozen=True)
class FactGroup:
    """Facts of one kind, name and value, under a heading, with a sentence on what they are good for."""

    title: str
    note: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SchemaRow:
    column: str
    kind: str
    holds: str
    missing: bool
    roles: tuple[str, ...]


def fact_groups(evaluation: Evaluation) -> tuple[FactGroup, ...]:
    """Facts that identify this evaluation: outputs, job, inputs, run and real table."""
    known = asdict(evaluation.provenance)
    of_run = tuple(key for key in known if key not in _ELSEWHERE)
    groups = [
        FactGroup(title, note, tuple(_flat({key: known[key] for key in keys or of_run})))
        for title, note, keys in _GROUPS
    ]
    schema = {name: getattr(evaluation.schema, name) for name in ("status", "n_units", "entity")}
    real = {name: fact for name, fact in asdict(evaluation.real).items() if name != "shift"}  # a warning says it
    groups.append(FactGroup("The real table and its schema", "", (*_flat(real, "real"), *_flat(schema, "schema"))))
    return tuple(group for group in groups if group.facts)


def schema_rows(schema: Schema) -> tuple[SchemaRow, ...]:
    roles = (
        ("target", (schema.target,)), ("entity", (schema.entity,)), ("sensitive", schema.sensitive),
        ("quasi-identifier", schema.quasi_identifiers),
    )  # fmt: skip
    return tuple(
        SchemaRow(
            name, column.kind, plain(column.domain_words), column.missing,
            tuple(role for role, names in roles if name in names),
        )
        for name in schema.kept
        for column in [schema.columns[name]]
    )  # fmt: skip


def _flat(content: Mapping[str, Any], *above: str) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        path = (*above, str(name))
        words = " ".join(_NAMES.get(key, plain(key) if "/" in key else plain(key).replace("_", " ")) for key in path)
        if isinstance(value, Mapping):
            yield from _flat(value, *path)
        elif isinstance(value, list | tuple):
            yield words, ", ".join(plain(v) for v in value) or "none"
        elif type(value) is int and path[0] in ("real", "schema"):
            yield words, count(value)
        elif value is not None:
            yield words, number(value) if isinstance(value, float) else plain(value)

"""Logs on this machine: how often a real table was measured against, and which rows models were fitted on.

Every evaluation that is published answers a query. Whoever may ask for numbers about tables of their own making, again
and again, gets the real table out of the numbers. Nothing here stops that; it is counted, so that a report can say how
often it was done.

The log is kept beside the key of fingerprints, and lines are only ever added. A line holds the keyed fingerprint of
the table and the declared name of its dataset. Another machine, another key or another schema counts anew. What may be
published counts by the name alone. Two counts by the fingerprint would tell whether a single row changed in between.

What a model was fitted on stands in a log of its own, and not in the model: a private model that is handed on says
nothing exact of real rows, not even under a key.

Source: Ganev & De Cristofaro 2023, arXiv:2312.05114 (ReconSyn: reconstruction from metrics that are open to queries).
"""

import datetime as dt
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from evaluate.provenance import CountedAttempts, EvaluationCounts
from synth.errors import JobError, OutputError
from synth.generators.models.model_folder import ARRAYS, DESCRIPTION
from synth.validation import plain_json
from understudy.provenance import fingerprint_key, key_path, sha256

if TYPE_CHECKING:
    from synth.schema import Schema

FILE_VARIABLE = "UNDERSTUDY_ATTEMPTS_FILE"
_LINE = {"table": str, "attempt": str, "tables": int, "at": str}
PATIENCE_S = 10.0
"""Seconds that another process that counts is waited for."""


def attempts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file in which attempts are counted."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    return key_path(environment).with_name("attempts.jsonl")


def count_attempt(print_of_table: str, schema: "Schema", *, attempt: str, n_tables: int) -> CountedAttempts | None:
    """The attempts on a table with this one among them; `None` where they cannot be counted.

    Beside them, under `by_name`, stand those on all versions of its dataset, by name and unit as ledgers know it. They
    are `None` where the schema names no dataset.
    """
    line = {"table": print_of_table, "attempt": attempt, "tables": n_tables, "at": _today()}
    try:
        named = {**line, "dataset": schema.dataset, "unit": schema.unit}
        lines = _noted(attempts_path(), named, ("table", "attempt"), _LINE)
    except (OSError, OutputError, Timeout):
        return None
    of_table = [line for line in lines if line["table"] == print_of_table]
    name = (schema.dataset, schema.unit)
    of_name = [line for line in lines if schema.dataset is not None and (line.get("dataset"), line.get("unit")) == name]
    return CountedAttempts(*_counted(of_table), by_name=EvaluationCounts(*_counted(of_name)) if of_name else None)


MODELS = "models.jsonl"
_OF_MODEL = {"model": str, "train": str, "columns": str}


def note_training(model: Path, train: str, schema: "Schema") -> None:
    """Keep which rows a saved model was fitted on; without a place to keep it, nothing is known later."""
    try:
        line = {**_of_model(model, schema), "train": train}
        _noted(key_path().with_name(MODELS), line, tuple(line), _OF_MODEL)
    except (OSError, OutputError, Timeout):
        return


def check_training(model: Path, prints: Mapping[str, str], schema: "Schema") -> None:
    """Refuse a model that was fitted on other rows than these, as far as this machine knows."""
    asked = _of_model(model, schema)
    lines = _lines(key_path().with_name(MODELS), _OF_MODEL)
    fitted = [line["train"] for line in lines if line.items() >= asked.items()]
    if not fitted or prints["train"] in fitted:
        return
    if prints.get("holdout") in fitted:
        raise JobError(f"model={str(model)!r} was fitted on the rows of the holdout; swap the two sides")
    raise JobError(f"model={str(model)!r} was fitted on other rows than those of train; name the rows of its fit")


def _of_model(model: Path, schema: "Schema") -> dict[str, str]:
    """A keyed name for a saved model, and the columns that a fingerprint is of: clamped elsewhere, rows are others."""
    digests = [sha256(model / name) for name in (DESCRIPTION, ARRAYS)]
    name = hmac.new(fingerprint_key(key_path()), json.dumps(digests).encode(), "sha256").hexdigest()
    columns = {name: schema.columns[name].model_dump(mode="json") for name in schema.kept}
    return {"model": name, "columns": hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()}


def _counted(lines: Sequence[Mapping[str, Any]]) -> tuple[int, int, str]:
    first = min(str(line["at"]) for line in lines)
    return len(lines), sum(int(line["tables"]) for line in lines), first


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def _noted(
    path: Path, line: dict[str, Any], same: tuple[str, ...], keys: Mapping[str, type]
) -> list[dict[str, Any]]:  # fmt: skip
    """All lines, with this one written and flushed to the disk unless one with the same values of `same` is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(path.with_name(f"{path.name}.lock"), timeout=PATIENCE_S):
        lines = list(_lines(path, keys))
        if any(all(known.get(key) == line[key] for key in same) for known in lines):
            return lines
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # cut off by a crash: it stays by itself
            file.write((b"\n" if torn else b"") + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(handle)
    return [*lines, line]


def _lines(path: Path, keys: Mapping[str, type]) -> Iterator[dict[str, Any]]:
    """The whole lines; one that a crash cut off, or that is damaged, counts for nothing."""
    if not path.exists():
        return
    for text in path.read_bytes().split(b"\n"):
        try:
            line = plain_json(text)
        except ValueError:
            continue
        if isinstance(line, dict) and all(type(line.get(key)) is kind for key, kind in keys.items()):
            yield line

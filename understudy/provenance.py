"""The provenance of a run: versions, hashes of public files, and a keyed fingerprint of the real table, with its uses.

A plain hash of a real table lets whoever knows all rows but one confirm the last one. So the fingerprint is keyed, the
key stays on this machine, and nothing that is written holds it.

Every evaluation that is published answers a query. Whoever may ask for numbers about tables of their own making, again
and again, gets the real table out of the numbers. Nothing here stops that; it is counted, so that a report can say how
often it was done. The log is kept beside the key, and lines are only ever added. A line holds the keyed fingerprint of
the table and the declared name of its dataset. Another machine, another key or another schema counts anew. What may be
published counts by the name alone. Two counts by the fingerprint would tell whether a single row changed in between.

What a model was fitted on stands in a log of its own, and not in the model: a private model that is handed on says
nothing exact of real rows, not even under a key.

Source: Ganev & De Cristofaro 2023, arXiv:2312.05114 (ReconSyn: reconstruction from metrics that are open to queries).
"""

import hashlib
import hmac
import json
import os
import platform
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from evaluate.provenance import CountedAttempts, EvaluationCounts, Provenance
from synth import extras
from synth.errors import JobError, OutputError
from synth.extras import VERSION
from synth.generators.models.model import ARRAYS, DESCRIPTION
from synth.row_hash import ContentSums, Table, content_sums
from synth.schema import Schema
from synth.table.files import list_files
from synth.table.rows import Rows
from synth.table.table import Chunk
from synth.table.table import Table as MappedRows
from synth.validation import GivenFile, plain_json

KEY_VARIABLE = "UNDERSTUDY_KEY_FILE"
KEY_BYTES = 32
INPUTS = ("job", "schema", "policy", "waivers")
PACKAGES = (
    "numpy", "pandas", "scipy", "scikit-learn", "pyarrow", "pydantic", "opendp", "dp-accounting",
    "safetensors", "torch", "opacus", "cryptography",
)  # fmt: skip
FILE_VARIABLE = "UNDERSTUDY_ATTEMPTS_FILE"
_LINE = {"table": str, "attempt": str, "tables": int, "at": str}
PATIENCE_S = 10.0
"""Seconds that another process that counts is waited for."""
MODELS = "models.jsonl"
_OF_MODEL = {"model": str, "train": str, "columns": str}


def versions() -> dict[str, str]:
    """Versions of Python, of the platform and of the installed packages that numbers depend on."""
    known = {"python": platform.python_version(), "platform": platform.platform(), "understudy": VERSION}
    for name in (*PACKAGES, *extras.entries("library")):
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; of a table in parts, that of the digests of its parts, with their names.

    For what is synthetic or public, never for a real table.
    """
    if not path.is_file():
        home = path if path.is_dir() else path.parent
        parts = sorted((os.path.relpath(part, home), part) for part in list_files(path))
        lines = "".join(f"{sha256(part_path)}  {name}\n" for name, part_path in parts)  # as `sha256sum` writes them
        return hashlib.sha256(lines.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_path() -> Path:
    if os.environ.get(KEY_VARIABLE):
        return Path(os.environ[KEY_VARIABLE])
    if os.environ.get("XDG_CONFIG_HOME"):
        return Path(os.environ["XDG_CONFIG_HOME"]) / "understudy" / "fingerprint.key"
    try:
        return Path.home() / ".config" / "understudy" / "fingerprint.key"
    except RuntimeError:
        raise OutputError(f"there is no home folder for the fingerprint's key; set {KEY_VARIABLE} to a file") from None


def fingerprint_key(path: Path | None = None) -> bytes:
    """The key of this machine's fingerprints, made on first use, readable by its owner only."""
    path = path or key_path()
    try:
        if not path.exists():
            _make_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise OutputError(
            f"the fingerprint's key cannot be read or made: path={str(path)!r} ({error.strerror}); "
            f"set {KEY_VARIABLE} to a file that can"
        ) from None
    if len(key) < KEY_BYTES:
        raise OutputError(f"the fingerprint's key is shorter than {KEY_BYTES} bytes: path={str(path)!r}; remove it")
    return key


def _make_key(path: Path) -> None:
    """Written beside, then linked: of two processes that make one at once, one wins and no half key is ever read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=".key.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        os.link(beside, path)
    except FileExistsError:
        pass
    finally:
        Path(beside).unlink()


def fingerprint(real: Table | MappedRows, schema: Schema, key: bytes) -> str:
    """A keyed name for a real table: the same whatever its format, its place and the order of its rows and columns."""
    return _named(_sums(real, schema), schema, key)


def fingerprints(train: Table, holdout: Table | None, schema: Schema, key: bytes) -> dict[str, str]:
    """The fingerprints of a real table and of its sides, as many as there are. `train`, `holdout`: *Sensitive*."""
    sides = {"train": _sums(train, schema)} | ({} if holdout is None else {"holdout": _sums(holdout, schema)})
    return {
        name: _named(sums, schema, key) for name, sums in {"table": reduce(_added, sides.values()), **sides}.items()
    }


def fingerprint_of_all(prints: list[str], key: bytes) -> str:
    return f"hmac-sha256:{hmac.new(key, json.dumps(prints).encode(), 'sha256').hexdigest()}"


def _sums(real: Table | MappedRows, schema: Schema) -> ContentSums:
    """*Sensitive*. Sums over the digests of all rows."""
    if not isinstance(real, MappedRows):
        return content_sums(real, schema)
    return reduce(_added, real.map(partial(_sums_of_part, schema), schema))


def _sums_of_part(schema: Schema, chunks: Iterator[Chunk]) -> ContentSums:
    return content_sums(Rows.from_chunks(chunks, schema), schema)


def _added(sums: ContentSums, other: ContentSums) -> ContentSums:
    first, second, third, fourth = (a + b for a, b in zip(sums.sums, other.sums, strict=True))
    return replace(sums, n_rows=sums.n_rows + other.n_rows, sums=(first, second, third, fourth))


def _named(sums: ContentSums, schema: Schema, key: bytes) -> str:
    content = json.dumps([sorted(schema.kept), sums.n_rows, *sums.sums]).encode()
    return f"hmac-sha256:{hmac.new(key, content, 'sha256').hexdigest()}"


def now() -> str:
    """The moment it is, in UTC, as evaluations and manifests write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_inputs(known: Provenance, inputs: Mapping[str, GivenFile]) -> Provenance:
    """Provenance with a run's id, its moment, hashes of its input files and versions, as far as it lacks them."""
    hashes: dict[str, Any] = {f"{name}_sha256": inputs[name].sha256 for name in INPUTS if name in inputs}
    run_id, evaluated_at = known.run_id or secrets.token_hex(8), known.evaluated_at or now()
    return replace(known, run_id=run_id, evaluated_at=evaluated_at, versions=versions(), **hashes)


def count_attempt(print_of_table: str, schema: Schema, *, attempt: str, n_tables: int) -> CountedAttempts | None:
    """The attempts on a table with this one among them; `None` where they cannot be counted.

    Beside them, under `by_name`, stand those on all versions of its dataset, by name and unit as ledgers know it. They
    are `None` where the schema names no dataset.
    """
    name = {"dataset": schema.dataset, "unit": schema.unit}
    line = {"table": print_of_table, "attempt": attempt, "tables": n_tables, "at": now()[:10], **name}
    try:
        path = Path(os.environ.get(FILE_VARIABLE) or key_path().with_name("attempts.jsonl"))
        lines = _noted(path, line, ("table", "attempt"), _LINE)
    except (OSError, OutputError, Timeout):
        return None
    of_table = [line for line in lines if line["table"] == print_of_table]
    of_name = [line for line in lines if schema.dataset is not None and line.items() >= name.items()]
    return CountedAttempts(*_counted(of_table), by_name=EvaluationCounts(*_counted(of_name)) if of_name else None)


def note_training(model: Path, train: str, schema: Schema) -> None:
    """Keep which rows a saved model was fitted on; without a place to keep it, nothing is known later."""
    with suppress(OSError, OutputError, Timeout):
        line = {**_of_model(model, schema), "train": train}
        _noted(key_path().with_name(MODELS), line, tuple(line), _OF_MODEL)


def check_training(model: Path, prints: Mapping[str, str], schema: Schema) -> None:
    """Refuse a model that was fitted on other rows than these, as far as this machine knows."""
    asked = _of_model(model, schema)
    lines = _lines(key_path().with_name(MODELS), _OF_MODEL)
    fitted = [line["train"] for line in lines if line.items() >= asked.items()]
    if not fitted or prints["train"] in fitted:
        return
    if prints.get("holdout") in fitted:
        raise JobError(f"model={str(model)!r} was fitted on the rows of the holdout; swap the two sides")
    raise JobError(f"model={str(model)!r} was fitted on other rows than those of train; name the rows of its fit")


def _of_model(model: Path, schema: Schema) -> dict[str, str]:
    """A keyed name for a saved model, and the columns that a fingerprint is of: clamped elsewhere, rows are others."""
    digests = [sha256(model / name) for name in (DESCRIPTION, ARRAYS)]
    name = hmac.new(fingerprint_key(), json.dumps(digests).encode(), "sha256").hexdigest()
    columns = {name: schema.columns[name].model_dump(mode="json") for name in schema.kept}
    return {"model": name, "columns": hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()}


def _counted(lines: Sequence[Mapping[str, Any]]) -> tuple[int, int, str]:
    first = min(str(line["at"]) for line in lines)
    return len(lines), sum(int(line["tables"]) for line in lines), first


def _noted(path: Path, line: dict[str, Any], same: tuple[str, ...], keys: Mapping[str, type]) -> list[dict[str, Any]]:
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

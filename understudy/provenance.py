"""The provenance of a run: versions, hashes of public files, and a keyed fingerprint of the real table.

A plain hash of a real table lets whoever knows all rows but one confirm the last one. So the fingerprint is keyed, the
key stays on this machine, and nothing that is written holds it.
"""

import hashlib
import hmac
import json
import os
import platform
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.provenance import Provenance
from synth import extras
from synth.errors import OutputError
from synth.extras import VERSION

if TYPE_CHECKING:
    from synth.row_hash import ContentSums, Table
    from synth.schema import Schema
    from synth.table.table import Chunk
    from synth.table.table import Table as MappedRows
    from synth.validation import GivenFile

KEY_VARIABLE = "UNDERSTUDY_KEY_FILE"
KEY_BYTES = 32
INPUTS = ("job", "schema", "policy", "waivers")
PACKAGES = (
    "numpy", "pandas", "scipy", "scikit-learn", "pyarrow", "pydantic", "opendp", "dp-accounting",
    "safetensors", "torch", "opacus", "cryptography",
)  # fmt: skip


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
        from synth.table.files import list_files

        home = path if path.is_dir() else path.parent
        parts = sorted((os.path.relpath(part, home), part) for part in list_files(path))
        lines = "".join(f"{sha256(part_path)}  {name}\n" for name, part_path in parts)  # as `sha256sum` writes them
        return hashlib.sha256(lines.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_path(environment: Mapping[str, str] = os.environ) -> Path:
    if environment.get(KEY_VARIABLE):
        return Path(environment[KEY_VARIABLE])
    if environment.get("XDG_CONFIG_HOME"):
        return Path(environment["XDG_CONFIG_HOME"]) / "understudy" / "fingerprint.key"
    try:
        return Path.home() / ".config" / "understudy" / "fingerprint.key"
    except RuntimeError:
        raise OutputError(f"there is no home folder for the fingerprint's key; set {KEY_VARIABLE} to a file") from None


def fingerprint_key(path: Path) -> bytes:
    """The key of this machine's fingerprints, made on first use, readable by its owner only."""
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


def fingerprint(real: "Table | MappedRows", schema: "Schema", key: bytes) -> str:
    """A keyed name for a real table: the same whatever its format, its place and the order of its rows and columns."""
    return _named(_sums(real, schema), schema, key)


def fingerprints(train: "Table", holdout: "Table | None", schema: "Schema", key: bytes) -> dict[str, str]:
    """The fingerprints of a real table and of its sides, as many as there are. `train`, `holdout`: *Sensitive*."""
    sides = {"train": _sums(train, schema)} | ({} if holdout is None else {"holdout": _sums(holdout, schema)})
    both = sides["train"] if holdout is None else _added(sides["train"], sides["holdout"])
    return {name: _named(sums, schema, key) for name, sums in {"table": both, **sides}.items()}


def fingerprint_of_all(prints: list[str], key: bytes) -> str:
    """A keyed name for several real tables together."""
    return f"hmac-sha256:{hmac.new(key, json.dumps(prints).encode(), 'sha256').hexdigest()}"


def _sums(real: "Table | MappedRows", schema: "Schema") -> "ContentSums":
    """*Sensitive*. Sums over the digests of all rows."""
    from synth.row_hash import content_sums
    from synth.table.table import Table

    if not isinstance(real, Table):
        return content_sums(real, schema)
    return reduce(_added, real.map(partial(_sums_of_part, schema), schema))


def _sums_of_part(schema: "Schema", chunks: "Iterator[Chunk]") -> "ContentSums":
    from synth.row_hash import content_sums
    from synth.table.rows import Rows

    return content_sums(Rows.from_chunks(chunks, schema), schema)


def _added(sums: "ContentSums", other: "ContentSums") -> "ContentSums":
    first, second, third, fourth = (a + b for a, b in zip(sums.sums, other.sums, strict=True))
    return replace(sums, n_rows=sums.n_rows + other.n_rows, sums=(first, second, third, fourth))


def _named(sums: "ContentSums", schema: "Schema", key: bytes) -> str:
    content = json.dumps([sorted(schema.kept), sums.n_rows, *sums.sums]).encode()
    return f"hmac-sha256:{hmac.new(key, content, 'sha256').hexdigest()}"


def now() -> str:
    """The moment it is, in UTC, as evaluations and manifests write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_inputs(known: Provenance, inputs: "Mapping[str, GivenFile]") -> Provenance:
    """Provenance with a run's id, its moment, hashes of its input files and versions, as far as it lacks them."""
    hashes: dict[str, Any] = {f"{name}_sha256": inputs[name].sha256 for name in INPUTS if name in inputs}
    run_id, evaluated_at = known.run_id or secrets.token_hex(8), known.evaluated_at or now()
    return replace(known, run_id=run_id, evaluated_at=evaluated_at, versions=versions(), **hashes)

"""A register of withdrawals: a file of JSON lines that an organization publishes, and that `verify` asks.

A copy of a bundle that was made before its withdrawal says nothing of it; the register does, by the manifest's digest.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from synth.output import check_writable
from synth.validation import Frozen, sentence
from understudy.bundle.documents import Signature, canonical, fits, key_of
from understudy.bundle.errors import BundleError
from understudy.bundle.folder import read_plain
from understudy.bundle.withdrawal import Withdrawal

LIMIT_BYTES = 64 * 2**20


class Entry(Frozen):
    """One line of a register."""

    withdrawal: Withdrawal
    signature: Signature | None = None


def read_register(path: Path) -> Mapping[str, tuple[Withdrawal, ...]]:
    """The withdrawals of a register by the digest of the manifest, in their order: anybody may have signed them.

    Raises:
        BundleError: it is not there, cannot be read, or a line is not whole: it is not believed in part.
    """
    try:
        content = read_plain(path.resolve(strict=True), LIMIT_BYTES)
    except FileNotFoundError:
        raise BundleError(
            f"there is no register at path={str(path)!r}, and without one nobody can say that nothing was withdrawn; "
            "fetch it, or make an empty one where nothing ever was (`touch`)"
        ) from None
    except (BundleError, OSError, RuntimeError, ValueError) as error:
        why = f": {error}" if isinstance(error, BundleError) else ""
        raise BundleError(f"the register cannot be read: path={str(path)!r}{why}") from None
    if content and not content.endswith(b"\n"):
        raise BundleError(f"the register breaks off in its last line: path={str(path)!r}; fetch it again")
    found: dict[str, tuple[Withdrawal, ...]] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        entry = _entry(line, f"path={str(path)!r}, line={number}")
        sha256 = entry.withdrawal.manifest_sha256
        found[sha256] = (*found.get(sha256, ()), entry.withdrawal)
    return found


def check_register(path: Path) -> None:
    """Refuse a register that cannot be added to, before anything is withdrawn.

    Raises:
        BundleError: it is there and is not a register.
        OutputError: it cannot be written.
    """
    check_writable(path)
    if path.exists():
        read_register(path)
        if not os.access(path, os.W_OK):
            raise BundleError(f"the register cannot be written: path={str(path)!r}; ask for access")


def add_to_register(path: Path, entries: Sequence[Entry]) -> None:
    """Add withdrawals to a register, made where there is none; what it holds by the same key is not added again.

    Raises:
        BundleError: the register is damaged; nothing was added.
    """
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "ab") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)  # two who withdraw at once must not write into each other's lines
        known = read_register(path)
        lines = [_line(entry) for entry in entries if not _is_held(entry.withdrawal, known)]
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())


def _is_held(withdrawal: Withdrawal, known: Mapping[str, tuple[Withdrawal, ...]]) -> bool:
    return any(one.signer == withdrawal.signer for one in known.get(withdrawal.manifest_sha256, ()))


def _line(entry: Entry) -> bytes:
    return (json.dumps(entry.model_dump(mode="json"), sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")


def _entry(line: bytes, place: str) -> Entry:
    try:
        entry = Entry.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise BundleError(f"the register cannot be understood: {place}: {sentence(error, Entry)}") from None
    signer, signature = entry.withdrawal.signer, entry.signature
    whole = (signer is None) == (signature is None) and (signature is None or _is_intact(entry, signature))
    if not whole or _line(entry) != line + b"\n":
        raise BundleError(f"the register was changed by something else: {place}; fetch it again")
    return entry


def _is_intact(entry: Entry, signature: Signature) -> bool:
    by = key_of(signature)
    return by == signature.fingerprint == entry.withdrawal.signer and fits(signature, canonical(entry.withdrawal))

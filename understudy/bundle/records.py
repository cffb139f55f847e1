"""Records of what people decide about a bundle: its sign-off, its withdrawal, and a register of withdrawals.

In a sign-off two people, in their roles, answer until a date for the release of one table. A withdrawal says that a
bundle is not to be relied on any more, for good. The register is a file of JSON lines that an organization publishes,
and that `verify` asks: a copy that was made before a withdrawal says nothing of it; the register does, by the
manifest's digest.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from synth.output import check_writable
from synth.validation import Frozen, sentence
from understudy.bundle.documents import Signature, canonical, fits, key_of
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.manifest import Later, Moment, Rules


class Person(Frozen):
    """Somebody who answers for something."""

    name: str = Field(min_length=1, max_length=200)
    role: str = Field(min_length=1, max_length=200)


class Accepted(Frozen):
    """A waiver in force: a rule that the table does not keep, for which somebody answers."""

    measure: str
    subject: tuple[str, ...] = ()
    owner: str
    reason: str
    until: date = Field(description="The last day on which it counts.")


class SignOff(Later):
    """A sign-off of one bundle, as it was sealed."""

    kind: Literal["sign-off"] = "sign-off"
    sign_off_version: Literal[1] = 1
    signed_at: Moment
    by: Person
    second: Person
    expires: date | None = Field(default=None, description="The last day on which it counts.")
    release: str = Field(description="The candidate whose table may be released.")
    verdict: Literal["PASS"] = "PASS"
    policy: Rules = Field(description="What it was judged by; its `audience` says for whom it is signed off.")
    waivers: tuple[Accepted, ...] = ()

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires


class Withdrawal(Later):
    """A withdrawal of one bundle, known by the digest of its manifest."""

    kind: Literal["withdrawal"] = "withdrawal"
    withdrawal_version: Literal[1] = 1
    withdrawn_at: Moment
    by: Person
    reason: str = Field(min_length=1, max_length=2000)

    @property
    def sentence(self) -> str:
        """Who withdrew it, when and why."""
        return f"withdrawn at {self.withdrawn_at} by {self.by.name!r}, {self.by.role!r}: {self.reason!r}"

    @property
    def signed_by(self) -> str:
        """Whose key signed it, in words."""
        return "not signed" if self.signer is None else f"signed by {self.signer}"


LIMIT_BYTES = 64 * 2**20


class RegisterEntry(Frozen):
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


def add_to_register(path: Path, entries: Sequence[RegisterEntry]) -> None:
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


def _line(entry: RegisterEntry) -> bytes:
    return (json.dumps(entry.model_dump(mode="json"), sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")


def _entry(line: bytes, place: str) -> RegisterEntry:
    try:
        entry = RegisterEntry.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise BundleError(f"the register cannot be understood: {place}: {sentence(error, RegisterEntry)}") from None
    signer, signature = entry.withdrawal.signer, entry.signature
    whole = (signer is None) == (signature is None) and (signature is None or _is_intact(entry, signature))
    if not whole or _line(entry) != line + b"\n":
        raise BundleError(f"the register was changed by something else: {place}; fetch it again")
    return entry


def _is_intact(entry: RegisterEntry, signature: Signature) -> bool:
    by = key_of(signature)
    return by == signature.fingerprint == entry.withdrawal.signer and fits(signature, canonical(entry.withdrawal))

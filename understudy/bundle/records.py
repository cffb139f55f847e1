"""Records of what people decide about a bundle: its sign-off, its withdrawal, and a register of withdrawals.

In a sign-off two people, in their roles, answer until a date for the release of one table. A withdrawal says that a
bundle is not to be relied on any more, for good. The register is a file of JSON lines, each a withdrawal in its
envelope, that an organization publishes and that `verify` asks. A copy that was made before a withdrawal says nothing
of it; the register does, by the manifest's digest.
"""

import base64
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
from understudy.bundle.documents import Envelope, Predicate, is_intact, parsed
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


class SignOffPredicate(Predicate):
    """The predicate of a sign-off."""

    signed_at: Moment
    by: Person
    second: Person
    expires: date | None = Field(default=None, description="The last day on which it counts.")
    release: str = Field(description="The candidate whose table may be released.")
    verdict: Literal["PASS"] = "PASS"
    policy: Rules = Field(description="What it was judged by; its `audience` says for whom it is signed off.")
    waivers: tuple[Accepted, ...] = ()


class SignOff(Later):
    """A sign-off of one bundle, as it was sealed."""

    predicate_type: Literal["urn:understudy:sign-off:2"] = Field("urn:understudy:sign-off:2", alias="predicateType")
    predicate: SignOffPredicate

    def expired(self, today: date) -> bool:
        """True where its last day is over."""
        return self.predicate.expires is not None and today > self.predicate.expires


class WithdrawalPredicate(Predicate):
    """The predicate of a withdrawal."""

    withdrawn_at: Moment
    by: Person
    reason: str = Field(min_length=1, max_length=2000)


class Withdrawal(Later):
    """A withdrawal of one bundle, known by the digest of its manifest."""

    predicate_type: Literal["urn:understudy:withdrawal:2"] = Field("urn:understudy:withdrawal:2", alias="predicateType")
    predicate: WithdrawalPredicate

    @property
    def sentence(self) -> str:
        """The withdrawal in a sentence: by whom, when and why."""
        said = self.predicate
        return f"withdrawn at {said.withdrawn_at} by {said.by.name!r}, {said.by.role!r}: {said.reason!r}"

    @property
    def signed_by(self) -> str:
        """Whose key signed it, in words."""
        return "not signed" if self.signer is None else f"signed by {self.signer}"


LIMIT_BYTES = 64 * 2**20


def read_register(path: Path) -> Mapping[str, tuple[Withdrawal, ...]]:
    """The withdrawals of a register by the digest of the manifest, in their order: anybody may have signed them."""
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
        withdrawal = _withdrawal(line, f"path={str(path)!r}, line={number}")
        sha256 = withdrawal.manifest_sha256
        found[sha256] = (*found.get(sha256, ()), withdrawal)
    return found


def check_register(path: Path) -> None:
    """Refuse a register that cannot be added to, before anything is withdrawn."""
    check_writable(path)
    if path.exists():
        read_register(path)
        if not os.access(path, os.W_OK):
            raise BundleError(f"the register cannot be written: path={str(path)!r}; ask for access")


def add_to_register(path: Path, entries: Sequence[tuple[Withdrawal, Envelope]]) -> None:
    """Add withdrawals to a register, made where there is none; what it holds by the same key is not added again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "ab") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)  # two who withdraw at once must not write into each other's lines
        known = read_register(path)
        lines = [_line(envelope) for withdrawal, envelope in entries if not _is_held(withdrawal, known)]
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())


def _is_held(withdrawal: Withdrawal, known: Mapping[str, tuple[Withdrawal, ...]]) -> bool:
    return any(one.signer == withdrawal.signer for one in known.get(withdrawal.manifest_sha256, ()))


def _line(envelope: Envelope) -> bytes:
    content = envelope.model_dump(mode="json", by_alias=True)
    return (json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")


def _withdrawal(line: bytes, place: str) -> Withdrawal:
    """The withdrawal in a line of a register."""
    try:
        envelope = Envelope.model_validate_json(line, strict=True)
        content = base64.b64decode(envelope.payload)
        withdrawal = parsed("the withdrawal", content, Withdrawal)
    except ValidationError as error:
        older = ": it has the format of an older version; begin a new one" if b'"withdrawal_version":1' in line else ""
        why = older or f": {sentence(error, Envelope)}"
        raise BundleError(f"the register cannot be understood: {place}{why}") from None
    except BundleError as error:
        raise BundleError(f"the register cannot be understood: {place}: {error}") from None
    if not is_intact(envelope, content, withdrawal) or _line(envelope) != line + b"\n":
        raise BundleError(f"the register was changed by something else: {place}; fetch it again")
    return withdrawal

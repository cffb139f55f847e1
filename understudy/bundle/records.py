"""Records of what people decide about a bundle: a sign-off, a withdrawal, and a register of withdrawals.

In a sign-off somebody answers, in a role and until a date, for the release of one table; two people have to. A
withdrawal says that a bundle is not to be relied on any more, for good. The register is a file of lines, each the
envelope of a withdrawal, that an organization publishes and that `verify` asks: a copy that was made before a
withdrawal says nothing of it, and the register does, by the manifest's digest.
"""

import fcntl
import os
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import Field

from synth.validation import Frozen
from understudy.bundle.documents import Digests, Predicate, opened
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.manifest import Later, ManifestSubject, Moment, Rules

LIMIT_BYTES = 64 * 2**20
Register = Mapping[str, tuple["Withdrawal", ...]]
"""Withdrawals by the digest of the manifest: anybody may have signed them."""


class Person(Frozen):
    """Somebody who answers for something."""

    name: str = Field(min_length=1, max_length=200)
    role: str = Field(min_length=1, max_length=200)

    @property
    def reads_as(self) -> str:
        """The name as a reader sees it, whatever its spaces, letter case and forms of letters."""
        return " ".join(unicodedata.normalize("NFKC", self.name).casefold().split())


class Accepted(Frozen):
    """A waiver in force: a rule that the table does not keep, for which somebody answers."""

    measure: str
    subject: tuple[str, ...] = ()
    owner: str
    reason: str
    until: date = Field(description="The last day on which it counts.")


class SignOffPredicate(Predicate):
    """The predicate of a sign-off, which somebody signs: nobody can write two in the names of two people."""

    public_key: str = Field(pattern=r"^[0-9a-f]{64}$", description="The 32 bytes of the key that signs this.")
    signed_at: Moment
    by: Person
    expires: date | None = Field(default=None, description="The last day on which it counts.")
    release: str = Field(description="The candidate whose table may be released.")
    verdict: Literal["PASS"] = "PASS"
    policy: Rules = Field(description="What it was judged by; its `audience` says for whom it is signed off.")
    waivers: tuple[Accepted, ...] = ()


class SignOff(Later):
    """The sign-off of one bundle, as it was sealed, by one of two people."""

    predicate_type: Literal["urn:understudy:sign-off:2"] = Field("urn:understudy:sign-off:2", alias="predicateType")
    predicate: SignOffPredicate


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
        """By whom, when and why."""
        content = self.predicate
        return f"withdrawn at {content.withdrawn_at} by {content.by.name!r}, {content.by.role!r}: {content.reason!r}"


def subject_of(sha256: str) -> tuple[ManifestSubject]:
    """The subject of a later document, by the digest of the manifest."""
    return (ManifestSubject(digest=Digests(sha256=sha256)),)


def read_register(path: Path) -> Register:
    """The withdrawals of a register, in their order."""
    try:
        content = read_plain(path.resolve(strict=True), LIMIT_BYTES)
    except FileNotFoundError:
        raise BundleError(
            f"there is no register at path={str(path)!r}, and without one nobody can say that nothing was withdrawn; "
            "fetch it, or make an empty one where nothing ever was (`touch`)"
        ) from None
    except (OSError, RuntimeError, ValueError) as error:
        raise BundleError(f"the register cannot be read: path={str(path)!r}: {error}") from None
    register = dict[str, tuple[Withdrawal, ...]]()
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        try:
            withdrawal = opened(line, Withdrawal, "the withdrawal")
        except BundleError as error:
            raise BundleError(
                f"the register was changed by something else, or breaks off: path={str(path)!r}, line={number}: "
                f"{error}; fetch it again"
            ) from None
        sha256 = withdrawal.manifest_sha256
        register[sha256] = (*register.get(sha256, ()), withdrawal)
    return register


def add_to_register(path: Path, lines: Sequence[bytes]) -> None:
    """Add withdrawals to a register, made where there is none; what it holds by the same key is not added again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)  # two who withdraw at once must not write into each other's lines
        register = read_register(path)
        for line in lines:
            new = opened(line, Withdrawal, "the withdrawal")
            if all(known.signer != new.signer for known in register.get(new.manifest_sha256, ())):
                file.write(line)
        file.flush()
        os.fsync(file.fileno())

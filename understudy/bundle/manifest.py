"""The manifest: what is in a bundle, byte for byte, in brief what it is evidence of, and what people decide of it.

Sealing writes the manifest, as the last thing that is done to a bundle: from then on every byte is accounted for. What
comes later is about it. In a sign-off somebody answers, in a role and until a date, for the release of one table; two
people have to. A withdrawal says that a bundle is not to be relied on any more, for good. The register is a file of
lines, each the envelope of a withdrawal, that an organization publishes and that `verify` asks: a copy that was made
before a withdrawal says nothing of it, and the register does, by the manifest's digest.
"""

import fcntl
import hashlib
import os
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from evaluate.gate.decision import Outcome
from evaluate.gate.policy import Policy
from synth.validation import Frozen
from understudy.bundle.signing import (
    FILE,
    FOLDER,
    LIMIT_BYTES,
    SIGNATURE,
    BundleError,
    Digest,
    Digests,
    Predicate,
    Signer,
    Statement,
    Subject,
    contents,
    digest,
    enveloped,
    opened,
    public_hex,
    read_plain,
    remove_document,
    write_document,
)

MANIFEST, WITHDRAWAL = "manifest.json", "withdrawal.json"
SIGN_OFFS = ("sign-off-1.json", "sign-off-2.json")
LATER = (*SIGN_OFFS, WITHDRAWAL)
"""Documents that may be put into a bundle after it was sealed."""
RESERVED = frozenset(f"{name}{suffix}" for name in (MANIFEST, *LATER) for suffix in ("", SIGNATURE))
"""Names at the top of a bundle that are the bundle's own."""
TO_HAND_ON = "to-hand-on"
"""The folder of an internal bundle that is a bundle to hand on, whole by itself."""
LONGEST = 1024
"""Characters of a path: other systems open no longer ones."""

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$", description="UTC.")]
REGISTER_LIMIT_BYTES = 64 * 2**20
Register = Mapping[str, tuple["Withdrawal", ...]]
"""Withdrawals by the digest of the manifest: anybody may have signed them."""


class Annotations(Frozen):
    """The size of a file: one of another size is not read."""

    size: int = Field(ge=0, le=2**62, description="Bytes.")


class File(Subject):
    """One file of a bundle."""

    name: str = Field(description="Path from the bundle's folder, with / between the parts.")
    annotations: Annotations


class Rules(Frozen):
    """The policy that was applied."""

    name: str
    version: int
    audience: str = Field(description="Who may have a table that passes.")

    @property
    def audience_line(self) -> str:
        """For whom, and by which policy.

        >>> Rules(name="partner", version=2, audience="a partner under contract").audience_line
        'a partner under contract (policy partner, version 2)'
        """
        return f"{self.audience} (policy {self.name}, version {self.version})"


class About(Frozen):
    """The subject of a bundle's evidence, in brief.

    A public one holds nothing that was read off real rows: no verdict, since it rests on them, and no seed, since
    whoever knows all rows but one and can fit again from the same seed can try guesses of that row.
    """

    kind: Literal["internal", "to-hand-on"]
    made_at: Moment
    valid_until: date | None = Field(default=None, description="The last day on which it may be relied on.")
    run_id: str | None = None
    title: str
    dataset: str | None = Field(default=None, description="Its declared name.")
    unit: str | None = Field(default=None, description="The unit of privacy.")
    policy: Rules
    release: str | None = Field(default=None, description="The candidate named for release.")
    releasable: bool = Field(default=True, description="False for a sweep whose private fits nobody pays for.")
    verdict: Outcome | None = Field(default=None, description="On the candidate named for release.")
    verdicts: dict[str, Outcome] = Field(default_factory=dict, description="On every candidate.")
    seeds: dict[str, int] = Field(default_factory=dict, description="Of every draw but private noise.")
    versions: dict[str, str] = Field(default_factory=dict, description="Of everything installed that matters.")


class ManifestPredicate(Predicate):
    """The predicate of a manifest."""

    about: About


class Manifest(Statement):
    """Every file of a bundle with its digest; what it does not name does not belong there."""

    predicate_type: Literal["urn:understudy:manifest:2"] = Field("urn:understudy:manifest:2", alias="predicateType")
    subject: tuple[File, ...] = Field(description="Sorted by name.")
    predicate: ManifestPredicate

    @field_validator("subject")
    @classmethod
    def _inside(cls, subject: tuple[File, ...]) -> tuple[File, ...]:
        names = [file.name for file in subject]
        for path in names:
            check_path(path)
        if names != sorted(set(names)):
            raise ValueError("its files are not sorted by name, or one is named twice")
        return subject

    @property
    def about(self) -> About:
        return self.predicate.about

    @property
    def files(self) -> dict[str, File]:
        return {file.name: file for file in self.subject}

    @property
    def holds_public(self) -> bool:
        """True where a bundle to hand on lies in it."""
        return f"{TO_HAND_ON}/{MANIFEST}" in self.files


class ManifestSubject(Subject):
    """The manifest that a later document is about."""

    name: Literal["manifest.json"] = "manifest.json"


class Later(Statement):
    """A document that is put into a bundle after it was sealed."""

    subject: tuple[ManifestSubject] = Field(description="Which bundle it is about: its manifest.")

    @property
    def manifest_sha256(self) -> Digest:
        return self.subject[0].digest.sha256

    def plain(self) -> dict[str, Any]:
        """Its content without the form of a statement."""
        known = {"manifest_sha256": self.manifest_sha256, "signer": self.signer}
        return {**known, **self.predicate.model_dump(mode="json")}


def check_path(path: str) -> None:
    """Refuse a path that leaves the folder, cannot travel to every system, or is the manifest's own."""
    shown = f"path={path!r}" if len(path) <= LONGEST else f"path={path[:40]!r}..."
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise BundleError(f"a path leads out of the folder, or is not plain: {shown}; no bundle holds such a file")
    if "\\" in path or ":" in path.partition("/")[0][1:2] or not path.isprintable() or len(path) > LONGEST:
        raise BundleError(
            f"a file's name holds a backslash, a drive, or what does not print, or is longer than {LONGEST} "
            f"characters: {shown}; name the file otherwise"
        )
    if path in RESERVED:
        raise BundleError(f"a bundle's own files are in no manifest: {shown}; remove it there")


def last_day(policy: Policy, evaluated_at: object, made_at: str) -> date | None:
    """The last day on which what was judged by a policy may be relied on; none where the policy sets no end.

    It counts from the evaluation: a new seal makes old evidence no younger.
    """
    if policy.valid_days is None:
        return None
    counts = f"evidence counts for valid_days={policy.valid_days} of policy={policy.name!r}"
    try:
        until = date.fromisoformat(min(str(evaluated_at), made_at)[:10]) + timedelta(days=policy.valid_days)
        date.fromisoformat(str(evaluated_at)[:10])
    except (ValueError, OverflowError):
        raise BundleError(
            f"{counts}, and evaluated_at={evaluated_at!r} is no day to count from; evaluate again"
        ) from None
    if date.fromisoformat(made_at[:10]) > until:
        raise BundleError(f"{counts}: the evaluation of {str(evaluated_at)[:10]} counted until {until}; evaluate again")
    return until


def seal(folder: Path, about: About, signer: Signer | None) -> str:
    """Write the manifest of everything in a folder, and sign it: its SHA-256, which tells it from every other.

    Empty folders are removed, since no manifest can name them; a manifest that is there already is replaced.
    """
    for name in (MANIFEST, *LATER):
        remove_document(folder, name)
    for at, _, _ in os.walk(folder, topdown=False):
        if Path(at) != folder and not os.listdir(at):  # noqa: PTH208 - the first name is enough
            Path(at).rmdir()
    files = []
    for path, kind in sorted(contents(folder).items()):
        if kind == FOLDER:
            continue
        if kind != FILE:
            raise BundleError(f"a bundle holds plain files only: {path!r} is {kind}; take it out")
        check_path(path)
        sha256, size = digest(folder / path)
        files.append(File(name=path, digest=Digests(sha256=sha256), annotations=Annotations(size=size)))
    predicate = ManifestPredicate(about=about, public_key=public_hex(signer))
    line = enveloped(Manifest(subject=tuple(files), predicate=predicate), signer)
    if len(line) > LIMIT_BYTES:
        raise BundleError(f"a bundle of so many files cannot be verified: files={len(files)}; put fewer into it")
    return write_document(folder, MANIFEST, line)


def sealed_digest(folder: Path) -> str:
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def rules_of(policy: Policy) -> Rules:
    return Rules(name=policy.name, version=policy.version, audience=policy.audience)


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
        content = self.predicate
        return f"withdrawn at {content.withdrawn_at} by {content.by.name!r}, {content.by.role!r}: {content.reason!r}"


def subject_of(sha256: str) -> tuple[ManifestSubject]:
    return (ManifestSubject(digest=Digests(sha256=sha256)),)


def read_register(path: Path) -> Register:
    try:
        content = read_plain(path.resolve(strict=True), REGISTER_LIMIT_BYTES)
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

"""The manifest: what is in a bundle, byte for byte, and in brief what it is the evidence of.

Sealing writes it, as the last thing that is done to a bundle: from then on every byte is accounted for.
"""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from evaluate.gate.policy import Policy
from synth.validation import Frozen
from understudy.bundle.documents import (
    DIGEST,
    LIMIT_BYTES,
    SIGNATURE,
    Digest,
    Digests,
    Predicate,
    Statement,
    Subject,
    canonical,
    remove_document,
    write_document,
)
from understudy.bundle.files import BundleError, contents, digest
from understudy.bundle.keys import Signer

MANIFEST, SIGN_OFF, WITHDRAWAL = "manifest.json", "sign-off.json", "withdrawal.json"
LATER = (SIGN_OFF, WITHDRAWAL)
"""Documents that may be put into a bundle after it was sealed."""
TO_HAND_ON = "to-hand-on"
"""The folder of an internal bundle that is a bundle to hand on, whole by itself."""

LONGEST = 1024
"""Characters of a path: other systems open no longer ones."""

MOMENT = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"
Moment = Annotated[str, Field(pattern=MOMENT, description="UTC.")]
Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]


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
        """In brief, the evidence that the files are."""
        return self.predicate.about

    @property
    def files(self) -> dict[str, File]:
        """Its files by path."""
        return {file.name: file for file in self.subject}

    @property
    def folders(self) -> frozenset[str]:
        """The folders that its files lie in."""
        return frozenset(parent for path in self.files for parent in _parents(path))

    @property
    def holds_public(self) -> bool:
        """True where a bundle to hand on lies in it."""
        return f"{TO_HAND_ON}/{MANIFEST}" in self.files

    def expired(self, today: date) -> bool:
        """True where its last day is over."""
        return self.about.valid_until is not None and today > self.about.valid_until


class ManifestSubject(Subject):
    """The manifest that a later document is about."""

    name: Literal["manifest.json"] = "manifest.json"


class Later(Statement):
    """A document that is put into a bundle after it was sealed."""

    subject: tuple[ManifestSubject] = Field(description="Which bundle it is about: its manifest.")

    @property
    def manifest_sha256(self) -> Digest:
        """SHA-256 of the manifest that it is about."""
        return self.subject[0].digest.sha256

    def plain(self) -> dict[str, Any]:
        """Its content without the form of a statement."""
        known = {"manifest_sha256": self.manifest_sha256, "signer": self.signer}
        return {**known, **self.predicate.model_dump(mode="json")}


def manifest_subject(sha256: str) -> tuple[ManifestSubject]:
    """The subject of a later document, by the digest of the manifest."""
    return (ManifestSubject(digest=Digests(sha256=sha256)),)


def check_path(path: str) -> None:
    """Refuse a path that leaves the folder, cannot travel to every system, or is the manifest's own."""
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise BundleError(
            f"a path leads out of the folder, or is not plain: path={path!r}; no bundle holds such a file"
        )
    if "\\" in path or ":" in path.partition("/")[0][1:2] or not path.isprintable():
        raise BundleError(
            f"a file's name holds a backslash, a drive, or what does not print: path={path!r}; name the file otherwise"
        )
    if len(path) > LONGEST:
        raise BundleError(f"a path is longer than {LONGEST} characters: path={path[:40]!r}...; name the file otherwise")
    if path in RESERVED:
        raise BundleError(f"a bundle's own files are in no manifest: path={path!r}; remove it there")


def check_alike(paths: Iterable[str]) -> None:
    """Refuse paths that some file systems cannot tell apart, or not from the bundle's own files."""
    known = {_folded(path): path for path in RESERVED}
    for path in dict.fromkeys(part for one in sorted(paths) for part in (*_parents(one), one)):
        same = known.setdefault(_folded(path), path)
        if same != path:
            raise BundleError(
                f"some file systems cannot tell two names apart: path={path!r} and {same!r}; name one otherwise"
            )


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


RESERVED = frozenset(f"{name}{suffix}" for name in (MANIFEST, *LATER) for suffix in ("", DIGEST, SIGNATURE))
"""Names at the top of a bundle that are the bundle's own."""


def sealed_digest(folder: Path) -> str:
    """The SHA-256 of the manifest of a bundle that was just sealed: what tells it from every other."""
    return (folder / f"{MANIFEST}{DIGEST}").read_text(encoding="ascii")[:64]


def moment(at: datetime) -> str:
    """A moment as manifests write it.

    >>> moment(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def last_day(policy: Policy, evaluated_at: object, made_at: str) -> date | None:
    """The last day on which what was judged by a policy may be relied on; none where the policy sets no end.

    It counts from the evaluation: a new seal makes old evidence no younger.
    """
    if policy.valid_days is None:
        return None
    if not isinstance(evaluated_at, str) or re.fullmatch(MOMENT, evaluated_at) is None:
        raise BundleError(
            f"evidence counts for valid_days={policy.valid_days} of policy={policy.name!r}, and the evaluation does "
            "not say when it was made; evaluate again"
        )
    try:
        until = date.fromisoformat(min(evaluated_at, made_at)[:10]) + timedelta(days=policy.valid_days)
    except (ValueError, OverflowError):
        raise BundleError(f"evaluated_at={evaluated_at!r} is no day to count from; evaluate again") from None
    if date.fromisoformat(made_at[:10]) > until:
        raise BundleError(
            f"the evaluation is of {evaluated_at[:10]} and counted until {until}, by valid_days={policy.valid_days} of "
            f"policy={policy.name!r}; evaluate again"
        )
    return until


def _parents(path: str) -> tuple[str, ...]:
    parts = path.split("/")[:-1]
    return tuple("/".join(parts[: n + 1]) for n in range(len(parts)))


def seal(folder: Path, about: About, signer: Signer | None) -> Manifest:
    """Write the manifest of everything in a folder, and sign it.

    Empty folders are removed, since no manifest can name them; a manifest that is there already is replaced.
    """
    for name in (MANIFEST, *LATER):
        remove_document(folder, name)
    _remove_empty(folder)
    found = contents(folder)
    for path, what in sorted(found.odd.items()):
        raise BundleError(f"a bundle holds plain files only: {path!r} is {what}; take it out")
    check_alike(found.files)
    files = []
    for path, place in sorted(found.files.items()):
        check_path(path)
        sha256, size = digest(place)
        files.append(File(name=path, digest=Digests(sha256=sha256), annotations=Annotations(size=size)))
    key = None if signer is None else signer.public_key
    manifest = Manifest(subject=tuple(files), predicate=ManifestPredicate(about=about, public_key=key))
    if len(canonical(manifest)) > LIMIT_BYTES:
        raise BundleError(f"a bundle of so many files cannot be verified: files={len(files)}; put fewer into it")
    write_document(folder, MANIFEST, manifest, signer)
    return manifest


def rules_of(policy: Policy) -> Rules:
    """The policy, in brief."""
    return Rules(name=policy.name, version=policy.version, audience=policy.audience)


def _remove_empty(folder: Path) -> None:
    while empty := contents(folder).empty_folders:
        for path in empty:
            (folder / path).rmdir()

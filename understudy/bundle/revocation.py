"""Revocation: a bundle that is not to be relied on any more is withdrawn, with the public one in it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from understudy.bundle.documents import DIGEST, Envelope, Opened, canonical, envelope_of, open_document, write_document
from understudy.bundle.files import BundleError
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON, WITHDRAWAL, Manifest, manifest_subject, moment
from understudy.bundle.records import (
    Person,
    Withdrawal,
    WithdrawalPredicate,
    add_to_register,
    check_register,
    read_register,
)
from understudy.bundle.verification import check_bundle


@dataclass(frozen=True)
class Recall:
    """A withdrawal and the records of it."""

    by: Person
    reason: str
    register: Path | None = None
    manifest_sha256: str | None = None


def withdraw(folder: Path, asked: Recall, signer: Signer | None) -> tuple[Withdrawal, ...]:
    """Withdraw a bundle, and the bundle to hand on that was sealed with it, for good.

    What was withdrawn already by the same key, or by the key that sealed it, is only added to the register. A
    withdrawal by another key is replaced, since anybody may have written it. Other changes to a bundle are no obstacle:
    whatever came of it is not to be relied on. A bundle to hand on that was moved away is withdrawn by the digest of
    its manifest, which the outer one names.
    """
    check_bundle(folder)
    register = asked.register
    if register is not None:
        check_register(register)
    mine = None if signer is None else signer.fingerprint
    sealed_by, places = _withdrawable(folder, asked.manifest_sha256)

    def stands(one: Withdrawal | None) -> bool:
        """True where whoever would believe the new withdrawal believes this one."""
        return one is not None and (mine is None or sealed_by is None or one.signer in (mine, sealed_by))

    found = {sha256: _withdrawal(place, sha256) for sha256, place in places.items()}
    before = {sha256: entry for sha256, entry in found.items() if entry is not None and stands(entry[0])}
    known = {} if register is None or not register.exists() else read_register(register)
    written = all(sha256 in before for sha256, place in places.items() if place is not None)
    if written and (register is None or all(any(map(stands, known.get(sha256, ()))) for sha256 in places)):
        earlier = before[next(iter(places))][0]
        raise BundleError(f"it is withdrawn already and for good: {earlier.sentence}; nothing is left to do")
    key = None if signer is None else signer.public_key
    said = WithdrawalPredicate(public_key=key, withdrawn_at=moment(datetime.now(UTC)), by=asked.by, reason=asked.reason)
    entries: list[tuple[Withdrawal, Envelope]] = []
    for sha256, place in reversed(places.items()):  # the public one first: as long as the outer is not, it is not done
        made = Withdrawal(subject=manifest_subject(sha256), predicate=said)
        if sha256 in before:
            entries.append(before[sha256])
        elif place is not None:
            entries.append((made, write_document(place, WITHDRAWAL, made, signer)))
        else:
            entries.append((made, envelope_of(canonical(made), signer)))
    if register is not None:
        add_to_register(register, entries)
    return tuple(withdrawal for withdrawal, _ in reversed(entries))


def doubt(folder: Path, withdrawal: Withdrawal) -> str | None:
    """A sentence on readers who will not believe a withdrawal; `None` where all who can do."""
    manifest = open_document(folder, MANIFEST, Manifest).document
    sealed_by = None if manifest is None else manifest.signer
    if withdrawal.signer is None:
        return "the withdrawal is not signed, so that whoever names a key to `verify` does not believe it; pass --key"
    if sealed_by is None or withdrawal.signer == sealed_by:
        return None
    return (
        f"the withdrawal is signed by another key than {MANIFEST}, so that whoever names that one alone does not "
        "believe it; withdraw it with that key, or have those who verify name this one, too (--sign-off-key)"
    )


def _withdrawable(folder: Path, expected: str | None) -> tuple[str | None, dict[str, Path | None]]:
    """The bundle's key, and digests of its manifest and of the public one, with their folders.

    A folder of `None` is gone.

    The manifest must be as it was sealed. That what lies beside it was lost is no obstacle, as long as one of digest
    and signature, or whoever noted the digest elsewhere, says so.
    """
    opened = open_document(folder, MANIFEST, Manifest)
    touched = {path for problem in opened.problems for path in problem.paths}
    told = expected == opened.sha256 if expected is not None else _is_told(opened, touched)
    if opened.document is None or not told:
        why = opened.problems[0].sentence if opened.problems else f"{MANIFEST} has manifest_sha256={opened.sha256}"
        raise BundleError(
            f"nobody can say what would be withdrawn: {why}; withdraw an intact copy, or pass the digest that was "
            "noted when it was sealed as --manifest-sha256"
        )
    places: dict[str, Path | None] = {opened.sha256: folder}
    if opened.document.holds_public:
        public = folder / TO_HAND_ON
        there = public.is_dir() and not public.is_symlink()
        places[opened.document.files[f"{TO_HAND_ON}/{MANIFEST}"].digest.sha256] = public if there else None
    return opened.document.signer, places


def _is_told(opened: Opened[Manifest], touched: set[str]) -> bool:
    """True where digest or signature confirms a manifest as sealed, and neither denies it."""
    return MANIFEST not in touched and (opened.signer is not None or f"{MANIFEST}{DIGEST}" not in touched)


def _withdrawal(folder: Path | None, sha256: str) -> tuple[Withdrawal, Envelope] | None:
    """The intact withdrawal that is there already, in its envelope, too; none where none is."""
    if folder is None:
        return None
    opened = open_document(folder, WITHDRAWAL, Withdrawal)
    found, envelope = opened.document, opened.envelope
    if opened.problems or found is None or envelope is None or found.manifest_sha256 != sha256:
        return None
    return found, envelope

"""Revocation: a bundle that is not to be relied on any more is withdrawn, with the public one in it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from understudy.bundle.documents import (
    DIGEST,
    LIMIT_BYTES,
    SIGNATURE,
    Opened,
    Signature,
    canonical,
    open_document,
    parsed,
    signed,
    write_document,
)
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import MANIFEST, PUBLIC, WITHDRAWAL, Manifest, moment
from understudy.bundle.records import Person, RegisterEntry, Withdrawal, add_to_register, check_register, read_register
from understudy.bundle.verification import check_bundle


@dataclass(frozen=True)
class Recall:
    """What is withdrawn, and what of it is noted where.

    Attributes:
        by: who withdraws it.
        reason: why; it is published with the register.
        register: a file of withdrawals to add it to; none: it is added to none.
        manifest_sha256: of the manifest as it was sealed, from whoever noted it; none: the bundle itself has to tell.
    """

    by: Person
    reason: str
    register: Path | None = None
    manifest_sha256: str | None = None


def withdraw(folder: Path, asked: Recall, signer: Signer | None) -> tuple[Withdrawal, ...]:
    """Withdraw a bundle, and the public bundle that was sealed with it, for good.

    What was withdrawn already by the same key, or by the key that sealed it, is only added to the register. A
    withdrawal by another key is replaced, since anybody may have written it. Other changes to a bundle are no obstacle:
    whatever came of it is not to be relied on. A public bundle that was moved away is withdrawn by the digest of its
    manifest, which the outer one names.

    Args:
        folder: a bundle.
        asked: by whom, why, and which.
        signer: signs the withdrawal; none: nobody does.

    Returns:
        Its withdrawal, and that of the public bundle in it.

    Raises:
        BundleError: its manifest is not as it was sealed, so that nobody can say what is withdrawn, or it was withdrawn
            already and no register lacks it; nothing was written.
        OutputError: the register cannot be written; nothing was written.
    """
    check_bundle(folder)
    register = asked.register
    if register is not None:
        check_register(register)
    mine = None if signer is None else signer.fingerprint
    sealed_by, places = _withdrawable(folder, asked.manifest_sha256)

    def stands(one: Withdrawal | None) -> bool:
        """Whether whoever would believe the new withdrawal believes this one."""
        return one is not None and (mine is None or sealed_by is None or one.signer in (mine, sealed_by))

    found = {sha256: _withdrawal(place, sha256) for sha256, place in places.items()}
    before = {sha256: one if stands(one) else None for sha256, one in found.items()}
    known = {} if register is None or not register.exists() else read_register(register)
    written = all(before[sha256] is not None for sha256, place in places.items() if place is not None)
    if written and (register is None or all(any(map(stands, known.get(sha256, ()))) for sha256 in places)):
        earlier = before[next(iter(places))]
        assert earlier is not None
        raise BundleError(f"it is withdrawn already and for good: {earlier.sentence}; nothing is left to do")
    made = Withdrawal(
        signer=mine,
        manifest_sha256=next(iter(places)),
        withdrawn_at=moment(datetime.now(UTC)),
        by=asked.by,
        reason=asked.reason,
    )
    entries = []
    for sha256, place in reversed(places.items()):  # the public one first: as long as the outer is not, it is not done
        withdrawal = before[sha256] or made.model_copy(update={"manifest_sha256": sha256})
        if before[sha256] is None and place is not None:
            write_document(place, WITHDRAWAL, withdrawal, signer)
        signature = _signature(place, withdrawal) if before[sha256] else _signed(withdrawal, signer)
        entries.append(RegisterEntry(withdrawal=withdrawal, signature=signature))
    if register is not None:
        add_to_register(register, entries)
    return tuple(entry.withdrawal for entry in reversed(entries))


def doubt(folder: Path, withdrawal: Withdrawal) -> str | None:
    """Who will not believe a withdrawal of a bundle, in a sentence; `None` where everybody does who can."""
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
    """Who sealed the bundle, and the digests of the manifests of it and of the public one in it, with their folders.

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
        public = folder / PUBLIC
        there = public.is_dir() and not public.is_symlink()
        places[opened.document.files[f"{PUBLIC}/{MANIFEST}"].sha256] = public if there else None
    return opened.document.signer, places


def _is_told(opened: Opened[Manifest], touched: set[str]) -> bool:
    """Whether digest or signature says that a manifest is as it was sealed, and neither says that it is not."""
    return MANIFEST not in touched and (opened.signer is not None or f"{MANIFEST}{DIGEST}" not in touched)


def _withdrawal(folder: Path | None, sha256: str) -> Withdrawal | None:
    """The intact withdrawal that is there already; none where none is."""
    if folder is None:
        return None
    opened = open_document(folder, WITHDRAWAL, Withdrawal)
    found = None if opened.problems else opened.document
    return found if found is not None and found.manifest_sha256 == sha256 else None


def _signed(withdrawal: Withdrawal, signer: Signer | None) -> Signature | None:
    return None if signer is None else signed(canonical(withdrawal), signer)


def _signature(folder: Path | None, withdrawal: Withdrawal) -> Signature | None:
    """The signature that lies beside a withdrawal."""
    if withdrawal.signer is None or folder is None:
        return None
    name = f"{WITHDRAWAL}{SIGNATURE}"
    return parsed(name, read_plain(folder / name, LIMIT_BYTES), Signature)

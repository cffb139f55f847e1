"""Revocation: a bundle that is not to be relied on any more is withdrawn, with the public one in it."""

from datetime import UTC, datetime
from pathlib import Path

from understudy.bundle.documents import (
    LIMIT_BYTES,
    SIGNATURE,
    Unsound,
    enveloped,
    opened,
    public_hex,
    read_document,
    sha256_of,
    write_document,
)
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON, WITHDRAWAL, Manifest, moment
from understudy.bundle.records import Person, Withdrawal, WithdrawalPredicate, add_to_register, subject_of
from understudy.bundle.verification import check_bundle


def withdraw(
    folder: Path,
    by: Person,
    reason: str,
    signer: Signer | None,
    *,
    register: Path | None = None,
) -> tuple[tuple[Withdrawal, ...], str | None]:
    """Withdraw a bundle and the bundle to hand on in it, for good; with it, a sentence on who will not believe that.

    A withdrawal that is there already stays where all who would believe the new one believe it, and is only added to
    the register. A bundle to hand on that was moved away is withdrawn by its manifest's digest, which the outer names.
    """
    check_bundle(folder)
    try:
        manifest = read_document(folder, MANIFEST, Manifest)
    except Unsound as error:
        raise BundleError(f"nobody can say what would be withdrawn: {error}; withdraw an intact copy") from None
    folders: dict[str, Path | None] = {sha256_of(manifest): folder}
    if manifest.holds_public:
        public = folder / TO_HAND_ON
        is_here = public.is_dir() and not public.is_symlink()
        folders[manifest.files[f"{TO_HAND_ON}/{MANIFEST}"].digest.sha256] = public if is_here else None
    believed = None if signer is None or manifest.signer is None else {signer.fingerprint, manifest.signer}
    predicate = WithdrawalPredicate(
        public_key=public_hex(signer), withdrawn_at=moment(datetime.now(UTC)), by=by, reason=reason
    )
    lines = dict[str, bytes]()
    for digest, home in folders.items():
        standing = None if home is None else _standing(home, digest, believed)
        lines[digest] = standing or enveloped(Withdrawal(subject=subject_of(digest), predicate=predicate), signer)
    if register is not None:
        add_to_register(register, list(lines.values()))
    # The public one first: as long as the outer is not, it is not done.
    for digest, home in reversed(folders.items()):
        if home is not None:
            write_document(home, WITHDRAWAL, lines[digest])
    withdrawals = tuple(opened(line, Withdrawal, WITHDRAWAL) for line in lines.values())
    return withdrawals, _doubt(withdrawals[0], manifest)


def _doubt(withdrawal: Withdrawal, manifest: Manifest) -> str | None:
    """A sentence on readers who will not believe a withdrawal; `None` where all who can do."""
    if withdrawal.signer is None:
        return "the withdrawal is not signed, so that whoever names a key to `verify` does not believe it; pass --key"
    if manifest.signer in (None, withdrawal.signer):
        return None
    return (
        f"the withdrawal is signed by another key than {MANIFEST}, so that whoever names that one alone does not "
        "believe it; withdraw it with that key, or have those who verify name this one, too (--sign-off-key)"
    )


def _standing(home: Path, sha256: str, believed: set[str] | None) -> bytes | None:
    """The envelope of the withdrawal that is there already and stays; none: anybody's does."""
    try:
        withdrawal = read_document(home, WITHDRAWAL, Withdrawal)
    except Unsound:
        return None
    if withdrawal.manifest_sha256 != sha256 or (believed is not None and withdrawal.signer not in believed):
        return None
    return read_plain(home / f"{WITHDRAWAL}{SIGNATURE}", LIMIT_BYTES)

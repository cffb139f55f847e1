"""What people decide of a sealed bundle: two sign a release off, each with a key of their own; one may withdraw it."""

from datetime import date
from pathlib import Path

from understudy.bundle.documents import (
    LIMIT_BYTES,
    SIGNATURE,
    BundleError,
    Signer,
    Unsound,
    enveloped,
    is_there,
    opened,
    public_hex,
    read_document,
    read_plain,
    remove_document,
    sha256_of,
    write_document,
)
from understudy.bundle.manifest import (
    MANIFEST,
    SIGN_OFFS,
    TO_HAND_ON,
    WITHDRAWAL,
    Accepted,
    Manifest,
    Person,
    SignOff,
    SignOffPredicate,
    Withdrawal,
    WithdrawalPredicate,
    add_to_register,
    subject_of,
)
from understudy.bundle.verification import (
    FAILS,
    VERDICT,
    VERDICT_TO_HAND_ON,
    Demand,
    Verification,
    check_bundle,
    damaged,
    verdict_content,
    verify,
)
from understudy.provenance import now


def sign_off(
    folder: Path, by: Person, demand: Demand, signer: Signer | None, expires: date | None = None
) -> tuple[SignOff, Verification]:
    """Sign a bundle off, as the first or as the second of two people: the sign-off, and what was verified before."""
    if signer is None:
        raise BundleError(
            "a sign-off without a key is refused, since one person could write it under two names; each of the two "
            "signs with a key of their own: pass --key (`understudy key FILE` makes one)"
        )
    check_bundle(folder)
    for name in SIGN_OFFS:  # an envelope alone is of a sign-off that was killed before its document, and says nothing
        if not is_there(folder / name) and is_there(folder / f"{name}{SIGNATURE}"):
            remove_document(folder, name)
    verification = verify(folder, demand)
    _check_second(verification, by, signer)
    manifest, released = _released(verification)
    waivers = _waivers(folder, manifest, released)
    ends = [manifest.about.valid_until, *(waiver.until for waiver in waivers)]
    predicate = SignOffPredicate(
        public_key=str(public_hex(signer)),
        signed_at=now(),
        by=by,
        expires=_expiry(expires, [end for end in ends if end is not None], demand.today),
        release=released,
        policy=manifest.about.policy,
        waivers=waivers,
    )
    document = SignOff(subject=subject_of(verification.sha256), predicate=predicate)
    free = next(name for name in SIGN_OFFS if not is_there(folder / name))
    write_document(folder, free, enveloped(document, signer))
    return document, verification


def _check_second(verification: Verification, by: Person, signer: Signer) -> None:
    """Refuse what does not verify, one person in two roles, and a third."""
    if verification.problems or verification.manifest is None:
        more = f" (and {len(verification.problems) - 1} more)" if len(verification.problems) > 1 else ""
        first = verification.problems[0].sentence
        raise BundleError(f"only what verifies can be signed off: {first}{more}; see `understudy verify`")
    names = [earlier.predicate.by.name for earlier in verification.sign_offs]
    if len(names) == len(SIGN_OFFS):
        raise BundleError(
            f"it is signed off already, by {' and '.join(map(repr, names))}; a new release is a new bundle"
        )
    for earlier in verification.sign_offs:
        if earlier.signer == signer.fingerprint or earlier.predicate.by.reads_as == by.reads_as:
            raise BundleError(
                f"one person cannot check what they sign themselves: name={by.name!r} has the name or the key of "
                f"{earlier.predicate.by.name!r}, who has signed; a second person signs, with a key of their own"
            )


def _released(verification: Verification) -> tuple[Manifest, str]:
    """The manifest, and the candidate to release, on which the verdict is PASS."""
    manifest = verification.manifest
    assert manifest is not None  # it verifies
    about = manifest.about
    if about.kind == "to-hand-on":
        raise BundleError("a bundle to hand on has no verdict to sign off; sign off the internal one that it came from")
    if about.release is None:
        raise BundleError("the bundle names no table to release; let the job name one under `release`, and run it")
    if about.verdict != "PASS":
        raise BundleError(
            f"only a table that passes is signed off: release={about.release!r} has verdict={about.verdict!r}; "
            "a waiver, with an owner and a reason, is the way around a rule"
        )
    return manifest, about.release


def _waivers(folder: Path, manifest: Manifest, release: str) -> tuple[Accepted, ...]:
    """The waivers in force for a table, by the verified file of verdicts.

    A table is refused of which the report to hand on says that it must not be released, or nobody can say it.
    """
    content = verdict_content(folder)
    try:
        (findings,) = (judged["findings"] for judged in content["candidates"] if judged["candidate"] == release)
        in_force = [finding["waiver"] for finding in findings if finding["waived"]]
        waivers = tuple(Accepted(**{name: waiver[name] for name in Accepted.model_fields}) for waiver in in_force)
    except (ValueError, KeyError, TypeError):
        raise damaged() from None
    if manifest.holds_public and VERDICT_TO_HAND_ON not in content:
        raise BundleError(f"{VERDICT} does not say which verdict {TO_HAND_ON}/ shows; make the bundle again")
    if manifest.holds_public and content[VERDICT_TO_HAND_ON] == "FAIL":
        raise BundleError(
            f"only what may be released is signed off: release={release!r} passes inside, but {FAILS}, by the rules "
            f"that can be shown (no waiver counts there); see {TO_HAND_ON}/, mend what fails, and make it again"
        )
    return waivers


def _expiry(asked: date | None, ends: list[date], today: date) -> date | None:
    """The last day on which a sign-off counts."""
    last = min(ends, default=None)
    if last is not None and last < today:
        raise BundleError(f"a waiver that the verdict rests on counted until {last}; judge the table again")
    if asked is None:
        return last
    if asked < today:
        raise BundleError(f"expires={asked} is past; name a day to come")
    if last is not None and asked > last:
        raise BundleError(f"expires={asked} is later than what it rests on counts, {last}; name that day or an earlier")
    return asked


def withdraw(
    folder: Path, by: Person, reason: str, signer: Signer | None, *, register: Path | None = None
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
    predicate = WithdrawalPredicate(public_key=public_hex(signer), withdrawn_at=now(), by=by, reason=reason)
    lines = dict[str, bytes]()
    for digest, home in folders.items():
        standing = None if home is None else _standing_withdrawal(home, digest, believed)
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


def _standing_withdrawal(home: Path, sha256: str, believed: set[str] | None) -> bytes | None:
    """The envelope of the withdrawal that is there already and stays; none: anybody's does."""
    try:
        withdrawal = read_document(home, WITHDRAWAL, Withdrawal)
    except Unsound:
        return None
    if withdrawal.manifest_sha256 != sha256 or (believed is not None and withdrawal.signer not in believed):
        return None
    return read_plain(home / f"{WITHDRAWAL}{SIGNATURE}", LIMIT_BYTES)

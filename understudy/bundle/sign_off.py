"""The sign-off of a sealed bundle by two people, each with a key of their own, once everything in it is sound."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from understudy.bundle.documents import SIGNATURE, enveloped, public_hex, remove_document, write_document
from understudy.bundle.files import BundleError, is_there
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import SIGN_OFFS, TO_HAND_ON, Manifest, moment
from understudy.bundle.records import Accepted, Person, SignOff, SignOffPredicate, subject_of
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
    manifest = _sound(verification)
    _check_second(verification, by, signer)
    released = _released(manifest)
    content = verdict_content(folder)
    waivers = _waivers(content, released)
    if manifest.holds_public:
        _check_public(content, released)
    ends = [manifest.about.valid_until, *(waiver.until for waiver in waivers)]
    predicate = SignOffPredicate(
        public_key=str(public_hex(signer)),
        signed_at=moment(datetime.now(UTC)),
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
    """Refuse one person in two roles, and a third."""
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


def _sound(verification: Verification) -> Manifest:
    """The manifest of a bundle that verifies."""
    if verification.problems or verification.manifest is None:
        more = f" (and {len(verification.problems) - 1} more)" if len(verification.problems) > 1 else ""
        first = verification.problems[0].sentence
        raise BundleError(f"only what verifies can be signed off: {first}{more}; see `understudy verify`")
    return verification.manifest


def _released(manifest: Manifest) -> str:
    """The candidate to release, on which the verdict is PASS."""
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
    return about.release


def _check_public(content: dict[str, Any], release: str) -> None:
    """Refuse a table of which the report to hand on says that it must not be released, or that nobody can say it of."""
    if VERDICT_TO_HAND_ON not in content:
        raise BundleError(f"{VERDICT} does not say which verdict {TO_HAND_ON}/ shows; make the bundle again")
    if content[VERDICT_TO_HAND_ON] == "FAIL":
        raise BundleError(
            f"only what may be released is signed off: release={release!r} passes inside, but {FAILS}, by the rules "
            f"that can be shown (no waiver counts there); see {TO_HAND_ON}/, mend what fails, and make it again"
        )


def _waivers(content: dict[str, Any], release: str) -> tuple[Accepted, ...]:
    """The waivers in force for a table, as the verified file of verdicts names them."""
    try:
        (findings,) = (judged["findings"] for judged in content["candidates"] if judged["candidate"] == release)
        waivers = [finding["waiver"] for finding in findings if finding["waived"]]
        return tuple(Accepted(**{name: waiver[name] for name in Accepted.model_fields}) for waiver in waivers)
    except (ValueError, KeyError, TypeError):
        raise damaged() from None


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

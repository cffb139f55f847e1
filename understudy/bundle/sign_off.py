"""The sign-off of a sealed bundle by two people, once everything in it is sound."""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from understudy.bundle.documents import DIGEST, SIGNATURE, write_document
from understudy.bundle.files import BundleError
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import SIGN_OFF, TO_HAND_ON, Manifest, manifest_subject, moment
from understudy.bundle.records import Accepted, Person, SignOff, SignOffPredicate
from understudy.bundle.verification import (
    FAILS,
    VERDICT,
    VERDICT_TO_HAND_ON,
    Demand,
    Verification,
    damaged,
    verdict_content,
    verify,
)


@dataclass(frozen=True)
class ReleaseDecision:
    """The release decision that two people answer for."""

    by: Person
    second: Person
    expires: date | None = None


def sign_off(
    folder: Path, release: ReleaseDecision, demand: Demand, signer: Signer | None
) -> tuple[SignOff, tuple[str, ...]]:  # fmt: skip
    """Sign a bundle off."""
    _check_people(release)
    found = verify(folder, demand)
    if found.sign_off is not None:
        by = found.sign_off.predicate.by.name
        raise BundleError(f"it is signed off already, by {by!r}; a new release needs a new bundle")
    manifest = _sound(found)
    about = manifest.about
    released = _released(manifest)
    content = verdict_content(folder)
    waivers = _waivers(content, released)
    if manifest.holds_public:
        _check_public(content, released)
    approval = SignOffPredicate(
        public_key=None if signer is None else signer.public_key,
        signed_at=moment(datetime.now(UTC)),
        by=release.by,
        second=release.second,
        expires=_expiry(release.expires, [about.valid_until, *(waiver.until for waiver in waivers)], demand.today),
        release=released,
        policy=about.policy,
        waivers=waivers,
    )
    document = SignOff(subject=manifest_subject(found.sha256), predicate=approval)
    write_document(folder, SIGN_OFF, document, signer)
    return document, found.notes


def _check_people(release: ReleaseDecision) -> None:
    """Refuse one person in two roles."""
    names = {
        " ".join(unicodedata.normalize("NFKC", one.name).casefold().split()) for one in (release.by, release.second)
    }
    if len(names) == 1:
        raise BundleError(
            f"one person cannot check what they sign themselves: name={release.by.name!r} is named twice; "
            "name a second person"
        )


def _sound(found: Verification) -> Manifest:
    """The manifest of a bundle that verifies; files that a sign-off left when it was cut short are replaced."""
    left = {(f"{SIGN_OFF}{suffix}",) for suffix in (DIGEST, SIGNATURE)}
    problems = [problem for problem in found.problems if problem.kind != "added" or problem.paths not in left]
    if problems or found.manifest is None:
        first = f": {problems[0].sentence}" if problems else ""
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(f"only what verifies can be signed off{first}{more}; see `understudy verify`")
    return found.manifest


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
        (findings,) = (one["findings"] for one in content["candidates"] if one["candidate"] == release)
        return tuple(_accepted(finding) for finding in findings if finding["waived"])
    except (ValueError, KeyError, TypeError):
        raise damaged() from None


def _accepted(finding: Any) -> Accepted:
    waiver = finding["waiver"]
    return Accepted(**{name: waiver[name] for name in Accepted.model_fields})


def _expiry(asked: date | None, ends: list[date | None], today: date) -> date | None:
    """The last day on which a sign-off counts."""
    last = min((end for end in ends if end is not None), default=None)
    if last is not None and last < today:
        raise BundleError(f"a waiver that the verdict rests on counted until {last}; judge the table again")
    if asked is None:
        return last
    if asked < today:
        raise BundleError(f"expires={asked} is past; name a day to come")
    if last is not None and asked > last:
        raise BundleError(f"expires={asked} is later than what it rests on counts, {last}; name that day or an earlier")
    return asked

"""Verification: what of a bundle is not as it was sealed, who signed it, and whether it may still be relied on.

What people decide of a bundle stands on it: two sign a release off, each with a key of their own, once everything is
sound; one may withdraw it, with the public one in it.

`Demand` says what must hold for whoever relies on a bundle. What speaks against it is told one problem at a time. The
sealed file of verdicts is read to tell what would leave with a release.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from synth.validation import plain_json
from understudy.bundle.manifest import (
    LATER,
    MANIFEST,
    SIGN_OFFS,
    TO_HAND_ON,
    WITHDRAWAL,
    Accepted,
    Later,
    Manifest,
    Person,
    Register,
    SignOff,
    SignOffPredicate,
    Withdrawal,
    WithdrawalPredicate,
    add_to_register,
    subject_of,
)
from understudy.bundle.signing import (
    FILE,
    FOLDER,
    LIMIT_BYTES,
    SIGNATURE,
    BundleError,
    Kind,
    Problem,
    Signer,
    Unsound,
    contents,
    digest,
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
from understudy.console import printable
from understudy.provenance import now

L = TypeVar("L", bound=Later)
SUFFIXES = ("", SIGNATURE)
VERDICT = "verdict.json"
VERDICT_LIMIT_BYTES = 256 << 20
"""Of the file of verdicts: a sweep has many."""
VERDICT_TO_HAND_ON = "verdict_to_hand_on"
FAILS = "the report to hand on says FAIL"
UNSIGNED = (
    "it is not signed: what changed by accident is seen, but whoever changes it on purpose can write the manifest anew"
)
NO_REGISTER = "no register of withdrawals was asked: a copy from before a withdrawal does not know of it"


@dataclass(frozen=True)
class Demand:
    """Demands on a bundle beyond that nothing was changed."""

    keys: frozenset[str] = frozenset()
    signed_off: bool = False
    register: Register | None = None
    today: date = field(default_factory=lambda: datetime.now(UTC).date())  # as manifests count
    sign_off_keys: frozenset[str] = frozenset()

    def believes(self, signer: str | None, sealed_by: str | None) -> bool:
        """True where a withdrawal counts.

        Anybody can write one. Where a key is named, it has to be by the key that sealed the bundle, or by one that was
        named. Where none is, nobody can say who anybody is, and to heed one withdrawal too many does less harm than to
        overlook one.
        """
        return not self.keys or (signer is not None and signer in {sealed_by, *self.keys, *self.sign_off_keys})


@dataclass(frozen=True)
class Verification:
    manifest: Manifest | None
    sha256: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    sign_offs: tuple[SignOff, ...] = ()
    withdrawal: Withdrawal | None = None
    public: "Verification | None" = None

    @property
    def signer(self) -> str | None:
        return None if self.manifest is None else self.manifest.signer

    @property
    def is_sound(self) -> bool:
        """True where nothing speaks against relying on it."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        about = None if self.manifest is None else self.manifest.about.model_dump(mode="json")
        return {
            "verified": self.is_sound,
            "about": about,
            "n_files": 0 if self.manifest is None else len(self.manifest.subject),
            "manifest_sha256": self.sha256,
            "signer": self.signer,
            "problems": [asdict(problem) for problem in self.problems],
            "notes": list(self.notes),
            "sign_offs": [sign_off.plain() for sign_off in self.sign_offs],
            "withdrawal": None if self.withdrawal is None else self.withdrawal.plain(),
            "to_hand_on": None if self.public is None else self.public.to_dict(),
        }


def check_bundle(folder: Path) -> None:
    if not any(is_there(folder / f"{MANIFEST}{suffix}") for suffix in SUFFIXES):
        raise BundleError(f"there is no evidence bundle at path={str(folder)!r}; name the folder that holds {MANIFEST}")


def verify(folder: Path, demand: Demand) -> Verification:
    """Everything that can be found out about a bundle; nothing in it is believed before it is checked."""
    check_bundle(folder)
    try:
        manifest = read_document(folder, MANIFEST, Manifest)
    except Unsound as error:
        return Verification(None, "", (error.problem,))
    sha256, public = sha256_of(manifest), _nested(folder, manifest, demand)
    sign_offs, unsound = _later(folder, SIGN_OFFS, SignOff, sha256)
    in_folder, unsound_too = _later(folder, (WITHDRAWAL,), Withdrawal, sha256)
    listed = (demand.register or {}).get(sha256, ())
    withdrawal = next((w for w in (*in_folder.values(), *listed) if demand.believes(w.signer, manifest.signer)), None)
    problems = [
        *_key_problems(MANIFEST, manifest.signer, demand.keys),
        *_file_problems(folder, manifest),
        *unsound,
        *unsound_too,
        *_sign_off_problems(folder, sign_offs, manifest, demand),
    ]
    for other in in_folder.values():
        if other is not withdrawal:
            kind: Kind = "unsigned" if other.signer is None else "another key"
            doubt = f"neither the key of {MANIFEST} nor one that was named, so that it is not believed"
            ask = "ask whoever sealed the bundle, and remove it where they did not withdraw it"
            problems.append(Problem(kind, (WITHDRAWAL,), f"{WITHDRAWAL} is {other.signed_by}, which is {doubt}; {ask}"))
    if demand.signed_off and len(sign_offs) < len(SIGN_OFFS):
        problems.append(_without_sign_off(manifest, sign_offs, sha256))
    elif demand.signed_off and not (demand.sign_off_keys or demand.keys):
        anybody = "anybody makes two keys and two names; name with --sign-off-key those that you have from either"
        problems.append(Problem("another key", SIGN_OFFS, f"nobody says whose keys signed this off: {anybody}"))
    if withdrawal is not None:
        problems.append(Problem("withdrawn", (WITHDRAWAL,), f"it is {withdrawal.sentence}"))
    if manifest.about.valid_until is not None and demand.today > manifest.about.valid_until:
        problems.append(Problem("expired", (MANIFEST,), f"it was valid until {manifest.about.valid_until}"))
    seen = {path for problem in problems for path in problem.paths}
    for problem in () if public is None else public.problems:
        paths = tuple(f"{TO_HAND_ON}/{path}" for path in problem.paths)
        if not seen.issuperset(paths):  # the outer manifest has seen the same of the same files
            problems.append(replace(problem, paths=paths, sentence=f"in {TO_HAND_ON}/: {problem.sentence}"))
    return Verification(
        manifest=manifest,
        sha256=sha256,
        problems=tuple(problems),
        notes=tuple(_notes(manifest, tuple(sign_offs.values()), withdrawal, listed, demand)),
        sign_offs=tuple(sign_offs.values()),
        withdrawal=withdrawal,
        public=public,
    )


def _nested(folder: Path, manifest: Manifest, demand: Demand) -> Verification | None:
    """The bundle to hand on inside an internal one; it holds no other."""
    inside = folder / TO_HAND_ON
    if manifest.about.kind != "internal" or inside.is_symlink() or not (inside / MANIFEST).exists():
        return None  # that its manifest is missing, the outer one says
    result = replace(verify(inside, replace(demand, signed_off=False)), notes=())
    if result.manifest is None or result.manifest.about.kind == "to-hand-on":
        return result
    other = Problem("not fit", (MANIFEST,), f"{MANIFEST} is not that of a bundle to hand on")
    return replace(result, problems=(*result.problems, other))


def _later(folder: Path, names: tuple[str, ...], model: type[L], sha256: str) -> tuple[dict[str, L], list[Problem]]:
    """Documents that were put into a bundle after it was sealed, and what is wrong with others in their place."""
    sound, problems = dict[str, L](), list[Problem]()
    for name in (name for name in names if is_there(folder / name)):
        try:
            document = read_document(folder, name, model)
        except Unsound as error:
            problems.append(error.problem)
            continue
        if document.manifest_sha256 == sha256:
            sound[name] = document
        else:
            other = f"{name} is of another bundle: it names another manifest"
            problems.append(Problem("not fit", (name,), other))
    return sound, problems


def _key_problems(name: str, signer: str | None, keys: frozenset[str]) -> Iterator[Problem]:
    """A signature that is asked for and is not there, or is another's; no keys: none is asked for."""
    if keys and signer is None:
        yield Problem("unsigned", (name,), f"{name} is not signed, and a key was named that must sign it")
    elif keys and signer not in keys:
        yield Problem("another key", (name,), f"{name} is signed by a key that was not named: {signer}")


def _file_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Every file and folder that is not as the manifest says, or that it does not name."""
    kinds = contents(folder)
    for path, file in manifest.files.items():
        shown, kind, size = printable(path), kinds.pop(path, None), file.annotations.size
        if kind is None:
            yield Problem("missing", (shown,), f"{shown} is missing")
        elif kind != FILE:
            yield Problem("changed", (shown,), f"{shown} was replaced: it is {kind}")
        else:
            try:
                if digest(folder / path, size) != (file.digest.sha256, size):
                    yield Problem("changed", (shown,), f"{shown} was changed")
            except (BundleError, OSError) as error:
                yield Problem("changed", (shown,), f"{shown} cannot be checked: {error}")
    # What the manifest does not name and is checked by itself.
    later = [name for name in LATER if is_there(folder / name)]
    if manifest.about.kind == "internal" and manifest.holds_public:
        later += [f"{TO_HAND_ON}/{name}" for name in LATER if is_there(folder / TO_HAND_ON / name)]
    apart = {f"{name}{suffix}" for name in (MANIFEST, *later) for suffix in SUFFIXES}
    folders = {parent.as_posix() for path in manifest.files for parent in PurePosixPath(path).parents}
    for path, kind in sorted(kinds.items()):
        if path not in apart and not (kind == FOLDER and path in folders):
            sentence = f"{printable(path)} was added" + ("" if kind == FILE else f": it is {kind}")
            yield Problem("added", (printable(path),), sentence)


def _sign_off_problems(
    folder: Path, sign_offs: dict[str, SignOff], manifest: Manifest, demand: Demand
) -> Iterator[Problem]:  # fmt: skip
    """Sign-offs of something else, by somebody else, over, or both by one."""
    about = manifest.about
    for name, sign_off in sign_offs.items():
        content = sign_off.predicate
        yield from _key_problems(name, sign_off.signer, demand.sign_off_keys or demand.keys)
        if (content.release, content.verdict, content.policy) != (about.release, about.verdict, about.policy):
            yield Problem("not fit", (name,), f"{name} is of another table, verdict or policy than {MANIFEST}")
        if content.expires is not None and demand.today > content.expires:
            yield Problem("expired", (name,), f"{name} counted until {content.expires}")
    names = tuple(sign_offs)
    if len({sign_off.signer for sign_off in sign_offs.values()}) < len(sign_offs):
        yield Problem("another key", names, f"{' and '.join(names)} are by one key, and two people sign off")
    if len({sign_off.predicate.by.reads_as for sign_off in sign_offs.values()}) < len(sign_offs):
        yield Problem("not fit", names, f"{' and '.join(names)} are in one name, and two people sign off")
    if sign_offs and public_fails(folder):
        yield Problem("not fit", names, f"{' and '.join(names)}: a sign-off of what must not leave: {FAILS}")


def _without_sign_off(manifest: Manifest, sign_offs: dict[str, SignOff], sha256: str) -> Problem:
    """The problem of a missing sign-off; a bundle to hand on never holds that of its table."""
    if manifest.about.kind == "to-hand-on":
        return Problem(
            "missing",
            SIGN_OFFS,
            f"{TO_HAND_ON} holds no sign-off: that is in the internal bundle that it was taken from, and cannot be "
            "shown here; ask whoever gave it to you to run `understudy verify --require-sign-off` on that bundle, and "
            f"whether {TO_HAND_ON}/{MANIFEST} there has the sha256={sha256} that it has here; without "
            "--require-sign-off all else is checked",
        )
    who = " and ".join(repr(sign_off.predicate.by.name) for sign_off in sign_offs.values())
    missing = tuple(name for name in SIGN_OFFS if name not in sign_offs)
    return Problem("missing", missing, f"{who or 'nobody'} has signed this off, and two people have to")


def _notes(
    manifest: Manifest,
    sign_offs: tuple[SignOff, ...],
    withdrawal: Withdrawal | None,
    listed: tuple[Withdrawal, ...],
    demand: Demand,
) -> Iterator[str]:
    """What verification cannot say."""
    compare = "compare it with one that you have from the signer"
    if manifest.signer is None:
        yield UNSIGNED
    elif not demand.keys:
        yield (
            f"the signature is intact, but nobody says whose key it is: fingerprint={manifest.signer}; {compare}, or "
            "pass --public-key"
        )
    if demand.register is None:
        yield NO_REGISTER
    if withdrawal is not None and withdrawal.signer != manifest.signer and not demand.keys:
        yield (
            f"the withdrawal is {withdrawal.signed_by}, which is not the key of {MANIFEST}, and no key was named, so "
            "that any withdrawal is believed; pass --public-key, so that only those count who may withdraw it"
        )
    for entry in listed:
        if not demand.believes(entry.signer, manifest.signer):
            yield (
                f"a withdrawal in the register is {entry.signed_by}, which is neither the key of {MANIFEST} nor one "
                f"that was named, so that it is not believed: {entry.sentence}; ask whoever sealed the bundle, or name "
                "that key with --sign-off-key, too"
            )
    if len(sign_offs) == 1:
        yield f"{sign_offs[0].predicate.by.name!r} has signed it off, and a second person has to"
    for sign_off in sign_offs if not (demand.sign_off_keys or demand.keys) else ():
        yield f"nobody says whose key signed it off: fingerprint={sign_off.signer}; {compare}, or pass --sign-off-key"
    made_at = manifest.about.made_at
    if made_at[:10] > demand.today.isoformat():
        yield f"it says that it was made at {made_at}, which is still to come: a clock is wrong, there or here"


def verdict_content(folder: Path) -> dict[str, Any]:
    try:
        content = plain_json(read_plain(folder / VERDICT, VERDICT_LIMIT_BYTES))
    except (OSError, ValueError):
        raise damaged() from None
    if not isinstance(content, dict):
        raise damaged()
    return content


def damaged() -> BundleError:
    return BundleError(f"{VERDICT} does not say what the verdict rests on; make the bundle again")


def public_fails(folder: Path) -> bool:
    """True where the file of verdicts says that the report to hand on shows FAIL; a damaged one says nothing."""
    try:
        return verdict_content(folder).get(VERDICT_TO_HAND_ON) == "FAIL"
    except BundleError:
        return False


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
    for sha256, home in folders.items():
        standing = None if home is None else _standing_withdrawal(home, sha256, believed)
        lines[sha256] = standing or enveloped(Withdrawal(subject=subject_of(sha256), predicate=predicate), signer)
    if register is not None:
        add_to_register(register, list(lines.values()))
    # The public one first: as long as the outer is not, it is not done.
    for sha256, home in reversed(folders.items()):
        if home is not None:
            write_document(home, WITHDRAWAL, lines[sha256])
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

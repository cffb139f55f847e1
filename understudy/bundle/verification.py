"""Verification: what of a bundle is not as it was sealed, who signed it, and whether it may still be relied on.

`Demand` says what must hold for whoever relies on a bundle. What speaks against it is told one problem at a time. The
sealed file of verdicts is read to tell what would leave with a release.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

from synth.parsing import plain_json
from understudy.bundle.documents import DIGEST, SIGNATURE, Opened, Problem, Statement, is_there, open_document
from understudy.bundle.files import BundleError, contents, digest, read_plain
from understudy.bundle.manifest import LATER, MANIFEST, SIGN_OFF, TO_HAND_ON, WITHDRAWAL, Later, Manifest
from understudy.bundle.records import SignOff, Withdrawal
from understudy.console import printable

__all__ = ["Demand", "Verification", "check_bundle", "verify"]


def today() -> date:
    """The day it is, in UTC, as manifests count."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Demand:
    """Demands on a bundle beyond that nothing was changed."""

    keys: frozenset[str] = frozenset()
    signed_off: bool = False
    register: Mapping[str, tuple[Withdrawal, ...]] | None = None
    today: date = field(default_factory=today)
    sign_off_keys: frozenset[str] = frozenset()

    def believes(self, signer: str | None, sealed_by: str | None) -> bool:
        """True where a withdrawal counts.

        Anybody can write one. Where a key is named, it has to be by the key that sealed the bundle, or by one that was
        named. Where none is, nobody can say who anybody is, and to heed one withdrawal too many does less harm than to
        overlook one.
        """
        return not self.keys or (signer is not None and signer in {sealed_by, *self.keys, *self.sign_off_keys})


VERDICT = "verdict.json"
LIMIT_BYTES = 256 << 20
"""Of the file of verdicts: a sweep has many."""
VERDICT_TO_HAND_ON = "verdict_to_hand_on"
FAILS = "the report to hand on says FAIL"


def verdict_content(folder: Path) -> dict[str, Any]:
    """The content of the file of verdicts."""
    try:
        content = plain_json(read_plain(folder / VERDICT, LIMIT_BYTES))
    except (OSError, ValueError):
        raise damaged() from None
    if not isinstance(content, dict):
        raise damaged()
    return content


def damaged() -> BundleError:
    """The error about a file of verdicts that does not say what it has to."""
    return BundleError(f"{VERDICT} does not say what the verdict rests on; make the bundle again")


def public_fails(folder: Path) -> bool:
    """True where the file of verdicts says that the report to hand on shows FAIL; a damaged one says nothing."""
    try:
        return verdict_content(folder).get(VERDICT_TO_HAND_ON) == "FAIL"
    except BundleError:
        return False


_D = TypeVar("_D", bound=Statement)
SUFFIXES = ("", DIGEST, SIGNATURE)


def key_problems(opened: Opened[_D], name: str, keys: frozenset[str]) -> Iterator[Problem]:
    """A signature that is asked for and is not there, or is another's; no keys: none is asked for."""
    document = opened.document
    if not keys or document is None:
        return
    if document.signer is None:
        yield Problem("unsigned", (name,), f"{name} is not signed, and a key was named that must sign it")
    elif opened.signer is not None and opened.signer not in keys:
        yield Problem("another key", (name,), f"{name} is signed by a key that was not named: {opened.signer}")


def file_problems(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Every file and folder that is not as the manifest says, or that it does not name."""
    found, files, apart = contents(folder), manifest.files, _apart(folder, manifest)
    for path, file in files.items():
        shown = printable(path)
        if path in found.files:
            try:
                size = file.annotations.size
                if digest(found.files[path], size) != (file.digest.sha256, size):
                    yield Problem("changed", (shown,), f"{shown} was changed")
            except BundleError as error:
                yield Problem("damaged", (shown,), f"{shown} cannot be checked: {error}")
        elif path in found.odd or path in found.folders:
            yield Problem("changed", (shown,), f"{shown} was replaced: it is {found.odd.get(path, 'a folder')}")
        else:
            yield Problem("missing", (shown,), f"{shown} is missing")
    for path in sorted(found.files.keys() - files.keys() - apart):
        yield Problem("added", (printable(path),), f"{printable(path)} was added")
    for path in sorted(found.odd.keys() - files.keys() - apart):
        yield Problem("added", (printable(path),), f"{printable(path)} was added: it is {found.odd[path]}")
    for path in sorted(found.folders - manifest.folders - files.keys()):
        yield Problem("added", (printable(path),), f"{printable(path)} was added: it is a folder")


def _apart(folder: Path, manifest: Manifest) -> frozenset[str]:
    """Files that the manifest does not name and that are checked by themselves."""
    held = [MANIFEST, *(name for name in LATER if is_there(folder / name))]
    if manifest.about.kind == "internal" and manifest.holds_public:
        held += [f"{TO_HAND_ON}/{name}" for name in LATER if is_there(folder / TO_HAND_ON / name)]
    return frozenset(f"{name}{suffix}" for name in held for suffix in SUFFIXES)


def sign_off_problems(
    opened: Opened[SignOff], manifest: Manifest, sha256: str, demand: Demand
) -> Iterator[Problem]:  # fmt: skip
    """A sign-off that is asked for and cannot be shown, or that is of something else, by somebody else, or over."""
    found, about = opened.document, manifest.about
    if found is None:
        if demand.signed_off and not opened.sha256:
            yield _without_sign_off(about.kind == "to-hand-on", sha256)
        return
    yield from key_problems(opened, SIGN_OFF, demand.sign_off_keys or demand.keys)
    said = found.predicate
    if (said.release, said.verdict, said.policy) != (about.release, about.verdict, about.policy):
        yield Problem("not fit", (SIGN_OFF,), f"{SIGN_OFF} is of another table, verdict or policy than {MANIFEST}")
    if found.expired(demand.today):
        yield Problem("expired", (SIGN_OFF,), f"{SIGN_OFF} counted until {said.expires}")


def _without_sign_off(is_public: bool, sha256: str) -> Problem:
    """The problem of a missing sign-off; a bundle to hand on never holds that of its table."""
    if not is_public:
        return Problem("missing", (SIGN_OFF,), f"{SIGN_OFF} is missing: nobody has signed this off")
    return Problem(
        "not shown",
        (SIGN_OFF,),
        f"{TO_HAND_ON} holds no sign-off: that is in the internal bundle that it was taken from, and cannot be shown "
        "here; ask whoever gave it to you to run `understudy verify --require-sign-off` on that bundle, and whether "
        f"{TO_HAND_ON}/{MANIFEST} there has the sha256={sha256} that it has here; without --require-sign-off all else "
        "is checked",
    )


def public_problems(folder: Path, opened: Opened[SignOff]) -> Iterator[Problem]:
    """A sign-off of a table of which the report to hand on says that it must not be released."""
    if opened.document is not None and public_fails(folder):
        yield Problem("not fit", (SIGN_OFF,), f"{SIGN_OFF} is of what must not leave: {FAILS}")


def withdrawal_problems(
    opened: Opened[Withdrawal], sealed_by: str | None, demand: Demand
) -> Iterator[Problem]:  # fmt: skip
    """A withdrawal in the folder that does not count: not as it was sealed, and nobody says that it is withdrawn."""
    found = opened.document
    if found is None or opened.problems or demand.believes(opened.signer, sealed_by):
        return
    yield Problem(
        "unsigned" if found.signer is None else "another key",
        (WITHDRAWAL,),
        f"{WITHDRAWAL} is {found.signed_by}, which is neither the key of {MANIFEST} nor one that was named, so that it "
        "is not believed; ask whoever sealed the bundle, and remove it where they did not withdraw it",
    )


def end_problems(manifest: Manifest, withdrawal: Withdrawal | None, demand: Demand) -> Iterator[Problem]:
    """Problems of a bundle that has ended: it was withdrawn, or its last day is over."""
    if withdrawal is not None:
        yield Problem("withdrawn", (WITHDRAWAL,), f"it is {withdrawal.sentence}")
    if manifest.expired(demand.today):
        yield Problem("expired", (MANIFEST,), f"it was valid until {manifest.about.valid_until}")


def below(inner: tuple[Problem, ...], outer: tuple[Problem, ...]) -> Iterator[Problem]:
    """Problems of the bundle to hand on beyond those that the outer manifest has seen of the same files."""
    seen = {path for problem in outer for path in problem.paths}
    for problem in inner:
        paths = tuple(f"{TO_HAND_ON}/{path}" for path in problem.paths)
        if not seen.issuperset(paths):
            yield replace(problem, paths=paths, sentence=f"in {TO_HAND_ON}/: {problem.sentence}")


_L = TypeVar("_L", bound=Later)
UNSIGNED = (
    "it is not signed: what changed by accident is seen, but whoever changes it on purpose can write the manifest anew"
)
NO_REGISTER = "no register of withdrawals was asked: a copy from before a withdrawal does not know of it"


@dataclass(frozen=True)
class Verification:
    """The result of verifying a bundle."""

    manifest: Manifest | None
    sha256: str
    signer: str | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    sign_off: SignOff | None = None
    withdrawal: Withdrawal | None = None
    public: "Verification | None" = None

    @property
    def is_sound(self) -> bool:
        """True where nothing speaks against relying on it."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        about = None if self.manifest is None else self.manifest.about.model_dump(mode="json")
        return {
            "verified": self.is_sound,
            "about": about,
            "n_files": 0 if self.manifest is None else len(self.manifest.subject),
            "manifest_sha256": self.sha256,
            "signer": self.signer,
            "problems": [asdict(problem) for problem in self.problems],
            "notes": list(self.notes),
            "sign_off": None if self.sign_off is None else self.sign_off.plain(),
            "withdrawal": None if self.withdrawal is None else self.withdrawal.plain(),
            "to_hand_on": None if self.public is None else self.public.to_dict(),
        }


def check_bundle(folder: Path) -> None:
    """Refuse a folder that is no bundle."""
    if not folder.is_dir():
        raise BundleError(f"there is no bundle at path={str(folder)!r}; name the folder that holds {MANIFEST}")
    if not any(is_there(folder / f"{MANIFEST}{suffix}") for suffix in SUFFIXES):
        raise BundleError(
            f"this folder is no evidence bundle: path={str(folder)!r} holds no {MANIFEST}; name one that does"
        )


def verify(folder: Path, demand: Demand) -> Verification:
    """Everything that can be found out about a bundle; nothing in it is believed before it is checked."""
    check_bundle(folder)
    opened = open_document(folder, MANIFEST, Manifest)
    if opened.document is None:
        return Verification(None, opened.sha256, None, opened.problems)
    manifest = opened.document
    public = _nested(folder, manifest, demand)
    sign_off = _later(folder, SIGN_OFF, SignOff, opened.sha256)
    withdrawn = _later(folder, WITHDRAWAL, Withdrawal, opened.sha256)
    sealed_by, listed = manifest.signer, (demand.register or {}).get(opened.sha256, ())
    withdrawal = _believed(withdrawn, listed, sealed_by, demand)
    problems = (
        *opened.problems,
        *key_problems(opened, MANIFEST, demand.keys),
        *file_problems(folder, manifest),
        *sign_off.problems,
        *sign_off_problems(sign_off, manifest, opened.sha256, demand),
        *public_problems(folder, sign_off),
        *withdrawn.problems,
        *withdrawal_problems(withdrawn, sealed_by, demand),
        *end_problems(manifest, withdrawal, demand),
    )
    if public is not None:
        problems = (*problems, *below(public.problems, problems))
    return Verification(
        manifest=manifest,
        sha256=opened.sha256,
        signer=opened.signer,
        problems=tuple(dict.fromkeys(problems)),
        notes=(
            *_notes(opened, demand),
            *_withdrawal_notes(withdrawal, listed, sealed_by, demand),
            *_sign_off_notes(sign_off, demand),
            *_clock_notes(manifest, demand),
        ),
        sign_off=sign_off.document,
        withdrawal=withdrawal,
        public=public,
    )


def _nested(folder: Path, manifest: Manifest, demand: Demand) -> Verification | None:
    """The bundle to hand on inside an internal one; it holds no other."""
    inside = folder / TO_HAND_ON
    if manifest.about.kind != "internal" or not manifest.holds_public or inside.is_symlink():
        return None
    if not (inside / MANIFEST).exists():
        return None  # that its manifest is missing, the outer one says
    found = replace(verify(inside, replace(demand, signed_off=False)), notes=())
    if found.manifest is None or found.manifest.about.kind == "to-hand-on":
        return found
    other = Problem("not fit", (MANIFEST,), f"{MANIFEST} is not that of a bundle to hand on")
    return replace(found, problems=(*found.problems, other))


def _later(folder: Path, name: str, model: type[_L], sha256: str) -> Opened[_L]:
    """A document that was put into the bundle after it was sealed; one of another bundle says nothing of this one."""
    if not is_there(folder / name):
        return Opened(None, "", ())
    opened = open_document(folder, name, model)
    if opened.document is None or opened.document.manifest_sha256 == sha256:
        return opened
    other = Problem("not fit", (name,), f"{name} is of another bundle: it names another manifest")
    return Opened(None, opened.sha256, (*opened.problems, other))


def _believed(
    withdrawn: Opened[Withdrawal], listed: tuple[Withdrawal, ...], sealed_by: str | None, demand: Demand
) -> Withdrawal | None:
    """The withdrawal that counts, of the folder or of the register, which was checked when it was read."""
    if withdrawn.document is not None and demand.believes(withdrawn.signer, sealed_by):
        return withdrawn.document
    return next((one for one in listed if demand.believes(one.signer, sealed_by)), None)


def _withdrawal_notes(
    withdrawal: Withdrawal | None, listed: tuple[Withdrawal, ...], sealed_by: str | None, demand: Demand
) -> Iterator[str]:
    """Notes on the keys of withdrawals that are not the bundle's."""
    if withdrawal is not None and withdrawal.signer != sealed_by and not demand.keys:
        yield (
            f"the withdrawal is {withdrawal.signed_by}, which is not the key of {MANIFEST}, and no key was named, so "
            "that any withdrawal is believed; pass --public-key, so that only those count who may withdraw it"
        )
    for one in listed:
        if not demand.believes(one.signer, sealed_by):
            yield (
                f"a withdrawal in the register is {one.signed_by}, which is neither the key of {MANIFEST} nor one that "
                f"was named, so that it is not believed: {one.sentence}; ask whoever sealed the bundle, or name that "
                "key with --sign-off-key, too"
            )


def _notes(opened: Opened[Manifest], demand: Demand) -> Iterator[str]:
    if opened.document is not None and opened.document.signer is None:
        yield UNSIGNED
    elif opened.signer is not None and not demand.keys:
        yield (
            f"the signature is intact, but nobody says whose key it is: fingerprint={opened.signer}; compare it with "
            "one that you have from the signer, or pass --public-key"
        )
    if demand.register is None:
        yield NO_REGISTER


def _sign_off_notes(opened: Opened[SignOff], demand: Demand) -> Iterator[str]:
    if opened.document is None or demand.sign_off_keys or demand.keys:
        return
    if opened.document.signer is None:
        yield "the sign-off is not signed, so that anybody could have written it"
    elif opened.signer is not None:
        yield (
            f"nobody says whose key signed the sign-off: fingerprint={opened.signer}; compare it with one that you "
            "have from the signer, or pass --sign-off-key"
        )


def _clock_notes(manifest: Manifest, demand: Demand) -> Iterator[str]:
    made_at = manifest.about.made_at
    if made_at[:10] > demand.today.isoformat():
        yield f"it says that it was made at {made_at}, which is still to come: a clock is wrong, there or here"

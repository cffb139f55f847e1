"""What speaks against relying on a bundle, one problem at a time."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from understudy.bundle.demand import Demand
from understudy.bundle.documents import DIGEST, SIGNATURE, Document, Opened, Problem, is_there
from understudy.bundle.errors import BundleError
from understudy.bundle.folder import contents, digest
from understudy.bundle.judged import FAILS, public_fails
from understudy.bundle.manifest import LATER, MANIFEST, PUBLIC, SIGN_OFF, WITHDRAWAL, Manifest
from understudy.bundle.sign_off import SignOff
from understudy.bundle.withdrawal import Withdrawal
from understudy.console import printable

_D = TypeVar("_D", bound=Document)
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
    found, apart = contents(folder), _apart(folder, manifest)
    for path, file in sorted(manifest.files.items()):
        shown = printable(path)
        if path in found.files:
            try:
                if digest(found.files[path], file.size) != (file.sha256, file.size):
                    yield Problem("changed", (shown,), f"{shown} was changed")
            except BundleError as error:
                yield Problem("damaged", (shown,), f"{shown} cannot be checked: {error}")
        elif path in found.odd or path in found.folders:
            yield Problem("changed", (shown,), f"{shown} was replaced: it is {found.odd.get(path, 'a folder')}")
        else:
            yield Problem("missing", (shown,), f"{shown} is missing")
    for path in sorted(found.files.keys() - manifest.files.keys() - apart):
        yield Problem("added", (printable(path),), f"{printable(path)} was added")
    for path in sorted(found.odd.keys() - manifest.files.keys() - apart):
        yield Problem("added", (printable(path),), f"{printable(path)} was added: it is {found.odd[path]}")
    for path in sorted(found.folders - manifest.folders - manifest.files.keys()):
        yield Problem("added", (printable(path),), f"{printable(path)} was added: it is a folder")


def _apart(folder: Path, manifest: Manifest) -> frozenset[str]:
    """Files that the manifest does not name and that are checked by themselves."""
    held = [MANIFEST, *(name for name in LATER if is_there(folder / name))]
    if manifest.about.kind == "internal" and manifest.holds_public:
        held += [f"{PUBLIC}/{name}" for name in LATER if is_there(folder / PUBLIC / name)]
    return frozenset(f"{name}{suffix}" for name in held for suffix in SUFFIXES)


def sign_off_problems(
    opened: Opened[SignOff], manifest: Manifest, sha256: str, demand: Demand
) -> Iterator[Problem]:  # fmt: skip
    """A sign-off that is asked for and cannot be shown, or that is of something else, by somebody else, or over.

    Args:
        opened: the sign-off as it was found.
        manifest: of the bundle.
        sha256: of the manifest.
        demand: what must hold.
    """
    found, about = opened.document, manifest.about
    if found is None:
        if demand.signed_off and not opened.sha256:
            yield _without_sign_off(about.kind == "public", sha256)
        return
    yield from key_problems(opened, SIGN_OFF, demand.sign_off_keys or demand.keys)
    if (found.release, found.verdict, found.policy) != (about.release, about.verdict, about.policy):
        yield Problem("not fit", (SIGN_OFF,), f"{SIGN_OFF} is of another table, verdict or policy than {MANIFEST}")
    if found.expired(demand.today):
        yield Problem("expired", (SIGN_OFF,), f"{SIGN_OFF} counted until {found.expires}")


def _without_sign_off(is_public: bool, sha256: str) -> Problem:
    """That a sign-off is asked for and is not there; a public bundle never holds that of its table."""
    if not is_public:
        return Problem("missing", (SIGN_OFF,), f"{SIGN_OFF} is missing: nobody has signed this off")
    return Problem(
        "not shown",
        (SIGN_OFF,),
        "a public folder holds no sign-off: that is in the internal bundle that it was taken from, and cannot be shown "
        "here; ask whoever gave it to you to run `understudy verify --require-sign-off` on that bundle, and whether "
        f"{PUBLIC}/{MANIFEST} there has the sha256={sha256} that it has here; without --require-sign-off all else is "
        "checked",
    )


def public_problems(folder: Path, opened: Opened[SignOff]) -> Iterator[Problem]:
    """A sign-off of a table of which the public report says that it must not be released."""
    if opened.document is not None and public_fails(folder):
        yield Problem("not fit", (SIGN_OFF,), f"{SIGN_OFF} is of what must not leave: {FAILS}")


def withdrawal_problems(
    opened: Opened[Withdrawal], sealed_by: str | None, demand: Demand
) -> Iterator[Problem]:  # fmt: skip
    """A withdrawal in the folder that does not count: it is not as it was sealed, and nobody says that it is withdrawn.

    Args:
        opened: the withdrawal as it was found.
        sealed_by: fingerprint of the key that the manifest names.
        demand: what must hold.
    """
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
    """That it was withdrawn, or that its last day is over."""
    if withdrawal is not None:
        yield Problem("withdrawn", (WITHDRAWAL,), f"it is {withdrawal.sentence}")
    if manifest.expired(demand.today):
        yield Problem("expired", (MANIFEST,), f"it was valid until {manifest.about.valid_until}")


def below(inner: tuple[Problem, ...], outer: tuple[Problem, ...]) -> Iterator[Problem]:
    """What is wrong with the public bundle beyond what the outer manifest has seen of the same files."""
    seen = {path for problem in outer for path in problem.paths}
    for problem in inner:
        paths = tuple(f"{PUBLIC}/{path}" for path in problem.paths)
        if not seen.issuperset(paths):
            yield replace(problem, paths=paths, sentence=f"in {PUBLIC}/: {problem.sentence}")

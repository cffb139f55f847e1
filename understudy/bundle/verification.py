"""Verification: what of a bundle is not as it was sealed, who signed it, and whether it may still be relied on."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from understudy.bundle.demand import Demand
from understudy.bundle.documents import Opened, Problem, is_there, open_document
from understudy.bundle.errors import BundleError
from understudy.bundle.manifest import MANIFEST, PUBLIC, SIGN_OFF, WITHDRAWAL, Later, Manifest
from understudy.bundle.problems import (
    SUFFIXES,
    below,
    end_problems,
    file_problems,
    key_problems,
    public_problems,
    sign_off_problems,
    withdrawal_problems,
)
from understudy.bundle.sign_off import SignOff
from understudy.bundle.withdrawal import Withdrawal

__all__ = ["Demand", "Verification", "check_bundle", "verify"]

_L = TypeVar("_L", bound=Later)
UNSIGNED = (
    "it is not signed: what changed by accident is seen, but whoever changes it on purpose can write the manifest anew"
)
NO_REGISTER = "no register of withdrawals was asked: a copy from before a withdrawal does not know of it"


@dataclass(frozen=True)
class Verification:
    """What was found of a bundle.

    Attributes:
        manifest: none where it cannot be understood.
        sha256: of the manifest.
        signer: fingerprint of the key whose signature of the manifest is intact; none where there is none.
        problems: everything that speaks against relying on it; empty where nothing does.
        notes: what this cannot say, one sentence each.
        sign_off: of this manifest; none where there is none, or it cannot be understood.
        withdrawal: from the folder or from the register; none where there is none that counts.
        public: of the public bundle in it; none where there is none.
    """

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
        """Whether nothing speaks against relying on it."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """What was found, as plain data."""
        about = None if self.manifest is None else self.manifest.about.model_dump(mode="json")
        return {
            "verified": self.is_sound,
            "about": about,
            "n_files": 0 if self.manifest is None else len(self.manifest.files),
            "manifest_sha256": self.sha256,
            "signer": self.signer,
            "problems": [asdict(problem) for problem in self.problems],
            "notes": list(self.notes),
            "sign_off": None if self.sign_off is None else self.sign_off.model_dump(mode="json"),
            "withdrawal": None if self.withdrawal is None else self.withdrawal.model_dump(mode="json"),
            "public": None if self.public is None else self.public.to_dict(),
        }


def check_bundle(folder: Path) -> None:
    """Refuse a folder that is no bundle.

    Raises:
        BundleError: it is no folder, or nothing in it is a manifest's.
    """
    if not folder.is_dir():
        raise BundleError(f"there is no bundle at path={str(folder)!r}; name the folder that holds {MANIFEST}")
    if not any(is_there(folder / f"{MANIFEST}{suffix}") for suffix in SUFFIXES):
        raise BundleError(
            f"this folder is no evidence bundle: path={str(folder)!r} holds no {MANIFEST}; name one that does"
        )


def verify(folder: Path, demand: Demand) -> Verification:
    """Everything that can be found out about a bundle; nothing in it is believed before it is checked.

    Raises:
        BundleError: the folder is no bundle.
    """
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
    """The public bundle inside an internal one; it holds no other."""
    inside = folder / PUBLIC
    if manifest.about.kind != "internal" or not manifest.holds_public or inside.is_symlink():
        return None
    if not (inside / MANIFEST).exists():
        return None  # that its manifest is missing, the outer one says
    found = replace(verify(inside, replace(demand, signed_off=False)), notes=())
    if found.manifest is None or found.manifest.about.kind == "public":
        return found
    other = Problem("not fit", (MANIFEST,), f"{MANIFEST} is not that of a public bundle")
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
    """Who is believed, where that is not the key of the bundle."""
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

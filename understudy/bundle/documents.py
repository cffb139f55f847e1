"""The signed documents of a bundle: each has one form only, a digest beside it, and a signature where there is a key.

::

    NAME.json           the document
    NAME.json.sha256    its digest, as `sha256sum` writes and checks it: shows an accident where nobody signed
    NAME.json.sig       its detached signature
"""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from synth.output import sync, whole_file
from synth.validation import Frozen, sentence
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.keys import Signer, fingerprint
from understudy.console import printable

DIGEST, SIGNATURE = ".sha256", ".sig"
LIMIT_BYTES = 16 * 2**20
HEX_32, HEX_64 = r"^[0-9a-f]{64}\Z", r"^[0-9a-f]{128}\Z"


class Signature(Frozen):
    """A detached Ed25519 signature over a document's bytes; all in hexadecimal, which has one form only."""

    algorithm: Literal["ed25519"] = "ed25519"
    fingerprint: str = Field(description="SHA-256 of the public key's DER form.")
    public_key: str = Field(description="The 32 bytes of the public key.")
    signature: str = Field(description="The 64 bytes of the signature.")


class SignedDocument(Frozen):
    """What every document says, whatever else it says."""

    signer: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="Fingerprint of the key that signs this; none: nobody signs it. So no signature can be left out.",
    )


T = TypeVar("T", bound=BaseModel)
D = TypeVar("D", bound=SignedDocument)
Kind = Literal[
    "changed", "missing", "added", "damaged", "unsigned", "another key", "withdrawn", "expired", "not fit", "not shown"
]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a bundle.

    Attributes:
        kind: what it is, in one word or two.
        paths: what it is about, from the bundle's folder; several where one of them was changed and nobody can say
            which.
        sentence: what is wrong.
    """

    kind: Kind
    paths: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Opened(Generic[D]):
    """A document as it was found.

    Attributes:
        document: what it says; none where it says nothing that can be understood.
        sha256: of its bytes; empty where it could not be read.
        problems: what is wrong with it.
        signer: fingerprint of the key whose signature is intact; none where there is none.
    """

    document: D | None
    sha256: str
    problems: tuple[Problem, ...]
    signer: str | None = None


def canonical(document: BaseModel) -> bytes:
    """The one form of a document: ASCII, sorted keys, one space of indent, a new line at the end."""
    content = document.model_dump(mode="json")
    return (json.dumps(content, sort_keys=True, indent=1, separators=(",", ": ")) + "\n").encode("ascii")


def parsed(name: str, content: bytes, model: type[T]) -> T:
    """A document from its bytes.

    Raises:
        BundleError: they are not the one form of such a document.
    """
    try:
        document = model.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise BundleError(f"{name} cannot be understood: {printable(sentence(error, model))[:300]}") from None
    if canonical(document) != content:
        raise BundleError(
            f"{name} is not in the one form that it has (sorted keys, none of them twice, fixed spaces); "
            "something else wrote or changed it"
        )
    return document


def write_document(folder: Path, name: str, document: SignedDocument, signer: Signer | None) -> str:
    """Write a document with what lies beside it; itself last, so that where it is, all of it is.

    Args:
        folder: is there.
        name: of the document; what has this name is replaced.
        document: what it says; its `signer` is the fingerprint of `signer`.
        signer: signs it; none: nobody does.

    Returns:
        The SHA-256 of its bytes.

    Raises:
        OutputError: the folder cannot be written.
    """
    content = canonical(document)
    sha256 = hashlib.sha256(content).hexdigest()
    remove_document(folder, name)
    beside = {DIGEST: digest_line(name, sha256)}
    if signer is not None:
        beside[SIGNATURE] = canonical(signed(content, signer))
    for suffix, text in (*beside.items(), ("", content)):
        with whole_file(folder / f"{name}{suffix}") as path:
            path.write_bytes(text)
    return sha256


def remove_document(folder: Path, name: str) -> None:
    """Remove a document and what lies beside it; the document first, without which the rest says nothing."""
    for suffix in ("", DIGEST, SIGNATURE):
        place = folder / f"{name}{suffix}"
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)  # no name of a bundle's own is anybody's folder
        else:
            place.unlink(missing_ok=True)
    sync(folder)


def digest_line(name: str, sha256: str) -> bytes:
    """What the digest's file holds."""
    return f"{sha256}  {name}\n".encode("ascii")


def signed(content: bytes, signer: Signer) -> Signature:
    """The signature of a document's bytes."""
    return Signature(
        fingerprint=signer.fingerprint,
        public_key=signer.key.public_key().public_bytes_raw().hex(),
        signature=signer.key.sign(content).hex(),
    )


def open_document(folder: Path, name: str, model: type[D]) -> Opened[D]:
    """A document as it is found, with everything that is wrong with it and with what lies beside it."""
    if not is_there(folder / name):
        return Opened(None, "", (Problem("missing", (name,), f"{name} is missing"),))
    try:
        content = read_plain(folder / name, LIMIT_BYTES)
    except BundleError as error:
        return Opened(None, "", (Problem("damaged", (name,), str(error)),))
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        document = parsed(name, content, model)
    except BundleError as error:
        return Opened(None, sha256, (Problem("changed", (name,), str(error)),))
    signer, unsigned = _signature(folder, name, content, document.signer)
    digest = _digest(folder, name, sha256, signed=signer is not None)
    return Opened(document, sha256, (*digest, *unsigned), signer)


def _digest(folder: Path, name: str, sha256: str, *, signed: bool) -> tuple[Problem, ...]:
    """What is wrong with the digest beside a document; a signature that fits says that the document is not at fault."""
    beside = f"{name}{DIGEST}"
    if not is_there(folder / beside):
        return (Problem("missing", (beside,), f"{beside} is missing"),)
    try:
        found = read_plain(folder / beside, LIMIT_BYTES)
    except BundleError as error:
        return (Problem("damaged", (beside,), str(error)),)
    if found == digest_line(name, sha256):
        return ()
    if signed or re.fullmatch(rb"[0-9a-f]{64}  " + re.escape(name.encode()) + rb"\n", found) is None:
        return (Problem("changed", (beside,), f"{beside} was changed"),)
    return (Problem("changed", (name, beside), f"{name} or {beside} was changed: they do not belong together"),)


def _signature(
    folder: Path, name: str, content: bytes, expected: str | None
) -> tuple[str | None, tuple[Problem, ...]]:  # fmt: skip
    """The key whose signature is intact, and what is wrong with the signature beside a document."""
    beside = f"{name}{SIGNATURE}"
    there = is_there(folder / beside)
    if expected is None:
        added = Problem("added", (beside,), f"{beside} was added: {name} says that nobody signs it")
        return None, (added,) if there else ()
    if not there:
        return None, (Problem("missing", (beside,), f"{beside} is missing, and {name} says that a key signs it"),)
    try:
        found = parsed(beside, read_plain(folder / beside, LIMIT_BYTES), Signature)
        by = key_of(found)
    except BundleError as error:
        return None, (Problem("changed", (beside,), str(error)),)
    wrong = _wrong(found, by, name, content, expected)
    return (by, ()) if wrong is None else (None, (wrong,))


def _wrong(found: Signature, by: str, name: str, content: bytes, expected: str) -> Problem | None:
    beside = f"{name}{SIGNATURE}"
    if found.fingerprint != by:
        return Problem("changed", (beside,), f"{beside} was changed: its fingerprint is not that of its key")
    if by != expected:
        other = f"{beside} is by another key than {name} names, which is {expected}"
        return Problem("another key", (beside,), other)
    if not fits(found, content):
        return Problem("changed", (name, beside), f"{name} or {beside} was changed: the signature does not fit")
    return None


def key_of(found: Signature) -> str:
    """The fingerprint of the key in a signature.

    Raises:
        BundleError: it holds no key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not re.fullmatch(HEX_32, found.public_key) or not re.fullmatch(HEX_64, found.signature):
        raise BundleError("the signature holds no key and signature in hexadecimal; ask for another copy")
    return fingerprint(Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.public_key)))


def fits(found: Signature, content: bytes) -> bool:
    """Whether a signature is of these bytes, by the key that it holds."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.public_key))
    try:
        key.verify(bytes.fromhex(found.signature), content)
    except InvalidSignature:
        return False
    return True


def is_there(path: Path) -> bool:
    """Whether anything has this name, if only a link that leads nowhere."""
    return path.is_symlink() or path.exists()

"""The documents of a bundle: in-toto Statements of one form, each with a digest, and in a DSSE envelope where signed.

::

    NAME.json           the statement
    NAME.json.sha256    its digest, as `sha256sum` writes and checks it: shows an accident where nobody signed
    NAME.json.sig       the envelope: the same bytes again, with the signature

No library writes or reads an envelope here: of `securesystemslib` only the five lines of `pae` would be of use, since
it also takes envelopes in other forms than the one, whose bytes would be free. It verifies ours in the tests.
"""

import base64
import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from synth.output import sync, whole_file
from synth.validation import Frozen, sentence
from understudy.bundle.files import BundleError, read_plain
from understudy.bundle.keys import Signer, fingerprint, public_key
from understudy.console import printable

DIGEST, SIGNATURE = ".sha256", ".sig"
LIMIT_BYTES = 16 * 2**20
STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"
_OLDER = re.compile(rb'"(?:manifest|sign_off|withdrawal)_version": ?1\b')
"""A key of documents from before they were statements."""


def _one_form(text: str) -> str:
    if base64.b64encode(base64.b64decode(text, validate=True)).decode("ascii") != text:
        raise ValueError("it is not in the one form that Base64 has")
    return text


Base64 = Annotated[str, AfterValidator(_one_form)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 in hexadecimal.")]


class KeySignature(Frozen):
    """An Ed25519 signature over the pre-authentication encoding of a payload."""

    keyid: Digest = Field(description="Fingerprint: SHA-256 of the public key's DER form.")
    sig: Base64


class Envelope(Frozen):
    """A DSSE envelope, which other programs verify, too; without a signature where nobody signed.

    Source: "DSSE: Dead Simple Signing Envelope", version 1.0, https://github.com/secure-systems-lab/dsse.
    """

    payload: Base64
    payload_type: Literal["application/vnd.in-toto+json"] = Field(default=PAYLOAD_TYPE, alias="payloadType")
    signatures: tuple[KeySignature, ...] = Field(default=(), max_length=1)


class Digests(Frozen):
    """The digest of a file."""

    sha256: Digest


class Subject(Frozen):
    """A file that a statement is about."""

    name: str
    digest: Digests


class Predicate(Frozen):
    """A statement's content: its signer, whatever else it says."""

    public_key: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="The 32 bytes of the key that signs this; `None`: nobody does. So no signature can be left out.",
    )


class Statement(Frozen):
    """An in-toto Statement.

    Source: "in-toto Attestation Framework", version 1, https://github.com/in-toto/attestation/tree/main/spec/v1.
    """

    statement_type: Literal["https://in-toto.io/Statement/v1"] = Field(default=STATEMENT_TYPE, alias="_type")
    subject: tuple[Subject, ...]
    predicate: Predicate

    @property
    def signer(self) -> str | None:
        """Fingerprint of the key that signs it; `None` where nobody does."""
        key = self.predicate.public_key
        return None if key is None else fingerprint(public_key(key))


T = TypeVar("T", bound=BaseModel)
D = TypeVar("D", bound=Statement)
Kind = Literal[
    "changed", "missing", "added", "damaged", "unsigned", "another key", "withdrawn", "expired", "not fit", "not shown",
    "older format",
]  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a bundle."""

    kind: Kind
    paths: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Opened(Generic[D]):
    """A document as it was found."""

    document: D | None
    sha256: str
    problems: tuple[Problem, ...]
    signer: str | None = None
    envelope: Envelope | None = None


def canonical(document: BaseModel) -> bytes:
    """The one form of a document: ASCII, sorted keys, one space of indent, a new line at the end."""
    content = document.model_dump(mode="json", by_alias=True)
    return (json.dumps(content, sort_keys=True, indent=1, separators=(",", ": ")) + "\n").encode("ascii")


def parsed(name: str, content: bytes, model: type[T]) -> T:
    """A document from its bytes."""
    try:
        document = model.model_validate_json(content, strict=True)
    except ValidationError as error:
        if _OLDER.search(content):
            raise BundleError(
                f"{name} has the format of an older version, which this one does not read; verify it with that "
                "version, or make the bundle again"
            ) from None
        raise BundleError(f"{name} cannot be understood: {printable(sentence(error, model))[:300]}") from None
    if canonical(document) != content:
        raise BundleError(
            f"{name} is not in the one form that it has (sorted keys, none of them twice, fixed spaces); "
            "something else wrote or changed it"
        )
    return document


def pae(payload: bytes) -> bytes:
    """The pre-authentication encoding of a payload: the bytes that are signed, so that its type is signed, too."""
    kind = PAYLOAD_TYPE.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope_of(content: bytes, signer: Signer | None) -> Envelope:
    """A document's bytes in an envelope, signed where somebody signs."""
    payload = base64.b64encode(content).decode("ascii")
    if signer is None:
        return Envelope(payload=payload)
    sig = base64.b64encode(signer.key.sign(pae(content))).decode("ascii")
    return Envelope(payload=payload, signatures=(KeySignature(keyid=signer.fingerprint, sig=sig),))


def is_intact(envelope: Envelope, content: bytes, document: Statement) -> bool:
    """True where an envelope holds a document's bytes, signed by the key that the document names, and by no other."""
    from cryptography.exceptions import InvalidSignature

    if envelope.payload != base64.b64encode(content).decode("ascii"):
        return False
    if document.predicate.public_key is None or not envelope.signatures:
        return document.predicate.public_key is None and not envelope.signatures
    (one,) = envelope.signatures
    try:
        public_key(document.predicate.public_key).verify(base64.b64decode(one.sig), pae(content))
    except InvalidSignature:
        return False
    return one.keyid == document.signer


def write_document(folder: Path, name: str, document: Statement, signer: Signer | None) -> Envelope:
    """Write a document with what lies beside it; itself last, so that where it is, all of it is."""
    content = canonical(document)
    envelope = envelope_of(content, signer)
    remove_document(folder, name)
    beside = {DIGEST: digest_line(name, hashlib.sha256(content).hexdigest())}
    if signer is not None:
        beside[SIGNATURE] = canonical(envelope)
    for suffix, text in (*beside.items(), ("", content)):
        with whole_file(folder / f"{name}{suffix}") as path:
            path.write_bytes(text)
    return envelope


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
    """The content of the digest's file."""
    return f"{sha256}  {name}\n".encode("ascii")


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
        kind: Kind = "older format" if _OLDER.search(content) else "changed"
        return Opened(None, sha256, (Problem(kind, (name,), str(error)),))
    envelope, unsigned = _envelope(folder, name, content, document)
    signer = None if envelope is None else document.signer
    digest = _digest(folder, name, sha256, signed=signer is not None)
    return Opened(document, sha256, (*digest, *unsigned), signer, envelope)


def _digest(folder: Path, name: str, sha256: str, *, signed: bool) -> tuple[Problem, ...]:
    """The problem of the digest beside a document; a signature that fits says that the document is not at fault."""
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


def _envelope(
    folder: Path, name: str, content: bytes, document: Statement
) -> tuple[Envelope | None, tuple[Problem, ...]]:  # fmt: skip
    """A document in its envelope, where that is intact, and what is wrong with the one beside it."""
    beside = f"{name}{SIGNATURE}"
    there = is_there(folder / beside)
    if document.signer is None:
        added = Problem("added", (beside,), f"{beside} was added: {name} says that nobody signs it")
        return (None, (added,)) if there else (envelope_of(content, None), ())
    if not there:
        return None, (Problem("missing", (beside,), f"{beside} is missing, and {name} says that a key signs it"),)
    try:
        found = parsed(beside, read_plain(folder / beside, 2 * LIMIT_BYTES), Envelope)  # Base64 adds a third
    except BundleError as error:
        return None, (Problem("changed", (beside,), str(error)),)
    if any(one.keyid != document.signer for one in found.signatures):
        other = f"{beside} is by another key than {name} names, which is {document.signer}"
        return None, (Problem("another key", (beside,), other),)
    if not is_intact(found, content, document):
        unfit = f"{name} or {beside} was changed: the signature does not fit"
        return None, (Problem("changed", (name, beside), unfit),)
    return found, ()


def is_there(path: Path) -> bool:
    """True where anything has this name, if only a link that leads nowhere."""
    return path.is_symlink() or path.exists()

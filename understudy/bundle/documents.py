"""The documents of a bundle: in-toto Statements of one form, each beside the DSSE envelope that it is signed in.

::

    NAME.json        the statement
    NAME.json.sig    the envelope, one line of JSON: the same bytes again, and the signature of whoever signs

An envelope without a signature shows accidents alone. `securesystemslib` makes and verifies envelopes; what it reads
generously, such as Base64 with other bytes in between, is held to the one form that it writes, so that no byte is free.

Source: "in-toto Attestation Framework", version 1, https://github.com/in-toto/attestation/tree/main/spec/v1; "DSSE:
Dead Simple Signing Envelope", version 1.0, https://github.com/secure-systems-lab/dsse.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError, VerificationError
from securesystemslib.signer import SSlibKey

from synth.output import sync, whole_file
from synth.validation import Frozen, plain_json, sentence
from understudy.bundle.files import BundleError, is_there, read_plain
from understudy.bundle.keys import Signer, key_from
from understudy.console import printable

SIGNATURE = ".sig"
LIMIT_BYTES = 16 * 2**20
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 in hexadecimal.")]


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
    """An in-toto Statement."""

    statement_type: Literal["https://in-toto.io/Statement/v1"] = Field(default=STATEMENT_TYPE, alias="_type")
    subject: tuple[Subject, ...]
    predicate: Predicate

    @property
    def key(self) -> SSlibKey | None:
        """The key that signs it; `None` where nobody does."""
        return None if self.predicate.public_key is None else key_from(self.predicate.public_key)

    @property
    def signer(self) -> str | None:
        """The fingerprint of that key."""
        return None if self.key is None else self.key.keyid

    @property
    def signed_by(self) -> str:
        """Whose key signed it, in words."""
        return "not signed" if self.signer is None else f"signed by {self.signer}"


D = TypeVar("D", bound=Statement)
Kind = Literal["changed", "missing", "added", "unsigned", "another key", "withdrawn", "expired", "not fit"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a bundle."""

    kind: Kind
    paths: tuple[str, ...]
    sentence: str


class Unsound(BundleError):
    """A document is not as it was written."""

    def __init__(self, kind: Kind, paths: tuple[str, ...], why: str) -> None:
        super().__init__(why)
        self.problem = Problem(kind, paths, why)


def canonical(document: BaseModel) -> bytes:
    """The one form of a document: ASCII, sorted keys, one space of indent, a new line at the end."""
    content = document.model_dump(mode="json", by_alias=True)
    return (json.dumps(content, sort_keys=True, indent=1, separators=(",", ": ")) + "\n").encode("ascii")


def sha256_of(document: BaseModel) -> str:
    """The digest of a document's bytes, as they are wherever it was read from."""
    return hashlib.sha256(canonical(document)).hexdigest()


def public_hex(signer: Signer | None) -> str | None:
    return None if signer is None else str(signer.public_key.keyval["public"])


def enveloped(document: Statement, signer: Signer | None) -> bytes:
    """A document in its envelope, as a line."""
    envelope = Envelope(canonical(document), PAYLOAD_TYPE, {})
    if signer is not None:
        envelope.sign(signer)
    return _line(envelope)


def _line(envelope: Envelope) -> bytes:
    return (json.dumps(envelope.to_dict(), sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")


def opened(line: bytes, model: type[D], name: str) -> D:
    """The document of an envelope, once it is certain that the key which it names has signed it."""
    return _document(_parsed(line, f"{name}{SIGNATURE}"), model, name)


def _document(envelope: Envelope, model: type[D], name: str) -> D:
    try:
        document = model.model_validate_json(envelope.payload, strict=True)
    except ValidationError as error:
        why = printable(sentence(error, model))[:300]
        raise Unsound("changed", (name,), f"{name} cannot be understood: {why}") from None
    if canonical(document) != envelope.payload:
        why = f"{name} is not in the one form that it has (sorted keys, none of them twice, fixed spaces)"
        raise Unsound("changed", (name,), f"{why}; something else wrote or changed it")
    key, beside = document.key, f"{name}{SIGNATURE}"
    if len(envelope.signatures) != (key is not None):
        signs = "nobody signs it" if key is None else "a key signs it"
        raise Unsound("changed", (beside,), f"a signature in {beside} was added or left out: {name} says that {signs}")
    try:
        if key is not None:
            envelope.verify([key], 1)
    except VerificationError:
        why = f"{name} or {beside} was changed: the signature does not fit, or is by another key than {name} names"
        raise Unsound("changed", (name, beside), why) from None
    return document


def _parsed(line: bytes, name: str) -> Envelope:
    """An envelope that is, byte for byte, what would be written of it."""
    try:
        envelope = Envelope.from_dict(plain_json(line))
        is_ours = envelope.payload_type == PAYLOAD_TYPE and _line(envelope) == line
        extra = any(signature.unrecognized_fields for signature in envelope.signatures.values())
    except (AttributeError, FormatError, KeyError, TypeError, ValueError):
        is_ours, extra = False, False
    if not is_ours or extra:
        raise Unsound("changed", (name,), f"{name} is no envelope in the one form that it has; something else wrote it")
    return envelope


def read_document(folder: Path, name: str, model: type[D]) -> D:
    """A document that lies in a bundle beside its envelope, both as they were written."""
    parts = list[bytes]()
    for path, limit in ((name, LIMIT_BYTES), (f"{name}{SIGNATURE}", 2 * LIMIT_BYTES)):  # Base64 adds a third
        if not is_there(folder / path):
            raise Unsound("missing", (path,), f"{path} is missing")
        try:
            parts.append(read_plain(folder / path, limit))
        except BundleError as error:
            raise Unsound("changed", (path,), str(error)) from None
    content, line = parts
    envelope = _parsed(line, f"{name}{SIGNATURE}")
    if envelope.payload != content:
        paths = (name, f"{name}{SIGNATURE}")
        raise Unsound("changed", paths, f"{' or '.join(paths)} was changed: they do not belong together")
    return _document(envelope, model, name)


def write_document(folder: Path, name: str, line: bytes) -> str:
    """Write a document from its envelope; itself last, so that where it is, all of it is. Its SHA-256 is returned."""
    content = _parsed(line, name).payload
    remove_document(folder, name)
    for path, part in ((f"{name}{SIGNATURE}", line), (name, content)):
        with whole_file(folder / path) as beside:
            beside.write_bytes(part)
    return hashlib.sha256(content).hexdigest()


def remove_document(folder: Path, name: str) -> None:
    """Remove a document and its envelope; the document first, without which the rest says nothing."""
    for path in (folder / name, folder / f"{name}{SIGNATURE}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # no name of a bundle's own is anybody's folder
        else:
            path.unlink(missing_ok=True)
    sync(folder)

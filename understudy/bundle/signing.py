"""A bundle's files as they really lie in a folder, its signed documents, and the Ed25519 keys that sign them.

No link is ever followed, and no pipe is waited for. Documents are in-toto Statements of one form, each beside the DSSE
envelope that it is signed in.

::

    NAME.json        the statement
    NAME.json.sig    the envelope, one line of JSON: the same bytes again, and the signature of whoever signs

An envelope without a signature shows accidents alone. `securesystemslib` makes and verifies envelopes; what it reads
generously, such as Base64 with other bytes in between, is held to the one form that it writes, so that no byte is free.

Keys are what openssl makes and reads: PEM with PKCS 8 for the private key, SubjectPublicKeyInfo for the public one. A
fingerprint is the SHA-256 of the public key's DER form, which
``openssl pkey -pubin -in KEY.pub -outform DER | sha256sum`` gives too.
Source: "in-toto Attestation Framework", version 1, https://github.com/in-toto/attestation/tree/main/spec/v1; "DSSE:
Dead Simple Signing Envelope", version 1.0, https://github.com/secure-systems-lab/dsse; RFC 8032 (Ed25519).
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, Field, ValidationError
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError, VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from synth.errors import BadInput
from synth.output import sync, whole_file
from synth.validation import Frozen, plain_json, sentence
from understudy.console import printable

FILE, FOLDER, LINK = "a file", "a folder", "a link"
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
PASSPHRASE_VARIABLE = "UNDERSTUDY_SIGN_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable, not its value
PUBLIC_SUFFIX = ".pub"
KEY_LIMIT_BYTES = 64 * 1024
MAKE_ONE = "pass one that `understudy key FILE` or `openssl genpkey -algorithm ed25519` makes"
SIGNATURE = ".sig"
LIMIT_BYTES = 16 * 2**20
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 in hexadecimal.")]
Kind = Literal["changed", "missing", "added", "unsigned", "another key", "withdrawn", "expired", "not fit"]


class BundleError(BadInput):
    """A bundle, a key or a register cannot be used, or what was asked of it is refused; nothing was written."""


def contents(folder: Path) -> dict[str, str]:
    """What everything below a folder is, hidden or not, by its path from there with `/` between the parts."""
    known = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}
    kinds = dict[str, str]()

    def refuse(error: OSError) -> None:
        name = os.path.relpath(error.filename, folder)
        if name == ".":
            raise BundleError(f"the folder cannot be read: path={str(folder)!r} ({error.strerror}); name one that can")
        kinds[name] = f"a folder that cannot be read ({error.strerror})"

    for at, folders, files in os.walk(folder, onerror=refuse):
        for path in (Path(at, name) for name in (*folders, *files)):
            kinds[path.relative_to(folder).as_posix()] = known.get(stat.S_IFMT(path.lstat().st_mode), "no plain file")
    return kinds


def read_plain(path: Path, limit: int) -> bytes:
    handle, size = _open_plain(path)
    with os.fdopen(handle, "rb") as file:
        if size > limit:
            raise BundleError(f"{path.name} is larger than such a file can be: bytes={size}; it may have {limit}")
        return file.read(limit + 1)


def digest(path: Path, expected_size: int | None = None) -> tuple[str, int]:
    """SHA-256 in hexadecimal, and bytes, of a plain file; one of another size than expected is not read."""
    handle, size = _open_plain(path)
    with os.fdopen(handle, "rb") as file:
        if expected_size not in (None, size):
            return "", size
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _open_plain(path: Path) -> tuple[int, int]:
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        raise BundleError(
            f"{path.name} cannot be read ({error.strerror}); ask for access, or for another copy"
        ) from None
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return handle, status.st_size
    os.close(handle)
    raise BundleError(f"{path.name} is no plain file; put the file itself there")


def is_there(path: Path) -> bool:
    """True where anything has this name, if only a link that leads nowhere."""
    return os.path.lexists(path)


class Signer(CryptoSigner):
    def __init__(self, key: Ed25519PrivateKey) -> None:
        super().__init__(key, named_key(key.public_key()))

    @property
    def fingerprint(self) -> str:
        """Names the key pair: 64 hexadecimal digits."""
        return self.public_key.keyid


def named_key(key: Ed25519PublicKey) -> SSlibKey:
    """A public key that goes by its fingerprint."""
    der = key.public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
    return SSlibKey.from_crypto(key, hashlib.sha256(der).hexdigest())


def public_pem(key: SSlibKey) -> str:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"]))
    return public.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def load_signer(path: Path, environment: Mapping[str, str] = os.environ) -> Signer:
    content, passphrase = _read_key(path), environment.get(PASSPHRASE_VARIABLE, "")
    is_locked = b"ENCRYPTED" in content
    if is_locked and not passphrase:
        raise BundleError(f"the key in {str(path)!r} has a passphrase; put it into {PASSPHRASE_VARIABLE}")
    try:
        key = forms.load_pem_private_key(content, passphrase.encode() if is_locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if is_locked:
            raise BundleError(
                f"the key in {str(path)!r} does not open with the passphrase in {PASSPHRASE_VARIABLE}; correct it there"
            ) from None
        public = "a public key, which cannot sign" if b"PUBLIC KEY" in content else "not a private key in PEM"
        raise BundleError(f"{str(path)!r} holds {public}; {MAKE_ONE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BundleError(f"the key in {str(path)!r} is of another kind, and signatures here are Ed25519; {MAKE_ONE}")
    return Signer(key)


def load_public(path: Path) -> SSlibKey:
    """The public key of a file. A private one is refused: whoever checks must not have it."""
    content = _read_key(path)
    if b"PRIVATE KEY" in content:
        raise BundleError(
            f"{str(path)!r} is a private key, with which anybody can sign in its owner's name: it must not be passed "
            f"on; name the public one, the {PUBLIC_SUFFIX} file beside it"
        )
    try:
        key = forms.load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BundleError(f"{str(path)!r} holds no public key in PEM; pass the .pub file beside the key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BundleError(f"the key in {str(path)!r} is of another kind, and signatures here are Ed25519; {MAKE_ONE}")
    return named_key(key)


def exposed(path: Path) -> str | None:
    """A warning about a private key that others than its owner can read."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077 == 0:
        return None
    return f"others than its owner can read the private key {str(path)!r}; run `chmod 600` on it"


def make_keys(path: Path, environment: Mapping[str, str] = os.environ) -> Signer:
    """A new key pair: the private key at `path`, for its owner only, the public one beside it with `.pub`."""
    signer = Signer(key := Ed25519PrivateKey.generate())
    passphrase = environment.get(PASSPHRASE_VARIABLE, "")
    lock = forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, lock)
    files = {
        path.with_name(path.name + PUBLIC_SUFFIX): (public_pem(signer.public_key).encode(), 0o644),
        path: (private, 0o600),
    }
    for name in files:
        if is_there(name):
            raise BundleError(f"a key is never written over another: {str(name)!r} exists; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, (content, mode) in files.items():
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    return signer


def _read_key(path: Path) -> bytes:
    try:
        return read_plain(path.resolve(), KEY_LIMIT_BYTES)
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a NUL character
        why = f": {error}" if isinstance(error, BundleError) else "; check the name"
        raise BundleError(f"the key cannot be used: path={str(path)!r}{why}") from None


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
        public = self.predicate.public_key
        return None if public is None else named_key(Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)))

    @property
    def signer(self) -> str | None:
        """The fingerprint of that key."""
        return None if self.key is None else self.key.keyid

    @property
    def signed_by(self) -> str:
        return "not signed" if self.signer is None else f"signed by {self.signer}"


D = TypeVar("D", bound=Statement)


@dataclass(frozen=True)
class Problem:
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

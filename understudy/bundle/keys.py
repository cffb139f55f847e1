"""Ed25519 keys: made, loaded, named by a fingerprint.

Files are what openssl makes and reads: PEM with PKCS 8 for the private key, SubjectPublicKeyInfo for the public one.
A fingerprint is the SHA-256 of the public key's DER form, which
``openssl pkey -pubin -in KEY.pub -outform DER | sha256sum`` gives too.

Source: S. Josefsson and I. Liusvaara, "Edwards-Curve Digital Signature Algorithm (EdDSA)", RFC 8032, 2017.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from synth.output import check_writable
from understudy.bundle.files import BundleError, read_plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PASSPHRASE_VARIABLE = "UNDERSTUDY_SIGN_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable, not its value
PUBLIC_SUFFIX = ".pub"
LIMIT_BYTES = 64 * 1024
MAKE_ONE = "pass one that `understudy keys new FILE` or `openssl genpkey -algorithm ed25519` makes"


@dataclass(frozen=True)
class Signer:
    """Somebody who can sign.

    Attributes:
        key: *Sensitive*. The private key.
    """

    key: "Ed25519PrivateKey" = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Names the key pair: 64 hexadecimal digits."""
        return fingerprint(self.key.public_key())

    @property
    def public_key(self) -> str:
        """The 32 bytes of the public key, in hexadecimal."""
        return self.key.public_key().public_bytes_raw().hex()


def public_key(content: str) -> "Ed25519PublicKey":
    """A public key from its 32 bytes in hexadecimal."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(content))


def fingerprint(key: "Ed25519PublicKey") -> str:
    """SHA-256 of a public key's DER form, in hexadecimal."""
    from cryptography.hazmat.primitives import serialization as forms

    der = key.public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def public_pem(key: "Ed25519PublicKey") -> str:
    """A public key as PEM text."""
    from cryptography.hazmat.primitives import serialization as forms

    return key.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def load_signer(path: Path, environment: Mapping[str, str] = os.environ) -> Signer:
    """The signer of a private key's file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read(path)
    locked = b"ENCRYPTED" in content
    passphrase = environment.get(PASSPHRASE_VARIABLE, "")
    if locked and not passphrase:
        raise BundleError(f"the key in {str(path)!r} has a passphrase; put it into {PASSPHRASE_VARIABLE}")
    try:
        key = load_pem_private_key(content, passphrase.encode() if locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if locked:
            raise BundleError(
                f"the key in {str(path)!r} does not open with the passphrase in {PASSPHRASE_VARIABLE}; correct it there"
            ) from None
        public = "a public key, which cannot sign" if b"PUBLIC KEY" in content else "not a private key in PEM"
        raise BundleError(f"{str(path)!r} holds {public}; {MAKE_ONE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BundleError(f"the key in {str(path)!r} is of another kind, and signatures here are Ed25519; {MAKE_ONE}")
    return Signer(key)


def load_public(path: Path, environment: Mapping[str, str] = os.environ) -> "Ed25519PublicKey":
    """The public key of a file that holds it, or of a private key's file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _read(path)
    if _is_private(content):
        return load_signer(path, environment).key.public_key()
    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BundleError(f"{str(path)!r} holds no public key in PEM; pass the .pub file beside the key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BundleError(f"the key in {str(path)!r} is of another kind, and signatures here are Ed25519; {MAKE_ONE}")
    return key


def passed_on(path: Path) -> str | None:
    """A warning about a private key where a public one was asked for; none where it is not private."""
    if not _is_private(_read(path)):
        return None
    return (
        f"{str(path)!r} is the private key, with which anybody can sign in its owner's name: it must not be passed on; "
        f"give away and name the public one, the {PUBLIC_SUFFIX} file beside it"
    )


def _is_private(content: bytes) -> bool:
    return b"PRIVATE KEY" in content


def exposed(path: Path) -> str | None:
    """A warning about a private key that others than its owner can read; none where nobody can."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077 == 0:
        return None
    return f"others than its owner can read the private key {str(path)!r}; run `chmod 600` on it"


def make_keys(path: Path, environment: Mapping[str, str] = os.environ) -> Signer:
    """A new key pair: the private key at `path`, for its owner only, the public one beside it with `.pub`."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for place in (path, public):
        check_writable(place)
        if place.is_symlink() or place.exists():
            raise BundleError(f"a key is never written over another: {str(place)!r} exists; name another file")
    signer = Signer(Ed25519PrivateKey.generate())
    passphrase = environment.get(PASSPHRASE_VARIABLE, "")
    lock = forms.BestAvailableEncryption(passphrase.encode()) if passphrase else forms.NoEncryption()
    private = signer.key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, lock)
    # The public one first: a private key without it is of use, and is what must not be lost or half there.
    _write_new(public, public_pem(signer.key.public_key()).encode("ascii"), 0o644)
    try:
        _write_new(path, private, 0o600)
    except BaseException:
        public.unlink(missing_ok=True)
        raise
    return signer


def _write_new(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise BundleError(f"a key is never written over another: {str(path)!r} exists; name another file") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes:
    try:
        return read_plain(path.resolve(), LIMIT_BYTES)
    except BundleError as error:
        raise BundleError(f"the key cannot be used: path={str(path)!r}: {error}") from None
    except (OSError, RuntimeError, ValueError):
        raise BundleError(f"the key cannot be read: path={str(path)!r}; check the name") from None

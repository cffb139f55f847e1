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
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.signer import CryptoSigner, SSlibKey

from understudy.bundle.files import BundleError, is_there, read_plain

PASSPHRASE_VARIABLE = "UNDERSTUDY_SIGN_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable, not its value
PUBLIC_SUFFIX = ".pub"
LIMIT_BYTES = 64 * 1024
MAKE_ONE = "pass one that `understudy key FILE` or `openssl genpkey -algorithm ed25519` makes"


class Signer(CryptoSigner):
    """Somebody who can sign."""

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


def key_from(public_hex: str) -> SSlibKey:
    """A public key from its 32 bytes in hexadecimal."""
    return named_key(Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_hex)))


def public_pem(key: SSlibKey) -> str:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"]))
    return public.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def load_signer(path: Path, environment: Mapping[str, str] = os.environ) -> Signer:
    """The signer of a private key's file."""
    content, passphrase = _read(path), environment.get(PASSPHRASE_VARIABLE, "")
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
    content = _read(path)
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
    """A warning about a private key that others than its owner can read; none where nobody can."""
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


def _read(path: Path) -> bytes:
    try:
        return read_plain(path.resolve(), LIMIT_BYTES)
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a NUL character
        why = f": {error}" if isinstance(error, BundleError) else "; check the name"
        raise BundleError(f"the key cannot be used: path={str(path)!r}{why}") from None

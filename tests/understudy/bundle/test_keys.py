"""Keys: what openssl makes is read, what is made here openssl reads, and what is no key is refused in one sentence."""

import hashlib
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from understudy.bundle.files import BundleError
from understudy.bundle.keys import exposed, load_public, load_signer, make_keys


def openssl(*arguments: object) -> bytes:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on this machine")
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True).stdout


def test_a_new_key_is_its_owners_alone_and_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    signer = make_keys(path, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert exposed(path) is None
    assert load_signer(path, {}).fingerprint == signer.fingerprint == load_public(tmp_path / "a.key.pub").keyid
    before = path.read_bytes()
    for where in (path, path.with_name("b.key")):
        (tmp_path / "b.key.pub").write_text("mine")
        with pytest.raises(BundleError, match="never written over"):
            make_keys(where, {})
    assert path.read_bytes() == before
    assert not (tmp_path / "b.key").exists()


def test_openssl_makes_keys_that_are_read_and_names_them_alike(tmp_path: Path) -> None:
    private, public = tmp_path / "o.key", tmp_path / "o.pub"
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    der = openssl("pkey", "-pubin", "-in", public, "-outform", "DER")
    assert load_signer(private, {}).fingerprint == hashlib.sha256(der).hexdigest() == load_public(public).keyid


def test_a_passphrase_locks_a_key(tmp_path: Path) -> None:
    path = tmp_path / "locked.key"
    signer = make_keys(path, {"UNDERSTUDY_SIGN_KEY_PASSPHRASE": "correct horse"})
    assert load_signer(path, {"UNDERSTUDY_SIGN_KEY_PASSPHRASE": "correct horse"}).fingerprint == signer.fingerprint
    with pytest.raises(BundleError, match="has a passphrase"):
        load_signer(path, {})
    with pytest.raises(BundleError, match="does not open") as refusal:
        load_signer(path, {"UNDERSTUDY_SIGN_KEY_PASSPHRASE": "wrong horse"})
    assert "horse" not in str(refusal.value)


def test_what_is_no_key_of_this_kind_is_refused(tmp_path: Path, key: Path) -> None:
    forms = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    public = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    curve = ec.generate_private_key(ec.SECP256R1())
    contents = {
        "rsa": rsa.generate_private_key(65537, 1024).private_bytes(*forms), "ec": curve.private_bytes(*forms),
        "garbage": b"\0\xffnothing", "public": key.with_name("release.key.pub").read_bytes(),
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BundleError) as refusal:
            load_signer(tmp_path / name, {})
        assert "genpkey" in str(refusal.value), name
    (tmp_path / "ec.pub").write_bytes(curve.public_key().public_bytes(*public))
    for name in ("ec.pub", "garbage"):
        with pytest.raises(BundleError):
            load_public(tmp_path / name)
    with pytest.raises(BundleError, match="anybody can sign in its owner's name: it must not be passed on"):
        load_public(key)

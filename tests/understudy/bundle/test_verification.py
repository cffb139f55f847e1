"""Bundles: every byte that is changed, everything that is added or removed, and who signed."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from base64 import b64encode
from collections.abc import Callable
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluate.gate.policy import build_policy
from tests.understudy.bundle.small_bundle import about, demand, fill, kinds, seal_both
from understudy.bundle.manifest import MANIFEST, check_path, last_day, seal
from understudy.bundle.signing import BundleError, Signer, exposed, load_public, load_signer, make_keys
from understudy.bundle.verification import verify
from understudy.job.load import json_schema

SHARED = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""One bundle for all examples: each puts back what it changed."""


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def named(folder: Path, **changes: object) -> set[str]:
    """The paths of everything that is wrong with a bundle."""
    return {path for problem in verify(folder, demand(**changes)).problems for path in problem.paths}


def rewrite(folder: Path, change: Callable[[str], str]) -> None:
    """Change the manifest as somebody would who also writes its envelope anew."""
    content = change((folder / MANIFEST).read_text()).encode()
    (folder / MANIFEST).write_bytes(content)
    envelope = json.loads((folder / f"{MANIFEST}.sig").read_text())
    envelope["payload"] = b64encode(content).decode()
    (folder / f"{MANIFEST}.sig").write_text(json.dumps(envelope, sort_keys=True, separators=(",", ":")) + "\n")


@pytest.mark.parametrize("bundle", ["signed_bundle", "unsigned_bundle"])
def test_any_flipped_byte_is_seen_and_its_file_is_named(bundle: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(bundle)
    names = files(folder)

    @SHARED
    @given(st.data())
    def flip(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(names))
        path = folder / name
        content = path.read_bytes()
        at = data.draw(st.integers(0, len(content) - 1))
        bits = data.draw(st.integers(1, 255))
        path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
        try:
            assert name in named(folder)
        finally:
            path.write_bytes(content)

    flip()
    assert verify(folder, demand()).is_sound


@pytest.mark.parametrize(
    "name", [".hidden", "to-hand-on/extra.txt", "new/folder/file", "sign-off-1.json.sig", "line\nbreak"],
)  # fmt: skip
def test_any_file_that_is_added_is_named(name: str, signed_bundle: Path) -> None:
    (signed_bundle / name).parent.mkdir(parents=True, exist_ok=True)
    (signed_bundle / name).write_text("x")
    assert (name.replace("\n", r"\n")) in named(signed_bundle)


def test_an_empty_folder_a_link_and_a_pipe_are_named(signed_bundle: Path, tmp_path: Path) -> None:
    (signed_bundle / "empty").mkdir()
    (signed_bundle / "link").symlink_to(tmp_path)
    os.mkfifo(signed_bundle / "pipe")
    assert named(signed_bundle) == {"empty", "link", "pipe"}


def test_a_manifest_that_is_a_link_or_a_pipe_is_not_read(signed_bundle: Path, tmp_path: Path) -> None:
    shutil.move(signed_bundle / MANIFEST, tmp_path / MANIFEST)
    (signed_bundle / MANIFEST).symlink_to(tmp_path / MANIFEST)
    assert named(signed_bundle) == {MANIFEST}
    (signed_bundle / MANIFEST).unlink()
    os.mkfifo(signed_bundle / MANIFEST)
    assert named(signed_bundle) == {MANIFEST}


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(BundleError, match="bundle"):
            verify(path, demand())


def test_a_signature_cannot_be_left_out_added_or_exchanged(
    signed_bundle: Path, unsigned_bundle: Path, signers: dict[str, Signer]
) -> None:
    beside = f"{MANIFEST}.sig"
    other = seal_both(fill(signed_bundle.parent / "other"), signers["stranger"])
    lines = [(folder / beside).read_bytes() for folder in (signed_bundle, other, unsigned_bundle)]
    for folder, line in ((unsigned_bundle, lines[0]), (signed_bundle, lines[1]), (signed_bundle, lines[2])):
        (folder / beside).write_bytes(line)
        assert beside in named(folder)
        assert kinds(folder) == {"changed"}
    (signed_bundle / beside).unlink()
    assert kinds(signed_bundle) == {"missing"}


def test_whoever_writes_manifest_and_digest_anew_does_not_fit_the_signature(signed_bundle: Path) -> None:
    rewrite(signed_bundle, lambda text: text.replace('"PASS"', '"FAIL"'))
    assert named(signed_bundle) == {MANIFEST, f"{MANIFEST}.sig"}


def test_a_key_that_is_demanded_must_have_signed(
    signed_bundle: Path, unsigned_bundle: Path, signers: dict[str, Signer]
) -> None:
    mine, others = (frozenset([signers[name].fingerprint]) for name in ("release", "stranger"))
    assert verify(signed_bundle, demand(keys=mine | others)).is_sound
    assert kinds(signed_bundle, keys=others) == {"another key"}
    assert kinds(unsigned_bundle, keys=mine) == {"unsigned"}


def test_a_public_bundle_verifies_by_itself_and_is_checked_within(signed_bundle: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(signed_bundle / "to-hand-on", tmp_path / "alone"))
    assert verify(alone, demand()).is_sound
    (alone / "mst.csv").write_text("a,b\n")
    assert named(alone) == {"mst.csv"}
    seal(signed_bundle / "to-hand-on", about("to-hand-on", valid_until="2020-01-01"), None)
    result = verify(signed_bundle, demand())
    assert "to-hand-on/manifest.json" in {path for problem in result.problems for path in problem.paths}
    assert result.public is not None and {problem.kind for problem in result.public.problems} == {"expired"}


def test_a_public_folder_says_where_its_sign_off_is_and_not_that_nobody_signed(
    signed_bundle: Path, tmp_path: Path
) -> None:
    """Nothing in it can show that its table was signed off, so it does not verify where that is asked for."""
    alone = Path(shutil.copytree(signed_bundle / "to-hand-on", tmp_path / "alone"))
    (problem,) = verify(alone, demand(signed_off=True)).problems
    assert problem.kind == "missing" and "nobody has signed" not in problem.sentence
    assert "in the internal bundle that it was taken from" in problem.sentence


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "", "C:/x"])
def test_a_manifest_that_names_what_is_outside_is_not_believed(path: str, unsigned_bundle: Path) -> None:
    rewrite(unsigned_bundle, lambda text: text.replace('"report.html"', f'"{path}"'))
    (problem,) = verify(unsigned_bundle, demand()).problems
    assert problem.paths == (MANIFEST,)
    assert "path" in problem.sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"title": "Small"', '"title": "Small",\n  "title": "Other"'),
        lambda text: re.sub(r'"size": \d+', f'"size": {"9" * 5000}', text, count=1),
        lambda text: re.sub(r'"size": (\d+)', r'"size": \1.0', text, count=1),
        lambda text: text.replace('"subject": [', '"subject": ' + "[" * 100_000),
        lambda text: text.replace("urn:understudy:manifest:2", "urn:understudy:manifest:3"),
        lambda text: json.dumps({**json.loads(text), "subject": json.loads(text)["subject"][::-1]}),
        lambda text: text.replace('"kind": "internal"', '"kind": "\\ud800"'),
        lambda text: text.replace('"title"', '"\\u001b[2J"'),
        lambda text: text + "\n",
        lambda text: json.dumps(json.loads(text)),
        lambda text: "",
    ],
)
def test_a_hostile_manifest_ends_in_one_short_sentence(change: Callable[[str], str], unsigned_bundle: Path) -> None:
    rewrite(unsigned_bundle, change)
    (problem,) = verify(unsigned_bundle, demand()).problems
    assert (problem.kind, len(problem.sentence) < 500, problem.sentence.isprintable()) == ("changed", True, True)


def test_no_byte_of_an_envelope_is_free(signed_bundle: Path) -> None:
    """Another form of the same signature, which other programs take, is refused."""
    path = signed_bundle / f"{MANIFEST}.sig"
    envelope = json.loads(path.read_text())
    (each,) = envelope["signatures"]
    sig = each["sig"]
    assert sig.endswith("==")
    free = sig[:-3] + chr(ord(sig[-3]) + 1) + "=="  # bits that no byte of the signature takes
    for changed in (
        {**envelope, "signatures": [{**each, "sig": free}]},
        {**envelope, "signatures": [{**each, "sig": sig + "\n"}]},
        {**envelope, "signatures": [{**each, "note": ""}]},
        {**envelope, "signatures": [each, each]},
        {**envelope, "signatures": []},
        {**envelope, "note": ""},
    ):
        path.write_text(json.dumps(changed, sort_keys=True, separators=(",", ":")) + "\n")
        assert named(signed_bundle) >= {f"{MANIFEST}.sig"}, changed
        assert verify(signed_bundle, demand()).signer is None


def test_every_manifest_keeps_the_json_schema(signed_bundle: Path) -> None:
    for folder in (signed_bundle, signed_bundle / "to-hand-on"):
        content = json.loads((folder / MANIFEST).read_text())
        jsonschema.validate(content, json_schema("manifest"))
        for key in content:
            less = {name: each for name, each in content.items() if name != key}
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(less, json_schema("manifest"))


def test_a_new_seal_makes_no_evidence_younger() -> None:
    policy = build_policy({"name": "p", "version": 1, "audience": "tests", "valid_days": 90})
    assert last_day(policy, "2026-10-01T00:00:00Z", "2026-11-22T23:59:59Z") == date(2026, 12, 30)
    assert last_day(policy, "2999-10-01T00:00:00Z", "2026-11-22T23:59:59Z") == date(2027, 2, 20)
    with pytest.raises(BundleError, match="counted until 2026-05-01"):
        last_day(policy, "2026-01-31T00:00:00Z", "2026-11-22T23:59:59Z")
    for unknown in (None, 5, "yesterday", "2026-02-31T00:00:00Z"):
        with pytest.raises(BundleError, match="evaluate again"):
            last_day(policy, unknown, "2026-11-22T23:59:59Z")


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a/../b", "./a", "a//b", "a\\b", "C:/a", "a\nb", "a\u202eb", "manifest.json", "a/" * 600],
)  # fmt: skip
def test_other_paths_may_not(path: str) -> None:
    with pytest.raises(BundleError, match="path="):
        check_path(path)


@pytest.mark.parametrize("name", [b"new\nline", b"\xff", b"\xe2\x80\xaebidi"])
def test_a_file_whose_name_cannot_travel_is_not_sealed(name: bytes, tmp_path: Path) -> None:
    folder = fill(tmp_path / "b")
    (folder / os.fsdecode(name)).write_text("x")
    with pytest.raises(BundleError, match="name the file otherwise") as refusal:
        seal(folder, about(), None)
    assert str(refusal.value).isprintable()
    assert not (folder / MANIFEST).exists()


def test_links_are_not_sealed_and_empty_folders_go(tmp_path: Path) -> None:
    folder = fill(tmp_path / "b")
    (folder / "empty" / "inner").mkdir(parents=True)
    seal(folder, about(), None)
    assert not (folder / "empty").exists()
    (folder / "link").symlink_to("report.html")
    with pytest.raises(BundleError, match="plain files only"):
        seal(folder, about(), None)


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

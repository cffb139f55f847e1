"""Signed documents verified by the tools of others, without our code: `securesystemslib`, openssl, jq and sha256sum."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from tests.understudy.bundle.test_acts import LIND, signed_off, take_back
from understudy.bundle.keys import Signer

DOCS = Path(__file__).parents[3] / "docs/how-to/bundle.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def envelopes(signed_bundle: Path, signers: dict[str, Signer], tmp_path: Path) -> list[str]:
    """Every envelope of a bundle that was signed off and withdrawn, and those of the register."""
    register = tmp_path / "withdrawn.jsonl"
    signed_off(signed_bundle, signers)
    take_back(signed_bundle, LIND, signers["release"], register)
    return [*(path.read_text() for path in signed_bundle.rglob("*.sig")), *register.read_text().splitlines()]


def verified(envelope: str, public: Path) -> bytes:
    """The payload of an envelope, once its signature fits, as anybody with the library verifies it."""
    content = json.loads(envelope)
    key = load_pem_public_key(public.read_bytes())
    name = content["signatures"][0]["keyid"]
    result = Envelope.from_dict(content)
    result.verify([SSlibKey.from_crypto(key, name)], 1)  # type: ignore[arg-type]
    payload: bytes = result.payload
    return payload


def test_securesystemslib_verifies_every_document(envelopes: list[str], keys: Path) -> None:
    kinds = []
    for envelope in envelopes:
        signed = [public for public in keys.glob("*.pub") if is_verified(envelope, public)]
        assert len(signed) == 1
        statement = json.loads(verified(envelope, signed[0]))
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        kinds.append(f"{statement['predicateType'].split(':')[2]} by {signed[0].name.partition('.')[0]}")
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "manifest by release": 2, "sign-off by lind": 1, "sign-off by ode": 1, "withdrawal by release": 4,
    }  # fmt: skip


def is_verified(envelope: str, public: Path) -> bool:
    try:
        return bool(verified(envelope, public))
    except VerificationError:
        return False


def recipes() -> list[str]:
    """The commands that `docs/how-to/bundle.md` gives for those without this program."""
    section = DOCS.read_text(encoding="utf-8").partition("Without this program")[2].partition("What it proves")[0]
    return [block for block in BLOCK.findall(section) if "cd out/a" in block or "jq" in block]


def bash(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    for tool in ("openssl", "jq", "sha256sum", "bash"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine")
    asked = ["bash", "-c", f"set -e -o pipefail\n{script}"]
    return subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ})


def test_the_recipe_of_the_docs_verifies_and_finds_what_was_changed_added_and_withdrawn(
    signed_bundle: Path, signer: Signer, key: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "a"
    shutil.copytree(signed_bundle, out)
    shutil.copy(key.with_name("release.key.pub"), tmp_path)
    (tmp_path / "withdrawn.jsonl").touch()
    check, added, register = recipes()
    ran = bash(check, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "Verified Successfully" in ran.stdout
    assert bash(added, out).stdout == ""
    (out / "new.csv").write_text("x")
    assert bash(added, out).stdout == "new.csv\n"
    assert bash(register, out).stdout == ""
    take_back(signed_bundle, LIND, signer, tmp_path / "withdrawn.jsonl")
    assert "misdeclared" in bash(register, out).stdout
    (out / "report.html").write_text("x")
    assert "report.html: FAILED" in bash(check, tmp_path).stdout
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace("PASS", "FAIL"))
    assert "Verified Successfully" not in bash(check, tmp_path).stdout

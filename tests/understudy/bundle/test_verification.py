"""What verification sees: every byte that is changed, everything that is added or removed, and who signed."""

import json
import os
import re
import shutil
from base64 import b64encode
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.understudy.bundle.small_bundle import about, fill, seal_both
from understudy.bundle.files import BundleError
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import MANIFEST, seal
from understudy.bundle.verification import Demand, verify

NOW = date(2026, 11, 22)
SHARED = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""One bundle for all examples: each puts back what it changed."""


def demand(**changes: object) -> Demand:
    return Demand(**{"today": NOW, "register": {}, **changes})  # type: ignore[arg-type]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def named(folder: Path, **changes: object) -> set[str]:
    """The paths of everything that is wrong with a bundle."""
    return {path for problem in verify(folder, demand(**changes)).problems for path in problem.paths}


def kinds(folder: Path, **changes: object) -> set[str]:
    return {problem.kind for problem in verify(folder, demand(**changes)).problems}


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

"""Sign-off and withdrawal: who may, what is refused, and what verification, ours and that of openssl, makes of them."""

import json
import os
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.bundle.small_bundle import demand, fill, kinds, seal_both
from understudy.bundle import verification as acts
from understudy.bundle.manifest import LATER, Person, Withdrawal, read_register
from understudy.bundle.signing import BundleError, Signer
from understudy.bundle.verification import Verification, sign_off, verify, withdraw

LIND, ODE = Person(name="A. Lind", role="data release officer"), Person(name="B. Ode", role="data protection officer")
STRANGER = Person(name="M. Allory", role="nobody")
Signers = dict[str, Signer]


def by(signers: Signers, *names: str) -> frozenset[str]:
    return frozenset(signers[name].fingerprint for name in names)


def signed_off(folder: Path, signers: Signers, expires: date | None = None) -> None:
    sign_off(folder, LIND, demand(), signers["lind"], expires)
    sign_off(folder, ODE, demand(), signers["ode"])


def found(folder: Path, **changes: Any) -> Verification:
    return verify(folder, demand(**changes))


def take_back(folder: Path, person: Person, signer: Signer | None, register: Path | None = None) -> Withdrawal:
    return withdraw(folder, person, "misdeclared", signer, register=register)[0][0]


def copy_of(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(folder, folder.parent / name))


def test_two_people_sign_off_each_with_a_key_of_their_own(signed_bundle: Path, signers: Signers) -> None:
    keys = {"keys": by(signers, "release"), "sign_off_keys": by(signers, "lind", "ode")}
    assert kinds(signed_bundle, signed_off=True) == {"missing"}
    sign_off(signed_bundle, LIND, demand(), signers["lind"], date(2027, 1, 1))
    (half,) = found(signed_bundle, **keys, signed_off=True).problems
    assert half.sentence == "'A. Lind' has signed this off, and two people have to"
    sign_off(signed_bundle, ODE, demand(), signers["ode"])
    whole = found(signed_bundle, **keys, signed_off=True)
    assert (whole.problems, whole.notes) == ((), ())
    (anybody,) = found(signed_bundle, signed_off=True).problems
    assert "nobody says whose keys signed this off" in anybody.sentence
    signed = [(each.predicate.by, each.manifest_sha256) for each in whole.sign_offs]
    assert signed == [(LIND, whole.sha256), (ODE, whole.sha256)]
    assert kinds(signed_bundle, today=date(2027, 1, 2)) == {"expired"}
    assert kinds(signed_bundle, keys=by(signers, "release", "lind")) == {"another key"}
    assert kinds(signed_bundle, keys=by(signers, "release", "lind", "ode")) == set()
    exchanged = {"keys": by(signers, "lind", "ode"), "sign_off_keys": by(signers, "release")}
    assert kinds(signed_bundle, **exchanged) == {"another key"}


SECOND = {
    "without a key": ("B. Ode", None, "a sign-off without a key is refused"),
    "by the same key": ("B. Ode", "lind", "one person cannot check"),
    "by the same name": ("A. Lind", "ode", "one person cannot check"),
    "by a name that looks the same": ("\uff21.  lind ", "ode", "one person cannot check"),
}


@pytest.mark.parametrize("which", SECOND)
def test_one_person_under_two_names_does_not_sign_off_nor_verify(
    which: str, signed_bundle: Path, signers: Signers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, key, text = SECOND[which]
    second = Person(name=name, role="another role"), demand(), signers[key] if key else None
    sign_off(signed_bundle, LIND, demand(), signers["lind"])
    with pytest.raises(BundleError, match=text):
        sign_off(signed_bundle, *second)
    assert not (signed_bundle / "sign-off-2.json").exists()
    if key:
        monkeypatch.setattr(acts, "_check_second", lambda *_: None)  # as another program signs it off
        sign_off(signed_bundle, *second)
        (problem,) = found(signed_bundle).problems
        assert "and two people sign off" in problem.sentence


def changed(folder: Path, signers: Signers) -> None:
    (folder / "report.html").write_text("other")


REFUSED: dict[str, Any] = {
    "a table that fails": ({"verdict": "FAIL"}, {}, None, "only a table that passes"),
    "no table": ({"release": None, "verdict": None}, {}, None, "names no table"),
    "a last day that is over": ({"valid_until": "2020-01-01"}, {}, None, "only what verifies"),
    "a public report that fails": ({}, {"public": "FAIL"}, None, "the report to hand on says FAIL"),
    "a waiver that has lapsed": ({}, {"waiver_until": "2026-11-21"}, None, "judge the table again"),
    "a change": ({}, {}, changed, "only what verifies.*report.html was changed"),
    "a third person": ({}, {}, signed_off, "signed off already, by 'A. Lind' and 'B. Ode'"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_only_a_sound_bundle_that_passes_is_signed_off(which: str, tmp_path: Path, signers: Signers) -> None:
    text, filled, spoil, sentence = REFUSED[which]
    folder = seal_both(fill(tmp_path / "b", **filled), None, **text)
    if spoil is not None:
        spoil(folder, signers)
    before = {path.name for path in folder.rglob("*")}
    with pytest.raises(BundleError, match=sentence):
        sign_off(folder, Person(name="C. Third", role="officer"), demand(), signers["stranger"])
    assert {path.name for path in folder.rglob("*")} == before


def test_a_sign_off_names_its_waivers_and_ends_neither_in_the_past_nor_after_what_it_rests_on(
    tmp_path: Path, signers: Signers
) -> None:
    folder = seal_both(fill(tmp_path / "b", waiver_until="2026-12-24"), None)
    for expires, text in ((date(2026, 11, 21), "past"), (date(2026, 12, 25), "later")):
        with pytest.raises(BundleError, match=text):
            sign_off(folder, LIND, demand(), signers["lind"], expires)
    content = sign_off(folder, LIND, demand(), signers["lind"])[0].predicate
    assert content.expires == date(2026, 12, 24)
    assert [(each.owner, each.measure) for each in content.waivers] == [("A. Lind", "pairs.tvd.excess")]
    assert found(folder).is_sound


def test_a_sign_off_of_another_bundle_and_one_of_what_must_not_leave_do_not_verify(
    signed_bundle: Path, signers: Signers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_off(signed_bundle, LIND, demand(), signers["lind"])
    other = seal_both(fill(tmp_path / "other"), signers["release"], title="Other")
    for path in signed_bundle.glob("sign-off*"):
        shutil.copy(path, other / path.name)
    assert kinds(other) == {"not fit"}
    fails = seal_both(fill(tmp_path / "fails", public="FAIL"), signers["release"])
    monkeypatch.setattr(acts, "_waivers", lambda *_: ())  # as another program signs it off
    sign_off(fails, LIND, demand(), signers["lind"])
    (problem,) = found(fails).problems
    assert (problem.kind, "the report to hand on says FAIL" in problem.sentence) == ("not fit", True)


def test_bytes_all_over_a_sign_off_and_a_withdrawal_are_bound(signed_bundle: Path, signers: Signers) -> None:
    signed_off(signed_bundle, signers)
    take_back(signed_bundle, LIND, None)
    for path in (path for name in LATER for path in signed_bundle.glob(f"{name}*")):
        content = path.read_bytes()
        for at in range(0, len(content), 211):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert any(path.name in each for p in found(signed_bundle).problems for each in p.paths), (path.name, at)
        path.write_bytes(content)
    assert kinds(signed_bundle) == {"withdrawn"}


def test_a_withdrawn_bundle_does_not_verify_nor_does_the_public_one_in_it(
    signed_bundle: Path, signer: Signer, tmp_path: Path
) -> None:
    copy, register = copy_of(signed_bundle, "copy"), tmp_path / "withdrawn.jsonl"
    (signed_bundle / "report.html").write_text("other")  # whatever else came of it
    take_back(signed_bundle, LIND, signer, register)
    assert kinds(signed_bundle) == {"withdrawn", "changed"}
    assert any("misdeclared" in problem.sentence for problem in found(signed_bundle).problems)
    assert kinds(signed_bundle / "to-hand-on") == {"withdrawn"}
    assert kinds(copy) == set()
    for folder in (copy, copy / "to-hand-on"):  # a register tells of copies from before
        assert kinds(folder, register=read_register(register)) == {"withdrawn"}
    assert len(register.read_text().splitlines()) == 2


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_withdrawal_by_nobody_who_was_named_withdraws_nothing(
    is_signed: bool, signed_bundle: Path, signers: Signers, tmp_path: Path
) -> None:
    copy, register = copy_of(signed_bundle, "copy"), tmp_path / "withdrawn.jsonl"
    stranger, named = signers["stranger"] if is_signed else None, {"keys": by(signers, "release")}
    take_back(signed_bundle, STRANGER, stranger, register)
    planted = found(signed_bundle, **named)
    assert planted.withdrawal is None
    assert {problem.kind for problem in planted.problems} == {"another key" if is_signed else "unsigned"}
    assert kinds(signed_bundle) == {"withdrawn"}  # no key was named: nobody can say who may withdraw it
    if is_signed:  # the verifier may name who withdraws beside who seals
        assert kinds(signed_bundle, **named, sign_off_keys=by(signers, "stranger")) == {"withdrawn"}
    listed = found(copy, **named, register=read_register(register))
    assert (listed.is_sound, listed.withdrawal) == (True, None)
    assert any("not believed" in note and STRANGER.name in note for note in listed.notes)
    take_back(signed_bundle, LIND, signers["release"], register)  # it hides none by the right key
    assert kinds(signed_bundle, **named) == {"withdrawn"}
    assert kinds(copy, **named, register=read_register(register)) == {"withdrawn"}
    assert len(register.read_text().splitlines()) == 4


def test_a_register_that_is_damaged_is_not_believed_and_not_added_to(
    signed_bundle: Path, unsigned_bundle: Path, signer: Signer, tmp_path: Path
) -> None:
    register = tmp_path / "withdrawn.jsonl"
    take_back(signed_bundle, LIND, signer, register)
    whole = register.read_bytes()
    envelope = json.loads(whole.splitlines()[0])
    (each,) = envelope["signatures"]
    changes: list[dict[str, Any]] = [
        {"payload": envelope["payload"][:-8] + "AAAAAAAA"}, {"signatures": []}, {"signatures": [each, each]},
        {"signatures": [{**each, "keyid": "0" * 64}]}, {"payload": 1}, {"note": ""},
    ]  # fmt: skip
    lines = [json.dumps({**envelope, **change}, sort_keys=True, separators=(",", ":")) + "\n" for change in changes]
    damaged = [whole[:-1], b"{}\n" + whole, b"\xff\n", b"[" * 100_000 + b"\n", *map(str.encode, lines)]
    for content in damaged:
        register.write_bytes(content)
        with pytest.raises(BundleError, match=r"the register was changed .* line="):
            read_register(register)
        with pytest.raises(BundleError, match="the register"):
            take_back(unsigned_bundle, LIND, None, register)
    assert found(unsigned_bundle).is_sound


DOCS = Path(__file__).parents[3] / "docs/how-to/bundle.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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

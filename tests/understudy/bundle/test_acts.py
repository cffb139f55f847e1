"""Sign-off and withdrawal: who may, what is refused, and what verification makes of them."""

import json
import shutil
from base64 import b64decode, b64encode
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.bundle.small_bundle import about, fill, seal_both
from understudy.bundle import sign_off as acts
from understudy.bundle.files import BundleError
from understudy.bundle.keys import Signer, load_signer
from understudy.bundle.manifest import seal
from understudy.bundle.records import Person, read_register
from understudy.bundle.revocation import Recall, doubt
from understudy.bundle.revocation import withdraw as take_back
from understudy.bundle.sign_off import ReleaseDecision, sign_off
from understudy.bundle.verification import Demand, verify

NOW = date(2026, 11, 22)
LIND, ODE = Person(name="A. Lind", role="data release officer"), Person(name="B. Ode", role="data protection officer")


def demand(**changes: Any) -> Demand:
    return Demand(**{"today": NOW, "register": {}, **changes})


def signed_off(folder: Path, signer: Signer | None = None, expires: date | None = None, **changes: Any) -> Any:
    return sign_off(folder, ReleaseDecision(LIND, ODE, expires), demand(**changes), signer)[0]


def withdraw(folder: Path, by: Person, reason: str, signer: Signer | None, register: Path | None) -> Any:
    return take_back(folder, Recall(by, reason, register), signer)


def kinds(folder: Path, **changes: Any) -> set[str]:
    return {problem.kind for problem in verify(folder, demand(**changes)).problems}


def flips(folder: Path, name: str) -> None:
    """Bytes all over a document and of what lies beside it are bound."""
    for path in sorted(folder.glob(f"{name}*")):
        content = path.read_bytes()
        for at in range(0, len(content), 23):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert any(path.name in one for p in verify(folder, demand()).problems for one in p.paths), (path.name, at)
        path.write_bytes(content)


def test_a_sign_off_is_part_of_what_verifies(signed_bundle: Path, signer: Signer) -> None:
    assert kinds(signed_bundle, signed_off=True) == {"missing"}
    signed_off(signed_bundle, signer, date(2027, 1, 1))
    found = verify(signed_bundle, demand(signed_off=True, keys=frozenset([signer.fingerprint])))
    assert found.problems == ()
    assert found.sign_off is not None
    said = found.sign_off.predicate
    assert (said.by, said.second, said.expires) == (LIND, ODE, date(2027, 1, 1))
    assert found.sign_off.manifest_sha256 == found.sha256
    assert kinds(signed_bundle, today=date(2027, 1, 2)) == {"expired"}


@pytest.mark.parametrize("with_key", [True, False])
def test_bytes_all_over_a_sign_off_and_a_withdrawal_are_bound(
    with_key: bool, signed_bundle: Path, signer: Signer
) -> None:
    signed_off(signed_bundle, signer if with_key else None)
    flips(signed_bundle, "sign-off.json")
    assert verify(signed_bundle, demand()).is_sound
    withdraw(signed_bundle, LIND, "misdeclared", signer if with_key else None, None)
    flips(signed_bundle, "withdrawal.json")


def test_a_sign_off_by_a_key_that_nobody_named_does_not_count(
    signed_bundle: Path, signer: Signer, other_key: Path
) -> None:
    other = load_signer(other_key, {})
    signed_off(signed_bundle, other)
    assert kinds(signed_bundle, keys=frozenset([signer.fingerprint])) == {"another key"}
    assert kinds(signed_bundle, keys=frozenset([signer.fingerprint, other.fingerprint])) == set()
    apart = {"keys": frozenset([signer.fingerprint]), "sign_off_keys": frozenset([other.fingerprint])}
    assert kinds(signed_bundle, **apart) == set()
    assert kinds(signed_bundle, keys=apart["sign_off_keys"], sign_off_keys=apart["keys"]) == {"another key"}


def test_who_signs_off_may_not_seal_and_who_seals_may_not_sign_off(
    signed_bundle: Path, signer: Signer, other_key: Path
) -> None:
    other = load_signer(other_key, {})
    seal_both(signed_bundle, other)
    signed_off(signed_bundle, signer)
    apart = {"keys": frozenset([signer.fingerprint]), "sign_off_keys": frozenset([other.fingerprint])}
    found = verify(signed_bundle, demand(**apart)).problems
    assert {path for problem in found for path in problem.paths} >= {"manifest.json", "sign-off.json"}


def test_a_sign_off_whose_key_nobody_named_is_noted(signed_bundle: Path, signer: Signer) -> None:
    assert not any("sign-off" in note for note in verify(signed_bundle, demand()).notes)
    signed_off(signed_bundle)
    assert "the sign-off is not signed" in verify(signed_bundle, demand()).notes[-1]
    for path in signed_bundle.glob("sign-off*"):
        path.unlink()
    signed_off(signed_bundle, signer)
    assert "--sign-off-key" in verify(signed_bundle, demand()).notes[-1]
    assert verify(signed_bundle, demand(keys=frozenset([signer.fingerprint]))).notes == ()


def test_signing_off_tells_what_verification_cannot_say(
    signed_bundle: Path, unsigned_bundle: Path, signer: Signer, other_key: Path
) -> None:
    seal_both(signed_bundle, load_signer(other_key, {}))
    said = sign_off(signed_bundle, ReleaseDecision(LIND, ODE), demand(), signer)[1]
    assert "nobody says whose key it is" in " ".join(said)
    assert "not signed" in " ".join(sign_off(unsigned_bundle, ReleaseDecision(LIND, ODE), demand(), signer)[1])
    for path in signed_bundle.glob("sign-off*"):
        path.unlink()
    with pytest.raises(BundleError, match="a key that was not named"):
        sign_off(signed_bundle, ReleaseDecision(LIND, ODE), demand(keys=frozenset([signer.fingerprint])), signer)


def test_a_sign_off_that_nobody_signed_does_not_count_where_a_key_is_demanded(
    signed_bundle: Path, signer: Signer
) -> None:
    signed_off(signed_bundle)
    assert kinds(signed_bundle) == set()
    assert kinds(signed_bundle, keys=frozenset([signer.fingerprint])) == {"unsigned"}


def test_a_sign_off_of_another_bundle_is_seen(signed_bundle: Path, signer: Signer, tmp_path: Path) -> None:
    signed_off(signed_bundle, signer)
    other = seal_both(fill(tmp_path / "other"), signer, title="Other")
    for path in signed_bundle.glob("sign-off*"):
        shutil.copy(path, other / path.name)
    assert kinds(other) == {"not fit"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": "FAIL"}, "only a table that passes"),
        ({"verdict": "INCONCLUSIVE"}, "waiver"),
        ({"release": None, "verdict": None}, "names no table"),
        ({"valid_until": "2020-01-01"}, "only what verifies"),
    ],
)
def test_only_a_valid_pass_is_signed_off(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = seal_both(fill(tmp_path / "b"), None, **changes)
    with pytest.raises(BundleError, match=said):
        signed_off(folder)
    assert not (folder / "sign-off.json").exists()


def test_a_public_bundle_is_not_signed_off_by_itself(signed_bundle: Path) -> None:
    with pytest.raises(BundleError, match="bundle to hand on"):
        signed_off(signed_bundle / "to-hand-on")


@pytest.mark.parametrize("second", ["A. Lind", "a.  lind ", "\uff21. Lind"])
def test_the_second_person_is_another(second: str, signed_bundle: Path) -> None:
    release = ReleaseDecision(LIND, Person(name=second, role="another role"))
    with pytest.raises(BundleError, match="one person"):
        sign_off(signed_bundle, release, demand(), None)


def test_what_was_changed_withdrawn_or_signed_off_already_is_not_signed_off(signed_bundle: Path) -> None:
    signed_off(signed_bundle)
    with pytest.raises(BundleError, match="signed off already"):
        signed_off(signed_bundle)
    changed = Path(shutil.copytree(signed_bundle, signed_bundle.parent / "changed"))
    for path in changed.glob("sign-off*"):
        path.unlink()
    withdrawn = Path(shutil.copytree(changed, signed_bundle.parent / "withdrawn"))
    (changed / "report.html").write_text("other")
    withdraw(withdrawn, LIND, "misdeclared", None, None)
    for folder in (changed, withdrawn):
        with pytest.raises(BundleError, match="only what verifies"):
            signed_off(folder)


@pytest.mark.parametrize(("expires", "said"), [("2026-11-21", "past"), ("2999-02-01", "later")])
def test_a_sign_off_ends_neither_in_the_past_nor_after_the_bundle(expires: str, said: str, signed_bundle: Path) -> None:
    with pytest.raises(BundleError, match=said):
        signed_off(signed_bundle, expires=date.fromisoformat(expires))
    assert signed_off(signed_bundle).predicate.expires == date(2999, 1, 31)


def test_a_sign_off_names_the_waivers_and_ends_with_the_first_of_them(tmp_path: Path) -> None:
    folder = seal_both(fill(tmp_path / "b", waiver_until="2026-12-24"), None)
    with pytest.raises(BundleError, match="later"):
        signed_off(folder, expires=date(2026, 12, 25))
    document = signed_off(folder).predicate
    assert document.expires == date(2026, 12, 24)
    assert [(one.owner, one.measure) for one in document.waivers] == [("A. Lind", "pairs.tvd.excess")]
    lapsed = seal_both(fill(tmp_path / "c", waiver_until="2026-11-21"), None)
    with pytest.raises(BundleError, match="judge the table again"):
        signed_off(lapsed)


def test_a_sign_off_that_was_cut_short_can_be_made_again(signed_bundle: Path, signer: Signer) -> None:
    signed_off(signed_bundle, signer)
    (signed_bundle / "sign-off.json").unlink()
    assert kinds(signed_bundle) == {"added"}
    signed_off(signed_bundle, signer)
    assert verify(signed_bundle, demand(signed_off=True)).is_sound


def test_a_withdrawn_bundle_does_not_verify_nor_does_the_public_one_in_it(signed_bundle: Path, signer: Signer) -> None:
    withdraw(signed_bundle, LIND, "a column was misdeclared", signer, None)
    found = verify(signed_bundle, demand())
    assert {problem.kind for problem in found.problems} == {"withdrawn"}
    assert "misdeclared" in found.problems[0].sentence
    assert kinds(signed_bundle / "to-hand-on") == {"withdrawn"}
    with pytest.raises(BundleError, match="withdrawn already"):
        withdraw(signed_bundle, LIND, "again", signer, None)


STRANGER = Person(name="M. Allory", role="nobody")


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_withdrawal_in_the_folder_by_nobody_who_was_named_withdraws_nothing_and_does_not_verify(
    is_signed: bool, signed_bundle: Path, signer: Signer, other_key: Path
) -> None:
    stranger = load_signer(other_key, {}) if is_signed else None
    withdraw(signed_bundle, STRANGER, "planted", stranger, None)
    named = {"keys": frozenset({signer.fingerprint})}
    found = verify(signed_bundle, demand(**named))
    assert found.withdrawal is None
    assert {problem.kind for problem in found.problems} == {"another key" if is_signed else "unsigned"}
    assert all("not believed" in problem.sentence for problem in found.problems)
    assert kinds(signed_bundle) == {"withdrawn"}  # no key was named: nobody can say who may withdraw it
    assert ("any withdrawal is believed" in " ".join(verify(signed_bundle, demand()).notes)) is True
    if stranger is not None:  # the verifier may name who withdraws beside who seals
        assert kinds(signed_bundle, **named, sign_off_keys=frozenset({stranger.fingerprint})) == {"withdrawn"}
    withdraw(signed_bundle, LIND, "misdeclared", signer, None)
    assert kinds(signed_bundle, **named) == {"withdrawn"}


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_line_of_a_register_by_another_key_is_noted_and_hides_no_withdrawal_by_the_right_one(
    is_signed: bool, signed_bundle: Path, signer: Signer, other_key: Path, tmp_path: Path
) -> None:
    copy, register = Path(shutil.copytree(signed_bundle, tmp_path / "copy")), tmp_path / "withdrawn.jsonl"
    planted = Path(shutil.copytree(signed_bundle, tmp_path / "planted"))
    withdraw(planted, STRANGER, "planted", load_signer(other_key, {}) if is_signed else None, register)
    named = {"keys": frozenset({signer.fingerprint})}
    found = verify(copy, demand(**named, register=read_register(register)))
    assert found.is_sound
    assert found.withdrawal is None
    (note,) = (one for one in found.notes if "not believed" in one)
    assert "'planted'" in note
    assert kinds(copy, register=read_register(register)) == {"withdrawn"}  # no key was named
    withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    assert len(register.read_text().splitlines()) == 4
    found = verify(copy, demand(**named, register=read_register(register)))
    assert {problem.kind for problem in found.problems} == {"withdrawn"}
    assert found.withdrawal is not None
    assert found.withdrawal.predicate.reason == "misdeclared"


def test_whoever_withdraws_is_told_who_will_not_believe_it(
    signed_bundle: Path, unsigned_bundle: Path, signer: Signer, other_key: Path
) -> None:
    (unsigned,) = withdraw(signed_bundle, LIND, "misdeclared", None, None)[:1]
    assert "--key" in str(doubt(signed_bundle, unsigned))
    (other,) = withdraw(signed_bundle, LIND, "misdeclared", load_signer(other_key, {}), None)[:1]
    assert "--sign-off-key" in str(doubt(signed_bundle, other))
    (right,) = withdraw(signed_bundle, LIND, "misdeclared", signer, None)[:1]
    assert doubt(signed_bundle, right) is None
    (of_unsigned,) = withdraw(unsigned_bundle, LIND, "misdeclared", signer, None)[:1]
    assert doubt(unsigned_bundle, of_unsigned) is None


def test_a_register_tells_of_copies_from_before(signed_bundle: Path, signer: Signer, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(signed_bundle, tmp_path / "copy"))
    register = tmp_path / "withdrawn.jsonl"
    withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    assert kinds(copy) == set()
    assert kinds(copy, register=read_register(register)) == {"withdrawn"}
    assert kinds(copy / "to-hand-on", register=read_register(register)) == {"withdrawn"}
    assert len(register.read_text().splitlines()) == 2


def test_a_withdrawn_bundle_can_still_be_added_to_a_register_once(signed_bundle: Path, tmp_path: Path) -> None:
    register = tmp_path / "withdrawn.jsonl"
    first = withdraw(signed_bundle, LIND, "misdeclared", None, None)
    assert withdraw(signed_bundle, ODE, "another reason", None, register) == first
    with pytest.raises(BundleError, match="withdrawn already"):
        withdraw(signed_bundle, ODE, "another reason", None, register)
    assert len(register.read_text().splitlines()) == 2


def test_a_changed_bundle_can_be_withdrawn_but_not_one_without_its_manifest(signed_bundle: Path) -> None:
    (signed_bundle / "report.html").write_text("other")
    withdraw(signed_bundle, LIND, "tampered with", None, None)
    other = Path(shutil.copytree(signed_bundle, signed_bundle.parent / "other"))
    (other / "manifest.json").write_text("{}\n")
    with pytest.raises(BundleError, match="nobody can say"):
        withdraw(other, LIND, "tampered with", None, None)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_published_copy_is_withdrawn_though_it_was_moved_out_of_the_bundle(
    is_linked: bool, signed_bundle: Path, signer: Signer, tmp_path: Path
) -> None:
    published, register = tmp_path / "published", tmp_path / "withdrawn.jsonl"
    shutil.move(signed_bundle / "to-hand-on", published)
    if is_linked:
        (signed_bundle / "to-hand-on").symlink_to(published)
    withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    assert kinds(published, register=read_register(register)) == {"withdrawn"}
    assert not (published / "withdrawal.json").exists()
    with pytest.raises(BundleError, match="withdrawn already"):
        withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    with pytest.raises(BundleError, match="withdrawn already"):
        withdraw(signed_bundle, LIND, "misdeclared", signer, None)


def test_a_register_that_lacks_the_published_copy_is_completed(
    signed_bundle: Path, signer: Signer, tmp_path: Path
) -> None:
    published, register = tmp_path / "published", tmp_path / "withdrawn.jsonl"
    withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    register.write_text(register.read_text().splitlines(keepends=True)[1])
    shutil.move(signed_bundle / "to-hand-on", published)
    (published / "withdrawal.json").unlink()
    withdraw(signed_bundle, ODE, "misdeclared", signer, register)
    assert "withdrawn" in kinds(published, register=read_register(register))
    assert len(register.read_text().splitlines()) == 2


@pytest.mark.parametrize("lost", ["manifest.json.sha256", "manifest.json.sig"])
def test_a_lost_side_file_keeps_nobody_from_withdrawing(lost: str, signed_bundle: Path) -> None:
    (signed_bundle / lost).unlink()
    assert withdraw(signed_bundle, LIND, "misdeclared", None, None)
    assert "withdrawn" in kinds(signed_bundle)


def test_a_manifest_that_nothing_vouches_for_is_withdrawn_by_its_digest_alone(
    unsigned_bundle: Path, tmp_path: Path
) -> None:
    sha256 = verify(unsigned_bundle, demand()).sha256
    (unsigned_bundle / "manifest.json.sha256").unlink()
    with pytest.raises(BundleError, match="--manifest-sha256"):
        withdraw(unsigned_bundle, LIND, "misdeclared", None, None)
    with pytest.raises(BundleError, match="nobody can say"):
        take_back(unsigned_bundle, Recall(LIND, "misdeclared", None, "0" * 64), None)
    (done, _) = take_back(unsigned_bundle, Recall(LIND, "misdeclared", None, sha256), None)
    assert done.manifest_sha256 == sha256


@pytest.mark.parametrize("place", ["withdrawal.json", "to-hand-on/withdrawal.json", "withdrawal.json.sig"])
def test_a_folder_of_that_name_keeps_nobody_from_withdrawing(place: str, signed_bundle: Path, signer: Signer) -> None:
    (signed_bundle / place).mkdir()
    withdraw(signed_bundle, LIND, "misdeclared", signer, None)
    assert kinds(signed_bundle) == {"withdrawn"}


def test_a_register_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="touch"):
        read_register(tmp_path / "nothing")


def test_a_register_that_is_damaged_is_not_believed_and_not_added_to(
    signed_bundle: Path, signer: Signer, tmp_path: Path
) -> None:
    register = tmp_path / "withdrawn.jsonl"
    withdraw(signed_bundle, LIND, "misdeclared", signer, register)
    whole = register.read_bytes()
    envelope = json.loads(whole.splitlines()[0])
    mistaken = b64decode(envelope["payload"]).replace(b"misdeclared", b"mistaken")
    changed = [
        {**envelope, "payload": b64encode(mistaken).decode()},
        {**envelope, "signatures": []},
        {**envelope, "signatures": envelope["signatures"] * 2},
        {**envelope, "signatures": [{**envelope["signatures"][0], "keyid": "0" * 64}]},
        {**envelope, "payloadType": "text/plain"},
    ]
    lines = [json.dumps(one, sort_keys=True, separators=(",", ":")).encode() + b"\n" for one in changed]
    damaged = [whole[:-1], b"{}\n" + whole, b"\n" + whole, whole.replace(b"==", b"=="[:1]), b"\xff\n",
               json.dumps(envelope).encode() + b"\n", b"[" * 100_000 + b"\n", *lines]  # fmt: skip
    other = seal_both(fill(tmp_path / "other"), None)
    for content in damaged:
        register.write_bytes(content)
        with pytest.raises(BundleError, match="the register"):
            read_register(register)
        with pytest.raises(BundleError, match="the register"):
            withdraw(other, LIND, "misdeclared", None, register)
    assert verify(other, demand()).is_sound
    register.write_text('{"signature":null,"withdrawal":{"withdrawal_version":1}}\n')
    with pytest.raises(BundleError, match="line=1: it has the format of an older version; begin a new one"):
        read_register(register)
    with pytest.raises(BundleError, match="cannot be read"):
        read_register(tmp_path)


def test_sealing_again_takes_back_what_was_said_of_the_old_bundle(signed_bundle: Path, signer: Signer) -> None:
    signed_off(signed_bundle, signer)
    seal(signed_bundle, about(), signer)
    assert not (signed_bundle / "sign-off.json").exists()
    assert verify(signed_bundle, demand()).is_sound


def test_what_would_leave_and_says_do_not_release_is_not_signed_off(tmp_path: Path, signer: Signer) -> None:
    bundle = seal_both(fill(tmp_path / "b", public="FAIL"), signer)
    before = {path.name for path in bundle.rglob("*")}
    with pytest.raises(BundleError, match="the report to hand on says FAIL"):
        signed_off(bundle, signer)
    assert {path.name for path in bundle.rglob("*")} == before


@pytest.mark.parametrize("public", ["PASS", "INCONCLUSIVE", None])
def test_a_public_verdict_that_is_not_fail_is_no_obstacle(public: str | None, tmp_path: Path, signer: Signer) -> None:
    signed_off(seal_both(fill(tmp_path / "b", public=public), signer), signer)
    assert kinds(tmp_path / "b", signed_off=True) == set()


def test_a_bundle_that_does_not_say_what_its_public_report_says_is_made_again(tmp_path: Path, signer: Signer) -> None:
    folder = fill(tmp_path / "b")
    said = json.loads((folder / "verdict.json").read_text())
    del said["verdict_to_hand_on"]
    (folder / "verdict.json").write_text(json.dumps(said))
    with pytest.raises(BundleError, match="make the bundle again"):
        signed_off(seal_both(folder, signer), signer)


def test_a_sign_off_of_what_must_not_leave_does_not_verify(
    tmp_path: Path, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = seal_both(fill(tmp_path / "b", public="FAIL"), signer)
    monkeypatch.setattr(acts, "_check_public", lambda *_: None)  # as an older version signed it off
    signed_off(bundle, signer)
    for demanded in (True, False):
        (problem,) = verify(bundle, demand(signed_off=demanded)).problems
        assert problem.kind == "not fit"
        assert "the report to hand on says FAIL" in problem.sentence

"""`understudy index`: every output is a row with its recorded verdict, and what is broken says so and never passes."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import judge
from evaluate.result import Evaluation
from tests.evaluations import ABSENT, evaluation_of
from tests.reports.conftest import sample_evaluation
from tests.understudy.bundle.small_bundle import about
from tests.understudy.conftest import Workspace
from understudy.bundle.evidence import Delivery, write_evidence
from understudy.bundle.manifest import MANIFEST, About, Manifest, Person, read_register, seal
from understudy.bundle.signing import Signer, load_signer, make_keys, read_document
from understudy.bundle.verification import Demand, sign_off, withdraw
from understudy.extras.ops.index import EXPIRED, NOT_SOUND, WITHDRAWN, read_rows

RULE = Rule(measure="validity.rows", limit=0.9, why="Rows have to keep the schema.")
COPIES = Rule(measure="privacy.copies", limit=0.5, why="No table of ours is a copy.")
POLICY = Policy(name="own", version=4, audience="the team", rules=(RULE, COPIES))
NAMES = ("mst", "sdv.gaussian_copula", "sdv.tvae")


def deliver(folder: Path, evaluation: Evaluation, policy: Policy = POLICY) -> Path:
    """An output as a run leaves it, without the tables themselves."""
    folder.mkdir(parents=True)
    evaluation = replace(evaluation, self_tests=ABSENT)
    verdicts = judge(evaluation, policy)
    delivery = Delivery(evaluation, verdicts, policy, "A job", evaluation.candidates[0].name)
    write_evidence(delivery, folder, None, files={}, seeds={})
    return folder


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    evaluation = sample_evaluation()
    known = replace(evaluation.provenance, evaluated_at="2026-03-04T05:06:07Z", job="A job", release="mst")
    return deliver(tmp_path_factory.mktemp("outputs") / "whole", replace(evaluation, provenance=known))


@pytest.fixture
def output(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "outputs" / "nightly" / "fair"))


def rows(folder: Path, **demand: object) -> list[Any]:
    return [SimpleNamespace(**row) for row in read_rows(folder, folder / "index.html", Demand(**demand))]  # type: ignore[arg-type]


def test_a_row_tells_what_the_evidence_holds(output: Path) -> None:
    recorded = json.loads((output / "verdict.json").read_text())
    listed = rows(output.parents[1])
    assert [row.table for row in listed] == list(NAMES)
    assert [row.state for row in listed] == [candidate["verdict"] for candidate in recorded["candidates"]]
    first = listed[0]
    assert (first.state, first.output, first.day, first.policy) == ("PASS", "nightly/fair", "2026-03-04", "own 4")
    assert (first.generator, first.released, first.claimed) == ("mst", True, (0.9987, 1e-6, "formal"))
    assert listed[1].claimed is None
    auc = "privacy.membership.auc"
    assert first.figures[auc] == sample_evaluation().candidates[0].find(auc)


def test_links_lead_from_the_page_to_files_that_are_there(output: Path, workspace: Workspace) -> None:
    folder = output.parents[1]
    for page in (folder / "index.html", workspace.folder / "elsewhere" / "page.html"):
        page.parent.mkdir(exist_ok=True)
        ran = workspace.run("index", folder, "--out", page, "--json")
        assert (ran.exit_code, ran.json["tables"], ran.json["states"]["PASS"]) == (0, 3, 3)
        links = re.findall(r'<a [^>]*href="([^#"][^"]*)"', page.read_text())
        assert len(links) == 6
        assert all((page.parent / unquote(link)).is_file() for link in links)


def test_names_are_text_and_no_name_is_an_address(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "javascript:alert(1)<i>")
    candidate = replace(sample_evaluation().candidates[0], name="<script>alert(1)</script>")
    deliver(tmp_path / "odd", evaluation_of(candidate))
    assert Workspace(tmp_path).run("index", tmp_path).exit_code == 0
    page = (tmp_path / "index.html").read_text()
    assert "<i>" not in page and page.count("<script>") == 1
    assert not any(":" in link for link in re.findall(r'href="([^"]*)"', page))


def _withdraw(output: Path) -> None:
    withdraw(output, Person(name="A. Lind", role="officer"), "a column was misdeclared", None)


def _reseal(output: Path, **changes: object) -> None:
    manifest = read_document(output, MANIFEST, Manifest)
    seal(output, About.model_validate({**manifest.about.model_dump(), **changes}), None)


def _say(output: Path, verdict: str) -> None:
    """A verdict other than that of the manifest, in a file that is sealed with it."""
    content = json.loads((output / "verdict.json").read_text())
    content["candidates"][0]["verdict"] = verdict
    (output / "verdict.json").write_text(json.dumps(content))
    _reseal(output)


SPOILED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a verdict that was changed": (NOT_SOUND, lambda o: (o / "verdict.json").write_text("{}")),
    "a manifest that is missing": (NOT_SOUND, lambda o: [p.unlink() for p in o.glob("manifest.json*")]),
    "verdicts that differ": (NOT_SOUND, lambda o: _say(o, "FAIL")),
    "a withdrawal": (WITHDRAWN, _withdraw),
    "a last day that is over": (EXPIRED, lambda o: _reseal(o, valid_until=date(2020, 1, 31))),
}


@pytest.mark.parametrize("what", SPOILED)
def test_what_may_not_be_relied_on_says_so_and_never_passes(what: str, output: Path, workspace: Workspace) -> None:
    state, spoil = SPOILED[what]
    spoil(output)
    folder = output.parents[1]
    assert {row.state for row in rows(folder)} == {state}
    assert all(row.reason for row in rows(folder))
    ran = workspace.run("index", folder)
    assert ran.exit_code == 0
    assert f"nightly/fair: {state}: " in ran.stderr
    assert 'class="badge pass"' not in (folder / "index.html").read_text()


LIND, ODE = Person(name="A. Lind", role="officer"), Person(name="B. Ode", role="protection officer")


def key(tmp_path: Path, name: str) -> Signer:
    make_keys(tmp_path / name, {})
    return load_signer(tmp_path / name, {})


def _seal_by(output: Path, signer: Signer) -> None:
    manifest = read_document(output, MANIFEST, Manifest)
    seal(output, manifest.about, signer)


def test_a_withdrawal_in_the_register_bars_the_verdict_whoever_signed_it(output: Path, tmp_path: Path) -> None:
    sealer, other = key(tmp_path, "a.key"), key(tmp_path, "b.key")
    (output / "to-hand-on").mkdir(exist_ok=True)
    seal(output / "to-hand-on", about("to-hand-on"), sealer)
    _seal_by(output, sealer)
    register, named = tmp_path / "withdrawn.jsonl", frozenset({sealer.fingerprint})
    register.touch()
    assert {row.state for row in rows(output, keys=named, register=read_register(register))} == {"PASS"}
    copy = Path(shutil.copytree(output / "to-hand-on", tmp_path / "copy"))
    withdraw(copy, LIND, "misdeclared", other, register=register)
    assert {row.state for row in rows(output, keys=named, register=read_register(register))} == {NOT_SOUND}


@pytest.mark.parametrize(
    ("named", "asked", "state", "shown"),
    [
        ("", "", "PASS", "sign-off by no key that was named"), ("a", "bc", "PASS", "signed off"),
        ("a", "b", NOT_SOUND, ""),
    ],
)  # fmt: skip
def test_a_sign_off_counts_by_keys_that_were_named(
    named: str, asked: str, state: str, shown: str, output: Path, tmp_path: Path
) -> None:
    keys = {name: key(tmp_path, f"{name}.key") for name in "abc"}
    _seal_by(output, keys["a"])
    for person, name in ((LIND, "b"), (ODE, "c")):
        sign_off(output, person, Demand(), keys[name])
    listed = rows(output.parents[1], **{
        at: frozenset(keys[name].fingerprint for name in names)
        for at, names in (("keys", named), ("sign_off_keys", asked)) if names
    })  # fmt: skip
    assert listed[0].state == state
    assert [row.sign_off for row in listed if row.sign_off] == [shown] * bool(shown)


def test_an_index_replaces_an_index_and_nothing_else(output: Path, workspace: Workspace) -> None:
    folder = output.parents[1]
    assert [workspace.run("index", folder).exit_code for _ in range(2)] == [0, 0]
    report = folder / "mine.html"
    report.write_text("<p>mine</p>")
    for page in (report, output / "index.html", folder):
        ran = workspace.run("index", folder, "--out", page)
        assert (ran.exit_code, ran.stderr.count("Error: ")) == (2, 1)
    assert report.read_text() == "<p>mine</p>"
    assert not (output / "index.html").exists()

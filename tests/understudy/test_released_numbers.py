"""Released numbers are reserved beside the fits, drawn once whatever kills the run, and leave with it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from evaluate.dp_release import released_schedule
from evaluate.gate import verdict as verdicts
from evaluate.result import Evaluation
from evaluate.result_io import evaluation_from
from evaluate.text import loss, room
from reports.sections.privacy_budget import AFTER_RUN
from synth.dp.accounting import rdp_curve
from synth.dp.events import event_of
from synth.dp.ledger import open_ledger
from synth.dp.mechanisms import SystemNoise
from synth.dp.renyi_curve import RdpCurve
from synth.progress import quiet
from synth.schema_file import read_schema
from tests.understudy.driving import Driver
from tests.understudy.test_resume import assert_paid, charged, draws, driver, moments, prepared
from understudy.job.spec import JobError, build_job
from understudy.run import released_numbers as publishing
from understudy.run import stages
from understudy.run.plan import PUBLICATION, make_plan
from understudy.run.workspace import unfinished

__all__ = ["driver"]

ASKED: dict[str, Any] = {
    "generators": {"independent": {"epsilon": 0.5}}, "release": "independent", "released_numbers": {"epsilon": 0.3},
}  # fmt: skip
N_FIT, N_PUBLISHED = 4, 1 + 4 + 1 + 1
JUDGED = (1, 3)
"""Exit codes of a run whose table is judged and does not pass: so little is measured here."""


def plain_job(**changes: Any) -> dict[str, Any]:
    return {"table": {"path": "t.csv", "schema": "s.toml"}, **ASKED, **changes}


def test_a_public_report_is_about_the_table_that_is_released() -> None:
    content = plain_job()
    assert build_job(content).released_numbers is not None
    del content["release"]
    with pytest.raises(JobError, match="released_numbers is about the table that is released, and release names none"):
        build_job(content)
    for spec in ({}, {"epsilon": 0}, {"epsilon": "0.1"}, {"epsilon": 0.1, "numbers": 3}, {"epsilon": 101.0}):
        with pytest.raises(JobError, match="released_numbers"):
            build_job(plain_job(released_numbers=spec))


def test_numbers_about_a_table_without_epsilon_are_refused(workspace: Any) -> None:
    workspace.write_job(**{**ASKED, "generators": {"independent": {}}})
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out")
    assert ran.exit_code == 2
    assert "which no noise on numbers about it takes back; give the generator an epsilon" in ran.stderr
    assert not (workspace.folder / "out").exists()


def test_numbers_cost_the_ledger_what_their_schedule_says(workspace: Any) -> None:
    folder = prepared(workspace, "paid", **ASKED)
    plan = make_plan(folder / "job.toml", folder / "out")
    assert list(plan.reserved) == ["independent", PUBLICATION]
    assert plan.publication is not None
    assert plan.publication == released_schedule(read_schema(folder / "schema.toml"), 0.3, "auto")
    assert plan.together is not None
    fit = plan.schedules["independent"].epsilon
    assert max(fit, 0.3 * 0.99) < plan.together.epsilon < fit + 0.3
    assert any("released_numbers: whoever gets the table" in warning for warning in plan.warnings)


def test_several_private_fits_are_composed_even_where_no_number_is_published(workspace: Any) -> None:
    several = {"generators": {"independent": {"epsilon": 0.5}, "mst": {"epsilon": 0.5}}, "release": "mst"}
    plan = make_plan(prepared(workspace, "several", **several) / "job.toml", workspace.folder / "none")
    assert plan.together is None
    assert plan.everything is not None
    assert plan.everything.n_fits == 2
    assert max(one.epsilon for one in plan.schedules.values()) < plan.everything.epsilon < 1.0
    alone = prepared(workspace, "alone", generators={"independent": {"epsilon": 0.5}}, release="independent")
    assert make_plan(alone / "job.toml", workspace.folder / "none").everything is None


def test_numbers_that_the_ledger_does_not_admit_are_refused_before_anything(workspace: Any) -> None:
    folder = prepared(workspace, "poor", total=0.6, **ASKED)
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out")
    assert ran.exit_code == 2
    assert "these 2 releases" in ran.stderr
    assert open_ledger(folder / "ledger.db").holdings()[0].n_releases == 0
    alone = {name: value for name, value in ASKED.items() if name != "released_numbers"}
    fitting = prepared(workspace, "enough", total=0.6, **alone)
    assert make_plan(fitting / "job.toml", fitting / "out").publication is None


def fresh(folder: Path) -> Any:
    from tests.understudy.conftest import Workspace, small_table

    workspace = Workspace(folder)
    workspace.write_table(small_table())
    return workspace


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with numbers, left alone."""
    workspace = fresh(tmp_path_factory.mktemp("published"))
    folder = prepared(workspace, "done", **ASKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_KEY_FILE", str(folder / "fingerprint.key"))
        patch.delenv("UNDERSTUDY_LEDGER", raising=False)
        ran = workspace.run("run", folder / "job.toml", "--out", folder / "out", "--quiet")
    assert ran.exit_code in JUDGED, ran.stderr
    return folder


@pytest.fixture(scope="module")
def logged(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with every draw and every moment logged."""
    folder = prepared(fresh(tmp_path_factory.mktemp("logged")), "logged", **ASKED)
    assert driver.attempt(folder) in JUDGED, (folder / "stderr.txt").read_text()
    return folder


def evaluation_of(folder: Path) -> Evaluation:
    return evaluation_from((folder / "out" / "evaluation.json").read_text())


def released_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "out" / "to-hand-on" / publishing.NUMBERS).read_text())
    return content


@pytest.mark.slow
def test_a_run_draws_what_it_pays_for(logged: Path) -> None:
    assert len(draws(logged)) == N_FIT + N_PUBLISHED
    np.testing.assert_allclose(charged(logged).divergences, rdp_curve(draws(logged)).divergences, rtol=1e-9)


def test_every_text_of_a_run_says_what_table_and_numbers_come_to(done: Path, workspace: Any) -> None:
    out, place = done / "out", workspace.folder / "asked.md"
    ran = workspace.run(
        "card", out / "evaluation.json", "--candidate", "independent", "--out", place, "--job", done / "job.toml",
        "--table", out / "synthetic" / "independent.csv", "--to-hand-on",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    both = evaluation_of(done).provenance.released_numbers.together
    assert evaluation_of(done).provenance.composed.epsilon == both.epsilon
    asked, written = (
        yaml.safe_load(path.read_text())["privacy"]
        for path in (place.with_suffix(".yaml"), out / "to-hand-on" / "model-card.yaml")
    )
    assert asked == written
    assert (asked["epsilon"], asked["delta"]) == (both.epsilon, both.delta)
    assert [(one["of"], one["releases"]) for one in asked["composition"]] == [("fit", 1), ("published", 2)]
    told = f"epsilon {loss(both.epsilon)}, delta {loss(both.delta)}, for the table and the numbers published"
    assert f"Privacy: epsilon {loss(both.epsilon)} at delta" in place.read_text()
    assert told in (out / "summary.md").read_text()
    page = (out / "to-hand-on" / publishing.REPORT).read_text()
    assert f"&epsilon; = {loss(both.epsilon)}</b>" in page


def test_every_text_of_a_run_says_one_position_of_the_ledger_and_of_which_moment(done: Path) -> None:
    out, (held,) = done / "out", open_ledger(done / "ledger.db").holdings()
    booked = evaluation_of(done).provenance.ledger
    assert booked.spent_epsilon == held.spent_epsilon
    for path in (out / "to-hand-on" / "model-card.yaml", out / "cards" / "independent.yaml"):
        position = yaml.safe_load(path.read_text())["privacy"]["ledger"]
        assert (position["note"]["spent_epsilon"], position["left_epsilon"]) == (held.spent_epsilon, held.left_epsilon)
        assert position["moment"] == AFTER_RUN
    for path in (out / "report.html", out / "to-hand-on" / publishing.REPORT):
        assert f"{loss(held.spent_epsilon)} <small>" in path.read_text()
        assert AFTER_RUN in path.read_text()
    assert f"{room(held.left_epsilon)} of 10 is left {AFTER_RUN}." in (out / "summary.md").read_text()


def test_a_run_pays_for_the_fit_and_the_numbers(done: Path) -> None:
    together = evaluation_of(done).provenance.released_numbers.together
    events = [event_of(e.what, e.mechanism, e.noise, e.count) for e in together.events]
    assert sum(event.count for event in events) == N_FIT + N_PUBLISHED
    np.testing.assert_allclose(charged(done).divergences, rdp_curve(events).divergences, rtol=1e-9)
    entries = open_ledger(done / "ledger.db").history()
    said = [entry.body for entry in entries if entry.kind == "reserved"]
    assert [("numbers published about independent of a run" in body) for body in said] == [False, True]
    assert [entry.kind for entry in entries].count("committed") == 2
    assert open_ledger(done / "ledger.db").verify() == ()


def test_the_released_numbers_are_the_same_wherever_they_stand(done: Path) -> None:
    evaluation, released = evaluation_of(done), released_of(done)
    assert released["numbers"] == json.loads(evaluation.to_json())["provenance"]["released_numbers"]["numbers"]
    assert len(released["numbers"]) == 1 + 1 + 4 + 1 + 1
    (candidate,) = evaluation.candidates
    for one in released["numbers"]:
        found = candidate.find(one["measure"], tuple(one["subject"]))
        assert (found.value, found.low, found.high) == (one["value"], one["low"], one["high"])  # type: ignore[union-attr]
    page = (done / "out" / "to-hand-on" / publishing.REPORT).read_text()
    assert "Released numbers" in page
    assert evaluation.provenance.ledger.reserved_epsilon.keys() == {"independent", publishing.ALONE}


def test_the_price_of_what_is_published_is_computed_anew(done: Path, workspace: Any) -> None:
    path = done / "out" / "to-hand-on" / publishing.NUMBERS
    for name in ("independent", publishing.ALONE, publishing.BOTH):
        ran = workspace.run("ledger", "show", "--release", path, "--candidate", name)
        assert ran.exit_code == 0, ran.stderr
        assert "PASS: the claim" in ran.stdout


def test_the_verdict_counts_the_numbers_too(done: Path) -> None:
    from evaluate.gate.policy import build_policy

    evaluation = evaluation_of(done)
    (candidate,) = evaluation.candidates
    assert candidate.statement is not None
    rule = {"measure": "statement.epsilon", "limit": candidate.statement.epsilon + 0.01, "why": "As fitted."}
    policy = build_policy({"name": "p", "version": 1, "audience": "a", "rules": [rule]})
    (verdict,) = verdicts.judge(evaluation, [policy])
    assert verdict.verdict == "FAIL"
    plain = replace(evaluation.provenance, released_numbers=None, composed=None, ledger=None)
    alone = replace(evaluation, provenance=plain)
    (alone,) = verdicts.judge(alone, [policy])
    assert alone.findings[0].outcome == "PASS"


def test_nothing_in_the_public_folder_names_the_real_table(done: Path) -> None:
    evaluation = evaluation_of(done)
    secrets = [text.split(":")[-1] for text in evaluation.provenance.fingerprints.values()]
    entries = open_ledger(done / "ledger.db").history()
    secrets += [text for entry in entries for text in (entry.hash, entry.token) if text]
    secrets += re.findall(r"[0-9a-f]{32,}", " ".join(entry.body for entry in entries))
    files = [path for path in (done / "out" / "to-hand-on").rglob("*") if path.is_file()]
    assert len(files) > 2
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not [secret for secret in secrets if secret in text], path.name
        # Whole numbers: noisy figures have decimals, and may be these digits by chance.
        numbers = re.findall(r"(?<![\d.])\d+(?!\.?\d)", text.replace(",", ""))
        assert str(evaluation.real.train_rows) not in numbers or path.suffix == ".csv"


PUBLIC_PARTS = {
    "statement", "audit", "generator", "expected", "released_numbers", "attempts", "versions", "run_id", "schema",
    "name", "job", "policy_sha256", "release", "composed", "sweep", "ledger",
}  # fmt: skip
"""Parts of an evaluation that what is public may rest on: configuration, what was released and what that cost, the
declared schema."""


def ordered(content: dict[str, Any]) -> dict[str, Any]:
    """Scrambled numbers of an estimate or an area, which lies within its interval even so."""
    middle = next((name for name in ("value", "auc") if {name, "low", "high"} <= content.keys()), None)
    if middle is None or content["low"] is None:
        return content
    names = ("low", middle, "high")
    return {**content, **dict(zip(names, sorted(content[name] for name in names), strict=True))}


def scrambled(content: Any, rng: np.random.Generator, place: str = "") -> Any:
    """Every value exchanged that no public thing may rest on."""
    if place in PUBLIC_PARTS:
        return content
    if place == "shift":  # it was tested, or says why not
        return {**content, "p_value": rng.random()}
    if isinstance(content, dict):
        return ordered({key: scrambled(value, rng, key) for key, value in content.items()})
    if isinstance(content, list):
        return [scrambled(value, rng, place) for value in content]
    if isinstance(content, int | float) and not isinstance(content, bool):
        is_share = isinstance(content, float) and 0.0 <= content <= 1.0
        return rng.random() if is_share else type(content)(1e5 * (1 + 9 * rng.random()))
    kept = not isinstance(content, str) or content == "" or place in ("measure", "direction", "case", "reason")
    return content if kept else f"text{rng.random()}"


def test_no_file_of_the_public_folder_moves_with_what_was_measured(done: Path, tmp_path: Path) -> None:
    from understudy.artifacts import Delivery
    from understudy.bundle.evidence import write_public_folder
    from understudy.bundle.manifest import About, rules_of

    content = json.loads((done / "out" / "evaluation.json").read_text())
    version, plan = content.pop("schema_version"), make_plan(done / "job.toml", tmp_path / "none")
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        told = content if seed == 0 else {key: scrambled(value, rng, key) for key, value in content.items()}
        evaluation = evaluation_from(json.dumps({**told, "schema_version": version}))
        folder = tmp_path / str(seed)
        shutil.copytree(done / "out" / "synthetic", folder / "synthetic")
        shutil.copyfile(done / "out" / "schema.toml", folder / "schema.toml")
        tables = {"independent": Path("synthetic/independent.csv")}
        delivery = Delivery(evaluation, (), plan.policy, plan.title, "independent", tables)
        about = About(kind="internal", made_at="2026-11-22T00:00:00Z", title=plan.title, policy=rules_of(plan.policy))
        write_public_folder(delivery, folder, about, None)
        found.append({path.name: path.read_bytes() for path in sorted((folder / "to-hand-on").iterdir())})
    assert len(found[0]) > 5
    for other in found[1:]:
        assert {name for name in found[0] if other[name] != found[0][name]} == set()


def test_numbers_that_were_cut_short_go_on_from_what_is_kept(
    workspace: Any, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepared(workspace, "cut", **ASKED)
    plan, drawn = make_plan(folder / "job.toml", folder / "out"), []
    table = done / "out" / "synthetic" / "independent.csv"
    sides = stages.split(plan, stages.read(plan, workspace.folder))
    gaussian = SystemNoise.gaussian

    def dies_at_the_third(noise: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        drawn.append(sigma)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return gaussian(noise, values, sigma)

    monkeypatch.setattr(SystemNoise, "gaussian", dies_at_the_third)
    with unfinished(plan.out) as work:
        work.claim({"job": "a job"})
        plan.payment(work).reserve("a fingerprint")
        with pytest.raises(KeyboardInterrupt):
            publishing.release_numbers(plan, work, sides, table, quiet)
        with work.journal(PUBLICATION) as journal:
            kept = [value for _, value in journal._values]
            assert (len(kept), len(journal.lost)) == (2, 1)
        for _ in range(2):  # the second time everything is there
            publishing.release_numbers(plan, work, sides, table, quiet)
        kept_numbers = json.loads(work.measured(PUBLICATION).read_text())["numbers"]
        numbers = {(one["measure"], *one["subject"]): one["drawn"] for one in kept_numbers}
        warnings = work.warnings
    assert len(drawn) == N_PUBLISHED + 1
    assert (numbers["rows.released",], numbers["columns.tvd.released", "age"]) == tuple(kept)
    assert any("released_numbers: a draw was lost" in warning for warning in warnings)
    kinds = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert (kinds.count("charged"), kinds.count("used")) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_run_that_is_killed_while_it_releases_numbers_draws_none_twice_unpaid(
    driver: Driver, workspace: Any, logged: Path, side: str
) -> None:
    folder = prepared(workspace, "killed", **ASKED)
    drawing = [n for n, name in enumerate(moments(logged)) if name == f"gaussian:{side}"]
    assert driver.attempt(folder, die_at=drawing[N_FIT + 2]) == -9
    kept = (folder / ".out.unfinished" / "journals" / f"{PUBLICATION}.journal").read_text()
    values = [json.loads(line)["value"] for line in kept.splitlines() if "value" in json.loads(line)]
    assert len(values) == 2
    assert_paid(folder)
    assert driver.attempt(folder) in JUDGED
    assert_paid(folder)
    assert len(draws(folder)) == N_FIT + N_PUBLISHED + (side == "after")
    numbers = {(one["measure"], *one["subject"]): one["drawn"] for one in released_of(folder)["numbers"]}
    assert numbers[("rows.released",)] == values[0]
    assert numbers[("columns.tvd.released", "age")] == values[1]
    warnings = evaluation_of(folder).provenance.warnings
    assert any("released_numbers: a draw was lost" in warning for warning in warnings)
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_run_that_is_killed_after_its_numbers_were_kept_draws_nothing(
    driver: Driver, workspace: Any, logged: Path
) -> None:
    folder = prepared(workspace, "kept", **ASKED)
    assert driver.attempt(folder, die_at=[n for n, m in enumerate(moments(logged)) if m == "commit:before"][1]) == -9
    assert len(draws(folder)) == N_FIT + N_PUBLISHED
    assert driver.attempt(folder) in JUDGED
    assert len(draws(folder)) == N_FIT + N_PUBLISHED
    states = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert states.count("committed") == 2


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_of_its_release_goes_on(
    driver: Driver, workspace: Any, logged: Path
) -> None:
    passed = moments(logged)
    uses = [n for n, name in enumerate(passed) if name == "use:before"]
    commits = [n for n, name in enumerate(passed) if name == "commit:after"]
    for n in range(uses[1], commits[1] + 1, 20):
        folder = prepared(workspace, f"at{n}", **ASKED)
        assert driver.attempt(folder, die_at=n) == -9
        assert_paid(folder)
        assert driver.attempt(folder) in JUDGED
        assert_paid(folder)
        assert open_ledger(folder / "ledger.db").verify() == ()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_point_of_a_sweep_counts_the_whole_sweep(workspace: Any) -> None:
    swept = {"generators": {"independent": {"epsilon": [0.3, 0.5]}}, "release": "independent-eps0.5-seed0"}
    folder = prepared(workspace, "swept", **{**ASKED, **swept})
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out", "--quiet")
    assert ran.exit_code in JUDGED, ran.stderr
    evaluation = evaluation_of(folder)
    published, swept_together = evaluation.provenance.released_numbers, evaluation.provenance.sweep.composed
    assert published.n_fits == 2
    assert published.together.epsilon == published.every.epsilon
    assert published.together.epsilon > swept_together.epsilon
    assert "all its 2 private fits are counted" in (folder / "out" / "to-hand-on" / publishing.REPORT).read_text()
    unpaid = prepared(workspace, "unpaid", total=None, **{**ASKED, **swept})
    assert workspace.run("run", unpaid / "job.toml", "--out", unpaid / "out").exit_code == 2


def test_without_the_key_the_public_report_holds_no_number_and_costs_nothing(workspace: Any) -> None:
    asked = {name: value for name, value in ASKED.items() if name != "released_numbers"}
    folder = prepared(workspace, "plain", **{**asked, "generators": {"independent": {}}})
    assert workspace.run("run", folder / "job.toml", "--out", folder / "out", "--quiet").exit_code in JUDGED
    public = folder / "out" / "to-hand-on"
    assert "NO FORMAL GUARANTEE" in (public / publishing.REPORT).read_text()
    assert not (public / publishing.NUMBERS).exists()
    assert charged(folder) == RdpCurve.total([])


def test_a_label_cannot_be_that_of_the_numbers() -> None:
    with pytest.raises(JobError, match="names files"):
        build_job(plain_job(generators={PUBLICATION: {"generator": "independent"}}, release=PUBLICATION))

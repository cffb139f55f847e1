"""Sweeps: how a job asks for one, what it reserves and leaves, what its verdicts rest on, and what nobody paid for."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w

from evaluate.result import Estimate, Evaluation
from evaluate.result_io import evaluation_from
from evaluate.text import typed_loss
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent
from synth.dp.ledger import open_ledger
from synth.dp.renyi_curve import RdpCurve
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.generators.registry import generator
from synth.schema import build_schema
from tests.understudy.conftest import Ran, Workspace, shared_run, small_table
from understudy.bundle.verification import Demand, verify
from understudy.job.spec import Job, build_job, composed
from understudy.run.plan import make_plan

SWEEP = {"mst": {"epsilon": [0.3, 1, "none"]}}


def job(**changes: Any) -> Job:
    return build_job({"table": {"path": "t.csv", "schema": "s.toml"}, "generators": SWEEP, **changes})


def test_every_epsilon_is_fitted_once_for_each_seed() -> None:
    points = job(sweep={"seeds": 2}).points
    assert list(points) == [
        "mst-eps0.3-seed0", "mst-eps0.3-seed1", "mst-eps1-seed0", "mst-eps1-seed1", "mst-none-seed0", "mst-none-seed1",
    ]  # fmt: skip
    assert [point.epsilon for point in points.values()] == [0.3, 0.3, 1.0, 1.0, None, None]
    assert points["mst-eps1-seed1"].spec.parameters == {"epsilon": 1.0}
    assert points["mst-none-seed0"].spec.parameters == {}


def test_many_fits_compose_at_a_delta_that_leaves_room_for_those_of_their_mechanisms() -> None:
    columns = {"a": {"kind": "categorical", "measure": True}}
    fitted: Any = generator("independent", epsilon=1.0)
    each = fitted.schedule(build_schema({"status": "declared", "n_units": 900, "columns": columns}))
    few, many = (composed({str(i): each for i in range(n)}) for n in (2, 200))
    assert few is not None and many is not None and few.delta == each.delta
    assert many.delta == pytest.approx(2 * 200 * sum(event.delta for event in each.events))
    assert math.isfinite(many.epsilon)
    assert few.epsilon < many.epsilon < 200 * each.epsilon


def test_no_run_composes_what_nobody_who_judges_it_could_price() -> None:
    loud = Schedule((GaussianEvent("counts", 0.005),), 1e-6)
    with pytest.raises(BudgetError, match="for an accountant to resolve"):
        composed({"a": loud, "b": loud})


def refused(workspace: Any, clause: str, **changes: Any) -> None:
    workspace.write_job(**changes)
    before = workspace.listing()
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out")
    assert ran.exit_code == 2
    assert clause in ran.stderr
    assert workspace.listing() == before


def test_a_ledger_that_must_be_used_is_not_passed_by(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_LEDGER", str(workspace.folder / "ledger.db"))
    workspace.write_schema(dataset="patients")
    refused(workspace, "sweep.releasable=false uses none", generators=SWEEP, sweep={"releasable": False})


def test_a_total_that_holds_one_fit_but_not_all_is_refused_before_any(workspace: Any) -> None:
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=1.5, n_units=900)
    workspace.write_schema(dataset="patients")
    sweep = {"generators": {"independent": {"epsilon": [1.0]}}, "sweep": {"seeds": 2}}
    refused(workspace, "these 2 releases", **sweep, ledger={"url": "ledger.db"})
    (holding,) = open_ledger(workspace.folder / "ledger.db").holdings()
    assert holding.n_releases == 0


GENERATORS = {"independent": {"epsilon": [0.5, 2, "none"], "n_bins": 8}}
MEASURES = ["validity", "fidelity.columns"]
POLICY = {
    "name": "own", "version": 1, "audience": "tests",
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "statement.epsilon", "limit": 2.2, "why": "more than any one point claims, less than all together"},
    ],
}  # fmt: skip


def prepared(folder: Path, **changes: Any) -> Workspace:
    workspace = Workspace(folder)
    workspace.write_table(small_table())
    workspace.write_schema(dataset="patients")
    (folder / "policy.toml").write_text(tomli_w.dumps(POLICY))
    content = {"generators": GENERATORS, "sweep": {"seeds": 2}, "policy": "policy.toml", "seed": 4, **changes}
    workspace.write_job(evaluation={"measures": MEASURES}, **content)
    return workspace


def run(workspace: Workspace, *arguments: str) -> Ran:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *arguments)


@pytest.fixture(scope="session")
def paid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Ran]:
    def carry_out(folder: Path) -> Ran:
        open_ledger(folder / "ledger.db").open("patients", unit="row", epsilon=10.0, n_units=900)
        return run(prepared(folder, ledger={"url": "ledger.db"}, release="independent-eps2-seed1"), "--json")

    return shared_run(tmp_path_factory, "paid", carry_out)


@pytest.fixture(scope="session")
def unpaid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Ran]:
    one = {"generators": {"independent": {"epsilon": [2, "none"], "n_bins": 8}}, "sweep": {"seeds": 1}}
    return shared_run(tmp_path_factory, "unpaid", lambda folder: run(prepared(folder, **one)))


def evaluation_of(workspace: Any) -> Evaluation:
    return evaluation_from((workspace.folder / "out" / "evaluation.json").read_text())


def files(workspace: Any) -> set[str]:
    out = workspace.folder / "out"
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_the_ledger_holds_the_sum_of_all_points(paid: Any) -> None:
    workspace, _ = paid
    plan = make_plan(workspace.folder / "job.toml", workspace.folder / "elsewhere")
    assert len(plan.schedules) == 4
    (holding,) = open_ledger(workspace.folder / "ledger.db").holdings()
    whole = RdpCurve.total(schedule.curve for schedule in plan.schedules.values())
    assert holding.n_releases == 4
    assert holding.curve.divergences == pytest.approx(whole.divergences, rel=1e-9)


def test_a_paid_sweep_is_judged_by_what_all_points_promise_together(paid: Any) -> None:
    workspace, ran = paid
    plan = make_plan(workspace.folder / "job.toml", workspace.folder / "elsewhere")
    events = [event for schedule in plan.schedules.values() for event in schedule.events]
    together = epsilon_pld(events, max(schedule.delta for schedule in plan.schedules.values()))
    own = [c.statement.epsilon for c in evaluation_of(workspace).candidates if c.statement]
    assert max(own) <= 2.0 < 2.2 < together < sum(own)
    assert ran.exit_code == 1
    verdict = next(c for c in ran.json["candidates"] if c["candidate"] == "independent-eps2-seed1")
    finding = next(f for f in verdict["findings"] if f["rule"]["measure"] == "statement.epsilon")
    assert (verdict["verdict"], finding["outcome"]) == ("FAIL", "FAIL")
    assert finding["estimate"]["value"] == pytest.approx(together)
    assert ran.json["sweep"]["releasable"] is True
    assert any(f"epsilon={typed_loss(together)}" in sentence for sentence in ran.json["warnings"])
    assert "COMPOSED_STATEMENT.txt" in files(workspace) and "NOT_RELEASABLE.txt" not in files(workspace)


def test_the_summary_is_the_mean_over_seeds_with_its_interval(paid: Any) -> None:
    workspace, _ = paid
    summary = pd.read_csv(workspace.folder / "out" / "sweep_summary.csv", keep_default_na=False)
    of_table = (summary.measure == "columns.tvd.excess") & (summary.subject == "")
    (line,) = summary[of_table & (summary.epsilon == "0.5")].to_dict("records")
    result = [c.find("columns.tvd.excess") for c in evaluation_of(workspace).candidates[:2]]
    first, second = (e.value for e in result if isinstance(e, Estimate))
    assert line["mean"] == pytest.approx((first + second) / 2)
    half = 12.7062047 * abs(first - second) / 2  # Student's t at one degree of freedom
    assert (line["high"] - line["low"]) / 2 == pytest.approx(half, rel=1e-6)


def test_all_points_share_one_split_and_seeds_differ(paid: Any) -> None:
    workspace, _ = paid
    content = {path.stem: path.read_bytes() for path in (workspace.folder / "out" / "synthetic").iterdir()}
    assert content["independent-none-seed0"] != content["independent-none-seed1"]
    references = {c.find("columns.tvd.excess").reference for c in evaluation_of(workspace).candidates[:4]}  # type: ignore[union-attr]
    assert len(references) == 1


def test_nothing_that_could_be_released_is_left_of_an_unpaid_sweep(unpaid: Any) -> None:
    workspace, ran = unpaid
    assert ran.exit_code == 0, ran.stderr
    assert files(workspace) == {
        "report.html", "evaluation.json", "verdict.json", "job.toml", "schema.toml",
        "sweep.csv", "sweep_summary.csv", "NOT_RELEASABLE.txt", "policy.toml", "summary.md", "junit.xml",
        "metrics.public.prom", "metrics.internal.prom", "manifest.json", "manifest.json.sig",
    }  # fmt: skip
    result = verify(workspace.folder / "out", Demand())
    assert result.problems == () and result.manifest is not None and not result.manifest.about.releasable
    assert not [path for path in workspace.folder.iterdir() if path.name.startswith(".")]


def test_an_unpaid_sweep_never_passes_and_everything_that_it_leaves_says_so(unpaid: Any, tmp_path: Path) -> None:
    workspace, ran = unpaid
    out = workspace.folder / "out"
    content = json.loads((out / "verdict.json").read_text())
    assert {c["verdict"] for c in content["candidates"]} == {"FAIL"}
    lenient = tmp_path / "lenient.toml"
    lenient.write_text(tomli_w.dumps({**POLICY, "rules": POLICY["rules"][:1]}))
    for label in ("independent-eps2-seed0", "independent-none-seed0"):
        judged = workspace.run("gate", out / "evaluation.json", "--policy", lenient, "--candidate", label)
        assert judged.exit_code == 1 and "no ledger pays for" in judged.stdout
    page = tmp_path / "again.html"
    assert workspace.run("report", out / "evaluation.json", "--out", page, "--policy", lenient).exit_code == 0
    for text in (page.read_text(), (out / "report.html").read_text()):
        assert "<span>PASS" not in text and "Nothing of this sweep may be released" in text
    assert "NOT RELEASABLE" in ran.stdout and "NOTHING OF THIS SWEEP MAY BE RELEASED" in ran.stderr
    for name in ("sweep.csv", "sweep_summary.csv"):
        assert all(line.endswith("; not releasable") for line in (out / name).read_text().splitlines()[1:])


def test_a_ledger_is_left_alone_where_the_sweep_is_not_to_be_released(tmp_path: Path) -> None:
    open_ledger(tmp_path / "ledger.db").open("patients", unit="row", epsilon=0.1, n_units=900)
    sweep = {"seeds": 1, "releasable": False}
    generators = {"independent": {"epsilon": [0.5], "n_bins": 8}}
    workspace = prepared(tmp_path, ledger={"url": "ledger.db"}, sweep=sweep, generators=generators)
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    assert not (tmp_path / "out" / "synthetic").exists()
    (holding,) = open_ledger(tmp_path / "ledger.db").holdings()
    assert holding.n_releases == 0

"""How a job asks for a sweep, and what is refused before a row is read."""

import math
from typing import Any

import pytest

from synth.dp.events import GaussianEvent
from synth.dp.ledger import open_ledger
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.generators.registry import generator
from synth.schema import build_schema
from understudy.job.spec import Job, build_job
from understudy.job.sweep import composed

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
    text = "these 2 releases"
    sweep = {"generators": {"independent": {"epsilon": [1.0]}}, "sweep": {"seeds": 2}}
    refused(workspace, text, **sweep, ledger={"url": "ledger.db"})
    (holding,) = open_ledger(workspace.folder / "ledger.db").holdings()
    assert holding.n_releases == 0

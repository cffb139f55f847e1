"""How a job asks for a sweep, and what is refused before a row is read."""

import math
from typing import Any

import pytest

from synth.dp.events import GaussianEvent
from synth.dp.ledger import open_ledger
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError
from synth.schema import build_schema
from understudy.job.spec import Job, build_job, job_json
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


def test_a_generator_without_a_list_is_a_point_too() -> None:
    points = job(generators={**SWEEP, "tvae": {"rows": 10}, "aim": {"epsilon": 2}}, sweep={"seeds": [7]}).points
    assert list(points)[-2:] == ["tvae-none-seed7", "aim-eps2-seed7"]
    assert points["tvae-none-seed7"].spec.rows == 10


def test_other_lists_make_no_sweep() -> None:
    plain = job(generators={"mst": {"shares": [0.2, 0.3, 0.5], "epsilon": 1.0}})
    assert not plain.is_sweep
    assert list(plain.points) == ["mst"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generators": {"mst": {"epsilon": []}}}, "generators.mst: epsilon=[] is a sweep over nothing"),
        ({"generators": {"mst": {"epsilon": [1, 1.0]}}}, "the same value twice"),
        ({"generators": {"mst": {"epsilon": [1, "nothing"]}}}, "epsilon holds 'nothing'"),
        ({"generators": {"mst": {"epsilon": [True]}}}, "epsilon holds True"),
        ({"sweep": {"seeds": 0}}, "seeds=0 is no number of fits; use 1 to 100"),
        ({"sweep": {"seeds": 101}}, "use 1 to 100"),
        ({"sweep": {"seeds": [1, 1]}}, "a seed stands in the list twice"),
        ({"sweep": {"seeds": [-1]}}, "greater than or equal to 0"),
        ({"sweep": {"seed": 1}}, "did you mean 'seeds'?"),
        ({"workers": 0}, "workers=0"),
        ({"release": "mst"}, "name one of its points, as 'mst-eps0.3-seed0'"),
        ({"release": "mst-eps1-seed1"}, "did you mean 'mst-eps1-seed0'?"),
    ],
)
def test_what_is_no_sweep_is_refused_with_a_remedy(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(JobError) as refused:
        job(**changes)
    assert said in str(refused.value)


def test_the_one_epsilon_of_a_generator_is_read_like_one_of_a_list() -> None:
    assert list(job(generators={"mst": {"epsilon": "none"}}, sweep={"seeds": 1}).points) == ["mst-none-seed0"]
    with pytest.raises(JobError, match="epsilon holds '1', and a sweep takes numbers and 'none'"):
        job(generators={"mst": {"epsilon": "1"}}, sweep={"seeds": 1})


def test_labels_of_points_never_collide() -> None:
    points = job(generators={"a": {"epsilon": [1, 2]}, "a-eps1": {"epsilon": [1, "none"]}}, sweep={"seeds": 2}).points
    assert len(points) == 8


def test_many_fits_compose_at_a_delta_that_leaves_room_for_those_of_their_mechanisms() -> None:
    from synth.generators.base import PrivateGenerator
    from synth.generators.registry import generator

    columns = {"a": {"kind": "categorical", "measure": True}}
    fitted = generator("independent", epsilon=1.0)
    assert isinstance(fitted, PrivateGenerator)
    one = fitted.schedule(build_schema({"status": "declared", "n_units": 900, "columns": columns}))
    assert one is not None
    few, many = (composed({str(i): one for i in range(n)}) for n in (2, 200))
    assert few is not None
    assert many is not None
    assert few.delta == one.delta
    assert many.delta == pytest.approx(2 * 200 * sum(event.delta for event in one.events))
    assert math.isfinite(many.epsilon)
    assert few.epsilon < many.epsilon < 200 * one.epsilon


def test_no_run_composes_what_nobody_who_judges_it_could_price() -> None:
    loud = Schedule((GaussianEvent("counts", 0.005),), 1e-6)
    with pytest.raises(BudgetError, match="for an accountant to resolve"):
        composed({"a": loud, "b": loud})


def test_the_json_schema_takes_a_number_of_seeds_or_a_list() -> None:
    import jsonschema

    content = {"table": {"path": "t.csv", "schema": "s.toml"}, "generators": SWEEP}
    for seeds in (3, [0, 5]):
        jsonschema.validate({**content, "sweep": {"seeds": seeds}}, job_json())


def refused(workspace: Any, said: str, **changes: Any) -> None:
    workspace.write_job(**changes)
    before = workspace.listing()
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out")
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert workspace.listing() == before


def test_a_generator_that_takes_no_epsilon_is_refused_with_the_point_it_is_about(workspace: Any) -> None:
    said = "generators.sdv at epsilon=1: generator='sdv.tvae' gives no formal guarantee and takes no epsilon"
    refused(workspace, said, generators={"sdv": {"generator": "sdv.tvae", "epsilon": ["none", 1.0]}})


def test_a_sweep_that_nobody_pays_for_cannot_name_a_table_for_release(workspace: Any) -> None:
    said = "unless a ledger pays for all of its private fits"
    refused(workspace, said, generators=SWEEP, release="mst-eps1-seed0")
    refused(workspace, said, generators=SWEEP, sweep={"releasable": True})


def test_a_sweep_without_private_fits_is_not_said_to_be_kept_back(workspace: Any) -> None:
    said = "sweep.releasable=false is for private fits, and this sweep has none"
    refused(workspace, said, generators={"independent": {}}, sweep={"seeds": 2, "releasable": False})


def test_a_ledger_that_must_be_used_is_not_passed_by(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_LEDGER", str(workspace.folder / "ledger.db"))
    workspace.write_schema(dataset="patients")
    refused(workspace, "sweep.releasable=false uses none", generators=SWEEP, sweep={"releasable": False})


def test_a_total_that_holds_one_fit_but_not_all_is_refused_before_any(workspace: Any) -> None:
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=1.5, n_units=900)
    workspace.write_schema(dataset="patients")
    said = "these 2 releases"
    sweep = {"generators": {"independent": {"epsilon": [1.0]}}, "sweep": {"seeds": 2}}
    refused(workspace, said, **sweep, ledger={"url": "ledger.db"})
    (holding,) = open_ledger(workspace.folder / "ledger.db").holdings()
    assert holding.n_releases == 0

"""Released numbers are reserved beside the fits, drawn once whatever kills the run, and leave with it."""

import json
from typing import Any

import numpy as np
import pytest

from evaluate.dp_release import released_schedule
from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger
from synth.dp.mechanisms import SystemNoise
from synth.dp.renyi_curve import RdpCurve
from synth.progress import quiet
from synth.schema_file import read_schema
from tests.understudy.conftest import small_table
from tests.understudy.driving import charged, prepared
from understudy.bundle.evidence import NUMBERS, PUBLIC_REPORT
from understudy.job.spec import JobError, build_job
from understudy.run import run as publishing
from understudy.run import stages
from understudy.run.plan import PUBLICATION, make_plan
from understudy.run.workspace import unfinished

ASKED: dict[str, Any] = {
    "generators": {"independent": {"epsilon": 0.5}}, "release": "independent", "released_numbers": {"epsilon": 0.3},
}  # fmt: skip
N_PUBLISHED = 1 + 4 + 1 + 1
JUDGED = (1, 3)
"""Exit codes of a run whose table is judged and does not pass: so little is measured here."""


def test_released_numbers_are_about_the_table_that_is_released() -> None:
    content: dict[str, Any] = {"table": {"path": "t.csv", "schema": "s.toml"}, **ASKED}
    assert build_job(content).released_numbers is not None
    nameless = {key: value for key, value in content.items() if key != "release"}
    taken = {"generators": {PUBLICATION: {"generator": "independent"}}, "release": PUBLICATION}
    specs = ({}, {"epsilon": 0}, {"epsilon": "0.1"}, {"epsilon": 101.0})
    for wrong, clause in (
        (nameless, "released_numbers is about the table that is released"), ({**content, **taken}, "names files"),
        *(({**content, "released_numbers": spec}, "released_numbers") for spec in specs),
    ):  # fmt: skip
        with pytest.raises(JobError, match=clause):
            build_job(wrong)


def test_numbers_cost_the_ledger_what_their_schedule_says(workspace: Any) -> None:
    folder = prepared(workspace, "paid", **ASKED)
    plan = make_plan(folder / "job.toml", folder / "out")
    assert list(plan.reserved) == ["independent", PUBLICATION]
    assert plan.publication == released_schedule(read_schema(folder / "schema.toml"), 0.3, "auto")
    assert plan.together is not None
    fit = plan.schedules["independent"].epsilon
    assert max(fit, 0.3 * 0.99) < plan.together.epsilon < fit + 0.3
    poor = prepared(workspace, "poor", total=0.6, **ASKED)
    ran = workspace.run("run", poor / "job.toml", "--out", poor / "out")
    assert ran.exit_code == 2 and "these 2 releases" in ran.stderr
    assert open_ledger(poor / "ledger.db").holdings()[0].n_releases == 0


def test_numbers_that_were_cut_short_go_on_from_what_is_kept(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepared(workspace, "cut", **ASKED)
    plan, drawn = make_plan(folder / "job.toml", folder / "out"), []
    table = workspace.write_table(small_table(300, 1), "synthetic.csv")
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
        numbers = {(each["measure"], *each["subject"]): each["drawn"] for each in kept_numbers}
        warnings = work.warnings
    assert len(drawn) == N_PUBLISHED + 1
    assert (numbers["rows.released",], numbers["columns.tvd.released", "age"]) == tuple(kept)
    assert any("released_numbers: a draw was lost" in warning for warning in warnings)
    kinds = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert (kinds.count("charged"), kinds.count("used")) == (1, 1)


@pytest.mark.slow
def test_a_point_of_a_sweep_counts_the_whole_sweep(workspace: Any) -> None:
    swept = {"generators": {"independent": {"epsilon": [0.3, 0.5]}}, "release": "independent-eps0.5-seed0"}
    folder = prepared(workspace, "swept", **{**ASKED, **swept})
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out", "--quiet")
    assert ran.exit_code in JUDGED, ran.stderr
    evaluation = evaluation_from((folder / "out" / "evaluation.json").read_text())
    published, swept_together = evaluation.provenance.released_numbers, evaluation.provenance.sweep.composed
    assert published.n_fits == 2
    assert published.together.epsilon == published.every.epsilon
    assert published.together.epsilon > swept_together.epsilon
    assert "all its 2 private fits are counted" in (folder / "out" / "to-hand-on" / PUBLIC_REPORT).read_text()
    unpaid = prepared(workspace, "unpaid", total=None, **{**ASKED, **swept})
    assert workspace.run("run", unpaid / "job.toml", "--out", unpaid / "out").exit_code == 2


def test_without_the_key_the_public_report_holds_no_number_and_costs_nothing(workspace: Any) -> None:
    asked = {name: value for name, value in ASKED.items() if name != "released_numbers"}
    folder = prepared(workspace, "plain", **{**asked, "generators": {"independent": {}}})
    assert workspace.run("run", folder / "job.toml", "--out", folder / "out", "--quiet").exit_code in JUDGED
    public = folder / "out" / "to-hand-on"
    assert "NO FORMAL GUARANTEE" in (public / PUBLIC_REPORT).read_text()
    assert not (public / NUMBERS).exists()
    assert charged(folder) == RdpCurve.total([])

"""Candidates made by processes of their own: what a death costs, what a second start does again, and what it pays."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger
from tests.understudy.conftest import SCHEMA
from understudy.executors.executor import cores
from understudy.executors.processes import Processes, Worker

PLAIN = {"independent": {"n_bins": 8}, "coarse": {"generator": "independent", "n_bins": 4}}
SWEPT = {"independent": {"epsilon": [0.5, 2], "n_bins": 8}}
QUICK = {"measures": ["validity"]}

pytestmark = pytest.mark.skipif(cores() < 2, reason="one core makes one candidate at a time")


def sweep(workspace: Any, *, seeds: int = 2, **changes: Any) -> None:
    """A paid sweep of four private points."""
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=10.0, n_units=900)
    workspace.write_schema(dataset="patients")
    content = {"generators": SWEPT, "sweep": {"seeds": seeds}, "ledger": {"url": "ledger.db"}, **changes}
    workspace.write_job(workers=2, evaluation=QUICK, **content)


def run(workspace: Any, *arguments: str, out: str = "out") -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / out, *arguments)


def kill_first(work: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kill the first process that has begun to draw; the list names the candidate that it was at."""
    killed: list[str] = []
    original = Processes._look

    def look(self: Processes, worker: Worker) -> Any:
        if not killed and (work / "journals" / f"{worker.name}.journal").exists():
            killed.append(worker.name or "")
            os.kill(worker.process.pid, signal.SIGKILL)
        return original(self, worker)

    monkeypatch.setattr(Processes, "_look", look)
    return killed


@pytest.mark.statistical
def test_a_killed_process_loses_its_candidate_only_and_the_next_start_makes_that_alone(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(workspace)
    killed = kill_first(workspace.folder / ".out.unfinished", monkeypatch)
    ran = run(workspace)
    assert ran.exit_code == 2
    (lost,) = killed
    assert f"1 of 4 candidates were lost, and the others are finished: {lost} (its process was killed" in ran.stderr
    assert "the same command goes on from there" in ran.stderr
    assert not (workspace.folder / "out").exists()
    work = workspace.folder / ".out.unfinished"
    kept = {path.name: path.read_bytes() for path in (work / "result" / "synthetic").glob("*.csv")}
    assert len(kept) >= 3
    again = run(workspace)
    assert again.exit_code == 0, again.stderr
    assert f"fit {lost} ..." in again.stderr
    assert again.stderr.count("evaluate ") == 1
    for name, content in kept.items():
        assert (workspace.folder / "out" / "synthetic" / name).read_bytes() == content
    ledger = open_ledger(workspace.folder / "ledger.db")
    (holding,) = ledger.holdings()
    assert ledger.verify() == ()
    assert 4 <= holding.n_releases <= 5  # what was in use and left no value is spent, and another one was made
    assert [entry.kind for entry in ledger.history()].count("committed") == 4


@pytest.mark.slow
def test_one_process_and_two_give_the_same_numbers_without_privacy(workspace: Any) -> None:
    workspace.write_job(generators=PLAIN, evaluation={"measures": ["fidelity.columns", "fidelity.pairs"]}, seed=2)
    for n in (1, 2):
        ran = run(workspace, "--workers", str(n), out=f"out{n}")
        assert ran.exit_code == 0, ran.stderr
    outs = [workspace.folder / f"out{n}" for n in (1, 2)]
    each, two = (evaluation_from((out / "evaluation.json").read_text()) for out in outs)
    assert [c.name for c in each.candidates] == [c.name for c in two.candidates] == list(PLAIN)
    assert [c.estimates for c in each.candidates] == [c.estimates for c in two.candidates]
    tables = [{p.name: p.read_bytes() for p in (out / "synthetic").iterdir()} for out in outs]
    assert tables[0] == tables[1]


def test_what_cannot_be_made_is_lost_with_its_reason_and_the_others_are_made(workspace: Any, table: Any) -> None:
    columns = {**SCHEMA["columns"], "id": {"kind": "identifier", "bounds": [1, 1000]}}
    workspace.write_table(table(900, 0).assign(id=range(1, 901)))
    workspace.write_schema(columns=columns)
    # There are only 1,000 identifiers: the second table cannot be drawn.
    generators = {"many": {"generator": "independent", "rows": 2000}, "independent": {"n_bins": 8}}
    workspace.write_job(generators=generators, evaluation=QUICK, sweep={"seeds": 1})
    ran = run(workspace)
    assert ran.exit_code == 2
    assert "1 of 2 candidates were lost, and the others are finished: many" in ran.stderr
    (done,) = (workspace.folder / ".out.unfinished" / "measured").glob("[!.]*")
    assert done.stem.startswith("independent")
    again = run(workspace)
    assert again.exit_code == 2
    assert [line for line in again.stderr.splitlines() if line.startswith("evaluate")] == []

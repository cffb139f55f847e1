"""Candidates made by processes of their own: what a death costs, what a second start does again, and what it pays."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger
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
    one, two = (evaluation_from((out / "evaluation.json").read_text()) for out in outs)
    assert [c.name for c in one.candidates] == [c.name for c in two.candidates] == list(PLAIN)
    assert [c.estimates for c in one.candidates] == [c.estimates for c in two.candidates]
    tables = [{p.name: p.read_bytes() for p in (out / "synthetic").iterdir()} for out in outs]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("how", [{"sweep": {"seeds": 1}}, pytest.param({"workers": 2}, marks=pytest.mark.slow)])
def test_what_cannot_be_made_is_lost_with_its_reason_and_the_others_are_made(
    workspace: Any, table: Any, how: dict[str, Any]
) -> None:
    columns = {**workspace_columns(workspace), "id": {"kind": "identifier", "bounds": [1, 1000]}}
    workspace.write_table(table(900, 0).assign(id=range(1, 901)))
    workspace.write_schema(columns=columns)
    # There are only 1,000 identifiers: the second table cannot be drawn.
    generators = {"many": {"generator": "independent", "rows": 2000}, "independent": {"n_bins": 8}}
    workspace.write_job(generators=generators, evaluation=QUICK, **how)
    ran = run(workspace)
    assert ran.exit_code == 2
    assert "1 of 2 candidates were lost, and the others are finished: many" in ran.stderr
    (done,) = (workspace.folder / ".out.unfinished" / "measured").glob("[!.]*")
    assert done.stem.startswith("independent")
    again = run(workspace)
    assert again.exit_code == 2
    assert [line for line in again.stderr.splitlines() if line.startswith("evaluate")] == []


def workspace_columns(workspace: Any) -> dict[str, Any]:
    import tomllib

    columns: dict[str, Any] = tomllib.loads((workspace.folder / "schema.toml").read_text())["columns"]
    return columns


def start(workspace: Any) -> "subprocess.Popen[str]":
    """The command in a process group of its own, with candidates under way."""
    process = subprocess.Popen(
        [sys.executable, "-m", "understudy", "run", "job.toml", "--out", "out"],
        cwd=workspace.folder, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "done; 1 of" in line:
            break
    return process


def assert_all_end(group: int) -> None:
    """No process of a group is there any more, after the moment that Python's own helper takes to notice."""
    until = time.monotonic() + 20
    while alive(group) and time.monotonic() < until:
        time.sleep(0.1)
    assert alive(group) == []


def alive(group: int) -> list[int]:
    """Processes of a group that are still there."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_the_next_start_goes_on(workspace: Any) -> None:
    sweep(workspace, seeds=4)
    process = start(workspace)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "the same command goes on from there" in stderr
    assert_all_end(process.pid)
    assert_goes_on(workspace, 8)


@pytest.mark.slow
def test_the_processes_of_a_run_that_is_killed_end_with_it_and_the_next_start_goes_on(workspace: Any) -> None:
    sweep(workspace, seeds=4)
    process = start(workspace)
    process.kill()
    assert_goes_on(workspace, 8)
    assert_all_end(process.pid)
    assert process.stderr is not None
    process.stderr.close()
    process.wait()


def assert_goes_on(workspace: Any, n_points: int) -> None:
    n_done = len(list((workspace.folder / ".out.unfinished" / "measured").glob("[!.]*.json")))
    assert n_done >= 1
    ran = run(workspace, "--json")
    assert ran.exit_code == 0, ran.stderr
    # A process whose parent was killed may have finished one more, before it noticed.
    n_made = int(re.search(r"done; 1 of (\d+)", ran.stderr)[1])  # type: ignore[index]
    assert n_made <= n_points - n_done
    ledger = open_ledger(workspace.folder / "ledger.db")
    assert ledger.verify() == ()
    assert [entry.kind for entry in ledger.history()].count("committed") == n_points
    said = json.loads((workspace.folder / "out" / "evaluation.json").read_text())
    assert len(said["candidates"]) == n_points

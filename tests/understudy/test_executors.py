"""Processes that do work by its name: what a death costs, and what a second start does again."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evaluate.result_io import evaluation_from
from synth.dp.ledger import open_ledger
from synth.errors import JobError, OutputError
from tests.understudy.conftest import SCHEMA
from tests.understudy.working import Scripted
from understudy import executor as executors
from understudy.executor import Ended, Processes, Service, Worker, checked, cores, wait_for_workers


def service(folder: Path, **changes: object) -> Service:
    return Service(pickle.dumps(Scripted()), folder, home=folder, **changes)  # type: ignore[arg-type]


def all_ended(executor: Processes, names: list[str]) -> dict[str, Ended]:
    left, result = list(names), {}
    while left or executor.at_work:
        while left and len(executor.at_work) < executor.size:
            executor.start(left.pop(0))
        result |= {ended.name: ended for ended in executor.ended(30)}
    return result


def test_a_process_that_dies_takes_its_piece_only_and_the_others_go_on(tmp_path: Path) -> None:
    with Processes(service(tmp_path), 3) as executor:
        result = all_ended(executor, ["sleep:1", "die:9", "pid:1", "leave:7", "pid:2", "pid:3"])
    assert {name for name, ended in result.items() if ended.status is not None} == {"die:9", "leave:7"}
    assert "its process was killed" in result["die:9"].lost
    assert result["leave:7"].lost == "its process ended by itself with exit code 7"
    assert result["sleep:1"].lost == ""
    assert list(tmp_path.iterdir()) == []  # the locks went with their processes


def test_a_process_has_its_share_of_threads_and_the_environment_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setattr(executors, "cores", lambda: 8)
    with Processes(service(tmp_path), 4) as executor:
        result = all_ended(executor, ["threads:"])
    assert result["threads:"].lost == "2 2"
    assert os.environ["OMP_NUM_THREADS"] == "64"
    assert "MKL_NUM_THREADS" not in os.environ


def test_nothing_is_alive_when_the_block_is_left(tmp_path: Path) -> None:
    began = time.monotonic()
    with Processes(service(tmp_path), 2) as executor:
        executor.start("sleep:600")
        executor.start("pid:1")
        (ended,) = executor.ended(30)
        pids = [worker.process.pid for worker in executor.workers]
    assert ended.name == "pid:1"
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert time.monotonic() - began < 20


def test_a_process_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = (
        "import pathlib, pickle, time\n"
        "from tests.understudy.working import Scripted\n"
        "from understudy.executor import Processes, Service\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "with Processes(Service(pickle.dumps(Scripted()), folder, home=folder), 1) as executor:\n"
        "    executor.start('sleep:600')\n"
        "    print(executor.workers[0].process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(1)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_start_waits_for_processes_and_forgets_those_of_a_cluster_that_have_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "WAIT_S", 0.1)
    (tmp_path / "one.session").touch()
    with Processes(service(tmp_path), 1) as executor:
        executor.start("sleep:600")
        while not [path for path in tmp_path.iterdir() if path.suffix != ".session"]:  # it holds its lock
            executor.ended(0.1)
        with pytest.raises(OutputError, match="a process of an earlier start is still at work"):
            wait_for_workers(tmp_path, tmp_path / "out")
    assert not (tmp_path / "one.session").exists()
    wait_for_workers(tmp_path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["host:8786", "tcp://ann:secret@host:1", "loky"])
def test_what_is_no_address_of_a_scheduler_is_refused_without_being_shown(address: str) -> None:
    with pytest.raises(JobError, match=r"--executor is no address") as refused:
        checked(address)
    assert "secret" not in str(refused.value)


PLAIN = {"independent": {"n_bins": 8}, "coarse": {"generator": "independent", "n_bins": 4}}
SWEPT = {"independent": {"epsilon": [0.5, 2], "n_bins": 8}}
QUICK = {"measures": ["validity"]}

two_cores = pytest.mark.skipif(cores() < 2, reason="one core makes one candidate at a time")


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


@two_cores
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


@two_cores
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

"""Processes that do work by its name: what a death costs, and what is left when whoever started them is gone."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from synth.errors import JobError, OutputError
from tests.understudy.working import Scripted
from understudy.executors import executor as executors
from understudy.executors import processes
from understudy.executors.executor import Ended, Service, checked, wait_for_workers
from understudy.executors.processes import Processes


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
    monkeypatch.setattr(processes, "cores", lambda: 8)
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
        "import pathlib, time\n"
        "from tests.understudy.test_executors import Processes, service\n"
        f"with Processes(service(pathlib.Path({str(tmp_path)!r})), 1) as executor:\n"
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

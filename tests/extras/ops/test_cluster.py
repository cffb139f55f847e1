"""Candidates and jobs on a real Dask cluster, paid from a real PostgreSQL: a worker that dies, and what it costs."""

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth.dp.accounting import rdp_curve
from synth.dp.events import GaussianEvent
from synth.dp.ledger import Ledger, open_ledger
from tests.synth.postgres import PASSWORD, Server
from tests.synth.postgres import server as server
from understudy.extras.ops import cluster

distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")

pytestmark = pytest.mark.filterwarnings("default")  # those of Dask are its own

# What every Python of the cluster does first: it notes each draw, whoever dies after it.
SITE = """
import os
if os.environ.get("UNDERSTUDY_TEST_DRAWS"):
    from synth.dp.mechanisms import SystemNoise
    drawn = SystemNoise.gaussian
    def gaussian(noise, values, scale):
        answer = drawn(noise, values, scale)
        with open(os.environ["UNDERSTUDY_TEST_DRAWS"], "ab", buffering=0) as log:
            log.write(f"{float(scale)}\\n".encode())
        return answer
    SystemNoise.gaussian = gaussian
"""


@dataclass(frozen=True)
class Dask:
    address: str
    draws: Path
    client: Any

    @property
    def pids(self) -> dict[str, int]:
        numbers: dict[str, int] = self.client.run(os.getpid)
        return numbers


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    folder = tmp_path_factory.mktemp("dask")
    (folder / "sitecustomize.py").write_text(SITE)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[3]}")
        patch.delenv("UNDERSTUDY_LEDGER", raising=False)
        theirs = {"UNDERSTUDY_TEST_DRAWS": str(folder / "draws.log"), "PGPASSWORD": PASSWORD,
                  "UNDERSTUDY_KEY_FILE": str(folder / "fingerprint.key")}  # fmt: skip
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(folder),
                silence_logs=50, env=theirs,
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):  # fmt: skip
            yield Dask(cluster.scheduler_address, folder / "draws.log", client)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def sweep(workspace: Any, url: str) -> None:
    workspace.write_schema(dataset="patients")
    swept = {"independent": {"epsilon": [0.5, 2], "n_bins": 8}}
    workspace.write_job(ledger={"url": url}, evaluation={"measures": ["validity"]}, generators=swept)


def run(workspace: Any, *arguments: object, out: str = "out") -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / out, *arguments)


def assert_paid(ledger: Ledger, draws: Path) -> None:
    """The ledger holds at least what all draws together cost."""
    (holding,) = ledger.holdings()
    scales = [float(line) for line in draws.read_text().splitlines()]
    cost = rdp_curve([GaussianEvent("a draw", sigma=scale) for scale in scales]).divergences
    assert all(paid >= least * (1 - 1e-9) for paid, least in zip(holding.curve.divergences, cost, strict=True))


@pytest.mark.slow  # two runs of two candidates, each in a process that imports the package
def test_a_killed_worker_takes_its_candidate_only_and_nothing_is_drawn_twice(
    workspace: Any, dask: Dask, server: Server
) -> None:
    url = server.url(server.create())
    book = open_ledger(url)
    book.open("patients", unit="row", epsilon=10.0, n_units=900)
    sweep(workspace, url.replace(f":{PASSWORD}", ""))

    def kill() -> None:
        while not dask.draws.exists():
            time.sleep(0.005)
        busy = {k: v for k, v in dask.client.processing().items() if v}
        os.kill(dask.pids[next(iter(busy))], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    ran = run(workspace, "--executor", dask.address)
    killer.join()
    assert ran.exit_code == 2, ran.stderr
    assert "1 of 2 candidates were lost, and the others are finished: independent" in ran.stderr
    kept = tables(workspace.folder / ".out.unfinished" / "result")
    assert len(kept) == 1
    assert_paid(book, dask.draws)
    again = run(workspace, "--executor", dask.address)
    assert again.exit_code == 0, again.stderr
    assert again.stderr.count(": done; ") == 1
    assert kept.items() <= tables(workspace.folder / "out").items()
    assert_paid(book, dask.draws)
    (holding,) = book.holdings()
    assert book.verify() == ()
    assert 2 <= holding.n_releases <= 3  # what was in use and left no value is spent, and another one was made
    assert [entry.kind for entry in book.history()].count("committed") == 2


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "synthetic").glob("*.csv")}


def test_models_and_evaluations_are_the_same_here_and_on_a_cluster(workspace: Any, dask: Dask) -> None:
    asked = {"measures": ["validity", "fidelity.columns"]}
    workspace.write_job(generators={"independent": {"n_bins": 8}}, evaluation=asked, seed=2, release="independent")
    here, there = (run(workspace, *way, out=out) for out, way in (("a", ()), ("b", ("--executor", dask.address))))
    assert here.exit_code == there.exit_code in {0, 1, 3}
    first, second = (workspace.folder / name for name in "ab")
    assert timeless(first) == timeless(second)
    assert tables(first) == tables(second)


def timeless(out: Path) -> str:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            left = {"seconds", "evaluated_at", "run_id", "attempts"}
            return {key: stripped(part) for key, part in value.items() if key not in left}
        return [stripped(part) for part in value] if isinstance(value, list) else value

    return json.dumps(stripped(json.loads((out / "evaluation.json").read_text())))


def _ledger_in_a_file(workspace: Any, _: pytest.MonkeyPatch) -> None:
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=10.0, n_units=900)
    sweep(workspace, "ledger.db")


def _other_version(_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = cluster._versions()
    monkeypatch.setattr(cluster, "_versions", lambda: {**seen, "numpy": "0.1"})


REFUSED: dict[str, tuple[Callable[[Any, pytest.MonkeyPatch], object], str]] = {
    "a ledger in a file": (_ledger_in_a_file, "a ledger in PostgreSQL"),
    "a scheduler that does not answer": (
        lambda _, patch: patch.setattr(cluster, "CONNECT_S", 1),
        "no Dask scheduler answers at --executor 'tcp://127.0.0.1:9'",
    ),
    "no Dask": (lambda _, patch: patch.setitem(sys.modules, "distributed", None), "extra `dask`"),
    "other versions": (_other_version, f"numpy {np.__version__} (here 0.1)"),
    "another fingerprint key": (lambda *_: None, "has another fingerprint key"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_cluster_that_cannot_serve_is_refused(
    workspace: Any, dask: Dask, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, words = REFUSED[case]
    change(workspace, monkeypatch)
    address = "tcp://127.0.0.1:9" if "answer" in case else dask.address
    out, command = workspace.folder / "out", "batch" if "key" in case else "run"
    ran = workspace.run(command, workspace.folder / "job.toml", "--out", out, "--executor", address)
    assert ran.exit_code == 2, ran.stderr
    assert words in ran.stderr
    assert not out.exists()
    assert not list(workspace.folder.glob(".*"))

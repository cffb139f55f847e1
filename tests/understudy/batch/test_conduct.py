"""Jobs of a batch harm no other, whatever befalls them: small scripts stand in for their command, in real processes."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from understudy.batch import run as conducting
from understudy.batch.jobs import listed
from understudy.batch.run import BatchResult, conduct
from understudy.cli import main
from understudy.console import Console
from understudy.executors import processes as workers

Settings = partial(conducting.Settings, command=main)

FINISH = (
    "import json, pathlib; out = pathlib.Path(OUT); out.mkdir();"
    "(out / 'evaluation.json').write_text('{\"candidates\": []}');"
    "(out / 'verdict.json').write_text(json.dumps({'verdict': 'PASS'}))"
)
SCRIPTS = {
    "good": FINISH,
    "segfault": "import ctypes; ctypes.string_at(0)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "broken": "raise RuntimeError('no')",
    "bad": "print('Error: the seed is no number.'); raise SystemExit(2)",
    "deaf": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "hangs": "import time; time.sleep(600)",
    "talks": "print('x' * 5_000_000);" + FINISH,
    "asks": "input()",
}  # fmt: skip


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the command a script by the job's name runs, in a process as any job's."""

    def script(channel: int, lifeline: int, log: Path, threads: dict[str, str], home: Path, apart: bool) -> Any:
        assert apart
        text = f"OUT = {str(log.with_suffix(''))!r}; {SCRIPTS[log.stem.partition('-')[0]]}"
        with log.open("wb") as words:
            return subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", text], stdin=subprocess.DEVNULL, stdout=words, stderr=words,
                start_new_session=True,
            )  # fmt: skip

    monkeypatch.setattr(workers, "started", script)
    monkeypatch.setattr(workers, "GRACE_S", 0.2)


Conduct = Callable[..., BatchResult]


@pytest.fixture
def run(jobs: Any, scripted: None) -> Conduct:
    def run(*names: str, **settings: Any) -> BatchResult:
        paths = [jobs.write(name, epsilon=None) for name in names]
        return conduct(listed(paths, jobs.out), Settings(jobs.out, **{"workers": 4, **settings}), Console(quiet=True))

    return run


def states(result: BatchResult) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in result.outcomes}


def test_no_job_harms_another_however_it_ends(run: Conduct, jobs: Any) -> None:
    result = run("segfault", "good-1", "killed", "broken", "bad", "asks", "talks", "good-2")
    assert states(result) == {
        "segfault": "killed by signal 11", "good-1": "PASS", "killed": "killed by signal 9", "broken": "internal error",
        "bad": "bad input", "asks": "internal error", "talks": "PASS", "good-2": "PASS",
    }  # fmt: skip
    assert result.exit_code == 4
    assert [outcome.error for outcome in result.outcomes if outcome.name == "bad"] == ["the seed is no number"]
    assert (jobs.out / "talks.log").stat().st_size > 5_000_000


def test_a_job_that_takes_too_long_is_ended_though_it_will_not_hear(run: Conduct) -> None:
    began = time.monotonic()
    result = run("deaf", "hangs", "good", timeout_s=0.5)
    assert states(result) == {"deaf": "timed out", "hangs": "timed out", "good": "PASS"}
    assert time.monotonic() - began < 20
    assert result.exit_code == 4


def test_no_job_is_begun_after_the_first_that_fails_where_that_is_asked(run: Conduct) -> None:
    result = run("good", "bad", "hangs", "good-2", workers=1, fail_fast=True)
    assert states(result) == {"good": "PASS", "bad": "bad input", "hangs": "not started", "good-2": "not started"}
    assert result.exit_code == 2


def test_a_job_that_cannot_run_is_told_first_and_the_others_run(run: Conduct, jobs: Any, capfd: Any) -> None:
    paths = [jobs.write("good", epsilon=None), jobs.folder / "gone.toml"]
    jobs.out.mkdir()
    (jobs.out / "gone.log").write_text("Error: of yesterday.\n")
    result = conduct(listed(paths, jobs.out), Settings(jobs.out), Console())
    assert states(result) == {"good": "PASS", "gone": "bad input"}
    assert not (jobs.out / "gone.log").exists()
    lines = capfd.readouterr().err.splitlines()
    assert "gone: bad input: the job cannot be read" in lines[0] and "good: PASS after" in lines[3]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_batch_that_is_told_to_end_ends_its_jobs_and_accounts_for_all(
    run: Conduct, jobs: Any, number: signal.Signals, code: int
) -> None:
    def ended(*_: Any) -> None:
        sys.exit(143)

    # Whoever starts the tests in the background of a shell has them ignore SIGINT.
    handlers = {signal.SIGTERM: ended, signal.SIGINT: signal.default_int_handler}
    earlier = {known: signal.signal(known, handler) for known, handler in handlers.items()}
    main = threading.main_thread().ident
    assert main is not None

    def tell() -> None:
        while not (jobs.out / "hangs.log").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        signal.pthread_kill(main, number)

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        result = run("good", "hangs", "good-2", workers=1)
    finally:
        teller.join()
        for known, handler in earlier.items():
            signal.signal(known, handler)
    assert states(result) == {"good": "PASS", "hangs": "interrupted", "good-2": "not started"}
    assert result.exit_code == code and result.cut is not None

"""Jobs of a batch harm no other, whatever befalls them: small scripts stand in for their command, in real processes."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from synth.errors import OutputError
from understudy.batch import run as conducting
from understudy.batch.jobs import listed
from understudy.batch.run import BatchResult, conduct
from understudy.cli import main
from understudy.console import Console
from understudy.executors import child
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
    "leaves": f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    f"open(OUT + '.pid', 'w').write(str(p.pid));{FINISH}",
    "threads": f"import os; open(OUT + '.env', 'w').write(os.environ['OMP_NUM_THREADS']);{FINISH}",
}  # fmt: skip


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the command a script by the job's name runs, in a process as any job's."""

    def script(channel: int, lifeline: int, log: Path, threads: dict[str, str], home: Path, apart: bool) -> Any:
        assert apart
        text = f"OUT = {str(log.with_suffix(''))!r}; {SCRIPTS[log.stem.partition('-')[0]]}"
        with log.open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", text],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, **threads},
                start_new_session=True,
            )

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
        "segfault": "killed by signal 11",
        "good-1": "PASS",
        "killed": "killed by signal 9",
        "broken": "internal error",
        "bad": "bad input",
        "asks": "internal error",  # nobody is there to be asked
        "talks": "PASS",
        "good-2": "PASS",
    }
    assert result.exit_code == 4
    assert [outcome.error for outcome in result.outcomes if outcome.name == "bad"] == ["the seed is no number"]
    assert (jobs.out / "talks.log").stat().st_size > 5_000_000


def test_a_job_that_takes_too_long_is_ended_though_it_will_not_hear(run: Conduct) -> None:
    began = time.monotonic()
    result = run("deaf", "hangs", "good", timeout_s=0.5)
    assert states(result) == {"deaf": "timed out", "hangs": "timed out", "good": "PASS"}
    assert time.monotonic() - began < 20
    assert result.exit_code == 4


def test_what_a_job_leaves_behind_ends_with_it(run: Conduct, jobs: Any) -> None:
    assert states(run("leaves")) == {"leaves": "PASS"}
    pid = int((jobs.out / "leaves.pid").read_text())
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process is there and no mere entry that nobody has waited for."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_cores_are_shared_out_between_jobs(run: Conduct, jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(workers, "cores", lambda: 8)
    run("threads", workers=4)
    assert (jobs.out / "threads.env").read_text() == "2"


def test_no_job_is_begun_after_the_first_that_fails_where_that_is_asked(run: Conduct) -> None:
    result = run("good", "bad", "hangs", "good-2", workers=1, fail_fast=True)
    assert states(result) == {"good": "PASS", "bad": "bad input", "hangs": "not started", "good-2": "not started"}
    assert result.exit_code == 2


def test_nothing_is_begun_after_bad_input_where_that_is_asked(run: Conduct, jobs: Any) -> None:
    paths = [jobs.folder / "gone.toml", jobs.write("good", epsilon=None)]
    result = conduct(listed(paths, jobs.out), Settings(jobs.out, fail_fast=True), Console(quiet=True))
    assert states(result) == {"gone": "bad input", "good": "not started"}
    assert result.exit_code == 2


def test_an_output_that_breaks_whoever_reads_it_ends_no_other_job(
    run: Conduct, jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert states(run("good-1")) == {"good-1": "PASS"}

    def broken(*_: Any) -> str:
        raise RecursionError

    monkeypatch.setattr("understudy.batch.run.read_content", broken)
    result = run("good-1", "good-2")
    assert states(result) == {"good-1": "internal error", "good-2": "PASS"}
    assert "RecursionError" in result.outcomes[0].error


def test_a_job_that_cannot_run_is_told_first_and_the_others_run(run: Conduct, jobs: Any, capfd: Any) -> None:
    paths = [jobs.write("good", epsilon=None), jobs.folder / "gone.toml"]
    jobs.out.mkdir()
    (jobs.out / "gone.log").write_text("Error: of yesterday.\n")
    result = conduct(listed(paths, jobs.out), Settings(jobs.out), Console())
    assert states(result) == {"good": "PASS", "gone": "bad input"}
    assert not (jobs.out / "gone.log").exists()
    lines = capfd.readouterr().err.splitlines()
    assert "gone: bad input: the job cannot be read" in lines[0]
    assert re.match(r"\[1/2\] \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ gone: bad input", lines[0])
    assert "good: begun" in lines[2]
    assert "good: PASS after" in lines[3]


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
    assert result.exit_code == code
    assert result.cut is not None


def test_many_jobs_leave_no_file_open(run: Conduct, jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(workers, "LOOK_EVERY_S", 0.005)
    monkeypatch.setattr("understudy.executors.executor.LOOK_EVERY_S", 0.005)
    monkeypatch.setitem(SCRIPTS, "quick", "raise SystemExit(2)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 24, hard))
    try:
        result = run(*(f"quick-{n}" for n in range(60)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.states == {"bad input": 60}
    assert not list((jobs.out / ".batch" / "locks").iterdir())


def test_a_job_that_the_system_does_not_let_begin_stops_no_other(run: Conduct, monkeypatch: pytest.MonkeyPatch) -> None:
    original, n = workers.started, iter(range(9))

    def once_refused(*arguments: Any) -> Any:
        if next(n) == 0:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return original(*arguments)

    monkeypatch.setattr(workers, "started", once_refused)
    result = run("good-1", "good-2")
    assert states(result) == {"good-1": "internal error", "good-2": "PASS"}
    assert "did not let it begin: Resource temporarily unavailable" in result.outcomes[0].error


def test_a_job_whose_log_is_a_folder_is_told(run: Conduct, jobs: Any) -> None:
    (jobs.out / "good.log").mkdir(parents=True)
    assert "Is a directory" in run("good").outcomes[0].error


@pytest.fixture
def held(jobs: Any) -> Iterator[Path]:
    jobs.out.mkdir()
    with conducting._alone(jobs.out):
        yield jobs.out


def test_another_batch_at_work_on_the_folder_is_in_the_way(run: Conduct, held: Path) -> None:
    with pytest.raises(OutputError, match="another batch is at work"):
        run("good")
    assert not (held / "good").exists()


@pytest.mark.parametrize("kind", ["file", "nowhere"])
def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(run: Conduct, jobs: Any, kind: str) -> None:
    if kind == "file":
        jobs.out.write_text("")
    folder = jobs.out if kind == "file" else jobs.folder / "not there" / "all"
    with pytest.raises(OutputError, match="cannot be written"):
        conduct(listed([jobs.write("good")], folder), Settings(folder), Console(quiet=True))


def test_a_start_waits_for_the_jobs_of_one_that_was_killed(
    run: Conduct, jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.executors.executor.WAIT_S", 0.1)
    assert states(run("good")) == {"good": "PASS"}
    hand = jobs.out / ".batch" / "locks" / "0"
    script = "import sys, filelock\nwith filelock.FileLock(sys.argv[1]):\n print('held', flush=True)\n sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script, hand], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(OutputError, match="a process of an earlier start is still at work"):
        run("good")
    process.stdin.close()
    process.wait()
    process.stdout.close()
    assert len(run("good").outcomes) == 1
    assert not hand.exists()


def test_a_job_without_its_batch_does_not_begin(tmp_path: Path) -> None:
    """Its lifeline has ended before it looked."""
    ours, theirs = Pipe()
    ours.send((sys.path, str(tmp_path / "lock"), None, True))
    ours.send(b"no pickle")
    command = [sys.executable, "-P", child.__file__, str(theirs.fileno())]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, pass_fds=[theirs.fileno()]
    )
    ours.close()
    theirs.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_the_states_of_a_batch_are_plain_data(run: Conduct) -> None:
    result = run("good", "bad")
    assert json.loads(json.dumps(result.states)) == {"PASS": 1, "bad input": 1}

"""Batches of jobs: what is listed, conducted and summed up, and what a second start takes for finished."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from synth.dp.ledger import open_ledger
from synth.errors import JobError
from tests.understudy.conftest import Workspace
from understudy import executor as workers
from understudy.batch import run as conducting
from understudy.batch.jobs import JobOutcome, content_of, exit_code, listed, outcome_of, uncounted, write_summary
from understudy.batch.run import BatchResult, _rests_on_expired_waiver, conduct
from understudy.bundle.signing import make_keys
from understudy.cli import main
from understudy.console import Console
from understudy.executor import Ended


@dataclass(frozen=True)
class Jobs:
    """Jobs in a folder, and what became of them."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "all"

    def write(self, name: str, epsilon: float | None = 0.5, **changes: Any) -> Path:
        """One small job; with an epsilon it is paid for by the folder's ledger."""
        private = {} if epsilon is None else {"ledger": {"url": "ledger.db"}}
        generators = {"independent": {} if epsilon is None else {"epsilon": epsilon}}
        content = {"generators": generators, "evaluation": {"measures": ["validity"]}, **private, **changes}
        return Workspace(self.folder).write_job(**content).rename(self.folder / f"{name}.toml")

    @property
    def states(self) -> dict[str, str]:
        content = json.loads((self.out / "summary.json").read_text())
        return {job["job"]: job["state"] for job in content["jobs"]}


@pytest.fixture
def jobs(workspace: Any) -> Jobs:
    (workspace.folder / "job.toml").unlink()
    workspace.write_schema(dataset="patients")
    open_ledger(workspace.folder / "ledger.db").open("patients", unit="row", epsilon=30.0, n_units=900)
    return Jobs(workspace.folder)


def names(paths: list[Path]) -> list[str]:
    return [job.name for job in listed(paths, Path("all"))]


def test_no_output_takes_the_place_of_another_of_a_log_or_of_the_summary(jobs: Any) -> None:
    (jobs.folder / "more").mkdir()
    other = jobs.folder / "more" / "SAME.toml"
    other.write_bytes(jobs.write("same").read_bytes())
    for paths in (
        [jobs.folder / "same.toml", other], [jobs.write("Summary.CSV")], [jobs.write(name) for name in ("x", "X.LOG")],
    ):  # fmt: skip
        with pytest.raises(JobError, match="would write"):
            names(paths)


@pytest.mark.parametrize("name", [".hidden", "-rf", "a\x1b[31m", "n" * 101, "\udcff"])
def test_a_name_that_cannot_name_a_folder_is_refused_in_one_sentence(jobs: Any, name: str) -> None:
    path = jobs.folder / f"{name}.toml"
    path.write_text("")
    with pytest.raises(JobError, match="a job's file names its output") as refused:
        names([path])
    assert str(refused.value).isprintable()


def test_a_pattern_that_matched_nothing_is_refused(jobs: Any) -> None:
    with pytest.raises(JobError, match=r"no job file is called so: path='.*\*\.toml'; name files that are there"):
        names([jobs.folder / "jobs" / "*.toml"])


def test_every_job_is_checked_with_what_it_names_before_any_is_begun(jobs: Any) -> None:
    """Where its table is, and what a ledger still admits, may change until its turn comes."""
    paths = [
        jobs.write("good"),
        jobs.write("typo", generators={"independent": {"epsilom": 1}}),
        jobs.write("rules", policy="no such policy"),
        jobs.write("columns", table={"path": "table.csv", "schema": "gone.toml"}),
        jobs.write("measure", evaluation={"measures": ["valdity"]}),
        jobs.write("later", table={"path": "later.csv", "schema": "schema.toml"}),
    ]
    faults = {job.name: job.fault for job in listed(paths, jobs.out)}
    assert [name for name, fault in faults.items() if not fault] == ["good", "later"]
    text = {"typo": "epsilom", "rules": "no such policy", "columns": "gone.toml", "measure": "valdity"}
    assert [name for name, part in text.items() if part not in faults[name]] == []


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


STATES: list[tuple[list[str], int]] = [
    (["PASS", "no verdict"], 0), (["PASS", "INCONCLUSIVE"], 3), (["INCONCLUSIVE", "FAIL", "PASS"], 1),
    (["FAIL", "bad input", "INCONCLUSIVE"], 2), (["FAIL", "bad input", "timed out"], 4), (["FAIL", "not started"], 1),
    *((["PASS", state], 4) for state in ("killed by signal 9", "internal error", "interrupted", "not started", "odd")),
]  # fmt: skip


def test_the_worst_job_is_the_batch_and_no_answer_is_worse_than_any() -> None:
    for states, code in STATES:
        assert exit_code([JobOutcome(str(n), state) for n, state in enumerate(states)]) == code, states


def ended(jobs: Any, status: int, *, log: str | bytes = "", stopped: str = "") -> JobOutcome:
    (job,) = listed([jobs.write("one")], jobs.out)
    jobs.out.mkdir(exist_ok=True)
    job.log.write_bytes(log.encode() if isinstance(log, str) else log)
    return outcome_of(job, Ended(job.name, "", status, 1.5, stopped))


ENDS = [
    (-9, "", "killed by signal 9", "as a system does that runs out of memory"),
    (-11, "", "killed by signal 11", "Segmentation fault"), (143, "", "killed by signal 15", "Terminated"),
    (-15, "timed out", "timed out", "--timeout-s"), (143, "interrupted", "interrupted", "the same command goes on"),
    (2, "", "bad input", "its log does not say why"), (77, "", "internal error", "exit code 77"),
    *((status, "", "internal error", "without an output that agrees") for status in (0, 1)),
]  # fmt: skip


def test_how_a_process_ended_says_what_its_job_came_to(jobs: Any) -> None:
    for status, stopped, state, clause in ENDS:
        result = ended(jobs, status, stopped=stopped)
        assert (result.state, clause in result.error, result.out) == (state, True, None)
        assert result.exit_code != 0


def test_a_verdict_that_cannot_be_read_is_no_pass(jobs: Any) -> None:
    place(jobs, verdict="PASS")
    assert ended(jobs, 1).state == "internal error"  # it disagrees with the exit code
    for content in ("", "{", '{"verdict": "pass"}', '{"verdict": []}', "{}", "\udc00"):
        (jobs.out / "one" / "verdict.json").write_text(content, errors="surrogatepass")
        assert ended(jobs, 0).exit_code == 4


def place(jobs: Any, *, verdict: str | None, **provenance: Any) -> None:
    (jobs.out / "one").mkdir(parents=True, exist_ok=True)
    statements = [{"epsilon": 0.5}, None, {"epsilon": 0.25}]
    evaluation = {"provenance": provenance, "candidates": [{"statement": stated} for stated in statements]}
    (jobs.out / "one" / "evaluation.json").write_text(json.dumps(evaluation))
    (jobs.out / "one" / "verdict.json").write_text(json.dumps({"verdict": verdict}))


def test_the_epsilon_of_a_job_is_that_of_all_that_it_drew(jobs: Any) -> None:
    """As its run composed it; where that composed nothing, the published numbers are added, too."""
    together = {"composed": {"epsilon": 0.7, "delta": 1e-6, "n_fits": 3}, "sweep": {"composed": {"epsilon": 0.6}}}
    numbers = {"released_numbers": {"statement": {"epsilon": 0.1}}}
    for provenance, epsilon in (({}, 0.75), (together, 0.7), (numbers, 0.85), ({**numbers, **together}, 0.7)):
        place(jobs, verdict=None, **provenance)
        result = ended(jobs, 0)
        assert (result.state, result.epsilon) == ("no verdict", pytest.approx(epsilon))


def test_the_last_error_of_a_long_and_hostile_log_is_one_printable_sentence(jobs: Any) -> None:
    begin = b"Error: too early.\n" + b"x" * 3_000_000
    hostile = begin + b"\n\xff\xfe\nError: \x1b[2Jbad \xff input" + b"y" * 9_000 + b".\n"
    error = ended(jobs, 2, log=hostile).error
    assert "bad" in error and "too early" not in error and error.isprintable() and len(error) <= 500


def test_the_summary_holds_every_job_and_no_formula(tmp_path: Path) -> None:
    outcomes = [
        JobOutcome("=cmd|' /C calc'!A0", "PASS", epsilon=0.5, seconds=1.0, out=tmp_path / "x"),
        JobOutcome("@sum", "bad input", error="-1, \"quoted\" and\ttabs; is no seed"),
        JobOutcome("+1", "killed by signal 9", exit_status=-9),
    ]  # fmt: skip
    content = content_of(outcomes, 4, "2026-01-02T03:04:05Z")
    write_summary(content, tmp_path)
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["job", "'=cmd|' /C calc'!A0", "'@sum", "'+1"]
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@", "\t"))]
    read = json.loads((tmp_path / "summary.json").read_text())
    assert [job["exit_code"] for job in read["jobs"]] == [0, 2, 4]


def start(workspace: Any, jobs: Any, *arguments: object) -> Any:
    names = [path for path in sorted(jobs.folder.glob("*.toml")) if path.name not in ("schema.toml", "policy.toml")]
    return workspace.run("batch", *names, "--out", jobs.out, *arguments)


def test_a_second_start_neither_makes_nor_pays_again_nor_signs_what_is_finished(workspace: Any, jobs: Any) -> None:
    """One real batch, and what may have changed before the next start of it."""
    jobs.write("one", policy="policy.toml")
    (jobs.folder / "policy.toml").write_text(POLICY)
    (jobs.folder / "bad.toml").write_text("seed = 1")
    signer = make_keys(jobs.folder / "a.key", {})
    make_keys(jobs.folder / "b.key", {})
    first = start(workspace, jobs, "--workers", 2, "--json", "--sign-key", jobs.folder / "a.key")
    assert first.exit_code == first.json["exit_code"] == 2
    assert jobs.states == {"bad": "bad input", "one": "no verdict"}
    (jobs.folder / "bad.toml").unlink()
    second = start(workspace, jobs, "--json", "--sign-key", jobs.folder / "b.key")
    assert second.exit_code == 0 and json.loads((jobs.out / "summary.json").read_text()) == second.json
    assert "finished earlier, and not signed by the key of --sign-key: one." in second.stderr
    signed = [(job["job"], job["finished_earlier"], job["signed_by"]) for job in second.json["jobs"]]
    assert signed == [("one", True, signer.fingerprint)]
    before = content(jobs)
    for change, what in (("one.toml", "job"), ("policy.toml", "policy"), ("table.csv", "table")):
        path = jobs.folder / change
        kept = (path.read_bytes(), path.stat())
        path.write_bytes(kept[0] + b"\n")
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))  # as a copy that keeps times would
        third = start(workspace, jobs)
        assert third.exit_code == 2 and f"made from another {what};" in third.stderr
        path.write_bytes(kept[0])
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))
    table = jobs.out / "one" / "synthetic" / "independent.csv"
    kept_rows = table.read_bytes()
    table.write_bytes(kept_rows.replace(b"North", b"South", 1))
    assert "and cannot be relied upon: synthetic/independent.csv" in start(workspace, jobs).stderr
    table.write_bytes(kept_rows)
    (jobs.out / "one" / "manifest.json").unlink()
    assert "no run left it so" in start(workspace, jobs).stderr
    assert {name: text for name, text in before.items() if not name.endswith("manifest.json")} == content(jobs)
    (holding,) = open_ledger(jobs.folder / "ledger.db").holdings()
    assert holding.n_releases == 1


@pytest.mark.parametrize(("until", "speaks_against"), [("2000-01-01", True), ("9999-12-31", False)])
def test_a_verdict_that_rests_on_an_expired_waiver_is_not_passed_on(until: str, speaks_against: bool) -> None:
    waived = {"waived": True, "waiver": {"until": until}}
    kept_rows = {"waived": False, "waiver": None}
    verdict = {"release": "a", "candidates": [{"candidate": "a", "findings": [kept_rows, waived]}]}
    assert _rests_on_expired_waiver(verdict) == speaks_against
    assert not _rests_on_expired_waiver({**verdict, "release": "b"})
    assert _rests_on_expired_waiver({"candidates": 3})


def content(jobs: Any) -> dict[str, bytes]:
    result = (path for path in (jobs.out / "one").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in result}


POLICY = """
name = "own"
version = 1
audience = "whoever tests"

[[rules]]
measure = "privacy.multiset"
limit = 0.05
why = "No copy of the table."
"""


def test_private_releases_of_one_dataset_outside_a_ledger_are_added_up(jobs: Any) -> None:
    paths = [jobs.write("one", epsilon=0.5), jobs.write("none", epsilon=None)]
    for name, epsilon in (("two", 0.5), ("three", 1.0)):
        path = jobs.write(name, epsilon=epsilon)
        path.write_text(path.read_text().replace('[ledger]\nurl = "ledger.db"\n', ""))
        paths.append(path)
    (warning,) = uncounted(listed(paths, jobs.out))
    assert "2 jobs make private releases of dataset 'patients' outside a ledger" in warning
    assert "two, three come to epsilon=1.5 together by basic composition" in warning

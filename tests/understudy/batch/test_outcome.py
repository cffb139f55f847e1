"""A job's outcome never looks better than it is."""

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from understudy.batch.jobs import listed
from understudy.batch.result import JobOutcome, exit_code, outcome_of, reason_of
from understudy.batch.summary import content_of, write_summary
from understudy.executors.executor import Ended

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
    content = content_of(outcomes, 4, datetime.now().astimezone())
    write_summary(content, tmp_path)
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["job", "'=cmd|' /C calc'!A0", "'@sum", "'+1"]
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@", "\t"))]
    read = json.loads((tmp_path / "summary.json").read_text())
    assert [job["exit_code"] for job in read["jobs"]] == [0, 2, 4]


def finding(measure: str, outcome: str, *, severity: str = "fail", waived: bool = False) -> dict[str, Any]:
    rule = {"measure": measure, "limit": 0.1, "why": "So.", "severity": severity, "subject": []}
    return {"rule": rule, "outcome": outcome, "reason": f"Of {measure}.", "waived": waived}


def judged(outcome: str, *findings: dict[str, Any], checks: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    other = {"candidate": "b", "findings": [finding("other", "FAIL")], "checks": []}
    released = {"candidate": "a", "findings": list(findings), "checks": list(checks)}
    return {"verdict": outcome, "release": "a", "candidates": [other, released]}


def test_the_reason_of_a_verdict_is_the_first_rule_that_decides_it() -> None:
    """Not one that warns, that somebody answers for, or that is of another table."""
    passed_over = (finding("w", "FAIL", severity="warn"), finding("x", "FAIL", waived=True))
    result = (*passed_over, finding("y", "INCONCLUSIVE"), finding("z", "FAIL"))
    assert reason_of(judged("FAIL", *result)) == "z FAIL: Of z"
    assert reason_of(judged("FAIL", *result, finding("q", "FAIL"))) == "z FAIL: Of z (and 1 more)"
    assert reason_of(judged("INCONCLUSIVE", *result[:3])) == "y INCONCLUSIVE: Of y"
    check = {"case": "a copy of train", "outcome": "did not come out", "reason": "It passed."}
    text = reason_of(judged("INCONCLUSIVE", *passed_over, checks=[check]))
    assert text == "self-test a copy of train did not come out, so nothing passes: It passed"
    assert "no rule of the policy counts" in reason_of(judged("INCONCLUSIVE", *passed_over))
    assert reason_of(judged("PASS", *result)) == reason_of({"verdict": "FAIL"}) == ""

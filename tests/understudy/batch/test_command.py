"""`understudy batch` from start to end, and what a second start takes for finished."""

import json
import os
from typing import Any

import pytest

from understudy.batch.earlier import _rests_on_expired_waiver


def start(workspace: Any, jobs: Any, *arguments: object) -> Any:
    names = [path for path in sorted(jobs.folder.glob("*.toml")) if path.name not in ("schema.toml", "policy.toml")]
    return workspace.run("batch", *names, "--out", jobs.out, *arguments)


def test_a_second_start_leaves_alone_what_is_finished_and_nothing_else(workspace: Any, jobs: Any) -> None:
    """One real batch, and what may have changed before the next start of it."""
    jobs.write("one", epsilon=None, policy="policy.toml")
    (jobs.folder / "policy.toml").write_text(POLICY)
    (jobs.folder / "bad.toml").write_text("seed = 1")
    first = start(workspace, jobs, "--workers", 2, "--json")
    assert first.exit_code == first.json["exit_code"] == 2
    assert jobs.states == {"bad": "bad input", "one": "no verdict"}
    (jobs.folder / "bad.toml").unlink()
    second = start(workspace, jobs, "--json")
    assert second.exit_code == 0
    (job,) = second.json["jobs"]
    assert job["finished_earlier"]
    assert json.loads((jobs.out / "summary.json").read_text()) == second.json
    before = content(jobs)
    for change in ("one.toml", "schema.toml", "policy.toml", "table.csv"):
        path = jobs.folder / change
        kept = (path.read_bytes(), path.stat())
        path.write_bytes(kept[0] + b"\n")
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))  # as a copy that keeps times would
        third = start(workspace, jobs)
        assert third.exit_code == 2, change
        what = {"one.toml": "job", "table.csv": "table"}.get(change, path.stem)
        assert f"made from another {what};" in third.stderr
        path.write_bytes(kept[0])
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))
    assert start(workspace, jobs, "--quiet").exit_code == 0
    found = (jobs.folder / "table.csv").stat()
    times = (found.st_atime_ns, found.st_mtime_ns)
    os.utime(jobs.folder / "table.csv", ns=(0, 0))  # a clock that was set back
    assert "made from another table;" in start(workspace, jobs).stderr
    os.utime(jobs.folder / "table.csv", ns=times)
    table = jobs.out / "one" / "synthetic" / "independent.csv"
    kept_rows = table.read_bytes()
    table.write_bytes(kept_rows.replace(b"North", b"South", 1))
    assert "and cannot be relied upon: synthetic/independent.csv" in start(workspace, jobs).stderr
    table.write_bytes(kept_rows)
    (jobs.out / "one" / "report.html").unlink()
    assert "and cannot be relied upon: report.html" in start(workspace, jobs).stderr
    (jobs.out / "one" / "report.html").write_bytes(before[str(jobs.out / "one" / "report.html")])
    (jobs.out / "one" / "manifest.json").unlink()
    assert "no run left it so" in start(workspace, jobs).stderr
    assert {name: text for name, text in before.items() if not name.endswith("manifest.json")} == content(jobs)


@pytest.mark.parametrize(("until", "speaks_against"), [("2000-01-01", True), ("9999-12-31", False)])
def test_a_verdict_that_rests_on_an_expired_waiver_is_not_passed_on(until: str, speaks_against: bool) -> None:
    waived = {"waived": True, "waiver": {"until": until}}
    held = {"waived": False, "waiver": None}
    verdict = {"release": "a", "candidates": [{"candidate": "a", "findings": [held, waived]}]}
    assert _rests_on_expired_waiver(verdict) == speaks_against
    assert not _rests_on_expired_waiver({**verdict, "release": "b"})
    assert _rests_on_expired_waiver({"candidates": 3})


def content(jobs: Any) -> dict[str, bytes]:
    found = (path for path in (jobs.out / "one").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}


POLICY = """
name = "own"
version = 1
audience = "whoever tests"

[[rules]]
measure = "privacy.multiset"
limit = 0.05
why = "No copy of the table."
"""


def test_a_folder_that_is_no_run_s_output_is_left_as_it_is(workspace: Any, jobs: Any) -> None:
    jobs.write("one")
    (jobs.out / "one").mkdir(parents=True)
    (jobs.out / "one" / "mine.txt").write_text("mine")
    (jobs.out / "one" / "evaluation.json").write_text("[1]")
    ran = start(workspace, jobs)
    assert ran.exit_code == 2
    assert "an output folder must be new" in ran.stderr
    assert sorted(path.name for path in (jobs.out / "one").iterdir()) == ["evaluation.json", "mine.txt"]


def test_a_pattern_that_matches_nothing_is_one_sentence_and_leaves_nothing(workspace: Any, jobs: Any) -> None:
    ran = workspace.run("batch", jobs.folder / "jobs" / "*.toml", "--out", jobs.out)
    assert ran.exit_code == 2
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("Error: no job file is called so")
    assert not jobs.out.exists()


@pytest.mark.parametrize("option", [("--workers", 0), ("--timeout-s", 0), ("--timeout-s", "soon")])
def test_an_option_out_of_range_is_refused(workspace: Any, jobs: Any, option: tuple[object, ...]) -> None:
    jobs.write("one")
    assert start(workspace, jobs, *option).exit_code == 2
    assert not jobs.out.exists()

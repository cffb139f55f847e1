"""The jobs of a batch are named after their files, and none may write where another does."""

import os
from pathlib import Path
from typing import Any

import pytest

from synth.errors import JobError
from understudy.batch.jobs import listed


def names(paths: list[Path]) -> list[str]:
    return [job.name for job in listed(paths, Path("all"))]


def test_jobs_of_one_name_are_refused_upper_case_or_not(jobs: Any) -> None:
    (jobs.folder / "more").mkdir()
    first, second = jobs.write("same"), jobs.folder / "more" / "SAME.toml"
    second.write_bytes(first.read_bytes())
    with pytest.raises(JobError, match="would write 'same'"):
        names([first, second])


@pytest.mark.parametrize("pair", [("a", "a.log"), ("summary.json",), ("Summary.CSV",), ("x", "X.LOG")])
def test_no_output_takes_the_place_of_a_log_or_of_the_summary(jobs: Any, pair: tuple[str, ...]) -> None:
    with pytest.raises(JobError, match="would write"):
        names([jobs.write(name) for name in pair])


@pytest.mark.parametrize("name", [".hidden", "-rf", "a\nb", "a\x1b[31m", "n" * 101, " a", "a ", "\udcff"])
def test_a_name_that_cannot_name_a_folder_is_refused_in_one_sentence(jobs: Any, name: str) -> None:
    path = jobs.folder / f"{name}.toml"
    path.write_text("")
    with pytest.raises(JobError, match="a job's file names its output") as refused:
        names([path])
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    str(refused.value).encode()


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
    said = {"typo": "epsilom", "rules": "no such policy", "columns": "gone.toml", "measure": "valdity"}
    assert [name for name, part in said.items() if part not in faults[name]] == []


def test_a_job_that_cannot_be_used_is_listed_with_its_fault(jobs: Any) -> None:
    (jobs.folder / "bad.toml").write_text("seed = 'x'")
    (jobs.folder / "folder.toml").mkdir()
    os.mkfifo(jobs.folder / "pipe.toml")
    found = {
        job.name: job.fault
        for job in listed([jobs.folder / f"{n}.toml" for n in ("bad", "gone", "folder", "pipe")], jobs.out)
    }
    assert "seed='x'" in found["bad"]
    assert "there is no job" in found["gone"]
    assert found["folder"]
    assert found["pipe"]

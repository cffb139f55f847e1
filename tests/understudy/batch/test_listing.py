"""The jobs of a batch are named after their files, and none may write where another does."""

from pathlib import Path
from typing import Any

import pytest

from synth.errors import JobError
from understudy.batch.jobs import listed


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

"""Batches that are killed, with their jobs or without, and started again until everything is done."""

from typing import Any

import numpy as np
import pytest

from tests.understudy.driving import assert_paid, draws

NAMES = ["a", "b"]
N_DRAWS = 4
"""Of the small table's fit by `independent`: a count for each column."""


def written(jobs: Any) -> list[str]:
    return [jobs.write(name).name for name in NAMES]


def test_jobs_side_by_side_pay_from_one_ledger_exactly_what_they_draw(batches: Any, jobs: Any) -> None:
    assert batches.run(jobs, *written(jobs), "--workers", 2) == 0, (jobs.folder / "said.txt").read_text()
    jobs.assert_whole_or_absent(NAMES)
    assert jobs.states == dict.fromkeys(NAMES, "no verdict")
    assert len(draws(jobs.folder)) == len(NAMES) * N_DRAWS
    jobs.assert_paid_exactly()


def test_a_batch_that_is_killed_with_and_without_its_jobs_goes_on_and_pays_for_every_draw(
    batches: Any, jobs: Any
) -> None:
    names = written(jobs)
    killed_job = {"job": "a", "moment": "gaussian:after", "nth": 1, "kill": "job"}
    assert batches.run(jobs, *names, plan=killed_job) == 4
    assert jobs.states == {"a": "killed by signal 9", "b": "no verdict"}
    assert len(draws(jobs.folder)) == 2 + N_DRAWS
    assert_paid(jobs.folder)
    killed_batch = {"job": "a", "moment": "gaussian:after", "nth": 0, "kill": "batch"}
    assert batches.run(jobs, *names, plan=killed_batch) == -9
    assert not (jobs.out / "summary.json").exists()  # the earlier start's must not pass for this one's
    jobs.assert_whole_or_absent(NAMES)
    killed_both = {"job": "a", "moment": "commit:before", "nth": 0, "kill": "batch job"}
    assert batches.run(jobs, *names, plan=killed_both) == -9
    assert_paid(jobs.folder)
    assert batches.run(jobs, *names) == 0
    assert jobs.states == dict.fromkeys(NAMES, "no verdict")
    assert [job["finished_earlier"] for job in jobs.summary["jobs"]] == [False, True]
    jobs.assert_whole_or_absent(NAMES)
    assert_paid(jobs.folder)
    assert not list(jobs.out.glob(".*.unfinished"))


@pytest.mark.slow
def test_batches_that_are_killed_at_forty_moments_end_and_pay_for_every_draw(batches: Any, jobs: Any) -> None:
    rng, names, deaths = np.random.default_rng(8), written(jobs), 0
    while deaths < 40:
        plan = {
            "job": str(rng.choice(NAMES)), "moment": None, "nth": int(rng.integers(0, 90)),
            "kill": str(rng.choice(["job", "batch", "batch job"])),
        }  # fmt: skip
        status = batches.run(jobs, *names, "--workers", int(rng.integers(1, 4)), plan=plan)
        deaths += status in (-9, 4)
        assert status in (-9, 4, 0), (jobs.folder / "said.txt").read_text()
        jobs.assert_whole_or_absent(NAMES)
        assert_paid(jobs.folder)
        if status == 0:
            jobs.out.rename(jobs.folder / f"done{len(list(jobs.folder.glob('done*')))}")
    assert batches.run(jobs, *names) == 0
    assert jobs.states == dict.fromkeys(NAMES, "no verdict")
    jobs.assert_whole_or_absent(NAMES)
    assert_paid(jobs.folder)

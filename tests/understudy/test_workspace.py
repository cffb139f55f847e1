"""The unfinished work of a run, and names and sizes of what it delivers."""

import json
from pathlib import Path

import pytest

from evaluate.metrics import CLIPPED
from understudy.artifacts import file_name
from understudy.run.candidates import _clipped
from understudy.run.workspace import RunWorkspace


def test_a_run_that_is_taken_up_again_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    work = RunWorkspace(tmp_path / "work", tmp_path / "out")
    work.claim({"job": "a"})
    first = work.attempt
    again = RunWorkspace(tmp_path / "work", tmp_path / "out")
    again.claim({"job": "a"})
    assert again.attempt == first
    again.claim({"job": "b"})
    assert again.attempt != first


def test_clipped_units_are_read_from_the_unfinished_work_and_go_to_the_evaluation(tmp_path: Path) -> None:
    work = RunWorkspace(tmp_path, tmp_path / "out")
    assert work.clipped("net") is None
    work.expect_clipping("net")
    assert _clipped(work.clipped("net")) == ()
    lines = [{"step": 1, "clipped": 3, "units": 10}, {"step": 2, "clipped": 5, "units": 6}]
    (work.training("net") / "clipping.internal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert work.clipped("net") == (8, 16)
    (result,) = _clipped((8, 16))
    assert (result.measure, result.value, result.n, result.direction) == (CLIPPED, 0.5, 16, "none")


@pytest.mark.parametrize("name", ["../x", "", "x" * 65, ".hidden", "a\nb"])
def test_a_name_that_is_no_label_names_no_file(name: str) -> None:
    assert file_name(name, 3) == "table-3"

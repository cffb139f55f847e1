"""The unfinished work of a run, and names and sizes of what it delivers."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from evaluate.metrics import CLIPPED
from synth.errors import TableError
from understudy.artifacts import file_name, size_of
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
    again.claim({"table": "1"})
    again.claim({"table": "2"})  # of a start that was killed before it drew: all that this one claimed stays
    assert again.unfinished.state.items() >= {"job": "b", "table": "2"}.items()


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


def test_the_size_of_a_table_is_counted_in_every_format(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x\ny", "\u00e4,", '"']})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    (tmp_path / "odd.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert [size_of(tmp_path / name) for name in ("t.csv", "t.parquet", "t.csv.gz")] == [(3, 2)] * 3
    assert size_of(tmp_path / "odd.csv") == (None, None)
    with pytest.raises(TableError, match="the table is not there"):
        size_of(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 65, "..", ".hidden", "a\nb"])
def test_a_name_that_is_no_label_names_no_file(name: str) -> None:
    assert file_name(name, 3) == "table-3"

"""Outputs are whole or absent."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synth.errors import OutputError
from synth.output import Making, making, whole_file, whole_folder


def test_a_block_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), whole_file(tmp_path / "a.csv") as beside:
        beside.write_text("half")
        raise RuntimeError
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "b") as folder:
        (folder / "x").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), whole_file(target) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    with whole_file(target) as beside:
        beside.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(OutputError, match="must be new"), whole_folder(tmp_path / name):
            pass
    assert (tmp_path / "full" / "x").read_text() == "mine"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty") as folder:
        (folder / "x").write_text("there")
    assert (tmp_path / "empty" / "x").read_text() == "there"


def test_a_place_that_does_not_exist_or_is_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="create it first"), whole_file(tmp_path / "no" / "a.csv"):
        pass
    with pytest.raises(OutputError, match="is a folder"), whole_file(tmp_path):
        pass
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(OutputError, match="cannot be written"), whole_folder(closed / "out"):
        pass


CALL = {"command": "fit", "seed": 1}


def killed_at(moment: int, out: Path, *, is_file: bool) -> bool:
    """A process that makes an output and dies at a touch of the disk; whether it told of it before."""
    told_read, told_write = os.pipe()
    child = os.fork()
    if child == 0:
        numbers = itertools.count()

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **options: Any) -> Any:
                if next(numbers) == moment:
                    os._exit(9)
                return call(*arguments, **options)

            return called

        for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
            setattr(os, name, dying(getattr(os, name)))
        with making(out, CALL, is_file=is_file) as made:
            if made.told is None:
                make(made, is_file=is_file)
            os.write(told_write, b"told")
        os._exit(0)
    os.close(told_write)
    os.waitpid(child, 0)
    with os.fdopen(told_read, "rb") as said:
        return said.read() == b"told"


def make(made: Making, *, is_file: bool) -> None:
    with whole_file(made.place) if is_file else whole_folder(made.place) as beside:
        (beside if is_file else beside / "x").write_text("made")
    made.finish({"rows": 7})


@pytest.mark.statistical
@pytest.mark.parametrize("is_file", [True, False])
def test_killed_at_any_touch_of_the_disk_an_output_is_told_of_by_the_same_call(is_file: bool, tmp_path: Path) -> None:
    """Once it is there, it is made no second time; another call is refused, and changes nothing."""
    n_found = 0
    for moment in range(60):
        out = tmp_path / str(moment) / "out.csv"
        out.parent.mkdir()
        told = killed_at(moment, out, is_file=is_file)
        was_there = out.exists()
        if was_there:
            with pytest.raises(OutputError, match="must be new"), making(out, {**CALL, "seed": 2}, is_file=is_file):
                pass
        if told:  # nothing was left to do but to tidy up
            continue
        with making(out, CALL, is_file=is_file) as made:
            n_found += made.told is not None
            assert (made.told is not None) >= was_there
            if made.told is None:
                make(made, is_file=is_file)
            else:
                assert made.told == {"rows": 7}
        assert (out if is_file else out / "x").read_text() == "made"
        assert [path.name for path in out.parent.iterdir()] == ["out.csv"]
    assert n_found >= 2
    assert told


def test_an_output_has_one_maker_at_a_time(tmp_path: Path) -> None:
    with making(tmp_path / "out", CALL) as made:
        with pytest.raises(OutputError, match="another process is writing"), making(tmp_path / "out", CALL):
            pass
        make(made, is_file=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("is_file", [True, False])
def test_what_somebody_else_put_in_the_place_of_an_output_is_not_told_of(is_file: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    if not (child := os.fork()):
        with making(out, CALL, is_file=is_file) as made:
            make(made, is_file=is_file)
            os._exit(9)
    os.waitpid(child, 0)
    content = out if is_file else out / "x"
    content.unlink()
    content.write_text("else")
    with pytest.raises(OutputError, match="must be new"), making(out, CALL, is_file=is_file):
        pass
    assert content.read_text() == "else"

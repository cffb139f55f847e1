"""Outputs are whole or absent."""

import os
from pathlib import Path

import pytest

from synth.errors import OutputError
from synth.output import whole_file, whole_folder


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

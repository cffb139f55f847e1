"""Every evaluation of a real table is counted on this machine, once."""

import json
import multiprocessing
from pathlib import Path

import pytest

from understudy.attempts import FILE_VARIABLE, attempts_path, count_attempt


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "counts" / "attempts.jsonl"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


def counted(path: str, start: int) -> None:
    import os

    os.environ[FILE_VARIABLE] = path
    for number in range(start, start + 10):
        count_attempt("hmac-sha256:x", attempt=str(number), n_tables=1)


def test_each_evaluation_of_a_table_is_counted_with_its_tables(place: Path) -> None:
    count_attempt("hmac-sha256:x", attempt="1", n_tables=3)
    count_attempt("hmac-sha256:y", attempt="2", n_tables=1)
    found = count_attempt("hmac-sha256:x", attempt="3", n_tables=2)
    assert found is not None
    assert (found["evaluations"], found["tables"]) == (2, 5)


def test_an_attempt_that_is_resumed_counts_once(place: Path) -> None:
    first = count_attempt("hmac-sha256:x", attempt="1", n_tables=3)
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=3) == first


def test_it_stands_beside_the_key_of_fingerprints_unless_it_is_placed(tmp_path: Path) -> None:
    assert attempts_path({"UNDERSTUDY_KEY_FILE": str(tmp_path / "k")}) == tmp_path / "attempts.jsonl"
    assert attempts_path({FILE_VARIABLE: "there"}) == Path("there")


def test_only_its_owner_may_read_it(place: Path) -> None:
    count_attempt("hmac-sha256:x", attempt="1", n_tables=1)
    assert place.stat().st_mode & 0o077 == 0


def test_a_line_that_a_crash_cut_off_costs_only_itself(place: Path) -> None:
    count_attempt("hmac-sha256:x", attempt="1", n_tables=1)
    with place.open("ab") as file:
        file.write(b'{"table": "hmac-sha256:x", "att')
    found = count_attempt("hmac-sha256:x", attempt="2", n_tables=1)
    assert found is not None
    assert found["evaluations"] == 2
    assert json.loads(place.read_text().splitlines()[-1])["attempt"] == "2"


def test_where_it_cannot_be_written_nothing_is_counted_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "file" / "attempts.jsonl"))
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=1) is None


def test_processes_that_count_at_once_lose_none(place: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=counted, args=(str(place), start)) for start in (0, 10, 20)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = count_attempt("hmac-sha256:x", attempt="30", n_tables=1)
    assert found is not None
    assert found["evaluations"] == 31


def test_work_that_is_taken_up_again_is_the_same_attempt(tmp_path: Path) -> None:
    from understudy.work import Work

    folder, out = tmp_path / "work", tmp_path / "out"
    folder.mkdir()
    first = Work(folder, out).attempt
    assert Work(folder, out).attempt == first
    (tmp_path / "other").mkdir()
    assert Work(tmp_path / "other", out).attempt != first

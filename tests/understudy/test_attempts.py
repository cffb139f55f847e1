"""Every evaluation of a real table is counted on this machine, once."""

from pathlib import Path
from typing import Any

import pytest

from synth.schema import Schema, build_schema
from understudy.evaluation_log import FILE_VARIABLE
from understudy.evaluation_log import count_attempt as count


def named(dataset: str | None) -> Schema:
    columns = {"a": {"kind": "boolean"}}
    return build_schema({"status": "declared", "columns": columns, **({"dataset": dataset} if dataset else {})})


def count_attempt(table: str, dataset: str | None = None, *, attempt: str, n_tables: int) -> Any:
    return count(table, named(dataset), attempt=attempt, n_tables=n_tables)


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "counts" / "attempts.jsonl"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


def test_each_evaluation_of_a_table_is_counted_once_with_its_tables(counts: Path) -> None:
    first = count_attempt("hmac-sha256:x", attempt="1", n_tables=3)
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=3) == first  # resumed
    count_attempt("hmac-sha256:y", attempt="2", n_tables=1)
    result = count_attempt("hmac-sha256:x", attempt="3", n_tables=2)
    assert (result.evaluations, result.tables) == (2, 5)
    assert counts.stat().st_mode & 0o077 == 0


def test_what_is_public_counts_by_the_name_of_the_dataset_whatever_its_rows_are(counts: Path) -> None:
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=1).by_name is None
    count_attempt("hmac-sha256:x", "people", attempt="2", n_tables=3)
    count_attempt("hmac-sha256:x", "houses", attempt="3", n_tables=1)
    same = count_attempt("hmac-sha256:x", "people", attempt="4", n_tables=1)
    counts.write_text("".join(counts.read_text().splitlines(keepends=True)[:-1]))
    changed = count_attempt("hmac-sha256:y", "people", attempt="4", n_tables=1)
    assert (same.evaluations, changed.evaluations) == (4, 1)
    assert same.by_name == changed.by_name
    assert (same.by_name.evaluations, same.by_name.tables) == (2, 4)


@pytest.mark.parametrize("line", [b"\xff", b"[1]", b'{"table": "t", "attempt": ["a"], "tables": 1, "at": null}'])
def test_a_damaged_line_costs_only_itself(counts: Path, line: bytes) -> None:
    count_attempt("t", attempt="1", n_tables=1)
    counts.write_bytes(line + b"\n" + counts.read_bytes() + line + b"\n")
    assert count_attempt("t", attempt="2", n_tables=1).evaluations == 2


def test_where_it_cannot_be_written_nothing_is_counted_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "file" / "attempts.jsonl"))
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=1) is None

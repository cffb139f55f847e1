"""What a run and this machine keep: fingerprints of tables, counts of evaluations, unfinished work."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evaluate.metrics import CLIPPED
from synth.schema import Schema, build_schema
from synth.table import conform, read_table
from understudy import provenance
from understudy.bundle.evidence import file_name
from understudy.provenance import FILE_VARIABLE
from understudy.provenance import count_attempt as count
from understudy.run.candidates import _clipped
from understudy.run.workspace import RunWorkspace

COLUMNS = {
    "a": {"kind": "integer", "bounds": [0, 9], "missing": True},
    "b": {"kind": "categorical", "categories": ["x", "y", "None"], "missing": True},
    "c": {"kind": "real", "bounds": [0.0, 1.0]},
}
SCHEMA = build_schema({"status": "declared", "columns": COLUMNS})
KEY = bytes(32)


def frame() -> pd.DataFrame:
    content = {"a": [1, None, 3, 3], "b": ["x", None, "None", "None"], "c": [0.5, 0.25, 1.0, 1.0]}
    return conform(pd.DataFrame(content), SCHEMA)


def test_neither_order_nor_format_matters_and_the_key_does(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    frame().to_parquet(tmp_path / "t.parquet")
    tables = [frame().sample(frac=1, random_state=3)[["c", "a", "b"]]]
    tables += [read_table(tmp_path / name, SCHEMA) for name in ("t.csv", "t.parquet")]
    prints = {provenance.fingerprint(table, SCHEMA, KEY) for table in tables}
    assert prints == {provenance.fingerprint(frame(), SCHEMA, KEY)}
    assert provenance.fingerprint(frame(), SCHEMA, bytes([1] * 32)) not in prints


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.iloc[1:],
        lambda f: pd.concat([f, f.iloc[:1]]),
        lambda f: f.assign(c=f["c"].to_numpy()[::-1]),
        lambda f: f.assign(b=f["b"].where(f["b"] != "None", None)),
    ],
    ids=["a row less", "a row twice", "a column turned", "None made missing"],
)
def test_any_change_to_the_rows_does(change: Any) -> None:
    assert provenance.fingerprint(change(frame()), SCHEMA, KEY) != provenance.fingerprint(frame(), SCHEMA, KEY)


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "config" / "understudy" / "fingerprint.key"
    key = provenance.fingerprint_key(path)
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert provenance.fingerprint_key(path) == key
    assert [p.name for p in path.parent.iterdir()] == ["fingerprint.key"]


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


def test_where_it_cannot_be_written_nothing_is_counted_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "file" / "attempts.jsonl"))
    assert count_attempt("hmac-sha256:x", attempt="1", n_tables=1) is None


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

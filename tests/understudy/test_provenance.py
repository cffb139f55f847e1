"""The fingerprint of a real table: keyed, free of order and format, and its key kept."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from synth.schema import build_schema
from synth.table import conform, read_table
from understudy import provenance

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

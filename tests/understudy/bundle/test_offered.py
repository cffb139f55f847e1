"""The public table of an offered one: written anew from what was measured, and from nothing else in its file."""

import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.result import Candidate, Evaluation
from synth.errors import TableNote
from synth.schema import build_schema
from synth.table import read_table
from tests.evaluations import facts, origin
from understudy import provenance
from understudy.bundle.evidence import offered, write_offered

SCHEMA = build_schema({
    "status": "declared",
    "columns": {
        "note": {"kind": "text", "drop": True},
        "age": {"kind": "integer", "bounds": [18, 90], "missing": True},
        "town": {"kind": "categorical", "categories": ["Ulm", "Bonn"]},
    },
})  # fmt: skip
POLICY = build_policy({"name": "p", "version": 1, "audience": "tests"})
TABLE = pd.DataFrame({
    "town": ["Ulm", "Bonn", "Bonn"], "secret": ["Jane Roe", "x", "y"], "note": ["of Jane Roe", "", ""],
    "age": ["30", "41", "Jane Roe"],
})  # fmt: skip


def publish(table: Path, bundle: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder to hand on of a table that was evaluated, and what was said of it."""
    known = origin(files_sha256={f"synthetic/{table.name}": provenance.sha256(table)})
    result = Evaluation((Candidate("t", ()),), facts(), SCHEMA, known)
    offer = offered(result, table, None, {}, {})
    write_offered(offer, judge(result, [POLICY]), POLICY, bundle, None)
    return bundle / "to-hand-on", offer.warnings


def test_what_was_never_measured_is_not_published(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    public, text = publish(tmp_path / "t.csv", tmp_path / "b")
    assert (public / "t.csv").read_text() == "age,town\n30,Ulm\n41,Bonn\n,Bonn\n"
    assert not any(b"Jane" in path.read_bytes() for path in public.iterdir())
    (sentence,) = text
    assert "'secret', 'note'" in sentence
    assert (tmp_path / "b" / "synthetic" / "t.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()


def test_a_file_says_nothing_of_itself(tmp_path: Path) -> None:
    frame = TABLE.drop(columns=["secret", "note"]).set_index(pd.Index([7, 8, 9]))
    table = pa.Table.from_pandas(frame)
    table = table.replace_schema_metadata({**table.schema.metadata, "by": "Jane Roe"})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.warns(TableNote, match="are left out"):
        public, text = publish(tmp_path / "t.parquet", tmp_path / "b")
    written = pq.read_table(public / "t.parquet")
    assert written.column_names == ["age", "town"]
    assert written.schema.metadata is None
    assert text == ()


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet"])
def test_the_same_rows_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    written = []
    for mtime in (1, 2):
        table = tmp_path / str(mtime) / f"t{suffix}"
        table.parent.mkdir()
        if suffix == ".parquet":
            TABLE.to_parquet(table)
        else:
            table.write_bytes(gzip.compress(TABLE.to_csv(index=False).encode(), mtime=mtime))
        public, _ = publish(table, tmp_path / str(mtime) / "b")
        written.append((public / f"t{suffix}").read_bytes())
        assert len(read_table(public / f"t{suffix}")) == 3
    assert written[0] == written[1]
    assert not written[0].startswith(b"\x1f\x8b") or written[0][3:8] == bytes(5), "no name and no time in the header"

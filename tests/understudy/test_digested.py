"""What is measured is what is named: a file that is exchanged meanwhile is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import understudy.evaluate_external as offering
import understudy.hashed_table as digested
from evaluate.options import EvaluationOptions
from synth.errors import TableError
from synth.progress import quiet
from understudy.hashed_table import read_digested
from understudy.provenance import sha256

SCHEMA = """
status = "declared"
dataset = "people"
[columns.a]
kind = "integer"
bounds = [0, 9]
[columns.b]
kind = "integer"
bounds = [0, 9]
"""


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> offering.Offer:
    monkeypatch.setenv("UNDERSTUDY_KEY_FILE", str(tmp_path / "key"))
    rng = np.random.default_rng(0)
    for name in ("train", "holdout", "t", "other"):
        pd.DataFrame(rng.integers(0, 10, (40, 2)), columns=["a", "b"]).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "s.toml").write_text(SCHEMA)
    return offering.Offer(
        tmp_path / "train.csv", tmp_path / "holdout.csv", (tmp_path / "t.csv",), tmp_path / "s.toml",
        options=EvaluationOptions(measures="validity"),
    )  # fmt: skip


def test_the_digest_is_of_the_file_that_was_measured(
    offer: offering.Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, schema = sha256(tmp_path / "t.csv"), sha256(tmp_path / "s.toml")
    measure = offering.evaluate_beside

    def exchanged(*given: Any, **named: Any) -> Any:
        found = measure(*given, **named)
        (tmp_path / "s.toml").write_text(f"{SCHEMA}# other\n")
        return found

    monkeypatch.setattr(offering, "evaluate_beside", exchanged)
    known = json.loads(offering.measure_offer(offer, quiet).to_json())["provenance"]
    assert known["files_sha256"] == {"synthetic/t.csv": before}
    assert known["schema_sha256"] == schema
    assert known["evaluated_at"][-1] == "Z"
    assert known["attempts"]["by_name"]["evaluations"] == 1


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    frame, sha = read_digested(path)
    assert (sha, len(frame)) == (sha256(path), 1)
    read = digested.read_table

    def exchanged(*given: Any, **named: Any) -> pd.DataFrame:
        frame = read(*given, **named)
        path.write_text("a\n2\n")
        return frame

    monkeypatch.setattr(digested, "read_table", exchanged)
    with pytest.raises(TableError, match="must stay as it is"):
        read_digested(path)
    monkeypatch.undo()
    with pytest.raises(TableError, match="must stay as it is"):
        read_digested(path, expected=sha)

"""Objects in a notebook: one line as text, a small table as HTML, and names that stay text."""

import re

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate.result import Candidate, Estimate, Failure
from synth.errors import JobError
from synth.schema import build_schema
from tests.evaluations import evaluation_of

HOSTILE = "</td><script>alert(1)</script>"


def test_a_schema_is_one_line_and_a_table_of_its_columns() -> None:
    columns = {
        HOSTILE: {"kind": "integer", "bounds": [0, 99], "missing": True},
        "town": {"kind": "categorical", "categories": ["a", "b"]},
        "income": {"kind": "real", "measure": True},
        "id": {"kind": "identifier", "template": "P-###"},
        "mail": {"kind": "personal", "personal": "email", "locale": "de_DE"},
        "note": {"kind": "text", "drop": True},
    }
    schema = build_schema({"status": "declared", "n_units": 1200, "target": "town", "columns": columns})
    assert repr(schema) == "<Schema declared: 5 columns, 1,200 units, target 'town'>"
    assert [line.split()[:3] for line in str(schema).splitlines()[2:4]] == [
        ["town", "categorical", "a,"],
        ["income", "real", "measured"],
    ]
    page = schema._repr_html_()
    assert "<script" not in page
    for text in ("0 to 99", "<td>a, b</td>", "<td>measured</td>", "P-###", "email, de_DE", "left out", "target"):
        assert text in page


def people(n: int = 210) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, n)
    return pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], n), "ill": rng.random(n) < age / 120})


def test_a_fit_without_a_schema_says_a_line_for_each_column_it_inferred(capsys: pytest.CaptureFixture[str]) -> None:
    model = synth.fit(people(), "independent")
    out, lines = capsys.readouterr()
    assert out == ""
    assert [line.split()[:2] for line in lines.splitlines()[1:]] == [
        ["age", "integer"],
        ["sex", "categorical"],
        ["ill", "boolean"],
    ]
    assert (model.name, model.schema.status) == ("independent", "inferred")
    synth.fit(people(), "independent", progress=synth.quiet)
    synth.fit(people(), model.schema, "independent")
    assert capsys.readouterr() == ("", "")
    with pytest.raises(JobError, match="read_schema"):
        synth.fit(people(), "schema.toml", "trees")


def test_a_printed_evaluation_shows_key_figures_in_80_columns_and_what_failed() -> None:
    measured = Estimate("columns.tvd.excess", 0.021, 900, "lower", low=0.02, high=0.03, reference=0.01, floor=0.5)
    failed = Failure("privacy.membership.auc", "failed", "because")
    skipped = Failure("privacy.texts.copied", "skipped", "because")
    several = [Candidate(f"t{i}", (measured,), (failed, skipped)) for i in range(12)]
    text = str(evaluation_of(*several))
    assert re.search(
        r"Column distance beyond noise +0.021 \(0.020 to 0.030\) +0.010 +0.500\n +Membership attack, AUC +failed\n",
        text,
    )
    assert "Sentences copied" not in text
    assert text.count("no formal guarantee") == 10
    assert "2 more tables" in text
    assert max(map(len, text.splitlines())) <= 80

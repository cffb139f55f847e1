"""Objects in a notebook: one line as text, a small table as HTML, and names that stay text."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import evaluate
import reports
import synth
from evaluate.result import Candidate, Estimate, Failure, SelfTest
from synth.errors import JobError
from synth.schema import build_schema
from tests.evaluations import evaluation_of

HOSTILE = "</td><script>alert(1)</script>"


class Tags(HTMLParser):
    """Names of all tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


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
    assert Tags(page).found == TABLE
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


def test_no_object_shows_itself_at_length_however_much_it_holds() -> None:
    many = tuple(f"a category of {i}" for i in range(5_000))
    columns = {f"c{i}": {"kind": "categorical", "categories": many if i == 0 else many[:9]} for i in range(300)}
    schema = build_schema({"status": "declared", "columns": columns})
    estimates = tuple(Estimate("columns.tvd", 0.1, 900, "lower", (f"c{i}",)) for i in range(3_000))
    candidate = Candidate("t", estimates, figures={"drawn": many})
    evaluation = replace(evaluation_of(candidate), schema=schema, self_tests=(SelfTest("copy", candidate),))
    (verdict,) = evaluate.judge(evaluation, "internal")
    sides = synth.split_table(people(), synth.infer_schema(people()))
    shown = (candidate, evaluation, evaluation.self_tests, evaluation.provenance, evaluation.real, sides, schema)
    shown += (*schema.columns.values(), estimates[0], verdict, verdict.findings[0], evaluate.load_policy("internal"))
    assert max(len(repr(each)) for each in (*shown, reports.compose(evaluation, verdicts=[verdict]))) < 600
    assert max(len(str(each)) for each in shown if each is not verdict) < 20_000
    assert len(schema._repr_html_()) < 100_000
    assert "and 100 more" in str(schema)
    assert "and 100 more" in schema._repr_html_()

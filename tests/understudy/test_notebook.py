"""Objects in a notebook: one line as text, a small table as HTML, and names that stay text."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import evaluate
import synth
from evaluate.gate.policy import load_policy
from evaluate.result import Candidate, Estimate
from synth.dp.statement import guarantee_words
from synth.schema import build_schema
from tests.evaluations import evaluation_of, stated

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
    assert repr(schema) == str(schema) == "<Schema declared: 5 columns, 1,200 units, target 'town'>"
    page = schema._repr_html_()
    assert Tags(page).found == TABLE
    for said in ("0 to 99", "2 categories", "<td>measured</td>", "P-###", "email, de_DE", "left out", "target"):
        assert said in page


def test_a_model_says_its_guarantee() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 9, 200), "b": rng.choice(list("xy"), 200)})
    model = synth.fit(frame, synth.infer_schema(frame), "independent")
    assert repr(model) == "<Model 'independent' of 2 columns and 200 rows: no formal guarantee>"
    assert "no formal guarantee" in model._repr_html_()


def test_a_statement_is_one_line_and_a_table_of_its_events_and_never_understates() -> None:
    statement = stated(epsilon=1.0004, caveats=[HOSTILE])
    assert repr(statement) == "<PrivacyStatement epsilon=1.0004, delta=1e-06, unit='row', n_units=900, 1 events>"
    assert guarantee_words(statement).startswith("epsilon 1.01, delta 1e-06")
    assert Tags(statement._repr_html_()).found == {*TABLE, "ul", "li"}
    assert "VOID" in repr(stated(private=False))
    assert guarantee_words(stated(private=False)).startswith("VOID")


def test_an_evaluation_shows_key_figures_beside_its_landmarks() -> None:
    found = Estimate("columns.tvd.mean", 0.021, 900, "lower", low=0.02, high=0.03, reference=0.01, floor=0.5)
    evaluation = evaluation_of(Candidate(HOSTILE, (found,)), Candidate("b", ()))
    assert len(repr(evaluation)) < 120
    page = evaluation._repr_html_()
    assert Tags(page).found == TABLE
    for said in ("0.021 (0.02", "not measured", "fresh real sample", "shuffled columns", "no formal guarantee"):
        assert said in page


@pytest.mark.parametrize(("policy", "first"), [("internal", "INCONCLUSIVE"), ("public", "FAIL")])
def test_a_verdict_shows_its_rules_those_first_that_do_not_pass(policy: str, first: str) -> None:
    (verdict,) = evaluate.judge(evaluation_of(Candidate(HOSTILE, ())), load_policy(policy))
    page = verdict._repr_html_()
    assert Tags(page).found == TABLE
    assert page.count("<tr>") == 1 + len(verdict.findings)
    assert f"<td>{first}" in page.split("</tr>")[1]

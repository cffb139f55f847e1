"""The section of free text: there with its numbers, sentences and examples where texts are kept, and nowhere else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate.engine import evaluate_beside
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge
from evaluate.result import Estimate, Evaluation
from evaluate.tables import Real
from reports import compose
from reports.exports import render_junit, to_summary
from reports.model_card.card import internal_card, public_card
from reports.model_card.render import to_markdown
from reports.public.facts import public_facts, public_verdict
from reports.public.page import render_public
from tests.extras.text.evaluation.spoiled import dealt
from tests.reports.test_model_card import FACTS
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.bundle.evidence import released_json, write_public
from understudy.extras.text.evaluation.fidelity import AGREEMENT
from understudy.extras.text.evaluation.utility import WORST

N = 250
MEASURES = ["validity", "fidelity.texts", "utility.texts"]
SECRET = "Call Aldana at 617-555-0143, code QX77777."
COPIES = {"columns": [{"column": TEXT, "sentences": [
    {"sentence": SECRET, "n_words": 9, "synthetic_rows": 3, "train_rows": 1},
]}]}  # fmt: skip
LEAK = Estimate("privacy.texts.copied", 0.02, N, "lower", low=0.01, high=0.03, reference=0.0)


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    """Honest texts, and texts dealt to other rows of which an attack found one that is copied."""
    schema, table = complaint_schema(n_units=N), complaints(N, 2)
    real = Real.prepare(complaints(N, 0), complaints(N, 1), schema)
    evaluation = evaluate_beside(real, {"honest": table, "dealt": dealt(table)}, measures=MEASURES, self_tested=False)
    honest, leaking = evaluation.candidates
    figures: dict[str, Any] = {**leaking.figures, "text_copies": COPIES}
    failures = tuple(failure for failure in leaking.failures if not failure.measure.startswith("privacy.texts"))
    leaking = replace(leaking, estimates=(*leaking.estimates, LEAK), failures=failures, figures=figures)
    return replace(evaluation, candidates=(honest, leaking))


def texts(measured: Evaluation) -> list[dict[str, Any]]:
    sections = [section.extras["texts"] for section in compose(measured).sections]
    assert None not in sections
    return sections


def test_nothing_that_is_handed_on_or_exported_holds_a_sentence_a_text_or_a_number_of_them(
    measured: Evaluation, tmp_path: Path
) -> None:
    schema, policy, table = complaint_schema(n_units=N), load_policy("public"), dealt(complaints(N, 2))
    facts = public_facts(measured, "dealt", policy=policy, schema=schema, synthetic=table, title="Complaints")
    write_public(facts, tmp_path)
    verdicts = judge(measured, [policy])
    told = {
        "page": render_public(facts),
        "folder": "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file()),
        "card": to_markdown(public_card(measured, "dealt", FACTS)),
        "internal card": to_markdown(internal_card(measured, "dealt", FACTS)),
        "summary": to_summary(measured, verdicts),
        "junit": render_junit(verdicts),
        "released numbers": "" if facts.publication is None else released_json(facts, facts.publication),
    }
    texts = ("Aldana", "555-0143", "QX77777", *table[TEXT], *complaints(N, 0)[TEXT])
    assert [where for where, content in told.items() if any(text in content for text in texts)] == []
    hidden = {rule.measure for rule in public_verdict(facts).hidden}
    assert {AGREEMENT, "texts.words.excess", WORST} <= hidden

"""Repeated sentences stay inside: the evaluation holds them, and nothing that is published or exported does."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge
from evaluate.result import NOTICE, Evaluation
from evaluate.result_io import evaluation_from
from reports.exports.junit import render_junit
from reports.exports.summary import to_summary
from reports.model_card.card import internal_card, public_card
from reports.model_card.render import to_markdown
from reports.public.facts import public_facts
from reports.public.page import render_public
from tests.reports.conftest import sample_evaluation
from tests.reports.test_model_card import FACTS
from understudy.run.released_numbers import released_json, write_public

SAID = "Call Zebedee at 617-555-0143"
LISTED = {"sentence": SAID, "n_words": 4, "synthetic_rows": 1, "train_rows": 1}


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    plain = sample_evaluation()
    figure = {"columns": [{"column": "age", "sentences": [LISTED]}]}
    first = replace(plain.candidates[0], figures={**plain.candidates[0].figures, "text_copies": figure})
    return replace(plain, candidates=(first, *plain.candidates[1:]))


def test_the_evaluation_holds_the_sentence_and_says_that_it_is_internal(evaluation: Evaluation) -> None:
    written = evaluation.to_json()
    assert SAID in written
    assert NOTICE in written
    assert evaluation_from(written).candidates[0].figures["text_copies"]["columns"][0]["sentences"] == [LISTED]


def test_a_damaged_list_of_sentences_is_refused(evaluation: Evaluation) -> None:
    content = json.loads(evaluation.to_json())
    del content["candidates"][0]["figures"]["text_copies"]["columns"][0]["sentences"][0]["n_words"]
    with pytest.raises(ValueError, match="text_copies"):
        evaluation_from(json.dumps(content))


def test_no_public_report_card_or_export_holds_the_sentence(evaluation: Evaluation, tmp_path: Path) -> None:
    name, policy = evaluation.candidates[0].name, load_policy("public")
    verdicts = judge(evaluation, [policy])
    table = pd.DataFrame({column: [None, None] for column in evaluation.schema.kept})
    facts = public_facts(evaluation, name, policy=policy, schema=evaluation.schema, synthetic=table, title="T")
    write_public(facts, tmp_path)
    told = {
        "page to hand on": render_public(facts),
        "folder to hand on": "".join(
            path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file()
        ),
        "card to hand on": to_markdown(public_card(evaluation, name, FACTS)),
        "internal card": to_markdown(internal_card(evaluation, name, FACTS)),
        "summary": to_summary(evaluation, verdicts),
        "junit": render_junit(verdicts),
    }
    if facts.publication is not None:
        told["released numbers"] = released_json(facts, facts.publication)
    assert [where for where, text in told.items() if "Zebedee" in text or "555-0143" in text] == []

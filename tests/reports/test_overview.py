"""The overview on the first screen: one axis for all tables, worse on the left, and no number that misleads."""

from dataclasses import replace
from datetime import date

import pandas as pd
import pytest

from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports import render_html
from reports.document import compose
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.render import to_markdown
from reports.sections.limitations import left_out
from reports.sections.overview import Guarantee, overview_of
from synth.infer import infer_schema
from tests.evaluations import altered, evaluation_of

BARE = Guarantee(None)


def told(auc: float, *, low: float | None = None, high: float | None = None) -> Candidate:
    found = Estimate("privacy.membership.auc", auc, 900, "lower", (), low, high, 0.5)
    return Candidate("t", (found, Estimate("joint.c2st.auc", auc, 900, "lower", (), None, None, 0.5, 0.9)))


def test_every_table_has_the_same_lines_on_the_same_axes(evaluation: Evaluation) -> None:
    document = compose(evaluation)
    lines = document.overview.lines
    assert [[one.anchor for one in of] for of in lines] == [["utility", "comparison", "attacks", "guarantee"]] * 3
    for of in zip(*lines, strict=True):
        assert len({one.extent for one in of}) == 1
    assert [title for title, _ in document.overview.readings] == ["Utility", "Pairs off", "Attack", "Guarantee"]


def test_worse_is_left_of_better_whatever_the_direction(evaluation: Evaluation) -> None:
    compared = []
    for of in compose(evaluation).overview.lines:
        for one in of:
            if one.estimate is None or one.estimate.reference is None or one.estimate.floor is None:
                continue
            left, right = one.extent
            places = [(end - left) / (right - left) for end in (one.estimate.floor, one.estimate.reference)]
            assert 0 <= places[0] < places[1] <= 1
            compared.append(one.estimate.direction)
    assert set(compared) == {"higher", "lower"}


def test_noise_about_guessing_does_not_fill_the_axis_and_a_leak_does() -> None:
    quiet, loud = (overview_of([told(auc)], [BARE]).lines[0][2].extent for auc in (0.503, 0.97))
    assert quiet == (0.6, 0.4)
    assert loud == (0.97, 0.4)


def test_a_guarantee_is_the_most_that_any_test_finds_and_no_limit_without_one(evaluation: Evaluation) -> None:
    of = [lines[-1] for lines in compose(evaluation).overview.lines]
    protection = compose(evaluation).sections[0].protection
    assert protection is not None
    assert of[0].estimate is not None
    assert of[0].estimate.value == pytest.approx(protection.limit.detections(0.01))
    assert [one.said for one in of[1:]] == ["no formal guarantee", "no formal guarantee"]


def test_a_column_that_gives_the_target_away_is_left_out_of_the_score() -> None:
    scores = (
        Estimate("utility.tstr.boosting", 1.0, 900, "higher"),
        Estimate("utility.gap.boosting.without", 0.2, 900, "lower"),
    )
    table = Candidate("t", scores, figures={"utility": {"giveaways": [{"column": "x", "score": 1.0}]}})
    overview = overview_of([table], [BARE])
    assert overview.lines[0][0].said == "0.200"
    assert "give the target away" in overview.readings[0][1]
    assert overview_of([replace(table, figures={})], [BARE]).lines[0][0].said == "1.000"


def test_columns_left_out_or_replaced_are_named_where_a_table_is_said_to_be_hard_to_tell_apart() -> None:
    words = ["the bus was late", "no one came to help", "my room was cold at night", "good food and kind staff"]
    rows = pd.DataFrame(
        {"price": [f"{i}:{7 * i}/{i % 11} #{i}" for i in range(60)], "mail": [f"p{i}@example.org" for i in range(60)]}
    )
    rows["said"] = [f"{words[i % 4]} {words[i % 3]} {i}" for i in range(60)]
    rows["ticket"] = [f"T-{i:04d}" for i in range(60)]
    schema = infer_schema(rows.assign(smoker=[True, False] * 30))
    evaluation = replace(evaluation_of(told(0.501)), schema=schema)
    sentences = left_out(schema)
    assert [said.split(". ")[0] for said in sentences] == [
        "Left out, as texts that are neither categories nor numbers nor times as they are written: 'price'",
        "Free text, in whose place random words stand: 'said'",
        "Personal data, written anew: no real value is kept, nor what it goes with: 'mail'",
        "Identifiers, written anew: no real value is kept, nor what it goes with: 'ticket'",
    ]
    assert all("write kind = " in said for said in sentences)
    document = compose(evaluation)
    assert dict(document.overview.readings)["Told apart"].endswith(
        "; without the columns 'price', 'mail', 'said', 'ticket'"
    )
    assert document.left_out == sentences
    lede = render_html(evaluation).split('class="lede"')[1].split("</p>")[0]
    assert all(name in lede for name in ("Left out or replaced", "price", "mail", "said", "ticket"))
    facts = CardFacts(date(2026, 1, 2))
    declared = replace(evaluation, schema=schema.model_copy(update={"status": "declared"}))
    assert internal_card(evaluation, "t", facts).table.left_out == sentences
    assert public_card(declared, "t", facts).table.left_out == sentences
    assert public_card(evaluation, "t", facts).table.left_out == (), "what was read off real rows stays inside"
    assert "Columns that are left out or replaced" in to_markdown(public_card(declared, "t", facts))


def test_where_every_column_gives_the_target_away_there_is_no_score() -> None:
    score = Estimate("utility.tstr.boosting", 1.0, 900, "higher")
    table = Candidate("t", (score,), figures={"utility": {"giveaways": [{"column": "x", "score": 1.0}]}})
    overview = overview_of([table], [BARE])
    assert overview.lines[0][0].said == "target given away"
    assert "Utility" not in dict(overview.readings)


def test_a_number_that_is_not_there_is_said_to_be_missing() -> None:
    failed = Candidate("f", (), (Failure("privacy.membership.auc", "timed out", "the time limit was reached"),))
    overview = overview_of([told(0.5), failed], [BARE, BARE])
    assert [one.said for one in overview.lines[1]] == ["not run", "not run", "timed out", "no formal guarantee"]
    assert [title for title, _ in overview.readings] == ["Told apart", "Attack"]
    nothing = overview_of([failed], [BARE])
    assert [one.title for one in nothing.lines[0]] == ["Utility", "Fidelity", "Attack", "Guarantee"]


def test_a_table_without_a_guarantee_says_so_also_where_nothing_was_judged_or_attacked(evaluation: Evaluation) -> None:
    cover = render_html(evaluation).split('id="weakest"')[0]
    assert cover.count("NOT JUDGED") == 3
    assert cover.count("no formal guarantee") == 2 * 2  # beside the verdict, and on the line
    bare = replace(
        evaluation,
        candidates=tuple(
            replace(one, estimates=tuple(e for e in one.estimates if not e.measure.startswith("privacy.")))
            for one in evaluation.candidates
        ),
    )
    assert (
        "No attack gave a result, so that nothing speaks against a leak." in render_html(bare).split('id="weakest"')[0]
    )


def test_the_limit_names_the_unit_of_privacy_and_where_it_comes_from(evaluation: Evaluation) -> None:
    (limit,) = (words for title, words in compose(evaluation).overview.readings if title == "Guarantee")
    assert limit.startswith("the most rows of the real table")
    unverified = replace(evaluation, provenance=altered(evaluation.provenance, {"split": None}))
    assert compose(unverified).overview.lines[0][-1].said == "unverified"

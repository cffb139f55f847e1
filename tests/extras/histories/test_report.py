"""The section of histories: there with its numbers and pictures where rows have an order, and nowhere else."""

import pytest

from evaluate.engine import evaluate
from evaluate.result import Evaluation
from reports import compose, render_html
from synth.schema import build_schema
from tests.extras.histories.markov import SCHEMA, dealt, markov

MEASURES = ["fidelity.histories", "privacy.histories"]
N = 300


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    table = markov(N, 2, 3 * N)
    tables = {"honest": table, "dealt": dealt(table, 5)}
    return evaluate(markov(N, 0), tables, holdout=markov(N, 1, N), schema=SCHEMA, measures=MEASURES)


def test_lengths_transitions_and_numbers_are_shown_of_each_table(measured: Evaluation) -> None:
    document = compose(measured)
    assert document.extras
    for section in document.sections:
        of_table = section.extras["histories"]
        assert {row.measure for row in of_table["rows"]} >= {"histories.dependence.floor_share.worst"}
        assert [one[0] for one in of_table["transitions"]]
        assert of_table["lengths"] is not None
    page = render_html(measured)
    assert 'id="histories"' in page
    assert [section.weakest.spots != () for section in document.sections] == [False, True]
    assert "dependence on the row before" in page
    assert "Rows per entity" in page
    assert page.count("Dealt at random") >= 4  # a column of each table of either section


def test_attacks_on_histories_have_their_lines(measured: Evaluation) -> None:
    lines = {line.measure: line.word for line in compose(measured).sections[0].attacks.lines}
    assert lines["privacy.histories.copied"] == "no alarm"


def test_a_table_without_an_order_has_no_section_and_no_such_line() -> None:
    schema = build_schema({**SCHEMA.model_dump(), "order": None, "nondecreasing_in_entity": ()})
    plain = evaluate(markov(N, 0), markov(N, 2, 3 * N), holdout=markov(N, 1, N), schema=schema, measures=["validity"])
    full = evaluate(
        markov(N, 0), markov(N, 2, 3 * N), holdout=markov(N, 1, N), schema=schema, measures=["validity", *MEASURES]
    )
    for one in (plain, full):
        assert not compose(one).extras
        assert 'id="histories"' not in render_html(one)
    lines = {line.measure for line in compose(full).sections[0].attacks.lines}
    assert not [name for name in lines if name.startswith("privacy.histories")]

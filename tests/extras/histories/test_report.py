"""The section of histories: there with its numbers and pictures where rows have an order, and nowhere else."""

import pytest

from evaluate.engine import evaluate
from evaluate.result import Evaluation
from reports import compose, render_html
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
        assert [each[0] for each in of_table["transitions"]]
        assert of_table["lengths"] is not None
    page = render_html(measured)
    assert 'id="histories"' in page
    assert [section.weakest.spots != () for section in document.sections] == [False, True]
    assert "dependence on the row before" in page
    assert "Rows per entity" in page
    assert page.count("Dealt at random") >= 4  # a column of each table of either section

"""What was expected from public facts, beside what was measured: shown wherever it was worked out."""

from dataclasses import replace

import pytest

from evaluate.result import Candidate, Evaluation, EvaluationError, Expectation
from evaluate.result_io import evaluation_from
from reports.sections.fidelity import expectations

EXPECTED = Expectation(column=0.02, tree=0.03, pair=0.2, n_rows=800)


def candidate(expected: Expectation | None) -> Candidate:
    pairs = {"tvd": [[0.014, 0.09], [0.09, 0.02]], "worst": []}
    return Candidate("mst", (), figures={"columns": [{"tvd": 0.014}, {"tvd": 0.02}], "pairs": pairs}, expected=expected)


def test_expected_and_measured_stand_side_by_side() -> None:
    column, pair = expectations(candidate(EXPECTED))
    assert (column.expected, column.measured) == ("0.020", "0.017")
    assert (pair.expected, pair.measured) == ("0.030 to 0.200", "0.090")


def test_columns_on_their_own_have_no_line_for_pairs() -> None:
    found = expectations(candidate(replace(EXPECTED, tree=None, pair=None)))
    assert [line.what for line in found] == ["A column"]


@pytest.mark.parametrize("expected", [None, Expectation()])
def test_nothing_usable_shows_nothing(expected: Expectation | None) -> None:
    assert expectations(candidate(expected)) == ()


def test_what_was_not_measured_is_a_dash() -> None:
    bare = replace(candidate(EXPECTED), figures={})
    assert {line.measured for line in expectations(bare)} == {"\u2014"}


def test_it_is_written_and_read_back(evaluation: Evaluation) -> None:
    known = replace(evaluation, candidates=tuple(replace(one, expected=EXPECTED) for one in evaluation.candidates))
    text = known.to_json()
    assert evaluation_from(text).candidates[0].expected == EXPECTED
    with pytest.raises(EvaluationError, match="damaged"):
        evaluation_from(evaluation.to_json().replace('"expected": null', '"expected": 3'))

"""Tables that a sample holds whole give the same numbers where they are stored as in memory."""

from typing import Any

import pytest

from evaluate.engine import evaluate, evaluate_stored
from evaluate.result import Candidate, Evaluation
from tests.evaluate.stored.conftest import Put, schema_of, sides

NUMBERS = ("value", "low", "high", "reference", "floor", "n", "detectable")


def numbers(candidate: Candidate) -> dict[tuple[str, tuple[str, ...], str], Any]:
    return {(e.measure, e.subject, part): getattr(e, part) for e in candidate.estimates for part in NUMBERS}


def same(here: Evaluation, there: Evaluation) -> None:
    assert there.real == {**here.real, "duplicate_share_train": pytest.approx(here.real["duplicate_share_train"])}
    pairs = zip(
        [*here.candidates, *(test.candidate for test in here.self_tests if test.candidate is not None)],
        [*there.candidates, *(test.candidate for test in there.self_tests if test.candidate is not None)],
        strict=True,
    )
    for ours, theirs in pairs:
        assert [f.measure for f in theirs.failures] == [f.measure for f in ours.failures]
        found, expected = numbers(theirs), numbers(ours)
        assert found.keys() == expected.keys()
        near = {
            key: pytest.approx(number, rel=1e-9, abs=1e-9) for key, number in expected.items() if number is not None
        }
        assert {key: number for key, number in found.items() if number != near.get(key)} == {}


@pytest.mark.parametrize("entities", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_measure_gives_the_numbers_that_it_gives_in_memory(put: Put, entities: bool) -> None:
    frames, schema = sides(entities=entities), schema_of(entities=entities)
    stored = put(frames)
    here = evaluate(frames["train"], frames["holdout"], frames["synthetic"], schema, seed=3, outside="clamp")
    there = evaluate_stored(stored["train"], stored["holdout"], stored["synthetic"], schema, seed=3, outside="clamp")
    assert any(e.measure == "privacy.copies" and e.value > 0.1 for e in there.candidates[0].estimates)
    same(here, there)

"""Tables that a sample holds whole give the same numbers where they are stored as in memory."""

import functools
from dataclasses import replace
from typing import Any

import pytest

from evaluate.engine import evaluate, evaluate_stored
from evaluate.metrics import MODULES
from evaluate.result import Candidate, Evaluation
from tests.evaluate.stored.conftest import Put, schema_of, sides
from tests.synth.stored.conftest import LEFT_OPEN

MODELS = {
    "fidelity.detection", "utility.tstr", "fairness.models", "privacy.membership",
    "privacy.inference",
}  # fmt: skip
QUICK = tuple(name for name in MODULES if name not in MODELS)
"""All but those that train models, which read the same samples as the others."""
NUMBERS = ("value", "low", "high", "reference", "floor", "n", "detectable")


def numbers(candidate: Candidate) -> dict[tuple[str, tuple[str, ...], str], Any]:
    return {(e.measure, e.subject, part): getattr(e, part) for e in candidate.estimates for part in NUMBERS}


def same(here: Evaluation, there: Evaluation) -> None:
    share = here.real.duplicate_share_train
    assert there.real.duplicate_share_train == pytest.approx(share)
    assert replace(there.real, duplicate_share_train=share) == here.real
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


@functools.cache
def in_memory(entities: bool, measures: tuple[str, ...]) -> Evaluation:
    frames, schema = sides(entities=entities), schema_of(entities=entities)
    return evaluate(**frames, schema=schema, seed=3, outside="clamp", measures=measures)


@pytest.mark.parametrize(
    ("put", "entities", "measures"),
    [
        ("duckdb", False, tuple(MODULES)),
        ("postgres", False, QUICK),
        pytest.param("postgres", False, tuple(MODULES), marks=pytest.mark.slow),
        pytest.param("duckdb", True, tuple(MODULES), marks=pytest.mark.slow),
        pytest.param("postgres", True, tuple(MODULES), marks=pytest.mark.slow),
        *(
            pytest.param("pyspark", entities, tuple(MODULES), marks=[pytest.mark.slow, *LEFT_OPEN])
            for entities in (False, True)
        ),
    ],
    indirect=["put"],
    ids=lambda value: f"{len(value)} measures" if isinstance(value, tuple) else str(value),
)
def test_every_measure_gives_the_numbers_that_it_gives_in_memory(
    put: Put, entities: bool, measures: tuple[str, ...]
) -> None:
    stored, schema = put(sides(entities=entities)), schema_of(entities=entities)
    here = in_memory(entities, measures)
    there = evaluate_stored(**stored, schema=schema, seed=3, outside="clamp", measures=measures)
    assert any(e.measure == "privacy.copies" and e.value > 0.1 for e in there.candidates[0].estimates)
    same(here, there)

"""Histories of stored tables: measured on samples of whole entities, and said so."""

import pytest

from evaluate.engine import evaluate, evaluate_stored
from evaluate.gate.finding import SAMPLED
from evaluate.result import Estimate
from tests.evaluate.histories.markov import SCHEMA, markov
from tests.evaluate.stored.conftest import Put

MEASURES = ["fidelity.histories", "utility.next_event", "privacy.histories"]
FRAMES = {"train": markov(500, 0), "holdout": markov(400, 1, 500), "synthetic": markov(500, 2, 2_000)}
ON_DUCKDB = pytest.mark.parametrize("put", ["duckdb"], indirect=True)


@ON_DUCKDB
def test_tables_that_a_sample_holds_whole_give_the_numbers_of_memory(put: Put) -> None:
    stored = put(FRAMES)
    there = evaluate_stored(**stored, schema=SCHEMA, measures=MEASURES)
    here = evaluate(**FRAMES, schema=SCHEMA, measures=MEASURES)
    assert there.candidates[0].estimates == here.candidates[0].estimates
    assert there.real.order == here.real.order == "day"


@ON_DUCKDB
def test_a_sample_of_histories_says_so_and_its_attacks_allow_for_the_rest(put: Put) -> None:
    found = evaluate_stored(**put(FRAMES), schema=SCHEMA, measures=MEASURES, sample_rows=900).candidates[0]
    there = [one for one in found.estimates if one.measure.startswith(("histories.", "privacy.histories"))]
    assert there
    assert all(SAMPLED in one.note for one in there)
    singled_out, copied = (found.find(f"privacy.histories.{of}") for of in ("singling_out", "copied"))
    assert isinstance(singled_out, Estimate)
    assert isinstance(copied, Estimate)
    assert copied.low == 0.0
    share = found.find("histories.dependence.floor_share")
    assert isinstance(share, Estimate)
    assert share.high < 0.3  # whole histories were drawn, whose rows follow from each other


@ON_DUCKDB
def test_too_few_histories_in_a_sample_are_not_measured(put: Put) -> None:
    found = evaluate_stored(**put(FRAMES), schema=SCHEMA, measures=MEASURES, sample_rows=60).candidates[0]
    assert not [one for one in found.estimates if one.measure.startswith("histories.")]
    assert not isinstance(found.find("privacy.histories.copied"), Estimate)

"""Canary sentences: planted, found again, and ranked by a model's loss."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.text_canaries import exposures, find_canaries, plant
from synth.table import conform
from tests.text_tables import TEXT, complaint_schema, complaints

SCHEMA = complaint_schema()


def test_canaries_stand_in_as_many_rows_as_was_asked_for_and_nothing_else_changes() -> None:
    train = complaints(200, 0)
    planted, canaries = plant(train, SCHEMA, 5, 3, seed=1)
    assert len({one.sentence for one in canaries}) == 5
    assert planted.drop(columns=TEXT).equals(train.drop(columns=TEXT))
    changed = np.flatnonzero((planted[TEXT] != train[TEXT]).to_numpy()).tolist()
    assert changed == sorted(row for one in canaries for row in one.rows)
    for one in canaries:
        assert [one.sentence in text for text in planted[TEXT]].count(True) == 3
        assert all(one.sentence in planted[TEXT][row] for row in one.rows)
    assert len(conform(planted, SCHEMA)) == 200


def test_a_canary_is_within_the_length_that_is_read() -> None:
    schema = complaint_schema(length=60)
    planted, canaries = plant(complaints(50, 0), schema, 2, 2, seed=0)
    assert all(one.sentence in planted[TEXT][row][:60] for one in canaries for row in one.rows)


def test_canaries_that_are_repeated_are_found_and_others_are_not() -> None:
    _, canaries = plant(complaints(100, 0), SCHEMA, 4, 1, seed=2)
    table = complaints(300, 5)
    assert find_canaries(canaries, table).share == 0.0
    table.loc[7, TEXT] += " " + canaries[2].sentence
    table.loc[8, TEXT] += f" It was {canaries[3].secret}."
    found = find_canaries(canaries, table)
    assert found.whole.tolist() == [False, False, True, False]
    assert found.secrets.tolist() == [False, False, True, True]
    assert found.by_chance < 1e-5


def test_a_model_that_memorizes_has_all_the_exposure_that_can_be_seen() -> None:
    planted, canaries = plant(complaints(100, 0), SCHEMA, 6, 1, seed=3)
    known = set(planted[TEXT])

    def memorizing(rows: pd.DataFrame, column: str) -> np.ndarray:
        return np.array([0.2 if text in known else 1.0 for text in rows[column]])

    assert exposures(canaries, planted, memorizing, seed=0, n_others=255).tolist() == pytest.approx([8.0] * 6)


@pytest.mark.parametrize("ties", [True, False])
def test_a_model_that_knows_nothing_has_the_exposure_of_chance(ties: bool) -> None:
    """Of a uniform rank, the exposure is exponential with a mean of 1 / ln 2 bits; 60 canaries, 4 standard errors."""
    planted, canaries = plant(complaints(100, 0), SCHEMA, 60, 1, seed=4)
    rng = np.random.default_rng(5)

    def blind(rows: pd.DataFrame, column: str) -> np.ndarray:
        return np.ones(len(rows)) if ties else rng.random(len(rows))

    found = exposures(canaries, planted, blind, seed=1, n_others=255)
    mean = 1 / np.log(2)
    assert abs(found.mean() - mean) < 4 * mean / np.sqrt(60)
    assert abs((found <= 1).mean() - 0.5) < 4 * 0.5 / np.sqrt(60)


def test_a_form_with_few_sentences_ranks_among_all_of_them() -> None:
    planted, canaries = plant(complaints(50, 0), SCHEMA, 3, 1, seed=6, form="My digit is #.")
    found = exposures(canaries, planted, lambda rows, _: np.arange(len(rows)).astype(float), seed=0)
    assert found.tolist() == pytest.approx([np.log2(10)] * 3)

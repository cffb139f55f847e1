"""The sides of an evaluation: a holdout is held out, and the message says which table is at fault."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate.engine import evaluate
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.result import EvaluationError, Failure
from evaluate.tables import Tables
from synth.errors import TableError, TableNote
from tests.evaluate.people import SCHEMA, rows

INTERNAL = Path(__file__).parents[2] / "evaluate" / "policies" / "internal.toml"


def test_a_holdout_that_is_the_training_table_is_refused() -> None:
    train = rows(500, 0)
    for holdout in (train, train.sample(frac=1.0, random_state=0), train.head(200)):
        with pytest.raises(EvaluationError, match="held out"):
            Tables.prepare(train, holdout, rows(300, 2), SCHEMA)


def test_train_and_holdout_swapped_never_pass() -> None:
    train, holdout = rows(1500, 0), rows(1500, 1)
    candidate = evaluate(
        holdout, train, holdout=train, schema=SCHEMA, measures=["privacy.membership", "privacy.copies"]
    ).candidates[0]
    result = candidate.find("privacy.membership.auc")
    assert isinstance(result, Failure)
    assert "swapped" in result.message
    assert judge_candidate(candidate, load_policy(INTERNAL)).verdict != "PASS"


def test_rows_stand_in_their_seeded_order_whatever_order_they_came_in() -> None:
    frames = rows(300, 0), rows(200, 1), rows(250, 2)
    first = Tables.prepare(*frames, SCHEMA, seed=4)
    turned = (frame.sample(frac=1.0, random_state=5).set_axis(range(len(frame))) for frame in frames)
    second = Tables.prepare(*turned, SCHEMA, seed=4)
    for side in ("train", "fresh", "control", "synthetic", "shuffled"):
        pd.testing.assert_frame_equal(getattr(first, side), getattr(second, side))
    for side, n in (("train", 300), ("synthetic", 250)):
        assert first.order(side).tolist() == list(range(n))
    assert not first.train.equals(Tables.prepare(*frames, SCHEMA, seed=5).train)


def test_what_a_proposal_guessed_refuses_no_holdout_and_is_counted() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 60, 400), "town": rng.choice([*"abc"], 400), "paid": rng.random(400)})
    train, holdout = frame[:200], frame[200:].copy()
    schema = synth.infer_schema(train)
    holdout.iloc[:5] = [99, "zz", np.nan]
    with pytest.warns(TableNote, match="'age' of holdout 2.5%"):
        tables = Tables.prepare(train, holdout, train, schema)
    assert tables.faulty is not None and tables.faulty[0].to_numpy().sum() == 15
    with pytest.raises(TableError, match="outside"):
        Tables.prepare(train, holdout, train, synth.declare_schema(schema, n_units=200))

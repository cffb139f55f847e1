"""The engine isolates failures and keeps time; the sides are what they should be, and a message says which is not."""

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate import engine
from evaluate.engine import OutOfTimeError, deadline
from evaluate.gate.policy import build_policy, build_waivers, check_waivers, load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import UNJUDGED
from evaluate.result import Estimate, Evaluation, EvaluationError, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import MetricResult, Tables
from synth.errors import TableError, TableNote
from synth.schema import build_schema
from tests.evaluate.people import SCHEMA, rows

FIDELITY = ["validity", "fidelity.columns", "fidelity.pairs"]


def test_a_measure_that_crashes_or_never_ends_takes_no_other_down_and_tells_no_cell_value(monkeypatch: Any) -> None:
    def crash(tables: Tables) -> MetricResult:
        raise KeyError("a patient's name")

    def hang(tables: Tables) -> MetricResult:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("evaluate.fidelity.columns.measure", crash)
    monkeypatch.setattr("evaluate.privacy.distance.measure", hang)
    tables = Tables.prepare(rows(300, 0), rows(200, 1), rows(250, 2), SCHEMA)
    measures = ["validity", "fidelity.columns", "privacy.distance"]
    candidate = engine.measure_candidate("a", tables, measures=measures, time_limit_s=1.0)
    failures = {failure.measure: failure for failure in candidate.failures}
    failed, late = failures["fidelity.columns"], failures["privacy.distance"]
    assert failed.reason == "failed" and "KeyError" in failed.message and "patient" not in repr(candidate)
    assert late.reason == "timed out" and "time_limit_s=1" in late.message
    assert candidate.seconds["privacy.distance"] == pytest.approx(1.0, abs=0.6)
    assert isinstance(candidate.find("validity.rows"), Estimate)


def test_the_same_seed_gives_the_same_evaluation_and_it_survives_json() -> None:
    def run(seed: int) -> Evaluation:
        result = engine.evaluate(
            rows(200, 0), rows(90, 2), holdout=rows(160, 1), schema=SCHEMA, measures=FIDELITY, seed=seed
        )
        return evaluation_from(result.to_json())

    first, second, third = run(0), run(0), run(1)
    assert first.candidates[0].estimates == second.candidates[0].estimates
    assert first.candidates[0].figures == second.candidates[0].figures
    assert first.candidates[0].estimates != third.candidates[0].estimates


RULES = {"name": "house", "version": 1, "audience": "us"}
HOUSE = build_policy({**RULES, "rules": [{"measure": "privacy.personal", "limit": 0.0, "why": "w"}]})


def test_columns_that_nobody_judged_leave_open_what_any_policy_says_until_somebody_answers(tmp_path: Path) -> None:
    left_out = {"kind": "personal", "personal": "iban", "drop": True}
    schema = build_schema({**SCHEMA.model_dump(), "columns": {**SCHEMA.model_dump()["columns"], "iban": left_out}})
    sides = [rows(100, 0).assign(iban="x"), rows(100, 1).assign(iban="x"), rows(90, 2)]
    mails = [f"p{i}@example.org" for i in range(90)]
    for columns, verdict in (({}, "PASS"), ({"iban": "x", "me\u202emo": mails}, "INCONCLUSIVE")):
        tables: list[Any] = [*sides[:2], sides[2].assign(**columns)]
        tables[2].to_parquet(tmp_path / "made.parquet")
        tables[2] = tmp_path / "made.parquet"
        real, holdout, synthetic = tables
        measured = engine.evaluate(real, synthetic, holdout=holdout, schema=schema, measures=["privacy.personal"])
        result = evaluation_from(measured.to_json())
        judged = judge_candidate(result.candidates[0], HOUSE)
        assert judged.verdict == verdict
    assert judged.findings[0].reason == (
        "The file holds 2 columns that nobody judged: 'iban', 'me\ufffdmo'; 'me\ufffdmo' looks like email; take them "
        "out of the file, declare them in the schema, or let somebody answer for them by a waiver."
    )
    waived = {"policy": "house", "version": 1, "candidate": "synthetic", "measure": UNJUDGED}
    waivers = build_waivers({"waivers": [{**waived, "owner": "A. Owner", "reason": "r", "until": "2999-12-31"}]})
    check_waivers(waivers, [HOUSE], ["synthetic"])
    assert judge_candidate(result.candidates[0], HOUSE, waivers=waivers).verdict == "PASS"


def test_what_a_library_makes_of_the_alarm_does_not_count() -> None:
    assert not issubclass(OutOfTimeError, Exception)  # of which careless libraries catch every one
    with pytest.raises(OutOfTimeError), deadline(0.1), contextlib.suppress(OutOfTimeError):
        time.sleep(5.0)


def test_real_tables_outside_the_schema_are_refused_or_clamped_as_asked() -> None:
    real, holdout, synthetic = rows(300, 0), rows(200, 1), rows(250, 2)
    real.loc[:4, "region"] = "west"
    holdout.loc[:2, "age"] = 500
    with pytest.raises(TableError, match="region"):
        engine.evaluate(real, synthetic, holdout=holdout, schema=SCHEMA)
    kept = engine.evaluate(real, synthetic, holdout=holdout, schema=SCHEMA, outside="clamp", measures=FIDELITY)
    assert {f.reason for f in kept.candidates[0].failures} <= {"skipped", "not applicable"}


def test_what_one_candidate_breaks_is_a_failure_by_its_name() -> None:
    def refused() -> int:
        raise TableError("a table must have rows")

    assert engine.attempted("acme", lambda: 3)[0] == 3
    assert engine.attempted("acme", refused)[0] == Failure("acme", "failed", "a table must have rows")
    result, _ = engine.attempted("acme", lambda: [0][1])
    assert isinstance(result, Failure)
    assert (result.measure, "IndexError" in result.message) == ("acme", True)


def test_a_holdout_that_is_the_training_table_is_refused() -> None:
    train = rows(500, 0)
    for holdout in (train, train.sample(frac=1.0, random_state=0), train.head(200)):
        with pytest.raises(EvaluationError, match="held out"):
            Tables.prepare(train, holdout, rows(300, 2), SCHEMA)


def test_train_and_holdout_swapped_never_pass() -> None:
    train, holdout = (pd.DataFrame(np.random.default_rng(i).normal(size=(600, 3)), columns=[*"xyz"]) for i in (0, 1))
    measures = ["privacy.membership", "privacy.copies"]
    candidate = engine.evaluate(holdout, train, holdout=train, measures=measures).candidates[0]
    result = candidate.find("privacy.membership.auc")
    assert isinstance(result, Failure) and "swapped" in result.message
    assert judge_candidate(candidate, load_policy("internal")).verdict != "PASS"


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

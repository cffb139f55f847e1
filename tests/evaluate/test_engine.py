import contextlib
import itertools
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate import engine
from evaluate.engine import OutOfTimeError, deadline
from evaluate.gate.policy import build_policy, build_waivers, check_waivers
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import UNJUDGED
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import MetricResult, Tables
from synth.errors import TableError
from synth.schema import build_schema

SCHEMA = build_schema(
    {
        "status": "declared",
        "target": "smoker",
        "columns": {
            "age": {"kind": "integer", "bounds": [0, 120]},
            "region": {"kind": "categorical", "categories": ["north", "south"]},
            "smoker": {"kind": "boolean"},
        },
    }
)
FIDELITY = ["validity", "fidelity.columns", "fidelity.pairs"]


def _rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    smoker = rng.random(n) < 0.4
    age = rng.integers(18, 60, n) + 20 * smoker
    return pd.DataFrame({"age": age, "region": rng.choice(["north", "south"], n), "smoker": smoker})


@pytest.fixture
def tables() -> Tables:
    return Tables.prepare(_rows(300, 0), _rows(200, 1), _rows(250, 2), SCHEMA)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry in which one measure crashes with a cell value in its message, and another never ends."""

    def crash(tables: Tables) -> MetricResult:
        raise KeyError("a patient's name")

    def hang(tables: Tables) -> MetricResult:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("evaluate.fidelity.columns.measure", crash)
    monkeypatch.setattr("evaluate.privacy.distance.measure", hang)


def failures(candidate: Candidate) -> dict[str, Failure]:
    return {failure.measure: failure for failure in candidate.failures}


def test_a_measure_that_crashes_takes_no_other_down_and_tells_no_cell_value(tables: Tables, broken: None) -> None:
    candidate = engine.measure_candidate("a", tables, measures=FIDELITY)
    failed = failures(candidate)["fidelity.columns"]
    assert failed.reason == "failed"
    assert "KeyError" in failed.message
    assert "patient" not in candidate.__repr__()
    assert isinstance(candidate.find("pairs.tvd.excess"), Estimate)
    assert isinstance(candidate.find("validity.rows"), Estimate)


def test_a_measure_that_takes_too_long_is_stopped_and_listed(tables: Tables, broken: None) -> None:
    began = time.monotonic()
    candidate = engine.measure_candidate("a", tables, measures=["validity", "privacy.distance"], time_limit_s=1.0)
    assert time.monotonic() - began < 10.0
    late = failures(candidate)["privacy.distance"]
    assert (late.reason, late.message) == ("timed out", "it did not end within the time_limit_s=1 that was asked for")
    assert candidate.seconds["privacy.distance"] == pytest.approx(1.0, abs=0.6)
    assert isinstance(candidate.find("validity.rows"), Estimate)


def test_the_same_seed_gives_the_same_evaluation_and_it_survives_json() -> None:
    def run(seed: int) -> Evaluation:
        result = engine.evaluate(
            _rows(200, 0), _rows(90, 2), holdout=_rows(160, 1), schema=SCHEMA, measures=FIDELITY, seed=seed
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
    sides = [_rows(100, 0).assign(iban="x"), _rows(100, 1).assign(iban="x"), _rows(90, 2)]
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


@pytest.fixture
def outer_alarm() -> Iterator[list[float]]:
    rung: list[float] = []
    earlier = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    left = signal.setitimer(signal.ITIMER_REAL, 0.6)
    yield rung
    signal.setitimer(signal.ITIMER_REAL, *left)
    signal.signal(signal.SIGALRM, earlier)


def test_a_deadline_gives_an_earlier_alarm_back(outer_alarm: list[float]) -> None:
    began = time.monotonic()
    with pytest.raises(OutOfTimeError), deadline(0.1):
        time.sleep(5.0)
    assert not outer_alarm
    for _ in itertools.takewhile(lambda _: not outer_alarm and time.monotonic() - began < 5.0, itertools.count()):
        time.sleep(0.02)
    assert outer_alarm[0] - began == pytest.approx(0.6, abs=0.4)


def test_a_deadline_stops_code_that_catches_every_exception() -> None:
    def stubborn() -> None:
        while True:
            try:
                time.sleep(0.01)
                raise ValueError
            except Exception:  # noqa: BLE001 (as a careless library would)
                continue

    with pytest.raises(OutOfTimeError), deadline(0.2):
        stubborn()


def test_an_error_or_half_a_result_that_a_library_makes_of_the_alarm_does_not_count() -> None:
    for built in (contextlib.suppress(OutOfTimeError), pytest.raises(OutOfTimeError)):
        with pytest.raises(OutOfTimeError), deadline(0.1), built:
            time.sleep(5.0)


def test_the_interrupt_of_a_user_stays_one_within_a_deadline() -> None:
    before = signal.getsignal(signal.SIGALRM)
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt), deadline(60.0):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert signal.getsignal(signal.SIGALRM) == before


def test_real_tables_outside_the_schema_are_refused_or_clamped_as_asked() -> None:
    real, holdout, synthetic = _rows(300, 0), _rows(200, 1), _rows(250, 2)
    real.loc[:4, "region"] = "east"
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

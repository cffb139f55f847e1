"""Models of texts: fresh texts teach what real ones do, texts dealt to other rows teach nothing."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.gate.policy import load_policy, shipped
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG
from evaluate.real_facts import Duplicates, RealFacts
from evaluate.result import Candidate, Estimate, Failure
from evaluate.tables import Real, Tables
from synth.schema import build_schema
from tests.extras.text.evaluation import spoiled
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.evaluation.utility import NAME, TSTR, WORST

N = 400
Spoil = Callable[[pd.DataFrame], pd.DataFrame]


@cache
def real() -> Real:
    return Real.prepare(complaints(N, 0), complaints(N, 1), complaint_schema())


@cache
def measured(spoil: Spoil | None = None) -> Candidate:
    honest = complaints(N, 2)
    return measure_candidate("t", real().beside(honest if spoil is None else spoil(honest)), measures=[NAME])


def number(candidate: Candidate, name: str, *subject: str) -> Estimate:
    found = candidate.find(name, subject)
    assert isinstance(found, Estimate), found
    return found


def outcome(candidate: Candidate, policy: str) -> str:
    facts = RealFacts(N, N, Duplicates(0, 0.0), 0.0, 5, texts=(TEXT,))
    verdict = judge_candidate(candidate, load_policy(policy), real=facts)
    return next(f.outcome for f in verdict.findings if f.rule.measure == WORST)


def test_fresh_texts_lose_nothing_and_dealt_ones_all() -> None:
    assert number(measured(), TSTR, TEXT, "product").value > 0.95
    lost = number(measured(spoiled.dealt), WORST)
    assert lost.low > 0.3
    assert lost.value == pytest.approx(lost.floor, abs=0.15)
    for name in shipped():
        assert outcome(measured(), name) == "PASS"
        assert outcome(measured(spoiled.dealt), name) == "FAIL"


def test_the_training_table_itself_loses_nothing_at_all() -> None:
    found = measure_candidate("t", real().beside(complaints(N, 0)), measures=[NAME])
    for one in found.estimates:
        expected = 0.0 if one.measure == WORST else one.reference
        assert one.value == pytest.approx(expected, abs=1e-9)


def test_a_column_of_which_texts_tell_nothing_is_none_that_is_lost() -> None:
    score = number(measured(spoiled.dealt), TSTR, TEXT, "amount")
    assert abs(score.reference - score.value) < 0.15
    assert "'amount'" not in number(measured(spoiled.dealt), WORST).note


def test_missing_texts_are_left_out_and_missing_values_are_one_of_a_column() -> None:
    schema = complaint_schema(missing=True)
    content = schema.model_dump(exclude_unset=True)
    content["columns"]["channel"]["missing"] = True
    schema = build_schema(content)
    parts = []
    for seed in range(3):
        rng, table = np.random.default_rng(seed), complaints(N, seed)
        gone = rng.random((2, N)) < 0.3
        parts.append(table.assign(channel=table["channel"].mask(gone[0], None), complaint=table[TEXT].mask(gone[1])))
    found = measure_candidate("t", Tables.prepare(*parts, schema), measures=[NAME])
    asked, whole = number(found, TSTR, TEXT, "channel"), number(found, TSTR, TEXT, "product")
    assert 0.55 * N / 2 < asked.n == whole.n < 0.85 * N / 2
    assert whole.value > 0.9
    assert asked.value == pytest.approx(asked.reference, abs=0.1)


def test_few_texts_are_no_evidence() -> None:
    tables = Tables.prepare(*(complaints(60, seed) for seed in range(3)), complaint_schema())
    assert isinstance(measure_candidate("t", tables, measures=[NAME]).find(WORST), Failure)


def test_every_number_has_both_landmarks_and_its_place_in_the_catalog() -> None:
    for one in measured().estimates:
        assert CATALOG[one.measure].by == NAME
        assert CATALOG[one.measure].needs == "texts"
        assert one.low is not None
        assert one.low <= one.value <= one.high
        assert None not in (one.reference, one.floor)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_interval_of_the_worst_loss_holds_the_losses_of_all_columns(share: float) -> None:
    """A share of texts is dealt to other rows: the worst of the mean losses lies in 93 of 100 intervals."""
    worst, gaps = list[Estimate](), dict[tuple[str, ...], list[float]]()
    for seed in range(40):
        table, n = complaints(300, 10 * seed + 2), int(300 * share)
        table = pd.concat([spoiled.dealt(table.iloc[:n]), table.iloc[n:]], ignore_index=True)
        parts = complaints(600, 10 * seed), complaints(600, 10 * seed + 1), table
        now = measure_candidate("t", Tables.prepare(*parts, complaint_schema(), seed=seed), measures=[NAME])
        worst.append(number(now, WORST))
        for one in now.estimates:
            if one.measure == TSTR:
                gaps.setdefault(one.subject, []).append(one.reference - one.value)
    truth = max(np.mean(each) for each in gaps.values())
    covered = np.mean([one.low <= truth <= one.high for one in worst])
    assert covered >= 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / 40)

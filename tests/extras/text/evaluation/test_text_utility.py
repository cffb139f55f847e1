"""Models of texts: fresh texts teach what real ones do, texts dealt to other rows teach nothing."""

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.gate.policy import shipped
from evaluate.result import Estimate
from evaluate.tables import Tables
from synth.schema import build_schema
from tests.extras.text.evaluation import spoiled
from tests.extras.text.evaluation.spoiled import N, measured, number, outcomes, real
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.evaluation.utility import NAME, TSTR, WORST


def test_fresh_texts_lose_nothing_and_dealt_ones_all() -> None:
    assert number(measured(NAME), TSTR, TEXT, "product").value > 0.95
    lost = number(measured(NAME, spoiled.dealt), WORST)
    assert lost.low > 0.3
    assert lost.value == pytest.approx(lost.floor, abs=0.15)
    for name in shipped():
        assert outcomes(measured(NAME), name, NAME)[WORST] == "PASS"
        assert outcomes(measured(NAME, spoiled.dealt), name, NAME)[WORST] == "FAIL"


def test_the_training_table_itself_loses_nothing_at_all() -> None:
    found = measure_candidate("t", real().beside(complaints(N, 0)), measures=[NAME])
    for one in found.estimates:
        expected = 0.0 if one.measure == WORST else one.reference
        assert one.value == pytest.approx(expected, abs=1e-9)


def test_a_column_of_which_texts_tell_nothing_is_none_that_is_lost() -> None:
    score = number(measured(NAME, spoiled.dealt), TSTR, TEXT, "amount")
    assert abs(score.reference - score.value) < 0.15
    assert "'amount'" not in number(measured(NAME, spoiled.dealt), WORST).note


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

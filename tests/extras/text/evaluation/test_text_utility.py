"""Models of texts: fresh texts teach what real ones do, texts dealt to other rows teach nothing."""

import numpy as np
import pandas as pd
import pytest

from evaluate.gate.policy import shipped
from evaluate.result import Estimate
from evaluate.tables import Tables
from tests.extras.text.evaluation import spoiled
from tests.extras.text.evaluation.spoiled import N, measured, number, outcomes, real
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.evaluation.fidelity import largest
from understudy.extras.text.evaluation.utility import NAME, WORST, column_losses


def loss(tables: Tables, column: str) -> Estimate:
    return next(each for each in column_losses(tables) if each.subject == (TEXT, column))


def test_fresh_texts_lose_nothing_and_dealt_ones_all() -> None:
    kept = loss(real().beside(complaints(N, 2)), "product")
    assert kept.floor > 0.9
    assert kept.value < 0.05
    lost = number(measured(NAME, spoiled.dealt), WORST)
    assert lost.low > 0.3
    assert lost.value == pytest.approx(lost.floor, abs=0.15)
    for name in shipped():
        assert outcomes(measured(NAME), name, NAME)[WORST] == "PASS"
        assert outcomes(measured(NAME, spoiled.dealt), name, NAME)[WORST] == "FAIL"


def test_the_training_table_itself_loses_nothing_at_all() -> None:
    assert [each.value for each in column_losses(real().beside(complaints(N, 0)))] == pytest.approx([0.0] * 4, abs=1e-9)


@pytest.mark.statistical
def test_the_interval_of_the_worst_loss_holds_the_losses_of_all_columns() -> None:
    """A share of texts is dealt to other rows: the worst of the mean losses lies in 93 of 100 intervals."""
    share = 0.4
    worst, gaps = list[Estimate](), dict[tuple[str, ...], list[float]]()
    for seed in range(40):
        table, n = complaints(300, 10 * seed + 2), int(300 * share)
        table = pd.concat([spoiled.dealt(table.iloc[:n]), table.iloc[n:]], ignore_index=True)
        parts = complaints(600, 10 * seed), complaints(600, 10 * seed + 1), table
        losses = column_losses(Tables.prepare(*parts, complaint_schema(), seed=seed))
        worst.append(largest(losses))
        for estimate in losses:
            gaps.setdefault(estimate.subject, []).append(estimate.value)
    truth = max(np.mean(each) for each in gaps.values())
    covered = np.mean([estimate.low <= truth <= estimate.high for estimate in worst])
    assert covered >= 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / 40)

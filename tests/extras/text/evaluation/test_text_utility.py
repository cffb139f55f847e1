"""Models of texts: fresh texts teach what real ones do, texts dealt to other rows teach nothing."""

import pytest

from evaluate.gate.policy import shipped
from evaluate.result import Estimate
from evaluate.tables import Tables
from tests.extras.text.evaluation import spoiled
from tests.extras.text.evaluation.spoiled import N, measured, number, outcomes, real
from tests.text_tables import TEXT, complaints
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

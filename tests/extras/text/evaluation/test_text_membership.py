"""Membership by texts: a copy of train is told, another draw is not."""

import pandas as pd

from evaluate.engine import measure_candidate
from evaluate.result import Candidate
from evaluate.tables import Real
from tests.extras.text.evaluation.spoiled import number
from tests.text_tables import complaint_schema, complaints
from understudy.extras.text.evaluation.membership import AUC, NAME, TPR


def measured(table: pd.DataFrame, n: int = 1_500) -> Candidate:
    base = Real.prepare(complaints(n, 1), complaints(n, 2), complaint_schema())
    return measure_candidate("t", base.beside(table), measures=[NAME])


def test_another_draw_tells_nothing_of_its_writers() -> None:
    candidate = measured(complaints(1_500, 3))
    auc, rate = (number(candidate, name) for name in (AUC, TPR))
    assert auc.low < 0.5 < auc.high
    assert rate.low < 0.01 < rate.high


def test_a_copy_of_train_names_its_writers() -> None:
    candidate = measured(complaints(1_500, 1))
    assert number(candidate, AUC).low > 0.6
    assert number(candidate, TPR).low > 0.03

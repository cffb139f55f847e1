"""Membership by texts: a copy of train is told, another draw is not, and a model that memorizes is told by its loss."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate_beside, measure_candidate
from evaluate.gate.finding import bounded
from evaluate.metrics import CATALOG, GATEABLE
from evaluate.privacy.texts.membership import BY_LOSS, BY_TEXTS, NAME, TextLosses
from evaluate.result import Candidate, Estimate, Failure
from evaluate.tables import Real, TextScorer
from synth.schema import build_schema
from tests.text_tables import TEXT, complaint_schema, complaints

Scorer = Callable[[str, pd.DataFrame], np.ndarray]


def memorizing(train: pd.DataFrame) -> Scorer:
    """The loss of a model that knows the training texts by heart, but for noise."""
    known, rng = set(train[TEXT]), np.random.default_rng(0)

    def score(column: str, rows: pd.DataFrame) -> np.ndarray:
        return np.array([0.4 if text in known else 1.0 for text in rows[column]]) + rng.normal(0, 0.1, len(rows))

    return score


def measured(table: pd.DataFrame, scorer: TextScorer | None = None, n: int = 1_500, seed: int = 0) -> Candidate:
    of = Real.prepare(complaints(n, 1), complaints(n, 2), complaint_schema(), seed=seed)
    return measure_candidate("t", of.beside(table, None, scorer), measures=[NAME])


def number(of: Candidate, name: str) -> Estimate:
    found = of.find(name)
    assert isinstance(found, Estimate), found
    return found


def test_another_draw_tells_nothing_of_its_writers() -> None:
    found = measured(complaints(1_500, 3))
    auc, rate = (number(found, f"{BY_TEXTS}.{of}") for of in ("auc", "tpr_at_0.01"))
    assert auc.low < 0.5 < auc.high
    assert rate.low < 0.01 < rate.high


def test_a_copy_of_train_names_its_writers() -> None:
    found = measured(complaints(1_500, 1))
    assert number(found, f"{BY_TEXTS}.auc").low > 0.6
    assert number(found, f"{BY_TEXTS}.tpr_at_0.01").low > 0.03


def test_without_the_model_its_loss_is_left_out_and_nothing_else() -> None:
    found = measured(complaints(1_500, 3))
    left = {f.measure for f in found.failures if f.reason == "skipped" and f.measure.startswith(BY_LOSS)}
    assert left == {f"{BY_LOSS}.auc", f"{BY_LOSS}.tpr_at_0.01"}
    assert left <= GATEABLE.keys()


def test_a_model_that_memorizes_is_told_by_its_loss_though_its_table_is_honest() -> None:
    found = measured(complaints(1_500, 3), memorizing(complaints(1_500, 1)))
    assert number(found, f"{BY_LOSS}.auc").low > 0.75
    assert number(found, f"{BY_LOSS}.tpr_at_0.01").low > 0.05
    assert number(found, f"{BY_TEXTS}.auc").low < 0.5


def test_a_model_that_knows_no_text_better_than_another_is_not_told() -> None:
    found = measured(complaints(1_500, 3), memorizing(complaints(10, 99)))
    auc = number(found, f"{BY_LOSS}.auc")
    assert auc.low < 0.5 < auc.high


def test_the_scorer_of_a_table_is_handed_in_by_its_name() -> None:
    train = complaints(400, 1)
    of = Real.prepare(train, complaints(300, 2), complaint_schema())
    tables = {"with": complaints(400, 3), "without": complaints(400, 4)}
    found = evaluate_beside(of, tables, measures=[NAME], scorers={"with": memorizing(train)}, self_tested=False)
    given = {one.name: isinstance(one.find(f"{BY_LOSS}.auc"), Estimate) for one in found.candidates}
    assert given == {"with": True, "without": False}


def test_a_scorer_that_gives_no_loss_for_some_row_fails_alone() -> None:
    with pytest.raises(ValueError, match="one loss for each row"):
        TextLosses.of(lambda _, rows: np.zeros(len(rows) - 1), complaints(20, 0), complaints(20, 1), (TEXT,))
    found = measured(complaints(1_500, 3), lambda _, rows: np.zeros(3))
    failed = found.find(f"{BY_LOSS}.auc")
    assert isinstance(failed, Failure)
    assert failed.reason == "failed"


def test_a_target_is_an_entity_with_its_texts() -> None:
    content = complaint_schema().model_dump()
    columns = {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **content["columns"]}
    schema = build_schema({**content, "columns": columns, "entity": "person"})
    parts = [complaints(1_500, at).assign(person=np.arange(1_500) // 3 + 10_000 * at) for at in (1, 2)]
    copied = parts[0].assign(person=parts[0]["person"] + 900_000)
    found = measure_candidate("t", Real.prepare(*parts, schema).beside(copied), measures=[NAME])
    auc = number(found, f"{BY_TEXTS}.auc")
    assert 700 < auc.n < 800  # 500 people, and about half of 500 others
    assert auc.low > 0.6


def test_a_privacy_claim_limits_these_numbers() -> None:
    names = [name for name in CATALOG if name.startswith((BY_TEXTS, BY_LOSS)) and CATALOG[name].by == NAME]
    assert len(names) == 4
    assert all(bounded(name) for name in names)
    assert not bounded("privacy.texts.copied")


@pytest.mark.statistical
def test_intervals_hold_what_chance_gives_in_honest_tables() -> None:
    """At most five of 40 intervals of 95% miss: 2 are to be expected, with a standard error of 1.4."""
    missed = {"auc": 0, "tpr_at_0.01": 0}
    for seed in range(40):
        parts = [complaints(800, 3 * seed + 100 + at) for at in range(3)]
        of = Real.prepare(parts[0], parts[1], complaint_schema(), seed=seed)
        found = measure_candidate("t", of.beside(parts[2]), measures=[NAME])
        for end, chance in (("auc", 0.5), ("tpr_at_0.01", 0.01)):
            one = number(found, f"{BY_TEXTS}.{end}")
            missed[end] += not one.low <= chance <= one.high
    assert max(missed.values()) <= 5, missed

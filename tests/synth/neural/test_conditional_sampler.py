"""Training by sampling: what is asked for follows log-frequencies, and what answers meets it evenly."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from synth.neural.ctgan import ConditionIndex
from synth.transforms.layout import Encoded, Layout, Span

CPU = torch.device("cpu")
LAYOUT = Layout((Span("a", 4, whole=True), Span("number", 3, whole=False), Span("b", 3, whole=True)), ("number",))
FALSE_ALARM = 1e-5
"""Of each chi-square test below; seeds are fixed."""
N_DRAWS = 40_000


def _table(n: int = 300) -> Encoded:
    """Code 2 of `a` and the last of `b` never occur; the first of `b` does once, in row 17."""
    rng = np.random.default_rng(0)
    a = rng.choice([0, 1, 3], n, p=[0.9, 0.08, 0.02])
    b = np.ones(n, dtype=np.int64)
    b[17] = 0
    codes = np.stack([a, rng.integers(0, 3, n), b], 1).astype(np.int32)
    return Encoded(codes, np.zeros((n, 1), np.float32))


@pytest.fixture
def conditions() -> ConditionIndex:
    return ConditionIndex.of(_table(), LAYOUT, CPU)


def _drawn(conditions: ConditionIndex, n: int = N_DRAWS) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return conditions.draw(n)


def test_conditions_name_the_codes_of_whole_spans_only(conditions: ConditionIndex) -> None:
    assert conditions.width == 7
    assert conditions.spans.tolist() == [0, 2]
    assert conditions.span_of.tolist() == [0, 0, 0, 0, 2, 2, 2]
    assert conditions.place_of.tolist() == [0, 1, 2, 3, 7, 8, 9]


def test_columns_are_drawn_evenly_and_codes_by_the_logarithm_of_how_often_they_occur(
    conditions: ConditionIndex,
) -> None:
    drawn, column = _drawn(conditions)
    weights = torch.log1p(conditions.n_rows.double())
    shares = torch.cat([part / part.sum() / 2 for part in weights.split([4, 3])])
    found = torch.bincount(drawn, minlength=7)
    assert found[shares == 0].sum() == 0
    assert chisquare(found[shares > 0], (shares * N_DRAWS)[shares > 0]).pvalue > FALSE_ALARM
    assert torch.equal(conditions.spans[column], conditions.span_of[drawn])


@pytest.mark.parametrize("share", [0.0, 1 - 2.0**-53])
def test_no_code_that_never_occurs_is_asked_for_at_either_end(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = ConditionIndex.of(_table(), LAYOUT, CPU)
    monkeypatch.setattr(torch, "rand", lambda n, **like: torch.full((n,), share, **like))
    drawn, column = conditions.draw(100)
    assert set(column.tolist()) == {0, 1}
    assert torch.equal(conditions.spans[column], conditions.span_of[drawn])
    assert (conditions.n_rows[drawn] > 0).all()
    rows = conditions.matching(drawn)
    assert ((rows >= 0) & (rows < 300)).all()


def test_rows_meet_what_was_asked_of_them(conditions: ConditionIndex) -> None:
    table, (drawn, _) = _table(), _drawn(conditions)
    rows = conditions.matching(drawn)
    found = torch.from_numpy(table.codes)[rows].gather(1, conditions.span_of[drawn][:, None]).squeeze(1)
    offsets = torch.from_numpy(LAYOUT.offsets)[conditions.span_of[drawn]]
    assert torch.equal(found + offsets, conditions.place_of[drawn])


@pytest.mark.parametrize("condition", [0, 1, 3, 5])
def test_every_row_that_meets_a_condition_is_as_likely(condition: int, conditions: ConditionIndex) -> None:
    place = int(conditions.place_of[condition])
    span = int(conditions.span_of[condition])
    meet = np.flatnonzero(_table().codes[:, span] == place - LAYOUT.offsets[span])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        rows = conditions.matching(torch.full((N_DRAWS,), condition))
    found = np.bincount(rows.numpy(), minlength=300)
    assert found.sum() == found[meet].sum()
    assert chisquare(found[meet]).pvalue > FALSE_ALARM


def test_the_one_row_of_a_rare_code_always_answers_for_it(conditions: ConditionIndex) -> None:
    assert conditions.matching(torch.full((50,), 4)).unique().tolist() == [17]


def test_one_hot_rows_say_their_conditions(conditions: ConditionIndex) -> None:
    hot = conditions.one_hot(torch.arange(7))
    assert torch.equal(hot, torch.eye(7))


def test_a_table_without_whole_spans_has_no_conditions() -> None:
    layout = Layout((Span("number", 3, whole=False),), ("number",))
    encoded = Encoded(np.zeros((5, 1), np.int32), np.zeros((5, 1), np.float32))
    conditions = ConditionIndex.of(encoded, layout, CPU)
    assert conditions.width == 0
    assert len(conditions.rows) == 0


def test_a_column_of_one_code_always_asks_for_it() -> None:
    layout = Layout((Span("only", 1, whole=True),))
    conditions = ConditionIndex.of(Encoded(np.zeros((5, 1), np.int32), np.zeros((5, 0), np.float32)), layout, CPU)
    assert conditions.draw(20)[0].unique().tolist() == [0]
    assert set(conditions.matching(torch.zeros(200, dtype=torch.int64)).tolist()) == set(range(5))


@pytest.mark.parametrize("at_once", [1, 7, 100, 300, 1000])
def test_rows_are_sorted_alike_however_many_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.neural.ctgan.SORTED_ROWS", at_once)
    found = ConditionIndex.of(_table(), LAYOUT, CPU)
    expected = [np.argsort(_table().codes[:, index], kind="stable") for index in LAYOUT.whole]
    assert found.rows.tolist() == np.concatenate(expected).tolist()
    counts = [np.bincount(_table().codes[:, index], minlength=LAYOUT.sizes[index]) for index in LAYOUT.whole]
    assert found.n_rows.tolist() == np.concatenate(counts).tolist()

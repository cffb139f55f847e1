"""Numbers that would be misread: shares beyond one, distances below that of fresh rows, losses that look smaller."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate.result import Estimate
from evaluate.text import loss
from reports.glossary import better, reading, shown


def lost(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate("pairs.dependence.floor_share", value, 100, "lower", low=low, high=high, reference=0.0, floor=1.0)


def test_more_than_all_is_not_called_better() -> None:
    most = Estimate("privacy.multiset", 1.458, 100, "higher", low=1.4, high=1.5)
    assert reading(most).startswith("Above 1 is not better than 1")
    assert reading(Estimate("privacy.multiset", 1.01, 100, "higher", low=0.98, high=1.04)) == ""
    assert "higher is better" not in better("privacy.multiset", "higher")
    assert reading(lost(1.4, 1.2, 1.6)).startswith("Above 1, relations are made up")
    assert reading(lost(1.1, 0.4, 1.9)) == ""


def test_what_reads_itself_is_left_alone() -> None:
    assert reading(lost(0.4, 0.3, 0.5)) == ""
    assert reading(Estimate("columns.tvd.excess", 2.0, 10, "lower")) == ""
    assert reading(None) == ""


@given(st.floats(min_value=1e-300, max_value=1e6))
def test_a_privacy_loss_is_never_understated(value: float) -> None:
    written = float(loss(value).replace("\u2212", "-"))
    assert value * (1 - 1e-12) <= written <= value * 1.0101


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.99995, "1"), (1.0001, "1.01"), (0.1 + 0.2, "0.3"), (math.inf, "unbounded"), ("a <b>", "a <b>"), (None, "None")],
)
def test_a_privacy_loss_as_text(value: object, text: str) -> None:
    assert loss(value) == text


def test_a_claimed_epsilon_is_rounded_up_and_a_measured_number_to_the_nearest() -> None:
    assert shown(Estimate("statement.epsilon", 1.0724, 0, "lower")) == "1.08"
    assert shown(Estimate("columns.tvd.excess", 0.1724, 10, "lower")) == "0.172"

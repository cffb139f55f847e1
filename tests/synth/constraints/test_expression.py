"""Expressions against Python's own arithmetic, and texts that are no expressions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.constraints.expression import MAX_LENGTH, MAX_NESTING, evaluate, names, parse

COLUMNS = {"a": 3.0, "b": -0.5, "c": 7.0}
LEAVES = st.one_of(st.sampled_from(sorted(COLUMNS)), st.integers(0, 9).map(str), st.sampled_from(["0.25", "1e2", ".5"]))
TEXTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", " * ", "/"]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=8,
)


def value(text: str, **columns: float) -> float:
    return float(evaluate(parse(text), {name: np.array(v) for name, v in columns.items()}))


@given(TEXTS)
def test_an_expression_means_what_python_says_it_means(text: str) -> None:
    try:
        expected = float(eval(text, {"__builtins__": {}}, COLUMNS))
    except ZeroDivisionError:
        expected = math.nan
    assert value(text, **COLUMNS) == pytest.approx(expected, nan_ok=True)


def test_names_that_are_no_plain_words_stand_in_backticks() -> None:
    assert list(names(parse("`capital-gain` - `a``b` * größe - `capital-gain`"))) == [
        "capital-gain", "a`b", "größe", "capital-gain",
    ]  # fmt: skip


def test_missing_operands_and_divisors_of_zero_give_missing_values() -> None:
    values = {"a": np.array([1.0, np.nan, 1.0, 0.0]), "b": np.array([2.0, 1.0, 0.0, 0.0])}
    assert np.isnan(evaluate(parse("a / b"), values)).tolist() == [False, True, True, True]
    assert np.isnan(evaluate(parse("1 / (a / b)"), values)).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "a b", "a +", "* a", "(a", "a)", "a ** b", "a // b", "a % b", "f(a)", "a.b", "a[0]", "a = b", "`a",
        "``", "a if b else c", "lambda: a", "__import__('os')", "a; b", "a\x00", "1e999", "1_0", "$a", "a, b",
    ],
)  # fmt: skip
def test_a_text_that_is_no_expression_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expression=.*; ") as refused:
        parse(text)
    assert not str(refused.value).endswith(".")


@pytest.mark.parametrize("text", ["(" * 60 + "a" + ")" * 60, "-" * 60 + "a", "a+" * MAX_LENGTH + "a"])
def test_an_expression_that_would_exhaust_the_stack_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="second formula"):
        parse(text)


def test_the_longest_and_the_deepest_expression_are_computed() -> None:
    longest = "a" + "+a" * (MAX_LENGTH // 2 - 1)
    assert value(longest, a=1.0) == MAX_LENGTH // 2
    assert value("(" * MAX_NESTING + "a" + ")" * MAX_NESTING, a=2.0) == 2.0

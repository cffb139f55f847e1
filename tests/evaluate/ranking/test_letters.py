"""Two tables share a letter if and only if nothing tells them apart."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from evaluate.multiple_testing import holm, letters

NAMES = ["a", "b", "c", "d", "e", "f"]
PAIRS = list(itertools.combinations(NAMES, 2))


@given(st.sets(st.sampled_from(PAIRS)))
def test_letters_say_exactly_which_tables_are_told_apart(apart: set[tuple[str, str]]) -> None:
    shown = letters(NAMES, sorted(apart))
    for pair in PAIRS:
        assert bool(set(shown[pair[0]]) & set(shown[pair[1]])) == (pair not in apart)


@given(st.sets(st.sampled_from(PAIRS)))
def test_no_letter_says_what_another_says_too(apart: set[tuple[str, str]]) -> None:
    shown = letters(NAMES, sorted(apart))
    groups = [{name for name in NAMES if letter in shown[name]} for letter in set("".join(shown.values()))]
    assert not any(each < other for each in groups for other in groups)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_adjusted_p_values_lie_between_plain_ones_and_bonferroni(p: list[float]) -> None:
    for plain, adjusted in zip(p, holm(p), strict=True):
        assert plain <= adjusted <= min(1.0, plain * len(p)) + 1e-12

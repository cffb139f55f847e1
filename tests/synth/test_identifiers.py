"""Identifiers: distinct, in their declared format, and not from the real table."""

import re

import numpy as np
import pytest

from synth.columns import IdentifierColumn
from synth.errors import SchemaError
from synth.identifiers import capacity, generate

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("template", "pattern"),
    [
        ("P-####", r"P-\d{4}"),
        ("AAaa##", r"[A-Z]{2}[a-z]{2}\d{2}"),
        (r"\A-\##", r"A-#\d"),
        ("xxxxxxxx-xxxx", r"[0-9a-f]{8}-[0-9a-f]{4}"),
        ("0##", r"0\d\d"),
    ],
)
def test_identifiers_follow_their_template_and_are_distinct(template: str, pattern: str) -> None:
    made = generate(IdentifierColumn(template=template), 9, RNG)
    assert all(re.fullmatch(pattern, text) for text in made)
    assert len(set(made)) == 9


def test_integer_identifiers_are_distinct_and_within_bounds() -> None:
    made = generate(IdentifierColumn(bounds=(135, 2**60)), 1000, RNG)
    assert made.dtype == np.int64
    assert len(set(made)) == 1000
    assert made.min() >= 135


def test_a_format_can_be_used_up_but_not_exceeded() -> None:
    for column in (IdentifierColumn(template="A#"), IdentifierColumn(bounds=(1, 260))):
        assert len(set(generate(column, 260, RNG))) == capacity(column) == 260
        with pytest.raises(SchemaError, match="room for 260"):
            generate(column, 261, RNG)

"""How many values of personal data, made anew, are real by mere chance, and how many are too many for that."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from evaluate.privacy.likeness import likenesses
from synth import identifiers, personal
from synth.columns import IdentifierColumn, PersonalColumn
from synth.personal.replacement import templates_of

RARE = 1e-3
"""Matches by chance, expected in the whole table, below which a match is no chance."""
_WIDE = 1.25
"""How much more chance is granted than is expected, which is known from draws only."""
_NUMBERS = ("phone", "account_number", "national_id")
_DRAWS = 2_000


def expected(
    column: IdentifierColumn | PersonalColumn, real: frozenset[str], n: int, rng: np.random.Generator
) -> float:
    """How many of so many values made anew would be real: real ones that have a form, by what the form holds.

    Of numbers only; other personal data is as good as never made twice.

    Args:
        column: what is made.
        real: *Sensitive*. What the real values are compared by.
        n: values that are made, at least one.
        rng: source of the draws that show which characters stand where.

    >>> column = PersonalColumn(personal="phone", template="555-01##")
    >>> round(expected(column, frozenset({"5550123", "5559123"}), 50, np.random.default_rng(0)), 6)
    0.5
    """
    if isinstance(column, IdentifierColumn):
        return n * len(real) / identifiers.capacity(column)
    if column.personal not in _NUMBERS:
        return 0.0
    plain = column.model_copy(update={"unique": False, "missing_share": 0.0})
    forms = [plain.model_copy(update={"template": template}) for template in templates_of(column)] or [plain]
    drawn = [
        likenesses(pd.Series(personal.generate(form, _DRAWS, rng), dtype=object), column.personal) for form in forms
    ]
    return n * float(np.mean([_chance([text for text in texts if text], real) for texts in drawn]))


def too_many(hits: int, by_chance: float) -> bool:
    """Whether chance does not explain that so many different values are real.

    >>> too_many(1, 1e-5), too_many(1, 0.02), too_many(90, 0.02), too_many(110, 100.0)
    (True, False, True, False)
    """
    if by_chance < RARE or hits == 0:
        return hits > 0
    from scipy.stats import poisson

    return bool(poisson.sf(hits - 1, _WIDE * by_chance) < RARE**2)


def _chance(drawn: Sequence[str], real: frozenset[str]) -> float:
    """The chance that one more value is real, its characters as in the drawn ones of its length."""
    by_length = defaultdict(list)
    for text in drawn:
        by_length[len(text)].append(text)
    chance = 0.0
    for length, texts in by_length.items():
        admitted = [set(characters) for characters in zip(*texts, strict=True)]
        fitting = sum(
            len(value) == length and all(c in among for c, among in zip(value, admitted, strict=True)) for value in real
        )
        chance += len(texts) / len(drawn) * fitting / math.prod(map(len, admitted))
    return chance

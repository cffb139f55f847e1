"""The template that a column of identifiers follows."""

import re
from collections.abc import Sequence

from synth.identifiers import ALPHABETS

_ORDER = ("#", "A", "a", "x", "X")
"""From the narrowest alphabet to the widest."""
_LONGEST = 80
_NUMBER = re.compile(r"[0-9]*#[0-9#]*")
"""A run of digits of which one varies: all of them do, or there would be no room for new numbers."""


def template_of(texts: Sequence[str]) -> str | None:
    """The narrowest template that all texts follow, or none where they follow none.

    Args:
        texts: *Sensitive*. Distinct texts.

    >>> template_of(["P-0172", "P-9401"])
    'P-####'
    """
    lengths = {len(text) for text in texts}
    if len(lengths) != 1 or not 0 < max(lengths) <= _LONGEST:
        return None
    marks = [_mark(set(characters)) for characters in zip(*texts, strict=True)]
    if None in marks or not any(mark in ALPHABETS for mark in marks):
        return None
    return _NUMBER.sub(lambda run: "#" * len(run.group()), "".join(mark for mark in marks if mark is not None))


def _mark(characters: set[str]) -> str | None:
    if len(characters) == 1:
        character = next(iter(characters))
        return f"\\{character}" if character in ALPHABETS or character == "\\" else character
    return next((mark for mark in _ORDER if characters <= set(ALPHABETS[mark])), None)

"""Texts that stand for a missing value: words such as ``NA`` and ``?`` among numbers or times."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from synth.infer import numeric, temporal
from synth.table.cells import RawColumn

TOKENS = frozenset({
    "n", "na", "n/a", "n.a.", "n.a", "<na>", "#n/a", "nan", "null", "(null)", "\\n", "none", "nil", "nd", "missing",
    "(missing)", "unknown", "unk", "undefined", "unspecified", "?", "??", "-", "--", "---", ".", "..", "...", "*",
    "not available", "not applicable", "not reported", "not known", "no data",
})  # fmt: skip
"""Words that people write where there is nothing, in lower case."""
LEAST_VALUES = 2
"""Different values beside such a text that say what a column holds."""


def missing_texts_of(
    looked: Mapping[str, RawColumn], said: Collection[str], readable: Collection[str], roles: Collection[str]
) -> tuple[str, ...]:
    """Texts of a table that stand for a missing value, most frequent first; the empty one where there is nothing.

    A word says that nothing is there if all other texts of its column are numbers, or times. It then says so in every
    column. Among texts alone a word is a category like others. It is one everywhere where it is a value of the target
    or of the entity, and these hold texts.

    Args:
        looked: *Sensitive*. Every column, by name.
        said: texts that the user says stand for a missing value.
        readable: names of the columns in which numbers and times are looked for.
        roles: names of the target and the entity.
    """
    used = {name: _used(given) for name, given in looked.items() if given.form == "text"}
    found, values = set[str](), set[str]()
    for name, texts in used.items():
        words = {text for text in texts if text.strip().lower() in TOKENS or text in said}
        if name in readable and words and _tells(sorted(texts - words)):
            found |= words
        elif name in roles:
            values |= words
    tokens = (found - values) | set(said)
    counts = Counter[str]()
    for given in looked.values():
        if given.form == "text":
            counts.update({text: n for text, n in _counts(given).items() if text in tokens})
        counts[""] += int(given.missing_rows.sum())
    if not tokens:
        return ("",)
    known = [text for text in (*sorted(tokens), "") if counts[text] or text in said]
    return tuple(sorted(dict.fromkeys(known), key=lambda text: -counts[text]))


def numbers_beside(given: RawColumn, tokens: Collection[str]) -> bool:
    """True if a column of texts holds numbers and texts that stand for a missing value."""
    if given.form != "text":
        return False
    texts = _used(given)
    others = sorted(texts - {*tokens})
    return 0 < len(others) < len(texts) and numeric.are_numbers(others)


def without(given: RawColumn, tokens: Collection[str]) -> RawColumn:
    """A column of texts in which those that stand for a missing value are missing."""
    absent = np.fromiter((text in tokens for text in given.cells), dtype=bool, count=len(given.cells))
    return replace(given, missing=given.missing | absent)


def _tells(texts: list[str]) -> bool:
    """True if texts are all numbers, or all times."""
    return len(texts) >= LEAST_VALUES and (numeric.are_numbers(texts) or temporal.are_times(texts))


def _counts(given: RawColumn) -> Counter[str]:
    """Rows of each text."""
    codes = np.arange(len(given.cells)) if given.codes is None else given.codes
    n_rows: list[int] = np.bincount(codes[codes >= 0], minlength=len(given.cells)).tolist()
    counts: Counter[str] = Counter()
    for text, n in zip(given.cells.tolist(), n_rows, strict=True):
        counts[text] += n
    return counts


def _used(given: RawColumn) -> set[str]:
    return {text for text, n in _counts(given).items() if n and text}

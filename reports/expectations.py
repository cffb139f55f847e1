"""What was expected of a private fit from public facts, beside what was measured on its table."""

from dataclasses import dataclass

from evaluate.result import Candidate, Estimate
from evaluate.text import amount, number

DASH = "\u2014"
COLUMNS, PAIRS = "columns.tvd.mean", "pairs.tvd.mean"
LARGEST = 1e9
"""No error and no time in seconds is larger: a longer number would not be read."""


@dataclass(frozen=True)
class Expectation:
    """One line: what, expected and measured, each ready to be shown."""

    what: str
    note: str
    expected: str
    measured: str


def expectations(candidate: Candidate) -> tuple[Expectation, ...]:
    """The lines of one candidate, whose file may come from anyone; none where nothing was expected."""
    expected = candidate.expected or {}
    column, tree, pair, seconds = (
        amount(expected.get(name), LARGEST) for name in ("column", "tree", "pair", "seconds")
    )
    lines = []
    if column is not None:
        note = "mean total variation, against the training rows"
        lines.append(Expectation("A column", note, number(column), _measured(candidate, COLUMNS)))
    if tree is not None and pair is not None:
        note = "a small pair to a typical one; measured: mean over all pairs"
        low, high = sorted((tree, pair))
        shown = number(low) if low == high else f"{number(low)} to {number(high)}"
        lines.append(Expectation("A pair of columns", note, shown, _measured(candidate, PAIRS)))
    if seconds is not None:
        took = amount(candidate.seconds.get("fit"), LARGEST)
        shown = DASH if took is None else f"{number(took, 1)} s"
        lines.append(Expectation("The fit", "of one core; measured: by the clock", f"{number(seconds, 1)} s", shown))
    return tuple(lines)


def _measured(candidate: Candidate, measure: str) -> str:
    found = candidate.find(measure)
    return number(found.value) if isinstance(found, Estimate) else DASH

"""Cases of self-tests: tables that must fail on what they spoil. Extras bring more by the registry kind "self-test"."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from evaluate.result import CASES, Case
from synth import extras

COPIED = 0.05  # Share of training rows among honest ones in the self-test of some copies
_BETWEEN = ("pairs.", "triples.", "joint.")  # Of fidelity, what looks at several columns: each alone is right
_INDEPENDENT = "The columns are nearly independent, or the table is too small, to tell."


@dataclass(frozen=True)
class SpoiledCase:
    """A case in words, with the beginnings of the numbers that must show it, beside those whose `Metric.spoiled_by`
    says so. Of an extra, `spoil` makes the table of the real rows (`evaluate.tables.Real`), where the schema has what
    it `needs`, and `measure` measures it. Some rules are right to pass a `subtle` case.
    """

    title: str
    text: str
    subject: str
    silent: str
    families: tuple[str, ...] = ()
    subtle: bool = False
    needs: str = ""
    measure: str = ""
    spoil: Callable[[Any], Any] = attrgetter("train")


OURS: Mapping[Case, SpoiledCase] = {
    "copy": SpoiledCase(
        "A copy of the training table must fail on privacy", "A copy of the training rows", "privacy",
        "The table is too small, or too many of its rows are alike, to tell.", ("privacy.",),
    ),
    "some copies": SpoiledCase(
        f"Held-out rows with {COPIED:.0%} of training rows among them must fail on copies",
        f"A table of held-out rows with {COPIED:.0%} of training rows among them", "copies",
        f"The policy allows {COPIED:.0%} of copies, or too many rows are alike to tell.", ("privacy.copies",), True,
    ),
    "shuffled": SpoiledCase(
        "Columns shuffled on their own must fail on fidelity", "The training table with every column shuffled",
        "what holds between columns", _INDEPENDENT, _BETWEEN,
    ),
    "sorted": SpoiledCase(
        "Columns sorted on their own must fail on fidelity", "The training table with every column sorted on its own",
        "what holds between columns", _INDEPENDENT, _BETWEEN, True,
    ),
}  # fmt: skip
"""Those of every table, beside half of the holdout, which must not fail."""
TITLES: Mapping[Case, str] = {
    "honest": "Half of the holdout must not fail", **{case: OURS[case].title for case in CASES if case in OURS},
}  # fmt: skip


def brought_cases(has: Callable[[str], bool]) -> dict[str, SpoiledCase]:
    """The cases of extras for a table, by what it has."""
    return {case: spoiled for case, spoiled in extras.load("self-test").items() if has(spoiled.needs)}


def spoiled_case(name: str) -> SpoiledCase:
    case: SpoiledCase = OURS[name] if name in OURS else extras.load("self-test")[name]
    return case

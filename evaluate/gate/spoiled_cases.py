"""Cases of self-tests that extras bring, by the registry kind "self-test": tables that must fail on what they spoil."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from synth import extras


@dataclass(frozen=True)
class SpoiledCase:
    """`spoil` makes the table of the real rows (`evaluate.tables.Real`), where the schema has what it `needs`."""

    needs: str
    measure: str
    spoil: Callable[[Any], Any]
    title: str
    text: str
    subject: str
    silent: str


def brought_cases(has: Callable[[str], bool]) -> dict[str, SpoiledCase]:
    """The cases of extras for a table, by what it has."""
    return {case: spoiled for case, spoiled in extras.load("self-test").items() if has(spoiled.needs)}


def spoiled_case(name: str) -> SpoiledCase:
    case: SpoiledCase = extras.load("self-test")[name]
    return case

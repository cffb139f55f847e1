"""Sections that extras bring, by the registry kind "section"."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluate.result import Candidate
from synth import extras
from synth.schema import Schema


@dataclass(frozen=True)
class WeakSpot:
    """A column that is off in what a section is about: 0 as a fresh real sample, 1 where all of it is lost."""

    column: str
    what: str
    value: float
    anchor: str = ""


def no_weak_spots(candidate: Candidate) -> Iterable[WeakSpot]:
    return ()


@dataclass(frozen=True)
class ExtraSection:
    """A section of the report: its anchor, its title, and its template, which finds `read`'s result by the anchor in
    `s.extras` of each candidate `s`; `None`: there is nothing to say of this candidate. `weak`: columns that are named
    among the weak spots.
    """

    anchor: str
    title: str
    template: Path
    read: Callable[[Candidate, Schema], Any]
    weak: Callable[[Candidate], Iterable[WeakSpot]] = no_weak_spots

    @property
    def part(self) -> tuple[str, str]:
        """Its anchor and title in the list of sections."""
        return self.anchor, self.title


def brought() -> tuple[ExtraSection, ...]:
    return tuple(extras.load("section").values())


def weak_spots(candidate: Candidate) -> Iterator[WeakSpot]:
    for section in brought():
        yield from (replace(spot, anchor=section.anchor) for spot in section.weak(candidate))


def filled(candidates: Iterable[Mapping[str, Any]]) -> tuple[ExtraSection, ...]:
    """The sections that say something of any candidate, of whom each has what they say by their anchors."""
    anchors = {anchor for each in candidates for anchor, content in each.items() if content is not None}
    return tuple(section for section in brought() if section.anchor in anchors)

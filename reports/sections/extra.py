"""Sections that extras bring, by the registry kind "section"."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluate.result import Candidate
from synth import extras
from synth.schema import Schema


@dataclass(frozen=True)
class ExtraSection:
    """A section of the report: its anchor, its title, and its template, which finds `read`'s result by the anchor in
    `s.extras` of each candidate `s`; `None`: there is nothing to say of this candidate.
    """

    anchor: str
    title: str
    template: Path
    read: Callable[[Candidate, Schema], Any]

    @property
    def place(self) -> tuple[str, str]:
        return self.anchor, self.title


def brought() -> tuple[ExtraSection, ...]:
    return tuple(extras.load("section").values())


def read_extras(candidate: Candidate, schema: Schema) -> Mapping[str, Any]:
    """What each section says of a candidate, by its anchor."""
    return {section.anchor: section.read(candidate, schema) for section in brought()}


def filled(candidates: Iterable[Mapping[str, Any]]) -> tuple[ExtraSection, ...]:
    """The sections that say something of any candidate."""
    said = {anchor for each in candidates for anchor, what in each.items() if what is not None}
    return tuple(section for section in brought() if section.anchor in said)

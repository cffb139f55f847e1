"""Free text of one synthetic table: figures, distances and agreement by column, repeated sentences, and examples.

Sentences of real texts stand in the internal report alone: nothing of this section is public.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluate.result import UNASKED, Candidate, Estimate
from evaluate.text import number
from reports.glossary import METRICS, entry
from reports.sections.extra import ExtraSection

TEXTS, UTILITY, PRIVACY = "texts.", "utility.texts.", "privacy.texts."
"""Beginnings of the names of what is measured of texts."""
FIDELITY, ATTACKS = ("texts.", "fidelity.texts", "utility.texts"), ("privacy.texts",)
"""The same with the measures themselves, under which failures stand."""
DISTANCES = ("texts.words", "texts.bigrams", "texts.trigrams", "texts.lengths")
SHARES = ("texts.c2st.auc", "texts.repeated", "texts.missing")
AGREEMENT, TSTR, GAP = "texts.agreement", "utility.texts.tstr", "utility.texts.gap"
MOST_SENTENCES = 10


@dataclass(frozen=True)
class LandmarkedDistance:
    estimate: Estimate

    @property
    def title(self) -> str:
        return entry(self.estimate.measure).title.removesuffix(", distance")

    @property
    def spoken(self) -> str:
        """The distance with its landmarks, for a tip and a screen reader."""
        marks = (("fresh real texts", self.estimate.reference), ("words shuffled", self.estimate.floor))
        said = [f"{words} {number(value)}" for words, value in marks if value is not None]
        return "; ".join([number(self.estimate.value), *said])


@dataclass(frozen=True)
class Agreement:
    column: str
    lost: Estimate | None
    tstr: Estimate | None
    gap: Estimate | None

    @property
    def metric(self) -> str:
        """The score of its models as one writes it; empty without models."""
        if self.tstr is None:
            return ""
        return METRICS["r2" if self.tstr.note.startswith("R2") else "roc_auc"]


@dataclass(frozen=True)
class TextPart:
    column: str
    lengths: dict[str, Any] | None
    distances: tuple[LandmarkedDistance, ...]
    shares: tuple[Estimate, ...]
    agreements: tuple[Agreement, ...]
    sentences: tuple[dict[str, Any], ...]
    examples: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class TextSection:
    rows: tuple[Estimate, ...]
    attacks: tuple[Estimate, ...]
    absent: tuple[tuple[str, str], ...]
    unattacked: tuple[tuple[str, str], ...]
    parts: tuple[TextPart, ...]

    @property
    def copied(self) -> tuple[TextPart, ...]:
        return tuple(part for part in self.parts if part.sentences)


def texts_of(candidate: Candidate, names: Sequence[str]) -> TextSection | None:
    """The texts of a table; `None` where its schema keeps none. `candidate`: *Sensitive*: repeated sentences are of
    real people.
    """
    if not names:
        return None
    whole = [one for one in candidate.estimates if not one.subject]
    return TextSection(
        rows=tuple(one for one in whole if one.measure.startswith((TEXTS, UTILITY))),
        attacks=tuple(one for one in whole if one.measure.startswith(PRIVACY)),
        absent=_absent(candidate, FIDELITY),
        unattacked=_absent(candidate, ATTACKS),
        parts=tuple(_part(name, candidate) for name in names),
    )


def _absent(candidate: Candidate, families: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Titles and reasons, one for each reason: a measure that fails takes all of its numbers with it."""
    found: dict[str, str] = {}
    for one in candidate.failures:
        if one.measure.startswith(families) and one.message != UNASKED:
            found.setdefault(one.message.rstrip("."), entry(one.measure).title)
    return tuple((title, message) for message, title in found.items())


def _part(name: str, candidate: Candidate) -> TextPart:
    drawn: dict[str, Any] = next((one for one in candidate.figures.get("texts") or () if one["column"] == name), {})
    own = {one.measure: one for one in candidate.estimates if one.subject == (name,)}
    return TextPart(
        column=name,
        lengths=drawn.get("lengths"),
        distances=tuple(LandmarkedDistance(own[measure]) for measure in DISTANCES if measure in own),
        shares=tuple(own[measure] for measure in SHARES if measure in own),
        agreements=_agreements(name, candidate.estimates),
        sentences=tuple(_sentences(name, candidate)[:MOST_SENTENCES]),
        examples=tuple(drawn.get("examples", ())),
    )


def _agreements(name: str, estimates: Iterable[Estimate]) -> tuple[Agreement, ...]:
    """By column that texts tell of, in words or by a model."""
    of: dict[str, dict[str, Estimate]] = {}
    for one in estimates:
        if one.measure in (AGREEMENT, TSTR, GAP) and one.subject[:1] == (name,):
            of.setdefault(one.subject[1], {})[one.measure] = one
    found = [Agreement(column, own.get(AGREEMENT), own.get(TSTR), own.get(GAP)) for column, own in of.items()]
    return tuple(sorted(found, key=_worst_first))


def _worst_first(one: Agreement) -> tuple[bool, float, float]:
    return (one.lost is None, -one.lost.value if one.lost else 0.0, -one.gap.value if one.gap else 0.0)


def _sentences(name: str, candidate: Candidate) -> list[dict[str, Any]]:
    columns = (candidate.figures.get("text_copies") or {}).get("columns", ())
    return [sentence for one in columns if one["column"] == name for sentence in one["sentences"]]


SECTION = ExtraSection(
    "texts",
    "Free text",
    Path(__file__).with_name("text.html.j2"),
    lambda candidate, schema: texts_of(candidate, schema.texts),
)

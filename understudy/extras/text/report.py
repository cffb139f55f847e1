"""Free text of one synthetic table: figures, repeated sentences, and examples.

Sentences of real texts stand in the internal report alone: nothing of this section is public.
"""

from pathlib import Path
from typing import Any

from evaluate.result import UNASKED, Candidate
from reports.glossary import entry
from reports.sections.quality import ExtraSection
from synth.schema import Schema

MOST_SENTENCES = 10


def read(candidate: Candidate, schema: Schema) -> dict[str, Any] | None:
    """The texts of a table; `None` where its schema keeps none. *Sensitive*: repeated sentences are of real people."""
    if not schema.texts:
        return None
    whole = [each for each in candidate.estimates if entry(each.measure).anchor == "texts"]
    return {
        "rows": [each for each in whole if not entry(each.measure).attack],
        "attacks": [each for each in whole if entry(each.measure).attack],
        "absent": _absent(candidate, ("texts.", "fidelity.texts", "utility.texts")),
        "unattacked": _absent(candidate, ("privacy.texts",)),
        "parts": [_part(name, candidate) for name in schema.texts],
    }


def _absent(candidate: Candidate, families: tuple[str, ...]) -> list[tuple[str, str]]:
    """Titles and reasons, one for each reason: a measure that fails takes all of its numbers with it."""
    titles: dict[str, str] = {}
    for failure in candidate.failures:
        if failure.measure.startswith(families) and failure.message != UNASKED:
            titles.setdefault(failure.message.rstrip("."), entry(failure.measure).title)
    return [(title, message) for message, title in titles.items()]


def _part(name: str, candidate: Candidate) -> dict[str, Any]:
    drawn = candidate.figures.get("texts") or ()
    copied = (candidate.figures.get("text_copies") or {}).get("columns", ())
    return {
        "column": name,
        "sentences": [s for each in copied if each["column"] == name for s in each["sentences"]][:MOST_SENTENCES],
        "examples": [example for each in drawn if each["column"] == name for example in each["examples"]],
    }


SECTION = ExtraSection("texts", "Free text", Path(__file__).with_name("text.html.j2"), read)

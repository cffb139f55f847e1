"""Utility and fairness beside scores of models: further figures, what is missing, and groups of people."""

from collections.abc import Mapping
from typing import Any

from evaluate.metrics import numbers_of
from evaluate.result import Candidate, Estimate, Evaluation
from reports.glossary import entry

SCORES = ("utility.tstr.", "utility.gap.")  # Numbers that the section draws
WITHOUT = "utility.gap.boosting.without"  # The one that it lists, where a column gives the target away
FAMILIES = ("utility.", "fairness.")
NEXT_EVENT = "utility.next_event"  # The measure of the next event, which fails as a whole where there is none


def utility_rows(candidate: Candidate) -> tuple[Estimate, ...]:
    """Estimates of utility and fairness for a table; of each sensitive column, what is worst comes first."""
    given_away = bool((candidate.figures.get("utility") or {}).get("without"))  # else it is the loss that is drawn
    shown = [
        e
        for e in candidate.estimates
        if e.measure.startswith(FAMILIES)
        and not entry(e.measure).anchor  # of an extra with a section of its own
        and (not e.measure.startswith(SCORES) or (e.measure == WITHOUT and given_away))
    ]
    of_table = [e for e in shown if not e.subject]
    return (*of_table, *sorted((e for e in shown if e.subject), key=lambda e: (e.measure, -e.value)))


def utility_absent(candidate: Candidate) -> tuple[Mapping[str, str], ...]:
    """Utility that was not measured, one entry for each reason, titled by the first number."""
    found: dict[str, str] = {}
    for failure in candidate.failures:
        if failure.measure == NEXT_EVENT and failure.reason == "skipped":  # rows of an entity have no order
            continue
        if _has_own_section(failure.measure):
            continue
        if failure.measure.startswith(FAMILIES) and not failure.measure.startswith(SCORES):
            title = entry(failure.measure).title
            of = f"{title}: {', '.join(failure.subject)}" if failure.subject else title
            found.setdefault(failure.message, of)
    return tuple({"title": title, "message": message.rstrip(".")} for message, title in found.items())


def _has_own_section(measure: str) -> bool:
    """True for a number of an extra, or a measure all of whose numbers are."""
    numbers = numbers_of(measure) or (measure,)
    return any(entry(name).anchor for name in numbers)


def subgroups(candidate: Candidate) -> tuple[Mapping[str, Any], ...]:
    """By sensitive column, its groups with what was measured of each: first the group where columns are most off."""
    merged: dict[str, dict[str, Any]] = {}
    for figure in candidate.figures.get("fairness_columns", ()):
        groups = {row["group"]: dict(row) for row in figure["groups"]}
        merged[figure["column"]] = {"column": figure["column"], "groups": groups, "levels": ()}
    for figure in candidate.figures.get("fairness_models", ()):
        blank = {"column": figure["column"], "groups": {}, "levels": ()}
        one = merged.setdefault(figure["column"], blank)
        one["levels"] = figure["levels"]
        for row in figure["groups"]:
            group = one["groups"].setdefault(row["group"], {"group": row["group"]})
            group |= {**({"boosting": row["boosting"]} if "boosting" in row else {}), "few_test": row["few"]}
    return tuple({**one, "groups": sorted(one["groups"].values(), key=_worst_first)} for one in merged.values())


def _worst_first(row: Mapping[str, Any]) -> float:
    return -max(float(row.get("excess", -1.0)), float(row.get("boosting", {}).get("gap", -1.0)))


def predicted(evaluation: Evaluation) -> tuple[str, ...]:
    """The prediction task of each target that models were measured on. The reason may be read off real rows."""
    drawn = [one.figures.get("utility") for one in evaluation.candidates]
    said = (f"Utility: {one['task']} of {one['target']!r}; the report says why" for one in drawn if one)
    return tuple(dict.fromkeys(said))


def given_away(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each column that gives the target away: the clearest one alone tells it."""
    drawn = [one.figures.get("utility") or {} for one in evaluation.candidates]
    return tuple(
        dict.fromkeys(
            f"column={found['column']!r} gives target={one['target']!r} away: a model of it alone is "
            f"nearly always right, so read the loss without it ({WITHOUT!r}), or drop the column"
            for one in drawn
            for found in one.get("giveaways", ())
        )
    )

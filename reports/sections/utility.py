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
    rows = [
        e
        for e in candidate.estimates
        if e.measure.startswith(FAMILIES)
        and not entry(e.measure).anchor  # of an extra with a section of its own
        and (not e.measure.startswith(SCORES) or (e.measure == WITHOUT and given_away))
    ]
    of_table = [e for e in rows if not e.subject]
    return (*of_table, *sorted((e for e in rows if e.subject), key=lambda e: (e.measure, -e.value)))


def utility_absent(candidate: Candidate) -> tuple[Mapping[str, str], ...]:
    """Utility that was not measured, one entry for each reason, titled by the first number."""
    titles: dict[str, str] = {}
    for failure in candidate.failures:
        measure = failure.measure
        if measure == NEXT_EVENT and failure.reason == "skipped":  # rows of an entity have no order
            continue
        has_own_section = any(entry(name).anchor for name in numbers_of(measure) or (measure,))
        if measure.startswith(FAMILIES) and not measure.startswith(SCORES) and not has_own_section:
            title = entry(measure).title
            titles.setdefault(failure.message, f"{title}: {', '.join(failure.subject)}" if failure.subject else title)
    return tuple({"title": title, "message": message.rstrip(".")} for message, title in titles.items())


def subgroups(candidate: Candidate) -> tuple[Mapping[str, Any], ...]:
    """By sensitive column, its groups with what was measured of each: first the group where columns are most off."""
    tables: dict[str, dict[str, Any]] = {}
    for figure in candidate.figures.get("fairness_columns", ()):
        groups = {row["group"]: dict(row) for row in figure["groups"]}
        tables[figure["column"]] = {"column": figure["column"], "groups": groups, "levels": ()}
    for figure in candidate.figures.get("fairness_models", ()):
        blank = {"column": figure["column"], "groups": {}, "levels": ()}
        table = tables.setdefault(figure["column"], blank)
        table["levels"] = figure["levels"]
        for row in figure["groups"]:
            group = table["groups"].setdefault(row["group"], {"group": row["group"]})
            group |= {**({"boosting": row["boosting"]} if "boosting" in row else {}), "few_test": row["few"]}
    return tuple({**table, "groups": sorted(table["groups"].values(), key=_worst_first)} for table in tables.values())


def _worst_first(row: Mapping[str, Any]) -> float:
    return -max(float(row.get("excess", -1.0)), float(row.get("boosting", {}).get("gap", -1.0)))


def predicted(evaluation: Evaluation) -> tuple[str, ...]:
    """The prediction task of each target that models were measured on. The reason may be read off real rows."""
    figures = [candidate.figures.get("utility") for candidate in evaluation.candidates]
    tasks = (f"Utility: {each['task']} of {each['target']!r}; the report says why" for each in figures if each)
    return tuple(dict.fromkeys(tasks))


def given_away(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each column that gives the target away: the clearest one alone tells it."""
    figures = [candidate.figures.get("utility") or {} for candidate in evaluation.candidates]
    return tuple(
        dict.fromkeys(
            f"column={giveaway['column']!r} gives target={each['target']!r} away: a model of it alone is "
            f"nearly always right, so read the loss without it ({WITHOUT!r}), or drop the column"
            for each in figures
            for giveaway in each.get("giveaways", ())
        )
    )

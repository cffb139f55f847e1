"""The report to hand on as an HTML page: words, rows and pictures made of `PublicFacts` alone.

Pictures show released numbers with the interval of their noise, and columns of the synthetic table.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evaluate.provenance import COLUMN, MEASURES, N_ROWS, RIGHT, Released
from evaluate.result import Candidate
from evaluate.text import alike, count, number, plain, short
from reports.charts import own_shares, strip
from reports.guarantee import audit_note, books_of
from reports.public.facts import PublicColumn, PublicFacts, PublicVerdict, public_verdict
from reports.sections.limitations import CRITERIA
from synth.output import whole_file


def _spoken(released: Released) -> str:
    value, low, high = alike(released.value, released.low, released.high)
    words = f"{value}; 95% interval of the noise {low} to {high}"
    return words if released.expected is None else f"{words}; chance alone would show {number(released.expected)}"


def column_chart(column: PublicColumn) -> Markup:
    rest = []
    if column.n_more or column.more > 0:
        rest.append((f"{column.n_more} more" if column.n_more else "other", column.more))
    if column.missing > 0:
        rest.append(("missing", column.missing))
    named, label = list(zip(column.labels, column.shares, strict=True)), short(column.name)
    return own_shares(named, rest, f"{label}: shares of the synthetic rows", ordered=column.ordered)


NO_VERDICT = "NO VERDICT TO SHOW"
BARE, UNSEEN = "NO FORMAL GUARANTEE", "NO VERIFIED GUARANTEE"
"""The text in place of a verdict that is no FAIL: rules that hold promise nothing."""
READ = "To hand on \u00b7 no number here was read off real rows but under a budget"
NOT_BOUNDED = "To hand on \u00b7 {}: nothing bounds what the table itself tells of real rows"
"""Tags over every section, with a guarantee that holds and without."""
STANDING = (
    "No attack on the table is reported. How well an attack does can depend on a single row as much as it likes, so "
    "that no noise of reasonable size would allow it to be published. What stands for it in public is epsilon, which "
    "holds against every attack, and the audit of the mechanism. Without an epsilon nothing stands for it.",
    "No comparison with models trained on real rows, no test that tells synthetic rows from real ones, and no worst "
    "column or group is reported, for the same reason.",
)
"""Absent parts of a report to hand on, with the reasons."""
OF_GUARANTEE = (
    "The guarantee is for the source table as a whole. Whoever releases more about it, or about another extract of it, "
    "adds to epsilon.",
)
"""Notes for a reader of a guarantee."""
OF_NUMBERS = (
    "The interval beside a released number is that of its noise, which is known exactly. It says where the number of "
    "these two tables lies, not how another sample of people would differ.",
    "Distances are taken on bins of about equal synthetic mass, at most 20 of a column and 10 in a pair; finer "
    "differences are not seen. Two samples of one population differ too: the mark says by how much, about.",
    "A distance that the noise pushed beyond its range is shown at the end of the range. released.json holds the noisy "
    "whole numbers as they were drawn.",
)
"""Notes for a reader of released numbers."""


def _lacks(facts: PublicFacts) -> str:
    """The substitute for a guarantee that holds; empty where one does."""
    if facts.claim is not None:
        return "a disputed guarantee" if facts.disproved else ""
    return "no verified guarantee" if facts.unverified and not facts.void else "no formal guarantee"


def words_of(facts: PublicFacts, verdict: PublicVerdict) -> tuple[str, str]:
    """The verdict in words, and its class: no tick where binding rules are not shown, or without a guarantee."""
    if verdict.outcome == "FAIL":
        return verdict.outcome, "fail"
    if facts.claim is None:
        return UNSEEN if facts.unverified and not facts.void else BARE, "bare"
    if verdict.outcome == "PASS":
        return (verdict.held, "part") if verdict.n_binding_hidden else (verdict.outcome, "pass")
    return (NO_VERDICT, "none") if verdict.outcome is None else (verdict.outcome, "open")


def _picture(number: Released, numbers: Sequence[Released]) -> Markup | None:
    """The number on a line, which distances share down to zero; a count has none."""
    if number.measure == N_ROWS:
        return None
    alike = [other for other in numbers if other.measure not in (N_ROWS, RIGHT)]
    alike = [other for other in alike if (other.measure == COLUMN) == (number.measure == COLUMN)]
    top = 1.0 if number.measure == RIGHT else max(1e-6, *(max(other.high, other.expected or 0.0) for other in alike))
    extent = (0.0, top) if MEASURES[number.measure] == "higher" else (top, 0.0)
    return strip(number.estimate, extent, _spoken(number), numbered=False)


def _chosen(facts: PublicFacts) -> str:
    counted = "How many evaluations were run before is not known: none were counted under a declared name."
    if facts.attempts is not None:
        counted = "It was the first evaluation under the declared name of its dataset that was counted."
        if facts.attempts > 1:
            counted = (
                f"{count(facts.attempts)} evaluations under the declared name of its dataset were counted, this one "
                "included."
            )
    return (
        "Somebody chose to publish this table, and may have done so because measures on real rows came out well. That "
        f"choice is itself a release, and no epsilon covers it. {counted}"
    )


def write_public_html(facts: PublicFacts, path: Path | str) -> Path:
    """The report to hand on, written whole or not at all; the path is returned."""
    path = Path(path)
    page = render_public(facts)
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")
    return path


def render_public(facts: PublicFacts) -> str:
    """The report to hand on as HTML text; the same facts give the same text, and nothing else decides it."""
    from reports.html import environment, page_style

    verdict, lacks = public_verdict(facts), _lacks(facts)
    words, symbol = words_of(facts, verdict)
    numbers = () if facts.publication is None else facts.publication.numbers
    return environment().get_template("public.html.j2").render(
        f=facts, v=verdict, words=words, symbol=symbol, lacks=lacks,
        tag=NOT_BOUNDED.format(lacks) if lacks else READ,
        books=None if facts.statement is None else books_of(facts.table, facts.statement),
        audit=audit_note(Candidate(facts.table, (), statement=facts.statement, audit=facts.audit)),
        numbers=[(number, _picture(number, numbers)) for number in numbers],
        limits=(_chosen(facts), *STANDING, *(() if lacks else OF_GUARANTEE), *(OF_NUMBERS if numbers else ())),
        criteria=[(each, each.without if lacks and each.without else each.public) for each in CRITERIA],
        column_chart=column_chart, books_of=books_of, COLUMN=COLUMN, N_ROWS=N_ROWS, written=_written,
        style=page_style("public.css"),
    )  # fmt: skip


def _written(value: Any) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

"""The report to hand on as an HTML page: words, rows and pictures made of `PublicFacts` alone.

Pictures show released numbers with the interval of their noise, and columns of the synthetic table.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evaluate.released import COLUMN, MEASURES, N_ROWS, RIGHT, Released
from evaluate.result import Candidate, Estimate
from evaluate.text import alike, count, number, percent, plain, short
from reports.charts import strip, svg
from reports.guarantee import audit_note, books_of
from reports.public.facts import PublicColumn, PublicFacts, PublicVerdict, public_verdict
from reports.sections.limitations import CRITERIA
from synth.output import whole_file

WIDTH, BARS_LEFT, BARS_RIGHT, PITCH = 320.0, 112.0, 268.0, 19.0
TALL, BASE, MARGIN = 132.0, 104.0, 34.0


def released_strip(released: Released, top: float) -> Markup:
    """One released number from 0 to `top`, better to the right: a dot, its interval, and a tick for chance alone."""
    drawn = Estimate(
        released.measure, released.value, 0, "none", low=released.low, high=released.high, reference=released.expected
    )
    return strip(
        drawn, (0.0, top) if MEASURES[released.measure] == "higher" else (top, 0.0), _spoken(released), numbered=False
    )


def _spoken(released: Released) -> str:
    value, low, high = alike(released.value, released.low, released.high)
    words = f"{value}; 95% interval of the noise {low} to {high}"
    return words if released.expected is None else f"{words}; chance alone would show {number(released.expected)}"


def column_chart(column: PublicColumn) -> Markup:
    label = f"{short(column.name)}: shares of the synthetic rows"
    return _steps(column, label) if column.ordered else _bars(column, label)


def _bars(column: PublicColumn, label: str) -> Markup:
    rows = list(zip(column.labels, column.shares, strict=True))
    if column.n_more or column.more > 0:
        rows.append((f"{column.n_more} more" if column.n_more else "other", column.more))
    if column.missing > 0:
        rows.append(("missing", column.missing))
    scale = (BARS_RIGHT - BARS_LEFT) / (max((share for _, share in rows), default=1.0) or 1.0)
    root = svg.canvas(WIDTH, len(rows) * PITCH + 4, label)
    for i, (name, share) in enumerate(rows):
        y, group = 4 + (i + 0.5) * PITCH, svg.add(root, "g", "row")
        svg.hint(group, f"{name}: {percent(share)}")
        svg.words(group, "tick", (BARS_LEFT - 8, y + 4), short(name, 16), "end")
        svg.add(group, "rect", "own", x=BARS_LEFT, y=y - 5, width=max(scale * share, 0.5), height=10)
        svg.words(group, "tick num", (WIDTH - 2, y + 4), percent(share), "end")
    svg.line(root, "axis", (BARS_LEFT, 2), (BARS_LEFT, len(rows) * PITCH + 4))
    return svg.rendered(root)


def _steps(column: PublicColumn, label: str) -> Markup:
    root = svg.canvas(WIDTH, TALL, label)
    top, n = max(column.shares, default=1.0) or 1.0, max(len(column.shares), 1)
    width = (WIDTH - 6 - MARGIN) / n
    svg.line(root, "grid", (MARGIN, 12), (WIDTH - 6, 12))
    svg.words(root, "tick num", (MARGIN - 6, 16), percent(top), "end")
    for position, (name, share) in enumerate(zip(column.labels, column.shares, strict=True)):
        height = (BASE - 12) * share / top
        bar = svg.add(
            root, "rect", "own", x=MARGIN + position * width + 0.5, y=BASE - height, width=max(width - 1, 0.5),
            height=height,
        )  # fmt: skip
        svg.hint(bar, f"{name}: {percent(share)}")
    svg.line(root, "axis", (MARGIN, BASE), (WIDTH - 6, BASE))
    if column.labels:
        svg.words(root, "tick num", (MARGIN, BASE + 15), _ends(column.labels[0])[0])
        svg.words(root, "tick num", (WIDTH - 6, BASE + 15), _ends(column.labels[-1])[-1], "end")
    if column.missing > 0:
        svg.words(root, "tick", (WIDTH - 6, BASE + 28), f"missing {percent(column.missing)}", "end")
    return svg.rendered(root)


def _ends(label: str) -> list[str]:
    """The first and the last value of a bin."""
    inner = label[1:-1].split(", ") if label.startswith("[") else label.split(" to ")
    return [short(part, 16) for part in inner]


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
    """Distances share one line down to zero; a count has none."""
    if number.measure == N_ROWS:
        return None
    alike = [other for other in numbers if other.measure not in (N_ROWS, RIGHT)]
    alike = [other for other in alike if (other.measure == COLUMN) == (number.measure == COLUMN)]
    top = 1.0 if number.measure == RIGHT else max(1e-6, *(max(other.high, other.expected or 0.0) for other in alike))
    return released_strip(number, top)


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

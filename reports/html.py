"""Self-contained HTML pages: no network, inline SVG, everything escaped, styles and scripts allowed by hash.

The environment of the templates serves the internal report here and the report to hand on. The small script of the
internal report only helps: with scripts off the whole page reads and prints.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from evaluate import text
from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.claim import made_here
from evaluate.gate.verdict import Verdict
from evaluate.result import Estimate, Evaluation, Failure
from reports import charts
from reports.document import TITLE, Document, compose
from reports.glossary import METRICS, TERMS, better, entry, evidence, reading, shown
from reports.guarantee import OUTSIDE, exact
from reports.sections.attacks import MOST_COLUMNS, reached, splits, ways
from reports.sections.comparison import named
from reports.sections.limitations import (
    NOT_COVERED,
    NOT_RUN,
    UNVERIFIED,
    attempts_on,
    audit_failed,
    fact_groups,
    left_out,
    schema_rows,
    twins,
    warnings_of,
)
from reports.sections.overview import bound_of, first_sentence
from reports.sections.quality import brought, subgroups, utility_absent, utility_rows
from synth.dp.statement import IN_LEDGER, RELATIONS, trust_words
from synth.output import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment

WIDE = 30  # Columns beyond which the list of all columns comes before their pictures
SYMBOLS = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open"}


@dataclass(frozen=True)
class Inlined:
    """A style or a script as it stands in a page, and the source that the page's policy allows for it."""

    content: Markup
    source: str


def inlined(*names: str) -> Inlined:
    """Files of the templates' folder one after the other; no template is rendered in them."""
    return _allowed("\n".join(map(sheet, names)))


def page_style(*names: str) -> Inlined:
    """The colors and styles of every page and drawing, and some more."""
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{\n{sheet('dark.css')}}} }}"
    colors = f":root {{\n{sheet('light.css')}}}\n{dark}"
    return _allowed("\n".join([colors, *map(sheet, ("report.css", "drawing.css", *names))]))


def sheet(name: str) -> str:
    return (files("reports") / "templates" / name).read_text(encoding="utf-8")


def _allowed(content: str) -> Inlined:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return Inlined(Markup(content), f"sha256-{digest}")  # noqa: S704 - files of this package, without any data


def breakable(name: object) -> Markup:
    """The dotted name of a measure, which may go on in a new line after the dot before a word, and nowhere else.

    >>> breakable("privacy.membership.tpr_at_0.01")
    Markup('privacy.<wbr>membership.<wbr>tpr_at_0.01')
    """
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=\.)(?=[^\W\d])", text.plain(name)))


def together(number: Any) -> tuple[str, ...]:
    """Value, low and high of an estimate or what looks like one, with one number of decimals."""
    return text.alike(number.value, number.low, number.high)


@cache
def environment() -> "Environment":
    """The templates of this package with their filters; every name is escaped, and none may be undefined."""
    from jinja2 import ChoiceLoader, DictLoader, Environment, PackageLoader, StrictUndefined

    of_extras = {f"{section.anchor}.html.j2": section.template.read_text(encoding="utf-8") for section in brought()}
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("reports", "templates"), DictLoader(of_extras)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("plain", "sentence", "short", "number", "compact", "loss", "room", "count", "percent", "at_most")
    filters = (shown, reading, exact, bound_of, first_sentence, breakable, together, named)
    templates.filters.update({name: getattr(text, name) for name in names})
    templates.filters.update({each.__name__: each for each in filters})
    functions = (
        text.alike, better, entry, evidence, audit_failed, utility_rows, utility_absent, subgroups, twins, warnings_of,
        left_out, attempts_on, fact_groups, schema_rows, made_here, ways, reached, splits, trust_words,
    )  # fmt: skip
    templates.globals.update({each.__name__: each for each in functions})
    templates.globals.update(
        charts=charts, symbols=SYMBOLS, WIDE=WIDE, MOST_COLUMNS=MOST_COLUMNS, MOST_NAMED=text.MOST_NAMED, TERMS=TERMS,
        METRICS=METRICS, NOT_RUN=NOT_RUN, OUTSIDE=OUTSIDE, IN_LEDGER=IN_LEDGER, AUDITED=AUDITED, RELATIONS=RELATIONS,
        NOT_COVERED=NOT_COVERED, UNVERIFIED=UNVERIFIED,
    )  # fmt: skip
    templates.tests["estimate"] = lambda cell: isinstance(cell, Estimate)
    templates.tests["failure"] = lambda cell: isinstance(cell, Failure)
    return templates


def write_html(
    evaluation: Evaluation,
    path: Path | str,
    *,
    verdicts: Iterable[Verdict] = (),
    title: str = TITLE,
    release: str | None = None,
) -> Path:
    """The report, written whole or not at all; the path is returned.

    Args:
        evaluation: *Sensitive*: it was measured on real rows, and so is the report.
        path: the file to write; one that is there is replaced.
        verdicts: of any number of policies on any of the candidates.
        title: the headline.
        release: the candidate that the job names for release; `None` where it names none.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
    path = Path(path)
    page = render_html(evaluation, verdicts=verdicts, title=title, release=release)
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")
    return path


def render_html(
    evaluation: Evaluation, *, verdicts: Iterable[Verdict] = (), title: str = TITLE, release: str | None = None
) -> str:
    """The report as HTML text; the same input gives the same text. Arguments as in `write_html`."""
    return render_document(compose(evaluation, verdicts=verdicts, title=title, release=release))


def render_document(document: Document) -> str:
    """A composed report as HTML text."""
    page = environment().get_template("report.html.j2")
    return page.render(doc=document, style=page_style("internal.css"), script=inlined("report.js"))

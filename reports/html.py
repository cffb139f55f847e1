"""The report as one self-contained HTML page: no script, no network, inline SVG, everything escaped."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evaluate.privacy.audit.result import MEASURE as AUDITED
from evaluate.result import Estimate, Evaluation, Failure
from evaluate.verdict import Verdict
from reports import charts, text
from reports.attack_figures import crowds, exposed, splits, ways
from reports.attacks import MOST_COLUMNS
from reports.books import OUTSIDE, exact
from reports.document import TITLE, WORDS, Document, compose
from reports.glossary import METRICS, TERMS, entry, evidence
from reports.limits import NOT_RUN, audit_failed
from reports.readings import reading, shown
from reports.utilities import subgroups, utility_absent, utility_rows
from synth.output import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment


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
        release: the candidate that the job names for release; none where it names none.

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
    environment = _environment()
    style = environment.get_template("report.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = environment.get_template("report.html.j2")
    return page.render(doc=document, style_hash=f"sha256-{digest}")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        text.plain,
        text.sentence,
        text.short,
        text.number,
        text.compact,
        text.loss,
        text.room,
        text.one_in,
        text.count,
        text.percent,
    ):
        environment.filters[function.__name__] = function
    environment.filters.update(shown=shown, reading=reading, exact=exact)
    environment.globals.update(charts=charts, entry=entry, evidence=evidence, symbols=_SYMBOLS)
    environment.globals.update(WORDS=WORDS, TERMS=TERMS, METRICS=METRICS, NOT_RUN=NOT_RUN, OUTSIDE=OUTSIDE)
    environment.globals.update(AUDITED=AUDITED, audit_failed=audit_failed)
    environment.globals.update(utility_rows=utility_rows, utility_absent=utility_absent, subgroups=subgroups)
    environment.globals.update(ways=ways, exposed=exposed, splits=splits, crowds=crowds, MOST_COLUMNS=MOST_COLUMNS)
    environment.tests["estimate"] = lambda cell: isinstance(cell, Estimate)
    environment.tests["failure"] = lambda cell: isinstance(cell, Failure)
    return environment


_SYMBOLS = {"PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open"}

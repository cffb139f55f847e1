"""The internal report as one self-contained HTML page: no network, inline SVG, everything escaped.

Its small script is allowed by hash and only helps: with scripts off the whole page reads and prints.
"""

from collections.abc import Iterable
from pathlib import Path

from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports.document import TITLE, Document, compose
from reports.pages import environment, inlined
from synth.output import whole_file


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
    page = environment().get_template("report.html.j2")
    return page.render(doc=document, style=inlined("report.css", "internal.css"), script=inlined("report.js"))

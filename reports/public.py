"""The public report: what may be said of a synthetic table to people who may not see the real one.

Its whole input is `reports.public_facts.PublicFacts`.
"""

from pathlib import Path

from reports.public_facts import PublicFacts
from reports.public_page import page_of
from synth.output import whole_file


def write_public_html(facts: PublicFacts, path: Path | str) -> Path:
    """The public report, written whole or not at all; the path is returned.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
    path = Path(path)
    page = render_public(facts)
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")
    return path


def render_public(facts: PublicFacts) -> str:
    """The public report as HTML text; the same facts give the same text, and nothing else decides it."""
    from reports.pages import environment, inlined

    template = environment().get_template("public.html.j2")
    return template.render(doc=page_of(facts), style=inlined("report.css", "public.css"))

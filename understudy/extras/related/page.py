"""The page of a run over related tables: one verdict, and what it rests on; each table's own report is a link away."""

from pathlib import Path
from typing import TYPE_CHECKING

from evaluate.gate.claim import claims_of
from reports.html import environment, page_style
from synth.output import whole_file

if TYPE_CHECKING:
    from understudy.extras.related.run import RelatedOutcome


def write_page(outcome: "RelatedOutcome", path: Path) -> None:
    """*Sensitive*: numbers of real rows."""
    top, here = outcome.evaluations[outcome.plan.inputs.unit], Path(__file__).parent
    claims = {each.name: claims_of(top, each) for each in top.candidates}
    release = outcome.plan.inputs.job.release
    labels = sorted(outcome.related, key=lambda label: label != release)
    template = environment().from_string((here / "page.html.j2").read_text(encoding="utf-8"))
    page = template.render(
        outcome=outcome, labels=labels, claims=claims, provenance=top.provenance, inputs=outcome.plan.inputs,
        style=page_style(str(here / "page.css")),
    )  # fmt: skip
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")

"""A survey as one static page, on which respondents randomize their own answers; it asks the network for nothing.

The page's script reads answers as `Survey.codes` does, and makes the report that `Survey.randomize` makes of the same
random words. Probabilities are the same whole numbers. Numbers, days and times without a zone are typed in; what is
written in a form of its own is chosen among the bins.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from evaluate.text import LONGEST, plain
from reports.html import environment, inlined, page_style
from synth.domain import Attribute
from synth.errors import SchemaError
from synth.output import whole_file
from synth.schema.residual_schema import modeled_in
from understudy.extras.local.oracles import DirectEncoding, Oracle
from understudy.extras.local.survey import Survey

_WORDS = {"False": "no", "True": "yes"}  # of a truth value whose texts nobody declared


def write_page(survey: Survey, path: Path) -> None:
    if modeled := modeled_in(survey.schema):
        raise SchemaError(
            f"columns={', '.join(modeled)} are modeled by other columns, and a page asks for values as they are; leave "
            "modeled out of the schema"
        )
    here, fields = Path(__file__).parent, [_field(each) for each in survey.discretizer.attributes]
    if alike := [field["name"] for field in fields if _look_alike(["no answer", *field.get("options", ())])]:
        raise SchemaError(
            f"columns={', '.join(alike)} have two answers that look the same on a page, where 'no answer' and 'another "
            f"answer' are answers, too; declare ones that differ in their first {LONGEST - 1} characters"
        )
    columns = survey.discretizer.columns
    questions = [
        {"columns": [columns.index(name) for name in question.columns], "sizes": question.sizes,
         "rule": _rule(question.oracle)}
        for question in survey.questions
    ]  # fmt: skip
    asked = [{key: field[key] for key in ("size", "edges", "span", "time")} for field in fields]
    plan = {"survey": survey.digest, "answers": survey.n_answers, "fields": asked, "questions": questions}
    template = environment().from_string((here / "page.html.j2").read_text(encoding="utf-8"))
    page = template.render(
        survey=survey, fields=fields, plan=plan, odds=math.exp(min(survey.epsilon, 700.0)),
        style=page_style(str(here / "page.css")), script=inlined(str(here / "page.js")),
    )  # fmt: skip
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")


def _look_alike(options: list[str]) -> bool:
    """True if a browser shows two of them as the same: spaces side by side are one."""
    return len({" ".join(plain(option).split()) for option in options}) < len(options)


def _rule(oracle: Oracle) -> dict[str, Any]:
    """Probabilities as the whole numbers that random words are compared with; one of 64 bits as text."""
    if isinstance(oracle, DirectEncoding):
        return {"symbols": oracle.n_symbols, "truths": str(oracle.n_true_words)}
    return {"bits": oracle.n_cells, "chance": oracle.set_by_chance}


def _field(attribute: Attribute) -> dict[str, Any]:
    """A column as the page asks for it. `edges`: where one code ends and the next begins, of what is typed in."""
    column = attribute.column
    field: dict[str, Any] = dict.fromkeys(("edges", "span", "time")) | {"name": attribute.name, "size": attribute.size}
    if not column.is_line or column.beside or column.has_own_texts or column.zone is not None:
        if column.is_boolean:
            return {**field, "options": [_WORDS.get(each, each) for each in column.spellings]}
        return {**field, "options": attribute.labels()[:-2] + ["another answer"] * column.is_categorical}
    begins = np.flatnonzero(np.diff(attribute.group[:-2])) + 1
    field |= {"edges": attribute.line[0][begins].tolist(), "span": column.span, "type": "number", "step": column.unit}
    if column.is_time:
        # In milliseconds, which is what a browser counts in.
        tick = max(column.micros // 1000, 1)
        field["time"] = {"tick": tick, "step": tick * 1000 / column.per_position}
        field["type"] = "date" if column.is_date else "datetime-local"
        field["step"] = None if column.is_date else min(tick / 1000, 60)
    return {**field, "hint": column.domain_words.replace("T", " ")}

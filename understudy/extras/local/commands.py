"""`understudy survey` and `randomize`: what to ask, reports of respondents, and a model without a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import ClampOption, arg, console_of, opt, outside_of

if TYPE_CHECKING:
    from understudy.console import Console
    from understudy.extras.local.survey import Survey

SEEN = (
    "whoever runs this on a collected table has seen the answers already: epsilon is of what leaves the respondents, "
    "and each further run on the same rows costs as much again"
)
WIDTHS = (0.02, 0.01)  # half widths of an interval for which respondents are told
SurveySchema = Annotated[Path, opt("What is asked about.", "--schema")]
EpsilonOption = Annotated[float, opt("Of all that one respondent sends; pure.")]
PairsOption = Annotated[list[str] | None, opt(
    "A pair that is asked beside the columns, or all, none or auto; may be repeated.", "--pairs",
    metavar="COLUMN:COLUMN", show_default="auto",
)]  # fmt: skip
AnswersOption = Annotated[int | None, opt(
    "Questions that each respondent answers.", "--answers", min=1, show_default="by the smallest variance",
)]  # fmt: skip
BinsOption = Annotated[int, opt("Of a number or time without declared ones.", "--bins", min=2, max=1000)]


def add_to(app: typer.Typer) -> None:
    asked = "--schema survey.schema.toml --epsilon 2"
    app.command("survey", epilog=f"Example: understudy survey {asked}")(survey)
    app.command("randomize", epilog=f"Example: understudy randomize {asked} --page survey.html")(randomize)


def survey(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context, schema: SurveySchema, epsilon: EpsilonOption, pairs: PairsOption = None,
    answers: AnswersOption = None, bins: BinsOption = 16,
    reports: Annotated[
        Path | None, opt("A file, or a folder of files, of reports as JSON: in place of a plan, a model of them.")
    ] = None,
    out: Annotated[Path | None, opt("The folder to make of that model; it must be new.")] = None,
) -> int:  # fmt: skip
    """Say what respondents would be asked, and how many it takes; or make a model of their reports. No table is read.

    Reports come in any order. Those that count nothing are told by reason: copies of one that counts, reports of other
    surveys, and what is no report. `understudy sample` draws rows from the model.
    """
    from synth.errors import JobError

    console, asked = console_of(ctx), _planned(schema, epsilon, pairs, answers, bins)
    if reports is not None and out is not None:
        return _collect(reports, asked, out, console)
    if reports is not None or out is not None:
        raise JobError("a model of reports takes both --reports and --out; name the other, or neither for a plan")
    return _plan(asked, console)


def _plan(asked: "Survey", console: "Console") -> int:
    n, rows, told = asked.schema.n_units or 0, [], []
    for question in asked.questions:
        k, mechanism, width = question.oracle.n_cells, question.oracle.mechanism, asked.half_width(question, n)
        needed = {f"{each:g}": asked.respondents_needed(question, each) for each in WIDTHS}
        points = f"±{100 * width:.2g} points"
        rows.append((" x ".join(question.columns), f"{k:,}", mechanism, points, *(f"{m:,}" for m in needed.values())))
        told.append({
            "question": list(question.columns), "answers": k, "mechanism": mechanism, "half_width": width,
            "respondents": needed,
        })  # fmt: skip
    headings = ("question", "answers", "mechanism", f"with {n:,} respondents", "for ±2 points", "for ±1 point")
    console.table(headings, rows)
    console.say("95% intervals of a share in a population, where they are widest.")
    _say_guarantee(console, asked)
    console.result({"epsilon": asked.epsilon, "n_respondents": n, "answers_each": asked.n_answers, "questions": told})
    return 0


def randomize(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context, schema: SurveySchema, epsilon: EpsilonOption, table: Annotated[
        str | None, arg("A table whose rows are respondents, for --out.")
    ] = None,
    page: Annotated[Path | None, opt("The page to write, one HTML file on which respondents randomize.")] = None,
    out: Annotated[Path | None, opt("The folder to make of a table's reports; it must be new.")] = None,
    pairs: PairsOption = None, answers: AnswersOption = None, bins: BinsOption = 16, clamp: ClampOption = False,
) -> int:  # fmt: skip
    """Write a page on which respondents randomize their own answers, or what each respondent of a table would send.

    The page is one file that asks the network for nothing, and shows a report to copy or save. Of a table every row is
    a respondent; reports are written in an order that links none of them to a row. Whoever runs this on a collected
    table has seen the answers already.
    """
    from synth.errors import JobError
    from synth.output import whole_folder
    from synth.table import read_table
    from understudy.extras.local.page import write_page
    from understudy.extras.local.survey import write

    console, asked = console_of(ctx), _planned(schema, epsilon, pairs, answers, bins)
    if page is not None and table is None and out is None and not clamp:
        write_page(asked, page)
        what, path = "page", page
    elif page is None and table is not None and out is not None:
        with whole_folder(out) as folder, console.stage("randomize"):
            write(read_table(table, asked.schema, outside=outside_of(clamp)), asked, folder / "reports.jsonl")
        console.warn(SEEN)
        what, path = "reports", out
    else:
        raise JobError(
            "a page takes --page alone, no --clamp, and reports of a table take the table and --out; name either"
        )
    statement = _say_guarantee(console, asked)
    console.say(f"{what.capitalize()}: {path}")
    console.result({what: str(path), "statement": statement})
    return 0


def _collect(reports: Path, asked: "Survey", out: Path, console: "Console") -> int:
    import numpy as np

    from synth.output import check_new_folder
    from understudy.extras.local.generator import Local
    from understudy.extras.local.survey import collect

    check_new_folder(out)
    with console.stage("count reports"):
        counts, left_out = collect(reports, asked)
    columns = []
    with console.stage("estimate") as progress:
        Local.asking(asked).of_reports(counts, progress=progress).save(out)
    for number, (name, *others) in enumerate(question.columns for question in asked.questions):
        if not others:
            n_reports, ends = counts.n_each[number], ("share", "low", "high")
            numbers = np.column_stack([counts.shares(number), *counts.intervals(number)]).tolist()
            rows = [dict(zip(ends, row if n_reports else [None] * 3, strict=True)) for row in numbers]
            shares = [{"answer": name} | row for name, row in zip(asked.discretizer.labels(name), rows, strict=True)]
            columns.append({"column": name, "n_reports": n_reports, "shares": shares})
    statement = _say_guarantee(console, asked)
    told = ", ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "none"
    console.say(f"Respondents: {counts.n:,}. Reports left out: {told}.")
    if silent := counts.n_each.count(0):
        console.say(f"Questions that nobody answered: {silent:,} of {len(asked.questions):,}.")
    console.say(f"Model: {out}")
    console.result({
        "model": str(out), "n_respondents": counts.n, "left_out": dict(left_out), "statement": statement,
        "columns": columns,
    })  # fmt: skip
    return 0


def _planned(schema: Path, epsilon: float, pairs: list[str] | None, answers: int | None, bins: int) -> "Survey":
    from synth.schema_file import read_schema
    from understudy.extras.local.survey import Survey

    named: Any = "auto"
    if pairs:
        named = pairs[0] if pairs in (["auto"], ["none"], ["all"]) else tuple(p.partition(":")[::2] for p in pairs)
    return Survey.of(read_schema(schema), epsilon, pairs=named, n_bins=bins, n_answers=answers or "auto")


def _say_guarantee(console: "Console", asked: "Survey") -> dict[str, Any]:
    from synth.dp.budget import statement_of

    console.say(
        f"Guarantee: epsilon={asked.epsilon:g}, delta=0, local: every report by itself. Each respondent answers "
        f"{asked.n_answers} of {len(asked.questions)} questions."
    )
    return statement_of(asked.schedule, asked.schema).to_dict()

"""`understudy randomize` and `collect`: reports that respondents randomize, and a model of reports without a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import ClampOption, OutFolder, SchemaFile, Table, call_of, console_of, outside_of

if TYPE_CHECKING:
    from synth.local.estimation import ReportCounts
    from synth.local.survey import Pairs, Survey

RANDOMIZE = "Example: understudy randomize answers.csv --schema survey.schema.toml --epsilon 2 --out reports"
COLLECT = "Example: understudy collect reports --out model"
SEEN = (
    "whoever runs this on a collected table has seen the answers already: epsilon is of what leaves the respondents, "
    "and each further run on the same rows costs as much again"
)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("randomize", epilog=RANDOMIZE)(randomize)
    app.command("collect", epilog=COLLECT)(collect)


def pairs_of(given: list[str] | None) -> "Pairs":
    """The pairs that options name: a word, or two columns with a colon between."""
    if not given:
        return "auto"
    if given in (["auto"], ["none"], ["all"]):
        return given[0]  # type: ignore[return-value]
    found = [tuple(text.split(":")) for text in given]
    wrong = [text for text, pair in zip(given, found, strict=True) if len(pair) != 2 or not all(pair)]
    if wrong:
        raise typer.BadParameter(f"--pairs={wrong[0]!r} is none of auto, none, all and COLUMN:COLUMN; correct it")
    return tuple((pair[0], pair[1]) for pair in found)


PairsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pairs",
        metavar="COLUMN:COLUMN",
        help="A pair that is asked beside the columns, or all, none or auto; may be repeated.",
        show_default="auto",
    ),
]
AnswersOption = Annotated[
    int | None,
    typer.Option(
        "--answers", min=1, help="Questions that each respondent answers.", show_default="by the smallest variance"
    ),
]
BinsOption = Annotated[int, typer.Option("--bins", min=2, max=1000, help="Of a number or time without declared ones.")]


def randomize(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Of all that one respondent sends; pure.", show_default=False)],
    out: OutFolder,
    pairs: PairsOption = None,
    answers: AnswersOption = None,
    bins: BinsOption = 16,
    clamp: ClampOption = False,
) -> int:
    """Write what each respondent of a table would send: a simulation, or a batch on behalf of the respondents.

    Every row is a respondent, who randomizes their own answers by the system's randomness. Reports are written in an
    order that links none of them to a row. Whoever runs this on a collected table has seen the answers already.
    """
    from synth.local import Reports, Survey
    from synth.output import making
    from synth.schema_file import read_schema
    from synth.table import read_table
    from understudy.data.source import find_table

    console = console_of(ctx)
    known = read_schema(schema)
    survey = Survey.of(
        known, epsilon, pairs=pairs_of(pairs), n_bins=bins, n_answers="auto" if answers is None else answers
    )
    call = call_of(
        "randomize", schema=known.model_dump_json(), epsilon=epsilon, pairs=pairs, answers=answers, bins=bins,
        clamp=clamp, **find_table(table).state,
    )  # fmt: skip
    with making(out, call) as made:
        told: Any = made.told
        if told is None:
            rows = read_table(table, known, outside=outside_of(clamp))
            with console.stage("randomize"):
                made.place.mkdir()
                Reports.of(rows, survey).write(made.place)
            told = {"reports": str(out), "statement": _statement(survey)}
            made.finish(told)
        else:
            console.note(made.notice)
        _show(survey, console)
        console.warn(SEEN)
        console.say(f"Reports: {out}")
        console.result(told)
    return 0


def collect(
    ctx: typer.Context,
    reports: Annotated[Path, typer.Argument(help="A folder of `understudy randomize`.", show_default=False)],
    out: OutFolder,
) -> int:
    """Make a model of reports alone: no table is read. `understudy sample` draws rows from it."""
    from synth.generators.local import Local
    from synth.local import collect as counted
    from synth.output import making

    console = console_of(ctx)
    with console.stage("count reports"):
        known = counted(reports)
    call = call_of("collect", reports=str(reports.resolve()), supports=[one.tolist() for one in known.supports])
    with making(out, call) as made:
        told: Any = made.told
        if told is None:
            asked = Local.asking(known.survey)
            with console.stage("estimate") as progress:
                model = asked.of_reports(known, progress=progress)
                model.save(made.place)
            told = {"model": str(out), "statement": _statement(known.survey), "columns": _shares(known)}
            made.finish(told)
        else:
            console.note(made.notice)
        _show(known.survey, console)
        console.say(f"Model: {out}")
        console.result(told)
    return 0


def _statement(survey: "Survey") -> dict[str, Any]:
    from synth.dp.budget import statement_of

    return statement_of(survey.schedule, survey.schema).to_dict()


def _show(survey: "Survey", console: Any) -> None:
    """The questions and the guarantee."""
    rows = [
        (
            " x ".join(question.columns),
            f"{question.oracle.n_cells:,}",
            question.oracle.mechanism,
            f"{question.oracle.epsilon:.3g}",
        )
        for question in survey.questions
    ]
    console.table(("question", "answers", "mechanism", "epsilon"), rows)
    console.say(
        f"Guarantee: epsilon={survey.epsilon:g}, delta=0, local: every report by itself. Each respondent answers "
        f"{survey.n_answers} of {len(survey.questions)} questions."
    )


def _shares(known: "ReportCounts") -> list[dict[str, Any]]:
    """The estimated shares of each column with their intervals, as plain data."""
    made = []
    for place, question in enumerate(known.survey.questions):
        if len(question.columns) > 1:
            continue
        (low, high), labels = known.intervals(place), known.survey.discretizer.labels(question.columns[0])
        shares = zip(labels, known.shares(place).tolist(), low.tolist(), high.tolist(), strict=True)
        made.append({
            "column": question.columns[0],
            "shares": [{"answer": a, "share": share, "low": lo, "high": hi} for a, share, lo, hi in shares],
        })  # fmt: skip
    return made

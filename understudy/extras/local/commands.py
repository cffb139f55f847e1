"""`understudy survey`, `randomize` and `collect`: what to ask, reports of respondents, and a model without a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import ClampOption, OutFolder, SchemaFile, Table, console_of, outside_of

if TYPE_CHECKING:
    from understudy.extras.local.survey import Pairs, Survey

SURVEY = "Example: understudy survey --schema survey.schema.toml --epsilon 2"
RANDOMIZE = "Example: understudy randomize answers.csv --schema survey.schema.toml --epsilon 2 --out reports"
COLLECT = "Example: understudy collect reports --out model"
SEEN = (
    "whoever runs this on a collected table has seen the answers already: epsilon is of what leaves the respondents, "
    "and each further run on the same rows costs as much again"
)
WIDTHS = (0.02, 0.01)  # half widths of an interval for which respondents are told


def add_to(app: typer.Typer) -> None:
    app.command("survey", epilog=SURVEY)(survey)
    app.command("randomize", epilog=RANDOMIZE)(randomize)
    app.command("collect", epilog=COLLECT)(collect)


def pairs_of(options: list[str] | None) -> "Pairs":
    """The pairs that options name: a word, or two columns with a colon between."""
    if not options:
        return "auto"
    if len(options) == 1 and options[0] in ("auto", "none", "all"):
        return options[0]  # type: ignore[return-value]
    pairs = [(left, right) for left, _, right in (text.partition(":") for text in options)]
    wrong = [text for text, pair in zip(options, pairs, strict=True) if not all(pair) or ":" in pair[1]]
    if wrong:
        raise typer.BadParameter(f"--pairs={wrong[0]!r} is none of auto, none, all and COLUMN:COLUMN; correct it")
    return tuple(pairs)


EpsilonOption = Annotated[float, typer.Option(help="Of all that one respondent sends; pure.", show_default=False)]
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


def survey(
    ctx: typer.Context,
    schema: SchemaFile,
    epsilon: EpsilonOption,
    pairs: PairsOption = None,
    answers: AnswersOption = None,
    bins: BinsOption = 16,
) -> int:
    """Say what respondents would be asked at an epsilon, and how many it takes. No table is read."""
    from understudy.extras.local.estimation import half_width, respondents_needed

    console, asked = console_of(ctx), _planned(schema, epsilon, pairs, answers, bins)
    n = asked.schema.n_units or 0
    told: list[dict[str, Any]] = [
        {
            "question": list(question.columns),
            "answers": question.oracle.n_cells,
            "mechanism": question.oracle.mechanism,
            "half_width": half_width(question, asked, n),
            "respondents": {f"{width:g}": respondents_needed(question, asked, width) for width in WIDTHS},
        }
        for question in asked.questions
    ]
    rows = [
        (" x ".join(one["question"]), f"{one['answers']:,}", one["mechanism"], f"±{100 * one['half_width']:.2g} points",
         *(f"{needed:,}" for needed in one["respondents"].values()))
        for one in told
    ]  # fmt: skip
    headings = ("question", "answers", "mechanism", f"with {n:,} respondents", "for ±2 points", "for ±1 point")
    console.table(headings, rows)
    console.say("95% intervals of a share in a population, where they are widest.")
    console.say(_guarantee(asked))
    console.result({"epsilon": epsilon, "n_respondents": n, "answers_each": asked.n_answers, "questions": told})
    return 0


def randomize(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    epsilon: EpsilonOption,
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
    from synth.output import whole_folder
    from synth.table import read_table
    from understudy.extras.local.reports import write

    console, asked = console_of(ctx), _planned(schema, epsilon, pairs, answers, bins)
    with whole_folder(out) as folder, console.stage("randomize"):
        write(read_table(table, asked.schema, outside=outside_of(clamp)), asked, folder)
    console.say(_guarantee(asked))
    console.warn(SEEN)
    console.say(f"Reports: {out}")
    console.result({"reports": str(out), "statement": _statement(asked)})
    return 0


def collect(
    ctx: typer.Context,
    reports: Annotated[Path, typer.Argument(help="A folder of `understudy randomize`.", show_default=False)],
    out: OutFolder,
) -> int:
    """Make a model of reports alone: no table is read. `understudy sample` draws rows from it."""
    from synth.output import check_new_folder
    from understudy.extras.local.generator import Local
    from understudy.extras.local.reports import collect as count

    console = console_of(ctx)
    check_new_folder(out)
    with console.stage("count reports"):
        counts = count(reports)
    asked = counts.survey
    with console.stage("estimate") as progress:
        Local.asking(asked).of_reports(counts, progress=progress).save(out)
    columns = []
    for number, question in enumerate(asked.questions):
        if len(question.columns) == 1:
            (low, high), labels = counts.intervals(number), asked.discretizer.labels(question.columns[0])
            shares = zip(labels, counts.shares(number).tolist(), low.tolist(), high.tolist(), strict=True)
            told = [dict(zip(("answer", "share", "low", "high"), each, strict=True)) for each in shares]
            columns.append({"column": question.columns[0], "shares": told})
    console.say(_guarantee(asked))
    console.say(f"Model: {out}")
    console.result({"model": str(out), "statement": _statement(asked), "columns": columns})
    return 0


def _planned(schema: Path, epsilon: float, pairs: list[str] | None, answers: int | None, bins: int) -> "Survey":
    from synth.schema_file import read_schema
    from understudy.extras.local.survey import Survey

    asked = {"pairs": pairs_of(pairs), "n_bins": bins, "n_answers": "auto" if answers is None else answers}
    return Survey.of(read_schema(schema), epsilon, **asked)  # type: ignore[arg-type]


def _guarantee(asked: "Survey") -> str:
    return (
        f"Guarantee: epsilon={asked.epsilon:g}, delta=0, local: every report by itself. Each respondent answers "
        f"{asked.n_answers} of {len(asked.questions)} questions."
    )


def _statement(asked: "Survey") -> dict[str, Any]:
    from synth.dp.budget import statement_of

    return statement_of(asked.schedule, asked.schema).to_dict()

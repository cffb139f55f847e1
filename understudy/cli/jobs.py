"""`understudy try`, `run`, `batch`, `check`: whole jobs, from a real table to a verdict."""

import itertools
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.evidence import outcome_words, reason_line
from understudy.cli.options import (
    ExecutorOption,
    SeedOption,
    ShowRowsOption,
    SignKey,
    Table,
    YesOption,
    arg,
    console_of,
    opt,
    reasons,
    signer_of,
)
from understudy.cli.schemas import EntityOption, NoEntityOption, NoOrderOption, OrderOption, check_units
from understudy.console import BAD_INPUT, DONE, Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.quickstart import QuickStart
    from understudy.run.plan import Plan
    from understudy.run.run import RunOutcome


IN_BRIEF = ("utility.tstr.boosting", "columns.tvd.excess", "pairs.tvd.excess", "privacy.membership.auc")
"""The measures of a sweep that a terminal has room for."""
WHAT_IS_DECLARED = (
    "A fit with an epsilon reads nothing off the table but under its budget. So you say what is public without it:",
    "  kinds: that these columns are of these kinds, with these decimals, and may be missing where it says so",
    "  n_units: how many people (or rows) there may be; the guarantee is about one more or one fewer of them",
    "  limits: whose bounds and categories everybody may know; all others, and frequent values that you name, "
    "are measured under the budget",
    "  nothing else: whoever declares what is secret gives it away, and no epsilon counts that",
)


def add_to(app: typer.Typer) -> None:
    app.command("try", epilog="Example: understudy try patients.csv --target readmitted")(try_table)
    app.command("run", epilog="Example: understudy run examples/fair.toml --out out/fair")(run)
    app.command("batch", epilog="Example: understudy batch jobs/*.toml --workers 4 --out out/nightly")(batch)
    app.command("check", epilog="Example: understudy check job.toml patients.schema.toml")(check)


def run(
    ctx: typer.Context,
    job: Annotated[Path, arg("The job file (docs/reference/job.md).")],
    out: Annotated[
        Path | None, opt("The folder to make; it must be new. Without it the plan is shown, and nothing runs.", "--out")
    ] = None,
    restart: Annotated[
        bool, opt("Remove unfinished work of this output; what was drawn stays spent.", "--restart")
    ] = False,
    workers: Annotated[int | None, opt("Candidates made at once; left out: as the job says.", min=1)] = None,
    executor: ExecutorOption = None,
    sign_key: SignKey = None,
    yes: YesOption = False,
) -> int:
    """Split, fit, sample, evaluate, judge, report.

    Everything lands in one folder, whole or not at all; the same command goes on with a run that was cut short. The
    exit code is the verdict on the table that the job names under `release` (of related tables, the worst): 0
    PASS, 1 FAIL, 3 INCONCLUSIVE; 0 where the job names none, and for a plan. It asks before it spends a budget on what
    is expected to FAIL the job's policy, and refuses where nobody answers.
    """
    from understudy.bundle.manifest import sealed_digest
    from understudy.job.load import kind_of
    from understudy.run.plan import make_plan
    from understudy.run.run import run as carry_out

    console = console_of(ctx)
    signer = signer_of(sign_key, console)
    names = (job.stem if n == 1 else f"{job.stem}-{n}" for n in itertools.count(1))
    folder = out or next(Path(name) for name in names if not Path(name).exists())
    if (kind := kind_of(job)) is not None:
        options = {"restart": restart, "workers": workers, "executor": executor, "yes": yes}
        return kind.run(job, folder, console, signer, is_named=out is not None, **options)
    plan = make_plan(job, folder, restart=restart, workers=workers, executor=executor)
    if out is None:
        show_plan(plan, console)
    console.warn(*plan.warnings)
    if out is None:
        return planned(job, folder, console)

    ask_to_spend(plan.in_vain, yes=yes)
    outcome = carry_out(plan, console, signer)
    show(outcome, console)
    known = outcome.evaluation.provenance
    console.result({
        **outcome.delivery.verdict_content(), "exit_code": outcome.exit_code, "out": str(folder),
        "warnings": known.warnings, "ledger": None if known.ledger is None else asdict(known.ledger),
        "manifest_sha256": sealed_digest(folder), "signer": None if signer is None else signer.fingerprint,
        "tracking": None if outcome.tracked is None else asdict(outcome.tracked),
    })  # fmt: skip
    return outcome.exit_code


def planned(job: Path, folder: Path, console: Console) -> int:
    console.say(f"This is the plan, and nothing was run. To run it: understudy run {job} --out {folder}")
    console.result({"planned": True, "out": str(folder), "exit_code": 0})
    return 0


def show_plan(plan: "Plan", console: Console) -> None:
    from evaluate.text import typed_loss

    schema, job = plan.schema, plan.job
    by = "a row" if schema.entity is None else f"all rows of one {schema.entity!r}"
    aim = f", target {schema.target}" if schema.target else ""
    console.say(f"Table: {plan.table.shown}, {len(schema.kept)} columns{aim}; unit of privacy: {by}")
    console.say(f"Split: {job.split.holdout_share:.0%} held out, seed {job.split_seed}")
    for label in plan.points:
        promise = "no formal guarantee"
        if label in plan.schedules:
            schedule = plan.schedules[label]
            promise = f"epsilon {typed_loss(schedule.epsilon)}, delta {schedule.delta:.3g}"
        named = ", named for release" if label == job.release else ""
        console.say(f"Generator {label}: {plan.generators[label].name}, {promise}{named}")
    console.say(*_reasons(plan))
    if plan.fund is not None:
        console.say(f"Ledger: {plan.fund.url}")
    console.say(f"Policy: {plan.policy.name}, version {plan.policy.version}, for {plan.policy.audience}")
    kinds = "every measure" if job.evaluation.measures is None else f"measures {', '.join(job.evaluation.measures)}"
    console.say(f"Evaluation: {kinds}; then a report, verdicts, cards and a sealed folder")


def _reasons(plan: "Plan") -> list[str]:
    """What `auto` stands for in a job, and why."""
    from synth.generators.auto import Auto

    points = [p for p in plan.points.values() if (p.spec.generator or p.family) == Auto.name]
    own = {p.setting_label: {k: v for k, v in p.spec.parameters.items() if k in Auto.model_fields} for p in points}
    return reasons({label: Auto(**parameters) for label, parameters in own.items()}, plan.schema)


def show(outcome: "RunOutcome", console: Console) -> None:
    from reports.sections.limitations import left_out, on_samples
    from reports.sections.quality import given_away, predicted
    from understudy.budget import release_line
    from understudy.bundle.evidence import REPORT

    plan, evaluation, released = outcome.plan, outcome.evaluation, outcome.delivery.released
    if outcome.unsaved:
        console.note(
            f"Models that cannot be saved, and are not: {', '.join(outcome.unsaved)} (see docs/reference/job.md)."
        )
    if plan.job.is_sweep:
        _show_sweep(outcome, console)
    else:
        _show_candidates(outcome, console)
    of_samples = dict.fromkeys(sentence for each in evaluation.candidates for sentence in on_samples(each))
    console.say(*_reasons(plan), *of_samples, *left_out(plan.schema), *predicted(evaluation))
    console.warn(*given_away(evaluation), *evaluation.real.warnings)
    console.say(*evaluation.real.shift.notes)
    for check in outcome.verdicts[0].checks if outcome.verdicts else ():  # of the real rows: the same for all
        if check.outcome == "did not come out":
            console.say(f"Self-test {check.case} did not come out, so nothing passes. {check.reason}")
    if evaluation.provenance.ledger is not None:
        console.say(release_line(evaluation.provenance.ledger))
    if plan.unpaid:
        console.say("NOT RELEASABLE: no ledger pays for this sweep's private fits; tables and models were not kept")
    if released is not None:
        console.say(f"{released.candidate}: {released.verdict} under policy {released.policy}, for {released.audience}")
    if outcome.tracked is not None and outcome.tracked.failure:
        console.warn(outcome.tracked.failure)
    elif outcome.tracked is not None:
        console.say(f"Tracked: {outcome.tracked.url}")
    console.say(f"Report: {plan.out / REPORT}")


def _show_candidates(outcome: "RunOutcome", console: Console) -> None:
    from reports.sections.overview import ruling_of
    from synth.dp.statement import guarantee_words

    statements = {c.name: c.statement for c in outcome.evaluation.candidates}
    rows = [
        (
            verdict.candidate,
            guarantee_words(statements[verdict.candidate]),
            verdict.verdict,
            [f"{f.rule.measure} {outcome_words(f)}" for f in verdict.findings if f.outcome != "PASS"],
        )
        for verdict in outcome.verdicts
    ]
    console.table(("candidate", "guarantee", "verdict", "rules that did not pass"), rows)
    released = outcome.delivery.released
    for verdict in outcome.verdicts if released is None else [released]:
        if verdict.reason:
            console.say(f"{verdict.candidate}: {verdict.reason}")
        for finding in ruling_of(verdict).reasons:
            if finding.binding and finding.outcome != "PASS":
                console.say(f"{verdict.candidate}: {reason_line(finding)}")


def _show_sweep(outcome: "RunOutcome", console: Console) -> None:
    """A line for every generator at every epsilon: means over seeds, and how many verdicts of which kind."""
    from collections import Counter

    from reports.sections.comparison import sweep_of

    sweep = sweep_of(outcome.evaluation)
    if sweep is None:
        return
    verdicts = {verdict.candidate: verdict.verdict for verdict in outcome.verdicts}
    shown = [i for i, panel in enumerate(sweep.panels) if panel.measure in IN_BRIEF]
    counts: dict[tuple[str, float | None], Counter[str]] = {}
    for label, point in outcome.plan.points.items():
        counts.setdefault(point.setting, Counter())[verdicts[label]] += 1
    rows = []
    for row in sweep.rows:
        cells = [row.cells[i] for i in shown]
        ranges = ["" if c is None or c.low is None else f" ±{c.value - c.low:.3f}" for c in cells]
        means = ["" if c is None else f"{c.value:.3f}{ends}" for c, ends in zip(cells, ranges, strict=True)]
        epsilon = "none" if row.epsilon is None else f"{row.epsilon:g}"
        states = ", ".join(f"{verdict} {n}" for verdict, n in counts[row.generator, row.epsilon].items())
        rows.append((row.generator, epsilon, *means, states))
    headings = [sweep.panels[i].measure.replace(".", "\n", 1) for i in shown]
    console.table(("generator", "epsilon", *headings, "verdicts"), rows)


def batch(
    ctx: typer.Context,
    jobs: Annotated[list[Path], arg("Job files (docs/reference/job.md).")],
    out: Annotated[Path, opt("A folder for all outputs, new or not.", "--out")],
    workers: Annotated[
        int | None,
        opt("Jobs at once, each in a process of its own.", min=1, show_default="1; with --executor its threads"),
    ] = None,
    timeout_s: Annotated[
        float | None, opt("Seconds that each job may take; none: any.", "--timeout-s", min=0.001)
    ] = None,
    fail_fast: Annotated[
        bool, opt("Begin no job after the first that does not end with exit code 0.", "--fail-fast")
    ] = False,
    restart: Annotated[
        bool, opt("Remove unfinished work of these outputs; what was drawn stays spent.", "--restart")
    ] = False,
    executor: ExecutorOption = None,
    sign_key: SignKey = None,
    yes: YesOption = False,
) -> int:
    """Run many jobs, each in a process of its own, and sum up what they came to.

    Job NAME.toml leaves the folder OUT/NAME, and what it said in OUT/NAME.log. The same command goes on with what was
    cut short and tries again what failed. Exit code: 4 if a job gave no answer, else 2 if one was bad input, 1 if one
    FAILs, 3 if one is INCONCLUSIVE, else 0 (docs/how-to/batch.md).
    """
    from understudy.batch.jobs import HEADINGS, content_of, listed, rows_of, uncounted, write_summary
    from understudy.batch.run import Settings, check_elsewhere, conduct
    from understudy.cli import main
    from understudy.provenance import now

    console, began = console_of(ctx), now()
    listing = listed(jobs, out)
    signer = signer_of(sign_key, console)
    if executor is not None:
        check_elsewhere(listing, out, executor)
    console.warn(*uncounted(listing))
    options = [
        *(["--restart"] if restart else []),
        *(["--yes"] if yes else []),
        *(["--debug"] if console.debug else []),
        *([] if sign_key is None else [f"--sign-key={sign_key.absolute()}"]),
    ]
    settings = Settings(out.absolute(), workers, timeout_s, fail_fast, options, executor, command=main)
    result = conduct(listing, settings, console)
    content = content_of(result.outcomes, result.exit_code, began)
    console.table(HEADINGS, rows_of(result.outcomes))
    counts = ", ".join(f"{state} {n}" for state, n in result.states.items())
    console.say(f"Jobs: {counts}; exit code {result.exit_code}")
    if signer is not None:  # a seal is not made anew
        others = [o.name for o in result.outcomes if o.out is not None and o.signed_by != signer.fingerprint]
        if others:
            console.warn(f"finished earlier, and not signed by the key of --sign-key: {', '.join(others)}")
    write_summary(content, out)
    if result.cut is not None:
        result.cut.add_note("the jobs under way were ended, and the same command goes on from there")
        raise result.cut
    console.result(content)
    return result.exit_code


def check(
    ctx: typer.Context,
    files: Annotated[list[Path] | None, arg("Job files, schemas, policies or waivers, as TOML.")] = None,
    json_schema: Annotated[
        str | None,
        opt(
            "In place of files: print the JSON Schema of schema, job, policy, waivers, evaluation, model-card, "
            "manifest, withdrawal, sign-off, or a kind of an extra, for editors.",
            metavar="KIND",
        ),
    ] = None,
) -> int:
    """Say which job files, schemas, policies and waivers cannot be used. No table and no ledger is read.

    A job is checked with the schema, policy and waivers that it names. The exit code is 2 where a file cannot be used.
    """
    from synth.errors import BadInput, JobError, MissingExtra
    from understudy.job.load import check_file
    from understudy.job.load import json_schema as json_schema_of

    console = console_of(ctx)
    if (json_schema is None) == (not files):
        raise JobError("name files to check, or a kind of file by --json-schema")
    if json_schema is not None:
        content = json_schema_of(json_schema)
        if not console.json:
            console.say(*json.dumps(content, indent=1, ensure_ascii=False).split("\n"))
        console.result(content)
        return DONE
    kinds: dict[str, str] = {}
    faults: dict[str, str] = {}
    for path in files or ():
        try:
            kinds[str(path)] = check_file(path)
        except (BadInput, MissingExtra) as error:
            faults[str(path)] = str(error)
    console.say(*(f"{name}: a {kind} that can be used" for name, kind in kinds.items()))
    code = BAD_INPUT if faults else DONE
    console.result({"fits": not faults, "files": kinds, "faults": faults, "exit_code": code})
    for name, fault in faults.items():
        if not console.json:
            console.error(f"{name}: {fault}", BAD_INPUT)
    return code


def try_table(
    ctx: typer.Context,
    table: Table,
    target: Annotated[str | None, opt("Column that a model would predict.")] = None,
    out: Annotated[
        Path | None, opt("The folder to make; it must be new.", show_default="tried-NAME beside you")
    ] = None,
    epsilon: Annotated[
        float | None, opt("Fit with differential privacy; asks for all that must be declared.", min=0.0)
    ] = None,
    entity: EntityOption = None,
    no_entity: NoEntityOption = False,
    order: OrderOption = None,
    no_order: NoOrderOption = False,
    seed: SeedOption = 0,
    show_rows: ShowRowsOption = True,
    yes: Annotated[bool, opt("Ask nothing. Nothing is asserted for anybody.", "--yes")] = False,
) -> int:
    """From a table to a report with no other file: infer, split, fit, evaluate, judge.

    The folder holds the synthetic table, the report and the verdict, with `schema.toml` and `job.toml` that do the same
    again. Without --epsilon nothing limits what the synthetic table tells of a real row.
    """
    from tempfile import TemporaryDirectory

    from synth.dp.mechanisms import require_sampler
    from synth.errors import JobError
    from synth.output import check_new_folder
    from understudy.data import is_address
    from understudy.quickstart import QuickStart
    from understudy.run.plan import make_plan
    from understudy.run.run import run as carry_out

    console = console_of(ctx)
    check_units(entity, order, no_entity=no_entity, no_order=no_order)
    if out is not None:
        check_new_folder(out)
    if epsilon is not None:
        require_sampler()
        if yes or not is_terminal():
            shown = "TABLE" if is_address(table) else table
            raise JobError(
                "--epsilon needs a person who says what is public, and nothing asserts that for anybody; run it on a "
                f"terminal without --yes, or write a schema (`understudy schema infer {shown} --out inferred.toml`, "
                "then `understudy schema declare`) and a job"
            )
    with console.stage("infer"):
        start = QuickStart.of(
            table, target=target, entity=entity, order=order, propose_entity=not no_entity, propose_order=not no_order,
            seed=seed,
        )  # fmt: skip
        start = replace(start, show_rows=show_rows)
    folder = start.folder if out is None else out
    _tell_schema(start, console)
    if epsilon is not None:
        start = _declared(start, epsilon)
    with TemporaryDirectory(prefix="understudy-") as inputs:
        plan = make_plan(start.write(Path(inputs)), folder)
        console.warn(*plan.warnings)
        ask_to_spend(plan.in_vain, yes=False)
        outcome = carry_out(plan, console)
    show(outcome, console)
    _tell_next(outcome, start, console)
    console.result({**outcome.delivery.verdict_content(), "exit_code": outcome.exit_code, "out": str(folder)})
    return outcome.exit_code


def is_terminal() -> bool:
    """True where somebody reads what is asked, and can answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask_to_spend(in_vain: "Sequence[str]", *, yes: bool) -> None:
    """Ask whether to spend a budget on what is expected to FAIL, as these sentences have it, or refuse to."""
    from synth.errors import JobError

    if not in_vain or yes:
        return
    if not is_terminal():
        raise JobError(f"{in_vain[0]}; nothing was spent: add --yes to spend it all the same")
    if not typer.confirm("Spend the budget on it all the same?", err=True):
        raise JobError(f"{in_vain[0]}; nothing was spent")


def _tell_schema(start: "QuickStart", console: Console) -> None:
    from evaluate.text import MOST_NAMED

    schema = start.schema
    kinds: dict[str, list[str]] = {}
    for name, column in schema.columns.items():
        kinds.setdefault("left out" if column.drop else column.kind, []).append(name)
    for kind, names in kinds.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        console.say(f"  {kind}: {', '.join(names[:MOST_NAMED])}{more}")
    unit = "a row" if schema.entity is None else f"all rows of one {schema.entity!r}"
    target = "no target (name one with --target to measure utility)" if schema.target is None else schema.target
    console.say(f"  unit of privacy: {unit}; target: {target}")
    if schema.order is not None:
        console.say(f"  these rows follow each other by {schema.order!r} (--no-order: they do not)")


def _declared(start: "QuickStart", epsilon: float) -> "QuickStart":
    from synth.errors import JobError
    from understudy.cli.schemas import asserted_lines
    from understudy.console import printable

    for line in WHAT_IS_DECLARED:
        typer.echo(line, err=True)
    unit = "rows" if start.schema.entity is None else f"units ({start.schema.entity!r})"
    asked = printable(f"n_units: how many {unit} may there be, as a public number?")
    n_units = _whole_number(asked)
    public = _columns("limits: columns whose limits are public", start.to_measure)
    frequent = _columns("frequent values: numbers where some exact values are frequent, such as 0", start.numbers)
    declared = start.declared(n_units=n_units, public=public, epsilon=epsilon, frequent=frequent)
    typer.echo("By this you assert that the following is public, whatever the table holds:", err=True)
    for line in asserted_lines(declared.schema):
        typer.echo(printable(line), err=True)
    if not typer.confirm("Is all of that right, and known without the table?", default=False, err=True):
        raise JobError(
            "what is not right, or not public, is not declared; write a schema (`understudy schema infer`), correct "
            "it, then `understudy schema declare` it"
        )
    return declared


def _whole_number(asked: str) -> int:
    while True:
        answer: str = typer.prompt(asked, err=True)
        digits = answer.strip().replace(",", "").replace("_", "")
        if digits.isascii() and digits.isdigit() and int(digits) > 0:
            return int(digits)
        typer.echo("That is no whole number above 0; type one, such as 6000.", err=True)


def _columns(what: str, can: tuple[str, ...]) -> frozenset[str]:
    from synth.errors import nearest
    from understudy.console import printable

    if not can:
        return frozenset()
    asked = f"{what}, with commas between ({', '.join(can)}), or none of them"
    while True:
        answer: str = typer.prompt(printable(asked), default="none", err=True)
        named = frozenset(name.strip() for name in answer.split(",") if name.strip() and answer.strip() != "none")
        wrong = sorted(named - set(can))
        if not wrong:
            return named
        typer.echo(
            printable(f"{wrong[0]!r} is no column that can be named here; {nearest(wrong[0], can)}. Type them again."),
            err=True,
        )


def _tell_next(outcome: "RunOutcome", start: "QuickStart", console: Console) -> None:
    from understudy.bundle.evidence import EVALUATION, REPORT

    out = outcome.plan.out
    console.say(
        "Next:",
        f"  read {out / REPORT} in a browser",
        f"  change {out / 'schema.toml'} or {out / 'job.toml'}, then `understudy run {out / 'job.toml'} --out DIR`",
    )
    if any(verdict.verdict == "PASS" for verdict in outcome.verdicts):
        console.say(f"  ask for more: `understudy gate {out / EVALUATION} --policy partner`")
    console.say(
        "  limit what it tells of a person, as nothing does now: the same command on a terminal, without --yes and "
        "with `--epsilon 1 --out DIR`; it asks what is public"
        if start.epsilon is None
        else "  count this release with later ones: `understudy ledger open`, then name the ledger in the job"
    )

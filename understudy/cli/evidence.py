"""`understudy evaluate`, `gate`, `report`, `card`, `compare`: measure synthetic tables, judge them, show them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import (
    ClampOption,
    MeasureOption,
    OutFile,
    OutFolder,
    SchemaFile,
    SeedOption,
    ShowRowsOption,
    SignKey,
    TargetOption,
    TargetsOption,
    TaskOption,
    TimeLimitOption,
    arg,
    console_of,
    opt,
    options_of,
    signer_of,
)
from understudy.console import Console

if TYPE_CHECKING:
    from evaluate.gate.policy import Policy, Waiver
    from evaluate.gate.verdict import Finding, Verdict
    from synth.validation import GivenFile


EVALUATE = (
    "Example: understudy evaluate --train parts/train.csv --holdout parts/holdout.csv --synthetic synthetic.csv "
    "--schema patients.schema.toml --model model --out evaluation.json"
)
GATE = "Example: understudy gate evaluation.json --policy internal --waivers waivers.toml --junit gate.xml"
REPORT = "Example: understudy report evaluation.json --policy internal --out report.html"
CARD = "Example: understudy card evaluation.json --candidate mst --out mst.md"

EvaluationFile = Annotated[Path, arg("What `understudy evaluate` wrote.")]
WaiverFile = Annotated[Path | None, opt("Rules that a named person answers for, until a date.", "--waivers")]
COMPARE = (
    "Example: understudy compare acme.csv beta.parquet --real parts/train.csv --holdout parts/holdout.csv "
    "--schema patients.schema.toml --claims claims.toml --out out/comparison"
)


def add_to(app: typer.Typer) -> None:
    app.command("evaluate", epilog=EVALUATE)(evaluate)
    app.command("gate", epilog=GATE)(gate)
    app.command("report", epilog=REPORT)(report)
    app.command("card", epilog=CARD)(card)
    app.command("compare", epilog=COMPARE)(compare)


def evaluate(
    ctx: typer.Context,
    train: Annotated[str, opt("Real rows that the generator saw: file, folder or address.")],
    synthetic: Annotated[list[str], opt("The table to judge; may be repeated.")],
    out: OutFile,
    holdout: Annotated[
        str | None, opt("Real rows that it did not see; none: no attack, and no model is trained.")
    ] = None,
    schema: Annotated[
        Path | None, opt("The table's schema; none: the model's, or it is inferred from the real rows.")
    ] = None,
    model: Annotated[Path | None, opt("The model the table came from, whose claim is audited.")] = None,
    seed: SeedOption = 0,
    measure: MeasureOption = None,
    time_limit_s: TimeLimitOption = None,
    audit: Annotated[
        bool, opt("Audit the model's claim on a public stand-in; without, no rule about it passes.")
    ] = True,
    target: TargetOption = None,
    task: TaskOption = None,
    targets: TargetsOption = "8000",
    fidelity_rows: Annotated[str, opt("Rows of each table that fidelity compares at most; all: all.")] = "50000",
    shadow_models: Annotated[
        int | None, opt("Attack with so many models, fitted as --model was.", min=4, max=1000)
    ] = None,
    sample_rows: Annotated[
        int,
        opt("Rows of either real side for attacks and models at most, and five times as many synthetic ones.", min=100),
    ] = 100_000,
    show_rows: ShowRowsOption = True,
    clamp: ClampOption = False,
    force: Annotated[bool, opt("Replace the file if it exists.", "--force")] = False,
) -> int:
    """Measure synthetic tables against the real one: fidelity, utility, privacy. Each goes by its file's name."""
    from reports.sections.quality import predicted
    from synth.output import check_new_file, whole_file
    from understudy.evaluate_external import Offer, measure_offer, unverified

    console = console_of(ctx)
    check_new_file(out, force=force)
    rows = {"targets": targets, "fidelity_rows": fidelity_rows, "sample_rows": sample_rows}
    options = options_of(
        clamp, measure, rows, seed=seed, time_limit_s=time_limit_s, target=target, task=task,
        show_rows=show_rows,
    )  # fmt: skip
    offer = Offer(train, holdout, tuple(synthetic), schema, model, audit, shadow_models, options)
    before = unverified(offer)
    console.warn(*before)
    with console.stage("evaluate") as progress:
        evaluation = measure_offer(offer, progress)
    after = [*evaluation.real.warnings, *(w for w in evaluation.provenance.warnings if w not in before)]
    console.warn(*after)
    with whole_file(out) as path:
        path.write_text(evaluation.to_json(), encoding="utf-8")
    console.say(*predicted(evaluation), *evaluation.real.shift.notes)
    for candidate in evaluation.candidates:
        console.say(f"{candidate.name}: {len(candidate.estimates)} estimates, {len(candidate.failures)} not measured")
    console.say(f"Evaluation: {out}")
    names = [candidate.name for candidate in evaluation.candidates]
    console.result({"evaluation": str(out), "candidates": names, "warnings": [*before, *after]})
    return 0


def gate(
    ctx: typer.Context,
    evaluation: EvaluationFile,
    policy: Annotated[str, opt("A shipped policy's name, or a TOML file.")] = "internal",
    candidate: Annotated[str | None, opt("Judge this one only; none: the worst verdict counts.")] = None,
    waivers: WaiverFile = None,
    junit: Annotated[Path | None, opt("A JUnit XML file to write, for continuous integration.")] = None,
    synthetic: Annotated[Path | None, opt("The evaluated table, for --bundle: judged alone.")] = None,
    bundle: Annotated[Path | None, opt("Evidence bundle of it to make, whatever the verdict.")] = None,
    schema: Annotated[Path | None, opt("The schema it was evaluated with, for --bundle.")] = None,
    job: Annotated[Path | None, opt("The job that the evaluation is of, for --bundle.")] = None,
    sign_key: SignKey = None,
) -> int:
    """Judge an evaluation by a policy, from its file alone. Exit code: 0 PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE."""
    from evaluate.gate.verdict import judge
    from reports.exports import render_junit
    from synth.errors import JobError, nearest
    from synth.output import check_writable, remove_older, whole_file
    from understudy.console import VERDICTS
    from understudy.evaluate_external import read_evaluation
    from understudy.job.load import read_rules

    console = console_of(ctx)
    if junit is not None:
        check_writable(junit)
        _check_apart(junit, (evaluation, Path(policy), waivers, synthetic, schema, job))
        remove_older(junit)  # a pipeline that reads it after an error would take the last verdict for this one
    _check_bundle(bundle, synthetic, (schema, job))
    signer = None if bundle is None else signer_of(sign_key, console)
    judged_by: dict[str, GivenFile] = {}
    rules, answers = read_rules(policy, waivers, Path(), judged_by)
    measured = read_evaluation(evaluation)
    names = [c.name for c in measured.candidates]
    if candidate is not None and candidate not in names:
        raise JobError(f"candidate={candidate!r} is not in the evaluation; {nearest(candidate, names)}")
    offer = None
    if bundle is not None and synthetic is not None:
        from synth.validation import read_given
        from understudy.bundle.evidence import offered
        from understudy.bundle.signing import BundleError

        inputs = {"schema": schema, "job": job}.items()
        files = {name: read_given(path, name, BundleError) for name, path in inputs if path is not None}
        offer = offered(measured, synthetic, candidate, files, judged_by)
        candidate = offer.candidate
    verdicts = judge(measured, [rules], None if candidate is None else [candidate], waivers=answers)
    warned = [*measured.real.warnings, *(() if offer is None else offer.warnings), *_long(answers, [rules])]
    console.warn(*warned)
    worst = max(verdicts, key=lambda v: ("PASS", "INCONCLUSIVE", "FAIL").index(v.verdict))
    for verdict in verdicts:
        _show_verdict(verdict, console)
    console.say(*measured.real.shift.notes)
    if junit is not None:
        with whole_file(junit) as path:
            path.write_text(render_junit(verdicts), encoding="utf-8")
        console.say(f"JUnit: {junit}")
    if offer is not None and bundle is not None:
        from understudy.bundle.evidence import write_offered

        write_offered(offer, judge(measured, [rules], waivers=answers), rules, bundle, signer)
        console.say(f"Evidence bundle: {bundle}")
    code = VERDICTS[worst.verdict]
    said = [verdict.to_dict() for verdict in verdicts]
    sealed = {} if bundle is None else {"bundle": str(bundle)}
    told = {"policy": rules.name, "verdict": worst.verdict, "exit_code": code, "candidates": said, "warnings": warned}
    console.result({**told, **sealed})
    return code


def _check_bundle(bundle: Path | None, synthetic: Path | None, inputs: Sequence[Path | None]) -> None:
    """Refuse a bundle of an offered table unless everything that it takes is named."""
    from synth.errors import JobError
    from synth.output import check_new_folder

    if (bundle is None) != (synthetic is None):
        raise JobError("a bundle is made of the evaluated table; name both --bundle and --synthetic")
    if bundle is not None:
        check_new_folder(bundle)
    elif any(path is not None for path in inputs):
        raise JobError("a schema and a job go into a bundle, and none is to be made; name --bundle and --synthetic")


def report(
    ctx: typer.Context,
    evaluation: EvaluationFile,
    out: OutFile,
    policy: Annotated[list[str] | None, opt("A policy to judge by; may be repeated.")] = None,
    waivers: WaiverFile = None,
    show_rows: ShowRowsOption = True,
) -> int:
    """Show an evaluation as one HTML page that needs neither script nor network. It is internal: it reads real data."""
    from evaluate.gate.policy import build_waivers
    from evaluate.gate.verdict import judge
    from reports import write_html
    from synth.errors import JobError
    from synth.output import check_writable
    from synth.validation import read_toml
    from understudy.evaluate_external import read_evaluation, read_policy

    console = console_of(ctx)
    check_writable(out)
    rules = [read_policy(name) for name in policy or ()]
    answers = () if waivers is None else build_waivers(read_toml(waivers, "waivers", JobError))
    measured = read_evaluation(evaluation)
    measured = measured if show_rows else measured.without_rows()
    release = measured.provenance.release
    named = release if release in [candidate.name for candidate in measured.candidates] else None
    with console.stage("report"):
        write_html(measured, out, verdicts=judge(measured, rules, waivers=answers), release=named)
    warned = _long(answers, rules)
    console.warn(*warned)
    console.say(f"Report: {out}")
    console.result({"report": str(out), "warnings": warned})
    return 0


def _long(waivers: "Iterable[Waiver]", rules: "Iterable[Policy]") -> list[str]:
    from evaluate.gate.policy import lasting

    today = datetime.now(UTC).date()
    return [sentence for policy in rules for sentence in lasting(waivers, policy.name, policy.valid_days, today)]


def _check_apart(junit: Path, read: "Sequence[Path | None]") -> None:
    from synth.errors import JobError

    if any(path is not None and path.exists() and junit.exists() and path.samefile(junit) for path in read):
        raise JobError(f"junit={str(junit)!r} is one of the files that are judged by; name another")


def _show_verdict(verdict: "Verdict", console: Console) -> None:
    from evaluate.gate.decision import sampled

    rows = []
    for finding in verdict.findings:
        sign = "<=" if finding.rule.direction == "lower" else ">="
        rule = f"{_named(finding)} {sign} {finding.rule.limit:g}{finding.rule.second}"
        rows.append((outcome_words(finding), rule, _estimate(finding)))
    console.table(("outcome", "rule", "estimate [95%]"), rows)
    for finding in verdict.findings:
        if finding.outcome != "PASS" or finding.proven is not None or sampled(finding.estimate):
            console.say(reason_line(finding))
    for check in verdict.checks:
        if check.outcome != "came out":
            console.say(f"self-test {check.case}: {check.outcome}. {check.reason}")
    console.say(f"{verdict.candidate}: {verdict.verdict} under policy {verdict.policy}, for {verdict.audience}")
    if verdict.reason:
        console.say(verdict.reason)


def reason_line(finding: "Finding") -> str:
    """A rule with its outcome, number and limit, the reason, and who answers for it."""
    from reports.glossary import shown

    rule, waiver = finding.rule, finding.waiver
    limit = f"{rule.limit:g}{rule.second}"
    number = "" if finding.estimate is None else f", {shown(finding.estimate)} against a limit of {limit}"
    answer = "" if waiver is None else f" By {waiver.owner}, until {waiver.until}: {waiver.reason}"
    return f"{_named(finding)}: {finding.outcome}{number}. {finding.reason}{answer}"


def outcome_words(finding: "Finding") -> str:
    outcome = finding.outcome if finding.proven is None else f"{finding.outcome} by proof"
    if not finding.binding:
        return f"{outcome} (warning)"
    return f"{outcome} (waived)" if finding.waived else outcome


def _named(finding: "Finding") -> str:
    from understudy.vendors.comparison import name_of

    return " ".join([name_of(finding.rule), *([", ".join(finding.rule.subject)] if finding.rule.subject else [])])


def _estimate(finding: "Finding") -> str:
    from evaluate.gate.policy import STATEMENT
    from evaluate.text import typed_loss

    estimate = finding.estimate
    if estimate is None:
        return "none"
    if estimate.measure.startswith(STATEMENT):
        return typed_loss(estimate.value)
    ends = [end for end in (estimate.low, estimate.high) if end is not None]
    return f"{estimate.value:.4g}" + (f" [{ends[0]:.4g}, {ends[-1]:.4g}]" if ends else "")


def card(
    ctx: typer.Context,
    evaluation: EvaluationFile,
    candidate: Annotated[str, opt("The table that the card is about.")],
    out: Annotated[Path, opt("The card: Markdown at this path, YAML beside it.")],
    table: Annotated[Path | None, opt("The synthetic table, for its size and its name.")] = None,
    job: Annotated[Path | None, opt("A job whose [card] says license, contact and use.")] = None,
    policy: Annotated[list[str] | None, opt("A policy whose verdict it shows; may be repeated.")] = None,
    to_hand_on: Annotated[bool, opt("Leave out everything computed from real rows.", "--to-hand-on")] = False,
) -> int:
    """Write the model card of one measured table, as Markdown for a dataset repository and as YAML."""
    from evaluate.gate.verdict import judge
    from reports.model_card.card import internal_card, public_card
    from reports.model_card.render import write_card
    from reports.model_card.schema import ModelCard
    from synth.errors import OutputError
    from synth.output import check_writable
    from understudy.bundle.evidence import Handing
    from understudy.evaluate_external import read_evaluation, read_policy
    from understudy.job.spec import read_job

    console = console_of(ctx)
    beside = out.with_suffix(".yaml")
    if out == beside:
        raise OutputError(f"the Markdown and the YAML of a card are two files: --out {str(out)!r}; end it in .md")
    for path in (out, beside):
        check_writable(path)
    spec = None if job is None else read_job(job)
    handing = Handing() if spec is None else Handing(spec.card, spec.split.holdout_share)
    measured, rules = read_evaluation(evaluation), [read_policy(name) for name in policy or ()]
    facts = handing.facts(table, None if table is None else table.name)
    content: ModelCard = (
        public_card(measured, candidate, facts)
        if to_hand_on
        else internal_card(measured, candidate, facts, judge(measured, rules))
    )
    written = write_card(content, beside, out)
    console.say(f"Card: {out}")
    console.result({"card": [str(path) for path in written], "form": content.form})
    return 0


def a_delivery(text: str) -> Path:
    """A vendor's file or folder: what is wrong with it is that vendor's fault, and stops no other."""
    from understudy.data import is_address  # its libraries are slow to import

    if is_address(text):
        raise typer.BadParameter("a vendor delivers files, and this is an address; name a file or a folder")
    return Path(text)


def compare(
    ctx: typer.Context,
    tables: Annotated[list[Path], arg("The vendors' files.", parser=a_delivery)],
    real: Annotated[str, opt("Real rows that every vendor was given: file, folder or address.")],
    holdout: Annotated[str, opt("Real rows that none was given.")],
    schema: SchemaFile,
    out: OutFolder,
    policy: Annotated[str, opt("A shipped policy's name, or a TOML file.")] = "internal",
    labels: Annotated[str | None, opt("Names of the vendors, separated by commas; none: their files' names.")] = None,
    claims: Annotated[Path | None, opt("A TOML file of what vendors claim; shown as unverified.")] = None,
    seed: SeedOption = 0,
    rows: Annotated[int | None, opt("Rows of each table; none: as many as the smallest has, or train.", min=1)] = None,
    measure: MeasureOption = None,
    time_limit_s: TimeLimitOption = None,
    target: TargetOption = None,
    task: TaskOption = None,
    targets: TargetsOption = "8000",
    show_rows: ShowRowsOption = True,
    clamp: ClampOption = False,
    sign_key: SignKey = None,
) -> int:
    """Compare vendors' tables on the same terms: bar those that break a rule, rank the others in groups.

    Exit code: 0 every table was evaluated and one at least is ranked, 1 every table is disqualified, 2 bad input, 3
    anything else: a table could not be evaluated or lacks columns, or none is left to rank.
    """
    from synth.output import check_new_folder
    from understudy.vendors.comparison import compare as compared
    from understudy.vendors.comparison import deliver_comparison, exit_code, sentences
    from understudy.vendors.submission import Asked

    console = console_of(ctx)
    check_new_folder(out)
    signer = signer_of(sign_key, console)
    names = None if labels is None else tuple(label.strip() for label in labels.split(","))
    options = options_of(
        clamp, measure, {"targets": targets}, seed=seed, time_limit_s=time_limit_s, target=target, task=task,
        show_rows=show_rows,
    )  # fmt: skip
    asked = Asked(real, holdout, schema, tuple(tables), policy, names, claims, rows, options)
    with console.stage("compare") as progress:
        comparison = compared(asked, progress)
    with console.stage("report"):
        deliver_comparison(comparison, seed, out, signer)
    code, said, ranking = exit_code(comparison), sentences(comparison), comparison.ranking
    console.warn(*said)
    order, others = ranking.order.order, [vendor for vendor in ranking.vendors if vendor.standing != "ranked"]
    console.table(("place", "vendor", "group"), [(str(ranked.place), ranked.name, ranked.letters) for ranked in order])
    if len(order) > 1:
        console.say("Vendors that share a letter cannot be told apart.")
    console.say(*(f"{vendor.name}: {vendor.standing}: {vendor.reason}" for vendor in others))
    console.say(f"Comparison: {out}")
    console.result({
        "comparison": str(out), "exit_code": code, "order": [asdict(ranked) for ranked in order],
        "terms": asdict(ranking.terms), "vendors": [asdict(vendor) for vendor in ranking.vendors],
        "warnings": list(said),
    })  # fmt: skip
    return code

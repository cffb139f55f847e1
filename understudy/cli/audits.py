"""`understudy audit`: a claim attacked, without any run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import SeedOption, a_file, console_of, parameters_of

if TYPE_CHECKING:
    from evaluate.audit_result import Audit, AuditPart
    from evaluate.privacy.audit.black_box import BlackBox
    from synth.generators.base import Generator
    from synth.schema import Schema
    from understudy.audit import AuditAnswer
    from understudy.console import Console

AUDIT = (
    "Example: understudy audit --generator mst --epsilon 3 --schema patients.schema.toml --black-box 200 "
    "--out audit.json"
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("audit", epilog=AUDIT)(audit)


def audit(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Option("--generator", help="See `understudy generators`.", show_default=False)
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Gives the unit, k and n_units.", show_default=False)] = None,
    model: Annotated[
        Path | None, typer.Option(help="A saved model, in place of generator and schema.", show_default=False)
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Claimed; left out: only --black-box has something to tell.", show_default=False),
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help='A number, or "auto": min(1e-6, n_units^-1.2).', show_default=False)
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter; may be repeated.")
    ] = None,
    black_box: Annotated[
        int | None,
        typer.Option(
            "--black-box",
            min=20,
            max=1_000_000,
            metavar="N_FITS",
            help="Also judge synthetic tables alone, of so many fits.",
        ),
    ] = None,
    public_table: Annotated[
        Path | None,
        typer.Option(
            parser=a_file,
            help="Table for --black-box that you assert to be public; left out: a made-up one.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            parser=a_file,
            help="Real rows for --black-box: every fit is paid for and never released.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="What pays for --train; left out: that of UNDERSTUDY_LEDGER.", show_default=False)
    ] = None,
    white_box: Annotated[bool, typer.Option(help="Audit the measurement log, on a public stand-in.")] = True,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of each bound.")] = 0.99,
    time_limit_s: Annotated[
        float | None,
        typer.Option("--time-limit-s", min=0.001, help="Seconds for each audit; left out: no limit."),
    ] = None,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="A JSON file for all of it.", show_default=False)] = None,
) -> int:
    """Attack a claim: a lower bound on epsilon beside it.

    No real row is read unless --train names some. Exit code: 0 no fault found, or nothing is claimed; 1 the claim is
    exceeded; 3 too weak to say. No fault found is no proof of the claim: the last lines say which faults would have
    shown, and what is not looked at.
    """
    from synth.output import check_writable, whole_file
    from understudy.audit import Inquiry, inquire

    console = console_of(ctx)
    if out is not None:
        check_writable(out)
    chosen, declared = _chosen(name, schema, model, parameters_of(parameters or [], epsilon, delta))
    asked = Inquiry(
        chosen, declared, seed, confidence, time_limit_s, white_box, black_box, public_table, train, ledger
    )  # fmt: skip
    with console.stage(f"audit {chosen.name}") as progress:
        answer = inquire(asked, progress)
    for sentence in answer.warnings:
        console.warn(sentence)
    content = {"generator": {"generator": chosen.name, **chosen.parameters()}, **answer.to_dict()}
    if out is not None:
        with whole_file(out) as path:
            path.write_text(_json(content), encoding="utf-8")
    _show(chosen, answer, console)
    if out is not None:
        console.say(f"Audit: {out}")
    console.result(content)
    return answer.exit_code


def _chosen(
    name: str | None, schema: Path | None, model: Path | None, parameters: dict[str, Any]
) -> "tuple[Generator, Schema]":
    """What is audited: a generator under a schema, or what a model was fitted by."""
    from synth.errors import JobError
    from synth.generators.registry import generator, load_model
    from synth.schema_file import read_schema
    from understudy.audit import of_model

    if model is not None:
        if name is not None or schema is not None or parameters:
            raise JobError(
                "a model brings its generator, parameters and schema; pass --model alone, or --generator and --schema"
            )
        loaded = load_model(model)
        return of_model(loaded), loaded.schema
    if name is None or schema is None:
        raise JobError("an audit needs something to audit; pass --generator and --schema, or --model")
    return generator(name, **parameters), read_schema(schema)


def _json(content: dict[str, Any]) -> str:
    import json

    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _show(chosen: "Generator", answer: "AuditAnswer", console: "Console") -> None:
    """The bounds beside the claim, what they were found on, what could have been shown, and the verdict last."""
    from evaluate.audit_result import AuditPart
    from reports.audits import checks_in_words, cut, scope_in_words

    rows: list[tuple[str, ...]] = []
    said: list[str] = []
    if (white := answer.white_box) is not None:
        for part in white.attacks:
            what = part.what if isinstance(part, AuditPart) else "measurement log"
            bounds = cut(part.bound), cut(part.distribution_free)
            rows.append((what, *bounds, _claimed(white.epsilon), f"{part.n_trials:,}"))
            said.append(_on(what, part, white.confidence, white.delta))
        said += checks_in_words(white)
    if (black := answer.black_box) is not None:
        rows.append(("synthetic tables", *[cut(black.bound)] * 2, _claimed(black.epsilon), f"{black.n_trials:,}"))
        said.append(_on("synthetic tables", black, black.confidence, black.delta))
    console.table(("audited", "bound", "distribution-free", "claim", "trials"), rows)
    for sentence in (*said, *([scope_in_words(white)] if white is not None else [])):
        console.say(sentence)
    console.say(f"{chosen.name}: {answer.verdict}{_at_best(answer)}")


def _at_best(answer: "AuditAnswer") -> str:
    """What follows the verdict, so that nobody takes the absence of a fault for a proof."""
    from evaluate.audit_result import NO_FAULT
    from reports.audits import cut, power_in_words

    if answer.verdict != NO_FAULT:
        return "."
    if answer.white_box is None:
        assert answer.black_box is not None
        return (
            f" by an attacker who sees synthetic tables alone, and could have shown {cut(answer.black_box.strongest)} "
            "at most. This is no proof of the claim."
        )
    return (
        f" (lower bound {cut(answer.white_box.bound)}, claim {_claimed(answer.white_box.epsilon)}). "
        f"{power_in_words(answer.white_box)} This is no proof of the claim."
    )


def _claimed(epsilon: float | None) -> str:
    from evaluate.text import typed_loss

    return "none" if epsilon is None else typed_loss(epsilon)


def _on(what: str, found: "Audit | AuditPart | BlackBox", confidence: float, delta: float) -> str:
    """What a bound was found on, and what could have been found."""
    from evaluate.privacy.audit.black_box import BlackBox
    from reports.audits import alone, cut

    by_itself = "" if isinstance(found, BlackBox) else alone(found)
    return (
        f"{what[:1].upper()}{what[1:]}: on {found.ran_on}, at {confidence:.4g} confidence and delta {delta:.3g}; an "
        f"attacker who never errs would have shown {cut(found.strongest)}.{by_itself}"
    )

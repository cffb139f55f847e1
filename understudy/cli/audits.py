"""`understudy audit`: a claim attacked, without any run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import SeedOption, console_of, opt, parameters_of

if TYPE_CHECKING:
    from evaluate.audit_result import Audit
    from synth.generators.base import PrivateGenerator
    from synth.schema import Schema
    from understudy.console import Console

AUDIT = "Example: understudy audit --generator mst --epsilon 3 --schema patients.schema.toml --out audit.json"


def add_to(app: typer.Typer) -> None:
    app.command("audit", epilog=AUDIT)(audit)


def audit(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    name: Annotated[str | None, opt("See `understudy generators`.", "--generator")] = None,
    schema: Annotated[Path | None, opt("Gives the unit, k and n_units.")] = None,
    model: Annotated[Path | None, opt("A saved model, in place of generator and schema.")] = None,
    epsilon: Annotated[float | None, opt("Claimed.")] = None,
    delta: Annotated[str | None, opt('A number, or "auto": min(1e-6, n_units^-1.2).')] = None,
    parameters: Annotated[list[str] | None, opt("A parameter; may be repeated.", "--set", metavar="KEY=VALUE")] = None,
    confidence: Annotated[float, opt("Of the bound.", min=0.5, max=0.9999)] = 0.99,
    time_limit_s: Annotated[float | None, opt("Seconds; left out: no limit.", "--time-limit-s", min=0.001)] = None,
    seed: SeedOption = 0,
    out: Annotated[Path | None, opt("A JSON file for all of it.")] = None,
) -> int:
    """Attack a claim: a lower bound on epsilon beside it.

    No real row is read. Exit code: 0 no fault found, which is no proof of the claim; 1 the claim is exceeded; 3 too
    weak to say.
    """
    import evaluate.privacy.audit.white_box as white_box
    from synth.output import check_writable, whole_file
    from understudy.job.seeds import child_seed

    console = console_of(ctx)
    if out is not None:
        check_writable(out)
    chosen, declared = _chosen(name, schema, model, parameters_of(parameters or [], epsilon, delta))
    if model is None:
        chosen.check(declared)  # a model was fitted: what its fit alone needed may be gone
    with console.stage(f"audit {chosen.name}") as progress:
        result = white_box.audit(
            chosen,
            declared,
            seed=child_seed(seed, "audit", chosen.name),
            confidence=confidence,
            time_limit_s=time_limit_s,
            progress=progress,
        )
    code = _exit_code(result)
    content = {
        "generator": {"generator": chosen.name, **chosen.parameters()},
        "verdict": result.verdict,
        "exit_code": code,
        "white_box": result.to_dict(),
    }
    if out is not None:
        with whole_file(out) as path:
            path.write_text(_json(content), encoding="utf-8")
    _show(chosen.name, result, console)
    if out is not None:
        console.say(f"Audit: {out}")
    console.result(content)
    return code


def _exit_code(audit: "Audit") -> int:
    from evaluate.audit_result import EXCEEDS, TOO_WEAK
    from understudy.console import DONE, FAILED, INCONCLUSIVE

    return {EXCEEDS: FAILED, TOO_WEAK: INCONCLUSIVE}.get(audit.verdict, DONE)


def _chosen(
    name: str | None, schema: Path | None, model: Path | None, parameters: dict[str, Any]
) -> "tuple[PrivateGenerator, Schema]":
    from synth.errors import JobError
    from synth.generators.base import PrivateGenerator
    from synth.generators.registry import generator, load_model
    from synth.schema_file import read_schema
    from understudy.run.attacks import claim_of, specification_of

    if model is not None:
        if name is not None or schema is not None or parameters:
            raise JobError(
                "a model brings its generator, parameters and schema; pass --model alone, or --generator and --schema"
            )
        loaded = load_model(model)
        stated = loaded.statement
        chosen = specification_of(loaded) if stated is None else claim_of(loaded, stated)[0]
        declared = loaded.schema
    elif name is None or schema is None:
        raise JobError("an audit needs something to audit; pass --generator and --schema, or --model")
    else:
        chosen, declared = generator(name, **parameters), read_schema(schema)
    if not isinstance(chosen, PrivateGenerator) or not chosen.promises:
        raise JobError(f"an audit needs a claim, and generator={chosen.name!r} has no epsilon; set --epsilon")
    return chosen, declared


def _json(content: dict[str, Any]) -> str:
    import json

    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _show(name: str, audit: "Audit", console: "Console") -> None:
    from evaluate.audit_result import NO_FAULT
    from evaluate.text import typed_loss
    from reports.guarantee import ATTACKED, checks_in_words, cut, power_in_words, scope_in_words

    claim = typed_loss(audit.epsilon)
    rows: list[tuple[str, ...]] = []
    attacks = audit.parts or (audit,)
    for part in attacks:
        what = part.what or ATTACKED[audit.attacked]
        rows.append((what, cut(part.bound), cut(part.distribution_free), claim, f"{part.n_trials:,}"))
    console.table(("audited", "bound", "distribution-free", "claim", "trials"), rows)
    for (what, *_), part in zip(rows, attacks, strict=True):
        console.say(
            f"{what[:1].upper()}{what[1:]}: on {part.ran_on}, at {audit.confidence:.4g} confidence and delta "
            f"{audit.delta:.3g}; an attacker who never errs would have shown {cut(part.strongest)}."
        )
    for sentence in (*checks_in_words(audit), scope_in_words(audit)):
        console.say(sentence)
    end = "."  # where no fault was found, nobody is to take that for a proof
    if audit.verdict == NO_FAULT:
        end = (
            f" (lower bound {cut(audit.bound)}, claim {claim}). {power_in_words(audit)} This is no proof of the claim."
        )
    console.say(f"{name}: {audit.verdict}{end}")

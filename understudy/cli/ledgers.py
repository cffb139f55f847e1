"""`understudy ledger`, `audit`: what was spent of a dataset's total, what a release costs, and a claim attacked."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import DeltaOption, ParameterOption, SeedOption, arg, console_of, opt, parameters_of, scalar
from understudy.console import DONE, FAILED, INCONCLUSIVE, Console

if TYPE_CHECKING:
    from evaluate.audit_result import Audit
    from synth.dp.ledger import Holding, Ledger, LedgerEntry
    from synth.generators.base import PrivateGenerator
    from synth.schema import Schema


OPEN = "Example: understudy ledger open patients --epsilon 3 --n-units 50000 --unit patient_id --ledger ledger.db"
SHOW = "Example: understudy ledger show --ledger ledger.db; understudy ledger show --release out/fair/evaluation.json"
RESERVE = 'Example: understudy ledger reserve patients --plan counts.toml --for "counts for the annual report"'

Url = Annotated[str | None, opt("A file, or postgresql://user@host/database.", "--ledger", envvar="UNDERSTUDY_LEDGER")]
Name = Annotated[str, arg("Declared name of the dataset.")]
MaybeName = Annotated[str | None, arg("Declared name of the dataset.")]
AUDIT = "Example: understudy audit --generator mst --epsilon 3 --schema patients.schema.toml --out audit.json"


def add_to(app: typer.Typer) -> None:
    about = "The privacy budget of datasets: open a total, show and check it, reserve of it."
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)
    group.command("open", epilog=OPEN)(open_total)
    group.command("show", epilog=SHOW)(show)
    group.command("reserve", epilog=RESERVE)(reserve)
    app.add_typer(group, name="ledger", epilog=OPEN)
    app.command("audit", epilog=AUDIT)(audit)


def open_total(
    ctx: typer.Context,
    epsilon: Annotated[float, opt("The total, for all releases there will ever be.")],
    name: MaybeName = None,
    delta: Annotated[str, opt('The total: a number, or "auto": min(1e-6, n_units^-1.2).')] = "auto",
    n_units: Annotated[int | None, opt("Number of units of privacy: public.", "--n-units")] = None,
    unit: Annotated[str | None, opt("row, or the column that names the unit.", show_default="row")] = None,
    schema: Annotated[Path | None, opt("A declared schema to take name, unit and number from.")] = None,
    url: Url = None,
) -> int:
    """Promise a total for a dataset, for good.

    It is promised once and cannot be changed. Where there is no ledger, this makes one.
    """
    from synth.errors import LedgerError

    ledger, console = _ledger(url), console_of(ctx)
    chosen: dict[str, Any] = {"dataset": name, "unit": unit, "n_units": n_units}
    for key, declared in ({} if schema is None else _declared(schema)).items():
        if chosen[key] is not None and declared is not None and chosen[key] != declared:
            raise LedgerError(f"{key}={chosen[key]!r} contradicts the schema, which says {declared!r}; leave one out")
        chosen[key] = declared if chosen[key] is None else chosen[key]
    for key, remedy in (
        ("dataset", "write its NAME after `open`"),
        ("n_units", "pass --n-units, on which delta depends"),
    ):
        if chosen[key] is None:
            raise LedgerError(f"a total needs its {key}; {remedy}, or --schema of a schema that declares it")
    unit, n_units = chosen["unit"] or "row", chosen["n_units"]
    holding = ledger.open(chosen["dataset"], unit=unit, epsilon=epsilon, delta=scalar(delta), n_units=n_units)
    console.say(
        f"Total of {holding.dataset} by {holding.unit}: epsilon={holding.epsilon:g} at delta={holding.delta:.3g}, for "
        "all releases of all its versions and extracts together"
    )
    console.result(_holding(holding))
    return DONE


def show(
    ctx: typer.Context,
    name: MaybeName = None,
    entries: Annotated[bool, opt("List every entry, as it is.", "--entries")] = False,
    holds: Annotated[str | None, opt("Hash from a privacy statement; it must be among the entries.")] = None,
    release: Annotated[
        Path | None, opt("What this release costs: a plan, an evaluation.json or a model's folder.", metavar="FILE")
    ] = None,
    candidate: Annotated[str | None, opt("Whose statement, where --release has several.")] = None,
    url: Url = None,
) -> int:
    """Show totals, what was spent of them by now and what is left, once every entry is checked.

    Or compute anew what a release costs, from its books alone. No table is read. Exit code 1: an entry is damaged, or
    a release claims less than its events cost. What is gone from the end shows only by a hash kept elsewhere (--holds).
    """
    from evaluate.text import room, typed_loss
    from synth.dp.statement import IN_LEDGER

    console = console_of(ctx)
    if release is not None:
        totals = [] if name is None else _holdings(_ledger(url), name)
        total = min(((each.epsilon, each.delta) for each in totals), default=None)  # the smallest, of several units
        return _show_release(release, candidate, total, console)
    ledger = _ledger(url)
    damages, listed = ledger.verify(holds), ledger.history(name) if entries else ()
    if entries:
        console.table(("seq", "time (UTC)", "kind", "token", "of what"), [_row(entry) for entry in listed])
    holdings = [] if damages else _holdings(ledger, name)
    if damages:
        rows = [("-" if damage.seq is None else str(damage.seq), damage.what) for damage in damages]
        console.table(("seq", "damage"), rows)
    else:
        shown = [
            (
                *(each.dataset, each.unit, f"{each.epsilon:g}", f"{each.delta:.3g}"),
                *(typed_loss(each.spent_epsilon), room(each.left_epsilon), str(each.n_releases)),
            )
            for each in holdings
        ]
        console.table(("dataset", "unit", "epsilon", "delta", "spent", "left", "releases"), shown)
        console.say(
            f"Spent and left are as of now, after every reservation that was made, used or not. {IN_LEDGER}",
            "The ledger is whole." if holds is None else "The ledger is whole, and holds that entry.",
        )
    columns = ("time", "kind", "dataset", "unit", "token", "body", "previous", "hash")
    code = FAILED if damages else DONE
    console.result({
        "holdings": [_holding(holding) for holding in holdings],
        "whole": not damages,
        "damages": [damage.__dict__ for damage in damages],
        "entries": [{"seq": entry.seq, **{key: str(getattr(entry, key)) for key in columns}} for entry in listed],
        "exit_code": code,
    })  # fmt: skip
    return code


def reserve(
    ctx: typer.Context,
    name: Name,
    plan: Annotated[Path, opt("The schedule of the release, as TOML.")],
    what: Annotated[str, opt("The release in words.", "--for")],
    unit: Annotated[str | None, opt("Of privacy.", show_default="the one with a total")] = None,
    token: Annotated[str | None, opt("Names it: asked twice, it counts once.", show_default="new")] = None,
    url: Url = None,
) -> int:
    """Reserve for a release made elsewhere or later."""
    import secrets

    from evaluate.text import typed_loss
    from synth.dp.ledger import Request
    from synth.dp.schedule_file import read_schedule
    from synth.dp.statement import IN_LEDGER
    from synth.errors import LedgerError

    console, ledger = console_of(ctx), _ledger(url)
    schedule = read_schedule(plan)
    units = [holding.unit for holding in _holdings(ledger, name)]
    if unit is None and len(units) > 1:
        raise LedgerError(f"dataset={name!r} has totals for unit={', '.join(map(repr, units))}; pass one as --unit")
    request = Request(
        token=token or secrets.token_hex(16),
        dataset=name,
        unit=unit or units[0],
        what=what,
        curve=schedule.curve,
        schedule_hash=schedule.digest,
    )
    (reservation,) = ledger.reserve([request])
    stands = ledger.note(reservation.token)
    console.say(f"Reserved for {reservation.what}: token {reservation.token}")
    console.say(
        f"epsilon={typed_loss(stands.epsilon)} in the ledger; {reservation.dataset} by {reservation.unit} has now "
        f"spent {typed_loss(stands.spent_epsilon)} of {stands.total_epsilon:g} at delta={stands.total_delta:.3g}. "
        f"{IN_LEDGER}"
    )
    console.warn(*reservation.warnings)
    console.result({**stands.__dict__, "state": reservation.state, "warnings": list(reservation.warnings)})
    return DONE


def _ledger(url: str | None) -> "Ledger":
    from synth.dp.ledger import open_ledger
    from synth.errors import LedgerError

    if url is None:
        raise LedgerError("no ledger is named; pass --ledger, or set UNDERSTUDY_LEDGER")
    return open_ledger(url)


def _declared(path: Path) -> dict[str, Any]:
    from synth.errors import LedgerError
    from synth.schema_file import read_schema

    schema = read_schema(path)
    if schema.status != "declared":
        raise LedgerError(
            f"a total needs a declared schema, and {str(path)!r} is inferred; `understudy schema declare` it"
        )
    return {"dataset": schema.dataset, "unit": schema.unit, "n_units": schema.n_units}


def _holdings(ledger: "Ledger", name: str | None) -> "list[Holding]":
    """The totals of a dataset, which must be there, or of all."""
    from synth.dp.ledger.records import named

    if name is not None:
        ledger.history(name)
    return [holding for holding in ledger.holdings() if name is None or holding.dataset == named(name, "dataset")]


def _holding(holding: "Holding") -> dict[str, Any]:
    keys = ("dataset", "unit", "epsilon", "delta", "n_units", "spent_epsilon", "left_epsilon", "n_releases")
    return {key: getattr(holding, key) for key in keys}


def _row(entry: "LedgerEntry") -> tuple[str, ...]:
    """An entry as a line of a table; a damaged one may hold anything."""
    try:
        content = entry.content
        note = content.get("note", content)
        pairs = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in note.items()]
        words = str(content["what"]) if "what" in content else ", ".join(pairs)
    except (AttributeError, TypeError, ValueError, RecursionError):
        words = "(cannot be read)"
    what = f"{entry.dataset} by {entry.unit}" + (f": {words}" if words else "")
    cells = (str(entry.time)[:16].replace("T", " "), entry.kind, str(entry.token)[:8], what)
    return (str(entry.seq), *map(str, cells))


def _show_release(file: Path, candidate: str | None, total: tuple[float, float] | None, console: Console) -> int:
    """What a release costs by every way of counting, the tightest first, and the verdict on what it claims."""
    from evaluate.text import at_most
    from synth.dp.schedule_file import read_books
    from synth.dp.statement import IN_LEDGER
    from understudy.budget import compose

    books = read_books(file, candidate)
    costs = compose(books, total)
    at, rho, ledger = f"at delta={costs['delta']:.3g}", costs["rho"], costs["in_ledger"]
    own = sum(event.delta for event in books.schedule.events)
    rows = [
        (
            *(_digits(event.rho), "-" if event.rho is None or not rho else f"{100 * event.rho / rho:.1f}%"),
            *(_digits(event.delta) if event.delta else "-", str(event.count)),
            f"{event.what}: {event.mechanism}, {_noise(event.record().noise)}",
        )
        for event in books.schedule.events
    ]
    total_row = (_digits(rho), "-" if rho is None else "100.0%", _digits(own) if own else "-", "", "total")
    console.table(("rho", "share", "own delta", "times", "what was read, and how"), [*rows, total_row])
    way = "PLD" if costs["delta"] > 0 else "sum of pure losses"
    counted = {
        "release": ("epsilon", f"{way}: what a statement claims, {at}"),
        "check": ("epsilon_rdp", "RDP: never below the release"),
        "by hand": ("epsilon_by_hand", _by_hand(costs["delta"], rho, own)),
        "advanced": ("epsilon_advanced", "advanced composition, as textbooks have it"),
        "basic": ("epsilon_basic", "every release alone, added up"),
    }
    ways = [(what, _digits(costs[key]), how) for what, (key, how) in counted.items()]
    if ledger is not None:
        of_total = f"alone, of a total of epsilon={ledger['total_epsilon']:g} at delta={ledger['total_delta']:.3g}"
        refused = "" if ledger["epsilon"] <= ledger["total_epsilon"] else ", which refuses it"
        ways.append(("in a ledger", _digits(ledger["epsilon"]), of_total + refused))
    console.table(("counted", "epsilon", "how"), ways)
    if ledger is not None:
        console.say(IN_LEDGER)
    groups = [(str(n), _digits(e) if math.isfinite(e) else "no bound", at) for n, e in costs["groups"].items()]
    console.table(("units together", "epsilon", "how"), groups)
    limits = [(f"{100 * rate:g}%", at_most(most), "by all events") for rate, most in costs["detections"].items()]
    console.table(("false alarms", "detections at most", "how"), limits)
    name, epsilon, claim = costs["name"], f"{costs['epsilon']:.6g}", costs["claim"]
    for sentence in costs["against"]:
        console.say(f"{name}: FAIL: {sentence}.")
    if claim is None:
        console.say(f"{name}: epsilon={epsilon} {at}; the file claims nothing.")
    elif not costs["against"]:
        words = "agrees with" if claim["agrees"] else "is larger than"
        console.say(f"{name}: PASS: the claim epsilon={claim['epsilon']:.6g} {words} what the events cost, {epsilon}.")
    code = FAILED if costs["against"] else DONE
    console.result({**_finite(costs), "exit_code": code})
    return code


def _by_hand(delta: float, rho: float | None, own: float) -> str:
    if delta == 0:
        return "not by hand: it takes a delta"
    if rho is None:
        return "not by hand: subsampling has no rho"
    rest = f"{delta:.3g}" if not own else f"({delta:.3g} - {own:.3g})"
    return f"{rho:.6g} + 2 sqrt({rho:.6g} x ln(1 / {rest}))"


def _noise(noise: Mapping[str, Any]) -> str:
    """The parameters, to be typed into a calculator."""
    shown = [f"{key} {_digits(value)}" for key, value in noise.items() if not isinstance(value, bool)]
    return ", ".join([*shown, *(["real numbers"] if noise.get("whole") is False else [])]).replace("_", " ")


def _digits(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.6g}"


def _finite(content: Any) -> Any:
    """Plain data without infinite numbers, which JSON does not have."""
    if isinstance(content, dict):
        return {f"{key:g}" if isinstance(key, float) else str(key): _finite(value) for key, value in content.items()}
    return None if isinstance(content, float) and not math.isfinite(content) else content


def audit(
    ctx: typer.Context,
    name: Annotated[str | None, opt("See `understudy generators`.", "--generator")] = None,
    schema: Annotated[Path | None, opt("Gives the unit, k and n_units.")] = None,
    model: Annotated[Path | None, opt("A saved model, in place of generator and schema.")] = None,
    epsilon: Annotated[float | None, opt("Claimed.")] = None,
    delta: DeltaOption = None,
    parameters: ParameterOption = None,
    confidence: Annotated[float, opt("Of the bound.", min=0.5, max=0.9999)] = 0.99,
    time_limit_s: Annotated[float | None, opt("Seconds; left out: no limit.", "--time-limit-s", min=0.001)] = None,
    seed: SeedOption = 0,
    out: Annotated[Path | None, opt("A JSON file for all of it.")] = None,
) -> int:
    """Attack a claim: a lower bound on epsilon beside it.

    No real row is read. Exit code: 0 no fault found, which is no proof of the claim; 1 the claim is exceeded; 3 too
    weak to say.
    """
    from evaluate.audit_result import EXCEEDS, TOO_WEAK
    from evaluate.privacy.audit import white_box
    from synth.output import check_writable, whole_file
    from understudy.job import child_seed

    console = console_of(ctx)
    if out is not None:
        check_writable(out)
    chosen, declared = _chosen(name, schema, model, parameters_of(parameters, epsilon, delta))
    if model is None:
        chosen.check(declared)  # a model was fitted: what its fit alone needed may be gone
    with console.stage(f"audit {chosen.name}") as progress:
        child, limit = child_seed(seed, "audit", chosen.name), time_limit_s
        result = white_box.audit(
            chosen, declared, seed=child, confidence=confidence, time_limit_s=limit, progress=progress
        )
    code = {EXCEEDS: FAILED, TOO_WEAK: INCONCLUSIVE}.get(result.verdict, DONE)
    content = {
        "generator": {"generator": chosen.name, **chosen.parameters()},
        "verdict": result.verdict,
        "exit_code": code,
        "white_box": result.to_dict(),
    }
    if out is not None:
        with whole_file(out) as path:
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
            path.write_text(text, encoding="utf-8")
    _show(chosen.name, result, console)
    if out is not None:
        console.say(f"Audit: {out}")
    console.result(content)
    return code


def _chosen(
    name: str | None, schema: Path | None, model: Path | None, parameters: dict[str, Any]
) -> "tuple[PrivateGenerator, Schema]":
    from synth.errors import JobError
    from synth.generators.base import PrivateGenerator
    from synth.generators.registry import generator, load_model
    from synth.schema_file import read_schema
    from understudy.run.stages import claim_of, specification_of

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


def _show(name: str, audit: "Audit", console: Console) -> None:
    from evaluate.audit_result import NO_FAULT
    from evaluate.text import typed_loss
    from reports.guarantee import ATTACKED, checks_in_words, cut, power_in_words, scope_in_words

    claim = typed_loss(audit.epsilon)
    attacks = [(part.what or ATTACKED[audit.attacked], part) for part in audit.parts or (audit,)]
    rows = [(what, cut(part.bound), cut(part.distribution_free), claim, f"{part.n_trials:,}") for what, part in attacks]
    console.table(("audited", "bound", "distribution-free", "claim", "trials"), rows)
    for what, part in attacks:
        console.say(
            f"{what[:1].upper()}{what[1:]}: on {part.ran_on}, at {audit.confidence:.4g} confidence and delta "
            f"{audit.delta:.3g}; an attacker who never errs would have shown {cut(part.strongest)}."
        )
    console.say(*checks_in_words(audit), scope_in_words(audit))
    end = "."  # where no fault was found, nobody is to take that for a proof
    if audit.verdict == NO_FAULT:
        end = (
            f" (lower bound {cut(audit.bound)}, claim {claim}). {power_in_words(audit)} This is no proof of the claim."
        )
    console.say(f"{name}: {audit.verdict}{end}")

"""`understudy account`: what the books of a release come to, computed anew. No table is read."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import console_of
from understudy.console import DONE, FAILED, Console

if TYPE_CHECKING:
    from synth.dp.events import Event
    from synth.dp.schedule_file import ScheduleFile
    from understudy.budget.composition import Priced

ACCOUNT = "Example: understudy account out/fair/evaluation.json --candidate mst"

Source = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan, an evaluation.json or a model's folder.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    app.command("account", epilog=ACCOUNT)(account)


def account(
    ctx: typer.Context,
    source: Source,
    candidate: Annotated[
        str | None, typer.Option(help="Whose statement, where there are several.", show_default=False)
    ] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="Of a ledger's total: what this release would add.", show_default=False)
    ] = None,
    total_delta: Annotated[float | None, typer.Option(help="Of that total.", show_default="the release's own")] = None,
) -> int:
    """Compute anew what a release costs, from its books alone: no table is read.

    The exit code is 1 where the file claims less than its events cost.
    """
    from synth.dp.schedule_file import read_books
    from synth.errors import BudgetError
    from understudy.budget.composition import price

    console = console_of(ctx)
    if total_delta is not None and total_epsilon is None:
        raise BudgetError("a total has an epsilon and a delta; pass --total-epsilon too")
    books = read_books(source, candidate)
    delta = books.schedule.delta if total_delta is None else total_delta
    priced = price(books, None if total_epsilon is None else (total_epsilon, delta))
    code = FAILED if priced.against else DONE
    _show_events(books, console)
    _show_totals(books, priced, console)
    _show_limits(books, priced, console)
    _show_verdict(books, priced, console)
    console.result({**_plain(books, priced), "exit_code": code})
    return code


def _show_events(books: "ScheduleFile", console: Console) -> None:
    rho = books.schedule.rho
    headings = ("rho", "share", "own delta", "times", "what was read, and how")
    rows = [
        (
            *(_digits(event.rho), _share(event.rho, rho), _digits(event.delta) if event.delta else "-"),
            *(str(event.count), f"{event.what}: {event.mechanism}, {_noise(event)}"),
        )
        for event in books.schedule.events
    ]
    own = sum(event.delta for event in books.schedule.events)
    total = (_digits(rho), "-" if rho is None else "100.0%", _digits(own) if own else "-", "", "total")
    console.table(headings, [*rows, total])


def _show_totals(books: "ScheduleFile", priced: "Priced", console: Console) -> None:
    """Every way of counting, the tightest first."""
    from synth.dp.statement import IN_LEDGER

    schedule = books.schedule
    own = sum(event.delta for event in schedule.events)
    way = "PLD" if schedule.delta > 0 else "sum of pure losses"
    rest = f"{schedule.delta:.3g}" if not own else f"({schedule.delta:.3g} - {own:.3g})"
    by_hand = "not by hand: subsampling has no rho"
    if schedule.delta == 0:
        by_hand = "not by hand: it takes a delta"
    elif schedule.rho is not None:
        by_hand = f"{schedule.rho:.6g} + 2 sqrt({schedule.rho:.6g} x ln(1 / {rest}))"
    rows = [
        ("release", _digits(priced.epsilon), f"{way}: what a statement claims, at delta={schedule.delta:.3g}"),
        ("check", _digits(priced.epsilon_rdp), "RDP: never below the release"),
        ("by hand", _digits(priced.epsilon_by_hand), by_hand),
        ("advanced", _digits(priced.epsilon_advanced), "advanced composition, as textbooks have it"),
        ("basic", _digits(priced.epsilon_basic), "every release alone, added up"),
    ]
    if priced.in_ledger is not None:
        held = priced.in_ledger
        total = f"alone, of a total of epsilon={held.total_epsilon:g} at delta={held.total_delta:.3g}"
        refused = "" if held.epsilon <= held.total_epsilon else ", which refuses it"
        rows.append(("in a ledger", _digits(held.epsilon), total + refused))
    console.table(("counted", "epsilon", "how"), rows)
    if priced.in_ledger is not None:
        console.say(IN_LEDGER)


def _show_limits(books: "ScheduleFile", priced: "Priced", console: Console) -> None:
    """The protection of several units, and the limit on any test of membership."""
    from evaluate.text import at_most

    groups = [
        (str(size), _digits(epsilon) if math.isfinite(epsilon) else "no bound", f"at delta={books.schedule.delta:.3g}")
        for size, epsilon in priced.groups.items()
    ]
    console.table(("units together", "epsilon", "how"), groups)
    limits = [(f"{100 * rate:g}%", at_most(most), "by all events") for rate, most in priced.detections.items()]
    console.table(("false alarms", "detections at most", "how"), limits)


def _show_verdict(books: "ScheduleFile", priced: "Priced", console: Console) -> None:
    name = books.name
    for sentence in priced.against:
        console.say(f"{name}: FAIL: {sentence}.")
    if books.claim is None:
        console.say(
            f"{name}: epsilon={priced.epsilon:.6g} at delta={books.schedule.delta:.3g}; the file claims nothing."
        )
    elif not priced.against:
        claimed = books.claim.epsilon
        words = "agrees with" if _agrees(claimed, priced.epsilon) else "is larger than"
        console.say(
            f"{name}: PASS: the claim epsilon={claimed:.6g} {words} what the events cost, {priced.epsilon:.6g}."
        )


def _agrees(claimed: float, cost: float) -> bool:
    from understudy.budget.composition import AGREEMENT

    return abs(claimed - cost) <= AGREEMENT * cost


def _plain(books: "ScheduleFile", priced: "Priced") -> dict[str, Any]:
    schedule, held, claim = books.schedule, priced.in_ledger, books.claim
    ways = ("epsilon", "epsilon_rdp", "epsilon_by_hand", "epsilon_advanced", "epsilon_basic")
    return {
        "name": books.name,
        "delta": schedule.delta,
        "rho": schedule.rho,
        **{way: _finite(getattr(priced, way)) for way in ways},
        "groups": {str(size): _finite(epsilon) for size, epsilon in priced.groups.items()},
        "detections": {f"{rate:g}": most for rate, most in priced.detections.items()},
        "events": [event.record().__dict__ for event in schedule.events],
        "schedule_hash": schedule.digest,
        "in_ledger": None if held is None else {**held.__dict__, "epsilon": _finite(held.epsilon)},
        "claim": None
        if claim is None
        else {"epsilon": claim.epsilon, "agrees": _agrees(claim.epsilon, priced.epsilon)},
        "against": list(priced.against),
    }


def _noise(event: "Event") -> str:
    """The parameters, to be typed into a calculator."""
    noise = event.record().noise
    shown = [f"{key} {_digits(value)}" for key, value in noise.items() if not isinstance(value, bool)]
    return ", ".join([*shown, *(["real numbers"] if noise.get("whole") is False else [])]).replace("_", " ")


def _share(rho: float | None, total: float | None) -> str:
    return "-" if rho is None or not total else f"{100 * rho / total:.1f}%"


def _digits(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.6g}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

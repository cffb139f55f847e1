"""Whether the books allow what is asked, and the sentence that says why not."""

import shlex
from collections.abc import Sequence

from synth.dp.curve import CONVERSION_SHARE, RdpCurve
from synth.dp.ledger.books import Account, Books, Record
from synth.dp.ledger.entries import Draft
from synth.dp.ledger.request import Request, named
from synth.errors import LedgerError, nearest


def record_of(books: Books, token: str) -> Record:
    """The record of a reservation.

    Raises:
        LedgerError: there is none.
    """
    record = books.records.get(named(token, "token"))
    if record is None:
        raise LedgerError(f"token={token!r} was never reserved in this ledger; reserve first, or name its own ledger")
    return record


def granted(books: Books, draft: Draft) -> bool:
    """Whether the books hold this very request.

    Raises:
        LedgerError: they hold another one under its token.
    """
    record = books.records.get(draft.token)
    if record is None:
        return False
    held = record.reservation
    if (held.dataset, held.unit, record.body) != (draft.dataset, draft.unit, draft.body):
        raise LedgerError(
            f"token={draft.token!r} names another request already; choose a token of its own for this one"
        )
    return True


def check_totals(books: Books, requests: Sequence[Request]) -> None:
    """Refuse releases that do not all fit.

    Raises:
        LedgerError: a dataset has no total, or one that does not admit them.
    """
    by_account: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        by_account.setdefault((request.dataset, request.unit), []).append(request)
    for (dataset, unit), asked in by_account.items():
        account = books.accounts.get((dataset, unit))
        if account is None:
            raise LedgerError(_without_total(books, dataset, unit))
        curves, names = [request.curve for request in asked], [request.what for request in asked]
        check_total(account, curves, releases_of(len(asked)), names=names)


def releases_of(n: int) -> str:
    """What is refused, in words."""
    return "this release" if n == 1 else f"these {n} releases"


def check_total(account: Account, curves: Sequence[RdpCurve], what: str, names: Sequence[str] = ()) -> None:
    """Refuse costs that do not fit into what is left.

    Args:
        account: what is spent of which total.
        curves: what is to be added, in order.
        what: it is, in words.
        names: of the curves, in words; of several the one that costs most is told.

    Raises:
        LedgerError: the total does not admit them.
    """
    after = account
    for curve in curves:  # added in the order in which the books will add them, so that both get the same sum
        after = after.with_cost(curve)
    total, held = account.total, account.holding
    if total.admits(after.curve):
        return
    share = (1 - CONVERSION_SHARE) * total.delta
    remedy = "ask for a smaller epsilon or fewer releases"
    rise = f"epsilon from {held.spent_epsilon:.6g} to {total.spent(after.curve):.6g}"
    alone = [total.spent(curve) for curve in curves]
    if names and max(alone) > min(alone):
        rise += f", the largest of them {names[alone.index(max(alone))]!r} with {max(alone):.6g} by itself"
    if after.curve.delta > share:
        before, behind = account.curve.delta, after.curve.delta
        rise = f"the deltas of mechanisms from {before:.3g} to {behind:.3g}, where {share:.3g} is the most"
        remedy = "set a smaller delta for it, or declare the categories and frequent values that it would measure"
    raise LedgerError(
        f"the total of dataset={account.dataset!r} with unit={account.unit!r} is epsilon={total.epsilon:g} at "
        f"delta={total.delta:.3g}, of which {held.left_epsilon:.6g} is left, and {what} would bring {rise}; "
        f"{remedy}"
    )


def _without_total(books: Books, dataset: str, unit: str) -> str:
    units = sorted(known for name, known in books.accounts if name == dataset)
    if not units:
        return unknown(dataset, books.datasets)
    command = f"understudy ledger open {shlex.quote(dataset)} --unit {shlex.quote(unit)} --epsilon E --n-units N"
    return (
        f"dataset={dataset!r} has a total for unit={', '.join(map(repr, units))}, not for unit={unit!r}; declare that "
        f"unit in the schema, or open a total with `{command}`"
    )


def unknown(dataset: str, known: set[str]) -> str:
    """The sentence for a dataset without a total, with the nearest name that has one."""
    hint = f" ({nearest(dataset, known)})" if known else ""
    command = f"understudy ledger open {shlex.quote(dataset)} --epsilon E --n-units N"
    return f"dataset={dataset!r} has no total in this ledger{hint}; open one with `{command}`"

"""Which rows of a ledger are damaged, and how.

The chain shows any change to what was written, as long as whoever made it did not compute all later hashes anew, and
it cannot show that its last entries are gone. A hash that lies elsewhere, in a privacy statement, shows both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from synth.dp.ledger.books import Books, Impossible
from synth.dp.ledger.entries import GENESIS, Entry


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong.

    Attributes:
        seq: of the entry; None where it is not about one.
        what: what is wrong with it.
    """

    seq: int | None
    what: str


def damages(entries: Sequence[Entry], holds: str | None = None) -> tuple[Damage, ...]:
    """Everything wrong with a ledger, in the order of the chain; empty for one that is whole.

    Args:
        entries: all rows, by seq.
        holds: a hash that a privacy statement names.
    """
    books, found, before = Books(), list[Damage](), None
    for entry in entries:
        found += _misplaced(entry, before)
        found += _altered(entry, before)
        try:
            books.apply(entry)
        except Impossible as reason:
            found.append(Damage(entry.seq, f"{reason}: it cannot follow the entries before it"))
        before = entry
    if not entries:
        found.append(Damage(1, "the first entry is missing: the ledger is empty"))
    if holds is not None and holds not in {entry.digest() for entry in entries}:
        found.append(Damage(None, f"no entry has the hash {holds}, which a statement names: it was removed or altered"))
    return tuple(found)


def _misplaced(entry: Entry, before: Entry | None) -> list[Damage]:
    expected = 1 if before is None else before.seq + 1
    if entry.seq < 1:
        return [Damage(entry.seq, "entries are numbered from 1")]
    if entry.seq == expected or (before is not None and before.seq < 1 and entry.seq == 1):
        return []
    last = entry.seq - 1
    gap = f"entry {expected} is missing" if last == expected else f"entries {expected} to {last} are missing"
    return [Damage(expected, gap)]


def _altered(entry: Entry, before: Entry | None) -> list[Damage]:
    found = []
    if entry.digest() != entry.hash:
        found.append(Damage(entry.seq, "its hash is not that of its content: a column was altered"))
    # Where the entry before was altered, one of its two hashes is still the one that this entry was linked to.
    links = {GENESIS} if before is None else {before.hash, before.digest()}
    if entry.previous not in links:
        found.append(Damage(entry.seq, "its link is not the hash of the entry before it"))
    return found

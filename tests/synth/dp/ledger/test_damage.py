"""Whatever is done to a row behind the ledger's back is named, with the row's number."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from synth.dp.ledger import Damage, Ledger, Request, open_ledger
from synth.dp.ledger.records import GENESIS, Draft, LedgerEntry, canonical, chained, curve_content
from synth.dp.ledger.store import TABLE, add, entries_after, parsed
from synth.dp.renyi_curve import RdpCurve
from synth.errors import LedgerError

Ask = Callable[..., Request]
COLUMNS = ("time", "kind", "dataset", "unit", "token", "body", "previous", "hash")
N_ENTRIES = 7


@pytest.fixture
def full(ledger: Ledger, ask: Ask) -> Ledger:
    """A ledger with one entry of each kind, and some more."""
    ledger.reserve([ask("a", fingerprint="f"), ask("b")])
    ledger.use("a")
    ledger.charge("a", "marginals", ask("a").curve)
    ledger.commit("a", {"epsilon": 0.1})
    ledger.use("b")
    return ledger


def sql(url: str, *statements: str, **values: object) -> None:
    engine = parsed(url).engine()
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        for statement in statements:
            connection.execute(sa.text(statement), values)


def unguard(url: str) -> None:
    if url.startswith("sqlite"):
        sql(url, *(f"DROP TRIGGER {TABLE}_{name}" for name in ("no_update", "no_delete", "in_order")))
    else:
        sql(url, f"ALTER TABLE {TABLE} DISABLE TRIGGER USER")


def named(found: tuple[Damage, ...]) -> set[int]:
    return {damage.seq for damage in found if damage.seq is not None}


def test_a_whole_ledger_has_no_damage(full: Ledger) -> None:
    assert full.verify() == ()
    assert full.verify(holds=full.history()[3].hash.upper()) == ()


@pytest.mark.parametrize("change", ["UPDATE {} SET time = time", "DELETE FROM {}", "DELETE FROM {} WHERE seq = 7"])
def test_the_database_itself_forbids_changes(full: Ledger, url: str, change: str) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="a ledger only grows"):
        sql(url, change.format(TABLE))
    assert full.verify() == ()


def test_a_table_cannot_be_emptied_nor_a_row_replaced(full: Ledger, url: str) -> None:
    row = f"({', '.join(('3', *(repr('x') for _ in COLUMNS)))})"
    change = f"INSERT OR REPLACE INTO {TABLE} VALUES {row}" if url.startswith("sqlite") else f"TRUNCATE {TABLE}"
    with pytest.raises(sa.exc.DBAPIError, match="a ledger only grows"):
        sql(url, change)
    if not url.startswith("sqlite"):
        upsert = f"INSERT INTO {TABLE} VALUES {row} ON CONFLICT (seq) DO UPDATE SET time = excluded.time"
        with pytest.raises(sa.exc.DBAPIError, match="a ledger only grows"):
            sql(url, upsert)
    assert full.verify() == ()


def test_a_guard_that_is_gone_is_named(full: Ledger, url: str) -> None:
    unguard(url)
    found = full.verify()
    assert found and all(damage.seq is None and "trigger" in damage.what for damage in found)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_byte_in_any_column_of_any_row_is_named(full: Ledger, url: str, column: str) -> None:
    assert_changes_are_named(full, url, column, everywhere=False)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_a_change_at_any_place_of_any_column_of_any_row_is_named(full: Ledger, url: str, column: str) -> None:
    assert_changes_are_named(full, url, column, everywhere=True)


def assert_changes_are_named(full: Ledger, url: str, column: str, *, everywhere: bool) -> None:
    unguard(url)
    entries = full.history()
    assert len(entries) == N_ENTRIES
    for entry in entries:
        text = getattr(entry, column)
        middle = len(text) // 2
        first, last = chr(ord(text[0]) ^ 1) + text[1:] if text else "x", text + " "
        between = text[:middle] + chr(ord(text[middle]) ^ 1) + text[middle + 1 :] if text else " "
        for changed in {first, between, last, ""} - {text} if everywhere else {between}:
            sql(url, f"UPDATE {TABLE} SET {column} = :new WHERE seq = :seq", new=changed, seq=entry.seq)
            found = open_ledger(url).verify()
            assert entry.seq in named(found), (entry.seq, changed)
            sql(url, f"UPDATE {TABLE} SET {column} = :new WHERE seq = :seq", new=text, seq=entry.seq)
    assert named(open_ledger(url).verify()) == set()


@pytest.mark.parametrize("column", ["time", "hash"])
def test_only_the_damaged_row_is_named(full: Ledger, url: str, column: str) -> None:
    unguard(url)
    sql(url, f"UPDATE {TABLE} SET {column} = 'x' WHERE seq = 4")
    assert named(open_ledger(url).verify()) == {4}


@pytest.mark.parametrize("new", [-5, 0, 30])
def test_a_row_that_was_renumbered_is_named_with_its_gap(full: Ledger, url: str, new: int) -> None:
    unguard(url)
    sql(url, f"UPDATE {TABLE} SET seq = {new} WHERE seq = 4")
    found = open_ledger(url).verify()
    assert {4, new if new < 1 else 8} <= named(found)
    assert any(damage.what == "entry 4 is missing" for damage in found)
    assert any(damage.seq == new and "altered" in damage.what for damage in found)


@pytest.mark.parametrize("seq", range(1, N_ENTRIES))
def test_a_row_that_was_removed_is_named(full: Ledger, url: str, seq: int) -> None:
    unguard(url)
    sql(url, f"DELETE FROM {TABLE} WHERE seq = {seq}")
    found = open_ledger(url).verify()
    assert any(damage.seq == seq and "missing" in damage.what for damage in found)


def test_an_emptied_ledger_is_named(full: Ledger, url: str) -> None:
    unguard(url)
    sql(url, f"DELETE FROM {TABLE}")
    assert 1 in named(open_ledger(url).verify())


def test_a_cut_tail_shows_only_by_a_hash_that_lies_elsewhere(full: Ledger, url: str) -> None:
    unguard(url)
    last = full.history()[-1].hash
    sql(url, f"DELETE FROM {TABLE} WHERE seq = {N_ENTRIES}")
    cut = open_ledger(url)
    assert named(cut.verify()) == set()
    assert any("which a statement names" in damage.what for damage in cut.verify(holds=last))
    with pytest.raises(LedgerError, match="64 hexadecimal digits"):
        cut.verify(holds="'; drop table")


@pytest.mark.parametrize("seq", [1, 2, N_ENTRIES])
def test_nothing_is_decided_on_a_damaged_chain(full: Ledger, url: str, ask: Ask, seq: int) -> None:
    unguard(url)
    sql(url, f"UPDATE {TABLE} SET time = 'x' WHERE seq = {seq}")
    fresh = open_ledger(url)
    for operation in (lambda: fresh.reserve([ask("z")]), lambda: fresh.use("b"), fresh.holdings):
        with pytest.raises(LedgerError, match=f"damaged at entry seq={seq} .*understudy ledger verify"):
            operation()
    assert len(fresh.history()) == N_ENTRIES


def test_a_running_job_sees_that_the_ledger_was_set_back(full: Ledger, url: str, ask: Ask) -> None:
    unguard(url)
    sql(url, f"DELETE FROM {TABLE} WHERE seq = {N_ENTRIES}")
    with pytest.raises(LedgerError, match="is not the one it was"):
        full.reserve([ask("z")])


def test_a_running_job_sees_a_copy_restored_under_it(tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "ledger.db"
    ledger = open_ledger(path)
    ledger.open("adult", unit="row", epsilon=1.0, n_units=30_000)
    shutil.copy(path, tmp_path / "backup.db")
    ledger.reserve([ask("a")])
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(LedgerError, match="is not the one it was"):
        ledger.reserve([ask("b")])


def _cost(rho: float) -> dict[str, object]:
    return curve_content(RdpCurve.of_rho(rho))


def _reserved(token: str, rho: float) -> Draft:
    content = {"curve": _cost(rho), "fingerprint": None, "schedule": "s", "what": "w"}
    return Draft("reserved", "adult", "row", token, canonical(content))


def _charged(**changes: object) -> Draft:
    return Draft("charged", "adult", "row", "b", canonical({"curve": {**_cost(0.001), **changes}, "what": "w"}))


TOTAL = '{"delta":1e-06,"epsilon":1.0,"n_units":1000}'
FORGED = {
    "over-spent": (_reserved("z", 5.0), "over the total"),
    "token twice": (_reserved("a", 0.0001), "a token that is taken"),
    "used twice": (Draft("used", "adult", "row", "a", "{}"), "is committed, not reserved"),
    "never reserved": (Draft("used", "adult", "row", "z", "{}"), "never reserved"),
    "another unit": (Draft("used", "adult", "person", "b", "{}"), "not that of its reservation"),
    "opened twice": (Draft("opened", "adult", "row", "", TOTAL), "open already"),
    "infinite total": (Draft("opened", "z", "row", "", TOTAL.replace("1.0", "Infinity")), "malformed"),
    "unknown kind": (Draft("refunded", "adult", "row", "a", "{}"), "not known to this version"),
    "no JSON": (Draft("used", "adult", "row", "b", "{"), "malformed"),
    "not canonical": (Draft("committed", "adult", "row", "b", '{"note": {}}'), "malformed"),
    "deep": (Draft("committed", "adult", "row", "b", "[" * 100_000), "malformed"),
    "negative cost": (_charged(divergences=[-1.0] * 64), "malformed"),
    "too few orders": (_charged(divergences=[0.0] * 3), "malformed"),
    "delta of text": (_charged(delta="0"), "malformed"),
}
"""Entries with perfect hashes that no ledger would have written, and what is said of them."""


@pytest.mark.parametrize("case", FORGED)
def test_an_entry_that_cannot_follow_is_named_though_its_hash_fits(full: Ledger, url: str, case: str) -> None:
    draft, words = FORGED[case]
    forge(url, draft)
    (found,) = open_ledger(url).verify()
    assert found.seq == N_ENTRIES + 1 and words in found.what


def forge(url: str, draft: Draft) -> LedgerEntry:
    engine = parsed(url).engine()
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        entry = chained(draft, entries_after(connection)[-1], "2026-01-01T00:00:00+00:00")
        add(connection, entry)
    return entry


def test_bytes_that_are_no_text_are_named(tmp_path: Path, ask: Ask) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = open_ledger(url)
    ledger.open("adult", unit="row", epsilon=1.0, n_units=30_000)
    ledger.reserve([ask("a")])
    unguard(url)
    for value in ("x'ff61'", "CAST(x'ff61' AS TEXT)", "CAST('adult' AS BLOB)"):
        for column in COLUMNS:
            before = ledger.history()[1]
            sql(url, f"UPDATE {TABLE} SET {column} = {value} WHERE seq = 2")
            assert 2 in named(open_ledger(url).verify())
            sql(url, f"UPDATE {TABLE} SET {column} = :old WHERE seq = 2", old=getattr(before, column))
    assert named(open_ledger(url).verify()) == set()


def test_the_first_entry_is_linked_to_nothing(full: Ledger) -> None:
    assert full.history()[0].previous == GENESIS


@pytest.mark.parametrize("odd", [b"\xff", b"\xc3\x28", b"\x80"])
def test_a_file_with_bytes_that_are_no_text_is_refused_or_named(tmp_path: Path, ask: Ask, odd: bytes) -> None:
    """In entries they are damage, in SQLite's own part of the file they come back in messages that nobody can read."""
    path = tmp_path / "ledger.db"
    ledger = open_ledger(path)
    ledger.open("adult", unit="row", epsilon=3.0, n_units=1000)
    ledger.reserve([ask("a")])
    content, ends = path.read_bytes(), []
    starts = [
        at
        for word in (b"CREATE TABLE", b"understudy_ledger", b"BEFORE", b"adult", b'"curve"')
        for at in _all(content, word)
    ]
    for at in starts:
        path.write_bytes(content[: at + 3] + odd + content[at + 3 + len(odd) :])
        found = open_ledger(path)
        try:
            ends.append(bool(found.verify()))
            found.history()
        except LedgerError as error:
            assert "\n" not in str(error)
            ends.append(True)
    assert len(ends) > 10
    assert sum(ends) >= len(ends) / 2


def _all(content: bytes, word: bytes) -> list[int]:
    found, at = [], content.find(word)
    while at >= 0:
        found.append(at)
        at = content.find(word, at + 1)
    return found

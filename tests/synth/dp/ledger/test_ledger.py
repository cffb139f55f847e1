"""Totals, reservations, uses, charges and commits on both databases, and books that were tampered with."""

import itertools
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.ledger import ledger as module
from synth.dp.ledger.records import GENESIS, canonical, chained, curve_content
from synth.dp.ledger.store import TABLE, add, entries_after, parsed
from synth.dp.renyi_curve import ORDERS, RdpCurve, RdpFilter
from synth.errors import LedgerError
from tests.synth.dp.ledger.conftest import sqlite_alone

Ask = Callable[..., Request]


def total(ledger: Ledger, name: str, **changes: Any) -> Any:
    return ledger.open(name, **{"unit": "row", "epsilon": 1.0, "n_units": 1000, **changes})


REFUSALS: list[tuple[str, Callable[[Ledger, Ask], object], str]] = [
    ("total twice", lambda ledger, ask: total(ledger, "adult", epsilon=5.0), "promised once"),
    *((f"epsilon {e!r}", lambda ledger, ask, e=e: total(ledger, "x", epsilon=e), "the total epsilon=")
      for e in (0, math.inf, math.nan, "1", True)),
    *((f"delta {d!r}", lambda ledger, ask, d=d: total(ledger, "x", delta=d), "the total delta=")
      for d in (0, 1.1e-4, math.nan, "small", True)),
    *((f"n_units {str(n)[:9]!r}", lambda ledger, ask, n=n: total(ledger, "x", n_units=n), "n_units=")
      for n in (0, 2.5, None, True, 10**400)),
    *((f"name {name!r:.9}", lambda ledger, ask, name=name: ask("a", dataset=name), "; ")
      for name in ("", "a" * 101, "a\nb", "\ud800", " a", "a\u202eb", None)),
    ("two requests", lambda ledger, ask: ledger.reserve([ask("b"), ask("b")]), "same token"),
    ("another request", lambda ledger, ask: ledger.reserve([ask("new", what="aim")]), "names another request"),
    ("another cost", lambda ledger, ask: ledger.reserve([ask("new", 0.002)]), "names another request"),
    ("unknown dataset", lambda ledger, ask: ledger.reserve([ask("z", dataset="adlut")]),
     r"did you mean 'adult'\?.*`understudy ledger open adlut --epsilon E --n-units N`"),
    ("another unit", lambda ledger, ask: ledger.reserve([ask("z", unit="who")]), "a total for unit='row', not for"),
    ("over the total", lambda ledger, ask: ledger.reserve([ask("y", 0.001), ask("z", 0.9)]),
     "these 2 releases would bring epsilon from .* the largest of them"),
    ("no bound", lambda ledger, ask: ledger.reserve([ask("z", curve=RdpCurve((math.inf,) * len(ORDERS)))]), "to inf"),
    ("deltas", lambda ledger, ask: ledger.reserve([ask("z", curve=RdpCurve(ask("z").curve.divergences, 4e-7))]),
     r"deltas of mechanisms from 0 to 4e-07, where 2\.5e-07 is the most"),
    ("use of nothing", lambda ledger, ask: ledger.use("z"), "never reserved"),
    ("use twice", lambda ledger, ask: ledger.use("used"), "used once.*reserve anew"),
    ("charge before use", lambda ledger, ask: ledger.charge("new", "x", RdpCurve.zero()), "only a reservation in use"),
    ("charge over the total", lambda ledger, ask: ledger.charge("used", "x", RdpCurve.of_rho(0.9)), "this charge"),
    ("commit before use", lambda ledger, ask: ledger.commit("new", {}), "new' is reserved"),
    ("commit of something else", lambda ledger, ask: ledger.commit("done", {"epsilon": 0.7}), "done' is committed"),
    ("charge after commit", lambda ledger, ask: ledger.charge("done", "x", RdpCurve.zero()), "done' is committed"),
    ("a long note", lambda ledger, ask: ledger.commit("used", {"a": "x" * 5000}), "at most 4000 characters"),
    ("a hash that is none", lambda ledger, ask: ledger.verify(holds="'; drop table"), "64 hexadecimal digits"),
    ("history of nothing", lambda ledger, ask: ledger.history("adlut"), "did you mean 'adult'"),
]  # fmt: skip


@pytest.fixture
def full(ledger: Ledger, ask: Ask) -> Ledger:
    """A ledger with a reservation in each state, one of them charged again."""
    ledger.reserve([ask("new", fingerprint="f"), ask("used"), ask("done")])
    ledger.use("used")
    ledger.use("done")
    ledger.charge("done", "marginals", ask("x").curve)
    ledger.commit("done", {"epsilon": 0.1})
    return ledger


def test_what_is_refused_leaves_the_books_as_they_were(full: Ledger, ask: Ask) -> None:
    before = full.history()
    for name, call, clause in REFUSALS:
        with pytest.raises(LedgerError, match=clause) as error:
            call(full, ask)
        text = str(error.value)
        assert not text.endswith(".") and "\n" not in text and len(text) < 500, name
    assert full.history() == before
    assert full.verify() == ()


@sqlite_alone
def test_delta_follows_the_number_of_units(ledger: Ledger) -> None:
    assert total(ledger, "small", n_units=100).delta == 1e-6
    assert total(ledger, "large", delta="auto", n_units=10**7).delta == (10.0**7) ** -1.2
    assert total(ledger, "edge", delta=1e-4).delta == 1e-4


def test_several_releases_are_reserved_together_or_not_at_all(ledger: Ledger, ask: Ask) -> None:
    total(ledger, "other", epsilon=0.5)
    with pytest.raises(LedgerError, match="'other'"):
        ledger.reserve([ask("a", 0.01), ask("b", 1.0, dataset="other")])
    assert [holding.n_releases for holding in ledger.holdings()] == [0, 0]
    first = ledger.reserve([ask("a", 0.01)])
    (holding, _) = ledger.holdings()
    assert holding.spent_epsilon == RdpFilter(1.0, 1e-6).spent(ask("a", 0.01).curve) == 1.0 - holding.left_epsilon
    assert ledger.reserve([ask("a", 0.01), ask("b", 0.01)])[0] == first[0]  # asked twice, paid once
    assert ledger.holdings()[0].n_releases == 2 and ledger.reserve([]) == ()


@sqlite_alone
def test_a_lost_draw_is_charged_again_until_the_total_says_no(ledger: Ledger, ask: Ask) -> None:
    curve = ask("a", 0.01).curve
    ledger.reserve([ask("a", 0.01)])
    ledger.use("a")
    assert ledger.charge("a", "one-way marginals", curve).curve == curve + curve
    assert ledger.note("a").epsilon == RdpFilter(1.0, 1e-6).spent(curve + curve)
    with pytest.raises(LedgerError, match="this charge would bring epsilon from"):
        ledger.charge("a", "one-way marginals", curve)
    assert ledger.reservation("a").curve == curve + curve


@sqlite_alone
def test_the_same_commit_counts_once(full: Ledger) -> None:
    n_entries = len(full.history())
    assert full.commit("done", {"epsilon": 0.1}).state == "committed"
    assert len(full.history()) == n_entries


@sqlite_alone
def test_the_note_of_a_release_does_not_change_when_others_follow(ledger: Ledger, ask: Ask) -> None:
    ledger.reserve([ask("a", 0.01)])
    before = ledger.note("a")
    ledger.reserve([ask("b", 0.005)])
    assert ledger.note("a") == before
    after = ledger.note("b")
    assert after.spent_epsilon == ledger.holdings()[0].spent_epsilon > before.spent_epsilon == before.epsilon
    assert (after.total_epsilon, after.total_delta, after.entry) == (1.0, 1e-6, ledger.history()[-1].hash)


@sqlite_alone
def test_a_subsampled_run_is_priced_by_its_curve(ledger: Ledger, ask: Ask) -> None:
    from synth.dp.accounting import rdp_curve
    from synth.dp.events import SubsampledGaussianEvent

    run = SubsampledGaussianEvent("1,000 steps", noise_multiplier=1.5, sampling_rate=0.005, count=1000)
    # One number for all orders would have to hold for the highest ones, where subsampling helps little.
    assert RdpCurve.of_rho(1000 / (2 * 1.5**2)).epsilon(1e-6) > 300
    ledger.reserve([ask("a", curve=rdp_curve([run]))])
    assert 0.6 < ledger.note("a").epsilon < 1.0


def test_curves_come_back_to_the_last_bit(ledger: Ledger, ask: Ask, url: str) -> None:
    curve = RdpCurve((5e-324, 1 / 3, 0.1 + 0.2, *(1e-3 * order for order in ORDERS[3:-1]), math.inf), 1e-300)
    ledger.reserve([ask("a", curve=curve)])
    assert ledger.holdings()[0].curve == open_ledger(url).holdings()[0].curve == curve


@sqlite_alone
def test_another_table_under_one_name_and_one_table_under_two_are_warned_of(ledger: Ledger, ask: Ask) -> None:
    total(ledger, "adult2")
    built = [ledger.reserve([ask(token, 1e-6, fingerprint=f)])[0].warnings for token, f in ("af", "bf", "cg")]
    assert built[:2] == [(), ()] and "another version or extract" in built[2][0]
    (twice,) = ledger.reserve([ask("d", 1e-6, dataset="adult2", fingerprint="f")])
    assert "known as 'adult' too: two names double its budget" in twice.warnings[0]


@pytest.mark.parametrize(
    "name", ["adult'; drop table understudy_ledger; --", "患者 2024 ☃", "%s :name {x}\\", "cafe\u0301"]
)
def test_any_name_that_prints_is_only_a_name(ledger: Ledger, ask: Ask, name: str) -> None:
    total(ledger, name, unit=name)
    (built,) = ledger.reserve([ask(name, dataset=name, unit=name, what=name, fingerprint=name)])
    ledger.use(name)
    assert len({built.token, built.dataset, built.unit, built.what}) == 1 and len(built.token) <= len(name)
    assert {entry.dataset for entry in ledger.history(name)} == {built.dataset}
    with pytest.raises(LedgerError, match="promised once"):  # é is one letter, however it was typed
        total(ledger, name.replace("e\u0301", "\u00e9"), unit=name.replace("e\u0301", "\u00e9"))


@sqlite_alone
def test_a_clock_that_runs_backwards_does_no_harm(
    ledger: Ledger, ask: Ask, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for year, token in ((2030, "a"), (1999, "b")):
        monkeypatch.setattr(module, "_now", lambda year=year: f"{year}-01-01T00:00:00+00:00")
        ledger.reserve([ask(token)])
    assert open_ledger(url).verify() == () and open_ledger(url).holdings() == ledger.holdings()


def test_two_views_of_one_ledger_agree(ledger: Ledger, ask: Ask, url: str) -> None:
    other = open_ledger(url)
    for number in range(3):
        ledger.reserve([ask(f"a{number}")])
        other.reserve([ask(f"b{number}")])
        assert ledger.holdings() == other.holdings() == open_ledger(url).holdings()


# Tampering

COLUMNS = ("time", "kind", "dataset", "unit", "token", "body", "previous", "hash")


def sql(url: str, statement: str, **values: object) -> None:
    engine = parsed(url).engine()
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(sa.text(statement), values)


def unguard(url: str) -> None:
    if url.startswith("sqlite"):
        for name in ("no_update", "no_delete", "in_order"):
            sql(url, f"DROP TRIGGER {TABLE}_{name}")
    else:
        sql(url, f"ALTER TABLE {TABLE} DISABLE TRIGGER USER")


def test_the_database_itself_forbids_changes(full: Ledger, url: str) -> None:
    row = f"({', '.join(('3', *(repr('x') for _ in COLUMNS)))})"
    replaced = f"INSERT OR REPLACE INTO {TABLE} VALUES {row}" if url.startswith("sqlite") else f"TRUNCATE {TABLE}"
    for change in (f"UPDATE {TABLE} SET time = time", f"DELETE FROM {TABLE} WHERE seq = 7", replaced):
        with pytest.raises(sa.exc.DBAPIError, match="a ledger only grows"):
            sql(url, change)
    assert full.verify() == ()


@sqlite_alone
def test_a_changed_byte_in_any_column_of_any_row_is_found(full: Ledger, url: str, ask: Ask) -> None:
    unguard(url)
    for entry, column in itertools.islice(itertools.product(full.history(), COLUMNS), 0, None, 3):  # of every kind
        text = getattr(entry, column)
        middle = len(text) // 2
        changed = text[:middle] + chr(ord(text[middle]) ^ 1) + text[middle + 1 :] if text else " "
        sql(url, f"UPDATE {TABLE} SET {column} = :new WHERE seq = :seq", new=changed, seq=entry.seq)
        (damage,) = open_ledger(url).verify()
        assert damage.seq == entry.seq, column
        sql(url, f"UPDATE {TABLE} SET {column} = :new WHERE seq = :seq", new=text, seq=entry.seq)
    assert open_ledger(url).verify() == ()


@pytest.mark.parametrize(
    "change", ["UPDATE {} SET seq = 30 WHERE seq = 4", "DELETE FROM {} WHERE seq = 2", "DELETE FROM {}"]
)
def test_rows_that_were_moved_or_removed_are_found_and_nothing_is_decided(
    full: Ledger, url: str, ask: Ask, change: str
) -> None:
    unguard(url)
    sql(url, change.format(TABLE))
    fresh = open_ledger(url)
    assert fresh.verify() != ()
    for operation in (lambda: fresh.reserve([ask("z")]), lambda: fresh.use("new")):
        with pytest.raises(LedgerError, match=r"damaged at entry seq=.*understudy ledger show|no total|never reserved"):
            operation()


@sqlite_alone
def test_a_cut_tail_shows_only_by_a_hash_that_lies_elsewhere(full: Ledger, url: str) -> None:
    first, *_, last = full.history()
    assert first.previous == GENESIS and full.verify(holds=last.hash.upper()) == ()
    unguard(url)
    sql(url, f"DELETE FROM {TABLE} WHERE seq = {last.seq}")
    cut = open_ledger(url)
    assert cut.verify() == ()
    assert any("which a statement names" in damage.what for damage in cut.verify(holds=last.hash))


def test_a_running_job_sees_a_copy_restored_under_it(tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "ledger.db"
    ledger = open_ledger(path)
    total(ledger, "adult")
    shutil.copy(path, tmp_path / "backup.db")
    ledger.reserve([ask("a")])
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(LedgerError, match="is not the one it was"):
        ledger.reserve([ask("b")])


def charged(**changes: object) -> tuple[str, tuple[str, str], str, str]:
    content = {"curve": {**curve_content(RdpCurve.of_rho(0.001)), **changes}, "what": "w"}
    return "charged", ("adult", "row"), "used", canonical(content)


def reserved(token: str, rho: float) -> tuple[str, tuple[str, str], str, str]:
    content = {"curve": curve_content(RdpCurve.of_rho(rho)), "fingerprint": None, "schedule": "s", "what": "w"}
    return "reserved", ("adult", "row"), token, canonical(content)


ROW = ("adult", "row")
FORGED = [
    reserved("z", 5.0), reserved("new", 0.0001), ("used", ROW, "done", "{}"), ("used", ROW, "z", "{}"),
    ("used", ("adult", "person"), "new", "{}"), ("reserved", ("z", "row"), "z", reserved("z", 0.1)[3]),
    ("opened", ROW, "", '{"delta":1e-06,"epsilon":1.0,"n_units":1000}'),
    ("opened", ("z", "row"), "", '{"delta":1e-06,"epsilon":Infinity,"n_units":1000}'), ("refunded", ROW, "new", "{}"),
    ("used", ROW, "new", "{"), ("committed", ROW, "used", '{"note": {}}'), ("committed", ROW, "used", "[" * 100_000),
    charged(divergences=[-1.0] * 64), charged(divergences=[0.0] * 3), charged(delta="0"),
]  # fmt: skip
"""Entries with perfect hashes that no ledger would have written."""


@sqlite_alone
@pytest.mark.parametrize("draft", FORGED, ids=lambda draft: f"{draft[0]} {draft[3][:20]}")
def test_an_entry_that_cannot_follow_is_found_though_its_hash_fits(full: Ledger, url: str, draft: Any) -> None:
    engine = parsed(url).engine()
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        entry = chained(entries_after(connection)[-1], "2026-01-01T00:00:00+00:00", *draft)
        add(connection, entry)
    (damage,) = open_ledger(url).verify()
    assert damage.seq == entry.seq

"""Totals, reservations, uses, charges and commits on both databases, and damage that is named."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from synth.dp.ledger import Damage, Ledger, Request, open_ledger
from synth.dp.ledger import ledger as module
from synth.dp.ledger.records import GENESIS, Draft, LedgerEntry, canonical, chained, curve_content, curve_of
from synth.dp.ledger.store import TABLE, add, entries_after, parsed
from synth.dp.renyi_curve import ORDERS, RdpCurve, RdpFilter
from synth.errors import LedgerError

Ask = Callable[..., Request]


def one_sentence(error: pytest.ExceptionInfo[LedgerError]) -> str:
    text = str(error.value)
    assert not text.endswith(".") and "\n" not in text and "; " in text
    return text


def test_a_total_is_opened_once_per_dataset_and_unit(ledger: Ledger) -> None:
    ledger.open("adult", unit="person", epsilon=2.0, delta=None, n_units=1000)
    with pytest.raises(LedgerError) as error:
        ledger.open("adult", unit="row", epsilon=5.0, delta=1e-6, n_units=30_000)
    assert "promised once" in one_sentence(error)
    totals = [(held.dataset, held.unit, held.epsilon) for held in ledger.holdings()]
    assert totals == [("adult", "row", 1.0), ("adult", "person", 2.0)]


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, "1", None, True])
def test_an_epsilon_that_promises_nothing_is_refused(ledger: Ledger, epsilon: object) -> None:
    with pytest.raises(LedgerError, match="the total epsilon=") as error:
        ledger.open("other", unit="row", epsilon=epsilon, n_units=1000)  # type: ignore[arg-type]
    one_sentence(error)
    assert len(ledger.holdings()) == 1


@pytest.mark.parametrize("delta", [0, 1.1e-4, -1e-9, math.nan, math.inf, "small", True])
def test_a_delta_that_may_publish_whole_units_is_refused(ledger: Ledger, delta: object) -> None:
    with pytest.raises(LedgerError, match="the total delta=") as error:
        ledger.open("other", unit="row", epsilon=1.0, delta=delta, n_units=1000)  # type: ignore[arg-type]
    one_sentence(error)


@pytest.mark.parametrize("n_units", [0, -5, 2.5, "many", None, True, 10**400])
def test_a_number_of_units_that_is_none_is_refused(ledger: Ledger, n_units: object) -> None:
    with pytest.raises(LedgerError, match="n_units=") as error:
        ledger.open("other", unit="row", epsilon=1.0, n_units=n_units)  # type: ignore[arg-type]
    one_sentence(error)


def test_delta_follows_the_number_of_units(ledger: Ledger) -> None:
    assert ledger.open("small", unit="row", epsilon=1.0, n_units=100).delta == 1e-6
    assert ledger.open("large", unit="row", epsilon=1.0, delta="auto", n_units=10**7).delta == (10.0**7) ** -1.2
    assert ledger.open("edge", unit="row", epsilon=1.0, delta=1e-4, n_units=1000).delta == 1e-4


def test_a_reservation_is_paid_by_its_curve(ledger: Ledger, ask: Ask) -> None:
    (made,) = ledger.reserve([ask("a", 0.01)])
    assert (made.state, made.seq, made.warnings) == ("reserved", 2, ())
    (held,) = ledger.holdings()
    assert held.spent_epsilon == RdpFilter(1.0, 1e-6).spent(ask("a", 0.01).curve)
    assert held.left_epsilon == 1.0 - held.spent_epsilon and held.n_releases == 1


def test_several_releases_are_reserved_together_or_not_at_all(ledger: Ledger, ask: Ask) -> None:
    with pytest.raises(LedgerError, match="these 3 releases would bring epsilon from 0 to") as error:
        ledger.reserve([ask("a", 0.01), ask("b", 0.01), ask("c", 0.01)])
    assert "epsilon=1 " in one_sentence(error) and "1 is left" in str(error.value)
    assert "the largest" not in str(error.value)
    with pytest.raises(LedgerError) as error:
        ledger.reserve([ask("a", 0.01), ask("b", 0.9), ask("c", 0.01)])
    alone = f"{RdpFilter(1.0, 1e-6).spent(ask('b', 0.9).curve):.6g}"
    assert f"the largest of them {ask('b', 0.9).what!r} with {alone} by itself" in one_sentence(error)
    assert ledger.holdings()[0].n_releases == 0
    ledger.open("other", unit="row", epsilon=0.5, n_units=1000)
    with pytest.raises(LedgerError, match="'other'"):
        ledger.reserve([ask("a", 0.01), ask("b", 1.0, dataset="other")])
    assert [held.n_releases for held in ledger.holdings()] == [0, 0]
    assert len(ledger.reserve([ask("a", 0.01), ask("b", 0.01)])) == 2
    assert ledger.reserve([]) == ()


def test_one_token_is_paid_once(ledger: Ledger, ask: Ask) -> None:
    first = ledger.reserve([ask("a", 0.01)])
    assert ledger.reserve([ask("a", 0.01)]) == first
    again = ledger.reserve([ask("a", 0.01), ask("b", 0.01)])
    assert again[0] == first[0] and ledger.holdings()[0].n_releases == 2


@pytest.mark.parametrize(
    "change",
    [{"rho": 0.011}, {"what": "aim"}, {"schedule_hash": "other"}, {"fingerprint": "f"}, {"dataset": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_a_token_never_names_two_requests(ledger: Ledger, ask: Ask, change: dict[str, object]) -> None:
    ledger.open("other", unit="row", epsilon=1.0, n_units=1000)
    ledger.reserve([ask("a", 0.01)])
    with pytest.raises(LedgerError, match="names another request") as error:
        ledger.reserve([ask("a", **{"rho": 0.01, **change})])
    one_sentence(error)
    with pytest.raises(LedgerError, match="same token"):
        ledger.reserve([ask("b"), ask("b")])


def test_an_unknown_dataset_is_told_the_nearest_and_how_to_open_one(ledger: Ledger, ask: Ask) -> None:
    with pytest.raises(
        LedgerError, match=r"did you mean 'adult'\?.*`understudy ledger open adlut --epsilon E --n-units N`"
    ) as error:
        ledger.reserve([ask("a", dataset="adlut")])
    one_sentence(error)


def test_another_unit_of_a_known_dataset_is_told_apart(ledger: Ledger, ask: Ask) -> None:
    with pytest.raises(LedgerError, match="has a total for unit='row', not for unit='person id'") as error:
        ledger.reserve([ask("a", unit="person id")])
    assert "--unit 'person id'" in one_sentence(error)


def test_a_reservation_is_used_exactly_once(ledger: Ledger, ask: Ask) -> None:
    ledger.reserve([ask("a")])
    assert ledger.use("a").state == "used"
    with pytest.raises(LedgerError, match=r"used once.*reserve anew") as error:
        ledger.use("a")
    one_sentence(error)
    with pytest.raises(LedgerError, match="never reserved"):
        ledger.use("b")


def test_a_lost_draw_is_charged_again_until_the_total_says_no(ledger: Ledger, ask: Ask) -> None:
    curve = ask("a", 0.01).curve
    ledger.reserve([ask("a", 0.01)])
    with pytest.raises(LedgerError, match="only a reservation in use can be charged"):
        ledger.charge("a", "one-way marginals", curve)
    ledger.use("a")
    assert ledger.charge("a", "one-way marginals", curve).n_charges == 1
    assert ledger.note("a").epsilon == RdpFilter(1.0, 1e-6).spent(curve + curve)
    with pytest.raises(LedgerError, match="this charge would bring epsilon from") as error:
        ledger.charge("a", "one-way marginals", curve)
    one_sentence(error)
    assert ledger.reservation("a").n_charges == 1
    assert ledger.verify() == ()


def test_a_release_is_committed_once_and_the_same_words_count_once(ledger: Ledger, ask: Ask) -> None:
    ledger.reserve([ask("a")])
    with pytest.raises(LedgerError, match="is reserved"):
        ledger.commit("a", {})
    ledger.use("a")
    assert ledger.commit("a", {"epsilon": 0.5, "claimed": "pld"}).state == "committed"
    n_entries = len(ledger.history())
    assert ledger.commit("a", {"claimed": "pld", "epsilon": 0.5}).state == "committed"
    assert len(ledger.history()) == n_entries
    with pytest.raises(LedgerError, match="is committed"):
        ledger.commit("a", {"epsilon": 0.7})
    with pytest.raises(LedgerError, match="is committed"):
        ledger.charge("a", "late", RdpCurve.zero())


@pytest.mark.parametrize("note", [{"a": math.inf}, {"a": [1]}, {1: "a"}, {"a": "x" * 5000}])
def test_a_note_is_small_and_plain(ledger: Ledger, ask: Ask, note: dict[str, object]) -> None:
    ledger.reserve([ask("a")])
    ledger.use("a")
    with pytest.raises(LedgerError, match="a note is"):
        ledger.commit("a", note)


def test_the_note_of_a_release_does_not_change_when_others_follow(ledger: Ledger, ask: Ask) -> None:
    ledger.reserve([ask("a", 0.01)])
    before = ledger.note("a")
    ledger.reserve([ask("b", 0.005)])
    assert ledger.note("a") == before
    after = ledger.note("b")
    assert after.spent_epsilon == ledger.holdings()[0].spent_epsilon > before.spent_epsilon == before.epsilon
    assert (after.total_epsilon, after.total_delta, after.entry) == (1.0, 1e-6, ledger.history()[-1].hash)


def test_a_subsampled_run_is_priced_by_its_curve(ledger: Ledger, ask: Ask) -> None:
    from synth.dp.accounting import rdp_curve
    from synth.dp.events import SubsampledGaussianEvent

    run = SubsampledGaussianEvent("1,000 steps", noise_multiplier=1.5, sampling_rate=0.005, count=1000)
    # One number for all orders would have to hold for the highest ones, where subsampling helps little.
    rho = 1000 / (2 * 1.5**2)
    assert RdpCurve.of_rho(rho).epsilon(1e-6) > 300
    ledger.reserve([ask("a", curve=rdp_curve([run]))])
    assert 0.6 < ledger.note("a").epsilon < 1.0


def test_orders_without_a_bound_stay_without_one(ledger: Ledger, ask: Ask) -> None:
    curve = RdpCurve(tuple(0.004 * order if order < 40 else math.inf for order in ORDERS))
    ledger.reserve([ask("a", curve=curve), ask("b", 0.004)])
    both = ledger.holdings()[0].curve.divergences
    assert [math.isinf(value) for value in both] == [order >= 40 for order in ORDERS]


def test_deltas_of_mechanisms_add_up_to_their_share(ledger: Ledger, ask: Ask) -> None:
    costs = RdpCurve(ask("x").curve.divergences, delta=2e-7)
    ledger.reserve([ask("a", curve=costs)])
    with pytest.raises(LedgerError, match=r"deltas of mechanisms from 2e-07 to 4e-07, where 2\.5e-07 is the most"):
        ledger.reserve([ask("b", curve=costs)])
    ledger.reserve([ask("c")])


def test_a_curve_without_any_bound_is_refused(ledger: Ledger, ask: Ask) -> None:
    with pytest.raises(LedgerError, match="to inf"):
        ledger.reserve([ask("a", curve=RdpCurve((math.inf,) * len(ORDERS)))])


def test_curves_come_back_to_the_last_bit(ledger: Ledger, ask: Ask) -> None:
    curve = RdpCurve((5e-324, 1 / 3, 0.1 + 0.2, *(1e-3 * order for order in ORDERS[3:-1]), math.inf), 1e-300)
    assert curve_of(ledger_body(curve)) == curve
    ledger.reserve([ask("a", curve=curve)])
    assert ledger.holdings()[0].curve == curve


def ledger_body(curve: RdpCurve) -> dict[str, object]:
    import json

    content: dict[str, object] = json.loads(canonical(curve_content(curve)))
    return content


def test_another_table_under_the_same_name_is_warned_of(ledger: Ledger, ask: Ask) -> None:
    assert ledger.reserve([ask("a", fingerprint="f1")])[0].warnings == ()
    assert ledger.reserve([ask("b", fingerprint="f1")])[0].warnings == ()
    assert ledger.reserve([ask("c")])[0].warnings == ()
    (made,) = ledger.reserve([ask("d", fingerprint="f2")])
    assert len(made.warnings) == 1 and "another version or extract" in made.warnings[0]
    assert ledger.reserve([ask("d", fingerprint="f2")]) == (made,)


def test_one_table_under_two_names_is_warned_of(ledger: Ledger, ask: Ask) -> None:
    ledger.open("adult2", unit="row", epsilon=1.0, n_units=30_000)
    ledger.reserve([ask("a", fingerprint="f1")])
    (made,) = ledger.reserve([ask("b", dataset="adult2", fingerprint="f1")])
    assert len(made.warnings) == 1 and "known as 'adult' too: two names double its budget" in made.warnings[0]


@pytest.mark.parametrize(
    "name", ['say "hello"', "it's", "adult'; drop table understudy_ledger; --", "患者 2024 ☃", "%s :name {x}", "\\"]
)
def test_any_name_that_prints_is_only_a_name(ledger: Ledger, ask: Ask, name: str) -> None:
    ledger.open(name, unit=name, epsilon=1.0, n_units=1000)
    (made,) = ledger.reserve([ask(name, dataset=name, unit=name, what=name, fingerprint=name)])
    ledger.use(name)
    assert (made.token, made.dataset, made.unit, made.what) == (name,) * 4
    assert {entry.dataset for entry in ledger.history(name)} == {name}
    assert ledger.verify() == ()


@pytest.mark.parametrize("name", ["", " ", "a" * 10_000, "a\nb", "a\0b", "\ud800", " a", "a\u202eb", 5, None])
def test_a_name_that_cannot_be_shown_is_refused(ledger: Ledger, ask: Ask, name: object) -> None:
    with pytest.raises(LedgerError) as error:
        ask("a", dataset=name)
    assert len(one_sentence(error)) < 300
    with pytest.raises(LedgerError):
        ledger.open(name, unit="row", epsilon=1.0, n_units=1000)  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        ledger.use(name)  # type: ignore[arg-type]


def test_one_name_in_two_spellings_of_unicode_is_one_name(ledger: Ledger, ask: Ask) -> None:
    ledger.open("caf\u00e9", unit="row", epsilon=1.0, n_units=1000)
    with pytest.raises(LedgerError, match="promised once"):
        ledger.open("cafe\u0301", unit="row", epsilon=1.0, n_units=1000)
    ledger.reserve([ask("a", dataset="cafe\u0301")])


def test_a_clock_that_runs_backwards_does_no_harm(
    ledger: Ledger, ask: Ask, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for year, token in ((2030, "a"), (1999, "b"), (2010, "c")):
        monkeypatch.setattr(module, "_now", lambda year=year: f"{year}-01-01T00:00:00+00:00")
        ledger.reserve([ask(token)])
    monkeypatch.undo()
    assert open_ledger(url).verify() == ()
    assert [entry.token for entry in ledger.history()] == ["", "a", "b", "c"]
    assert open_ledger(url).holdings()[0].n_releases == 3


def test_history_is_told_by_dataset(ledger: Ledger, ask: Ask) -> None:
    ledger.open("other", unit="row", epsilon=1.0, n_units=1000)
    ledger.reserve([ask("a")])
    ledger.use("a")
    assert [entry.kind for entry in ledger.history("adult")] == ["opened", "reserved", "used"]
    with pytest.raises(LedgerError, match="did you mean 'adult'"):
        ledger.history("adlut")


def test_two_views_of_one_ledger_agree(ledger: Ledger, ask: Ask, url: str) -> None:
    other = open_ledger(url)
    for number in range(3):
        ledger.reserve([ask(f"a{number}")])
        other.reserve([ask(f"b{number}")])
        assert ledger.holdings() == other.holdings()
    assert open_ledger(url).holdings() == ledger.holdings()


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
        with pytest.raises(LedgerError, match=f"damaged at entry seq={seq} .*understudy ledger show"):
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

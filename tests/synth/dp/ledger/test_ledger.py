"""Totals, reservations, uses, charges and commits, on both databases."""

import math
from collections.abc import Callable

import pytest

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.ledger import ledger as module
from synth.dp.ledger.records import canonical, curve_content, curve_of
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

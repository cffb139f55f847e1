"""Mechanisms, their events, and the files that hold schedules, statements, and noise that was drawn."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from synth import extras
from synth.dp.budget import Budget
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    event_of,
    gaussian_tail,
)
from synth.dp.noise_journal import Journal
from synth.dp.schedule import LEAST_DELTA, Schedule
from synth.dp.schedule_file import MOST_NOISE, read_books, read_schedule, schedule_of
from synth.dp.statement import LOCAL, RELATION, REPLACE, PrivacyStatement, guarantee_words, trust_words
from synth.errors import BudgetError
from tests.evaluations import stated
from tests.synth.dp.plans import to_toml

EXAMPLES: tuple[Event, ...] = (
    GaussianEvent("a", 12.5, 3, 4), GaussianEvent("b", 0.1, 0.25, whole=False), LaplaceEvent("c", 7.0, 2),
    SelectionEvent("d", 0.3, 14), StabilityEvent("e", 10.0, 55, 2, 3), SubsampledGaussianEvent("f", 1.1, 0.01, 1000),
    RandomizedResponseEvent("g", 0.7, 3),
)  # fmt: skip


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.mechanism)
def test_a_line_of_the_books_written_and_read_gives_the_event_back(event: Event) -> None:
    record = event.record()
    noise = json.loads(json.dumps(dict(record.noise)))
    assert event_of(record.what, record.mechanism, noise, record.count) == event
    assert (record.rho, record.delta) == (event.rho, event.delta)


@pytest.mark.parametrize("value", [0, math.inf, math.nan, "much", True, None])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda event: event.mechanism)
def test_a_parameter_that_no_mechanism_has_is_refused(example: Any, value: object) -> None:
    good = dict(example.record().noise)
    for parameter in good.keys() - {"whole"}:
        with pytest.raises(BudgetError, match=f"{parameter}="):
            type(example)("ages", **{**good, parameter: value})
    with pytest.raises(BudgetError, match="count="):
        type(example)("ages", **good, count=1.5)


@given(sigma=st.floats(0.5, 50), least=st.integers(-50, 300))
def test_the_tail_of_discrete_gaussian_noise_is_the_sum_of_its_mass(sigma: float, least: int) -> None:
    points = np.arange(-4000, 4001)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    expected = mass[points >= least].sum() / mass.sum()
    assert gaussian_tail(np.array([least]), sigma)[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(sigma=st.floats(50, 300), least=st.integers(0, 2000))
def test_the_tail_of_much_noise_is_bounded_from_above_and_closely(sigma: float, least: int) -> None:
    points = np.arange(-13_000, 13_001)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    exact = mass[points >= least].sum() / mass.sum()
    bound = gaussian_tail(np.array([least]), sigma)[0]
    assert exact <= bound * (1 + 1e-9)
    # The bound is the continuous tail one below, half a step further than where the discrete one lies.
    assert bound <= exact * math.exp((abs(least) + 1) / sigma**2) * 1.02 + 1e-300


@given(rho=st.floats(1e-5, 0.5), delta=st.floats(1e-12, 1e-3), k=st.integers(1, 6))
def test_a_stability_histogram_has_the_lowest_threshold_that_its_delta_allows(rho: float, delta: float, k: int) -> None:
    event = StabilityEvent.of_rho("jobs", rho, delta, k)
    assert event.rho == pytest.approx(rho)
    assert event.delta <= delta
    if event.threshold > k + 1:
        assert StabilityEvent("jobs", event.sigma, event.threshold - 1, k).delta > delta


COUNTS_EVENT = GaussianEvent("counts", 40.0, count=3)
REALS = GaussianEvent("means", 2.0, 0.5, whole=False)
CHOICE = SelectionEvent("pair", 0.5)
JOBS = StabilityEvent("jobs", 2.0, 12)
JOURNALED = Schedule((COUNTS_EVENT, REALS, CHOICE, JOBS), 1e-3)


def fit(path: Path, draws: int = 6) -> list[object]:
    """The first draws of a small fit, from a journal opened anew."""
    with Journal(path) as journal:
        budget = Budget(JOURNALED, journal=journal)
        return [step() for step in steps(budget)[:draws]]


def steps(budget: Budget) -> list[Callable[[], object]]:
    return [
        lambda: budget.release(np.arange(12).reshape(3, 4), COUNTS_EVENT).tolist(),
        lambda: budget.release(np.array([0.25, -1.5]), REALS).tolist(),
        lambda: budget.choose(np.array([0.0, 1.0, 3.0]), 1.0, CHOICE),
        lambda: budget.name_stable({"clerk": 400, "NA": 300, "spy": 1}, JOBS),
        lambda: budget.release(np.zeros(2, dtype=np.int64), COUNTS_EVENT).tolist(),
        lambda: budget.release(np.zeros((0, 3), dtype=np.int64), COUNTS_EVENT).tolist(),
    ]


def read(path: Path) -> tuple[int, tuple[str, ...]]:
    """How many values are on disk, and what was lost."""
    with Journal(path) as journal:
        return journal.n_persisted, tuple(record.what for record in journal.lost)


@pytest.mark.parametrize("done", [0, 3, 6])
def test_a_second_start_goes_on_from_what_is_on_disk(tmp_path: Path, done: int) -> None:
    first = fit(tmp_path / "draws", done)
    assert read(tmp_path / "draws") == (done, ())
    whole = fit(tmp_path / "draws")
    assert whole[:done] == first
    assert fit(tmp_path / "draws") == whole
    assert read(tmp_path / "draws") == (6, ())


def test_a_file_cut_anywhere_gives_back_whole_values_or_names_the_lost_draw(tmp_path: Path) -> None:
    whole = fit(tmp_path / "draws")
    content = (tmp_path / "draws").read_bytes()
    begun = [line.startswith(b'{"begun"') for line in content.splitlines()]
    for cut in range(0, len(content), 7):
        (tmp_path / "cut").write_bytes(content[:cut])
        lines = content[:cut].count(b"\n")
        n_persisted, lost = read(tmp_path / "cut")
        assert n_persisted == sum(not b for b in begun[:lines])
        assert len(lost) == int(lines > 0 and begun[lines - 1])
        if cut % 98 == 0:
            assert fit(tmp_path / "cut")[:n_persisted] == whole[:n_persisted]


def test_a_lost_draw_stays_lost_until_it_is_settled(tmp_path: Path) -> None:
    def fails() -> object:
        raise OSError("the disk is full")

    for _ in range(2):
        with Journal(tmp_path / "draws") as journal, pytest.raises(OSError, match="full"):
            journal.once(COUNTS_EVENT.record(), fails)
    assert read(tmp_path / "draws") == (0, ("counts", "counts"))
    with Journal(tmp_path / "draws") as journal:
        journal.settle()
    assert read(tmp_path / "draws") == (0, ())
    assert len(fit(tmp_path / "draws")) == 6


def test_work_that_is_not_the_same_is_refused(tmp_path: Path) -> None:
    fit(tmp_path / "draws")
    with Journal(tmp_path / "draws") as journal:
        other = Budget(Schedule((REALS,), 1e-3), journal=journal)
        with pytest.raises(BudgetError, match="not the same"):
            other.release(np.array([0.0]), REALS)


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "draws").write_text('{"value": 3}\n')
    with pytest.raises(BudgetError, match="is not a journal"):
        Journal(tmp_path / "draws")
    assert (tmp_path / "draws").read_text() == '{"value": 3}\n'


def test_a_journal_holds_no_exact_number_and_is_its_owners_alone(tmp_path: Path) -> None:
    with Journal(tmp_path / "draws") as journal:
        budget = Budget(JOURNALED, journal=journal)
        budget.release(np.full(40, 123_456_789), COUNTS_EVENT)
        budget.name_stable({"clerk": 400, "spy": 1}, JOBS)
    content = (tmp_path / "draws").read_text()
    assert "spy" not in content
    assert content.count("123456789") < 5
    assert (tmp_path / "draws").stat().st_mode & 0o077 == 0


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
COUNTS = st.integers(1, 1000)
ROWS = st.integers(1, 5)
NOISE = st.floats(4.0, 1000.0)
WHOLE = st.tuples(ROWS, st.just(True)) | st.tuples(st.floats(0.1, 5.0), st.just(False))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda w, s, c, k: GaussianEvent(w, s, k[0], c, k[1]), WORDS, NOISE, COUNTS, WHOLE),
    st.builds(lambda w, s, c, k: LaplaceEvent(w, s, k[0], c, k[1]), WORDS, NOISE, COUNTS, WHOLE),
    st.builds(SelectionEvent, WORDS, st.floats(0.01, 1.0), COUNTS),
    st.builds(StabilityEvent, WORDS, NOISE, st.integers(6, 9000), ROWS, COUNTS),
    st.builds(SubsampledGaussianEvent, WORDS, st.floats(0.5, 50.0), st.floats(0.001, 1.0), COUNTS),
)
EVENT = {"what": "ages", "mechanism": "Gaussian", "sigma": 40.0}
SHARED = {"what": "ages", "mechanism": "Gaussian", "share": 1.0}
NAMES = {"what": "jobs", "mechanism": "stability histogram", "share": 0.5, "delta": 1e-7}


def written(tmp_path: Path, content: Mapping[str, Any]) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(content), encoding="utf-8")
    return path


def plan(*events: Mapping[str, Any], **head: Any) -> dict[str, Any]:
    return {"delta": 1e-6, **head, "events": [dict(event) for event in events or (EVENT,)]}


@settings(max_examples=25, deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=4), delta=st.floats(LEAST_DELTA, 0.5))
def test_a_schedule_comes_back_digit_for_digit(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], delta: float
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    try:
        schedule = schedule_of(tuple(events), delta)
    except BudgetError:
        return
    path.write_text(to_toml(schedule), encoding="utf-8")
    again = read_schedule(path)
    assert again == schedule
    assert again.digest == schedule.digest


def test_a_target_is_met_from_below_and_shares_are_kept(tmp_path: Path) -> None:
    events = [
        {"what": "counts", "mechanism": "Gaussian", "count": 9, "share": 0.3, "sensitivity": 2},
        {"what": "means", "mechanism": "Laplace", "count": 2, "share": 0.1},
        {"what": "pairs", "mechanism": "exponential", "count": 8, "share": 0.4},
        {**NAMES, "share": 0.2, "count": 3},
    ]
    schedule = read_schedule(written(tmp_path, plan(*events, epsilon=1.0)))
    assert 0.999 <= schedule.epsilon <= 1.0
    assert schedule.rho is not None
    assert [round((e.rho or 0.0) / schedule.rho, 6) for e in schedule.events] == [0.3, 0.1, 0.4, 0.2]
    assert [event.count for event in schedule.events] == [9, 2, 8, 3]
    assert 0 < schedule.events[3].delta <= 1e-7
    (tmp_path / "exact.toml").write_text(to_toml(schedule), encoding="utf-8")
    assert read_schedule(tmp_path / "exact.toml") == schedule


BAD_NUMBERS = [0, -1.0, math.nan, "much", True, 10**30]
REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"events": [EVENT]}, "'delta' is missing"),
    ({"delta": 1e-6, "events": []}, "events"),
    (plan({**EVENT, "sigme": 1.0}), "did you mean 'sigma'"),
    (plan({**EVENT, "mechanism": "Gausian"}), "did you mean 'Gaussian'"),
    (plan({"what": "ages", "mechanism": "Gaussian"}), "'sigma' is missing"),
    (plan({**EVENT, "threshold": 5}), "'threshold'"),
    (plan({**EVENT, "sensitivity": 1.5}), "sensitivity=1.5"),
    (plan({**EVENT, "sigma": 2 * MOST_NOISE}), "sigma"),
    (plan({**EVENT, "sigma": 1e-3}), "too small"),
    (plan({"what": "steps", "mechanism": "Poisson-subsampled Gaussian", "noise_multiplier": 1.0, "sampling_rate": 1.2}),
     "sampling_rate"),
    (plan({"what": "jobs", "mechanism": "stability histogram", "sigma": 1.0, "threshold": 2, "sensitivity": 2}),
     "threshold=2 must be a whole number above sensitivity=2"),
    (plan({**EVENT, "share": 0.5}), "'share' belongs to a plan with a target"),
    (plan({**EVENT, "delta": 1e-7}), "'delta' belongs to a plan with a target"),
    (plan(epsilon=1.0), "sigma does not go with a target"),
    (plan({**SHARED, "share": 0.5}, {**SHARED, "share": 0.50001}, epsilon=1.0), "shares add up to 1.00001"),
    (plan({"what": "a", "mechanism": "Gaussian"}, epsilon=1.0), "'share' is missing"),
    (plan({**SHARED, "share": 0.5}, {**NAMES, "delta": 1e-6}, epsilon=1.0), "own deltas add up"),
    (plan({**SHARED, "share": 0.5}, {k: NAMES[k] for k in NAMES if k != "delta"}, epsilon=1.0), "its own delta"),
    (plan({**SHARED, "delta": 1e-7}, epsilon=1.0), "an own delta"),
    (plan({**SHARED, "sensitivity": 1.5}, epsilon=1.0), "whole number"),
    (plan({**SHARED, "mechanism": "Poisson-subsampled Gaussian"}, epsilon=1.0), "takes no share"),
    (plan(SHARED, epsilon=1e5), "outside"),
    (plan(claim={"epsilon": "small"}), "claim.epsilon"),
    *((plan(delta=bad), "delta") for bad in BAD_NUMBERS),
    *((plan(SHARED, epsilon=bad), "epsilon") for bad in BAD_NUMBERS),
    *((plan({**EVENT, "sigma": bad}), "sigma") for bad in BAD_NUMBERS),
    *((plan({**EVENT, "count": bad}), "count") for bad in BAD_NUMBERS),
    *((plan({**SHARED, "share": bad}, epsilon=1.0), "share") for bad in BAD_NUMBERS),
]  # fmt: skip


@pytest.mark.parametrize(("content", "clause"), REFUSALS, ids=lambda value: value if isinstance(value, str) else "plan")
def test_what_cannot_be_priced_is_refused_in_one_sentence(tmp_path: Path, content: Any, clause: str) -> None:
    with pytest.raises(BudgetError) as refused:
        read_schedule(written(tmp_path, content))
    assert clause in str(refused.value)
    assert "\n" not in str(refused.value) and not str(refused.value).endswith(".")


SCHEDULE = Schedule((GaussianEvent("ages", 40.0, count=3), SelectionEvent("pairs", 0.1, 2)), 1e-6)


def statement(**changes: Any) -> dict[str, Any]:
    events = [{**event.record().__dict__} for event in SCHEDULE.events]
    return {"epsilon": 0.5, "delta": 1e-6, "events": events, "ledger": None, "private": True, **changes}


def stored(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "evaluation.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def evaluation(**statements: Any) -> dict[str, Any]:
    return {"candidates": [{"name": name, "statement": content} for name, content in statements.items()]}


def test_books_are_read_from_a_plan_an_evaluation_and_a_model(tmp_path: Path) -> None:
    books = read_books(written(tmp_path, plan(claim={"epsilon": 0.5})))
    assert books.claim is not None and (books.name, books.claim.epsilon) == ("plan", 0.5)
    assert read_books(written(tmp_path, plan())).claim is None
    single = stored(tmp_path, evaluation(mst=statement(), tvae=None))
    assert read_schedule(single) == SCHEDULE and read_schedule(single).digest == SCHEDULE.digest
    (pure := tmp_path / "pure").mkdir()
    several = stored(tmp_path, evaluation(mst=statement(), other=statement(delta=1e-7)))
    assert read_schedule(several, "other").delta == 1e-7
    (tmp_path / "model.json").write_text(json.dumps({"generator": "mst", "statement": statement()}), encoding="utf-8")
    assert read_schedule(tmp_path) == read_schedule(tmp_path / "model.json") == SCHEDULE
    for path, candidate, clause in (
        (several, None, "several candidates have a statement"),
        (stored(pure, evaluation(mst=statement(delta=0))), None, "state the delta"),
        (several, "mts", "did you mean 'mst'"),
        (written(tmp_path, plan()), "mst", "belongs to an evaluation"),
        (tmp_path / "none.json", None, "cannot be read"),
        (tmp_path / "none.toml", None, "there is no plan"),
    ):
        with pytest.raises(BudgetError, match=clause):
            read_schedule(path, candidate)


def changed(**changes: Any) -> dict[str, Any]:
    """An evaluation in whose first event something is not as it is written."""
    return evaluation(mst=statement(events=[{**statement()["events"][0], **changes}]))


@pytest.mark.parametrize(
    ("content", "clause"),
    [
        (evaluation(tvae=None), "no formal guarantee"),
        ("{", "not JSON that a run wrote"),
        ("[" * 100_000, "nested too deep"),
        (evaluation(mst=statement(delta=1e-14)), "delta"),
        (evaluation(mst=statement(epsilon=math.nan)), "epsilon"),
        (evaluation(mst=statement(events=[])), "events"),
        (changed(count=10**400), ""),
        (changed(noise={"sigma": None}), "sigma"),
        (changed(mechanism="magic"), "magic"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "file",
)
def test_statements_that_say_no_price_are_refused_in_one_sentence(tmp_path: Path, content: Any, clause: str) -> None:
    with pytest.raises(BudgetError) as refused:
        read_schedule(stored(tmp_path, content))
    assert clause in str(refused.value) and "\n" not in str(refused.value)


# Statements


def test_a_statement_has_every_key() -> None:
    content = stated().to_dict()
    assert PrivacyStatement.from_dict(content) == stated()
    del content["trust"]
    with pytest.raises(ValueError, match="every key"):
        PrivacyStatement.from_dict(content)


@pytest.mark.parametrize("trust", ["curator", *extras.load("trust")])
def test_trust_is_read_back_and_shown_in_a_notebook(trust: str) -> None:
    statement = PrivacyStatement.from_dict(stated(trust=trust).to_dict())
    assert statement.trust == trust
    assert trust_words()[trust].replace("'", "&#x27;") in statement._repr_html_()
    local = stated(trust=LOCAL, relation=REPLACE, delta=0.0)
    assert guarantee_words(local) == "epsilon 1, delta 0.0, unit 'row', local"


@pytest.mark.parametrize(
    "known",
    [
        {"trust": "nobody"},
        {"trust": LOCAL, "delta": 0.0, "relation": RELATION},
        {"trust": LOCAL, "delta": 1e-6, "relation": REPLACE},
        {"relation": REPLACE},
    ],
)
def test_a_local_claim_is_pure_and_of_another_relation_than_all_others(known: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"trust|local"):
        PrivacyStatement.from_dict({**stated().to_dict(), **known})

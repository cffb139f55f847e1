"""Plans as files: what is written is read again, and what cannot be priced is refused in one sentence."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
)
from synth.dp.schedule import Schedule
from synth.dp.schedule_file import (
    LEAST_DELTA,
    MOST_NOISE,
    read_books,
    read_schedule,
    schedule_of,
    to_toml,
)
from synth.errors import BudgetError

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


def written(tmp_path: Path, content: Mapping[str, Any] | str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(content if isinstance(content, str) else tomli_w.dumps(content), encoding="utf-8")
    return path


def plan(*events: Mapping[str, Any], **head: Any) -> dict[str, Any]:
    return {"delta": 1e-6, **head, "events": [dict(event) for event in events or (EVENT,)]}


@settings(max_examples=60, deadline=None)
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


def test_the_same_plan_gives_the_same_text(tmp_path: Path) -> None:
    text = to_toml(read_schedule(written(tmp_path, plan())))
    assert to_toml(read_schedule(written(tmp_path, text))) == text


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


BAD_NUMBERS = [0, -1.0, float("inf"), float("-inf"), float("nan"), "much", True, [1.0], {"a": 1}, 10**30]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"events": [EVENT]}, "'delta' is missing"),
    ({"delta": 1e-6}, "'events' is missing"),
    ({"delta": 1e-6, "events": []}, "events"),
    ({"delta": 1e-6, "events": "none"}, "events"),
    (plan(), ""),
    (plan({**EVENT, "sigme": 1.0}), "did you mean 'sigma'"),
    (plan(epsilom=1.0), "did you mean 'epsilon'"),
    (plan({**EVENT, "mechanism": "Gausian"}), "did you mean 'Gaussian'"),
    (plan({**SHARED, "mechanism": "Gausian"}, epsilon=1.0), "did you mean 'Gaussian'"),
    (plan({"what": "ages", "sigma": 1.0}), "mechanism' is missing"),
    (plan({"what": "ages", "mechanism": "Gaussian"}), "'sigma' is missing"),
    (plan({**EVENT, "threshold": 5}), "'threshold'"),
    (plan({**EVENT, "sensitivity": 1.5}), "sensitivity=1.5"),
    (plan({**EVENT, "whole": "yes"}), "must be true or false"),
    (plan({**EVENT, "what": ""}), "what"),
    (plan({**EVENT, "count": 1.5}), "whole number"),
    (plan({**EVENT, "sigma": 2 * MOST_NOISE}), "at most 300000"),
    (plan({**EVENT, "sigma": 1e-3}), "too small"),
    (plan({**EVENT, "share": 0.5}), "'share' belongs to a plan with a target"),
    (plan({**EVENT, "delta": 1e-7}), "'delta' belongs to a plan with a target"),
    (plan(epsilon=1.0), "'sigma' does not go with a target"),
    (plan({**SHARED, "share": 0.5}, epsilon=1.0), "shares add up to 0.5"),
    (plan({**SHARED, "share": 0.6}, {**SHARED, "share": 0.6}, epsilon=1.0), "shares add up to 1.2"),
    (plan({**SHARED, "share": 0.5}, {**SHARED, "share": 0.50001}, epsilon=1.0), "shares add up to 1.00001"),
    (plan({"what": "a", "mechanism": "Gaussian"}, epsilon=1.0), "'share' is missing"),
    (plan({**SHARED, "share": 0.5}, {**NAMES, "delta": 1e-6}, epsilon=1.0), "own deltas add up"),
    (plan({**SHARED, "share": 0.5}, {k: NAMES[k] for k in NAMES if k != "delta"}, epsilon=1.0), "its own delta"),
    (plan({**SHARED, "delta": 1e-7}, epsilon=1.0), "its own delta"),
    (plan({**SHARED, "sensitivity": 1.5}, epsilon=1.0), "whole number"),
    (plan({**SHARED, "mechanism": "exponential", "sensitivity": 2}, epsilon=1.0), "'sensitivity' does not go"),
    (plan({**SHARED, "mechanism": "Poisson-subsampled Gaussian"}, epsilon=1.0), "no rho to take a share of"),
    (plan(SHARED, epsilon=1e-4), "outside"),
    (plan(SHARED, epsilon=1e5), "outside"),
    (plan(claim={"epsilon": "small"}), "claim: epsilon"),
    (plan(claim={"delta": 1e-6}), "claim: unknown key 'delta'"),
    *((plan(delta=bad), "delta") for bad in BAD_NUMBERS),
    *((plan(SHARED, epsilon=bad), "epsilon") for bad in BAD_NUMBERS),
    *((plan({**EVENT, "sigma": bad}), "sigma") for bad in BAD_NUMBERS),
    *((plan({**EVENT, "count": bad}), "count") for bad in BAD_NUMBERS),
    *((plan({**SHARED, "share": bad}, epsilon=1.0), "share") for bad in BAD_NUMBERS),
]
REFUSED.remove((plan(), ""))


@pytest.mark.parametrize(("content", "words"), REFUSED, ids=lambda value: value if isinstance(value, str) else "plan")
def test_what_cannot_be_priced_is_refused_in_one_sentence(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    with pytest.raises(BudgetError) as refused:
        read_schedule(written(tmp_path, content))
    message = str(refused.value)
    assert words in message
    assert "\n" not in message
    assert not message.endswith(".")
    assert "path=" in message


@pytest.mark.parametrize("text", ["", "delta =", "\x00", "delta = 1e-6\ndelta = 1e-6", "[[events]]\nwhat = 1"])
def test_files_that_are_no_plans_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BudgetError):
        read_schedule(written(tmp_path, text))
    with pytest.raises(BudgetError, match="there is no plan"):
        read_schedule(tmp_path / "none.toml")
    with pytest.raises(BudgetError, match="folder"):
        read_schedule(tmp_path)
    with pytest.raises(BudgetError, match="belongs to an evaluation"):
        read_schedule(written(tmp_path, plan()), "mst")


def test_a_claim_beside_a_plan_is_read(tmp_path: Path) -> None:
    books = read_books(written(tmp_path, plan(claim={"epsilon": 0.5})))
    assert books.claim is not None
    assert (books.name, books.claim.epsilon) == ("plan", 0.5)
    assert read_books(written(tmp_path, plan())).claim is None


SCHEDULE = Schedule((GaussianEvent("ages", 40.0, count=3), SelectionEvent("pairs", 0.1, 2)), 1e-6)


def statement(**changes: Any) -> dict[str, Any]:
    events = [{**event.record().__dict__} for event in SCHEDULE.events]
    return {"epsilon": 0.5, "delta": 1e-6, "events": events, "ledger": None, "private": True, **changes}


def stored(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def evaluation(**statements: Any) -> dict[str, Any]:
    return {"candidates": [{"name": name, "statement": said} for name, said in statements.items()]}


def test_statements_of_an_evaluation_are_schedules_by_name(tmp_path: Path) -> None:
    one = stored(tmp_path, evaluation(mst=statement(), tvae=None))
    assert read_schedule(one) == SCHEDULE
    assert read_schedule(one).digest == SCHEDULE.digest
    several = stored(tmp_path, evaluation(mst=statement(), other=statement(delta=1e-7)))
    assert read_schedule(several, "other").delta == 1e-7
    for candidate, words in ((None, "several candidates have a statement"), ("mts", "did you mean 'mst'")):
        with pytest.raises(BudgetError, match=words):
            read_schedule(several, candidate)


def test_a_model_is_read_by_its_folder_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"generator": "mst", "statement": statement()}), encoding="utf-8")
    assert read_schedule(tmp_path) == read_schedule(tmp_path / "model.json") == SCHEDULE
    assert read_books(tmp_path).name == "mst"
    with pytest.raises(BudgetError, match="belongs to an evaluation"):
        read_schedule(tmp_path, "mst")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (evaluation(tvae=None), "no formal guarantee"),
        (evaluation(), "holds no candidate"),
        ({}, "holds no privacy statement"),
        ([], "not JSON that a run wrote"),
        ("text", "not JSON that a run wrote"),
        (evaluation(mst=[]), "damaged"),
        (evaluation(mst={}), "damaged"),
        (evaluation(mst=statement(delta=0)), "delta"),
        (evaluation(mst=statement(epsilon=None)), "epsilon"),
        (evaluation(mst=statement(epsilon=float("nan"))), "epsilon"),
        (evaluation(mst=statement(events=[])), "events"),
        (evaluation(mst=statement(events=[{**statement()["events"][0], "count": 10**400}])), "count"),
        (evaluation(mst=statement(events=[{**statement()["events"][0], "noise": {"sigma": None}}])), "sigma"),
        (evaluation(mst=statement(events=[{**statement()["events"][0], "noise": {"share": 1.0}}])), "share"),
        (evaluation(mst=statement(events=[{**statement()["events"][0], "mechanism": "magic"}])), "magic"),
        (evaluation(mst=statement(ledger={"epsilon": 1.0})), "ledger"),
    ],
    ids=str,
)
def test_damaged_statements_are_refused_in_one_sentence(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(BudgetError) as refused:
        read_schedule(stored(tmp_path, content))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_json_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    for text, words in (("{", "not JSON that a run wrote"), ("[" * 100_000, "nested too deep")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BudgetError, match=words):
            read_schedule(path)
    with pytest.raises(BudgetError, match="cannot be read"):
        read_schedule(tmp_path / "none.json")

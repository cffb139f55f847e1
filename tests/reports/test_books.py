"""The books of a statement: what a person needs to check them, with a ledger, without one, and in nonsense."""

import math
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from evaluate.gate.verdict import Verdict
from evaluate.provenance import LedgerStanding
from evaluate.result import Candidate, Evaluation
from reports import render_html
from reports.sections.privacy_budget import AFTER_RELEASE, AFTER_RUN, OUTSIDE, BudgetTable, books_of, position_of
from synth.dp.statement import LedgerNote
from tests.evaluations import altered, stated

LEDGER = {
    "dataset": "adult", "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.29934,
    "spent_epsilon": 2.10012, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


def standing(**changes: Any) -> LedgerStanding:
    """The ledger after a run; what is not named is as in the note of its release."""
    known = {key: LEDGER[key] for key in ("dataset", "unit", "spent_epsilon", "total_epsilon", "total_delta")}
    return LedgerStanding(**{**known, "reserved_epsilon": {"mst": 1.0}, "left_epsilon": 0.5, **changes})


class _Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def text_of(page: str) -> str:
    return " ".join(" ".join(_Text(page).words).split())


def section(page: str) -> str:
    return text_of(page.split('id="guarantee"')[1].split('id="columns"')[0])


def stating(evaluation: Evaluation, **changes: Any) -> Evaluation:
    """The evaluation of the private candidate alone, its statement changed."""
    first = evaluation.candidates[0]
    assert first.statement is not None
    return replace(evaluation, candidates=(replace(first, statement=altered(first.statement, changes)),))


def books(evaluation: Evaluation) -> BudgetTable:
    statement = evaluation.candidates[0].statement
    assert statement is not None
    return books_of("mst", statement)


def test_lines_and_shares_add_up_to_the_totals(evaluation: Evaluation) -> None:
    found = books(evaluation)
    assert found.rho == pytest.approx(0.0258)
    assert sum(line.share or 0.0 for line in found.lines) == pytest.approx(1.0)
    assert found.own_delta == sum(line.delta for line in found.lines)
    assert found.by_hand == pytest.approx(0.0258 + 2 * math.sqrt(0.0258 * math.log(1 / found.rest)))


def test_the_rho_of_every_line_follows_from_what_is_shown_of_its_noise(evaluation: Evaluation) -> None:
    page = section(render_html(evaluation))
    assert "sigma 31.6228, sensitivity 1, on whole numbers 15 0.0075" in page
    assert math.isclose(15 * (1 / 31.6228) ** 2 / 2, 0.0075, rel_tol=1e-5)
    assert "epsilon of each 0.06 14 0.0063" in page
    assert math.isclose(14 * 0.06**2 / 8, 0.0063)
    assert "sigma 10, threshold 54, sensitivity 1 1 0.005" in page


def test_the_page_says_how_to_check_and_to_recompute(evaluation: Evaluation) -> None:
    page = section(render_html(evaluation))
    assert "rho = times × (sensitivity ÷ sigma)² ÷ 2" in page
    assert "0.0258 + 2 √(0.0258 × ln(1 ÷ 9.24847e−7)) = 1.22" in page
    assert "understudy account evaluation.json --candidate mst" in page
    assert "Audited lower bound not audited" in page


def test_a_release_outside_a_ledger_is_said_so_first_and_in_the_statement(evaluation: Evaluation) -> None:
    page = render_html(evaluation)
    assert "Made outside a ledger" in text_of(page)
    assert OUTSIDE in section(page)
    assert "ledger verify" not in section(page)


def test_a_release_in_a_ledger_shows_where_and_how_the_dataset_stands(evaluation: Evaluation) -> None:
    page = render_html(stating(evaluation, ledger=LEDGER))
    assert "0.899 of 3 left in the ledger" in text_of(page).split("Key figures")[0]
    said = section(page)
    for words in ("1.3 of epsilon", "2.11 by all releases", "0.899 of a total of 3 at delta 1e−6", "adult by row"):
        assert words in said
    assert "5f" * 16 in said
    assert f"understudy ledger verify --holds {'e6' * 32}" in said
    assert OUTSIDE not in said


def test_the_position_is_that_after_all_that_the_run_drew_and_says_so(evaluation: Evaluation) -> None:
    noted = stating(evaluation, ledger=LEDGER)
    after = replace(
        noted, provenance=altered(noted.provenance, {"ledger": standing(spent_epsilon=2.6, left_epsilon=0.4)})
    )
    page = render_html(after)
    assert f"0.4 of 3 left in the ledger {AFTER_RUN}" in text_of(page).split("Key figures")[0]
    assert f"as it stood {AFTER_RUN};" in section(page)
    assert "2.6 by all releases" in section(page)
    assert f"as it stood {AFTER_RELEASE};" in section(render_html(noted))


@pytest.mark.parametrize(
    "booked",
    [
        None, {"dataset": "another", "spent_epsilon": 2.6}, {"total_epsilon": 4.0, "spent_epsilon": 2.6},
        {"spent_epsilon": 1.0},
    ],
)  # fmt: skip
def test_a_position_of_another_account_is_passed_over(booked: dict[str, Any] | None) -> None:
    found, moment = position_of(LedgerNote(**LEDGER), None if booked is None else standing(**booked))
    assert found is not None
    assert (found.spent_epsilon, moment) == (2.10012, AFTER_RELEASE)


def test_names_are_quoted_for_the_shell() -> None:
    statement = stated(ledger={**LEDGER, "entry": "a; rm -r b"})
    found = books_of("two words'", statement)
    assert found.recompute == "understudy account evaluation.json --candidate 'two words'\"'\"''"
    assert found.find == "understudy ledger verify --holds 'a; rm -r b'"


def test_subsampled_events_have_no_sum_by_hand(evaluation: Evaluation) -> None:
    event = {
        "what": "steps of DP-SGD", "mechanism": "Poisson-subsampled Gaussian", "count": 1000, "rho": None, "delta": 0.0,
        "noise": {"noise_multiplier": 1.1, "sampling_rate": 0.01},
    }  # fmt: skip
    page = section(render_html(stating(evaluation, events=[event], epsilon=5.0, epsilon_rdp=6.0)))
    assert "noise multiplier 1.1, sampling rate 0.01 1,000 — — none" in page
    assert "not possible for these lines; recompute it" in page


@pytest.mark.parametrize("bad", [None, "much", math.nan, math.inf, -1.0, True, [1], {"a": 1}, 10**400], ids=repr)
def test_nonsense_in_the_books_is_refused(evaluation: Evaluation, bad: Any) -> None:
    event = {"what": bad, "mechanism": bad, "noise": {"sigma": bad}, "count": bad, "rho": bad, "delta": bad}
    for changes in (
        {"events": [event, bad]},
        {"events": bad},
        {"ledger": dict.fromkeys(LEDGER, bad)},
        *([] if bad is None else [{"ledger": bad}]),
        *([] if bad == "much" else [{"caveats": bad if isinstance(bad, list) else [bad]}]),
    ):
        with pytest.raises(ValueError):
            stating(evaluation, **changes)


def test_warnings_are_whole_sentences_where_an_officer_looks_first(
    evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]]
) -> None:
    said = ["no formal guarantee for a: <b>", "n_units=900 is few for a private fit"]
    page = render_html(
        replace(evaluation, provenance=altered(evaluation.provenance, {"warnings": said})),
        verdicts=verdicts_of(evaluation),
    )
    for part in (text_of(page).split("Side by side")[0], section(page)):
        assert "No formal guarantee for a: <b>." in part
        assert "n_units=900 is few for a private fit." in part
    assert "2 warnings of this run" in text_of(page)
    assert "of this run" not in text_of(render_html(evaluation))


def test_what_was_not_audited_is_among_the_limits(evaluation: Evaluation) -> None:
    limits = text_of(render_html(evaluation).split('id="limits"')[1].split('id="provenance"')[0])
    assert limits.count("Not audited") == 1
    bare = replace(evaluation, candidates=(Candidate("c", ()),))
    assert "Not audited" not in text_of(render_html(bare))

"""What each section of the report rests on: the end that decided, sums of the books, lines of the first screen."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from evaluate.gate.finding import Finding, Outcome
from evaluate.gate.policy import Rule
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CATALOG
from evaluate.provenance import LedgerStanding
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports.charts import extent_of
from reports.document import compose
from reports.sections.guidelines import CRITERIA, Answer, criteria_rows
from reports.sections.limitations import NOT_COUNTED, attempts_on, left_out
from reports.sections.overview import Guarantee, overview_of
from reports.sections.privacy_budget import AFTER_RELEASE, AFTER_RUN, books_of, position_of
from reports.sections.provenance import fact_groups, schema_rows
from reports.sections.verdicts import bound_of, ruling_of
from reports.sections.weakest import MOST, weakest_of
from synth.dp.statement import LedgerNote
from synth.infer import infer_schema
from synth.schema import build_schema
from tests.evaluations import altered, evaluation_of, stated
from tests.reports.test_snapshots import LEDGER

Verdicts = Callable[..., tuple[Verdict, ...]]
LOWER = Rule(measure="privacy.membership.auc", limit=0.6, why="because")
HIGHER = Rule(measure="validity.rows", limit=0.6, why="because")
CLAIM = Rule(measure="statement.epsilon", limit=1.0, why="because")
BARE = Guarantee(None)


def found(rule: Rule, outcome: Outcome, low: float | None = 0.5, high: float | None = 0.7) -> Finding:
    return Finding(rule, outcome, "So it is.", Estimate(rule.measure, 0.6, 9, rule.direction, low=low, high=high))


@pytest.mark.parametrize(
    ("finding", "bound"),
    [
        (found(LOWER, "PASS"), (0.7, "upper end")),
        (found(LOWER, "INCONCLUSIVE"), (0.7, "upper end")),
        (found(LOWER, "FAIL"), (0.5, "lower end")),
        (found(HIGHER, "PASS"), (0.5, "lower end")),
        (found(HIGHER, "FAIL"), (0.7, "upper end")),
        (found(CLAIM, "PASS", None, None), (0.6, "claim")),
        (found(LOWER, "INCONCLUSIVE", None, None), None),
        (Finding(LOWER, "INCONCLUSIVE", "It was not run."), None),
    ],
)
def test_the_bound_is_the_end_of_the_interval_that_decided(finding: Finding, bound: Any) -> None:
    assert bound_of(finding) == bound


def test_reasons_begin_with_what_failed_those_of_a_pass_are_its_closest_calls_and_waived_ones_come_last(
    audited: Evaluation, verdicts_of: Verdicts
) -> None:
    for verdict in verdicts_of(audited, "public")[1:]:
        reasons = (*ruling_of(verdict).reasons, *ruling_of(verdict).more)
        outcomes = [finding.outcome for finding in reasons]
        assert outcomes[0] == "FAIL" and outcomes == sorted(outcomes, key=["FAIL", "INCONCLUSIVE"].index)
        assert len(outcomes) == sum(finding.outcome != "PASS" for finding in verdict.findings)
        findings = tuple(replace(f, waived=f.rule == reasons[0].rule) for f in verdict.findings)
        ruling = ruling_of(replace(verdict, findings=findings))
        assert (*ruling.reasons, *ruling.more)[-1].rule == reasons[0].rule
    passed = compose(audited, verdicts=verdicts_of(audited)).sections[0].rulings[0]
    assert passed.words == "PASS: for people inside the organization, in a protected sandbox"
    assert passed.reasons[0].rule.measure == "pairs.dependence.floor_share"


def test_every_table_is_answered_for_under_every_policy_that_ships(audited: Evaluation, verdicts_of: Verdicts) -> None:
    sections = compose(audited, verdicts=verdicts_of(audited)).sections
    answers = [[one.verdict.policy for one in (*section.rulings, *section.answers)] for section in sections]
    assert answers == [["internal", "partner", "public"]] * 3
    without = [one.verdict.verdict for section in sections[1:] for one in section.answers]
    assert set(without) == {"FAIL"}, "without an epsilon nothing may be given to partners or to anyone"
    assert not any(section.answers for section in compose(audited).sections)


# ---- The first screen.


def told(auc: float) -> Candidate:
    return Candidate("t", (Estimate("privacy.membership.auc", auc, 900, "lower", (), None, None, 0.5),))


def test_every_line_is_named_as_its_number_is_and_better_is_right_of_worse(evaluation: Evaluation) -> None:
    lines = compose(evaluation).overview
    assert [line.title for line in lines] == [
        "Boosting, trained on synthetic", "Pair distance beyond noise", "Membership attack, AUC",
        "Guarantee on attacks",
    ]  # fmt: skip
    for line in lines:
        worse, better = extent_of(line.estimates, line.around)
        for one in line.estimates:
            ends = [(value - worse) / (better - worse) for value in (one.floor, one.reference) if value is not None]
            assert all(-1e-9 <= end <= 1 + 1e-9 for end in ends) and ends == sorted(ends)


def test_noise_about_guessing_does_not_fill_the_axis_and_a_leak_does() -> None:
    attack = [overview_of([told(auc)], [BARE])[2] for auc in (0.503, 0.97)]
    assert [extent_of(line.estimates, line.around) for line in attack] == [(0.6, 0.4), (0.97, 0.4)]


def test_a_guarantee_is_the_most_that_any_test_finds_and_no_limit_without_one(evaluation: Evaluation) -> None:
    document = compose(evaluation)
    line, protection = document.overview[-1], document.sections[0].protection
    assert protection is not None and line.cells[0].estimate is not None
    assert line.cells[0].estimate.value == pytest.approx(protection.limit.detections(0.01))
    assert line.meaning.startswith("Share of the rows in the real table")
    assert [cell.words for cell in line.cells[1:]] == ["no formal guarantee"] * 2
    unverified = replace(evaluation, provenance=altered(evaluation.provenance, {"split": None}))
    assert compose(unverified).overview[-1].cells[0].words == "unverified"


def test_a_column_that_gives_the_target_away_is_left_out_of_the_score() -> None:
    score = Estimate("utility.tstr.boosting", 1.0, 900, "higher")
    without = Estimate("utility.gap.boosting.without", 0.2, 900, "lower")
    away = {"utility": {"giveaways": [{"column": "x", "score": 1.0}]}}
    for estimates, figures, words in (
        ((score, without), away, "0.200"), ((score, without), {}, "1.000"), ((score,), away, "target given away"),
    ):  # fmt: skip
        assert overview_of([Candidate("t", estimates, figures=figures)], [BARE])[0].cells[0].words == words


def test_a_number_that_is_not_there_is_said_to_be_missing() -> None:
    failed = Candidate("f", (), (Failure("privacy.membership.auc", "timed out", "the time limit was reached"),))
    lines = overview_of([told(0.5), failed], [BARE, BARE])
    assert [line.cells[1].words for line in lines] == ["not run", "not run", "timed out", "no formal guarantee"]
    assert [line.title for line in overview_of([failed], [BARE])] == [
        "Utility", "Fidelity", "Membership attack", "Guarantee on attacks",
    ]  # fmt: skip


def test_columns_left_out_or_replaced_are_named_with_a_remedy() -> None:
    words = ["the bus was late", "no one came to help", "my room was cold at night", "good food and kind staff"]
    rows = pd.DataFrame(
        {"price": [f"{i}:{7 * i}/{i % 11} #{i}" for i in range(60)], "mail": [f"p{i}@example.org" for i in range(60)]}
    )
    rows["said"] = [f"{words[i % 4]} {words[i % 3]} {i}" for i in range(60)]
    rows["ticket"] = [f"T-{i:04d}" for i in range(60)]
    schema = infer_schema(rows.assign(smoker=[True, False] * 30))
    sentences = left_out(schema)
    assert [said.split(". ")[0].rpartition(": ")[2] for said in sentences] == [
        "'price'",
        "'said'",
        "'mail'",
        "'ticket'",
    ]
    assert all("write kind = " in said for said in sentences)
    line = compose(replace(evaluation_of(told(0.501)), schema=schema)).overview[1]
    assert line.title == "Fidelity"
    near = replace(told(0.5), estimates=(Estimate("joint.c2st.auc", 0.5, 900, "lower"),))
    line = compose(replace(evaluation_of(near), schema=schema)).overview[1]
    assert line.meaning.endswith("; without the columns 'price', 'mail', 'said', 'ticket'")


# ---- The books.


def test_lines_and_shares_add_up_and_rho_follows_from_the_noise(evaluation: Evaluation) -> None:
    statement = evaluation.candidates[0].statement
    assert statement is not None
    books = books_of("mst", statement)
    assert books.rho == pytest.approx(0.0258)
    assert sum(line.share or 0.0 for line in books.lines) == pytest.approx(1.0)
    assert books.own_delta == sum(line.delta for line in books.lines)
    assert books.by_hand == pytest.approx(0.0258 + 2 * math.sqrt(0.0258 * math.log(1 / books.rest)))
    assert math.isclose(15 * (1 / 31.6228) ** 2 / 2, books.lines[0].rho or 0.0, rel_tol=1e-5)
    assert math.isclose(14 * 0.06**2 / 8, books.lines[2].rho or 0.0)
    steps = {
        "what": "steps of DP-SGD", "mechanism": "Poisson-subsampled Gaussian", "count": 1000, "rho": None, "delta": 0.0,
        "noise": {"noise_multiplier": 1.1, "sampling_rate": 0.01},
    }  # fmt: skip
    assert books_of("x", altered(statement, {"events": [steps], "epsilon": 5.0, "epsilon_rdp": 6.0})).by_hand is None


@pytest.mark.parametrize(
    ("booked", "spent"),
    [
        (None, 2.10012), ({"dataset": "another", "spent_epsilon": 2.6}, 2.10012), ({"spent_epsilon": 1.0}, 2.10012),
        ({"total_epsilon": 4.0, "spent_epsilon": 2.6}, 2.10012), ({"spent_epsilon": 2.6}, 2.6),
    ],
)  # fmt: skip
def test_the_position_is_that_after_all_that_the_run_drew_of_the_same_account(booked: Any, spent: float) -> None:
    known = {key: LEDGER[key] for key in ("dataset", "unit", "spent_epsilon", "total_epsilon", "total_delta")}
    standing = None
    if booked is not None:
        standing = LedgerStanding(**{**known, "reserved_epsilon": {"mst": 1.0}, "left_epsilon": 0.5, **booked})
    note, moment = position_of(LedgerNote(**LEDGER), standing)
    assert note is not None
    assert (note.spent_epsilon, moment) == (spent, AFTER_RUN if spent == 2.6 else AFTER_RELEASE)


def test_names_are_quoted_for_the_shell() -> None:
    books = books_of("two words'", stated(ledger={**LEDGER, "entry": "a; rm -r b"}))
    assert "'two words'\"'\"''" in books.recompute
    assert "'a; rm -r b'" in books.find


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
            altered(evaluation.candidates[0].statement, changes)


# ---- Criteria, provenance, weak spots.


def answers(evaluation: Evaluation, candidate: Candidate) -> Mapping[str, Answer]:
    return {row.criterion.title: row.answers[0][1] for row in criteria_rows(evaluation, [candidate])}


def test_every_criterion_is_answered_by_what_was_found_and_says_what_it_leaves_open(audited: Evaluation) -> None:
    assert [one.title for one in CRITERIA[:3]] == ["Singling out", "Linkability", "Inference"]
    assert all(one.uncovered and one.asks.endswith("?") for one in CRITERIA)
    first, _, last = audited.candidates
    quiet, loud, bare = (answers(audited, one) for one in (first, last, Candidate("bare", ())))
    for title in ("Singling out", "Linkability", "Inference", "Identifiability (clause 8)"):
        assert (quiet[title][0], loud[title][0], bare[title][0]) == ("no alarm", "alarm", "not measured")
    assert "0.0120 (0.0070 to 0.0170)" in loud["Singling out"][1]
    claim, audit = "Privacy parameters and unit of privacy", "Algorithms and correctness"
    assert quiet[claim][1] == "epsilon 0.999 at delta 1e\u22126, unit row"
    assert (quiet[audit][0], loud[audit][0], bare[claim][0]) == ("no alarm", "absent", "absent")
    void = replace(first, statement=altered(first.statement, {"private": False}))
    assert answers(audited, void)[claim][1].startswith("void")
    drawn = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 3}
    picked = replace(audited, provenance=altered(audited.provenance, {"release": None, "composed": drawn}))
    assert "for all 3 private releases that its run drew" in answers(picked, first)[claim][1]
    schema = altered(audited.schema, {"quasi_identifiers": ["age", "sex"]})
    said = answers(replace(audited, schema=schema), first)["Data (clause 7)"][1]
    assert said == "schema declared; 2 quasi-identifiers and 1 sensitive columns named"
    attacks = [metric for metric in CATALOG.values() if metric.attack == "always"]
    keys = {"singling out", "linkability", "inference", "identifiability"}
    assert all(metric.criteria for metric in attacks) and {key for one in attacks for key in one.criteria} <= keys


def test_hashes_of_outputs_of_what_was_asked_and_keyed_ones_of_inputs_stand_apart(evaluation: Evaluation) -> None:
    groups = {group.title: [name for name, _ in group.facts] for group in fact_groups(evaluation)}
    assert groups["Files that were written"] == ["SHA-256 of synthetic/mst.csv"]
    assert groups["What was asked for"] == ["SHA-256 of the job", "SHA-256 of the schema"]
    assert groups["Real inputs"] == [f"keyed fingerprint of {part}" for part in ("table", "train", "holdout")]
    assert "seed" in groups["The run"] and "real table: train rows" in groups["The real table and its schema"]
    names = [name for several in groups.values() for name in several]
    assert len(names) == len(set(names))
    columns = {"mail": {"kind": "personal", "personal": "email", "locale": "de_DE", "missing": True},
               "gone": {"kind": "text", "drop": True}}  # fmt: skip
    (mail,) = schema_rows(build_schema({"status": "declared", "columns": columns}))
    assert (mail.column, mail.kind, mail.holds, mail.missing) == ("mail", "personal", "email, de_DE", True)


def test_attempts_are_told_with_the_tables_and_the_day_of_the_first() -> None:
    assert attempts_on(evaluation_of()) == NOT_COUNTED
    for n, tables, words in ((4, 12, "evaluation number 4"), (1, 1, "the first evaluation")):
        counted = {"evaluations": n, "tables": tables, "since": "2026-01-31", "by_name": None}
        said = attempts_on(evaluation_of(attempts=counted))
        assert said.startswith(f"This is {words} of this real table") and "since 2026-01-31" in said


def test_weak_spots_are_the_worst_columns_groups_and_relations(evaluation: Evaluation) -> None:
    first = evaluation.candidates[0]
    columns = weakest_of(first).columns
    assert [one.tvd for one in columns] == sorted((f["tvd"] for f in first.figures["columns"]), reverse=True)[:MOST]
    boosting = {"gap": 0.4, "low": 0.1, "high": 0.7}
    many = [{"group": f"g{i}", "excess": i / 100} for i in range(9)]
    figures = {
        "fairness_columns": [{"column": "sex", "groups": [{"group": "f", "excess": 0.2}, *many]}],
        "fairness_models": [{"column": "sex", "levels": (), "groups": [
            {"group": "m", "few": False, "boosting": boosting}]}],
        "relations": [{"relation": "kept", "kept": 0.99, "reference": 1.0}, {"relation": "lost", "kept": 0.4,
                                                                             "reference": 1.0}],
    }  # fmt: skip
    weakest = weakest_of(Candidate("t", (), figures=figures))
    assert [one.group for one in weakest.groups] == ["sex: f", "sex: m", "sex: g8", "sex: g7", "sex: g6"]
    assert [law["relation"] for law in weakest.relations] == ["lost"]
    empty = weakest_of(Candidate("t", ()))
    assert (empty.columns, empty.groups, empty.relations) == ((), (), ())

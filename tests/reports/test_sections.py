"""What each section of the report rests on: attacks, the end that decided, the books, means of a sweep, weak spots."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate.gate.decision import Finding, Outcome
from evaluate.gate.policy import Rule, shipped
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CATALOG
from evaluate.provenance import LedgerStanding
from evaluate.result import Candidate, Estimate, Evaluation, Expectation, Failure
from evaluate.text import loss
from reports import compose, write_sweep
from reports.charts import extent_of
from reports.glossary import better, reading
from reports.guarantee import AFTER_RELEASE, AFTER_RUN, books_of, position_of
from reports.sections.attacks import AttackLine, AttackNote, attack_note
from reports.sections.comparison import mean_of, shown_in_full, sweep_of
from reports.sections.limitations import CRITERIA, Answer, criteria_rows, left_out, limits_of, twins
from reports.sections.overview import bound_of, overview_of, ruling_of
from reports.sections.quality import MOST_COLUMNS, associations, expectations, subgroups, weakest_of
from synth.dp.statement import NO_GUARANTEE, LedgerNote
from synth.infer import infer_schema
from tests.evaluations import altered, evaluation_of, stated
from tests.reports.samples import EPSILONS, LEDGER, swept

Verdicts = Callable[..., tuple[Verdict, ...]]
BARE = (None, "rows", NO_GUARANTEE)
AUC, LINKED, INFERRED = "privacy.membership.auc", "privacy.linkability", "privacy.inference"

# ---- Attacks.


def advantage(measure: str, low: float, **more: Any) -> Estimate:
    return Estimate(measure, low + 0.02, 2000, "lower", low=low, high=low + 0.04, reference=0.0, **more)


def auc(low: float) -> Estimate:
    return Estimate(AUC, low + 0.03, 2000, "lower", low=low, high=low + 0.05, reference=0.5)


def note_of(*estimates: Estimate, failures: tuple[Failure, ...] = (), **figures: Any) -> AttackNote:
    return attack_note(Candidate("a", estimates, failures, figures))


def line_of(note: AttackNote, measure: str) -> AttackLine:
    return next(line for line in note.lines if line.measure == measure)


def test_an_alarm_is_an_interval_above_chance_and_what_stands_furthest_above_it_comes_first() -> None:
    note = note_of(auc(0.501), advantage(LINKED, 0.0), advantage(INFERRED, -0.01))
    assert [line.measure for line in note.alarms] == [AUC]
    assert line_of(note, LINKED).word == "no alarm"
    note = note_of(advantage(LINKED, 0.5), auc(0.8), advantage(INFERRED, 0.7))
    assert [line.measure for line in note.lines[:3]] == [INFERRED, AUC, LINKED], "whatever its scale"
    assert {line.word for line in note.lines[3:]} == {"not measured"}


def test_every_attack_has_a_line_and_what_was_not_measured_says_why() -> None:
    failures = (
        Failure(LINKED, "skipped", "two columns are needed"), Failure("privacy.singling_out", "timed out", "late"),
        Failure("privacy.shadow", "timed out", "late"),
    )  # fmt: skip
    note = note_of(advantage(INFERRED, 0.1), failures=failures)
    always = {name for name, metric in CATALOG.items() if metric.attack == "always" and not metric.needs}
    assert {line.measure for line in note.lines} == always | {"privacy.shadow.auc"}, "what was asked for, too"
    assert line_of(note, LINKED).note == "two columns are needed"
    assert line_of(note, "privacy.singling_out.multivariate").note == "timed out: late"
    assert line_of(note, AUC).note == "it was not run"
    assert f"{len(note.lines) - 1} gave no result" in note.sentence
    assert "nothing speaks against a leak" in note_of().sentence


def test_rates_come_from_the_figure_of_the_same_number_and_numbers_that_are_none_are_left_out() -> None:
    rates = {"attack": [0.5, 0.4, 0.6], "control": [0.3, 0.2, 0.4], "baseline": 0.28}
    columns = [
        {"column": "age", **rates, "advantage": [0.0, -0.1, 0.1]},
        {"column": "income", **rates, "advantage": [0.1 + 0.02, 0.1, 0.2]},
        {"column": "town", **rates, "attack": [float("nan"), 0, 1], "advantage": [0, 0, 0]},
    ]
    note = note_of(advantage(INFERRED, 0.1), inference={"columns": columns})
    result = line_of(note, INFERRED).rates
    assert result is not None
    assert (result.column, result.members, result.controls, result.own) == ("income", 0.5, 0.3, 0.28)
    assert [column.column for column in note.columns] == ["income", "age"]


# ---- Verdicts.


def finding(rule: Rule, outcome: Outcome, low: float | None = 0.5, high: float | None = 0.7) -> Finding:
    return Finding(rule, outcome, "So it is.", Estimate(rule.measure, 0.6, 9, rule.direction, low=low, high=high))


LOWER, HIGHER, CLAIM = (
    Rule(measure=name, limit=0.6, why="because") for name in (AUC, "validity.rows", "statement.epsilon")
)


@pytest.mark.parametrize(
    ("decided", "bound"),
    [
        (finding(LOWER, "PASS"), (0.7, "upper end")),
        (finding(LOWER, "INCONCLUSIVE"), (0.7, "upper end")),
        (finding(LOWER, "FAIL"), (0.5, "lower end")),
        (finding(HIGHER, "PASS"), (0.5, "lower end")),
        (finding(HIGHER, "FAIL"), (0.7, "upper end")),
        (finding(CLAIM, "PASS", None, None), (0.6, "claim")),
        (finding(LOWER, "INCONCLUSIVE", None, None), None),
        (Finding(LOWER, "INCONCLUSIVE", "It was not run."), None),
    ],
)
def test_the_bound_is_the_end_of_the_interval_that_decided(decided: Finding, bound: Any) -> None:
    assert bound_of(decided) == bound


def test_reasons_begin_with_what_failed_those_of_a_pass_are_its_closest_calls_and_waived_ones_come_last(
    audited: Evaluation, verdicts_of: Verdicts
) -> None:
    for verdict in verdicts_of(audited, "public")[1:]:
        reasons = (*ruling_of(verdict).reasons, *ruling_of(verdict).more)
        outcomes = [each.outcome for each in reasons]
        assert outcomes[0] == "FAIL" and outcomes == sorted(outcomes, key=["FAIL", "INCONCLUSIVE"].index)
        assert len(outcomes) == sum(each.outcome != "PASS" for each in verdict.findings)
        findings = tuple(replace(f, waived=f.rule == reasons[0].rule) for f in verdict.findings)
        ruling = ruling_of(replace(verdict, findings=findings))
        assert (*ruling.reasons, *ruling.more)[-1].rule == reasons[0].rule
    passed = compose(audited, verdicts=verdicts_of(audited)).sections[0].rulings[0]
    assert passed.verdict.verdict == "PASS"
    assert passed.reasons[0].rule.measure == "pairs.dependence.floor_share"


def test_every_table_is_answered_for_under_every_policy_that_ships(audited: Evaluation, verdicts_of: Verdicts) -> None:
    sections = compose(audited, verdicts=verdicts_of(audited)).sections
    answers = [[each.verdict.policy for each in (*section.rulings, *section.answers)] for section in sections]
    assert answers == [[*shipped()]] * 3
    without = {each.verdict.verdict for section in sections[1:] for each in section.answers}
    assert without == {"FAIL"}, "without an epsilon nothing may be given to partners or to anyone"
    assert not any(section.answers for section in compose(audited).sections)


# ---- The first screen.


def attacked(value: float) -> Candidate:
    return Candidate("t", (Estimate(AUC, value, 900, "lower", (), None, None, 0.5),))


def test_better_is_right_of_worse_and_noise_about_guessing_does_not_fill_the_axis(evaluation: Evaluation) -> None:
    for line in compose(evaluation).overview:
        worse, right = extent_of(line.estimates, line.around)
        for each in line.estimates:
            ends = [(value - worse) / (right - worse) for value in (each.floor, each.reference) if value is not None]
            assert all(-1e-9 <= end <= 1 + 1e-9 for end in ends) and ends == sorted(ends)
    lines = [overview_of([attacked(value)], [BARE])[2] for value in (0.503, 0.97)]
    assert [extent_of(line.estimates, line.around) for line in lines] == [(0.6, 0.4), (0.97, 0.4)]


def test_a_number_that_is_missing_or_that_a_column_gives_away_is_said_to_be_so() -> None:
    score = Estimate("utility.tstr.boosting", 1.0, 900, "higher")
    without = Estimate("utility.gap.boosting.without", 0.2, 900, "lower")
    away = {"utility": {"giveaways": [{"column": "x", "score": 1.0}]}}
    for estimates, figures, words in (
        ((score, without), away, "0.200"), ((score, without), {}, "1.000"), ((score,), away, "target given away"),
    ):  # fmt: skip
        assert overview_of([Candidate("t", estimates, figures=figures)], [BARE])[0].cells[0].words == words
    failed = Candidate("f", (), (Failure(AUC, "timed out", "the time limit was reached"),))
    lines = overview_of([attacked(0.5), failed], [BARE, BARE])
    assert [line.cells[1].words for line in lines] == ["not run", "not run", "timed out", "no formal guarantee"]


def test_columns_left_out_or_replaced_are_named_with_a_remedy() -> None:
    words = ["the bus was late", "no one came to help", "my room was cold at night", "good food and kind staff"]
    rows = pd.DataFrame(
        {"price": [f"{i}:{7 * i}/{i % 11} #{i}" for i in range(60)], "mail": [f"p{i}@example.org" for i in range(60)]}
    )
    rows["told"] = [f"{words[i % 4]} {words[i % 3]} {i}" for i in range(60)]
    rows["ticket"] = [f"T-{i:04d}" for i in range(60)]
    schema = infer_schema(rows.assign(smoker=[True, False] * 30))
    sentences = left_out(schema)
    names = [sentence.split(". ")[0].rpartition(": ")[2] for sentence in sentences]
    assert names == ["'price'", "'told'", "'mail'", "'ticket'"]
    assert all("write kind = " in sentence for sentence in sentences)
    near = Candidate("t", (Estimate("joint.c2st.auc", 0.5, 900, "lower"),))
    line = compose(replace(evaluation_of(near), schema=schema)).overview[1]
    assert line.meaning.endswith("; without the columns 'price', 'mail', 'told', 'ticket'")


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
    note, moment = position_of(LedgerNote(**LEDGER), standing)  # type: ignore[arg-type]
    assert note is not None
    assert (note.spent_epsilon, moment) == (spent, AFTER_RUN if spent == 2.6 else AFTER_RELEASE)


def test_names_are_quoted_for_the_shell() -> None:
    books = books_of("two words'", stated(ledger={**LEDGER, "entry": "a; rm -r b"}))
    assert "'two words'\"'\"''" in books.recompute
    assert "'a; rm -r b'" in books.find


@given(st.floats(min_value=1e-300, max_value=1e6))
def test_a_privacy_loss_is_never_understated(value: float) -> None:
    written = float(loss(value).replace("\u2212", "-"))
    assert value * (1 - 1e-12) <= written <= value * 1.0101


def test_more_than_all_is_not_called_better() -> None:
    for value, words in ((1.458, "Above 1 is not better than 1"), (1.01, "")):
        most = Estimate("privacy.multiset", value, 100, "higher", low=value - 0.05, high=value + 0.05)
        assert reading(most).startswith(words) and bool(reading(most)) is bool(words)
    assert "higher is better" not in better("privacy.multiset", "higher")


# ---- Criteria, provenance, limits.


def answers(evaluation: Evaluation, candidate: Candidate) -> Mapping[str, Answer]:
    return {row.criterion.title: row.answers[0][1] for row in criteria_rows(evaluation, [candidate])}


def test_every_criterion_is_answered_by_what_was_measured_and_says_what_it_leaves_open(audited: Evaluation) -> None:
    assert all(each.uncovered and each.asks.endswith("?") for each in CRITERIA)
    first, _, last = audited.candidates
    quiet, loud, bare = (answers(audited, each) for each in (first, last, Candidate("bare", ())))
    for title in ("Singling out", "Linkability", "Inference", "Identifiability (clause 8)"):
        assert (quiet[title][0], loud[title][0], bare[title][0]) == ("no alarm", "alarm", "not measured")
    claim, audit = "Privacy parameters and unit of privacy", "Algorithms and correctness"
    assert quiet[claim][1] == "epsilon 0.999 at delta 1e\u22126, unit row"
    assert (quiet[audit][0], loud[audit][0], bare[claim][0]) == ("no alarm", "absent", "absent")
    void = replace(first, statement=altered(first.statement, {"private": False}))
    assert answers(audited, void)[claim][1].startswith("void")
    composed = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 3}
    picked = replace(audited, provenance=altered(audited.provenance, {"release": None, "composed": composed}))
    assert "for all 3 private releases that its run drew" in answers(picked, first)[claim][1]
    attacks = [metric for metric in CATALOG.values() if metric.attack == "always"]
    keys = {"singling out", "linkability", "inference", "identifiability"}
    assert all(metric.criteria for metric in attacks) and {key for each in attacks for key in each.criteria} <= keys


def test_the_power_of_the_attack_is_stated_and_its_absence_too(evaluation: Evaluation) -> None:
    weak = replace(evaluation.candidates[0], figures={"membership": {"n_members": 500, "n_controls": 500}})
    power = limits_of(weak)
    assert "above 0.516" in power[0]
    assert "1,000 outsiders" in power[1]
    assert "No membership attack" in limits_of(Candidate("c", ()))[0]
    assert any("would have seen" in sentence for sentence in compose(evaluation).shared_limits)
    assert "2.0% of fresh real rows" in twins(evaluation)[0]
    assert twins(replace(evaluation, candidates=())) == ()


# ---- Columns, pairs, groups, weak spots.


def test_the_worst_column_comes_first_on_a_scale_that_holds_all_tables(evaluation: Evaluation) -> None:
    document = compose(evaluation, release="sdv.tvae")
    assert [row.order for row in document.columns] == sorted((row.order for row in document.columns), reverse=True)
    for row in document.columns:
        for figure in row.figures:
            assert figure is not None
            assert max(*figure["train"], *figure["synthetic"]) <= row.top
    assert [section.candidate.name for section in document.by_weight] == ["sdv.tvae", "mst", "sdv.gaussian_copula"]


def test_wide_tables_draw_the_associations_that_are_most_wrong() -> None:
    d = 40
    real = [[0.0] * d for _ in range(d)]
    wrong = [[0.5 if {i, j} == {3, 37} else 0.01 for j in range(d)] for i in range(d)]
    figure: dict[str, Any] = {"columns": [f"c{i}" for i in range(d)], "train": real, "synthetic": wrong, "kinds": []}
    drawn = associations(Candidate("c", (), figures={"associations": figure}))
    assert drawn is not None
    assert {"c3", "c37"} <= set(drawn.columns)
    assert drawn.left_out == d - MOST_COLUMNS
    figure = {"columns": ["a", "b"], "train": [[None, None], [None, None]], "synthetic": [[None, 0.5], [0.5, None]]}
    drawn = associations(Candidate("c", (), figures={"associations": figure}))
    assert drawn is not None and drawn.difference == ((None, None), (None, None)), "what is missing stays missing"


def test_what_was_expected_stands_beside_what_was_measured() -> None:
    pairs = {"tvd": [[0.014, 0.09], [0.09, 0.02]], "worst": []}
    expected = Expectation(column=0.02, tree=0.03, pair=0.2, n_rows=800)
    measured = Estimate("columns.tvd.excess", 0.017, 800, "lower")
    candidate = Candidate("mst", (measured,), figures={"pairs": pairs}, expected=expected)
    column, pair = expectations(candidate)
    assert (column.expected, column.measured) == ("0.020", "0.017")
    assert (pair.expected, pair.measured) == ("0.030 to 0.200", "0.090")
    assert {line.measured for line in expectations(replace(candidate, estimates=(), figures={}))} == {"\u2014"}
    assert expectations(replace(candidate, expected=None)) == expectations(replace(candidate, expected=Expectation()))


def test_weak_spots_are_the_worst_columns_groups_and_relations(evaluation: Evaluation) -> None:
    first = evaluation.candidates[0]
    columns = weakest_of(first).columns
    assert [each.tvd for each in columns] == sorted((f["tvd"] for f in first.figures["columns"]), reverse=True)[:5]
    many = [{"group": f"g{i}", "excess": i / 100} for i in range(9)]
    models = [
        {"group": "m", "few": False, "boosting": {"gap": 0.4, "low": 0.1, "high": 0.7}}, {"group": "g1", "few": True},
    ]  # fmt: skip
    figures = {
        "fairness_columns": [{"column": "sex", "groups": [{"group": "f", "excess": 0.2}, *many]}],
        "fairness_models": [{"column": "sex", "levels": (), "groups": models}],
        "relations": [{"relation": "kept", "kept": 0.99, "reference": 1.0},
                      {"relation": "lost", "kept": 0.4, "reference": 1.0}],
    }  # fmt: skip
    candidate = Candidate("t", (), figures=figures)
    weakest = weakest_of(candidate)
    assert [group.group for group in weakest.groups] == ["sex: f", "sex: m", "sex: g8", "sex: g7", "sex: g6"]
    assert [law["relation"] for law in weakest.relations] == ["lost"]
    (table,) = subgroups(candidate)
    assert [row["group"] for row in table["groups"]][:2] == ["m", "f"]
    assert weakest_of(Candidate("t", ())).columns == ()


# ---- Sweeps and vendors.


@pytest.mark.statistical
def test_the_interval_of_a_mean_holds_it_in_95_of_100_sweeps() -> None:
    """4,000 sweeps of three seeds: a share outside 0.95 ± 4 standard errors happens once in 15,000 times."""
    rng = np.random.default_rng(0)
    means = [mean_of(list(rng.normal(size=3))) for _ in range(4000)]
    share = sum(m.low <= 0 <= m.high for m in means) / len(means)  # type: ignore[operator]
    assert abs(share - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_curves_run_from_the_smallest_epsilon_to_none() -> None:
    mean = mean_of([0.5, 0.6, 0.7])
    assert mean.high is not None
    assert mean.high - mean.value == pytest.approx(4.302653 * 0.1 / math.sqrt(3)), "Student's"
    sweep = sweep_of(swept(generators=("mst", "tvae")))
    assert sweep is not None
    panel = sweep.panels[0]
    assert panel.measure == "utility.tstr.boosting"
    assert [curve.generator for curve in panel.curves] == ["mst", "tvae"]
    assert [epsilon for epsilon, _ in panel.curves[0].dots] == list(EPSILONS)
    assert all(len(mean.values) == 3 for _, mean in panel.curves[0].dots)
    assert (panel.reference, panel.floor) == (pytest.approx(0.9), pytest.approx(0.5))
    assert [(row.generator, row.epsilon) for row in sweep.rows][:2] == [("mst", 0.3), ("mst", 1.0)]
    assert sweep_of(evaluation_of()) is None


def test_every_seed_counts_in_whatever_order_a_file_has_the_points() -> None:
    evaluation = swept(generators=("mst", "tvae"))
    known = evaluation.provenance.sweep
    assert known is not None
    mixed = replace(known, points=tuple(sorted(known.points, key=lambda point: point.seed)))
    sweep = sweep_of(replace(evaluation, provenance=replace(evaluation.provenance, sweep=mixed)))
    assert sweep is not None
    assert all(len(mean.values) == 3 for curve in sweep.panels[0].curves for _, mean in curve.dots)


def test_the_point_for_release_is_shown_in_full_else_a_few_of_the_first_seed() -> None:
    sweep = swept(generators=("mst", "tvae"))
    assert [c.name for c in shown_in_full(sweep, "tvae-3.0-2")] == ["tvae-3.0-2"]
    few = [c.name for c in shown_in_full(sweep, None)]
    assert len(few) == 4
    assert all(name.endswith("-0") for name in few)
    assert (few[0], few[-1]) == ("mst-0.3-0", "tvae-None-0")


def test_the_files_of_a_sweep_hold_one_line_for_each_number_and_each_failure(tmp_path: Path) -> None:
    def lines(name: str) -> list[dict[str, str]]:
        with (tmp_path / name).open(newline="") as file:
            return list(csv.DictReader(file))

    write_sweep(swept(), tmp_path)
    points = lines("sweep.csv")
    assert len(points) == 15 * 4
    assert (points[0]["generator"], points[0]["epsilon"], points[0]["seed"]) == ("mst", "0.3", "0")
    assert float(points[0]["claimed_epsilon"]) == 0.3 * 0.999
    assert {line["failure"] for line in points} == {"", "timed out: it did not end"}
    assert {line["notice"] for line in points} == {"internal: reads real rows; not releasable"}
    assert {line["n_seeds"] for line in lines("sweep_summary.csv")} == {"3"}
    assert "NOT RELEASABLE" in (tmp_path / "NOT_RELEASABLE.txt").read_text()


def test_a_paid_sweep_says_which_guarantee_to_state(tmp_path: Path) -> None:
    write_sweep(swept(releasable=True), tmp_path)
    text = (tmp_path / "COMPOSED_STATEMENT.txt").read_text()
    assert "epsilon = 21.5 at delta = 1" in text
    assert "3 more, without epsilon: tables and models of these have no formal guarantee" in text
    assert not (tmp_path / "NOT_RELEASABLE.txt").exists()

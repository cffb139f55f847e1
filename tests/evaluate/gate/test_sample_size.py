"""What would decide a rule: which rows are counted, and whether this real table can have so many."""

import json
from dataclasses import replace

import pytest

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.fidelity import joint_samples
from evaluate.gate.finding import Finding
from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import deciding, judge, judge_candidate
from evaluate.metrics import CATALOG, COMPARED, GATEABLE, KEPT, TEST, THREE, UNJUDGED
from evaluate.result import Candidate, Estimate
from evaluate.tables import N_ROWS
from evaluate.utility import task
from reports import render_html
from reports.exports.junit import render_junit
from reports.exports.summary import to_summary
from tests.evaluations import evaluation_of, facts

REAL = facts(train_rows=4_265, holdout_rows=2_101)
NEVER = "This table cannot decide it"


def found(measure: str, n: int, n_needed: int | None) -> Finding:
    rule = Rule(measure=measure, limit=0.6 if measure.endswith("auc") else 0.1, why="because")
    estimate = Estimate(measure, 0.1, n, rule.direction, low=0.0, high=0.2)
    return Finding(rule, "INCONCLUSIVE", "The limit lies within the interval.", estimate, n_needed)


def test_it_is_known_of_every_number_with_an_interval_what_it_counts() -> None:
    without = {AUDITED, UNJUDGED, "statement.epsilon", "statement.delta"}
    assert {name for name in GATEABLE if CATALOG[name].counted is None} == without
    assert all(number.gateable or number.counted is None for number in CATALOG.values())


@pytest.mark.parametrize(
    ("measure", "n", "n_needed", "rows", "answer"),
    [
        ("columns.tvd.excess", 2_101, 4_000, "rows of the holdout", "The real table has 6,366 rows in all, so that"),
        ("columns.tvd.excess", 2_101, 6_366, "rows of the holdout", "the real table has 6,366 rows in all. An"),
        ("columns.tvd.excess", 500, 2_000, "rows of the holdout", "sampling more synthetic rows is enough"),
        ("columns.tvd.excess", 2_101, 60_000, "rows of the holdout", "the measure takes 50,000 of them at most"),
        ("utility.gap.boosting.without", 1_051, 3_000, "half of the holdout", "so that another split"),
        ("utility.gap.boosting.without", 1_051, 3_200, "half of the holdout", "6,366 rows in all. An"),
        ("joint.c2st.excess", 2_101, 5_100, "rows of each of three tables", "takes 5,000 of them at most"),
        ("joint.c2st.excess", 2_101, 3_200, "rows of each of three tables", "6,366 rows in all. An"),
        ("validity.rows", 4_265, 10**6, "synthetic rows.", "Sampling more of them is enough."),
        ("privacy.copies.excess", 4_265, 20_000, "synthetic rows, beside which the holdout", "An owner may waive it"),
        ("privacy.copies.excess", 4_265, 8_000, "synthetic rows, beside which the holdout", "another split"),
        ("privacy.multiset", 4_265, 8_000, "synthetic rows, beside which the training rows", "An owner may waive it"),
        ("privacy.membership.auc", 5_317, 6_000, "training rows and held-out rows", "another split"),
        ("privacy.membership.auc", 5_317, 160_000, "training rows and held-out rows", "A private fit with a small"),
        ("privacy.copies.people", 4_265, 4_500, "people who could be copied, beside whom", "6,366 rows in all. An"),
        ("privacy.copies.people", 2_000, 2_500, "people who could be copied, beside whom", "another split"),
        ("privacy.singling_out.multivariate", 5_745, 9_000, "attempts of the attack, not rows", ""),
        ("columns.tvd.released.mean", 3_000, 9_000, "a larger epsilon narrows it too", ""),
    ],
)  # fmt: skip
def test_the_rows_are_named_and_it_is_said_where_the_table_cannot_have_so_many(
    measure: str, n: int, n_needed: int, rows: str, answer: str
) -> None:
    said = deciding(found(measure, n, n_needed), REAL)
    assert "Counted are " in said
    assert said.endswith(".")
    assert rows in said
    assert answer in said
    assert said.startswith(NEVER) == ("in all. An" in answer or "at most" in answer or answer.startswith("A"))


@pytest.mark.parametrize(
    ("measure", "n", "n_needed", "larger"),
    [
        ("utility.gap.boosting.without", 500, 600, True),
        ("utility.queries.excess", 500, 600, True),
        ("privacy.personal", 500, 600, True),
        ("privacy.membership.auc", 500, 600, True),
        ("utility.gap.boosting.without", 500, 30_000, False),
        ("utility.gap.boosting.without", 500, 6_000, False),
    ],
)
def test_of_a_number_on_samples_larger_ones_are_the_remedy_where_the_table_has_the_rows(
    measure: str, n: int, n_needed: int, larger: bool
) -> None:
    whole = found(measure, n, n_needed)
    assert whole.estimate is not None and "sample_rows" not in deciding(whole, REAL)
    part = replace(whole, estimate=replace(whole.estimate, note="x; on seeded samples: 100 of 4,265 training rows"))
    assert ("a larger sample_rows draws more" in deciding(part, REAL)) == larger
    assert (NEVER in deciding(part, REAL)) != larger


def test_nothing_is_said_where_no_number_of_rows_is_named() -> None:
    assert deciding(found("columns.tvd.excess", 2_101, None), REAL) == ""
    assert deciding(replace(found("validity.rows", 9, 10), estimate=None), REAL) == ""


def test_what_measures_take_at_most_is_what_they_take() -> None:
    most = {COMPARED: N_ROWS, KEPT: N_ROWS, THREE: joint_samples.MAX_ROWS, TEST: task.MAX_ROWS}
    assert {counted: counted.most for counted in most} == most


def test_whoever_reads_the_verdict_alone_is_told_what_is_counted() -> None:
    table = Candidate("t", (Estimate("utility.gap.boosting.without", 0.19, 1_050, "lower", low=0.1, high=0.28),))
    rule = Rule(measure="utility.gap.boosting.without", limit=0.2, why="because")
    policy = Policy(name="p", version=1, audience="partners", rules=(rule,))
    evaluation = replace(evaluation_of(table, release="t"), real=REAL)
    (verdict,) = judge(evaluation, [policy])
    said = "and the measure takes 20,000 of them at most. An owner may waive it."
    for text in (json.dumps(verdict.to_dict()), render_junit([verdict]), to_summary(evaluation, [verdict])):
        assert "Counted are test rows, which are half of the holdout, " in text
        assert said in text
        assert "would decide" not in text
    assert deciding(verdict.findings[0], REAL) == ""
    assert render_html(evaluation, verdicts=[verdict]).split('id="policy"')[0].count(said) == 1


def test_it_stands_on_the_cover_among_the_reasons_and_beside_the_rule() -> None:
    table = Candidate("t", (Estimate("utility.gap.boosting.without", 0.19, 1_050, "lower", low=0.1, high=0.28),))
    rule = Rule(measure="utility.gap.boosting.without", limit=0.2, why="because")
    verdict = judge_candidate(table, Policy(name="p", version=1, audience="partners", rules=(rule,)))
    page = render_html(replace(evaluation_of(table), real=REAL), verdicts=[verdict])
    cover, rest = page.split('id="policy"')
    for part in (cover, *rest.split('id="guarantee"')[0].split('id="weakest"')):
        assert "Counted are test rows, which are half of the holdout, " in part

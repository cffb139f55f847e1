"""What each page says, word for word, in every standing of a guarantee and of a verdict."""

from collections.abc import Callable
from dataclasses import astuple, replace
from datetime import date

from evaluate.audit_result import Audit, AuditCheck, AuditPart
from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.policy_checks import Check
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import Candidate, Estimate, Evaluation, Failure, SelfTest
from reports import render_html
from reports.exports import to_summary
from reports.guarantee import audit_note
from reports.model_card.card import internal_card, public_card
from reports.model_card.render import to_markdown
from tests.evaluations import altered, conclude, evaluation_of
from tests.reports.samples import FACTS, LEDGER, compared, swept
from tests.reports.snapshots import check_snapshot, words_of

Verdicts = Callable[..., tuple[Verdict, ...]]


def cover(page: str) -> str:
    """The first screen."""
    return words_of(page.split("<main>")[1].split('id="weakest"')[0])


def section(page: str, name: str) -> str:
    return words_of(page.split(f'id="{name}"')[1].split("</section>")[0])


def with_first(evaluation: Evaluation, **changes: object) -> Evaluation:
    first, *others = evaluation.candidates
    return replace(evaluation, candidates=(replace(first, **changes), *others))  # type: ignore[arg-type]


def test_the_report_of_three_tables(audited: Evaluation, verdicts_of: Verdicts) -> None:
    """In a ledger, with a relation that is lost, and with warnings."""
    noted = altered(audited.candidates[0].statement, {"ledger": LEDGER})
    lost = [{"relation": "`discharged` = admitted + stay in days", "kept": 0.61, "reference": 1.0, "floor": 0.01}]
    figures = {**audited.candidates[0].figures, "relations": lost}
    sample = with_first(audited, statement=noted, figures=figures)
    warned = ["no formal guarantee for a: <b>", "n_units=900 is few for a private fit"]
    sample = replace(sample, provenance=altered(sample.provenance, {"warnings": warned}))
    page = render_html(sample, verdicts=verdicts_of(sample), title="A census", release="mst")
    check_snapshot("report.txt", words_of(page.split("<main>")[1]))


def test_the_first_screen_in_every_standing_of_a_guarantee(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    stated = evaluation.candidates[0].statement
    against = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    columns = [{"column": "a<b>\u202e", "statistic": "V", "value": 0.25, "p_value": 1e-9}]
    shift = {"n_train": 900, "n_holdout": 900, "auc": 0.7, "low": 0.6, "high": 0.8, "p_value": 1e-9, "columns": columns}
    several = {
        "void": with_first(evaluation, statement=altered(stated, {"private": False})),
        "disputed": with_first(evaluation, audit=against),
        "unverified": replace(evaluation, provenance=altered(evaluation.provenance, {"split": None})),
        "another population": replace(evaluation, real=altered(evaluation.real, {"shift": shift})),
    }
    lines = []
    for name, changed in several.items():
        alone = replace(changed, candidates=changed.candidates[:1])
        lines.append(f"== {name}\n{cover(render_html(alone, verdicts=verdicts_of(alone)))}")
    lines.append(f"== not judged, and another table named\n{cover(render_html(evaluation, release='aim'))}")
    check_snapshot("standings.txt", "\n".join(lines))


def test_waivers_warnings_and_self_tests() -> None:
    """A table that breaks one rule, with a waiver until a day; it is judged on the first of June."""
    table = Candidate("t", (Estimate("validity.rows", 0.5, 9, "higher", low=0.4, high=0.55),))
    lines = []
    for until, severity in ((date(2026, 12, 31), "fail"), (date(2026, 5, 31), "fail"), (date(2026, 5, 31), "warn")):
        rule = Rule(measure="validity.rows", limit=0.6, why="because", severity=severity)  # type: ignore[arg-type]
        policy = Policy(name="p", version=2, audience="partners", rules=(rule,))
        waiver = Waiver(
            policy="p", version=2, candidate="t", measure="validity.rows", owner="Ada", reason="a <b>pilot</b>",
            until=until,
        )  # fmt: skip
        verdict = judge_candidate(table, policy, waivers=[waiver], today=date(2026, 6, 1))
        checks = (Check("honest", "came out", "Fine."), Check("copy", "did not come out", "A copy passed."))
        verdict = replace(verdict, checks=checks)
        page = render_html(evaluation_of(table), verdicts=[verdict])
        lines += [f"== {until}, {severity}", words_of(page.split('id="verdict"')[1].split('id="guarantee"')[0])]
        lines += [words_of(page.split('id="self-tests"')[1].split('id="provenance"')[0])]
        lines += [to_summary(evaluation_of(table), [verdict])]
    silent = evaluation_of(self_tests=(SelfTest("shuffled", None, "It has one column."),))
    lines += [words_of(render_html(silent).split('id="self-tests"')[1].split('id="provenance"')[0])]
    check_snapshot("waivers.txt", "\n".join(lines))


def test_a_sweep_and_a_comparison(verdicts_of: Verdicts) -> None:
    paid, unpaid = swept(releasable=True), swept(n_seeds=1)
    vendors = compared()
    pages = [render_html(paid), render_html(unpaid), render_html(vendors, verdicts=verdicts_of(vendors))]
    check_snapshot("sweep_and_ranking.txt", "\n".join(map(cover, pages)))


def test_cards_and_summary(audited: Evaluation, verdicts_of: Verdicts) -> None:
    noted = with_first(audited, statement=altered(audited.candidates[0].statement, {"ledger": LEDGER}))
    verdicts = verdicts_of(noted)
    texts = [
        to_markdown(internal_card(noted, "mst", FACTS, verdicts)),
        to_markdown(public_card(noted, "mst", FACTS)),
        to_markdown(public_card(noted, "sdv.tvae", FACTS)),
        to_summary(noted, verdicts, title="Patients", release="mst"),
        to_summary(noted, ()),
    ]
    check_snapshot("cards_and_summary.md", "\n---- \n".join(texts))


def test_sections_that_few_tables_have(evaluation: Evaluation) -> None:
    """Constraints, relations, groups of people, words beside a column, and a table of which nothing was measured."""
    shares = {"labels": ["1", "other", "missing"], "edges": [0.0, 1.0], "train": [1, 0, 0], "synthetic": [1, 0, 0]}
    about = {"tail": 0.02, "mean": -0.31, "std": 2.5, "spikes": 0.4, "steps": 0.5, "lattice": "multiples of 10"}
    column = {"column": "x", "kind": "real", "tvd": 0.0, **shares, "descriptives": {**about, "off": ["tail", "std"]}}
    validity = {
        "constraints": [
            {"rule": "'a' is at most 'b'", "n": 1000, "n_broken": 234, "n_unreadable": 3, "reference": 1, "floor": 0.4,
             "shapes": [{"shape": "'a' is above 'b' by about 40% of the range of both", "n": 200}]},
        ],
        "columns": [{"column": "a", "n": 1000, "n_broken": 3, "note": "3 of 1,000 rows break a rule."}],
    }  # fmt: skip
    relation = {"kept": 0.046, "reference": 1.0, "floor": 0.001, "real": "0 to 22 days", "synthetic": "0 to 660 days"}
    columns = [
        {"group": "men", "real": 0.6, "synthetic": 0.7, "few": False, "excess": 0.01},
        {"group": "rare", "real": 0.01, "synthetic": 0.0, "few": True},
    ]
    models = [
        {"group": "men", "n": 200, "few": False, "boosting": {"gap": 0.07, "low": 0.0, "high": 0.1}},
        {"group": "rare", "n": 3, "few": True},
    ]
    levels = [{"model": "boosting", "parity_tstr": 0.3, "parity_trtr": 0.2}]
    figures = {
        "validity": validity, "relations": [{"relation": "`left` = came + nights in days", **relation}],
        "columns": [column], "fairness_columns": [{"column": "sex", "groups": columns}],
        "fairness_models": [{"column": "sex", "groups": models, "levels": levels}],
    }  # fmt: skip
    estimates = (
        Estimate("utility.tstr.linear", 0.8, 100, "higher", low=0.7, high=0.9, reference=0.85, floor=0.5),
        Estimate("utility.queries.excess", 0.1234, 100, "lower", low=0.1, high=0.15, reference=0.0, floor=0.3),
        Estimate("fairness.gap.boosting", 0.05, 100, "lower", subject=("race",), low=0.0, high=0.1),
        Estimate("fairness.gap.boosting", 0.07, 100, "lower", subject=("sex",), low=0.0, high=0.1),
    )
    failures = (Failure("utility.queries", "skipped", "why."), Failure("utility.queries.excess", "skipped", "why."))
    page = render_html(evaluation_of(Candidate("a", estimates, failures, figures)))
    bare = Candidate("bare", (), (Failure("columns.tvd.excess", "timed out", "the time limit was reached"),))
    lines = [section(page, name) for name in ("rules", "columns", "pairs", "utility", "weakest")]
    lines += [words_of(render_html(evaluation_of(bare)).split("<main>")[1])]
    check_snapshot("sections.txt", "\n".join(lines))


STEPS, COUNTS = (
    AuditPart(
        what=what, bound=bound, distribution_free=free, strongest=strongest, n_trials=n, false_positives=wrong_in,
        false_negatives=wrong_out, ran_on=ran_on,
    )
    for what, bound, free, strongest, n, wrong_in, wrong_out, ran_on in (
        ("steps of DP-SGD", 0.62, 0.2, 30.0, 20_000, (0.46, 0.45, 0.47), (0.45, 0.44, 0.46), "1,000 steps"),
        ("one-way histograms", 0.1, 0.0, 36.0, 5_120, (0.49, 0.47, 0.51), (0.5, 0.48, 0.52), "160 fits"),
    )
)  # fmt: skip
WITHIN = conclude((1.0, 1e-6), (430, 440), 960, 0.99, ran_on="a public stand-in")
CHECKS = (
    AuditCheck("choices of column pairs", "250 choices", power=1.0),
    AuditCheck("split into train and holdout", "6 tables", "any row that changes sides"),
)
CHECKED = replace(WITHIN, checks=CHECKS, not_covered=("bounds of column 'age'", "columns of text"))
FAULTY = replace(CHECKED, bound=9.0, checks=(CHECKS[0], replace(CHECKS[1], fault="<i>rows move", bound=9.0)))
REPORTS = replace(
    WITHIN, delta=0.0, attacked="reports", ran_on="a public stand-in of 9 respondents",
    checks=(AuditCheck("reports to each question", "15 questions", power=0.95),),
)  # fmt: skip
AUDITS: dict[str, Audit] = {
    "within": WITHIN,
    "beyond": conclude((1.0, 1e-6), (100, 110), 960, 0.99, ran_on="a public stand-in"),
    "checked": CHECKED,
    "a fault": FAULTY,
    "in parts": Audit.of_parts((1.0, 1e-6), (STEPS, COUNTS), 0.99),
    "parts beyond": Audit.of_parts((0.5, 1e-6), (STEPS, COUNTS), 0.99),
    "of reports": REPORTS,
    "of reports, beyond": replace(REPORTS, bound=2.0),
    "of reports, weak": replace(REPORTS, checks=()),
}


def test_audits_of_every_outcome(evaluation: Evaluation) -> None:
    lines = []
    for name, audit in AUDITS.items():
        note = audit_note(replace(evaluation.candidates[0], audit=audit))
        assert note is not None
        assert note.alarms is (audit.verdict == "exceeds the claim")
        lines += [f"== {name}: {audit.verdict}", *map(str, astuple(note))]
    tried = with_first(evaluation, failures=(Failure("privacy.audit.excess", "failed", "there was nothing to audit"),))
    for name, audited in (("a fault", with_first(evaluation, audit=FAULTY)), ("failed", tried), ("none", evaluation)):
        page = render_html(replace(audited, candidates=audited.candidates[:1]))
        lines += [f"== {name}: first screen", cover(page), section(page, "guarantee"), section(page, "limits")]
    check_snapshot("audits.txt", "\n".join(lines))

"""What each page says, word for word, in every standing of a guarantee and of a verdict."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from evaluate.gate.checks import Check
from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import Candidate, Estimate, Evaluation, SelfTest
from reports import render_html
from reports.exports.summary import to_summary
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.render import to_markdown
from tests.evaluations import altered, conclude, evaluation_of
from tests.reports.snapshots import check_snapshot, words_of
from tests.reports.test_ranking import compared
from tests.reports.test_sweep import swept

Verdicts = Callable[..., tuple[Verdict, ...]]
FACTS = CardFacts(date(2026, 1, 2), file="mst.csv", n_rows=39074, n_columns=15, holdout_share=0.2)
LEDGER = {
    "dataset": "adult", "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.29934,
    "spent_epsilon": 2.10012, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


def cover(page: str) -> str:
    """The first screen."""
    return words_of(page.split("<main>")[1].split('id="weakest"')[0])


def with_first(evaluation: Evaluation, **changes: object) -> Evaluation:
    first, *others = evaluation.candidates
    return replace(evaluation, candidates=(replace(first, **changes), *others))  # type: ignore[arg-type]


def test_the_report_of_three_tables(audited: Evaluation, verdicts_of: Verdicts) -> None:
    """In a ledger, with a relation that is lost, and with warnings."""
    noted = altered(audited.candidates[0].statement, {"ledger": LEDGER})
    lost = [{"relation": "`discharged` = admitted + stay in days", "kept": 0.61, "reference": 1.0, "floor": 0.01}]
    figures = {**audited.candidates[0].figures, "relations": lost}
    shown = with_first(audited, statement=noted, figures=figures)
    warned = ["no formal guarantee for a: <b>", "n_units=900 is few for a private fit"]
    shown = replace(shown, provenance=altered(shown.provenance, {"warnings": warned}))
    page = render_html(shown, verdicts=verdicts_of(shown), title="A census", release="mst")
    check_snapshot("report.txt", words_of(page.split("<main>")[1]))


def test_the_first_screen_in_every_standing_of_a_guarantee(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    stated = evaluation.candidates[0].statement
    against = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    several = {
        "void": with_first(evaluation, statement=altered(stated, {"private": False})),
        "disputed": with_first(evaluation, audit=against),
        "unverified": replace(evaluation, provenance=altered(evaluation.provenance, {"split": None})),
    }
    said = []
    for name, changed in several.items():
        one = replace(changed, candidates=changed.candidates[:1])
        said.append(f"== {name}\n{cover(render_html(one, verdicts=verdicts_of(one)))}")
    said.append(f"== not judged\n{cover(render_html(evaluation))}")
    check_snapshot("standings.txt", "\n".join(said))


def test_waivers_warnings_and_self_tests() -> None:
    """A table that breaks one rule, with a waiver until a day; it is judged on the first of June."""
    table = Candidate("t", (Estimate("validity.rows", 0.5, 9, "higher", low=0.4, high=0.55),))
    said = []
    for until, severity in ((date(2026, 12, 31), "fail"), (date(2026, 5, 31), "fail"), (date(2026, 5, 31), "warn")):
        rule = Rule(measure="validity.rows", limit=0.6, why="because", severity=severity)  # type: ignore[arg-type]
        policy = Policy(name="p", version=2, audience="partners", rules=(rule,))
        waiver = Waiver(
            policy="p", version=2, candidate="t", measure="validity.rows", owner="Ada", reason="a <b>pilot</b>",
            until=until,
        )  # fmt: skip
        verdict = judge_candidate(table, policy, waivers=[waiver], today=date(2026, 6, 1))
        checks = (Check("honest", "came out", "Fine."), Check("copy", "did not come out", "A copy passed."))
        page = render_html(evaluation_of(table), verdicts=[replace(verdict, checks=checks)])
        said += [f"== {until}, {severity}", words_of(page.split('id="verdict"')[1].split('id="guarantee"')[0])]
        said += [words_of(page.split('id="self-tests"')[1].split('id="provenance"')[0])]
    silent = evaluation_of(self_tests=(SelfTest("shuffled", None, "It has one column."),))
    said += [words_of(render_html(silent).split('id="self-tests"')[1].split('id="provenance"')[0])]
    check_snapshot("waivers.txt", "\n".join(said))


def test_a_sweep_and_a_comparison(verdicts_of: Verdicts) -> None:
    paid, unpaid = swept(releasable=True), swept(n_seeds=1)
    found = compared()
    pages = [render_html(paid), render_html(unpaid), render_html(found, verdicts=verdicts_of(found))]
    check_snapshot("sweep_and_ranking.txt", "\n".join(map(cover, pages)))


def test_cards_and_summary(audited: Evaluation, verdicts_of: Verdicts) -> None:
    noted = with_first(audited, statement=altered(audited.candidates[0].statement, {"ledger": LEDGER}))
    verdicts = verdicts_of(noted)
    said = [
        to_markdown(internal_card(noted, "mst", FACTS, verdicts)),
        to_markdown(public_card(noted, "mst", FACTS)),
        to_markdown(public_card(noted, "sdv.tvae", FACTS)),
        to_summary(noted, verdicts, title="Patients", release="mst"),
        to_summary(noted, ()),
    ]
    check_snapshot("cards_and_summary.md", "\n---- \n".join(said))

"""The summary on one screen: verdicts first, every rule with its limit, nobody's markup."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evaluate.gate.policy import Waiver
from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from reports.exports.summary import to_summary
from reports.markdown import name, text
from tests.evaluations import altered, swept
from tests.reports.test_model_card import HOSTILE

Verdicts = Callable[..., tuple[Verdict, ...]]
DETAILS = ("<details>", "<details open>", "</details>", "<summary>")


def rendered(markdown: str) -> list[Any]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)


def test_the_verdict_on_the_table_for_release_comes_first(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    found = to_summary(evaluation, verdicts_of(evaluation), title="Patients", release="sdv.tvae")
    lines = found.splitlines()
    assert lines[:2] == ["# Patients", ""] and lines[2].startswith("**Internal.**")
    first = next(line for line in lines if line.startswith("| ") and "verdict" not in line and "---" not in line)
    assert "INCONCLUSIVE: for people inside the organization" in first
    assert "`sdv.tvae` (named for release)" in first
    assert "**no formal guarantee**" in first
    assert found.count("<details open>") == 1


def test_every_rule_stands_with_limit_estimate_interval_and_verdict(
    evaluation: Evaluation, verdicts_of: Verdicts
) -> None:
    (verdict, *_) = verdicts_of(evaluation)
    found = to_summary(evaluation, [verdict], release="mst")
    rows = [line for line in found.splitlines() if re.search(r"\| [\u2264\u2265] ", line)]
    assert len(rows) == len(verdict.findings)
    assert "| Membership attack, AUC | \u2264 0.6 | 0.503 | 0.492 to 0.514 | \u2705 PASS |  |" in rows
    outcomes = [re.search(r"(FAIL|INCONCLUSIVE|PASS)( \(warning\))? \|", row).group(1) for row in rows]  # type: ignore[union-attr]
    assert outcomes == sorted(outcomes, key=("FAIL", "INCONCLUSIVE", "PASS").index)


def test_a_void_statement_is_void_here_too(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    first, *others = evaluation.candidates
    void = replace(first, statement=altered(first.statement, {"private": False}))
    found = to_summary(replace(evaluation, candidates=(void, *others)), verdicts_of(evaluation)[:1])
    assert "**VOID**" in found
    assert "**VOID: the noise was not drawn from a secure source." in found


def test_of_a_sweep_the_price_of_all_fits_is_told(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    known = {"releasable": True, "composed": {"epsilon": 4.2, "delta": 2e-6, "n_fits": 3}}
    points = swept(known, *(one.name for one in evaluation.candidates))
    of_sweep = replace(evaluation, provenance=altered(evaluation.provenance, {"sweep": points}))
    told = "epsilon 4.2, delta 2e\u22126, for all private fits of the sweep that the table is from, 3 in number; "
    assert f"{told}this fit alone 0.999 |" in to_summary(of_sweep, verdicts_of(evaluation))


def test_of_numbers_that_are_published_too_the_price_of_both_is_told(
    evaluation: Evaluation, verdicts_of: Verdicts
) -> None:
    composed = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 2}
    units = {"n_units": evaluation.schema.n_units}
    numbers = {"together": {"epsilon": 1.5, **units}, "statement": {"epsilon": 0.3, **units}}
    known = {"released_numbers": numbers, "composed": composed}
    found = replace(evaluation, provenance=altered(evaluation.provenance, known))
    summary = to_summary(found, verdicts_of(evaluation))
    assert summary.count("numbers published about it; this fit alone 0.999 |") == 1
    assert "| epsilon 1.5, delta 1e\u22126, for the table and the numbers published about it; this fit" in summary


def test_waivers_are_told_with_who_why_and_until_when(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    (verdict, *_) = verdicts_of(evaluation)
    rule = verdict.findings[0].rule
    waiver = Waiver(
        policy="internal", version=1, candidate="mst", measure=rule.measure, owner="A. Officer", reason="Known.",
        until=date(2026, 5, 1),
    )  # fmt: skip
    for waived, word in ((True, "until"), (False, "EXPIRED on")):
        findings = (replace(verdict.findings[0], waiver=waiver, waived=waived), *verdict.findings[1:])
        found = to_summary(evaluation, [replace(verdict, findings=findings)])
        assert f"A. Officer, {word} 2026-05-01: Known." in found


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_stay_text(evaluation: Evaluation, verdicts_of: Verdicts, hostile: str) -> None:
    first, *others = evaluation.candidates
    damaged = replace(evaluation, candidates=(replace(first, name=hostile), *others))
    (verdict, *rest) = verdicts_of(damaged)
    odd = tuple(
        replace(f, reason=hostile, rule=f.rule.model_copy(update={"subject": (hostile,)})) for f in verdict.findings
    )  # fmt: skip
    verdicts = (replace(verdict, policy=hostile, audience=hostile, findings=odd), *rest)
    found = to_summary(damaged, verdicts, title=hostile, release=hostile, report="../r.html")
    found.encode("utf-8")
    tokens = rendered(found)
    inside = [child for token in tokens for child in token.children or []]
    links = [token.attrs["href"] for token in inside if token.type == "link_open"]
    assert links == ["../r.html"]
    tags = [token.content.strip() for token in (*tokens, *inside) if token.type in ("html_block", "html_inline")]
    assert all(re.sub(r"Rules: [\w, ]*</summary>", "", tag).split("\n")[0] in DETAILS for tag in tags)
    assert not [token for token in (*tokens, *inside) if token.type in ("image", "em_open", "s_open", "hr", "fence")]
    assert sum(token.type == "heading_open" for token in tokens) in (3, 4)
    assert sum(token.type == "table_open" for token in tokens) == 4


def test_text_is_one_line_and_a_table_keeps_its_columns() -> None:
    assert text("a\n\n# b\r\n- c") == "a # b - c"
    assert text("x" * 9000) == f"{'x' * 3999}\u2026"
    assert name("") == "(no name)"


def test_the_ledger_is_as_it_stands_after_all_fits_of_the_run(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    note = {"dataset": "patients", "unit": "row", "reservation": "r", "entry": "e", "epsilon": 1.1, "total_delta": 1e-5}
    first, *others = evaluation.candidates
    stated = altered(first.statement, {"ledger": {**note, "spent_epsilon": 1.0, "total_epsilon": 3.0}})
    after = {"dataset": "patients", "unit": "row", "spent_epsilon": 2.5, "total_epsilon": 3.0, "total_delta": 1e-5}
    booked = replace(
        evaluation, candidates=(replace(first, statement=stated), *others),
        provenance=altered(evaluation.provenance, {"ledger": after}),
    )  # fmt: skip
    left = "Ledger of `patients`: epsilon 0.5 of 3 is left after all that this run drew."
    assert left in to_summary(booked, verdicts_of(evaluation)[:1])

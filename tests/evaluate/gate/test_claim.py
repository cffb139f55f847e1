"""What a table is judged and quoted by: a table of truth, and that no claim is ever made smaller."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from evaluate.audit_result import Audit
from evaluate.gate.claim import Claims, claims_of
from evaluate.gate.decision import Finding
from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.result import Candidate, Estimate
from reports.model_card.card import CardFacts, public_card
from reports.model_card.render import card_content
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from tests.evaluations import ABSENT, SCHEMA, evaluation_of, schema_of, stated

OWN = stated()
SWEEP = {"releasable": True, "composed": {"epsilon": 4.0, "delta": 1e-6, "n_fits": 3}}
WIDER = stated(epsilon=4.5, delta=2e-6)
RUN = {"epsilon": 1.5, "delta": 2e-6, "n_fits": 2}
PUBLISHED = {
    "table": "m", "together": stated(epsilon=1.1), "n_fits": 1, "statement": stated(epsilon=0.3),
}  # fmt: skip
THREE = {"epsilon": 1.6, "delta": 2e-6, "n_fits": 3}


def claims(
    provenance: dict[str, Any], *others: PrivacyStatement | None, own: PrivacyStatement | None = OWN, name: str = "m"
) -> Claims | None:
    tables = [Candidate(f"other{i}", (), statement=each) for i, each in enumerate(others)]
    first = Candidate("m", (), statement=own)
    evaluation = evaluation_of(first, *tables, **provenance)
    chosen = next(each for each in evaluation.candidates if each.name == name)
    return claims_of(evaluation, chosen)


def known(result: Claims | None) -> Claims:
    assert result is not None
    return result


CASES = [
    # Of one fit: its own claim, named for release or not.
    ("one fit, named", {"release": "m", "composed": None}, (), ("fit", 1.0), None),
    ("one fit beside tables without a promise", {"release": None, "composed": None}, (None, None), ("fit", 1.0), None),
    # Of several: the one that was named before anything was drawn was not picked.
    ("two fits, this one named", {"release": "m", "composed": RUN}, (OWN,), ("fit", 1.0), ("run", 1.5)),
    ("two fits, the other named", {"release": "other0", "composed": RUN}, (OWN,), ("run", 1.5), None),
    # With published numbers.
    ("numbers about it", {"release": "m", "composed": {**RUN, "epsilon": 1.1}, "released_numbers": PUBLISHED}, (),
     ("published", 1.1), None),
    ("numbers about it, and another fit", {"release": "m", "composed": THREE, "released_numbers": PUBLISHED}, (OWN,),
     ("published", 1.1), ("run", 1.6)),
    ("numbers about another", {"release": "other0", "composed": THREE,
     "released_numbers": {**PUBLISHED, "table": "other0"}}, (OWN,), ("run", 1.6), None),
    # Of a sweep, all of it, named or not.
    ("a sweep, named", {"release": "m", "sweep": SWEEP, "composed": SWEEP["composed"]}, (OWN, OWN),
     ("sweep", 4.0), None),
    ("a sweep with numbers", {"release": "m", "sweep": SWEEP, "composed": {"epsilon": 4.5, "delta": 2e-6, "n_fits": 4},
     "released_numbers": {**PUBLISHED, "together": WIDER, "n_fits": 3}}, (OWN, OWN), ("published", 4.5), None),
    ("a sweep with numbers about another", {"release": "other0", "sweep": SWEEP,
     "composed": {"epsilon": 4.5, "delta": 2e-6, "n_fits": 4},
     "released_numbers": {**PUBLISHED, "table": "other0", "together": WIDER, "n_fits": 3}}, (OWN, OWN),
     ("run", 4.5), None),
    ("a sweep whose run is not composed", {"release": None, "sweep": SWEEP}, (OWN, OWN), ("sweep", 4.0), None),
    # From elsewhere, where nobody composed them: they add up.
    ("offered together", {"release": None}, (OWN, None), ("sum", 2.0), None),
    ("not composed, named", {"release": "m"}, (OWN,), ("fit", 1.0), ("sum", 2.0)),
    ("not composed, with numbers", {"release": None, "released_numbers": {**PUBLISHED, "every": None}}, (OWN,),
     ("sum", 2.3), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("provenance", "others", "counted", "drawn"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_table_counts_with_all_that_was_drawn_to_choose_it_from_or_leaves_with_it(provenance, others, counted, drawn):
    result = known(claims(provenance, *others))
    assert (result.alone.scope, result.alone.epsilon) == ("fit", 1.0)
    assert (result.counted.scope, result.counted.epsilon) == (counted[0], pytest.approx(counted[1]))
    assert (result.drawn is None) == (drawn is None)
    if drawn is not None and result.drawn is not None:
        assert (result.drawn.scope, result.drawn.epsilon) == drawn
        assert ("stays inside" in result.price_of_choice) == (drawn[0] == "run")
    assert bool(result.reading) == (counted[0] != "fit")
    assert result.counted in result.all
    epsilons = [each.epsilon for each in result.all]
    assert epsilons == sorted(epsilons)


def test_what_was_picked_from_a_fit_without_secure_noise_is_not_private() -> None:
    void = stated(private=False)
    assert not known(claims({"composed": RUN}, void)).counted.private
    assert known(claims({"composed": RUN, "release": "m"}, void)).counted.private
    published = {**PUBLISHED, "together": stated(epsilon=1.1, private=False)}
    assert not known(claims({"released_numbers": published, "release": "m"})).counted.private
    assert not known(claims({}, own=void)).counted.private


EXCEEDING = Audit(
    epsilon=1.0, delta=1e-6, bound=1.4, distribution_free=0.9, strongest=36.0, confidence=0.99, n_trials=900,
    false_positives=(0.3, 0.2, 0.4), false_negatives=(0.3, 0.2, 0.4), ran_on="a public stand-in of 5 columns",
)  # fmt: skip


@pytest.mark.parametrize(
    ("audit", "doubted"),
    [(EXCEEDING, 1), (replace(EXCEEDING, bound=0.9), 0), (replace(EXCEEDING, ran_on="real rows"), 0)],
)
def test_what_counts_a_fit_that_an_audit_disproves_says_so(audit: Audit, doubted: int) -> None:
    tables = (Candidate("m", (), statement=OWN), Candidate("bad", (), statement=OWN, audit=audit))
    picked, named = (
        known(claims_of(each, tables[0]))
        for each in (
            evaluation_of(*tables, release=None, composed=RUN),
            evaluation_of(*tables, release="m", composed=RUN),
        )
    )
    assert (picked.alone.disputed, picked.counted.disputed) == (0, doubted)
    assert ("DISPUTED: an audit disproves what one of these releases claims" in picked.reading) == bool(doubted)
    # The one that was named counts without the other; the price of having chosen does not.
    assert named.counted.disputed == 0
    assert ("DISPUTED" in named.price_of_choice) == bool(doubted)
    bad = known(claims_of(evaluation_of(tables[1]), tables[1]))
    assert bad.counted.disputed == doubted


RULES = {"name": "house", "version": 1, "audience": "us"}
QUOTED: list[tuple[dict[str, Any], dict[str, tuple[str, float]]]] = [
    ({"release": "a", "composed": RUN}, {"a": ("PASS", 1.0), "b": ("FAIL", 1.5)}),
    ({"release": None, "composed": RUN}, {"a": ("FAIL", 1.5), "b": ("FAIL", 1.5)}),
    ({"release": "a", "composed": THREE, "released_numbers": {**PUBLISHED, "table": "a", "every": THREE}},
     {"a": ("PASS", 1.1), "b": ("FAIL", 1.6)}),
    ({"release": None}, {"a": ("FAIL", 2.0), "b": ("FAIL", 2.0)}),
]  # fmt: skip


@pytest.mark.parametrize(("provenance", "expected"), QUOTED)
def test_a_rule_judges_the_claim_that_the_card_of_the_table_quotes(provenance, expected):
    policy = build_policy({**RULES, "rules": [{"measure": "statement.epsilon", "limit": 1.2, "why": "w"}]})
    tables = (Candidate(name, (), statement=OWN) for name in expected)
    evaluation = evaluation_of(*tables, self_tests=ABSENT, split="keyed hash, seed 1", **provenance)
    verdicts = judge(evaluation, [policy])
    result = {v.candidate: (v.verdict, v.findings[0].estimate.value) for v in verdicts if v.findings[0].estimate}
    assert result == expected
    for name, (_, epsilon) in expected.items():
        card = public_card(evaluation, name, CardFacts(date(2026, 1, 2)))
        assert card_content(card)["privacy"]["epsilon"] == epsilon


FIT = Schedule((GaussianEvent("counts", 12.0, count=9),), 1e-6)
STATED = Budget(FIT).statement(SCHEMA)
BY_EVENTS, BY_CLAIM = FIT.trade_off.area, FIT.trade_off.of_claim(FIT.epsilon, FIT.delta).area


def attacked(limit: float, statement: PrivacyStatement, entity: str | None = None, **provenance: Any) -> Finding:
    """A rule on a membership attack that found nothing certain, on a table that says what it promises."""
    unsure = Estimate("privacy.membership.auc", 0.5, 100, "lower", low=0.1, high=0.99)
    known = {"split": "keyed hash, seed 1", "release": "a", **provenance}
    built = evaluation_of(Candidate("a", (unsure,), statement=statement), self_tests=ABSENT, **known)
    built = replace(built, schema=schema_of(entity=entity, n_units=900))
    policy = build_policy({**RULES, "rules": [{"measure": unsure.measure, "limit": limit, "why": "w"}]})
    return judge(built, [policy])[0].findings[0]


def test_a_guarantee_proves_only_for_those_whom_it_covers() -> None:
    assert attacked(0.98, STATED, "patient").outcome == "INCONCLUSIVE"  # it is of each row of a patient
    for entity in (None, "patient"):
        result = attacked(0.98, replace(STATED, unit="patient"), entity)
        assert (result.outcome, result.proven) == ("PASS", BY_EVENTS)


def test_of_books_that_do_not_come_to_the_claim_the_claim_alone_counts() -> None:
    for limit, outcome in ((BY_EVENTS + 0.01, "INCONCLUSIVE"), (BY_CLAIM + 1e-6, "PASS")):
        short = (replace(STATED.events[0], count=1),)
        assert attacked(limit, replace(STATED, events=short)).outcome == outcome
    composed = {"epsilon": 2 * FIT.epsilon, "delta": FIT.delta, "n_fits": 2}
    assert attacked(BY_CLAIM, STATED, release=None, composed=composed).outcome == "INCONCLUSIVE"

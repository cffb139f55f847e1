"""The verdict to hand on: of the rules that rest on public or released numbers, and of no other.

A policy has rules that only real rows can answer. Their answers stay inside, whatever they are; here they are counted
as not shown, so that no word of this verdict speaks for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import Finding, Outcome
from evaluate.gate.policy import STATEMENT, Rule, bind_on_privacy
from evaluate.gate.verdict import judge_candidate
from evaluate.provenance import MEASURES
from evaluate.result import Candidate
from reports.public.facts import PublicFacts

_WORDS: Mapping[Outcome, tuple[str, str]] = {
    "PASS": ("hold", "holds"), "FAIL": ("fail", "fails"), "INCONCLUSIVE": ("are open", "is open"),
}  # fmt: skip


@dataclass(frozen=True)
class PublicVerdict:
    outcome: Outcome | None
    findings: tuple[Finding, ...]
    hidden: tuple[Rule, ...]

    @property
    def n_binding_hidden(self) -> int:
        """Binding rules that cannot be shown."""
        return sum(rule.severity == "fail" for rule in self.hidden)

    @property
    def binding(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.binding)

    @property
    def held(self) -> str:
        """The numbers of binding rules that are shown and that hold, as a sentence without its full stop."""
        n = len(self.binding)
        every = f"{n} of {n + self.n_binding_hidden} binding rules can be shown here"
        if n == 0:
            return f"None of {self.n_binding_hidden} binding rules can be shown here"
        outcomes = [finding.outcome for finding in self.binding]
        if outcomes.count("PASS") == n:
            return f"{every}; {'it holds' if n == 1 else 'both hold' if n == 2 else 'all of these hold'}"
        counts = [(outcomes.count(outcome), words) for outcome, words in _WORDS.items()]
        return f"{every}; {', '.join(f'{count} {words[count == 1]}' for count, words in counts if count)}"


def public_verdict(facts: PublicFacts) -> PublicVerdict:
    """The verdict on what is public; the claim is that of everything that is published together."""
    candidate = _public_candidate(facts)
    known = {(e.measure, e.subject) for e in candidate.estimates}
    shown = [rule for rule in facts.policy.rules if _is_public(rule, known)]
    hidden = [rule for rule in facts.policy.rules if not _is_public(rule, known)]
    if facts.schema is not None:  # a number that needs an order, or free text, is not missed where there is none
        hidden = [rule for rule in hidden if not rule.need or getattr(facts.schema, rule.need)]
    if facts.statement is None:  # without a claim there is nothing to audit, and the rule does not apply
        hidden = [rule for rule in hidden if rule.measure != AUDITED]
    verdict = judge_candidate(
        candidate,
        facts.policy.model_copy(update={"rules": tuple(shown)}),
        claims=facts.claims,
        verified=not facts.unverified,
    )
    binding = any(finding.rule.severity == "fail" for finding in verdict.findings)
    outcome = _without_guarantee(facts, verdict.verdict) if binding else None
    if outcome == "PASS" and not bind_on_privacy([*shown, *hidden]):
        outcome = "INCONCLUSIVE"
    return PublicVerdict(outcome, verdict.findings, tuple(hidden))


def _without_guarantee(facts: PublicFacts, outcome: Outcome) -> Outcome:
    """A claim that is void, disputed or not verified passes nothing, whatever the rules are about."""
    if outcome != "PASS" or facts.statement is None or (facts.guaranteed and not facts.disputed):
        return outcome
    return "FAIL" if facts.void or facts.disproved else "INCONCLUSIVE"


def _is_public(rule: Rule, known: set[tuple[str, tuple[str, ...]]]) -> bool:
    return rule.measure.startswith(STATEMENT) or (rule.measure, rule.subject) in known


def _public_candidate(facts: PublicFacts) -> Candidate:
    estimates = [] if facts.valid is None else [facts.valid]
    estimates += [] if facts.audit is None else [facts.audit.estimate]
    if facts.publication is not None:
        estimates += [number.estimate for number in facts.publication.numbers if MEASURES[number.measure] != "none"]
    return Candidate(facts.table, tuple(estimates), statement=facts.statement)

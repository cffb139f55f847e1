"""Public facts of a synthetic table, and the verdict to hand on: all that may be said to who may not see the real one.

`PublicFacts` has no place for an evaluation. One function fills it, by a whitelist: whatever is not named there does
not get out. Everything in it is public (policy, declared schema, configuration), or computed from the synthetic table,
or was released under a budget. A policy has rules that only real rows can answer. Their answers stay inside, whatever
they are; here they are counted as not shown, so that no word of the verdict speaks for them.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.audit_result import Audit
from evaluate.gate.claim import Claim, Claims, Protection, claims_of, made_here, on_stand_in, standing_protection
from evaluate.gate.decision import Finding, Outcome
from evaluate.gate.policy import STATEMENT, Policy, Rule, bind_on_privacy
from evaluate.gate.verdict import judge_candidate
from evaluate.provenance import MEASURES, Released
from evaluate.result import Candidate, Estimate, Evaluation, GeneratorRecord
from reports.guarantee import position_of
from reports.sections.limitations import evaluations_of
from synth.domain import grid
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import JobError, SchemaError, TableError
from synth.schema import Schema
from synth.table import conform
from synth.table.rows import observe

N_BINS = 24
MOST_NAMED = 8
TAIL = 0.005  # Share of the values beyond either end of the drawn line that the outermost bins take in


@dataclass(frozen=True)
class PublicColumn:
    """One column of the synthetic table."""

    name: str
    kind: str
    ordered: bool
    labels: tuple[str, ...]
    shares: tuple[float, ...]
    n_more: int = 0
    more: float = 0.0
    missing: float = 0.0


def columns_of(synthetic: pd.DataFrame, declared: Schema | None) -> tuple[PublicColumn, ...]:
    """Every column that a generator learns, as the synthetic table shows it; empty where it cannot be read."""
    from synth.infer import infer_schema

    try:
        schema = infer_schema(synthetic, constraints=False) if declared is None else declared
        rows = conform(synthetic, schema, outside="clamp", part=True)
    except (SchemaError, TableError):  # a table from elsewhere may hold anything
        return ()
    seen = observe(schema, rows)
    return tuple(_column(name, seen.columns[name], rows[name]) for name in seen.learned)


def _column(name: str, column: Any, values: pd.Series) -> PublicColumn:
    n, missing = max(len(values), 1), float(values.isna().mean()) if len(values) else 0.0
    if not column.is_categorical:
        positions = column.positions(values)
        present = positions[~np.isnan(positions)]
        labels, counts = _bins(present, column) if len(present) else ((), np.zeros(0))
        return PublicColumn(name, column.kind, True, labels, tuple((counts / n).tolist()), missing=missing)
    levels = column.levels
    codes = pd.Index(levels).get_indexer(pd.Index(values.astype(object)))
    shares = np.bincount(codes[codes >= 0], minlength=len(levels)) / n
    order = np.argsort(-shares, kind="stable")[:MOST_NAMED]
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
        order = np.array(sorted(order, key=lambda code: levels[code]))  # numbers stand in their order
    more = max(0.0, 1 - missing - float(shares[order].sum()))
    return PublicColumn(
        name, column.kind, False, tuple(str(levels[i]) for i in order), tuple(shares[order].tolist()),
        n_more=len(levels) - len(order), more=more if more > 1e-9 else 0.0, missing=missing,
    )  # fmt: skip


def _bins(present: np.ndarray, column: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Values of their own where there are few, else even bins whose ends take in what lies far out."""
    unit, distinct = column.unit, np.unique(present)
    if len(distinct) <= N_BINS:
        after = distinct + (unit if unit is not None else 1e-12 * np.maximum(1.0, np.abs(distinct)))
        labels = tuple(grid.label(a, b, column) if unit else f"{a:.6g}" for a, b in zip(distinct, after, strict=True))
        return labels, np.array([(present == value).sum() for value in distinct])
    low, high = np.quantile(present, [TAIL, 1 - TAIL])
    if high <= low:
        low, high = float(distinct[0]), float(distinct[-1])
    edges = np.linspace(low, high, N_BINS + 1)
    if unit is not None:  # half a step below the first value that each bin admits
        edges = np.unique((np.ceil(grid.ratio(edges, unit)) - 0.5) * unit)
    counts = np.bincount(np.clip(np.searchsorted(edges, present, side="right") - 1, 0, len(edges) - 2))
    counts = np.append(counts, np.zeros(len(edges) - 1 - len(counts), dtype=np.int64))
    return tuple(grid.label(a, b, column) for a, b in itertools.pairwise(edges)), counts


@dataclass(frozen=True)
class Publication:
    """Numbers that were read off real rows, and what they cost."""

    numbers: tuple[Released, ...]
    statement: PrivacyStatement
    together: PrivacyStatement
    n_fits: int = 1


@dataclass(frozen=True)
class PublicFacts:
    """All that a report to hand on knows."""

    title: str
    table: str
    policy: Policy
    n_rows: int
    columns: tuple[PublicColumn, ...]
    generator: GeneratorRecord | None = None
    statement: PrivacyStatement | None = None
    unverified: bool = False
    claims: Claims | None = None
    protection: Protection | None = None
    ledger: LedgerNote | None = None
    moment: str = ""
    publication: Publication | None = None
    audit: Audit | None = None
    valid: Estimate | None = None
    schema: Schema | None = None
    attempts: int | None = None
    version: str = ""

    @property
    def void(self) -> bool:
        """True where noise of what is published was not drawn from a secure source."""
        stated = self.statement is not None and not self.statement.private
        return stated or (self.claims is not None and not self.claims.counted.private)

    @property
    def disputed(self) -> bool:
        """True where an audit on a public stand-in disproves a claim that is published, or that of a fit it counts."""
        return self.claims is not None and self.claims.counted.disputed > 0

    @property
    def disproved(self) -> bool:
        """True where an audit on a public stand-in disproves what the fit of this very table claims."""
        return self.claims is not None and self.claims.alone.disputed > 0

    @property
    def guaranteed(self) -> bool:
        """True where what is published comes with a guarantee: stated, of this very table, and not void."""
        return self.statement is not None and not self.unverified and not self.void

    @property
    def claim(self) -> tuple[float, float] | None:
        """Epsilon and delta of all that is published; `None` without a guarantee or a claim that can be read."""
        if self.claims is None or not self.guaranteed:
            return None
        return self.claims.counted.epsilon, self.claims.counted.delta

    @property
    def together(self) -> Claim | None:
        """The sum of the table and all that counts with it; `None` where that is the table alone."""
        return None if self.claims is None or self.claims.counted == self.claims.alone else self.claims.counted


def public_facts(
    evaluation: Evaluation,
    name: str,
    *,
    policy: Policy,
    schema: Schema,
    synthetic: pd.DataFrame,
    title: str,
    n_rows: int | None = None,
) -> PublicFacts:
    """The whitelist: what is public in an evaluation (*Sensitive*) of one table, beside what is public anyway."""
    from evaluate.validity import valid_rows

    candidate = next((each for each in evaluation.candidates if each.name == name), None)
    if candidate is None:
        raise JobError(f"release={name!r} was not evaluated, so that there is nothing to report; evaluate it")
    declared = schema if schema.status == "declared" else None
    provenance, claims = evaluation.provenance, claims_of(evaluation, candidate)
    statement = None if candidate.statement is None else _public(candidate.statement)
    numbers, publication = provenance.released_numbers, None
    if numbers is not None and numbers.table == name:
        statements = _public(numbers.statement), _public(numbers.together)
        publication = Publication(numbers.numbers, *statements, numbers.n_fits)
    ledger, moment = position_of(None if statement is None else statement.ledger, provenance.ledger)
    return PublicFacts(
        title=title,
        table=name,
        policy=policy,
        n_rows=len(synthetic) if n_rows is None else n_rows,
        columns=columns_of(synthetic, declared),
        generator=candidate.generator,
        statement=statement,
        unverified=candidate.statement is not None and not made_here(evaluation),
        publication=publication,
        claims=claims,
        protection=standing_protection(evaluation, candidate, claims),
        ledger=ledger,
        moment=moment,
        audit=candidate.audit if candidate.audit is not None and on_stand_in(candidate.audit) else None,
        valid=None if declared is None else valid_rows(synthetic, declared),
        schema=declared,
        attempts=evaluations_of(provenance, by_name=True),
        version=provenance.versions.get("understudy", ""),
    )


def _public(statement: PrivacyStatement) -> PrivacyStatement:
    """A statement as it is published: without the ledger's entry, a hash over the real table's keyed fingerprint."""
    note = statement.ledger
    return replace(statement, ledger=None if note is None else replace(note, reservation=None, entry=None))


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

"""The rules that bar a table from the ranking: privacy and validity alarms of the policy, and copying of any kind.

What a policy tolerates in a table that somebody made in good faith is too much in a vendor's. A table of which a
twentieth is real rows would look all the better for it. So a comparison has rules of its own beside the policy's.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from evaluate.gate.finding import Finding, finding_of
from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import judge_candidate
from evaluate.intervals import clustered, newcombe
from evaluate.metrics import CATALOG
from evaluate.privacy import copies
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Failure
from evaluate.tables import Tables
from evaluate.text import listed
from synth.row_hash import content_hashes

BARRING = ("privacy.", "validity.")
"""Prefixes of the measures whose rules bar a table. The claim of a privacy statement is not among them: a vendor's is
not verified, whatever it says."""
COPIED = "privacy.copies.unique.excess"
LIMIT = 0.01
COPYING = Rule(
    measure=COPIED,
    limit=LIMIT,
    why="A vendor was paid for synthetic rows. One row in a hundred that is a training row, beyond what a fresh real "
    "sample shows by chance, was copied, and raises every other figure.",
)
RETURNING = Rule(
    measure=COPIED,
    limit=LIMIT,
    why="All that a vendor delivered leaves the house, not the rows alone that are compared: one training row in a "
    "hundred that stands somewhere in it, beyond chance, was copied, however many rows surround it.",
)
LEAKING = Rule(
    measure="privacy.copies.holdout",
    limit=LIMIT,
    why="No vendor was given the holdout. One held-out person in a hundred who stands in it, beyond chance, says "
    "that it got out, or that the two sides were swapped, and every figure that is measured on it is void.",
)


def name_of(rule: Rule) -> str:
    """The subject of a rule: its measure, or the words for a measure that only the comparison has.

    >>> name_of(COPYING), name_of(RETURNING)
    ('privacy.copies.unique.excess', 'training rows that stand anywhere in the delivery')
    """
    return "training rows that stand anywhere in the delivery" if rule.why == RETURNING.why else rule.measure


def beyond_policy(tables: Tables, candidate: Candidate, delivered: pd.DataFrame | None) -> list[Finding]:
    """Findings of the comparison's own rules on a table. *Sensitive*: `tables`."""
    rules = (COPYING, LEAKING)
    if not all(isinstance(candidate.get(rule.measure), Estimate) for rule in rules):
        candidate = Candidate("", copies.measure(tables).estimates)
    findings = [finding_of(candidate, rule) for rule in rules]
    if delivered is None:
        return findings
    # A candidate's estimate is found by name: so is this one, and its reason says what it is of.
    returned, name = finding_of(Candidate("", (_returned(tables, delivered),)), RETURNING), name_of(RETURNING)
    reason = f"{name[:1].upper()}{name[1:]}: {returned.reason[:1].lower()}{returned.reason[1:]}"
    return [*findings, replace(returned, reason=reason)]


def _returned(tables: Tables, delivered: pd.DataFrame) -> Estimate:
    """Rows of train that stand somewhere in the delivery, beside how many rows of the holdout do."""
    there = content_hashes(delivered, tables.schema)
    shares = []
    for hashes in (tables.hashes("train"), tables.hashes("holdout")):
        keys = hashes.keys
        distinct, counts = np.unique(keys, return_counts=True)
        alone = np.isin(keys, distinct[counts == 1])
        units = pd.factorize(hashes.units[alone])[0]
        shares.append(clustered(np.isin(keys[alone], there), units) if alone.any() else (0.0, 0.0, 0.0))
    value, low, high = newcombe(*shares)
    note = f"share of training rows that stand in all {len(delivered):,} delivered rows, less that of held-out rows"
    return Estimate(COPIED, value, tables.n_all("train"), "lower", low=low, high=high, reference=0.0, note=note)


def barring(
    candidate: Candidate, policy: Policy, own: list[Finding], real: RealFacts
) -> tuple[list[Finding], list[Finding]]:
    """The findings that bar a table, and those that leave open whether they would."""
    findings = [
        f
        for f in judge_candidate(candidate, policy, real=real).findings
        if f.binding and f.rule.measure.startswith(BARRING)
    ]
    told = {(name_of(f.rule), f.outcome) for f in own}  # a policy's rule on the same number says it a second time
    all_findings = [*own, *(f for f in findings if (f.rule.measure, f.outcome) not in told)]
    return [f for f in all_findings if f.outcome == "FAIL"], [f for f in all_findings if f.outcome == "INCONCLUSIVE"]


def fidelity_findings(candidate: Candidate, policy: Policy, real: RealFacts) -> list[Finding]:
    """The binding findings on fidelity of all columns: a table that breaks one stands behind those that keep all."""
    fidelity = {name for name, metric in CATALOG.items() if metric.by.startswith("fidelity.")}
    findings = judge_candidate(candidate, policy, real=real).findings
    return [f for f in findings if f.binding and f.rule.measure in fidelity]


def lacking_columns(candidate: Candidate, lacking: tuple[str, ...]) -> Candidate:
    """The candidate as a policy has to see it: without a column no row is valid, and no mean over all columns is known.

    What was measured of the columns that are there stays, but nothing that a missing column could have improved.
    """
    if not lacking:
        return candidate
    shown = listed(lacking)
    why = f"the table lacks {shown}, so that nothing is known of all columns together"
    kept, failures = [], [*candidate.failures]
    for estimate in candidate.estimates:
        if estimate.measure == "validity.rows":
            note = f"No row is valid: the table lacks {shown}."
            kept.append(replace(estimate, value=0.0, low=0.0, high=0.0, note=note))
        elif (
            estimate.measure in CATALOG
            and CATALOG[estimate.measure].by.startswith("fidelity.")
            and not estimate.subject
        ):
            failures.append(Failure(estimate.measure, "failed", why))
        else:
            kept.append(estimate)
    failures += [Failure("validity.column", "failed", "the table lacks the column", (name,)) for name in lacking]
    return replace(candidate, estimates=tuple(kept), failures=tuple(failures))

"""The comparison of vendors, from files to a sealed folder with its ranking: one unusable table never stops the others.

Every table is measured on the same terms and judged before it is ranked. Privacy and validity alarms of the policy bar
a table from the ranking, and copying of any kind. What a policy tolerates in a table that somebody made in good faith
is too much in a vendor's: one of which a twentieth is real rows would look all the better for it. So a comparison has
rules of its own beside the policy's.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from evaluate.comparison import (
    BarringFinding,
    ComparisonTerms,
    Order,
    Picture,
    PicturePoint,
    Standing,
    VendorRanking,
    VendorResult,
)
from evaluate.engine import attempted, evaluate_beside, measure_candidate, real_facts
from evaluate.gate.decision import Finding, finding_of
from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import Verdict, judge, judge_candidate
from evaluate.intervals import clustered, newcombe
from evaluate.metrics import CATALOG
from evaluate.privacy import copies
from evaluate.provenance import Provenance
from evaluate.ranking import ReplicatedFigures, frontier, ranked
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, GeneratorRecord
from evaluate.tables import Real, Tables
from evaluate.text import MOST_NAMED, listed, short
from evaluate.validity import BROKEN, OTHER_FORM
from reports.exports import write_csv
from reports.sections.quality import given_away
from synth.errors import SchemaError
from synth.output import whole_folder
from synth.progress import Progress
from synth.row_hash import content_hashes
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table.rows import Rows
from synth.table.text_files import SizeLimits
from synth.validation import GivenFile, read_given
from understudy import provenance
from understudy.bundle.evidence import Delivery, write_evidence
from understudy.bundle.signing import Signer
from understudy.console import DONE, FAILED, INCONCLUSIVE
from understudy.data import find_table, read_side
from understudy.evaluate_external import CLAMPED
from understudy.job.load import check_measures, given_policy, named_policy
from understudy.provenance import count_attempt
from understudy.vendors.submission import (
    Asked,
    DeliveredTable,
    compared_rows,
    look_at,
    read_claims,
    sampled,
    shown_name,
)

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
PERSONAL = "privacy.personal"
EXPOSURE = "privacy.membership.auc"
UTILITIES = ("utility.tstr.boosting", "utility.tstr.linear")
"""Measures of utility for the picture: the first that every table in it has."""
TABLE = "comparison.csv"
TITLE = "Comparison of vendors"
NOTICE = "internal: reads real rows"
FORMULAS = "cells that a spreadsheet runs as formulas"
COLUMNS = (
    "vendor", "file", "standing", "place", "group", "verdict", "claimed_epsilon_unverified", "claimed_delta_unverified",
    "rows_delivered", "rows_compared", "missing_columns", "extra_columns", "formula_cells", "same_as",
)  # fmt: skip


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


T = TypeVar("T")


@dataclass(frozen=True)
class VendorContext:
    """The context that all tables share. *Sensitive*."""

    asked: Asked
    schema: Schema
    policy: Policy
    train: Rows
    holdout: Rows
    real: Real
    facts: RealFacts
    limits: SizeLimits
    progress: Progress


@dataclass(frozen=True)
class MeasuredVendor:
    candidate: Candidate
    figures: ReplicatedFigures | None
    barred: list[Finding]
    open: list[Finding]
    own: list[Finding]
    fidelity: list[Finding]


def measure(bench: VendorContext, offered: DeliveredTable, n_rows: int) -> MeasuredVendor:
    """One table, on as many rows as all others, with what bars it."""
    options, real = bench.asked.options, bench.real
    if offered.lacking:  # the real rows by the columns that the table has serve it alone
        real = Real.prepare(bench.train, bench.holdout, offered.schema, options)
    delivered = offered.read(bench.limits)
    tables = real.beside(sampled(delivered, offered.schema, n_rows, options.seed))
    candidate = measure_candidate(
        offered.name, tables, measures=options.measures, time_limit_s=options.time_limit_s, progress=bench.progress,
        generator=GeneratorRecord("unknown", {"vendor": offered.name}),
    )  # fmt: skip
    whole = real.beside(delivered) if len(delivered) > n_rows else None
    own = beyond_policy(tables, candidate, None if whole is None else whole.synthetic)
    if whole is not None:
        in_all = measure_candidate(offered.name, whole, measures=[PERSONAL])
        own += [f for f in barring(in_all, bench.policy, [], bench.facts)[0] if f.rule.measure.startswith(PERSONAL)]
    barred, left_open = barring(candidate, bench.policy, own, bench.facts)
    figures = None if barred or offered.lacking else ReplicatedFigures.of(tables, options.time_limit_s)
    tables.kept.clear()
    fidelity = fidelity_findings(candidate, bench.policy, bench.facts)
    return MeasuredVendor(lacking_columns(candidate, offered.lacking), figures, barred, left_open, own, fidelity)


def picture(candidates: Sequence[Candidate], standings: Mapping[str, Standing]) -> Picture | None:
    """Utility against the upper end of the membership attack's interval; `None` without either."""

    def worst(estimate: Estimate) -> float:
        return estimate.value if estimate.high is None else estimate.high

    for utility in UTILITIES:
        pairs = [(c.name, c.find(utility), c.find(EXPOSURE)) for c in candidates]
        points = [(n, u, worst(e)) for n, u, e in pairs if isinstance(u, Estimate) and isinstance(e, Estimate)]
        if points:
            break
    else:
        return None
    best = frontier([(name, useful.value, exposed) for name, useful, exposed in points if standings[name] == "ranked"])
    shown = tuple(
        PicturePoint(name, useful.value, useful.low, useful.high, exposed, standings[name], name in best)
        for name, useful, exposed in points
    )
    marks, named = points[0][1], {name for name, _, _ in points}
    absent = tuple(candidate.name for candidate in candidates if candidate.name not in named)
    return Picture(utility, EXPOSURE, shown, marks.reference, marks.floor, absent)


@dataclass(frozen=True)
class VendorComparison:
    """The outcome of a comparison. *Sensitive*: `evaluation`."""

    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    policy: Policy
    ranking: VendorRanking
    files: Mapping[str, GivenFile]


def compare(asked: Asked, progress: Progress) -> VendorComparison:
    """Every table measured on the same terms, those that break a rule set apart, the others ranked."""
    named, started, options = asked.named(), provenance.now(), asked.options
    files = {"policy": given_policy(asked.policy, Path()), "schema": read_given(asked.schema, "schema", SchemaError)}
    policy, schema = named_policy(files["policy"]), options.aim(schema_of(files["schema"]))
    check_measures(options.measures or ())
    claims = {} if asked.claims is None else read_claims(asked.claims, named)
    key = provenance.fingerprint_key()
    train = read_side("train", find_table(str(asked.train)), schema, options.outside)
    holdout = read_side("holdout", find_table(str(asked.holdout)), schema, options.outside)
    real = Real.prepare(train, holdout, schema, options)
    limits, facts = SizeLimits.beside(real.train, len(train)), real_facts(real, options.measures)
    bench = VendorContext(asked, schema, policy, train, holdout, real, facts, limits, progress)

    unusable = dict[str, str]()
    offers = _each(named, lambda name: look_at(name, named[name], schema, limits), unusable)
    n_rows, few = compared_rows(list(offers.values()), len(train), asked.rows)
    unusable |= few
    if len(few) == len(offers):
        name, reason = next(iter(unusable.items()))
        raise EvaluationError(
            f"a comparison needs a table that can be evaluated, and there is none; of {name!r}: {reason}"
        )
    enough = [name for name in offers if name not in few]
    measured = _each(enough, lambda name: measure(bench, offers[name], n_rows), unusable)
    vendors = tuple(
        _vendor(name, path, claims.get(name, {}), unusable.get(name, ""), offers, measured.get(name), n_rows)
        for name, path in named.items()
    )
    ranking = _ranking(bench, vendors, measured, n_rows)
    base = evaluate_beside(real, {}, measures=options.measures, time_limit_s=options.time_limit_s, progress=progress)
    prints = provenance.fingerprints(real.train, real.holdout, schema, key)
    known = Provenance(
        warnings=(CLAMPED,) if options.outside == "clamp" else (),
        attempts=count_attempt(prints["table"], schema, attempt=secrets.token_hex(8), n_tables=len(measured)),
        evaluated_at=started,
        seed=options.seed,
        fingerprints=prints,
        files_sha256={f"vendors/{name}/{shown_name(named[name])}": offers[name].sha256 for name in measured},
    )
    evaluation = replace(
        base,
        candidates=tuple(offer.candidate for offer in measured.values()),
        ranking=ranking,
        provenance=provenance.with_inputs(known, files),
    )
    return VendorComparison(evaluation, judge(evaluation, [policy]), policy, ranking, files)


def _each(names: Iterable[str], work: Callable[[str], T], failed: dict[str, str]) -> dict[str, T]:
    """The results of some work on each vendor; the reasons of those that failed are added, and stop no other."""
    done = dict[str, T]()
    for name in names:
        result, _ = attempted(name, partial(work, name))
        if isinstance(result, Failure):
            failed[name] = result.message
        else:
            done[name] = result
    return done


def _vendor(
    name: str, path: Path, claim: Mapping[str, Any], failure: str, offers: Mapping[str, DeliveredTable],
    measured: MeasuredVendor | None, n_rows: int,
) -> VendorResult:  # fmt: skip
    """The result of one vendor, as far as its table could be read and measured."""
    result = VendorResult(
        name=name, file=shown_name(path), standing="not evaluated", reason=failure, claim=dict(claim),
        rows_offered=None, rows_compared=None, missing_columns=(), renamed_columns=(), extra_columns=(),
        n_extra_columns=0, formula_cells=None, same_as=None, evidence=(), open=(),
    )  # fmt: skip
    offered = offers.get(name)
    if offered is None:
        return result
    result = replace(
        result, rows_offered=offered.n_rows, missing_columns=tuple(offered.lacking), formula_cells=offered.n_formulas,
        extra_columns=tuple(offered.extra[:MOST_NAMED]), n_extra_columns=len(offered.extra),
        renamed_columns=tuple(f"{short(theirs)!r} for {short(ours)!r}" for theirs, ours in offered.renamed.items()),
    )  # fmt: skip
    if measured is None:
        return result
    own, broken = {id(finding) for finding in measured.own}, [f for f in measured.fidelity if f.outcome == "FAIL"]
    standing: Standing = "disqualified" if measured.barred else "incomplete" if offered.lacking else "ranked"
    reasons = {
        "disqualified": _why(measured.barred),
        "incomplete": f"it lacks columns of the schema: {listed(offered.lacking)}",
        "ranked": f"it breaks rules on fidelity: {_why(broken)}" if broken else "",
    }
    return replace(
        result, standing=standing, reason=reasons[standing], rows_compared=n_rows,
        same_as=next((o.name for o in offers.values() if o.name != name and o.content == offered.content), None),
        evidence=tuple(
            BarringFinding(
                name_of(f.rule), f.rule.measure, f.rule.limit, f.rule.failing, f.rule.why, f.rule.subject, f.reason,
                f.estimate, beyond_policy=id(f) in own,
            )
            for f in measured.barred
        ),
        open=tuple(dict.fromkeys(name_of(finding.rule) for finding in measured.open)),
    )  # fmt: skip


def _why(findings: list[Finding]) -> str:
    """The rules that were broken, with what was measured."""
    reasons = []
    for finding in findings:
        rule, estimate, reason = finding.rule, finding.estimate, name_of(finding.rule)
        if estimate is not None:
            low, high = estimate.low, estimate.high
            ends = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
            reason += f" {estimate.value:.3g}{ends} against a limit of {rule.limit:g}{rule.second}"
            if estimate.note.startswith(BROKEN):
                reason += f" ({estimate.note.removeprefix(BROKEN).partition(f'. {OTHER_FORM}')[0].removesuffix('.')})"
        reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons))


def _ranking(
    bench: VendorContext, vendors: tuple[VendorResult, ...], measured: Mapping[str, MeasuredVendor], n_rows: int
) -> VendorRanking:
    """The ranking: what is the same for all, how each came out, and the order of those that are left."""
    left = {v.name: measured[v.name] for v in vendors if v.standing == "ranked"}
    # True where a table passes every rule on fidelity, False where it fails one, `None` where that is open.
    outcomes = {name: {finding.outcome for finding in each.fidelity} for name, each in left.items()}
    keeps = {
        name: False if "FAIL" in of_all else True if of_all == {"PASS"} else None for name, of_all in outcomes.items()
    }
    order = ranked({name: each.figures for name, each in left.items() if each.figures is not None}, keeps)
    asked, policy = bench.asked, bench.policy
    terms = ComparisonTerms(n_rows, asked.rows, len(bench.train), asked.options.seed, policy.name)
    standings = {vendor.name: vendor.standing for vendor in vendors}
    return VendorRanking(terms, vendors, order, picture([each.candidate for each in measured.values()], standings))


def deliver_comparison(comparison: VendorComparison, seed: int, folder: Path, signer: Signer | None = None) -> None:
    """The sealed folder of a comparison, whole or not at all."""
    delivery = Delivery(comparison.evaluation, comparison.verdicts, comparison.policy, TITLE, None)
    with whole_folder(folder) as beside:
        order = comparison.ranking.order
        ends = [f"{figure.figure} {part}" for figure in order.figures for part in ("value", "group")]
        write_csv(beside / TABLE, [*COLUMNS, *ends, "reason", "notice"], _lines(comparison, order))
        write_evidence(delivery, beside, signer, files=comparison.files, seeds={"comparison": seed})


def _lines(comparison: VendorComparison, order: Order) -> Iterator[dict[str, Any]]:
    places = {ranked.name: ranked for ranked in order.order}
    verdicts = {verdict.candidate: verdict.verdict for verdict in comparison.verdicts}
    for vendor in comparison.ranking.vendors:
        claim = vendor.claim
        rank = places.get(vendor.name)
        line = {
            "vendor": vendor.name, "file": vendor.file, "standing": vendor.standing,
            "place": None if rank is None else rank.place, "group": None if rank is None else rank.letters,
            "verdict": verdicts.get(vendor.name),
            "claimed_epsilon_unverified": claim.get("epsilon"), "claimed_delta_unverified": claim.get("delta"),
            "rows_delivered": vendor.rows_offered, "rows_compared": vendor.rows_compared,
            "missing_columns": "; ".join(vendor.missing_columns), "extra_columns": "; ".join(vendor.extra_columns),
            "formula_cells": vendor.formula_cells, "same_as": vendor.same_as,
            "reason": vendor.reason, "notice": NOTICE,
        }  # fmt: skip
        for figure in order.figures:
            line[f"{figure.figure} value"] = figure.values.get(vendor.name)  # noqa: PD011 - a mapping
            line[f"{figure.figure} group"] = figure.letters.get(vendor.name)
        yield line


def exit_code(comparison: VendorComparison) -> int:
    """0: every table was evaluated and one at least is ranked; 1: every table is disqualified; 3: anything else."""
    standings = {vendor.standing for vendor in comparison.ranking.vendors}
    if standings == {"disqualified"}:
        return FAILED
    return DONE if "ranked" in standings and standings <= {"ranked", "disqualified"} else INCONCLUSIVE


def sentences(comparison: VendorComparison) -> tuple[str, ...]:
    """Notes for a reader, before the numbers."""
    facts = (*comparison.evaluation.real.warnings, *given_away(comparison.evaluation))
    notes, seen = [*facts, *comparison.evaluation.provenance.warnings], set[str]()
    for vendor in comparison.ranking.vendors:
        if vendor.same_as is not None and vendor.same_as in seen:
            notes.append(f"{vendor.same_as} and {vendor.name} delivered the same rows: one of them is a renamed copy")
        seen.add(vendor.name)
        if n := vendor.formula_cells:
            notes.append(
                f"{vendor.name} delivered {n:,} {'cell that a spreadsheet runs as a formula' if n == 1 else FORMULAS}; "
                "open its file with none"
            )
        if names := vendor.renamed_columns:
            more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
            notes.append(f"{vendor.name} spells columns in another way: {', '.join(names[:MOST_NAMED])}{more}")
        if vendor.standing == "ranked" and vendor.open:
            notes.append(f"{vendor.name} is ranked, though more evidence is needed before anything is released")
        if vendor.claim:
            notes.append(f"what {vendor.name} claims of privacy is not verified")
    if comparison.evaluation.provenance.attempts is None:
        notes.append("how often this real table was measured against could not be counted on this machine")
    return tuple(notes)

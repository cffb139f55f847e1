"""The comparison of vendors, from files to an evaluation with its ranking: one unusable table never stops the others.

Every table is measured on the same terms and judged before it is ranked.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from evaluate.comparison import (
    BarringFinding,
    ComparisonTerms,
    Picture,
    PicturePoint,
    Standing,
    VendorRanking,
    VendorResult,
)
from evaluate.engine import attempted, evaluate_beside, measure_candidate, real_facts
from evaluate.gate.finding import Finding
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict, judge
from evaluate.provenance import Provenance
from evaluate.ranking import ReplicatedFigures, frontier, ranked
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, GeneratorRecord
from evaluate.tables import Real
from evaluate.text import MOST_NAMED, listed
from synth.errors import SchemaError
from synth.parsing import GivenFile, read_given
from synth.progress import Progress
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table.limits import SizeLimits
from synth.table.rows import Rows
from understudy import provenance
from understudy.data.load import read_side
from understudy.data.source import find_table
from understudy.evaluate_external import CLAMPED
from understudy.evaluation_log import count_attempt
from understudy.job.load import check_measures, given_policy, named_policy
from understudy.vendors.rules import barring, beyond_policy, fidelity_findings, lacking_columns, name_of
from understudy.vendors.submission import (
    Asked,
    DeliveredTable,
    compared_rows,
    look_at,
    read_claims,
    sampled,
    shown_name,
)

T = TypeVar("T")
PERSONAL = "privacy.personal"


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
    """One table, measured."""

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


EXPOSURE = "privacy.membership.auc"
UTILITIES = ("utility.tstr.boosting", "utility.tstr.linear")
"""Measures of utility for the picture: the first that every table in it has."""


def picture(candidates: Sequence[Candidate], standings: Mapping[str, Standing]) -> Picture | None:
    """Utility against the upper end of the membership attack's interval; `None` without either."""
    for utility in UTILITIES:
        pairs = [(c, c.find(utility), c.find(EXPOSURE)) for c in candidates]
        points = [
            (c.name, useful, exposed)
            for c, useful, exposed in pairs
            if isinstance(useful, Estimate) and isinstance(exposed, Estimate)
        ]
        if points:
            break
    else:
        return None
    best = frontier(
        [(name, estimate.value, _worst(by)) for name, estimate, by in points if standings[name] == "ranked"]
    )
    shown = tuple(
        PicturePoint(name, estimate.value, estimate.low, estimate.high, _worst(by), standings[name], name in best)
        for name, estimate, by in points
    )
    marks, named = points[0][1], {name for name, _, _ in points}
    absent = tuple(candidate.name for candidate in candidates if candidate.name not in named)
    return Picture(utility, EXPOSURE, shown, marks.reference, marks.floor, absent)


def _worst(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else estimate.high


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
    key = provenance.fingerprint_key(provenance.key_path())
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
        _vendor(
            VendorResult(
                name=name, file=shown_name(path), standing="not evaluated", reason=unusable.get(name, ""),
                claim=claims[name].model_dump(exclude_none=True) if name in claims else {},
                rows_offered=None, rows_compared=None, missing_columns=(), extra_columns=(), n_extra_columns=0,
                formula_cells=None, same_as=None, evidence=(), open=(),
            ),
            offers,
            measured.get(name),
            n_rows,
        )
        for name, path in named.items()
    )  # fmt: skip
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
    base: VendorResult, offers: Mapping[str, DeliveredTable], measured: MeasuredVendor | None, n_rows: int
) -> VendorResult:  # fmt: skip
    """The result of one vendor, as far as its table could be read and measured."""
    offered = offers.get(base.name)
    if offered is None:
        return base
    result = replace(
        base, rows_offered=offered.n_rows, missing_columns=tuple(offered.lacking), formula_cells=offered.n_formulas,
        extra_columns=tuple(offered.extra[:MOST_NAMED]), n_extra_columns=len(offered.extra),
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
        same_as=next((o.name for o in offers.values() if o.name != base.name and o.content == offered.content), None),
        evidence=tuple(
            BarringFinding(
                name_of(f.rule), f.rule.measure, f.rule.limit, f.rule.failing, f.rule.why, f.rule.subject, f.reason,
                f.estimate, beyond_policy=id(f) in own,
            )
            for f in measured.barred
        ),
        open=tuple(dict.fromkeys(name_of(finding.rule) for finding in measured.open)),
    )  # fmt: skip


def _why(barred: list[Finding]) -> str:
    """The rules that were broken, with what was found."""
    return "; ".join(dict.fromkeys(_said(finding) for finding in barred))


def _said(finding: Finding) -> str:
    rule, estimate = finding.rule, finding.estimate
    if estimate is None:
        return name_of(rule)
    ends = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.3g}, {estimate.high:.3g}]"
    return f"{name_of(rule)} {estimate.value:.3g}{ends} against a limit of {rule.limit:g}{rule.second}"


def _keeps(fidelity: Sequence[Finding]) -> bool | None:
    """True where a table passes every rule on fidelity, False where it fails one, `None` where that is open."""
    outcomes = {finding.outcome for finding in fidelity}
    return False if "FAIL" in outcomes else True if outcomes == {"PASS"} else None


def _ranking(
    bench: VendorContext, vendors: tuple[VendorResult, ...], measured: Mapping[str, MeasuredVendor], n_rows: int
) -> VendorRanking:
    """The ranking: what is the same for all, how each came out, and the order of those that are left."""
    left = {v.name: measured[v.name].figures for v in vendors if v.standing == "ranked"}
    keeps = {name: _keeps(measured[name].fidelity) for name in left}
    order = ranked({name: figures for name, figures in left.items() if figures is not None}, keeps)
    asked, policy = bench.asked, bench.policy
    terms = ComparisonTerms(n_rows, asked.rows, len(bench.train), asked.options.seed, policy.name)
    standings = {vendor.name: vendor.standing for vendor in vendors}
    return VendorRanking(
        terms, vendors, order, picture([measured_vendor.candidate for measured_vendor in measured.values()], standings)
    )

"""The comparison of vendors, from files to an evaluation with its ranking: one unusable table never stops the others.

Every table is measured on the same terms and judged before it is ranked.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

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
from evaluate.ranking.figures import ReplicatedFigures
from evaluate.ranking.ranking import frontier, ranked
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
    VendorClaim,
    compared_rows,
    look_at,
    read_claims,
    sampled,
    shown_name,
)

PERSONAL = "privacy.personal"


@dataclass(frozen=True)
class VendorContext:
    """The context that all tables share. *Sensitive*."""

    asked: Asked
    schema: Schema
    policy: Policy
    train: Rows
    holdout: Rows
    limits: SizeLimits
    real: Real
    progress: Progress
    given: Mapping[str, GivenFile]
    started: str

    def beside(self, offered: DeliveredTable) -> Real:
        """The real rows by the columns that a table has; without all of them, they serve that table alone."""
        return self.real if not offered.lacking else self.prepared(offered.schema)

    def prepared(self, schema: Schema) -> Real:
        """The real rows by the columns of a schema."""
        return Real.prepare(self.train, self.holdout, schema, self.asked.options)

    @property
    def facts(self) -> RealFacts:
        """Facts about the real table, with how train and holdout differ."""
        return real_facts(self.real, self.asked.options.measures)


@dataclass(frozen=True)
class MeasuredVendor:
    """One table, measured."""

    candidate: Candidate
    figures: ReplicatedFigures | None
    barred: list[Finding]
    open: list[Finding]
    own: list[Finding]
    fidelity: list[Finding]


def looked_at(bench: VendorContext, named: Mapping[str, Any]) -> tuple[dict[str, DeliveredTable], dict[str, str]]:
    """The tables that can be read, and why the others cannot."""
    offers, unusable = {}, {}
    for index, (name, path) in enumerate(named.items()):
        bench.progress(f"read {name}", index / len(named))
        got, _ = attempted(name, partial(look_at, name, path, bench.schema, bench.limits))
        if isinstance(got, Failure):
            unusable[name] = got.message
        else:
            offers[name] = got
    return offers, unusable


def measure(bench: VendorContext, offered: DeliveredTable, n_rows: int) -> MeasuredVendor:
    """One table, on as many rows as all others, with what bars it.

    Args:
        bench: *Sensitive*: holds the real rows.
    """
    options, real = bench.asked.options, bench.beside(offered)
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


def _evidence(found: Finding, *, own: bool) -> BarringFinding:
    rule = found.rule
    return BarringFinding(
        name_of(rule), rule.measure, rule.limit, rule.failing, rule.why, rule.subject, found.reason, found.estimate,
        beyond_policy=own,
    )  # fmt: skip


def picture(candidates: Sequence[Candidate], standings: Mapping[str, Standing]) -> Picture | None:
    """Utility against the upper end of the membership attack's interval; `None` without either."""
    for utility in UTILITIES:
        found = [(c, c.find(utility), c.find(EXPOSURE)) for c in candidates]
        points = [
            (c.name, useful, exposed)
            for c, useful, exposed in found
            if isinstance(useful, Estimate) and isinstance(exposed, Estimate)
        ]
        if points:
            break
    else:
        return None
    best = frontier([(name, of.value, _worst(by)) for name, of, by in points if standings[name] == "ranked"])
    shown = tuple(
        PicturePoint(name, of.value, of.low, of.high, _worst(by), standings[name], name in best)
        for name, of, by in points
    )
    marks, named = points[0][1], {name for name, _, _ in points}
    absent = tuple(one.name for one in candidates if one.name not in named)
    return Picture(utility, EXPOSURE, shown, marks.reference, marks.floor, absent)


def _worst(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else estimate.high


@dataclass(frozen=True)
class VendorComparison:
    """The outcome of a comparison.

    Attributes:
        evaluation: *Sensitive*: of every table that could be measured, with its ranking.
    """

    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    policy: Policy
    ranking: VendorRanking
    given: Mapping[str, GivenFile] = field(default_factory=dict)


def compare(asked: Asked, progress: Progress) -> VendorComparison:
    """Every table measured on the same terms, those that break a rule set apart, the others ranked."""
    named, started, given = asked.named(), provenance.now(), {"policy": given_policy(asked.policy, Path())}
    policy = named_policy(given["policy"])
    options = asked.options
    check_measures(options.measures or ())
    claims = {} if asked.claims is None else read_claims(asked.claims, named)
    given["schema"] = read_given(asked.schema, "schema", SchemaError)
    schema = options.aim(schema_of(given["schema"]))
    key = provenance.fingerprint_key(provenance.key_path())
    train = read_side("train", find_table(str(asked.train)), schema, options.outside)
    holdout = read_side("holdout", find_table(str(asked.holdout)), schema, options.outside)
    real = Real.prepare(train, holdout, schema, options)
    bench = VendorContext(
        asked, schema, policy, train, holdout, SizeLimits.beside(real.train, len(train)), real, progress, given, started
    )

    offers, unusable = looked_at(bench, named)
    n_rows, few = compared_rows(list(offers.values()), len(train), asked.rows)
    if not set(offers) - set(few):
        raise EvaluationError(_none_usable(few | unusable))
    measured: dict[str, MeasuredVendor] = {}
    for name in (name for name in offers if name not in few):
        got, _ = attempted(name, partial(measure, bench, offers[name], n_rows))
        if isinstance(got, Failure):
            unusable[name] = got.message
        else:
            measured[name] = got
    vendors = tuple(
        _vendor(name, shown_name(named[name]), offers, measured.get(name), few | unusable, claims, n_rows)
        for name in named
    )
    ranking = _ranking(bench, vendors, measured, n_rows)
    base = evaluate_beside(real, {}, measures=options.measures, time_limit_s=options.time_limit_s, progress=progress)
    evaluation = replace(
        base,
        candidates=tuple(one.candidate for one in measured.values()),
        ranking=ranking,
        provenance=_provenance(bench, {name: offers[name] for name in measured}, key),
    )
    return VendorComparison(evaluation, judge(evaluation, [policy]), policy, ranking, given)


def _none_usable(reasons: Mapping[str, str]) -> str:
    name, reason = next(iter(reasons.items()))
    return f"a comparison needs a table that can be evaluated, and there is none; of {name!r}: {reason}"


def _vendor(
    name: str,
    file: str,
    offers: Mapping[str, DeliveredTable],
    measured: MeasuredVendor | None,
    unusable: Mapping[str, str],
    claims: Mapping[str, VendorClaim],
    n_rows: int,
) -> VendorResult:
    offered, claim = offers.get(name), claims.get(name)
    extra = () if offered is None else offered.extra
    result = VendorResult(
        name=name, file=file, standing="not evaluated", reason=unusable.get(name, ""),
        rows_offered=None if offered is None else offered.n_rows, rows_compared=None,
        missing_columns=() if offered is None else tuple(offered.lacking),
        extra_columns=tuple(extra[:MOST_NAMED]), n_extra_columns=len(extra),
        formula_cells=None if offered is None else offered.n_formulas,
        claim={} if claim is None else claim.model_dump(exclude_none=True), same_as=None, evidence=(), open=(),
    )  # fmt: skip
    if measured is None or offered is None:
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
        evidence=tuple(_evidence(finding, own=id(finding) in own) for finding in measured.barred),
        open=tuple(dict.fromkeys(name_of(finding.rule) for finding in measured.open)),
    )  # fmt: skip


def _why(barred: list[Finding]) -> str:
    """The rules that were broken, with what was found."""
    return "; ".join(dict.fromkeys(_said(finding) for finding in barred))


def _said(finding: Finding) -> str:
    rule, found = finding.rule, finding.estimate
    if found is None:
        return name_of(rule)
    ends = "" if found.low is None or found.high is None else f" [{found.low:.3g}, {found.high:.3g}]"
    return f"{name_of(rule)} {found.value:.3g}{ends} against a limit of {rule.limit:g}{rule.second}"


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
    standings = {vendor.name: vendor.standing for vendor in vendors}
    asked, policy = bench.asked, bench.policy
    return VendorRanking(
        ComparisonTerms(n_rows, asked.rows, len(bench.train), asked.options.seed, policy.name),
        vendors,
        order,
        picture([one.candidate for one in measured.values()], standings),
    )


def _provenance(bench: VendorContext, offers: Mapping[str, DeliveredTable], key: bytes) -> Provenance:
    prints = provenance.fingerprints(bench.real.train, bench.real.holdout, bench.schema, key)
    attempts = count_attempt(prints["table"], bench.schema, attempt=secrets.token_hex(8), n_tables=len(offers))
    known = Provenance(
        warnings=(CLAMPED,) if bench.asked.options.outside == "clamp" else (),
        attempts=attempts,
        evaluated_at=bench.started,
        seed=bench.asked.options.seed,
        fingerprints=prints,
        files_sha256={f"vendors/{name}/{shown_name(one.path)}": one.sha256 for name, one in offers.items()},
    )
    return provenance.with_inputs(known, bench.given)

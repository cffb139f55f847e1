"""A comparison from files to an evaluation with its ranking: one unusable table never stops the others."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evaluate.engine import aimed, attempted, evaluate_beside
from evaluate.gate.finding import Finding
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict, judge
from evaluate.ranking.ranking import ranked
from evaluate.result import Evaluation, EvaluationError, Failure
from evaluate.tables import Real
from synth.errors import SchemaError
from synth.input_file import GivenFile, read_given
from synth.progress import Progress
from synth.schema_file import schema_of
from synth.table import conform, read_table
from synth.table.limits import Limits
from understudy import provenance
from understudy.attempts import count_attempt
from understudy.inputs import check_measures
from understudy.offered_tables import CLAMPED
from understudy.policies import given_policy, named_policy
from understudy.vendors.asked import Asked, read_claims, shown_name
from understudy.vendors.measuring import Bench, Measured, looked_at, measure
from understudy.vendors.offers import Offered, compared_rows
from understudy.vendors.rules import name_of
from understudy.vendors.standing import Vendor, picture


@dataclass(frozen=True)
class VendorComparison:
    """What a comparison came to.

    Attributes:
        evaluation: *Sensitive*: of every table that could be measured, with its ranking.
        verdicts: of the policy, on each of them.
        policy: what they rest on.
        vendors: how each came out, those that could not be measured included.
        given: the files of "schema" and "policy", as they were understood.
    """

    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    policy: Policy
    vendors: tuple[Vendor, ...]
    given: Mapping[str, GivenFile] = field(default_factory=dict)


def compare(asked: Asked, progress: Progress) -> VendorComparison:
    """Every table measured on the same terms, those that break a rule set apart, the others ranked.

    Args:
        asked: files and terms.
        progress: told what is being done.

    Raises:
        BadInput: a real table, the schema, the policy or an option cannot be used, or no table can; nothing was
            measured.
    """
    named, started, given = asked.named(), provenance.now(), {"policy": given_policy(asked.policy, Path())}
    policy = named_policy(given["policy"])
    check_measures(asked.measures or ())
    claims = {} if asked.claims is None else read_claims(asked.claims, named)
    given["schema"] = read_given(asked.schema, "schema", SchemaError)
    schema = aimed(schema_of(given["schema"]), asked.target, asked.task)
    key = provenance.fingerprint_key(provenance.key_path())
    outside = asked.outside
    train, holdout = (
        conform(read_table(path), schema, outside=outside, part=True) for path in (asked.train, asked.holdout)
    )
    real = Real.prepare(train, holdout, schema, seed=asked.seed, outside=outside, n_targets=asked.n_targets)
    bench = Bench(asked, schema, policy, train, holdout, Limits.beside(train), real, progress, given, started)

    offers, unusable = looked_at(bench, named)
    n_rows, few = compared_rows(list(offers.values()), len(train), asked.rows)
    if not set(offers) - set(few):
        raise EvaluationError(_none_usable(few | unusable))
    measured: dict[str, Measured] = {}
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
    base = evaluate_beside(real, {}, measures=asked.measures, time_limit_s=asked.time_limit_s, progress=progress)
    evaluation = replace(
        base,
        candidates=tuple(one.candidate for one in measured.values()),
        ranking=ranking,
        provenance=_provenance(bench, {name: offers[name] for name in measured}, key),
    )
    return VendorComparison(evaluation, judge(evaluation, [policy]), policy, vendors, given)


def _none_usable(reasons: Mapping[str, str]) -> str:
    name, reason = next(iter(reasons.items()))
    return f"a comparison needs a table that can be evaluated, and there is none; of {name!r}: {reason}"


def _vendor(
    name: str,
    file: str,
    offers: Mapping[str, Offered],
    measured: Measured | None,
    unusable: Mapping[str, str],
    claims: Mapping[str, Mapping[str, Any]],
    n_rows: int,
) -> Vendor:
    offered, claim = offers.get(name), claims.get(name)
    if measured is None:
        return Vendor(name, file, "not evaluated", unusable[name], offered, claim=claim)
    assert offered is not None
    same = next((o.name for o in offers.values() if o.name != name and o.content == offered.content), None)
    made = Vendor(
        name, file, "ranked", "", offered, n_rows, claim, same, measured.barred, measured.open, measured.own
    )  # fmt: skip
    if measured.barred:
        return replace(made, standing="disqualified", reason=_why(measured.barred))
    if offered.lacking:
        names = ", ".join(map(repr, offered.lacking[:5])) + (", and others" if len(offered.lacking) > 5 else "")
        return replace(made, standing="incomplete", reason=f"it lacks columns of the schema: {names}")
    return made


def _why(barred: list[Finding]) -> str:
    """The rules that were broken, with what was found."""
    return "; ".join(dict.fromkeys(_said(finding) for finding in barred))


def _said(finding: Finding) -> str:
    rule, found = finding.rule, finding.estimate
    if found is None:
        return name_of(rule)
    ends = "" if found.low is None or found.high is None else f" [{found.low:.3g}, {found.high:.3g}]"
    return f"{name_of(rule)} {found.value:.3g}{ends} against a limit of {rule.limit:g}{rule.second}"


def _ranking(
    bench: Bench, vendors: tuple[Vendor, ...], measured: Mapping[str, Measured], n_rows: int
) -> dict[str, Any]:
    """The ranking as plain data: what is the same for all, how each came out, and the order of those that are left."""
    left = {v.name: measured[v.name].figures for v in vendors if v.standing == "ranked"}
    order = ranked({name: figures for name, figures in left.items() if figures is not None})
    standings = {vendor.name: vendor.standing for vendor in vendors}
    return {
        "terms": {
            "rows": n_rows,
            "rows_asked": bench.asked.rows,
            "train_rows": len(bench.train),
            "seed": bench.asked.seed,
            "policy": bench.policy.name,
            "policy_version": bench.policy.version,
        },
        "vendors": [vendor.content() for vendor in vendors],
        **order,
        "picture": picture([one.candidate for one in measured.values()], standings),
    }


def _provenance(bench: Bench, offers: Mapping[str, Offered], key: bytes) -> dict[str, Any]:
    prints = provenance.fingerprints(bench.train, bench.holdout, bench.schema, key)
    attempts = count_attempt(prints["table"], bench.schema, attempt=secrets.token_hex(8), n_tables=len(offers))
    named = {f"vendors/{name}/{shown_name(one.path)}": one.sha256 for name, one in offers.items()}
    warnings = (CLAMPED,) if bench.asked.outside == "clamp" else ()
    said = provenance.Said(warnings=warnings, attempts=attempts, evaluated_at=bench.started)
    return provenance.record(bench.asked.seed, prints, bench.given, named, said)

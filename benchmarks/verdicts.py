"""Verdicts of the shipped policies on tables of which it is known what a gate must say.

``python -m benchmarks.verdicts FOLDER --out verdicts.json``, where FOLDER holds tables as CSV files, such as those of
`benchmarks.three_tables`. Each is cut into train, holdout and fresh rows; `benchmarks.spoiled_tables` makes honest
tables, leaks and garbage of them, and `aim` and `independent` at epsilon 1 stand beside these. Tables that no generator
made are judged by each policy without its rules on a privacy statement, which they cannot have. A second table draws
how near fresh real rows come to each limit. Standard error names what `partner` does not fail, or `internal` passes.
Without FOLDER, only the tables of results are drawn.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.runs import about, keep, read_kept
from benchmarks.sides import Sides
from benchmarks.spoiled_tables import TABLES, make
from evaluate.audit_result import MEASURE as AUDITED
from evaluate.engine import evaluate_beside
from evaluate.gate.decision import Finding
from evaluate.gate.policy import STATEMENT, Policy, load_policy
from evaluate.gate.policy_checks import BROKEN
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.metrics import CATALOG
from evaluate.result import Estimate, Evaluation
from evaluate.tables import Real
from synth.dp.schedule import TradeOff
from synth.dp.schedule_file import stated_schedule
from synth.dp.statement import PrivacyStatement
from synth.schema import Schema

FITTED = {"aim": "aim, epsilon 1", "independent": "independent, epsilon 1"}
"""Names of fits, by generator."""
EPSILON = 1.0
"""Privacy budget of each fit."""
HONEST = tuple(name for name, (must, _) in TABLES.items() if must == "honest")
"""Names of honest tables."""
UNMEASURED = ("statement", "privacy.audit", "released", "training")
"""Sources of numbers that `evaluate.evaluate` does not measure."""
MOST_REASONS = 3
"""That are kept of a verdict."""
MOST_DISTINCT = 200
"""Texts of more distinct values are left out: names and identifiers, of which no generator learns anything."""
MARKS = {"PASS": "P", "FAIL": "F", "INCONCLUSIVE": "?"}
"""Of a verdict, in results: a mark for each policy, in the order of their names."""
JUDGED = ("internal", "partner", "public")
"""Policies whose verdicts are kept, in the order of the letters of a cell."""
ALL_FAIL = "FFF"


def main(arguments: Sequence[str]) -> None:
    """Run what is asked for, keep it in the file after every table, and draw it."""
    options = _options(arguments)
    content: dict[str, Any] = read_kept(options.out, {"about": about(rows=options.rows), "tables": {}})
    for path in _paths(options):
        name = path.name.partition(".")[0]
        content["tables"].setdefault(name, {})
        for seed in range(options.seeds):
            results = _verdicts(path, seed, options)
            content["tables"][name].setdefault(str(seed), {}).update(results)
            keep(options.out, content)
    print("\n".join(_drawn(content)))
    print("\n".join(holes(content["tables"])), file=sys.stderr)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of CSV files; none only draws what --out holds")
    parser.add_argument("--tables", nargs="+", default=[], help="names of files without their ends; unless said, all")
    parser.add_argument("--cases", nargs="+", default=[*TABLES, *FITTED.values()], help="unless said, all")
    parser.add_argument("--rows", type=int, default=6_000, help="of each side at most")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each table")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    return parser.parse_args(arguments)


def _paths(options: argparse.Namespace) -> list[Path]:
    if options.folder is None:
        return []
    paths = sorted([*options.folder.glob("*.csv"), *options.folder.glob("*.csv.gz")])
    return [path for path in paths if not options.tables or path.name.partition(".")[0] in options.tables]


def _verdicts(path: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """By case: each policy's verdict, and the binding rules that are not shown to hold."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    table = table[[name for name in table.columns if _is_learned(table[name])]]
    schema = synth.infer_schema(table)
    # Identifiers and personal data are written anew by every generator, so that real ones are no honest table.
    table = table[[name for name in table.columns if name in {*schema.learned, schema.entity}]]
    schema = synth.infer_schema(table, entity=schema.entity)
    schema = synth.declare_schema(schema, n_units=len(table), dataset=path.name)
    sides = Sides.of(table, options.rows, seed, schema.entity)
    measures = ruled_measures()
    real = Real.prepare(sides.train, sides.holdout, schema, seed=seed, outside="clamp")
    results: dict[str, Any] = {}
    self_tests = None
    for name, synthetic, statement in _made(sides, schema, seed, options.cases):
        if isinstance(synthetic, str):
            results[name] = {"left_out": synthetic}
            continue
        limit = None if statement is None else stated_schedule("", statement.to_dict()).trade_off
        began = time.process_time()
        evaluation = evaluate_beside(
            real, {name: synthetic}, measures=measures, self_tested=self_tests is None,
            statements={} if statement is None else {name: statement},
        )  # fmt: skip
        self_tests = evaluation.self_tests if self_tests is None else self_tests
        judged = _judged(replace(evaluation, self_tests=self_tests), limit)
        verdicts = "".join(MARKS[judged[policy].verdict] for policy in JUDGED)
        results[name] = {"cpu_s": round(time.process_time() - began, 1), "verdicts": verdicts}
        against = {policy: _against(verdict) for policy, verdict in judged.items() if _unexpected(name, verdict)}
        results[name] |= {"against": against} if against else {}
        results[name] |= {"ends": _ends(evaluation)} if name in HONEST else {}
        print(f"{path.name} {seed} {name}: {verdicts}", file=sys.stderr, flush=True)
    return results


def _is_learned(column: pd.Series) -> bool:
    return column.dtype != object or column.nunique() <= MOST_DISTINCT


def _policies() -> list[Policy]:
    return [load_policy(name) for name in JUDGED]


def ruled_measures() -> list[str]:
    """The measures that a binding rule of a shipped policy needs: what only warns changes no verdict."""
    return sorted({_measured_by(measure) for measure in _bound()})


def _measured_by(number: str) -> str:
    by = CATALOG[number].by
    return "" if by in UNMEASURED else by


def _made(
    sides: Sides, schema: Schema, seed: int, cases: Sequence[str]
) -> Iterator[tuple[str, pd.DataFrame | str, PrivacyStatement | None]]:
    """Name, rows (or why there are none) and privacy statement of every table."""
    for position, name in enumerate(TABLES):
        if name in cases:
            yield name, make(name, sides, np.random.default_rng([seed, position])), None
    for generator, name in FITTED.items():
        if name in cases:
            model = synth.fit(sides.train, schema, generator, seed=seed, epsilon=EPSILON)
            yield name, model.sample(len(sides.train), seed=seed), model.statement


def _judged(evaluation: Evaluation, limit: TradeOff | None) -> dict[str, Verdict]:
    """Each policy's verdict without what was not made here: audits, and statements of tables that no generator made."""
    (candidate,) = evaluation.candidates
    skipped = (AUDITED,) if candidate.statement is not None else (AUDITED, STATEMENT)
    results = {}
    for policy in _policies():
        kept = tuple(rule for rule in policy.rules if not rule.measure.startswith(skipped))
        results[policy.name] = judge_candidate(
            candidate, policy.model_copy(update={"rules": kept}), self_tests=evaluation.self_tests,
            limit=limit, real=evaluation.real,
        )  # fmt: skip
    return results


def _ends(evaluation: Evaluation) -> dict[str, float | None]:
    """The unfavorable end of the interval of each number that a binding rule rests on; `None` where there is none."""
    (candidate,) = evaluation.candidates
    ends: dict[str, float | None] = {}
    for measure, higher in _bound().items():
        estimate = candidate.find(measure, ())
        end = None if not isinstance(estimate, Estimate) else estimate.low if higher else estimate.high
        ends[measure] = None if end is None else round(end, 4)
    return ends


def _bound() -> dict[str, bool]:
    """Measures of binding rules that are made here, and whether larger is better."""
    rules = [rule for policy in _policies() for rule in policy.rules if rule.severity == "fail"]
    return {rule.measure: rule.direction == "higher" for rule in rules if _measured_by(rule.measure)}


def _unexpected(name: str, verdict: Verdict) -> bool:
    """True where the verdict is not what the table must get, and of fits, of which nobody knows."""
    must = TABLES[name][0] if name in TABLES else None
    return must is None or verdict.verdict != ("PASS" if must == "honest" else "FAIL")


def _against(verdict: Verdict) -> list[str]:
    """The binding rules that fail the table or come nearest to it, and the self-tests that did not come out."""
    against = [f for f in verdict.findings if f.counts and (f.outcome != "PASS" or verdict.verdict == "PASS")]
    against.sort(key=_room)
    broken = [
        f"self-test {estimate.case}: {estimate.reason}" for estimate in verdict.checks if estimate.outcome == BROKEN
    ]
    return [*(f"{finding.outcome} {_finding_text(finding)}" for finding in against), *broken][:MOST_REASONS]


def _room(finding: Finding) -> float:
    """How far the favorable end of the interval is from failing, as a share of the limit; -1 where it fails."""
    if finding.outcome == "FAIL":
        return -1.0
    estimate, limit = finding.estimate, finding.rule.failing
    if estimate is None or estimate.low is None or estimate.high is None:
        return np.inf
    room = limit - estimate.low if finding.rule.direction == "lower" else estimate.high - limit
    return (
        room / abs(limit) if limit else 1 - estimate.low
    )  # where nothing at all is allowed, none of it is no near miss


def _finding_text(finding: Finding) -> str:
    estimate = finding.estimate
    interval = "" if estimate is None or estimate.low is None else f" [{estimate.low:.4g}, {estimate.high:.4g}]"
    return finding.rule.measure + ("" if estimate is None else f" {estimate.value:.4g}{interval}")


def _drawn(content: Mapping[str, Any]) -> Iterator[str]:
    """Two Markdown tables: of verdicts, and of how near honest rows come to each limit."""
    yield from _drawn_verdicts(content["tables"])
    yield ""
    yield from _drawn_ends(content["tables"])


def holes(tables: Mapping[str, Any]) -> Iterator[str]:
    """A line for each leak and ruin that `partner` does not fail, or `internal` passes, on some table."""
    for case, (must, _) in TABLES.items():
        for table, seeds in tables.items():
            for seed, results in seeds.items():
                marks = dict(zip(JUDGED, results.get(case, {}).get("verdicts", ""), strict=False))
                if must != "honest" and marks and (marks["partner"] != "F" or marks["internal"] == "P"):
                    shown = ", ".join(f"{policy} {marks[policy]}" for policy in ("internal", "partner"))
                    reasons = (
                        results[case]["against"]["partner"] if "partner" in results[case].get("against", {}) else []
                    )
                    yield f"{case} | {table} {seed} | {shown} | {'; '.join(reasons)}"


def _drawn_verdicts(tables: Mapping[str, Any]) -> Iterator[str]:
    """A line for the cases of a kind with equal verdicts; where every policy fails a case, blanks count as failed."""
    yield f"| case | must | {' | '.join(tables)} |"
    yield f"| --- | --- |{' --- |' * len(tables)}"
    must = {name: kind for name, (kind, _) in TABLES.items()} | dict.fromkeys(FITTED.values(), "")
    lines: dict[str, list[str]] = {}
    for case, kind in must.items():
        cells = []
        for seeds in tables.values():
            runs = [results[case]["verdicts"] for results in seeds.values() if "verdicts" in results.get(case, {})]
            cells.append("".join(_worst(marks, kind) for marks in zip(*runs, strict=True)))
        if any(cells):
            cells = [ALL_FAIL] * len(tables) if set(cells) <= {"", ALL_FAIL} else cells
            lines.setdefault(f"{kind} | {' | '.join(cells)}", []).append(case)
    for rest, cases in lines.items():
        yield f"| {'; '.join(cases)} | {rest} |"


def _drawn_ends(tables: Mapping[str, Any]) -> Iterator[str]:
    """A line for each measure: the limits of the policies, and the unfavorable ends of honest rows."""
    yield f"| measure | {' | '.join(JUDGED)} | fresh rows, worst | of |"
    yield f"| --- |{' ---: |' * (len(JUDGED) + 1)} --- |"
    limits = [{rule.measure: rule.limit for rule in policy.rules if rule.severity == "fail"} for policy in _policies()]
    for measure, higher in _bound().items():
        ends = sorted(
            (results[case]["ends"][measure], name) for name, seeds in tables.items() for results in seeds.values()
            for case in HONEST if results.get(case, {}).get("ends", {}).get(measure) is not None
        )  # fmt: skip
        if ends:
            worst, table = ends[0 if higher else -1]
            cells = [f"{of_policy[measure]:g}" if measure in of_policy else "" for of_policy in limits]
            yield f"| `{measure}` | {' | '.join(cells)} | {worst:.3g} | {table} |"


def _worst(marks: Sequence[str], must: str) -> str:
    """The verdict furthest from what it must be: FAIL for honest tables, PASS for all others."""
    return min(marks, key=("F?P" if must == "honest" else "P?F").index)


if __name__ == "__main__":
    main(sys.argv[1:])

"""What monitoring is told: exact names, nothing measured in the public file, alerts that fire on what our files say."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CLIPPED
from evaluate.result import Estimate, Evaluation
from tests.evaluations import altered, conclude, facts
from understudy.bundle.evidence import Delivery
from understudy.extras.ops import prometheus

RULES = Path(prometheus.__file__).with_name("understudy.rules.yml")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def note(spent: float, total: float = 3.0) -> dict[str, Any]:
    return {
        "dataset": "patients", "unit": "row", "reservation": "r", "entry": "e", "epsilon": 1.1, "spent_epsilon": spent,
        "total_epsilon": total, "total_delta": 1e-5,
    }  # fmt: skip


def reserved(last: dict[str, Any]) -> dict[str, Any]:
    kept = {name: last[name] for name in ("dataset", "unit", "spent_epsilon", "total_epsilon", "total_delta")}
    return {**kept, "left_epsilon": last["total_epsilon"] - last["spent_epsilon"]}


def named(evaluation: Evaluation, run_id: str = "ab" * 8, **statement: Any) -> Evaluation:
    """A run on a protected dataset, whose one private fit has this in its statement."""
    first, *others = evaluation.candidates
    assert first.statement is not None
    first = replace(first, statement=altered(first.statement, statement))
    entry = statement.get("ledger")
    known = altered(
        evaluation.provenance, {"run_id": run_id, "ledger": reserved(entry) if isinstance(entry, dict) else None}
    )
    return replace(
        evaluation,
        candidates=(first, *others),
        provenance=known,
        schema=altered(evaluation.schema, {"dataset": "patients"}),
    )


def public(evaluation: Evaluation) -> Samples:
    return labeled(prometheus.public_samples(evaluation, EPOCH))


def internal(evaluation: Evaluation, verdicts: Sequence[Verdict] = ()) -> Samples:
    return labeled(prometheus.internal_samples(evaluation, verdicts))


def labeled(samples: Iterable[prometheus.Sample]) -> Samples:
    return {(name, frozenset(labels.items())): number for name, labels, number in samples}


WRITTEN = """
dp_training_epsilon_consumed{model="mst",dataset="patients",run_id="abababababababab"} 0.9987
dp_training_budget_remaining{dataset="patients"} 1.0
dp_training_budget_limit{dataset="patients"} 3.0
dp_noise_multiplier{model="mst"} 31.622776601683793
dp_training_ledger_entry{model="mst",dataset="patients",run_id="abababababababab",guarantee="formal"} 1.0
understudy_run_timestamp_seconds{dataset="patients",run_id="abababababababab"} 0.0
dp_gradient_clip_fraction{model="mst"} 0.25
dp_membership_inference_auc{model="mst"} 0.503
dp_training_accuracy_delta{model="mst"} 0.06000000000000005
understudy_verdict{model="mst",policy="internal",verdict="PASS"} 1.0
understudy_verdict{model="mst",policy="internal",verdict="FAIL"} 0.0
understudy_verdict{model="mst",policy="internal",verdict="INCONCLUSIVE"} 0.0
""".strip().splitlines()
"""All samples of a run: those of the public file, then of the internal one."""


def test_both_files_hold_the_agreed_names_and_numbers_and_none_is_in_both(
    evaluation: Evaluation, tmp_path: Path
) -> None:
    run = measured(named(evaluation, ledger=note(2.0)), CLIPPED, 0.25)
    write(run, passed(run), tmp_path)
    texts = [(tmp_path / name).read_text() for name in (prometheus.PUBLIC_FILE, prometheus.INTERNAL_FILE)]
    assert [line for line in "".join(texts).splitlines() if not line.startswith("#")] == WRITTEN
    assert not prometheus.PUBLIC.keys() & prometheus.INTERNAL.keys()
    for text in texts if PROMTOOL else ():
        checked = promtool("check", "metrics", text=text)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def disputed(evaluation: Evaluation) -> Evaluation:
    """The same with an audit of the first table that disproves its claim."""
    audit = conclude((1.0, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in of 5 columns")
    return replace(evaluation, candidates=(replace(evaluation.candidates[0], audit=audit), *evaluation.candidates[1:]))


def test_a_guarantee_that_is_void_or_that_an_audit_disproves_has_no_epsilon(evaluation: Evaluation) -> None:
    for run, guarantee in (
        (disputed(named(evaluation, ledger=note(2.0))), "disputed"), (named(evaluation, private=False), "none"),
    ):  # fmt: skip
        told = public(run)
        assert not {name for name, _ in told} & {"dp_training_epsilon_consumed", "dp_noise_multiplier"}
        guarantees = {dict(labels).get("guarantee") for name, labels in told if name == "dp_training_ledger_entry"}
        assert guarantee in guarantees and "formal" not in guarantees


def test_the_public_registry_does_not_depend_on_what_was_measured(evaluation: Evaluation) -> None:
    run = named(evaluation, ledger=note(2.0))
    candidates = tuple(
        replace(
            c, estimates=(Estimate(CLIPPED, 0.5, 9, "none"),), failures=(), figures={}, seconds={"fit": 1e6},
            audit=None, n_rejected_rows=3,
        )
        for c in run.candidates
    )  # fmt: skip
    known = altered(run.provenance, {"fingerprints": {}, "warnings": ["42"], "attempts": {"evaluations": 9}})
    other = replace(run, candidates=candidates, real=facts(train_rows=1), provenance=known, self_tests=())
    assert public(run) == public(other)
    assert internal(run) != internal(other)


@pytest.mark.parametrize("hostile", ['a"} 1\nb{c="\\', "\ud800"])
def test_a_hostile_name_is_a_label_and_no_more(evaluation: Evaluation, hostile: str, tmp_path: Path) -> None:
    odd = replace(evaluation, candidates=(replace(evaluation.candidates[0], name=hostile),))
    write(odd, (), tmp_path)
    content = (tmp_path / prometheus.INTERNAL_FILE).read_text(encoding="utf-8")
    families = list(text_string_to_metric_families(content))
    models = [s.labels["model"] for f in families for s in f.samples if s.name == "dp_membership_inference_auc"]
    assert models == [hostile.encode("utf-8", "replace").decode("utf-8")]


def write(evaluation: Evaluation, verdicts: Sequence[Verdict], folder: Path) -> None:
    prometheus.write_telemetry(Delivery(evaluation, tuple(verdicts), load_policy("internal"), "", None), folder, EPOCH)


def promtool(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    command = [PROMTOOL, *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)


def every_rule() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_every_rule_says_what_to_do_and_rests_on_what_we_export() -> None:
    exported = prometheus.PUBLIC.keys() | prometheus.INTERNAL.keys()
    for rule in every_rule():
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert set(re.findall(r"\b(?:dp|understudy)_\w+", rule["expr"])) <= exported, rule["alert"]


def series(evaluation: Evaluation, verdicts: Sequence[Verdict], folder: Path) -> list[dict[str, str]]:
    """The samples of both files, as promtool's tests take them: a constant for ten days."""
    write(evaluation, verdicts, folder)
    rows = []
    for name in (prometheus.PUBLIC_FILE, prometheus.INTERNAL_FILE):
        for line in (folder / name).read_text().splitlines():
            if not line.startswith("#"):
                sample, number = line.rsplit(" ", 1)
                rows.append({"series": sample, "values": f"{float(number):.10g}x240"})
    return rows


def alerting(cases: dict[str, tuple[list[dict[str, str]], str]], folder: Path) -> dict[str, set[str]]:
    """The alerts that fire by case: samples, and when that is, as promtool finds them."""
    names, tests = [rule["alert"] for rule in every_rule()], []
    for case, (rows, at) in cases.items():
        asked = [{"eval_time": at, "alertname": n, "exp_alerts": [{"exp_labels": {"none": "such"}}]} for n in names]
        tests.append({"name": case, "interval": "1h", "input_series": rows, "alert_rule_test": asked})
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1h", "tests": tests}
    (folder / "tests.yml").write_text(yaml.safe_dump(content))
    ran = promtool("test", "rules", folder / "tests.yml")
    told = re.findall(r"^ +name: (.*),\n +alertname: (\w+),(?:.|\n)*?got:(\[\]?)", ran.stdout + ran.stderr, flags=re.M)
    assert {(case, name) for case, name, _ in told} == set(itertools.product(cases, names)), ran.stdout + ran.stderr
    return {case: {name for each, name, got in told if each == case and got == "["} for case in cases}


def quiet(evaluation: Evaluation) -> Evaluation:
    run = named(evaluation, ledger=note(1.0))
    return replace(run, candidates=run.candidates[:1])


def passed(evaluation: Evaluation, outcome: Any = "PASS") -> tuple[Verdict, ...]:
    return (Verdict(evaluation.candidates[0].name, "internal", 1, "us", outcome, ()),)


def measured(evaluation: Evaluation, measure: str, number: float) -> Evaluation:
    first = evaluation.candidates[0]
    others = tuple(e for e in first.estimates if e.measure != measure)
    changed = replace(first, estimates=(*others, Estimate(measure, number, 4000, "none")))
    return replace(evaluation, candidates=(changed,))


ALERTS: list[tuple[Callable[[Evaluation], Evaluation], str, str | None]] = [
    (lambda e: measured(measured(e, "privacy.membership.auc", 0.60), CLIPPED, 0.90), "PASS", None),
    (lambda e: named(e, ledger=note(2.72)), "PASS", "PrivacyBudgetLow"),
    (lambda e: named(e, ledger=note(2.98)), "PASS", "PrivacyBudgetSpent"),
    (lambda e: measured(e, "privacy.membership.auc", 0.601), "PASS", "MembershipInferenceSucceeds"),
    (lambda e: measured(e, CLIPPED, 0.91), "PASS", "GradientClipFractionHigh"),
    (lambda e: named(e, ledger=None), "PASS", "ProtectedRunWithoutLedgerEntry"),
    (lambda e: disputed(named(e, ledger=note(1.0))), "PASS", "GuaranteeDisputed"),
    (
        lambda e: replace(e, candidates=(replace(e.candidates[0], statement=None),)), "PASS",
        "ProtectedRunWithoutGuarantee",
    ),
    (lambda e: e, "FAIL", "UnderstudyVerdictFail"),
    (lambda e: e, "INCONCLUSIVE", "UnderstudyVerdictInconclusive"),
]  # fmt: skip


@needs_promtool
def test_each_leak_gap_in_the_books_and_verdict_has_its_alert_and_a_run_in_order_none(
    evaluation: Evaluation, tmp_path: Path
) -> None:
    cases, expected = {"no run": ([{"series": "up", "values": "1x240"}], "3h")}, {"no run": {"UnderstudyNoRun"}}
    for number, (change, outcome, alert) in enumerate(ALERTS):
        changed = change(quiet(evaluation))
        rows, case = series(changed, passed(changed, outcome), tmp_path), f"{number}: {alert}"
        cases[case], expected[case] = (rows, "2h"), {alert} if alert else set()
        if alert is None:
            cases["long ago"], expected["long ago"] = (rows, "194h"), {"UnderstudyRunStale"}
    assert alerting(cases, tmp_path) == expected

"""`understudy gate` on a file that somebody changed: an honest verdict or one sentence, and never a false PASS."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluate.engine import evaluate
from evaluate.gate.policy import Policy, Waiver, build_policy
from evaluate.gate.verdict import judge, judge_candidate
from evaluate.real_facts import Shift
from evaluate.result import CASES, Candidate, Estimate, Evaluation, EvaluationError, SelfTest
from evaluate.result_io import evaluation_from
from reports.exports.junit import render_junit
from synth.errors import JobError
from synth.schema import build_schema
from tests.evaluations import SCHEMA, facts, origin, stated, swept
from understudy.evaluate_external import read_policy

COMPOSED = {"epsilon": 4.0, "delta": 1e-6, "n_fits": 4}
SWEEP = swept({"releasable": True, "composed": COMPOSED}, "m")
AUC, PERSONAL = "privacy.membership.auc", "privacy.personal"
ABSENT = tuple(SelfTest(case, absent="It says nothing here.") for case in CASES)
ALIKE = facts(shift=Shift(n_train=1000, n_holdout=1000, p_value=0.5))
QUIET = Estimate(AUC, 0.5, 1000, "lower", low=0.48, high=0.52)


def policy_of(*limits: tuple[str, float]) -> Policy:
    rules = [{"measure": measure, "limit": limit, "why": "w"} for measure, limit in limits]
    return build_policy({"name": "house", "version": 1, "audience": "a", "rules": rules})


CLAIMS = policy_of(("statement.epsilon", 2.0))


def private(provenance: dict[str, Any], **claims: Any) -> Evaluation:
    table = Candidate("m", (QUIET,), statement=stated(**claims))
    return Evaluation((table,), ALIKE, SCHEMA, origin(**provenance), ABSENT)


def verdict_of(provenance: dict[str, Any], **claims: Any) -> str:
    (verdict,) = judge(private(provenance, **claims), [CLAIMS])
    return verdict.verdict


# What a sweep, and what is published, claim.


def published(**together: Any) -> dict[str, Any]:
    return {"released_numbers": {"table": "m", "together": together, "n_fits": 1}}


def test_no_claim_of_several_fits_is_smaller_than_that_of_one_and_none_lifts_a_bar() -> None:
    unpaid = {"sweep": swept({"releasable": False, "composed": COMPOSED}, "m")}
    assert verdict_of({**unpaid, **published()}) == "FAIL"
    assert verdict_of({"sweep": None, **published(private=False)}) == "FAIL"
    assert verdict_of({"sweep": None, **published(epsilon=0.6)}, epsilon=50.0) == "FAIL"
    small = {"sweep": {**SWEEP, "composed": {**COMPOSED, "epsilon": 0.6}}}
    assert verdict_of(small, epsilon=50.0) == "FAIL"
    assert verdict_of({"sweep": SWEEP, **published(epsilon=0.6)}) == "FAIL"
    assert verdict_of({"sweep": None, **published()}) == verdict_of(small) == "PASS"


def written(part: str, **changes: Any) -> str:
    """The file of one private table with another provenance or statement."""
    content = json.loads(private({"sweep": SWEEP, **published()}).to_json())
    known = content["provenance"] if part == "provenance" else content["candidates"][0]["statement"]
    known.update(changes)
    return json.dumps(content)


WHOLE = json.loads(private(published()).to_json())["provenance"]["released_numbers"]
TOGETHER = {**WHOLE["together"], "private": 1}
POINTS = SWEEP["points"]
DAMAGED: list[tuple[str, dict[str, Any]]] = [
    *(("provenance", {"sweep": sweep}) for sweep in (
        [], "no", {}, {"releasable": "true", "composed": COMPOSED, "points": POINTS},
        {"releasable": True, "composed": None, "points": POINTS},
        {"releasable": True, "composed": {**COMPOSED, "epsilon": True}, "points": POINTS},
        {"releasable": True, "composed": {**COMPOSED, "epsilon": 10**400}, "points": POINTS},
    )),
    *(("provenance", {"sweep": None, "released_numbers": numbers}) for numbers in (
        [], {}, {**WHOLE, "table": "another"}, {**WHOLE, "together": {}}, {**WHOLE, "together": TOGETHER},
    )),
    *(("statement", {"private": odd}) for odd in (1, None)),
    *(("statement", {"epsilon": odd}) for odd in (0, True, "1", None, float("inf"), 10**400)),
]  # fmt: skip


@pytest.mark.parametrize(("part", "changes"), DAMAGED)
def test_a_sweep_a_publication_or_a_claim_that_no_run_writes_is_damage(part: str, changes: dict[str, Any]) -> None:
    assert judge(evaluation_from(written(part)), [CLAIMS])
    with pytest.raises(EvaluationError):
        judge(evaluation_from(written(part, **changes)), [CLAIMS])


# Waivers and policies.


def test_a_number_beyond_the_limit_of_what_nobody_may_waive_counts_without_an_interval() -> None:
    policy = policy_of((PERSONAL, 0.0), (AUC, 0.6))
    waiver = Waiver.model_validate(
        {"policy": "house", "version": 1, "candidate": "m", "measure": PERSONAL, "owner": "o", "reason": "r",
         "until": "2999-12-31"}
    )  # fmt: skip
    table = Candidate("m", (QUIET, Estimate(PERSONAL, 0.5, 100, "lower")))
    verdict = judge_candidate(table, policy, waivers=[waiver])
    assert (verdict.verdict, verdict.findings[0].waived) == ("INCONCLUSIVE", False)
    assert "Its waiver does not count" in verdict.findings[0].reason
    unknown = Candidate("m", (QUIET,))
    assert judge_candidate(unknown, policy, waivers=[waiver]).verdict == "PASS"


@pytest.mark.parametrize("name", ["partner", "Partner", "PUBLIC", "ｉnternal"])
def test_a_policy_that_takes_the_name_of_a_shipped_one_is_refused(tmp_path: Path, name: str) -> None:
    lax = {"name": name, "version": 2, "audience": "a", "rules": [{"measure": AUC, "limit": 1.0, "why": "w"}]}
    path = tmp_path / "lax.toml"
    path.write_text(tomli_w.dumps(lax))
    with pytest.raises(JobError, match="rename it"):
        read_policy(str(path))


# The terminal, and what an earlier gate left.


def test_no_verdict_of_an_earlier_gate_survives_an_error(workspace: Any) -> None:
    path, junit = workspace.folder / "evaluation.json", workspace.folder / "gate.xml"
    path.write_text(private({}).to_json())
    assert workspace.run("gate", path, "--policy", "internal", "--junit", junit).exit_code != 2
    assert junit.exists()
    path.write_text("{}")
    assert workspace.run("gate", path, "--policy", "internal", "--junit", junit).exit_code == 2
    assert not junit.exists()


# Any change at all.

ODD: tuple[Any, ...] = (
    None, True, False, "", "x", [], {}, [[]], ["x"], {"x": 1}, -1, 0, 1, 0.5, 1e308, 10**400, "1", "\ud800", "\x1b",
)  # fmt: skip
STRICT = policy_of((AUC, 0.3), ("columns.tvd.excess", 0.2), ("validity.rows", 0.9))
LAX = policy_of(("validity.rows", 0.5), (AUC, 0.75))


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    """Two tables that break the strict policy and keep the lax one, of no sweep."""
    columns = {"age": {"kind": "integer", "bounds": [0, 99]}, "ill": {"kind": "boolean"}}
    rng = np.random.default_rng(0)
    train, holdout, other = (
        pd.DataFrame({"age": rng.integers(0, 99, 100), "ill": rng.random(100) < 0.4}) for _ in range(3)
    )
    measures = ["validity", "privacy.membership", "fidelity.columns"]
    schema = build_schema({"status": "declared", "columns": columns})
    tables = {"a": other, "b": train.assign(age=other["age"])}
    written = evaluate(train, tables, holdout=holdout, schema=schema, measures=measures, statements={"a": stated()})
    provenance = origin(versions={"understudy": "1"})
    small = tuple(replace(each, figures={"columns": []}) for each in written.candidates)
    content: dict[str, Any] = json.loads(replace(written, candidates=small, provenance=provenance).to_json())
    return content


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every node but the root, by the steps that lead to it."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for step, below in pairs:
        yield (*above, step)
        yield from places(below, (*above, step))


def changed(content: dict[str, Any], steps: tuple[Any, ...], way: str, odd: Any) -> dict[str, Any]:
    copy = deepcopy(content)
    parent: Any = reduce(getitem, steps[:-1], copy)
    if way == "drop":
        del parent[steps[-1]]
    elif way == "twice" and isinstance(parent, list):
        parent.insert(steps[-1], deepcopy(parent[steps[-1]]))
    else:
        parent[steps[-1]] = odd
    return copy


def gated(text: str, policy: Policy) -> list[str]:
    """The verdicts of the file, as the gate comes to them and writes them; none where it is refused in a sentence."""
    try:
        verdicts = judge(evaluation_from(text), [policy])
    except (EvaluationError, JobError) as error:
        assert str(error).isprintable()
        return []
    render_junit(verdicts)
    json.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    return [verdict.verdict for verdict in verdicts]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def any_change(content: dict[str, Any], data: st.DataObject) -> tuple[tuple[Any, ...], str, Any]:
    way = st.sampled_from(["drop", "twice", "odd"])
    return data.draw(st.sampled_from([*places(content)])), data.draw(way), data.draw(st.sampled_from(ODD))


MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(data=st.data())
@MANY
def test_no_change_of_a_file_makes_a_pass_of_what_is_none(honest: dict[str, Any], data: st.DataObject) -> None:
    path, way, odd = any_change(honest, data)
    verdicts = gated(json.dumps(changed(honest, path, way, odd)), STRICT)
    if not (is_number(reduce(getitem, path, honest)) and is_number(odd)):
        assert "PASS" not in verdicts


@given(data=st.data())
@MANY
def test_no_change_of_a_file_lifts_the_bar_of_a_sweep(honest: dict[str, Any], data: st.DataObject) -> None:
    barred = {"sweep": swept({"releasable": False, "composed": COMPOSED}, "a", "b")}
    content = {**honest, "provenance": {**honest["provenance"], **barred}}
    assert set(gated(json.dumps(honest), LAX)) == {"PASS"}
    path, way, odd = any_change(content, data)
    honest_too: tuple[Any, ...] = ((("provenance", "sweep"), None), (("provenance", "sweep", "releasable"), True))
    if way != "odd" or not any(path == other and odd == value for other, value in honest_too):
        assert "PASS" not in gated(json.dumps(changed(content, path, way, odd)), LAX)

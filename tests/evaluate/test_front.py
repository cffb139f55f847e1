"""One call for any tables: real rows, then synthetic ones, with or without a holdout and a schema."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evaluate
from evaluate.estimate import NO_HOLDOUT
from evaluate.metrics import CATALOG, MODULES, needs_holdout, numbers_of
from evaluate.options import EvaluationOptions, MeasureOptions
from evaluate.result import Estimate, Evaluation, EvaluationError, Failure
from synth.errors import JobError, SchemaError
from synth.infer import infer_schema
from tests.evaluate.people import rows
from understudy.job.spec import EvaluationSpec


def people(n: int, seed: int) -> pd.DataFrame:
    return rows(n, seed)[["age", "income", "smoker"]]


QUICK = ["validity", "fidelity.columns", "fidelity.pairs"]


def numbers(result: Evaluation) -> list[tuple[Any, ...]]:
    return [(each.measure, each.subject, each.value, each.low, each.high) for each in result.candidates[0].estimates]


REAL, HOLDOUT, MADE = people(300, 0), people(200, 1), people(250, 2)
SCHEMA = infer_schema(pd.concat([REAL, HOLDOUT], ignore_index=True))


@pytest.mark.parametrize(
    ("tables", "settings", "clause"),
    [
        ((REAL, SCHEMA), {}, "synthetic is a schema, and a table belongs there; write schema=..."),
        ((REAL, None), {}, "synthetic is None"),
        ((REAL, MADE), {"mesures": QUICK}, "did you mean 'measures'"),
        ((REAL, MADE), {"measures": ["fidelity.pear"]}, "did you mean 'fidelity.pairs'"),
        ((REAL, {"a": MADE}), {"statements": {"b": None}}, "there is no synthetic table 'b'"),
        ((people(60, 0), MADE), {}, "halves the real rows and needs at least 40 in either half"),
    ],
)
def test_a_wrong_call_is_answered_by_a_sentence(tables: Any, settings: Any, clause: str) -> None:
    with pytest.raises(EvaluationError) as refused:
        evaluate.evaluate(*tables, **settings)
    assert clause in str(refused.value)


def test_a_schema_is_inferred_from_the_real_rows_where_none_is_named() -> None:
    named = evaluate.evaluate(REAL, MADE, holdout=HOLDOUT, schema=SCHEMA, measures=QUICK)
    inferred = evaluate.evaluate(REAL, MADE, holdout=HOLDOUT, measures=QUICK)
    assert (inferred.schema, numbers(inferred)) == (SCHEMA, numbers(named))
    aimed = evaluate.evaluate(REAL, MADE, measures=QUICK, target="smoker")
    assert (aimed.schema.target, aimed.real.target) == ("smoker", "smoker")
    with pytest.raises(SchemaError, match="nobody"):
        evaluate.evaluate(REAL, MADE, target="nobody")


def test_tables_of_any_kind_give_the_same_numbers(tmp_path: Path) -> None:
    import polars as pl
    import pyarrow as pa

    HOLDOUT.to_csv(tmp_path / "holdout.csv", index=False)
    MADE.to_parquet(tmp_path / "made.parquet")
    expected = numbers(evaluate.evaluate(REAL, MADE, holdout=HOLDOUT, schema=SCHEMA, measures=QUICK))
    columns = {name: REAL[name].to_numpy() for name in REAL}
    for real, built, holdout in (
        (columns, {name: MADE[name].tolist() for name in MADE}, tmp_path / "holdout.csv"),
        (pa.Table.from_pandas(REAL), tmp_path / "made.parquet", pl.from_pandas(HOLDOUT)),
        (pl.from_pandas(REAL), {"synthetic": pa.Table.from_pandas(MADE)}, str(tmp_path / "holdout.csv")),
    ):
        result = evaluate.evaluate(real, built, holdout=holdout, schema=SCHEMA, measures=QUICK)
        assert [each.name for each in result.candidates] == ["synthetic"]
        assert numbers(result) == expected


@pytest.fixture(scope="module")
def alone() -> Evaluation:
    """A copy beside fresh rows, and nothing held out."""
    everything = pd.concat([REAL, HOLDOUT], ignore_index=True)
    return evaluate.evaluate(everything, {"fresh": MADE, "copy": everything}, target="smoker")


def test_without_a_holdout_attacks_and_models_are_not_measured(alone: Evaluation) -> None:
    assert (alone.real.train_rows, alone.real.holdout_rows, alone.real.shift.untested) == (500, 0, NO_HOLDOUT)
    fresh = alone.candidates[0]
    for measure in filter(needs_holdout, MODULES):
        result = fresh.find(measure)
        of_others = any(CATALOG[name].needs for name in numbers_of(measure))  # histories and texts, of which are none
        if not isinstance(result, Estimate) and not of_others:
            assert isinstance(result, Failure) and result.message == NO_HOLDOUT, measure
    blind = [each for each in fresh.estimates if needs_holdout(CATALOG[each.measure].by)]
    assert {each.measure for each in blind} == {"privacy.personal", "privacy.copies", "privacy.multiset"}
    assert [each.reference for each in blind] == [None] * 3
    excess = fresh.find("pairs.tvd.excess.worst")
    assert isinstance(excess, Estimate) and excess.low is not None and excess.low < 0.05
    assert {test.case for test in alone.self_tests if test.candidate is not None} == {"honest", "shuffled", "sorted"}


def test_without_a_holdout_a_copy_fails_and_nothing_passes(alone: Evaluation) -> None:
    for policy in ("internal", "partner", "public"):
        fresh, copy = evaluate.judge(alone, policy)
        left = [each for each in fresh.findings if each.outcome != "PASS" and each.rule.measure.startswith("privacy.")]
        assert left and all(NO_HOLDOUT in each.reason for each in left)
        failed = {each.rule.measure for each in fresh.findings if each.outcome == "FAIL"}
        assert failed <= {"statement.epsilon", "statement.delta"} and fresh.verdict != "PASS"
        assert copy.verdict == "FAIL"
        assert "privacy.multiset" in {each.rule.measure for each in copy.findings if each.outcome == "FAIL"}
    verdict = alone.verdict("internal", "fresh")
    assert NO_HOLDOUT in str(verdict) and NO_HOLDOUT in verdict._repr_html_()


@pytest.mark.parametrize(
    ("call", "clause"),
    [
        (lambda one: one.verdict(), "there are 'fresh', 'copy'; name one"),
        (lambda one: one.verdict("internal", "frsh"), "did you mean 'fresh'"),
        (lambda one: one.verdict(["internal"], "fresh"), "the policy is of type list; pass a name that ships"),
        (lambda one: evaluate.judge("internal", one), "takes an evaluation first, and this is a str"),
        (lambda one: evaluate.judge(one, 3), "of type int"),
    ],
)
def test_a_wrong_question_for_a_verdict_is_answered_by_a_sentence(alone: Evaluation, call: Any, clause: str) -> None:
    with pytest.raises((EvaluationError, JobError), match=re.escape(clause)):
        call(alone)


def test_options_are_one_record_for_notebooks_and_jobs() -> None:
    options = EvaluationOptions(measures="fidelity.columns", seed=5, fidelity_rows=150)
    job = EvaluationSpec(measures="fidelity.columns", fidelity_rows=150)
    assert job.options(5, "refuse") == options.model_copy(update={"seed": 5})
    assert set(EvaluationSpec.model_fields) - set(MeasureOptions.model_fields) == {"audit", "shadow_models"}
    assert (EvaluationOptions(targets="all").n_targets, EvaluationOptions().n_targets) == (None, 8_000)

"""Attacks on whole histories: one copied history among honest ones is found, and fresh ones raise no alarm."""

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.gate.policy import load_policy, shipped
from evaluate.gate.verdict import judge_candidate
from evaluate.privacy.membership_attacks import scored, targets_of
from evaluate.real_facts import RealFacts, Shift
from evaluate.result import Estimate
from evaluate.tables import Real, Tables
from synth.schema import Schema, build_schema
from tests.extras.histories.markov import SCHEMA, markov
from understudy.extras.histories.privacy import COPIED, NAME

N = 1_000
HISTORIES = "whole histories"


def tables(seed: int, copied: str = "", schema: Schema = SCHEMA, least: int = 5) -> Tables:
    """Honest histories; one of train among them as it is ("whole"), or with an honest one's rows around ("around")."""
    rng = np.random.default_rng(seed)
    train, holdout, table = markov(N, 10 * seed), markov(N // 2, 10 * seed + 1, N), markov(N, 10 * seed + 2, 3 * N)
    names = [name for name in train if name in schema.columns]
    sizes = train.groupby("machine").size()
    rows = train[train["machine"] == rng.choice(sizes.index[(sizes >= least) & (sizes <= 9)])]
    owner = {"whole": 10**8, "around": int(rng.choice(table["machine"].unique()))}.get(copied)
    if owner is not None:
        table = pd.concat([table, rows.assign(machine=owner)], ignore_index=True)
    return Real.prepare(train[names], holdout[names], schema, seed=seed).beside(table[names])


def estimate_of(tables_measured: Tables, name: str) -> Estimate:
    estimate = measure_candidate("t", tables_measured, measures=[NAME]).find(name)
    assert isinstance(estimate, Estimate), estimate
    return estimate


@pytest.mark.parametrize("copied", ["whole", "around"])
def test_one_copied_history_among_honest_ones_is_found(copied: str) -> None:
    estimate = estimate_of(tables(0, copied), COPIED)
    assert estimate.low > 0.0
    assert round(estimate.value * estimate.n) == 1


@pytest.mark.parametrize("column", ["reading", "state"])
def test_histories_that_are_copied_but_for_one_column_are_found(column: str) -> None:
    """Twenty of them, with a number times 1.01 or another state in each row."""
    base = tables(1)
    sizes = base.train.groupby("machine").size()
    twenty = base.train[base.train["machine"].isin(sizes.index[sizes >= 4][:20])]
    changed = {"reading": twenty["reading"] * 1.01, "state": "warm"}
    copied = twenty.assign(machine=twenty["machine"] + 10**8, **{column: changed[column]})
    table = pd.concat([base.synthetic, copied.astype(base.synthetic.dtypes)], ignore_index=True)
    assert estimate_of(Real.prepare(base.train, base.holdout, SCHEMA, seed=1).beside(table), COPIED).low > 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("copied", ["whole", "around"])
def test_one_copied_history_is_found_in_twenty_of_twenty_tables(copied: str) -> None:
    assert [seed for seed in range(20) if estimate_of(tables(seed, copied), COPIED).low == 0.0] == []


@pytest.mark.statistical
def test_fresh_histories_raise_no_alarm_in_twenty_tables() -> None:
    assert [seed for seed in range(20) if estimate_of(tables(seed), COPIED).low > 0.0] == []


@pytest.mark.statistical
@pytest.mark.parametrize("whole", [False, True])
def test_few_honest_histories_many_times_over_raise_no_alarm(whole: bool) -> None:
    """A generator that draws the same few histories again and again, none of them of anybody in train."""
    schema = SCHEMA if whole else coarse()
    for seed in range(10):
        base = tables(seed, schema=schema)
        few = markov(60, 7_000 + seed, 10**6)[list(base.train.columns)]
        many = pd.concat([few.assign(machine=few["machine"] + 1_000 * i) for i in range(20)], ignore_index=True)
        real = Real.prepare(base.train, base.holdout, schema, seed=seed)
        assert estimate_of(real.beside(many), COPIED).low == 0.0, seed


def test_a_copied_history_breaks_every_policy() -> None:
    real = RealFacts(4_000, 2_000, 0, 0.0, 6, entity="machine", order="day", shift=held())
    for copied, outcome in (("around", "FAIL"), ("", "PASS")):
        candidate = measure_candidate("t", tables(3, copied), measures=[NAME])
        for name in shipped():
            verdict = judge_candidate(candidate, load_policy(name), real=real)
            assert {f.outcome for f in verdict.findings if f.rule.measure == COPIED} == {outcome}


def held() -> Shift:
    return Shift(n_train=4_000, n_holdout=2_000, p_value=0.5, detectable=0.53)


def test_a_copy_of_all_histories_is_found_and_names_members() -> None:
    train, holdout = markov(N, 0), markov(N // 2, 1, N)
    leak = Real.prepare(train, holdout, SCHEMA).beside(train)
    assert estimate_of(leak, COPIED).low > 0.3
    members, controls = scored(leak)[HISTORIES]
    assert len(members) == len(targets_of(leak)[0])
    assert np.median(members) > np.quantile(controls, 0.99)


def coarse() -> Schema:
    """Of states and sites alone: single rows tell nobody apart."""
    content = SCHEMA.model_dump()
    kept = {name: content["columns"][name] for name in ("machine", "day", "state", "site")}
    return build_schema({**content, "columns": kept, "nondecreasing_in_entity": ()})

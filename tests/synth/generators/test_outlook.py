"""What is told of the error of a fit before a row is read: noise on paper, domains that are measured, real fits."""

import itertools
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import synth
from evaluate import evaluate
from synth.domain import dp_bounds
from synth.dp.events import GaussianEvent
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent, Mst
from synth.generators.outlook import BOUNDS_SIGNAL, LEFT, SMOOTH, doubt, outlook
from synth.generators.registry import generator
from synth.schema import Schema, build_schema

N_ROWS = 4000


def schema_of(n_units: int = N_ROWS, **changes: Any) -> Schema:
    columns: dict[str, Any] = {
        "age": {"kind": "integer", "bounds": [0, 99]},
        "income": {"kind": "real", "bounds": [0, 1000], "decimals": 2},
        "town": {"kind": "categorical", "categories": ["a", "b", "c", "d", "e", "f"]},
        "ill": {"kind": "boolean"},
        "grade": {"kind": "integer", "bounds": [0, 4]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        **changes.pop("columns", {}),
    }
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **changes})


def measured(schema: Schema) -> Schema:
    return synth.declare_schema(schema, measure=("age", "income", "town"))


def test_an_outlook_has_the_noise_of_pairs_and_the_share_of_it_that_columns_keep() -> None:
    mst = Mst(epsilon=1.0)
    schedule, expected = mst.schedule(schema_of()), outlook(mst, schema_of())
    assert schedule is not None and expected is not None
    columns, _, pairs = schedule.events
    assert isinstance(columns, GaussianEvent)
    assert isinstance(pairs, GaussianEvent)
    sizes = sorted([34, 34, 8, 4, 7, 34])  # `other` and `missing` beside 32 codes, or those that are declared
    products = sorted(a * b for a, b in itertools.combinations(sizes, 2))
    per_cell = 1 / (N_ROWS * math.sqrt(2 * math.pi))
    assert expected.n_marginals == 5
    assert expected.tree == pytest.approx(4 * 34 * pairs.sigma * per_cell)
    assert expected.pair == pytest.approx(products[len(products) // 2] * pairs.sigma * per_cell)
    assert expected.columns["town"] == pytest.approx(LEFT * 8 * columns.sigma * per_cell, rel=0.02)  # MOST_LEFT is far
    assert expected.columns["age"] == pytest.approx(SMOOTH * columns.sigma * per_cell)
    assert not expected.lost


def test_less_epsilon_columns_to_measure_and_more_rows_of_a_unit_are_expected_to_cost() -> None:
    who = {"who": {"kind": "identifier", "template": "####"}}
    mst = Mst(epsilon=1.0)
    plain, *costly = (
        outlook(mst, schema_of()), outlook(Mst(epsilon=0.2), schema_of()), outlook(mst, measured(schema_of())),
        outlook(mst, schema_of(columns=who, entity="who", max_rows_per_unit=5)),
    )  # fmt: skip
    assert plain is not None
    assert all(other is not None and other.columns["ill"] > plain.columns["ill"] for other in costly)
    alone = build_schema({"status": "declared", "n_units": 100, "columns": {"ill": {"kind": "boolean"}}})
    for kind in (Mst(epsilon=1.0), LatentClass(epsilon=1.0)):
        single = outlook(kind, alone)
        assert single is not None and (single.tree, single.pair, single.n_marginals) == (None, None, 0)
    assert outlook(Mst(), schema_of()) is outlook(generator("trees"), schema_of()) is None


@pytest.mark.parametrize("signal", [4.0, 9.0, 14.0, 22.0])
def test_bounds_are_lost_as_often_as_told(signal: float) -> None:
    """Over numbers of several shapes: the chance that measured bounds clamp a tenth of them."""
    rng = np.random.default_rng(0)
    columns = {"x": {"kind": "real", "measure": True, "decimals": 2}, "k": {"kind": "integer", "measure": True}}
    schema, n = build_schema({"status": "declared", "n_units": 1000, "columns": columns}), 1000
    shapes = [
        ("x", np.exp(rng.normal(7, 1, n))), ("k", rng.normal(45, 14, n).round()), ("k", rng.poisson(0.8, n)),
        ("x", rng.normal(0, 5, n)), ("x", 30 * rng.pareto(1.2, n)),
    ]  # fmt: skip
    lost = []
    for name, values in shapes:
        column: Any = schema.columns[name]
        edges = dp_bounds.public_edges(column, signal)
        counts = dp_bounds.histogram(values.astype(float), edges)
        for _ in range(20):
            low, high = dp_bounds.bounded(
                column, edges, counts + rng.normal(0, n / signal, len(counts)), n / signal
            ).ends
            lost.append(np.mean((values < low) | (values > high)) > 0.1)
    middle, spread = BOUNDS_SIGNAL
    assert np.mean(lost) == pytest.approx(ndtr((middle - signal) / spread), abs=0.2)


def made_up(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_rows)
    numbers = {f"n{i}": np.exp(rng.normal(7, 0.3 + 0.2 * i, n_rows)).round(2) for i in range(4)}
    shares = [(0.6, 0.4), (0.7, 0.2, 0.1), (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)]
    texts = {f"c{i}": rng.choice([f"v{j}" for j in range(len(p))], n_rows, p=p) for i, p in enumerate(shares)}
    return pd.DataFrame({**numbers, **texts})


@pytest.mark.statistical
@pytest.mark.parametrize("measure", [False, True])
def test_columns_are_off_as_far_as_told_within_a_factor_of_two(measure: bool) -> None:
    expected_errors, errors = [], []
    for n_rows, epsilon in ((500, 1.0), (1000, 0.5), (2000, 0.3)) * 3:
        frame = made_up(2 * n_rows)
        inferred = synth.infer_schema(frame)
        names = tuple(frame.columns) if measure else ()
        schema = synth.declare_schema(inferred, n_units=n_rows, measure=names)
        expected = outlook(generator("latent_class", epsilon=epsilon), schema)
        assert expected is not None
        expected_errors += [expected.columns[name] for name in frame.columns]
        real, holdout = frame[:n_rows], frame[n_rows:]
        sampled = synth.fit(real, schema, "latent_class", epsilon=epsilon).sample(n_rows, seed=0)
        evaluation = evaluate(
            real, sampled, holdout=holdout, schema=schema, outside="clamp", measures="fidelity.columns"
        )
        errors += [evaluation.candidates[0].get("columns.tvd.excess", (name,)).value for name in frame.columns]  # type: ignore[union-attr]
    assert 0.5 < np.mean(errors) / np.mean(expected_errors) < 2


def doubted(schema: Schema, epsilon: float = 1.0, **limits: Any) -> str | None:
    independent = Independent(epsilon=epsilon)
    schedule = independent.schedule(schema)
    assert schedule is not None
    return doubt(independent, schema, schedule, **limits)


def test_a_doubt_names_columns_limits_and_what_costs_less_and_keeps_silent_where_there_is_none() -> None:
    asked = measured(schema_of(1200))
    why = doubted(asked)
    assert why is not None and why == doubted(asked)
    assert why.startswith("expected to FAIL policy 'internal' by noise alone")
    assert "a tenth of its values: 'town'" in why and "declare bounds and categories that are public" in why
    (epsilon,) = re.findall(r"about epsilon=([0-9.]+)", why)
    (n_units,) = re.findall(r"fit about ([0-9,]+) units", why)
    assert doubted(asked, 1.1 * float(epsilon)) is None
    assert doubted(measured(schema_of(round(1.1 * int(n_units.replace(",", "")))))) is None
    assert doubted(schema_of(1200)) is None
    assert doubted(asked, worst=None, mean=None, tail=None) is None
    few = made_up(300)
    with pytest.warns(UserWarning, match="expected to FAIL policy 'internal' by noise alone"):
        synth.fit(few, synth.declare_schema(synth.infer_schema(few), n_units=300), "independent", epsilon=1.0)

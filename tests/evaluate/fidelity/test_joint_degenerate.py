"""Whole-row measures on tables nobody would draw from a population: numbers that are finite, or a sentence."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import detection, repeats
from evaluate.tables import Tables
from synth.schema import build_schema
from synth.table import conform

REAL = {"kind": "real", "bounds": [-1e300, 1e300], "missing": True}
LETTERS = {"kind": "categorical", "categories": list("abcd"), "missing": True}
Make = Callable[[int, np.random.Generator], dict[str, object]]
MAKES: dict[str, tuple[Make, dict[str, object]]] = {
    "constant": (lambda n, rng: {"a": ["b"] * n, "x": [1.5] * n}, {"a": LETTERS, "x": REAL}),
    "one number": (lambda n, rng: {"x": rng.standard_normal(n)}, {"x": REAL}),
    "all missing": (lambda n, rng: {"a": [None] * n, "x": [np.nan] * n}, {"a": LETTERS, "x": REAL}),
    "one column missing": (lambda n, rng: {"a": [None] * n, "x": rng.standard_normal(n)}, {"a": LETTERS, "x": REAL}),
    "all categorical": (lambda n, rng: {c: rng.choice(list("abcd"), n) for c in "pq"}, dict.fromkeys("pq", LETTERS)),
    "all numeric": (lambda n, rng: {c: rng.standard_normal(n) for c in "pqr"}, dict.fromkeys("pqr", REAL)),
    "extreme": (lambda n, rng: {"x": rng.choice([0.0, 1e300, -1e300, 1e-300], n)}, {"x": REAL}),
    "dates": (
        lambda n, rng: {"d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), unit="D")},
        {"d": {"kind": "date", "bounds": ["2019-01-01", "2030-01-01"], "missing": True}},
    ),
}


@pytest.mark.parametrize("name", MAKES)
def test_odd_tables_give_finite_numbers_or_a_sentence(name: str, tables_of: Callable[..., Tables]) -> None:
    make, columns = MAKES[name]
    schema = build_schema({"status": "declared", "columns": columns})
    rng = np.random.default_rng(0)
    train, holdout, synthetic = (conform(pd.DataFrame(make(40, rng)), schema, part=True) for _ in range(3))
    tables = tables_of(train, holdout, synthetic, schema)
    for module in (detection, repeats):
        measurement = module.measure(tables)
        told = {e.measure for e in measurement.estimates} | {f.measure for f in measurement.failures}
        assert told == {metric.name for metric in module.METRICS}
        for estimate in measurement.estimates:
            assert estimate.low is not None and estimate.high is not None
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.reference is not None and estimate.floor is not None

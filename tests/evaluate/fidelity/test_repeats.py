"""Rows that stand twice, beside as many real ones."""

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import repeats
from synth.schema import build_schema


def test_rows_that_stand_twice_are_repeated_and_fresh_rows_repeat_as_real_ones_do(population, tables_of, schema):
    rng = np.random.default_rng(11)
    names = ["color", "shape", "count"]
    coarse = schema.model_copy(update={"columns": {name: schema.columns[name] for name in names}})
    parts = [population(n_rows, rng)[names] for n_rows in (900, 400, 450)]
    fresh = repeats.repeated_rows(tables_of(*parts, coarse))
    twice = pd.concat([parts[2]] * 2, ignore_index=True)
    doubled = repeats.repeated_rows(tables_of(*parts[:2], twice, coarse))
    assert fresh.low is not None and fresh.high is not None and doubled.low is not None
    assert fresh.low <= 0.0 <= fresh.high
    assert doubled.low > max(0.05, fresh.value) and "have an equal one" in doubled.note
    assert "Of 900 synthetic rows 100.0% have" in doubled.note


@pytest.mark.statistical
@pytest.mark.parametrize(("n_cells", "skew"), [(5_000, 0.0), (3_000, 1.0), (100, 0.5)])
def test_the_interval_of_repeated_rows_holds_no_difference_between_two_samples(n_cells, skew, tables_of):
    rng, covered = np.random.default_rng(12), []
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, n_cells]}}})
    weights = 1 / np.arange(1, n_cells + 1) ** skew
    for seed in range(60):
        parts = [pd.DataFrame({"x": rng.choice(n_cells, n, p=weights / weights.sum())}) for n in (700, 200, 700)]
        result = repeats.repeated_rows(tables_of(*parts, schema, seed))
        covered.append(result.low <= 0.0 <= result.high)
    assert np.mean(covered) >= 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / 60)

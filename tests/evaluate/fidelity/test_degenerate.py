"""Tables nobody would draw from a population: constant, empty, tiny, odd; every number stays finite."""

import json
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluate.fidelity import columns, pairs, triples
from evaluate.tables import Tables
from synth.schema import build_schema
from synth.table import conform

SCHEMA = build_schema(
    {
        "status": "declared",
        "columns": {
            "a b": {"kind": "integer", "bounds": [-(2**63), 2**63 - 1], "missing": True},
            "it's": {"kind": "real", "bounds": [-1e300, 1e300], "missing": True},
            '"q"': {"kind": "categorical", "categories": ["x", "y"], "missing": True},
            "</script>": {"kind": "boolean", "missing": True},
            "größe": {"kind": "datetime", "bounds": ["1900-01-01T00:00:00", "2100-01-01T00:00:00"], "missing": True},
        },
    }
)
POOLS = {
    "a b": [0, 1, -(2**63), 2**63 - 1, None],
    "it's": [0.0, 1e300, -1e300, 1e-300, None],
    '"q"': ["x", "y", "unseen", None],
    "</script>": [True, False, None],
    "größe": [pd.Timestamp("1900-01-01"), pd.Timestamp("2099-12-31 23:59:59"), None],
}


@st.composite
def frames(draw: st.DrawFn, n_rows: int | None = None) -> pd.DataFrame:
    """Rows whose columns each take a few values from a pool, or one, or none."""
    n = n_rows or draw(st.sampled_from([1, 2, 16, 60]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    built = {}
    for name, pool in POOLS.items():
        allowed = draw(st.lists(st.sampled_from(range(len(pool))), min_size=1, max_size=3))
        built[name] = pd.Series([pool[i] for i in rng.choice(allowed, n)], dtype=object)
    return pd.DataFrame(built)


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(train=frames(50), fresh=frames(40), synthetic=frames())
def test_every_number_is_finite_and_every_figure_is_plain(
    tables_of: Callable[..., Tables], train: pd.DataFrame, fresh: pd.DataFrame, synthetic: pd.DataFrame
) -> None:
    real = [conform(frame, SCHEMA, outside="clamp") for frame in (train, fresh)]
    tables = tables_of(*real, synthetic, SCHEMA)
    for module in (columns, pairs, triples):
        measurement = module.measure(tables)
        json.dumps(measurement.figures, allow_nan=False)
        for estimate in measurement.estimates:
            assert estimate.reference is None or math.isfinite(estimate.reference)
            assert estimate.low is None or estimate.low <= estimate.value <= (estimate.high or 0.0), estimate

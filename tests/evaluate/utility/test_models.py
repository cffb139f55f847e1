"""Models of utility and of inference, learned from rows of any make; pytest turns a warning into a failure."""

import numpy as np
import pandas as pd
import pytest

from evaluate.utility.models import fit_classes
from synth.schema import build_schema


@pytest.mark.parametrize("form", ["linear", "boosting"])
def test_a_target_of_nearly_as_many_classes_as_rows_is_learned_without_a_warning(form) -> None:
    rng, n = np.random.default_rng(0), 40
    rows = pd.DataFrame({"x": rng.normal(size=n), "who": [f"k{i % 30}" for i in range(n)]})
    columns = {
        "x": {"kind": "real", "bounds": [-9, 9]},
        "who": {"kind": "categorical", "categories": sorted(set(rows.who))},
    }
    schema = build_schema({"status": "inferred", "columns": columns, "target": "who"})
    model = fit_classes(form, rows, np.arange(n) % 30, schema, 30)
    assert model.predict(rows).shape == (n, 30)

"""Tests of codes that are made of noisy histograms."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.schema import Schema, build_schema

LEVELS = np.repeat(np.arange(8), [4000, 3000, 2000, 500, 40, 30, 20, 10])


def schema(**roles: object) -> Schema:
    columns = {
        "level": {"kind": "categorical", "categories": list(range(8)), "ordered": True},
        "town": {"kind": "categorical", "categories": ["a", "b"]},
    }
    return build_schema({"status": "declared", "n_units": len(LEVELS), "columns": columns, **roles})


def labels(**roles: object) -> list[str]:
    table = pd.DataFrame({"level": LEVELS, "town": np.where(LEVELS > 3, "a", "b")})
    model: Any = synth.fit(table, schema(**roles), "independent", epsilon=20.0, delta=1e-6, n_bins=10)
    found: list[str] = model.discretizer.labels("level")
    return found


def test_rare_levels_are_merged_with_their_neighbors() -> None:
    assert labels() == ["0", "1", "2", "3 to 7", "other", "missing"]


@pytest.mark.parametrize("roles", [{"target": "level"}, {"sensitive": ["level"]}])
def test_levels_that_matter_most_are_told_apart_where_noise_allows(roles: dict[str, object]) -> None:
    assert labels(**roles)[:6] == ["0", "1", "2", "3", "4", "5"]


def test_values_are_drawn_within_merged_levels_by_their_share() -> None:
    table = pd.DataFrame({"level": LEVELS, "town": np.where(LEVELS > 3, "a", "b")})
    drawn = synth.fit(table, schema(), "independent", epsilon=20.0, delta=1e-6, n_bins=10).sample(9600, seed=0)
    counts = drawn["level"].value_counts().reindex(range(8), fill_value=0).to_numpy(dtype=float)
    assert counts == pytest.approx(np.bincount(LEVELS), abs=60)

"""People who are alone with their quasi-identifiers are counted among all training rows, never in a sample of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy import quasi_identifiers
from evaluate.sample_notes import on_samples
from evaluate.tables import MetricResult, Real, Tables
from synth.schema import Schema, build_schema
from tests.evaluate.stored.conftest import Put, rows, schema_of

SHARE, EXCESS = "privacy.quasi_identifiers", "privacy.quasi_identifiers.excess"
NUMBERS = ("value", "low", "high", "reference", "n", "detectable")
COLUMNS = {"age": {"kind": "integer", "bounds": [0, 500]}, "place": {"kind": "integer", "bounds": [0, 10**6]}}


def named(schema: Schema, *columns: str) -> Schema:
    return build_schema({**schema.model_dump(), "quasi_identifiers": columns})


def numbers(found: MetricResult) -> dict[str, list[Any]]:
    return {one.measure: [getattr(one, part) or 0.0 for part in NUMBERS] for one in found.estimates}


@pytest.mark.parametrize("entities", [pytest.param(False, marks=pytest.mark.slow), True])
def test_crowds_are_those_of_memory(put: Put, entities: bool) -> None:
    schema = named(schema_of(entities=entities), "age", "region", "income")
    frames = {
        name: rows(n, seed, entities=entities)
        for seed, (name, n) in enumerate({"train": 500, "holdout": 900}.items(), 1)
    }
    mixed = [rows(200, 5, entities=entities), frames["train"].head(150)]
    frames["synthetic"] = pd.concat(mixed, ignore_index=True)
    stored = put(frames)
    there = Real.prepare_stored(stored["train"], stored["holdout"], schema, seed=3).beside_stored(stored["synthetic"])
    here = Tables.prepare(frames["train"], frames["holdout"], frames["synthetic"], schema, seed=3)
    found, expected = (quasi_identifiers.measure(tables) for tables in (there, here))
    assert expected.estimates[0].value > 0.2
    for name, of in numbers(expected).items():
        assert numbers(found)[name] == pytest.approx(of, rel=1e-9, abs=1e-9), name
    assert found.figures == expected.figures


def people(n: int, seed: int) -> pd.DataFrame:
    """Rows of which few are alone in a large table, and many in a sample of it."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.geometric(0.03, n).clip(0, 500), "place": rng.zipf(1.6, n).clip(0, 10**6)})


@pytest.fixture
def leaked(put: Put) -> Tables:
    """A synthetic table with every combination that one training row has, and a sample that knows few of them."""
    schema = named(build_schema({"status": "declared", "columns": COLUMNS}), "age", "place")
    frames = {"train": people(8_000, 1), "holdout": people(4_000, 2)}
    alone = frames["train"].drop_duplicates(keep=False)
    stored = put({**frames, "synthetic": alone})
    real = Real.prepare_stored(stored["train"], stored["holdout"], schema, seed=1, sample_rows=800)
    return real.beside_stored(stored["synthetic"])


@pytest.mark.parametrize("put", ["duckdb", "postgres"], indirect=True)
def test_a_leak_of_all_who_are_alone_is_seen_from_a_sample(leaked: Tables) -> None:
    found = quasi_identifiers.measure(leaked)
    assert leaked.stored is not None
    share, excess = on_samples("privacy.quasi_identifiers", found, leaked.stored).estimates
    assert share.value == 1.0 and share.n > 500
    assert excess.value > 0.9 and excess.low is not None and excess.low > 0.8
    classes = found.figures["quasi_identifiers"]["classes"]
    assert sum(one["train"] for one in classes) == 8_000
    assert sum(one["control"] for one in classes) == len(leaked.control)
    assert "held-out" in excess.note and "training" not in excess.note.partition("on seeded samples")[2]

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import pairs
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema
from synth.table import conform


def find(measurement: MetricResult, measure: str) -> Estimate:
    return next(e for e in measurement.estimates if e.measure == measure and not e.subject)


def test_pairs_agree_with_sdmetrics_where_both_measure_the_same(tables: Tables) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("sdmetrics.column_pairs")
        measurement, coded = pairs.measure(tables), EncodedSamples.of(tables, Samples.draw(tables))
        figure = measurement.figures["pairs"]
        frames = [
            pd.DataFrame(codes, columns=list(coded.columns)).astype(str)
            for codes in (rows.codes for rows in coded.rows)
        ]
        for a, b in itertools.combinations(range(len(coded.columns)), 2):
            names = [coded.columns[a], coded.columns[b]]
            expected = theirs.ContingencySimilarity.compute(
                frames[0][names], frames[1][names], num_rows_subsample=None, real_association_threshold=0
            )
            assert 1 - figure["tvd"][a][b] == pytest.approx(expected, abs=1e-9)
        samples = Samples.draw(tables)
        numeric = [s.rows[["length", "count"]].astype(float) for s in samples.all[:2]]
        expected = theirs.CorrelationSimilarity.compute(*numeric)
    assert 1 - find(measurement, "pairs.pearson.mean").value / 2 == pytest.approx(expected, abs=1e-9)


def test_fresh_rows_of_independent_columns_are_not_beyond_shuffled_ones(tables_of: Callable[..., Tables]) -> None:
    rng = np.random.default_rng(0)
    schema = build_schema(
        {"status": "declared", "columns": {n: {"kind": "integer", "bounds": [0, 19]} for n in ("a", "b", "c")}}
    )
    train, fresh, other = (pd.DataFrame({name: rng.integers(0, 20, 400) for name in schema.columns}) for _ in range(3))
    estimate = find(pairs.measure(tables_of(train, fresh, other, schema)), pairs.FLOOR_EXCESS)
    assert estimate.reference is not None
    assert estimate.low is not None
    assert estimate.low < 0.01
    assert estimate.reference == 0.0 > (estimate.floor or 0.0)


def test_whole_entities_stand_in_one_group(tables: Tables) -> None:
    columns = {name: column.model_dump(mode="json") for name, column in tables.schema.columns.items()}
    schema = build_schema(
        {"status": "declared", "entity": "person", "max_rows_per_unit": 9,
         "columns": {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **columns}}
    )  # fmt: skip
    rng = np.random.default_rng(2)
    frames = {
        name: conform(frame.assign(person=rng.integers(0, 200, len(frame))), schema, part=True)
        for name, frame in vars(tables).items()
        if isinstance(frame, pd.DataFrame) and name != "unjudged"
    }
    samples = Samples.draw(replace(tables, schema=schema, **frames))
    assert samples.n_groups == 16
    for sample in samples.all:
        assert pd.Series(sample.groups).groupby(sample.rows["person"]).nunique().max() == 1

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import triples
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.result import Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema

Offer = Callable[[pd.DataFrame], Tables]


def find(measurement: MetricResult, measure: str) -> Estimate:
    return next(e for e in measurement.estimates if e.measure == measure and not e.subject)


def test_every_triple_agrees_with_counting_rows_one_by_one(tables: Tables) -> None:
    coded = EncodedSamples.of(tables, Samples.draw(tables), together=3)
    shares = [
        [
            pd.Series(map(tuple, codes[:, triple])).value_counts(normalize=True)
            for codes in (rows.codes for rows in coded.rows[:3])
        ]
        for triple in (list(t) for t in combinations(range(5), 3))
    ]
    expected, reference = (
        np.mean([of[0].sub(of[side], fill_value=0).abs().sum() / 2 for of in shares]) for side in (1, 2)
    )
    excess = find(triples.measure(tables), "triples.tvd.excess").value
    assert excess == pytest.approx(expected - reference, abs=1e-12)


def test_what_only_three_columns_show_together_is_seen() -> None:
    rng = np.random.default_rng(0)

    def rows(n: int, *, tied: bool) -> pd.DataFrame:
        a, b, free = rng.random((3, n)) < 0.5
        return pd.DataFrame({"a": a, "b": b, "c": a ^ b if tied else free})

    schema = build_schema({"status": "declared", "columns": {name: {"kind": "boolean"} for name in "abc"}})
    tables = Tables.prepare(rows(2000, tied=True), rows(1000, tied=True), rows(1000, tied=False), schema)
    excess = find(triples.measure(tables), "triples.tvd.excess")
    assert excess.low is not None
    assert excess.low > 0.4
    worst = find(triples.measure(tables), "triples.tvd.excess.worst")
    assert worst.value == pytest.approx(excess.value) and "'a' and 'b' and 'c'" in worst.note


def test_a_fresh_sample_is_at_zero_and_shuffled_columns_are_not(
    population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], tables: Tables
) -> None:
    rng = np.random.default_rng(8)
    train, fresh = population(3000, rng), population(1000, rng)
    for synthetic, is_fresh in ((population(1000, rng), True), (shuffle_columns(train, rng), False)):
        measured = triples.measure(tables_of(train, fresh, synthetic, tables.schema))
        for name in triples.NAMES:
            found = find(measured, name)
            assert found.low is not None and found.high is not None
            assert (found.low <= 0.0 <= found.high) == is_fresh, name


def test_of_many_triples_a_sample_is_taken_and_its_error_widens_the_interval(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = find(triples.measure(tables), "triples.tvd.excess")
    monkeypatch.setattr(triples, "MAX_TRIPLES", 8)
    measurement = triples.measure(tables)
    some = find(measurement, "triples.tvd.excess")
    assert measurement.figures["triples"]["share"] == pytest.approx(0.8)
    assert some.low is not None
    assert whole.low is not None
    assert some.low <= whole.value <= some.high
    turned = build_schema({**tables.schema.model_dump(mode="json"), "columns": _turned(tables)})
    assert find(triples.measure(replace(tables, schema=turned)), "triples.tvd.excess").value == pytest.approx(
        some.value, abs=1e-12
    )


def _turned(tables: Tables) -> dict[str, object]:
    return dict(reversed(tables.schema.model_dump(mode="json")["columns"].items()))


def test_two_columns_make_no_triple(tables: Tables) -> None:
    two = {name: tables.schema.columns[name].model_dump(mode="json") for name in ("color", "length")}
    schema = build_schema({"status": "declared", "columns": two})
    measurement = triples.measure(replace(tables, schema=schema))
    assert not measurement.estimates
    assert {f.measure for f in measurement.failures} == set(triples.NAMES)

"""Tables in chunks, and tables larger than their samples: what was not looked at is said, and never taken for safe."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evaluate import validity
from evaluate.engine import evaluate, measure_candidate, on_samples
from evaluate.options import EvaluationOptions
from evaluate.privacy import copies
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Real, Tables
from synth.schema import Schema, build_schema
from tests.evaluate import people
from tests.evaluate.people import MIXED

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P####"}, "score": {"kind": "real", "bounds": [-10, 10]},
    "key": {"kind": "identifier", "bounds": [0, 10**6]}, **MIXED,
}  # fmt: skip
CONSTRAINTS = [
    {"kind": "unique", "columns": ["age", "score"]}, {"kind": "inequality", "low": "age", "high": "income"},
]  # fmt: skip
COUNTED = ("validity", "privacy.copies")
QUICK = (*COUNTED, "fidelity.columns", "privacy.personal")
FEW, LARGE = {"train": 80, "holdout": 60, "synthetic": 75}, {"train": 1_500, "holdout": 900, "synthetic": 1_200}


def schema_of(*, entities: bool = False) -> Schema:
    columns = COLUMNS if entities else {name: column for name, column in COLUMNS.items() if name != "who"}
    content = {
        "status": "declared", "target": "smoker", "quasi_identifiers": ["age", "region"], "columns": columns,
        "constraints": CONSTRAINTS,
    }  # fmt: skip
    return build_schema({**content, "entity": "who", "max_rows_per_unit": 9} if entities else content)


def rows(n: int, seed: int, *, entities: bool = False) -> pd.DataFrame:
    """Mixed rows; with entities, of one to three rows each."""
    rng = np.random.default_rng(seed)
    score, key = np.clip(rng.normal(0, 3, n), -10, 10), np.arange(n) + 10_000 * seed
    frame = people.rows(n, seed).assign(score=score, key=key)
    if entities:
        frame.insert(0, "who", [f"P{1000 * seed + i:04d}" for i in np.sort(rng.integers(0, n // 2, n))])
    return frame


def sides(*, entities: bool = False, n: Mapping[str, int] = LARGE) -> dict[str, pd.DataFrame]:
    """Train, holdout, and a synthetic table with training rows, some twice, and cells that do not fit."""
    built = {name: rows(n[name], seed, entities=entities) for seed, name in enumerate(n, 1)}
    taken, synthetic = built["train"].head(n["train"] // 10), built["synthetic"]
    copied = pd.concat([taken, taken], ignore_index=True)
    if entities:
        copied["who"] = synthetic["who"].to_numpy()[: len(copied)]
    built["synthetic"] = pd.concat([copied, synthetic.iloc[len(copied) :]], ignore_index=True)
    built["synthetic"].loc[[3, 50, 70], "age"] = [500, -1, 130]
    built["synthetic"].loc[[9, 60], "region"] = ["west", " north"]
    return built


def cut(frame: pd.DataFrame, size: int) -> pa.Table:
    return pa.Table.from_batches(pa.Table.from_pandas(frame, preserve_index=False).to_batches(max_chunksize=size))


def real_of(frames: Mapping[str, pd.DataFrame], *, entities: bool = False, sample_rows: int = 150) -> Real:
    few = EvaluationOptions.model_construct(seed=1, outside="clamp", sample_rows=sample_rows)
    return Real.prepare(cut(frames["train"], 400), cut(frames["holdout"], 400), schema_of(entities=entities), few)


def numbers(result: MetricResult) -> dict[Any, list[float | None]]:
    return {(e.measure, e.subject): [e.value, e.low, e.high, e.n] for e in result.estimates}


@pytest.mark.parametrize(("size", "entities"), [(1, False), (7, True)], ids=["one row", "seven rows of entities"])
def test_however_a_table_is_cut_into_chunks_every_number_is_the_same(size: int, entities: bool) -> None:
    frames, schema = sides(entities=entities, n=FEW), schema_of(entities=entities)
    whole, chunks = (
        evaluate(real, synthetic, holdout=holdout, schema=schema, seed=3, outside="clamp", measures=QUICK)
        for real, holdout, synthetic in (frames.values(), [cut(frame, size) for frame in frames.values()])
    )
    assert any(e.measure == "privacy.copies" and e.value > 0.1 for e in chunks.candidates[0].estimates)
    assert chunks.real == whole.real
    assert chunks.self_tests == whole.self_tests
    for part in ("estimates", "failures", "figures"):
        assert getattr(chunks.candidates[0], part) == getattr(whole.candidates[0], part)


@pytest.mark.parametrize("entities", [False, True], ids=["rows", "entities"])
def test_copies_and_violations_are_counted_among_all_rows(entities: bool) -> None:
    frames = sides(entities=entities)
    sampled = real_of(frames, entities=entities, sample_rows=200).beside(frames["synthetic"])
    whole = real_of(frames, entities=entities, sample_rows=10_000).beside(frames["synthetic"])
    assert sampled.n_all("train") == 1_500 > len(sampled.train)
    for measure in (copies.measure, validity.measure):
        result, expected = numbers(measure(sampled)), numbers(measure(whole))
        # What compares with fresh rows rests on their sample, too; which of repeated names is at fault, on a draw.
        drawn = {("validity.rows", ()), ("validity.column", ("key",))}
        exact = [name for name in expected if not name[0].endswith("excess") and name not in drawn]
        assert len(exact) > 3
        assert {name: result[name] for name in exact} == {name: pytest.approx(expected[name]) for name in exact}


@pytest.mark.parametrize("entities", [False, True], ids=["rows", "entities"])
def test_a_sample_holds_whole_entities_and_does_not_depend_on_the_order_of_rows(entities: bool) -> None:
    frames = sides(entities=entities)
    real = real_of(frames, entities=entities, sample_rows=300)
    turned = {name: frame.sample(frac=1, random_state=4) for name, frame in frames.items()}
    again = real_of(turned, entities=entities, sample_rows=300)
    pd.testing.assert_frame_equal(real.train, again.train)
    assert 200 < len(real.train) <= 300 == len(real.shuffled) + 300 - len(real.train)
    if entities:
        sizes = frames["train"]["who"].value_counts()
        assert real.train["who"].value_counts().eq(sizes.loc[real.train["who"].unique()]).all()


def test_an_attack_on_a_sample_says_so_and_allows_for_what_it_did_not_search() -> None:
    frames = sides(n={"train": 1_500, "holdout": 900, "synthetic": 3_000})
    tables = real_of(frames, sample_rows=120).beside(frames["synthetic"])
    result = measure_candidate("a", tables, measures=["privacy.membership", "utility.queries", "privacy.copies"])
    by_name = {estimate.measure: estimate for estimate in result.estimates}
    auc, queries = by_name["privacy.membership.auc"], by_name["utility.queries.excess"]
    note = "on seeded samples: 120 of 1,500 training, 120 of 900 held-out, 600 of 3,000 synthetic rows"
    assert note in auc.note and note in queries.note and "samples" not in by_name["privacy.copies"].note
    assert "80.0% of the rows" in auc.note and "not searched" not in queries.note
    assert auc.high == pytest.approx(min(1.0, 0.5 + (2 * auc.value - auc.low - 0.5) / 0.2))


def noted(tables: Tables, name: str, value: float, low: float, high: float, **more: Any) -> Estimate:
    """The number as it is told of these samples; its first two words name the measure."""
    each = Estimate(name, value, 1_000, "lower", low=low, high=high, **more)
    return on_samples(".".join(name.split(".")[:2]), MetricResult((each,)), tables).estimates[0]


def test_the_upper_end_grows_with_the_share_that_was_not_searched() -> None:
    frames = sides()
    real = real_of(frames)
    half, all_of_it = real.beside(rows(1_500, 9)), real.beside(rows(700, 8))
    assert (half.share_at_hand("synthetic"), all_of_it.share_at_hand("synthetic")) == (0.5, 1.0)
    auc = noted(half, "privacy.membership.auc", 0.52, 0.5, 0.55, detectable=0.56)
    assert (auc.low, auc.value, auc.high, auc.detectable) == (0.5, 0.52, pytest.approx(0.6), pytest.approx(0.62))
    assert noted(half, "privacy.membership.tpr_at_0.01", 0.01, 0.0, 0.03).high == pytest.approx(0.05)
    unseen = noted(half, "privacy.personal", 0.0, 0.0, 0.0)  # all may be of somebody outside the sample
    assert (unseen.low, unseen.high) == (0.0, 1.0)
    # What is alone in a sample of the synthetic table may be one of many in the table.
    single = noted(half, "privacy.singling_out.multivariate", 0.01, 0.0, 0.02)
    assert (single.low, single.high) == (0.0, 1.0) and "may hold anything" in single.note
    single = noted(all_of_it, "privacy.singling_out.multivariate", 0.01, 0.0, 0.02)
    assert single.high == pytest.approx(0.02 * 1_500 / 150) and "among the people of the sample" in single.note
    whole = real_of(frames, sample_rows=5_000).beside(frames["synthetic"])
    assert noted(whole, "privacy.membership.auc", 0.52, 0.5, 0.55).high == 0.55

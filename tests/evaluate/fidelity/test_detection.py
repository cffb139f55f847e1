"""Whether what differs is told apart, and what does not is not."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble

from evaluate.fidelity import detection
from evaluate.fidelity.detection import coded, folds
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema, build_schema
from synth.schema.kinds import TextColumn


@pytest.fixture(scope="module", autouse=True)
def fewer_trees():
    """Boosting as it is, but quick."""
    with pytest.MonkeyPatch.context() as patch:
        few = partial(ensemble.HistGradientBoostingClassifier, max_iter=40)
        patch.setattr(ensemble, "HistGradientBoostingClassifier", few)
        yield


def found(measurement: MetricResult) -> dict[str, Estimate]:
    return {estimate.measure: estimate for estimate in measurement.estimates}


def of(frames: tuple[pd.DataFrame, ...], schema: Schema, tables_of: Callable[..., Tables]) -> dict[str, Estimate]:
    train, holdout, synthetic = frames
    return found(detection.measure(tables_of(train, holdout, synthetic, schema)))


def test_shuffled_columns_are_told_from_real_ones_and_fresh_rows_are_not(tables, offer, population):
    shuffled = found(detection.measure(replace(tables, synthetic=tables.shuffled.iloc[:400])))
    fresh = found(detection.measure(offer(population(400, np.random.default_rng(8)))))
    assert shuffled["joint.c2st.excess"].low > 0.0
    assert fresh["joint.c2st.excess"].low <= 0.0 <= fresh["joint.c2st.excess"].high
    for name in (detection.AUC, detection.EXCESS):
        assert shuffled[name].value > fresh[name].value


def test_a_copy_of_train_is_what_the_reference_is_and_columns_that_are_not_compared_are_named(tables, offer):
    copied = offer(tables.train)
    left_out = {**copied.schema.columns, "said": TextColumn(drop=True)}
    copied = replace(copied, schema=copied.schema.model_copy(update={"columns": left_out}))
    copy = found(detection.measure(copied))
    assert copy["joint.c2st.auc"].note == "Without the columns 'said'. 0.5 is a coin."
    assert copy["joint.c2st.excess"].value == 0.0
    assert copy["joint.c2st.auc"].value == copy["joint.c2st.auc"].reference


def test_folds_hold_whole_entities(tables_with_entities: Tables) -> None:
    for rows in detection.sampled_rows(tables_with_entities)[1:3]:
        units = pd.factorize(rows["person"])[0]
        assert pd.Series(folds(units)).groupby(units).nunique().eq(1).all()
        assert np.bincount(folds(units)).min() > 0
    assert not detection.measure(tables_with_entities).failures


def codes_of(columns: dict[str, object], forms: list[pd.DataFrame]) -> list[np.ndarray]:
    schema = build_schema({"status": "declared", "columns": columns})
    return coded(forms, schema)[0]


def test_codes_leave_no_trace_of_how_a_cell_is_stored():
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"x": rng.integers(0, 9_000, 600)})
    forms = [pd.DataFrame({"x": whole["x"].astype(dtype)}) for dtype in ("int64", "float64", "Int64", "int16")]
    codes = codes_of({"x": {"kind": "integer", "bounds": [0, 9_000]}}, forms)
    assert codes[0].shape[1] > 1  # digits, too
    assert all(np.array_equal(codes[0], other) for other in codes)
    texts = pd.DataFrame({"x": np.array(["no", "maybe", "yes"], dtype=object)[rng.integers(0, 3, 600)]})
    orders = (["yes", "no", "maybe"], ["maybe", "yes", "no"])
    forms = [texts, *(texts.assign(x=pd.Categorical(texts["x"], categories=order)) for order in orders)]
    codes = codes_of({"x": {"kind": "categorical", "categories": ["no", "maybe", "yes"]}}, forms)
    assert all(np.array_equal(codes[0], other) for other in codes)


def test_values_off_their_columns_lattice_are_told_apart(tables_of):
    rng, step = np.random.default_rng(1), 0.25
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [0, 1e7]}}})
    size = 2_000 * step  # many more steps than codes of places
    train, holdout, offered = (pd.DataFrame({"x": np.round(rng.random(300) * size / step) * step}) for _ in range(3))
    moved = offered + np.round(rng.normal(0, step / 3, (300, 1)), 3)
    seen = of((train, holdout, moved.clip(0, 1e7)), schema, tables_of)["joint.c2st.excess"]
    assert seen.value > 0.4


def test_a_difference_that_no_longer_holds_is_seen(tables_of):
    """Every column is right, and every pair nearly: a stay ends some nights off its start and its nights."""
    bounds = ["2010-01-01", "2025-01-01"]
    columns = {name: {"kind": "date", "bounds": bounds} for name in ("start", "end")}
    schema = build_schema(
        {"status": "declared", "columns": {**columns, "nights": {"kind": "integer", "bounds": [0, 60]}}}
    )

    def stays(seed: int, off: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        start, nights = rng.integers(0, 5000, 600), rng.poisson(10, 600)
        gap = np.maximum(nights + rng.integers(-off, off + 1, 600), 0)
        first, last = (pd.Timestamp("2010-01-01") + pd.to_timedelta(days, unit="D") for days in (start, start + gap))
        return pd.DataFrame({"start": first, "end": last, "nights": nights})

    seen = [of((stays(0, 0), stays(1, 0), stays(2, off)), schema, tables_of)["joint.c2st.auc"] for off in (0, 2)]
    assert seen[0].value < 0.56
    assert seen[1].value > 0.8

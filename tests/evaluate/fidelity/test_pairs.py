import itertools
import json
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import dependence, pairs, within
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.result import Estimate
from evaluate.sampling import shuffle_columns
from evaluate.tables import MetricResult, Tables
from synth.schema import build_schema
from synth.table import conform

Offer = Callable[[pd.DataFrame], Tables]


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


def test_the_training_table_itself_scores_zero(tables: Tables) -> None:
    first, second = (tables.train.iloc[part::2].reset_index(drop=True) for part in range(2))
    measurement = pairs.measure(replace(tables, synthetic=tables.train, fresh=first, control=second))
    for estimate in measurement.estimates:
        if estimate.measure.startswith("pairs.dependence"):  # less than the noise of a fresh sample is below it
            assert -0.2 < estimate.value <= 0, estimate.measure
            continue
        if estimate.measure == pairs.FLOOR_EXCESS:
            assert estimate.value < 0
            continue
        best = 1.0 if estimate.direction == "higher" else 0.0
        assert estimate.value == pytest.approx(best, abs=1e-9), estimate.measure


def test_a_fresh_sample_is_near_zero_and_shuffled_columns_are_near_one(
    population: Callable[..., pd.DataFrame], tables_of: Callable[..., Tables], tables: Tables
) -> None:
    rng = np.random.default_rng(8)
    train, fresh = population(6000, rng), population(2000, rng)
    for synthetic, place in ((population(2000, rng), 0.0), (shuffle_columns(train, rng), 1.0)):
        measurement = pairs.measure(tables_of(train, fresh, synthetic, tables.schema))
        share = find(measurement, dependence.SHARE)
        assert share.value == pytest.approx(place, abs=0.2)
        assert share.low is not None
        assert share.high is not None
        assert share.high - share.low < 0.5


def test_the_holdout_offered_as_synthetic_mirrors_the_reference(tables: Tables) -> None:
    measurement = pairs.measure(replace(tables, synthetic=tables.holdout))
    assert find(measurement, "pairs.tvd.excess").value == pytest.approx(0.0, abs=1e-12)
    worst = measurement.figures["pairs"]["worst"]
    assert [pair["tvd"] for pair in worst] == pytest.approx([pair["reference"] for pair in worst], abs=1e-12)


def test_a_constant_synthetic_column_is_undefined_in_the_figure_and_costs_its_associations(
    tables: Tables, offer: Offer
) -> None:
    honest, constant = pairs.measure(tables), pairs.measure(offer(tables.synthetic.assign(flag=True, length=1.0)))
    figure = constant.figures["associations"]
    place = figure["columns"].index("flag")
    assert figure["synthetic"][place] == [None] * 5
    assert figure["train"][place].count(None) == 1
    assert "no association" in find(constant, "pairs.cramers_v.mean").note
    for measure in ("pairs.pearson.mean", "pairs.tvd.excess"):
        assert find(constant, measure).value > find(honest, measure).value


def test_constant_training_columns_are_left_out_and_counted(tables: Tables) -> None:
    constant = replace(tables, train=tables.train.assign(count=pd.array([3] * len(tables.train), dtype="Int64")))
    measurement = pairs.measure(constant)
    assert "Over 3 of 6 pairs" in find(measurement, "pairs.correlation_ratio.mean").note
    failed = {f.measure: f.message for f in measurement.failures}
    assert "constant in the training table" in failed["pairs.pearson.mean"]


@pytest.mark.parametrize("column", ["color", "length"])
def test_one_column_makes_no_pair(tables: Tables, column: str) -> None:
    schema = build_schema(
        {"status": "declared", "columns": {column: tables.schema.columns[column].model_dump(mode="json")}}
    )
    measurement = pairs.measure(replace(tables, schema=schema))
    assert not measurement.estimates
    assert {f.reason for f in measurement.failures} == {"skipped"}
    assert {"pairs.tvd.excess", "pairs.dependence.floor_share"} <= {f.measure for f in measurement.failures}


def test_independent_real_columns_leave_no_room_for_a_floor_share(tables: Tables) -> None:
    loose = replace(tables, train=tables.shuffled)
    halves = tables.shuffled.sample(frac=1.0, random_state=0).reset_index(drop=True)
    loose = replace(loose, fresh=halves.head(400), synthetic=halves.tail(400).reset_index(drop=True))
    assert {dependence.SHARE, within.NAME} <= {f.measure for f in pairs.measure(loose).failures}


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


@pytest.mark.parametrize("n_rows", [1, 2, 15])
def test_a_handful_of_rows_is_measured_without_an_interval(tables: Tables, offer: Offer, n_rows: int) -> None:
    measurement = pairs.measure(offer(tables.synthetic.head(n_rows)))
    assert find(measurement, "pairs.tvd.excess").low is None
    assert "too few rows" in {f.measure: f.message for f in measurement.failures}[dependence.SHARE]


def test_the_worst_ten_are_the_largest(tables: Tables) -> None:
    measurement = pairs.measure(tables)
    figure = measurement.figures["pairs"]
    beyond = [row["tvd"] - row["reference"] for row in figure["worst"]]
    assert beyond == sorted(beyond, reverse=True)
    assert find(measurement, "pairs.tvd.excess.worst").value == pytest.approx(beyond[0])
    named = " and ".join(map(repr, figure["worst"][0]["columns"]))
    assert named in find(measurement, "pairs.tvd.excess.worst").note


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


def test_hundreds_of_categories_are_merged_for_pairs(tables: Tables) -> None:
    names = [f"diagnosis {i}" for i in range(800)]
    schema = build_schema(
        {"status": "declared", "columns": {n: {"kind": "categorical", "categories": names} for n in ("a", "b")}}
    )
    rng = np.random.default_rng(4)
    frame = conform(pd.DataFrame({"a": rng.choice(names, 3000), "b": rng.choice(names, 3000)}), schema)
    wide = replace(tables, schema=schema, train=frame, fresh=frame, synthetic=frame, shuffled=frame)
    assert EncodedSamples.of(wide, Samples.draw(wide)).sizes == (50, 50)


def test_figures_are_plain_data(tables: Tables, offer: Offer) -> None:
    figures = pairs.measure(offer(tables.synthetic.assign(flag=True))).figures
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    kinds = figures["associations"]["kinds"]
    assert kinds[0] == [None, "cramers_v", "cramers_v", "correlation_ratio", "correlation_ratio"]
    assert kinds[3][4] == "pearson"

"""Queries, and every column as a target: what synthetic rows answer and teach."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity.samples import Samples
from evaluate.sampling import shuffle_columns
from evaluate.utility import columns, queries
from evaluate.utility.columns import MEAN, WORST
from synth.domain import Discretizer


def _drawn(tables):
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, queries.N_BINS)
    coded = queries._coded(discretizer, samples)
    return samples, discretizer, coded, queries.drawn_queries(discretizer, coded[0], np.random.default_rng(0))


def test_answers_are_those_of_pandas(make):
    samples, discretizer, coded, drawn = _drawn(make(n=200))
    counts, totals = queries.answers(drawn, coded[0], samples.n_groups)
    frame = pd.DataFrame(discretizer.encode(samples.train.rows))
    position = 0
    for query in drawn:
        rows = frame
        for column, allowed in query.predicates:
            rows = rows[rows[column].map(lambda code, allowed=allowed: bool(allowed[code]))]
        groups = np.zeros(len(rows), int) if query.groups is None else query.groups[rows[query.by]]
        for group in range(query.n_groups):
            index = rows.index[groups == group]
            if query.mean_of < 0:
                assert counts[:, position].sum() == len(index)
            else:
                numbers = samples.train.rows[discretizer.columns[query.mean_of]]
                every = numbers.astype(float)
                asked = (every[index] - every.mean()) / every.std(ddof=0)
                assert counts[:, position].sum() == asked.notna().sum()
                assert totals[:, position].sum() == pytest.approx(asked.sum())
            position += 1
    assert position == counts.shape[1]


def test_the_training_table_answers_its_own_queries_best(make):
    result = {name: make(synthetic=how) for name, how in (("same", lambda t: t), ("new", None))}
    result["shuffled"] = make(synthetic=lambda train: shuffle_columns(train, np.random.default_rng(1)))
    errors = {name: queries.measure(tables).estimates[0].value for name, tables in result.items()}
    assert errors["same"] < 0 < errors["shuffled"] and errors["same"] < errors["new"] < errors["shuffled"]
    assert "0.000" in queries.measure(result["same"]).estimates[0].note


def test_a_fresh_sample_has_no_excess_and_shuffled_columns_have(make):
    excess = queries.measure(make(n=1_000)).estimates[0]
    assert excess.low <= 0 <= excess.high
    bad = queries.measure(make(n=4_000, synthetic=lambda t: shuffle_columns(t, np.random.default_rng(1)))).estimates[0]
    assert bad.low > 0.01
    assert bad.value == pytest.approx(bad.floor, abs=0.02)


@pytest.mark.statistical
def test_the_interval_of_the_excess_covers_in_a_few_repetitions(make):
    # The interval is for one set of queries: they are drawn by the same seed for all replicates.
    drawn = (replace(make(n=300, seed=seed), seed=0) for seed in range(30))
    low, value, high = np.array([(e.low, e.value, e.high) for e in (queries.measure(t).estimates[0] for t in drawn)]).T
    # 30 repetitions of an interval that covers 95%: fewer than 25 would happen 1 time in 300.
    assert np.sum((low <= value.mean()) & (value.mean() <= high)) >= 25


def measured(tables):
    return {each.measure: each for each in columns.measure(tables).estimates}


@pytest.fixture(scope="module")
def fresh(make):
    return measured(make(n=1_000))


def test_a_fresh_sample_teaches_about_as_much_as_training_rows(fresh):
    assert fresh[MEAN].value == pytest.approx(1.0, abs=0.15)
    assert fresh[MEAN].value == pytest.approx(fresh[MEAN].reference, abs=0.15)
    assert fresh[WORST].value == pytest.approx(1.0, abs=0.15)


def test_training_rows_teach_what_training_rows_do(make):
    result = measured(make(n=600, synthetic=lambda train: train))
    assert result[MEAN].value == result[WORST].value == result[MEAN].low == result[MEAN].high == 1.0


def test_shuffled_columns_teach_nothing(make):
    result = measured(make(n=1_000, synthetic=lambda train: shuffle_columns(train, np.random.default_rng(5))))
    assert result[MEAN].high < 0.2 and result[WORST].high < 0.3
    assert result[MEAN].floor == result[WORST].floor == 0.0


def test_a_table_that_serves_for_the_target_alone_is_found(make):
    """Every relation but those with the target is gone; models of the target lose next to nothing by it."""

    def broken(train):
        return train.assign(group=train["group"].sample(frac=1, random_state=1).array)

    tied = make(n=1_000)
    sides = {side: frame.assign(hours=frame["group"].map({"p": 5, "q": 30, "r": 70}).fillna(50).astype("Int64"))
             for side in ("train", "fresh", "control", "synthetic") for frame in (getattr(tied, side),)}  # fmt: skip
    tied = replace(tied, **sides)
    result = measured(replace(tied, synthetic=broken(tied.train)))
    assert result[WORST].high < 0.3 < measured(tied)[WORST].value
    assert "the worst is 'group'" in result[WORST].note or "the worst is 'hours'" in result[WORST].note

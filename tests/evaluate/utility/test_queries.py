from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity.samples import Samples
from evaluate.sampling import shuffle_columns
from evaluate.utility import queries
from synth.domain import Discretizer

from .conftest import population


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


def _coverage(make, n_replicates, n, spoil):
    """The share of replicates whose interval holds the mean of all of them."""

    def spoiled(seed):
        def how(train):
            rng = np.random.default_rng([seed, 2])
            other = population(len(train), rng)[list(train.columns)]
            n_spoiled = int(spoil * len(other))
            bad = shuffle_columns(other.iloc[:n_spoiled].reset_index(drop=True), rng)
            return pd.concat([bad, other.iloc[n_spoiled:]], ignore_index=True)

        return how

    # The interval is for one set of queries: they are drawn by the same seed for all replicates.
    drawn = (replace(make(synthetic=spoiled(s), n=n, seed=s), seed=0) for s in range(n_replicates))
    result = [queries.measure(tables).estimates[0] for tables in drawn]
    center = np.mean([e.value for e in result])
    return float(np.mean([e.low <= center <= e.high for e in result]))


@pytest.mark.statistical
def test_the_interval_of_the_excess_covers_in_a_few_repetitions(make):
    # 30 repetitions of an interval that covers 95%: fewer than 25 would happen 1 time in 300.
    assert _coverage(make, 30, 300, 0.0) >= 25 / 30

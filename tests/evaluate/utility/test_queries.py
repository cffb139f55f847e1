from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity.samples import Samples
from evaluate.sampling import shuffle_columns
from evaluate.utility import queries
from synth.domain import Discretizer

from .conftest import population, schema_of


def _drawn(tables):
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, queries.N_BINS)
    coded = queries._coded(discretizer, samples)
    return samples, discretizer, coded, queries.drawn_queries(discretizer, coded[0], np.random.default_rng(0))


def test_answers_are_those_of_pandas(make):
    samples, discretizer, coded, drawn = _drawn(make(n=200))
    counts, totals = queries.answers(drawn, coded[0], samples.n_groups)
    frame = pd.DataFrame(discretizer.encode(samples.train.rows))
    place = 0
    for query in drawn:
        rows = frame
        for column, allowed in query.predicates:
            rows = rows[rows[column].map(lambda code, allowed=allowed: bool(allowed[code]))]
        groups = np.zeros(len(rows), int) if query.groups is None else query.groups[rows[query.by]]
        for group in range(query.n_groups):
            index = rows.index[groups == group]
            if query.mean_of < 0:
                assert counts[:, place].sum() == len(index)
            else:
                numbers = samples.train.rows[discretizer.columns[query.mean_of]]
                every = numbers.astype(float)
                asked = (every[index] - every.mean()) / every.std(ddof=0)
                assert counts[:, place].sum() == asked.notna().sum()
                assert totals[:, place].sum() == pytest.approx(asked.sum())
            place += 1
    assert place == counts.shape[1]


def test_there_are_five_hundred_of_every_kind(make):
    _, _, _, drawn = _drawn(make(n=200))
    assert len(drawn) == queries.N_QUERIES
    assert {len(query.predicates) for query in drawn if query.groups is None} == {1, 2, 3}
    assert {len(query.predicates) for query in drawn if query.groups is not None} == {0, 1}
    assert 100 < sum(query.mean_of >= 0 for query in drawn) < 150


def test_the_training_table_answers_its_own_queries_best(make):
    found = {name: make(synthetic=how) for name, how in (("same", lambda t: t), ("new", None))}
    found["shuffled"] = make(synthetic=lambda train: shuffle_columns(train, np.random.default_rng(1)))
    errors = {name: queries.measure(tables).estimates[0].value for name, tables in found.items()}
    assert errors["same"] < 0 < errors["shuffled"] and errors["same"] < errors["new"] < errors["shuffled"]
    assert "0.000" in queries.measure(found["same"]).estimates[0].note


def test_a_fresh_sample_has_no_excess_and_shuffled_columns_have(make):
    excess = queries.measure(make(n=1_000)).estimates[0]
    assert excess.low <= 0 <= excess.high
    bad = queries.measure(make(n=4_000, synthetic=lambda t: shuffle_columns(t, np.random.default_rng(1)))).estimates[0]
    assert bad.low > 0.01
    assert bad.value == pytest.approx(bad.floor, abs=0.02)


def test_a_number_in_other_units_is_as_wrong_as_can_be_where_its_mean_is_asked(make):
    far = make(synthetic=lambda train: train.assign(x=5.0))
    near = queries.measure(make()).estimates[0]
    assert queries.measure(far).estimates[0].value > near.value + 0.2


def test_a_table_of_one_constant_column_is_answered(make):
    schema = schema_of(None).model_copy(update={"columns": {"x": schema_of().columns["x"]}})
    same = make(schema, lambda train: train.assign(x=np.nan))
    found = queries.measure(same).estimates
    assert all(np.isfinite(estimate.value) for estimate in found) and len(found) == 1


def test_few_rows_have_no_interval(make):
    found = queries.measure(make(n=12)).estimates[0]
    assert found.low is None and "too few rows" in found.note


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
    found = [queries.measure(tables).estimates[0] for tables in drawn]
    center = np.mean([e.value for e in found])
    return float(np.mean([e.low <= center <= e.high for e in found]))


@pytest.mark.statistical
def test_the_interval_of_the_excess_covers_in_a_few_repetitions(make):
    # 30 repetitions of an interval that covers 95%: fewer than 25 would happen 1 time in 300.
    assert _coverage(make, 30, 300, 0.0) >= 25 / 30


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [0.0, 0.3])
def test_the_interval_of_the_excess_covers_what_it_says(make, spoil):
    # Of 1,000 repetitions; three standard errors of a share of 0.95 are 0.021.
    assert 0.93 <= _coverage(make, 1_000, 400, spoil) <= 0.98

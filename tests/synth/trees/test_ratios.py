"""Numbers beside others: the same ones, and nearly a multiple of them, as often as in real rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from synth.domain.discretizer import CodedRows, Evidence
from synth.schema import build_schema
from synth.trees import Growth, SequentialTrees, fit_sequence
from tests.synth.domain.test_domain import read_off
from tests.synth.evidence import constant

N = 2500
SCHEMA = build_schema({
    "status": "declared",
    "columns": {
        "late": {"kind": "boolean"},
        "bill": {"kind": "integer", "bounds": [0, 200_000]},
        "paid": {"kind": "integer", "bounds": [0, 400_000], "missing": True, "steps": [50], "step_shares": [0.5]},
        "fee": {"kind": "real", "bounds": [0, 200], "decimals": 2},
    },
})  # fmt: skip


def table(n: int = N) -> pd.DataFrame:
    """Who is in time pays the bill in full, or two percent of it; others pay anything, much of it in fifties."""
    rng = np.random.default_rng(0)
    late, bill = rng.random(n) < 0.5, np.floor(rng.lognormal(9, 1, n)).clip(1, 200_000)
    paid = np.select([late, rng.random(n) < 0.5], [np.floor(rng.lognormal(9, 1, n)), bill], np.rint(bill * 0.02))
    paid = np.where(late & (rng.random(n) < 0.5), np.rint(paid / 50) * 50, paid).clip(1, 400_000)
    whole = pd.arrays.IntegerArray(paid.astype(np.int64), rng.random(n) < 0.05)
    fee = np.round(rng.gamma(2, 20, n).clip(0, 200), 2)
    return pd.DataFrame({"late": pd.array(late), "bill": pd.array(bill.astype(np.int64)), "paid": whole, "fee": fee})


def fitted(frame: pd.DataFrame, **more: Any) -> SequentialTrees:
    discretizer = read_off(SCHEMA, frame)
    cells = {at: each.cells(frame[each.name]) for at, each in enumerate(discretizer.attributes)}
    lines = [(at, each) for at, each in enumerate(discretizer.attributes) if each.edges is not None]
    positions = {at: each.column.positions(frame[each.name]) for at, each in lines}
    rows = CodedRows.of(discretizer, cells, positions)
    return fit_sequence(rows, discretizer, np.ones(len(frame)), range(4), Growth(10, 20), 5, **more)


@pytest.fixture(scope="module")
def trees() -> SequentialTrees:
    return fitted(table())


def drawn(trees: SequentialTrees, evidence: Evidence | None = None, n: int = 8000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return trees.draw(n, rng, evidence).decoded(trees.discretizer, rng)


def shares(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Of those in time and late: payments in full, of two percent, in fifties, and none known."""
    ratio = (rows["paid"] / rows["bill"]).to_numpy(dtype=float, na_value=np.nan)
    kinds = [ratio == 1, np.abs(ratio - 0.02) < 0.0005, rows["paid"].to_numpy(float, na_value=np.nan) % 50 == 0]
    late = rows["late"].to_numpy(dtype=bool)
    return np.array([[each[late == who].mean() for who in (False, True)] for each in (*kinds, np.isnan(ratio))])


def test_values_are_the_same_or_a_multiple_as_often_as_real_ones_and_by_what_decides_it(trees: SequentialTrees) -> None:
    assert {index: [source.index for source in each.sources] for index, each in trees.beside.items()} == {2: [1]}
    np.testing.assert_allclose(shares(drawn(trees)), shares(table(20_000)), atol=0.1)


def test_a_value_that_is_given_weighs_rows_by_what_it_is_beside(trees: SequentialTrees) -> None:
    attribute = trees.discretizer.attributes[2]
    cell = int(attribute.cells(pd.Series([20_000]))[0])
    known = {2: int(attribute.group[cell])}, {2: float(attribute.middle_ranks[cell])}
    rows = trees.draw(8000, np.random.default_rng(0), constant(trees.discretizer, 8000, *known))
    weights, bill = np.exp(rows.log_weights), rows.positions[1]
    near = np.abs(bill / 20_000 - 1) < 0.2
    assert np.average(near, weights=weights) > 3 * near.mean()


def test_they_come_back_from_arrays_and_a_fit_on_threads_is_the_same(trees: SequentialTrees) -> None:
    content, arrays = trees.to_arrays()
    again = SequentialTrees.from_arrays(content, arrays, trees.discretizer)
    for other in (again, fitted(table(), n_threads=2)):
        pd.testing.assert_frame_equal(drawn(other, n=500), drawn(trees, n=500))

"""Units of privacy and the padded batches of their rows."""

import numpy as np
import torch

from synth.neural.batches import UnitIndex
from synth.transforms.layout import Encoded


def table(n: int) -> Encoded:
    codes = np.stack([np.arange(n), np.arange(n) % 3], axis=1).astype(np.int32)
    return Encoded(codes, np.zeros((n, 0), dtype=np.float32))


def rows_of(units: UnitIndex, *which: int, size: int = 4) -> list[list[int]]:
    batch = units.batch(np.array(which, dtype=np.int64), size)
    k = units.max_rows_per_unit
    pairs = zip(batch.codes[:, 0].view(size, k).tolist(), batch.mask.view(size, k).tolist(), strict=True)
    return [[code for code, there in zip(*pair, strict=True) if there] for pair in pairs]


def test_without_entities_every_row_is_a_unit() -> None:
    units = UnitIndex.of(table(5))
    assert len(units) == 5
    assert rows_of(units, 1, 4) == [[1], [4], [], []]


def test_rows_of_an_entity_stand_side_by_side_in_the_order_of_the_table() -> None:
    units = UnitIndex.of(table(6), np.array(["b", "a", "b", "c", "a", "b"]), 3)
    assert len(units) == 3
    assert rows_of(units, 0, 1, 2) == [[0, 2, 5], [1, 4], [3], []]


def test_of_an_entity_with_more_rows_than_allowed_the_first_stay() -> None:
    units = UnitIndex.of(table(6), np.array([7, 7, 7, 7, 8, 8]), 2)
    assert rows_of(units, 0, 1) == [[0, 1], [4, 5], [], []]


def test_rows_of_nobody_are_left_out() -> None:
    units = UnitIndex.of(table(4), np.array([None, "a", None, "b"], dtype=object), 2)
    assert len(units) == 2
    assert rows_of(units, 0, 1) == [[1], [3], [], []]


def test_a_batch_has_its_public_shape_whatever_is_in_it() -> None:
    units = UnitIndex.of(table(6), np.array([7, 7, 7, 8, 8, 9]), 3)
    for which in ([], [0], [0, 1, 2]):
        batch = units.batch(np.array(which, dtype=np.int64), 5)
        assert (batch.codes.shape, batch.mask.shape) == ((15, 2), (15,))
        assert batch.codes.dtype == torch.int64
        assert not batch.codes[~batch.mask].any()


def test_a_table_without_rows_gives_padding() -> None:
    assert rows_of(UnitIndex.of(table(0)), size=2) == [[], []]
    assert rows_of(UnitIndex.of(table(0), np.empty(0, dtype=object), 2), size=2) == [[], []]


def test_rows_that_stand_side_by_side_are_units_where_they_are() -> None:
    encoded = table(6)
    units = UnitIndex.side_by_side(encoded, np.array([0, 1, 5]), 3)
    assert rows_of(units, 0, 1, 2) == [[0], [1, 2, 3], [5], []]
    assert np.shares_memory(units.codes.numpy(), encoded.codes)
    assert len(UnitIndex.side_by_side(table(0), np.empty(0, dtype=np.int64), 3)) == 0

"""A table on a device gives its rows as they are, and every one of them once an epoch."""

import numpy as np
import pytest
import torch

from synth.neural.batches import DeviceRows, Epochs
from synth.transforms.layout import Encoded, Layout, Span

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32])
def test_rows_are_one_hot_spans_and_then_scalars(kind: type[np.integer]) -> None:
    layout = Layout((Span("a", 3, whole=True), Span("x", 2, whole=False)), ("x",))
    encoded = Encoded(np.array([[0, 1], [2, 0]], dtype=kind), np.array([[0.5], [-1.0]], np.float32))
    rows = DeviceRows(encoded, layout, CPU)
    assert len(rows) == 2
    found = rows.encoded(*rows.take(torch.tensor([1, 0, 1])))
    last = [0, 0, 1, 1, 0, -1]
    assert found.tolist() == [last, [1, 0, 0, 0, 1, 0.5], last]


@pytest.mark.parametrize(("n", "batch_size"), [(1, 5), (4, 5), (5, 5), (6, 5), (10, 5), (23, 5), (3, 1)])
def test_every_row_comes_once_an_epoch_and_counts_as_a_loaders_batches_would(n: int, batch_size: int) -> None:
    epochs = Epochs(n, batch_size, CPU)
    assert epochs.n_steps == -(-n // batch_size)
    for _ in range(3):
        batches = [epochs.draw() for _ in range(epochs.n_steps)]
        assert all(len(index) == len(weights) == min(n, batch_size) for index, weights in batches)
        seen = torch.cat([index[weights > 0] for index, weights in batches])
        assert sorted(seen.tolist()) == list(range(n))
        # The mean over a batch is that over its own rows alone.
        for step, (_, weights) in enumerate(batches):
            n_rows = min(batch_size, n - step * batch_size)
            assert weights[weights > 0].tolist() == pytest.approx([1 / n_rows] * n_rows)


def test_every_epoch_has_an_order_of_its_own() -> None:
    epochs = Epochs(100, 10, CPU)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = (torch.cat([epochs.draw()[0] for _ in range(10)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert not torch.equal(first, torch.arange(100))


def test_an_order_goes_on_from_a_state() -> None:
    epochs, other = Epochs(23, 5, CPU), Epochs(23, 5, CPU)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(2):
            epochs.draw()
        state = epochs.state()
        expected = [epochs.draw()[0] for _ in range(3)]
        epochs.draw()
    other.load(state)
    assert all(torch.equal(other.draw()[0], batch) for batch in expected)

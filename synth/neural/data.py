"""An encoded table on a device, and the order in which training goes through it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from synth.neural.spans import Spans
from synth.transforms.layout import Encoded, Layout


class Rows:
    """A table on a device: small whole numbers and scalars, made into a network's input when a batch needs it.

    Attributes:
        spans: of the layout.
        codes: *Sensitive*. Of each span, shape (n, n_spans).
        scalars: *Sensitive*. Shape (n, n_scalars).

    Args:
        encoded: *Sensitive*. The table.
        layout: its layout.
        device: where it is kept.
    """

    def __init__(self, encoded: Encoded, layout: Layout, device: torch.device) -> None:
        self.spans = Spans(layout).to(device)
        self.codes = torch.from_numpy(np.ascontiguousarray(encoded.codes)).to(device)
        self.scalars = torch.from_numpy(np.ascontiguousarray(encoded.scalars, dtype=np.float32)).to(device)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scalars of some rows.

        Shape: (n,), to int64 (n, n_spans) and (n, n_scalars).
        """
        return self.codes.index_select(0, index).long(), self.scalars.index_select(0, index)

    def encoded(self, codes: Tensor, scalars: Tensor) -> Tensor:
        """Codes and scalars as a network sees them.

        Shape: int64 (n, n_spans) and (n, n_scalars), to (n, width).
        """
        return torch.cat([self.spans.one_hot(codes), scalars], 1)


class Epochs:
    """Batches of rows that go through a table once an epoch, in an order drawn anew for each.

    All batches have the same size, so that their shapes never change: the last of an epoch is filled with rows of
    weight 0 where it falls short. A table smaller than a batch is one batch.

    Attributes:
        n_steps: batches an epoch.
        size: rows a batch.

    Args:
        n: rows of the table, at least 1.
        batch_size: rows a batch at most.
        device: where the order is drawn and kept.
    """

    def __init__(self, n: int, batch_size: int, device: torch.device) -> None:
        self._n, self.size = n, min(n, batch_size)
        self.n_steps = -(-n // self.size)
        self._step = self.n_steps
        self._order = torch.arange(self.n_steps * self.size, device=device) % n
        real = torch.arange(self.size, device=device) < n - (self.n_steps - 1) * self.size
        real = torch.stack([torch.ones_like(real), real]).float()
        self._weights = real / real.sum(1, keepdim=True)

    def draw(self) -> tuple[Tensor, Tensor]:
        """The rows of the next batch, and their weights, which add up to 1; shape (size,) both."""
        if self._step == self.n_steps:
            self._order = torch.empty_like(self._order)
            torch.randperm(self._n, out=self._order[: self._n])
            self._order[self._n :] = self._order[: len(self._order) - self._n]
            self._step = 0
        self._step += 1
        is_last = self._step == self.n_steps
        return self._order.view(self.n_steps, self.size)[self._step - 1], self._weights[int(is_last)]

    def state(self) -> dict[str, Any]:
        """Where in an epoch it is."""
        return {"order": self._order.clone(), "step": self._step}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from there."""
        self._order, self._step = state["order"].to(self._order.device, copy=True), int(state["step"])

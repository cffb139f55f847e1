"""Batches of encoded rows on a device: epochs of rows without privacy, padded batches of privacy units with it.

The shape of a batch of units depends on public numbers alone, so that it tells nothing of the units that were drawn.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.encoding import Encoded, Layout
from synth.neural.networks import Spans


class DeviceRows:
    """A table on a device: small whole numbers and scalars, made into a network's input when a batch needs it.

    On a processor what lies in a file stays there: its pages are read as batches ask for them.
    """

    def __init__(self, encoded: Encoded, layout: Layout, device: torch.device) -> None:
        self.spans = Spans(layout).to(device)
        self.codes = torch.from_numpy(np.ascontiguousarray(encoded.codes)).to(device)
        self.scalars = torch.from_numpy(np.ascontiguousarray(encoded.scalars, dtype=np.float32)).to(device)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scalars of some rows. Shape: (n,), to int64 (n, n_spans) and (n, n_scalars)."""
        return self.codes.index_select(0, index).long(), self.scalars.index_select(0, index)

    def encoded(self, codes: Tensor, scalars: Tensor) -> Tensor:
        """Codes and scalars as a network sees them; shape (n, width)."""
        return torch.cat([self.spans.one_hot(codes), scalars], 1)


class Epochs:
    """Batches of rows that go through a table once an epoch, in an order drawn anew for each.

    All have the same size, so that shapes never change: the last of an epoch is filled with rows of weight 0. A table
    smaller than a batch is one batch.
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
        """The position within an epoch."""
        return {"order": self._order.clone(), "step": self._step}

    def load(self, state: dict[str, Any]) -> None:
        self._order, self._step = state["order"].to(self._order.device, copy=True), int(state["step"])


WORDS_AT, N_WORDS = 24, 624
"""Of a Mersenne Twister's state as torch writes it: the byte at which its words begin, and how many there are. Each has
32 bits and takes 8 bytes."""


class Batch(NamedTuple):
    """Some units' rows, each unit's side by side, padded."""

    codes: Tensor  # *Sensitive*, int64, shape (size * k, n_spans); 0 where there is no row
    mask: Tensor  # *Sensitive*, where there is a row, shape (size * k,)


@dataclass(frozen=True, eq=False)
class UnitIndex:
    """A table's rows by unit; the codes stay as and where they are.

    Draws for a row (latent noise) are made anew for every row of every sample, each on its own, from
    `secret_generator`. A unit less then leaves the others' draws as likely as they were, and the clip bounds what it
    moves. Shared draws, or draws that an observer knows, would shift from one row to the next where a unit is gone.
    Nothing would bound that.
    `codes`: *Sensitive*. Shape (n, n_spans), integers.
    `first_row`: *Sensitive*. The rank in `order` of each unit's first row, shape (n_units,); `None`: its own number.
    `n_rows`: *Sensitive*. How many rows each unit has, from 0 to `max_rows_per_unit`, shape (n_units,).
    `order`: *Sensitive*. The rows, those of each unit side by side, shape (n,); `None`: they are so already.
    """

    codes: Tensor
    first_row: NDArray[np.int64] | None
    n_rows: NDArray[np.int64]
    max_rows_per_unit: int = 1
    order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.n_rows)

    @classmethod
    def of(cls, encoded: Encoded, entity_ids: NDArray[np.generic] | None = None, max_rows_per_unit: int = 1) -> Self:
        """The units of a table.
        `entity_ids`: *Sensitive*. Whose each row is, shape (n,); rows of nobody are left out. None: each row is a unit.
        """
        codes = torch.from_numpy(np.ascontiguousarray(encoded.codes))
        if entity_ids is None:
            return cls(codes, None, np.broadcast_to(np.int64(1), len(codes)))
        owner, entities = pd.factorize(entity_ids)
        sizes = np.bincount(owner[owner >= 0], minlength=len(entities)).astype(np.int64)
        first_row = np.cumsum(sizes) - sizes + np.count_nonzero(owner < 0)
        kept = np.minimum(sizes, max_rows_per_unit)
        return cls(codes, first_row, kept, max_rows_per_unit, np.argsort(owner, kind="stable"))

    def to(self, device: torch.device) -> "UnitIndex":
        return replace(self, codes=self.codes.to(device))

    def batch(self, units: NDArray[np.int64], size: int) -> Batch:
        """The rows of some units. `units`: *Sensitive*. Which, shape (at most size,)."""
        rank = np.arange(self.max_rows_per_unit)
        index = np.full((size, len(rank)), -1, dtype=np.int64)
        first = units if self.first_row is None else self.first_row[units]
        is_row = rank < self.n_rows[units, None]
        rows = (first[:, None] + rank)[is_row]
        index[: len(units)][is_row] = rows if self.order is None else self.order[rows]
        chosen = torch.from_numpy(index.ravel()).to(self.codes.device)
        mask = chosen >= 0
        if len(self.codes) == 0:
            return Batch(chosen.new_zeros(len(chosen), self.codes.shape[1]), mask)
        return Batch(self.codes.index_select(0, chosen.clamp_min(0)).long() * mask[:, None], mask)


def secret_generator(device: torch.device) -> torch.Generator:
    """A generator for what is drawn for rows: its state is the operating system's, and no checkpoint holds it."""
    generator = torch.Generator(device)
    generator.manual_seed(secrets.randbits(63))
    if device.type == "cpu":
        # Of a seed the processor's generator takes 32 bits, which can be tried out; its state holds 19,937.
        state = generator.get_state()
        words = np.frombuffer(secrets.token_bytes(4 * N_WORDS), dtype=np.uint32).astype(np.int64)
        state[WORDS_AT : WORDS_AT + 8 * N_WORDS].view(torch.int64).copy_(torch.from_numpy(words))
        generator.set_state(state)
    return generator

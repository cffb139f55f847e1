"""Training: batches on a device, epochs without privacy, charged stretches of steps with it; log, checkpoints, an end.

The shape of a batch of units depends on public numbers alone, so that it tells nothing of the units that were drawn. A
training that was cut short goes on from its last checkpoint on the disk.
"""

import copy
import hashlib
import json
import math
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import Steps
from synth.errors import BudgetError, JobError, ModelError
from synth.neural.dp_sgd import ClipTally
from synth.neural.encoding import Encoded, Layout
from synth.neural.networks import Spans
from synth.output import whole_file
from synth.progress import Progress


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
    def of(cls, encoded: Encoded, entities: NDArray[np.int64] | None = None, max_rows_per_unit: int = 1) -> Self:
        """The units of a table.
        `entities`: *Sensitive*. A number for the entity of each row, shape (n,), as `entity_codes` gives them: rows of
        nobody, of numbers below 0, are left out. `None`: each row is a unit.
        """
        codes = torch.from_numpy(np.ascontiguousarray(encoded.codes))
        if entities is None:
            return cls(codes, None, np.broadcast_to(np.int64(1), len(codes)))
        owner = np.full(len(entities), -1, dtype=np.int64)
        owner[entities >= 0], units = pd.factorize(entities[entities >= 0])
        sizes = np.bincount(owner[owner >= 0], minlength=len(units)).astype(np.int64)
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


def device_of(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU where there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise JobError('device="cuda" needs a GPU that PyTorch can use, and there is none; use "cpu" or "auto"')
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


@contextmanager
def seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """Torch's own generators seeded within, and put back as they were after."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if seed is None:
            torch.seed()
        else:
            torch.manual_seed(seed)
        yield


CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"
CLIPPING = "clipping.internal.jsonl"
"""Counts of units with clipped gradients. They are read off real rows. So they are noted only where the owner of the
folder has made this file, and are never handed on.
"""


class Stateful(Protocol):
    """What a checkpoint keeps: networks, optimizers and counters, as tensors and plain data."""

    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder of the caller's, in which one fit keeps its checkpoint and its log."""

    folder: Path

    def save(self, training: Stateful, step: int, course: str) -> str:
        """Write a checkpoint in the place of the last one, whole and durable; its digest."""
        random = [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]
        with whole_file(self.folder / CHECKPOINT) as beside:
            torch.save({"course": course, "step": step, "state": training.state(), "random": random}, beside)
            return _digest(beside)

    def load(self, course: str) -> tuple[dict[str, Any], str] | None:
        """The last checkpoint of a course, and its digest; `None` where there is none. Nothing in it is run."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        checkpoint: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        if checkpoint["course"] != course:
            raise ModelError(f"the checkpoint {str(path)!r} is of another fit; name another folder or remove it")
        return checkpoint, _digest(path)

    def rewind(self, step: int) -> None:
        """Drop from log and tally what came after the last checkpoint and will come again."""
        for path in (self.folder / name for name in (LOG, CLIPPING)):
            if not path.exists():
                continue
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and _step(line) <= step]
            with whole_file(path) as beside:
                beside.write_text("".join(kept), encoding="utf-8")

    def note(self, line: dict[str, Any], name: str = LOG) -> None:
        """Add a line to the log, or to the other file of lines."""
        with (self.folder / name).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def states_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({name: part.state_dict() for name, part in parts.items()})


def restore(parts: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Put networks and optimizers back into states that `states_of` gave, and that they then do not share."""
    for name, part in parts.items():
        part.load_state_dict(copy.deepcopy(states[name]))


def _step(line: str) -> int:
    content = json.loads(line)
    return int(content.get("epoch", content.get("step")))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


CHECKPOINT_S = 30.0  # seconds between two checkpoints of a training without privacy
N_STRETCHES = 20
"""Stretches that private training is charged in: what is lost when it is cut short is one of them at most."""


class Training(Stateful, Protocol):
    """Training that gives no guarantee. A step gives its losses, left on the device."""

    @property
    def n_steps_per_epoch(self) -> int: ...
    def step(self) -> dict[str, Tensor]: ...


class PrivateTraining(Stateful, Protocol):
    """Training by DP-SGD, on draws that a budget has charged. It tells nothing of its losses: they read real rows.

    `finite`: of weights, which are post-processing of these draws. `tally`: *Sensitive*. What the steps clipped: noted
    beside the log, never in it, and only where that is wanted.
    """

    def step(self, steps: Steps) -> None: ...
    @property
    def finite(self) -> bool: ...
    @property
    def tally(self) -> ClipTally: ...


@dataclass(frozen=True)
class Course:
    """The course of a training: its identity, its folder, its progress."""

    name: str
    digest: str
    folder: CheckpointFolder | None
    progress: Progress


def train(training: Training, n_epochs: int, course: Course) -> None:
    """Train for some epochs, from the last checkpoint on where there is one."""
    started = saved = time.monotonic()
    first, _ = take_up(training, course)
    if course.folder is not None:
        course.folder.rewind(first)
    for epoch in range(first + 1, n_epochs + 1):
        course.progress(f"epoch {epoch} of {n_epochs}", (epoch - 1) / n_epochs)
        losses = _epoch(training)
        if not all(math.isfinite(loss) for loss in losses.values()):
            raise _diverged(course.name, f"epoch={epoch}")
        now = time.monotonic()
        if course.folder is not None:
            seconds = round(now - started, 3)
            course.folder.note({"epoch": epoch, **losses, "seconds": seconds})
            if now - saved >= CHECKPOINT_S or epoch == n_epochs:
                course.folder.save(training, epoch, course.digest)
                saved = time.monotonic()


def _epoch(training: Training) -> dict[str, float]:
    """The mean losses of an epoch; the device is waited for once."""
    sums: dict[str, Tensor] = {}
    for _ in range(training.n_steps_per_epoch):
        for name, loss in training.step().items():
            sums[name] = sums[name] + loss if name in sums else loss
    return {name: float(total) / training.n_steps_per_epoch for name, total in sums.items()}


def train_privately(
    training: PrivateTraining, event: SubsampledGaussianEvent, budget: Budget, course: Course
) -> None:  # fmt: skip
    """Do every step of a DP-SGD event, from the last checkpoint on where the budget's journal knows it."""
    started = time.monotonic()
    run = _Stretches(training, course, budget.is_resumable)
    stretch = math.ceil(event.count / N_STRETCHES)
    for begun in range(0, event.count, stretch):
        target = min(begun + stretch, event.count)
        before = run.reached
        run.confirm(target, budget.stretch(event, target - begun, partial(run.reach, target)))
        course.progress(f"step {target:,} of {event.count:,}", target / event.count)
        if course.folder is not None and run.reached > before:
            course.folder.note({
                "step": target,
                "steps": event.count,
                "epsilon": _epsilon_so_far(budget, event, target),
                "delta": budget.schedule.delta,
                "noise_multiplier": event.noise_multiplier,
                "sampling_rate": event.sampling_rate,
                "seconds": round(time.monotonic() - started, 3),
            })  # fmt: skip
            if (course.folder.folder / CLIPPING).exists():
                n_clipped, n_units = training.tally.taken()
                course.folder.note({"step": target, "clipped": n_clipped, "units": n_units}, CLIPPING)


class _Stretches:
    """Private training as far as it got, in this start or an earlier one.

    A checkpoint is on the disk before the journal says that its stretch is done. A start killed between the two leaves
    the checkpoint one stretch ahead of the journal. That stretch is charged again, and not done again.
    """

    def __init__(self, training: PrivateTraining, course: Course, has_journal: bool) -> None:
        self._training, self._course = training, course
        self._checkpoints = course.folder if has_journal else None
        self.reached, self._digest = (0, "") if self._checkpoints is None else take_up(training, course)
        if course.folder is not None:
            course.folder.rewind(self.reached)

    def reach(self, target: int, steps: Steps) -> str:
        """Do what is not done of the steps up to the target; the digest of the checkpoint that holds them."""
        if self.reached < target:
            for _ in range(target - self.reached):
                self._training.step(steps)
            self.reached = target
            if not self._training.finite:
                raise _diverged(self._course.name, f"step={target}")
            if self._checkpoints is not None:
                self._digest = self._checkpoints.save(self._training, target, self._course.digest)
        return self._digest

    def confirm(self, target: int, kept: str) -> None:
        """Refuse weights that are not those the journal tells of."""
        if self.reached < target or (self.reached == target and kept != self._digest):
            raise BudgetError(
                f"the journal of an earlier start says that step={target} was done, and its checkpoint is not there; "
                "start anew (what was drawn stays spent)"
            )


def take_up(training: Stateful, course: Course) -> tuple[int, str]:
    """Steps, epochs or rounds done by the last checkpoint, now taken up, and its digest; zero where there is none."""
    last = None if course.folder is None else course.folder.load(course.digest)
    if last is None:
        return 0, ""
    checkpoint, digest = last
    step, random = checkpoint["step"], checkpoint["random"]
    training.load(checkpoint["state"])
    torch.set_rng_state(random[0])
    if len(random) > 1 and torch.cuda.is_available():
        torch.cuda.set_rng_state(random[1])
    course.progress(f"going on after {step:,}", None)
    return step, digest


def _epsilon_so_far(budget: Budget, event: SubsampledGaussianEvent, n_steps: int) -> float:
    """Epsilon of everything read until then: the other events whole, and the steps done."""
    others = [other for other in budget.schedule.events if other != event]
    return round(epsilon_pld([*others, replace(event, count=n_steps)], budget.schedule.delta), 6)


def _diverged(name: str, where: str) -> ModelError:
    return ModelError(
        f"training of generator={name!r} diverged at {where}: its numbers are no longer finite; lower learning_rate"
    )

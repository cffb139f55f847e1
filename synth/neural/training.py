"""The training loop: epochs without privacy, charged stretches of steps with it; device, log, checkpoints, a clear end.

A training that was cut short goes on from its last checkpoint on the disk.
"""

import copy
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import Steps
from synth.errors import BudgetError, JobError, ModelError
from synth.neural.dp_sgd import ClipTally
from synth.output import whole_file
from synth.progress import Progress

Device = Literal["auto", "cpu", "cuda"]


def device_of(name: Device) -> torch.device:
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


class Checkpoint(NamedTuple):
    """Training as it stood after some steps."""

    course: str
    step: int
    state: dict[str, Any]
    random: list[torch.Tensor]


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder of the caller's, in which one fit keeps its checkpoint and its log."""

    folder: Path

    def save(self, checkpoint: Checkpoint) -> str:
        """Write a checkpoint in the place of the last one, whole and durable; its digest."""
        path = self.folder / CHECKPOINT
        with whole_file(path) as beside:
            torch.save(checkpoint._asdict(), beside)
            digest = _digest(beside)
        return digest

    def load(self, course: str) -> tuple[Checkpoint, str] | None:
        """The last checkpoint of a course, and its digest; `None` where there is none. Nothing in it is run."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        checkpoint = Checkpoint(**torch.load(path, weights_only=True, map_location="cpu"))
        if checkpoint.course != course:
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

    @property
    def tallies(self) -> bool:
        """True if the owner of the folder wants to know how often gradients were clipped."""
        return (self.folder / CLIPPING).exists()

    def note(self, line: dict[str, Any], name: str = LOG) -> None:
        """Add a line to the log, or to the other file of lines."""
        with (self.folder / name).open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


def states_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the states of networks and optimizers, by name."""
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


class Stateful(Protocol):
    """What a checkpoint keeps: networks, optimizers and counters, as tensors and plain data."""

    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


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
                save_checkpoint(training, epoch, course.digest, course.folder)
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
        run.confirm(target, budget.step(event, target - begun, partial(run.reach, target)))
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
            if course.folder.tallies:
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
                self._digest = save_checkpoint(self._training, target, self._course.digest, self._checkpoints)
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
    training.load(checkpoint.state)
    torch.set_rng_state(checkpoint.random[0])
    if len(checkpoint.random) > 1 and torch.cuda.is_available():
        torch.cuda.set_rng_state(checkpoint.random[1])
    course.progress(f"going on after {checkpoint.step:,}", None)
    return checkpoint.step, digest


def save_checkpoint(training: Stateful, step: int, digest: str, folder: CheckpointFolder) -> str:
    """Write a checkpoint in the place of the last one; its digest."""
    random = [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]
    return folder.save(Checkpoint(digest, step, training.state(), random))


def _epsilon_so_far(budget: Budget, event: SubsampledGaussianEvent, n_steps: int) -> float:
    """Epsilon of everything read until then: the other events whole, and the steps done."""
    others = [other for other in budget.schedule.events if other != event]
    return round(epsilon_pld([*others, replace(event, count=n_steps)], budget.schedule.delta), 6)


def _diverged(name: str, where: str) -> ModelError:
    return ModelError(
        f"training of generator={name!r} diverged at {where}: its numbers are no longer finite; lower learning_rate"
    )

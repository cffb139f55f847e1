"""Training on the disk: where it goes on from when it was cut short, and a log of how it went."""

import copy
import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from synth.errors import ModelError
from synth.output import whole_file

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"
CLIPPING = "clipping.internal.jsonl"
"""How many units' gradients were clipped. That is read off real rows, so that it is noted only where whoever owns the
folder has made this file, and is no part of what is handed on."""


@dataclass(frozen=True)
class Checkpoint:
    """Training as it stood after some steps.

    Attributes:
        course: digest of what is trained, so that no checkpoint is taken up by another fit.
        step: steps done.
        state: of networks and optimizers, tensors and plain data.
        random: of torch's own generators.
    """

    course: str
    step: int
    state: dict[str, Any]
    random: list[torch.Tensor]


@dataclass(frozen=True)
class CheckpointFolder:
    """A folder of the caller's, in which one fit keeps its checkpoint and its log.

    Attributes:
        folder: it exists, and no other fit writes to it.
    """

    folder: Path

    def save(self, checkpoint: Checkpoint) -> str:
        """Write a checkpoint in the place of the last one, whole and durable; its digest."""
        path = self.folder / CHECKPOINT
        with whole_file(path) as beside:
            torch.save(vars(checkpoint), beside)
            digest = _digest(beside)
        return digest

    def load(self, course: str) -> tuple[Checkpoint, str] | None:
        """The last checkpoint of a course, and its digest; none where there is none. Nothing in it is run.

        Raises:
            ModelError: the file is damaged, or of another course; it was left as it is.
        """
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            found = Checkpoint(**torch.load(path, weights_only=True, map_location="cpu"))
        except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, ValueError, LookupError) as error:
            raise ModelError(
                f"the checkpoint {str(path)!r} is damaged ({type(error).__name__}); remove it and start anew"
            ) from None
        if found.course != course:
            raise ModelError(f"the checkpoint {str(path)!r} is of another fit; name another folder or remove it")
        return found, _digest(path)

    def rewind(self, step: int) -> None:
        """Drop from log and tally what came after the last checkpoint and will come again.

        Args:
            step: steps or epochs that the checkpoint has done.
        """
        for path in (self.folder / name for name in (LOG, CLIPPING)):
            if not path.exists():
                continue
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and _step(line) <= step]
            with whole_file(path) as beside:
                beside.write_text("".join(kept), encoding="utf-8")

    @property
    def tallies(self) -> bool:
        """Whether whoever owns the folder wants to know what was clipped."""
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

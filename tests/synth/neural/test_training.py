"""The loop around every training: where it goes on, what it writes down, how it ends, and what it is charged."""

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, ModelError
from synth.neural import training as loop
from synth.neural.dp_sgd import ClipTally
from synth.neural.training import CHECKPOINT, LOG, CheckpointFolder, Course, seeded, train, train_privately
from synth.progress import quiet

STEPS = SubsampledGaussianEvent("steps", noise_multiplier=2.0, sampling_rate=0.2, count=45)
SCHEDULE = Schedule((GaussianEvent("counts", sigma=20.0), STEPS), 1e-6)
CPU = torch.device("cpu")


class Walk:
    """A weight that every step moves at random; it breaks when told to."""

    n_steps_per_epoch = 3

    def __init__(self, break_at: int | None = None, diverge_at: int | None = None) -> None:
        self.weight, self.n_done = torch.zeros(2), 0
        self._break_at, self._diverge_at = break_at, diverge_at

    def step(self) -> dict[str, Tensor]:
        self._move(torch.randn(2))
        return {"loss": self.weight.sum()}

    def _move(self, by: Tensor) -> None:
        if self.n_done == self._break_at:
            raise KeyboardInterrupt
        self.n_done += 1
        self.weight = self.weight + by * (math.nan if self.n_done == self._diverge_at else 1.0)

    @property
    def finite(self) -> bool:
        return bool(self.weight.isfinite().all())

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight, "n_done": self.n_done}

    def load(self, state: Mapping[str, Any]) -> None:
        self.weight, self.n_done = state["weight"], state["n_done"]


class PrivateWalk(Walk):
    """The same, moved by noisy sums."""

    tally = ClipTally()

    def step(self, steps: Steps) -> None:  # type: ignore[override]
        units = steps.sample(50)
        self._move(torch.from_numpy(steps.release(np.array([float(len(units)), 0.0]), 1.0)).float())


def course(folder: Path | None, digest: str = "course") -> Course:
    if folder is not None:
        folder.mkdir(exist_ok=True)
    return Course("walk", digest, None if folder is None else CheckpointFolder(folder), quiet)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


@pytest.fixture(autouse=True)
def _every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_S", 0.0)


@pytest.mark.parametrize("break_at", [1, 4, 6, 14])
def test_training_that_was_cut_short_goes_on_and_ends_where_it_would_have(tmp_path: Path, break_at: int) -> None:
    whole, broken, again = Walk(), Walk(break_at), Walk()
    with seeded(3, CPU):
        train(whole, 5, course(None))
    with seeded(3, CPU), pytest.raises(KeyboardInterrupt):
        train(broken, 5, course(tmp_path))
    with seeded(3, CPU):
        train(again, 5, course(tmp_path))
    assert again.n_done == whole.n_done == 15
    assert torch.equal(again.weight, whole.weight)
    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5]


def test_the_log_of_a_plain_training_tells_the_mean_losses_of_every_epoch(tmp_path: Path) -> None:
    walk, seen = Walk(), []
    with seeded(0, CPU):
        train(walk, 2, course(tmp_path))
    with seeded(0, CPU):
        again = Walk()
        seen = [float(again.step()["loss"]) for _ in range(6)]
    told = [line["loss"] for line in lines(tmp_path)]
    assert told == pytest.approx([np.mean(seen[:3]), np.mean(seen[3:])], rel=1e-6)


def test_epochs_after_the_last_checkpoint_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_S", 1e9)
    with pytest.raises(KeyboardInterrupt):
        train(Walk(break_at=10), 5, course(tmp_path))
    with (tmp_path / LOG).open("a") as log:
        log.write('{"epoch": 4, "lo')
    train(Walk(), 5, course(tmp_path))
    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_loss_that_is_no_number_ends_training_with_a_sentence_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'walk' diverged at epoch=2.*lower learning_rate"):
        train(Walk(diverge_at=5), 4, course(tmp_path))
    with pytest.raises(ModelError, match="diverged at step=6"):
        train_privately(PrivateWalk(diverge_at=5), STEPS, Budget(SCHEDULE), course(None))
    kept = CheckpointFolder(tmp_path).load("course")
    assert kept is not None
    assert kept[0].step == 1


@pytest.mark.parametrize("damage", [b"", b"torn", None])
def test_a_damaged_or_foreign_checkpoint_is_refused_and_left(tmp_path: Path, damage: bytes | None) -> None:
    train(Walk(), 1, course(tmp_path))
    if damage is not None:
        (tmp_path / CHECKPOINT).write_bytes(damage)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ModelError, match="another fit" if damage is None else "damaged"):
        train(Walk(), 1, course(tmp_path, "other"))
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_loading_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"course": "course", "step": 1, "state": Trap(), "random": []}, tmp_path / CHECKPOINT)
    with pytest.raises(ModelError, match="damaged"):
        train(Walk(), 1, course(tmp_path))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.statistical
def test_private_training_does_every_step_once_and_logs_no_loss(tmp_path: Path) -> None:
    walk = PrivateWalk()
    train_privately(walk, STEPS, Budget(SCHEDULE), course(tmp_path))
    assert walk.n_done == STEPS.count
    told = lines(tmp_path)
    assert told[-1]["epsilon"] == pytest.approx(SCHEDULE.epsilon, rel=1e-6)
    assert all(a["epsilon"] < b["epsilon"] for a, b in pairwise(told))
    known = {"step", "steps", "epsilon", "delta", "noise_multiplier", "sampling_rate", "seconds"}
    assert all(set(line) == known for line in told)
    assert not (tmp_path / CHECKPOINT).exists()  # without a journal nobody could tell what it holds


def test_epsilon_so_far_is_that_of_the_steps_done_and_everything_else() -> None:
    done = SubsampledGaussianEvent("steps", noise_multiplier=2.0, sampling_rate=0.2, count=9)
    expected = epsilon_pld([SCHEDULE.events[0], done], 1e-6)
    assert loop._epsilon_so_far(Budget(SCHEDULE), STEPS, 9) == pytest.approx(expected, abs=1e-6)


def cut_short(folder: Path, walk: PrivateWalk) -> None:
    with Journal(folder / "journal") as journal, pytest.raises(KeyboardInterrupt):
        train_privately(walk, STEPS, Budget(SCHEDULE, journal=journal), course(folder))


def resumed(folder: Path, walk: PrivateWalk) -> list[int]:
    """Releases that were lost, after training went on to its end."""
    with Journal(folder / "journal") as journal:
        lost = [record.count for record in journal.lost]
        journal.settle()
        train_privately(walk, STEPS, Budget(SCHEDULE, journal=journal), course(folder))
    return lost


@pytest.mark.statistical
@pytest.mark.parametrize(("break_at", "kept"), [(1, 0), (10, 9), (44, 42)])
def test_private_training_loses_a_stretch_at_most_and_never_does_a_step_twice(
    tmp_path: Path, break_at: int, kept: int
) -> None:
    first, second = PrivateWalk(break_at), PrivateWalk()
    cut_short(tmp_path, first)
    found = CheckpointFolder(tmp_path).load("course")
    assert (0 if found is None else found[0].step) == kept
    assert resumed(tmp_path, second) == [3]
    assert second.n_done == STEPS.count


def test_a_checkpoint_ahead_of_its_journal_is_charged_again_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = CheckpointFolder.save

    def killed_after(self: CheckpointFolder, checkpoint: Any) -> str:
        digest = save(self, checkpoint)
        if checkpoint.step == 9:
            raise KeyboardInterrupt
        return digest

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointFolder, "save", killed_after)
        cut_short(tmp_path, PrivateWalk())
    walk = PrivateWalk()
    assert resumed(tmp_path, walk) == [3]
    assert walk.n_done == STEPS.count


def test_a_journal_whose_checkpoint_is_gone_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    cut_short(tmp_path, PrivateWalk(10))
    (tmp_path / CHECKPOINT).unlink()
    walk = PrivateWalk()
    with pytest.raises(BudgetError, match="checkpoint is not there"):
        resumed(tmp_path, walk)
    assert walk.n_done == 0


def test_a_checkpoint_that_is_not_the_journals_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    cut_short(tmp_path, PrivateWalk(10))
    cut_short(tmp_path / "other", PrivateWalk(10))
    (tmp_path / "other" / CHECKPOINT).replace(tmp_path / CHECKPOINT)
    with pytest.raises(BudgetError, match="checkpoint is not there"):
        resumed(tmp_path, PrivateWalk())


def test_more_steps_than_were_charged_are_not_drawn() -> None:
    steps = Steps(STEPS, 1, InjectedNoise(np.random.default_rng(0)))
    steps.sample(10)
    steps.release(np.zeros(2), 1.0)
    for again in (lambda: steps.sample(10), lambda: steps.release(np.zeros(2), 1.0)):
        with pytest.raises(BudgetError, match="no further step"):
            again()
    budget = Budget(SCHEDULE, InjectedNoise(np.random.default_rng(0)))
    budget.step(STEPS, 40, lambda _: "")
    with pytest.raises(BudgetError, match="no further release"):
        budget.step(STEPS, 6, lambda _: "")


def test_torchs_own_generator_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    with seeded(5, CPU):
        one = torch.randn(3)
    with seeded(5, CPU):
        assert torch.equal(one, torch.randn(3))
    with seeded(None, CPU):
        fresh = torch.randn(3)
    with seeded(None, CPU):
        assert not torch.equal(fresh, torch.randn(3))
    assert torch.equal(before, torch.get_rng_state())

"""The loop around every training: where it goes on, what it writes down, how it ends, and what it is charged."""

import json
import math
import pickle
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare
from torch import Tensor

from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import InjectedNoise, Steps
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError, ModelError
from synth.generators.models.given import Candidates, accept_by_weight
from synth.neural import training as loop
from synth.neural.dp_sgd import ClipTally
from synth.neural.encoding import Encoded, Layout, Span
from synth.neural.modes import Match
from synth.neural.networks import Decoder, GeneratorNetwork
from synth.neural.sampling import BATCH, CtganNetwork, RowMatch, TvaeNetwork, candidates, draw, settle
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

    def step(self, steps: Steps) -> None:
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


@pytest.mark.parametrize("break_at", [1, 6, 14])
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


def test_a_loss_that_is_no_number_ends_training_with_a_sentence_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'walk' diverged at epoch=2.*lower learning_rate"):
        train(Walk(diverge_at=5), 4, course(tmp_path))
    with pytest.raises(ModelError, match="diverged at step=6"):
        train_privately(PrivateWalk(diverge_at=5), STEPS, Budget(SCHEDULE), course(None))
    kept = CheckpointFolder(tmp_path).load("course")
    assert kept is not None
    assert kept[0]["step"] == 1


def test_a_checkpoint_of_another_fit_is_refused_and_left(tmp_path: Path) -> None:
    train(Walk(), 1, course(tmp_path))
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ModelError, match="another fit"):
        train(Walk(), 1, course(tmp_path, "other"))
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_loading_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"course": "course", "step": 1, "state": Trap(), "random": []}, tmp_path / CHECKPOINT)
    with pytest.raises(pickle.UnpicklingError):
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
    last = CheckpointFolder(tmp_path).load("course")
    assert (0 if last is None else last[0]["step"]) == kept
    assert resumed(tmp_path, second) == [3]
    assert second.n_done == STEPS.count


def test_a_checkpoint_ahead_of_its_journal_is_charged_again_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = CheckpointFolder.save

    def killed_after(self: CheckpointFolder, training: Any, step: int, course: str) -> str:
        digest = save(self, training, step, course)
        if step == 9:
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
    budget.stretch(STEPS, 40, lambda _: "")
    with pytest.raises(BudgetError, match="no further release"):
        budget.stretch(STEPS, 6, lambda _: "")


def test_torchs_own_generator_is_left_as_it_was() -> None:
    before, drawn = torch.get_rng_state(), []
    for seed in (5, 5, None, None):
        with seeded(seed, CPU):
            drawn.append(torch.randn(3))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[2], drawn[3])
    assert torch.equal(before, torch.get_rng_state())


LEAST_P = 1e-6
LAYOUT = Layout((Span("a", 4, True), Span("n", 3, False), Span("b", 3, True), Span("c", 2, True)), ("n",))
SHARES = (np.array([0.7, 0.2, 0.09, 0.01]), np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1]))
N_NOISE = 5
KINDS = ("ctgan", "tvae")
WIDE = 0.3
"""A deviation of the scalar that a window of draws can resolve."""


def network(kind: str, steepness: float = 2.0, seed: int = 0) -> CtganNetwork | TvaeNetwork:
    """A network of which columns hang together: its weights are so many times as large as at the start."""
    torch.manual_seed(seed)
    if kind == "tvae":
        decoder = Decoder(N_NOISE, (16, 16), LAYOUT.width)
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.mul_(steepness)
        return TvaeNetwork(LAYOUT, decoder.requires_grad_(False), torch.tensor([WIDE]))
    generator = GeneratorNetwork(N_NOISE + sum(map(len, SHARES)), (16, 16), LAYOUT.width)
    with torch.no_grad():
        generator.output.weight.mul_(steepness)
    return CtganNetwork(LAYOUT, generator.eval().requires_grad_(False), SHARES)


def constant(logits: np.ndarray, deviation: float = 0.0) -> TvaeNetwork:
    """A network that says the same of every row."""
    decoder = Decoder(N_NOISE, (4,), LAYOUT.width).requires_grad_(False)
    decoder.output.weight.zero_()
    decoder.output.bias.copy_(torch.from_numpy(logits))
    return TvaeNetwork(LAYOUT, decoder, torch.tensor([deviation]))


def asks(*codes: int, size: int) -> Match:
    weights = np.zeros(size)
    weights[list(codes)] = 1.0
    return Match(weights, None)


def drawn(from_network: Any, n: int, match: Mapping[int, Match] | None = None, seed: int = 1) -> Encoded:
    torch.manual_seed(seed)
    if match is None:
        return draw(from_network, n)
    asked = {span: RowMatch.of([each], np.zeros(n, dtype=int)) for span, each in match.items()}

    def tried(rows: np.ndarray) -> Candidates:
        raw, log_weights = candidates(from_network, {p: each.taken(rows) for p, each in asked.items()}, len(rows))

        def encoded(chosen: np.ndarray) -> pd.DataFrame:
            rows = settle(from_network, raw, chosen)
            return pd.DataFrame(np.column_stack([rows.codes, rows.scalars]))

        return log_weights, encoded

    table = accept_by_weight(np.zeros(n, dtype=int), tried, np.random.default_rng(seed)).to_numpy()
    n_codes = len(from_network.layout.spans)
    return Encoded(table[:, :n_codes].astype(np.int32), table[:, n_codes:])


def unmatched(from_network: Any, n: int, match: Mapping[int, Match], seed: int = 2) -> Encoded:
    """Rows that a network makes when it is told what is asked for, none of them turned down."""
    torch.manual_seed(seed)
    with torch.inference_mode():
        asked = {span: RowMatch.of([each], np.zeros(BATCH, dtype=int)) for span, each in match.items()}
        parts = [settle(from_network, from_network.raw(BATCH, asked), np.arange(BATCH)) for _ in range(-(-n // BATCH))]
        return Encoded(np.concatenate([each.codes for each in parts]), np.concatenate([each.scalars for each in parts]))


def cells(codes: np.ndarray, spans: list[int]) -> np.ndarray:
    """One number for what a row holds in some columns."""
    return np.asarray(np.ravel_multi_index(tuple(codes[:, spans].T), tuple(LAYOUT.sizes[span] for span in spans)))


def assert_alike(first: np.ndarray, second: np.ndarray) -> None:
    """Two sets of draws come from one distribution; rare cells are put together."""
    size = int(max(first.max(), second.max())) + 1
    counts = np.stack([np.bincount(first, minlength=size), np.bincount(second, minlength=size)])
    rare = counts.sum(axis=0) < 40
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    assert pooled.shape[1] > 1
    assert chi2_contingency(pooled).pvalue > LEAST_P


def test_scalars_lie_about_what_the_network_says_and_never_beyond_one() -> None:
    logits = np.zeros(LAYOUT.width)
    logits[-1] = 0.5
    exact = drawn(constant(logits), 50).scalars
    np.testing.assert_allclose(exact, np.tanh(0.5), rtol=1e-6)
    n = 20_000
    near = drawn(constant(logits, 0.1), n).scalars
    assert abs(near.mean() - np.tanh(0.5)) < 5 * 0.1 / np.sqrt(n)
    assert abs(near.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * n)
    far = drawn(constant(logits, 5.0), n).scalars
    assert far.min() == -1
    assert far.max() == 1


@pytest.mark.parametrize("others", [{}, {2: asks(0, size=3)}], ids=["alone", "beside"])
def test_a_number_in_a_component_is_asked_for_by_code_and_scalar(others: dict[int, Match]) -> None:
    """Both components reach the number, each at a scalar of its own; a narrow window stands for exactly that number."""
    source = network("tvae", 2.5)
    scalars, window = np.array([np.nan, -0.4, 0.5]), 0.02
    asked = {1: Match(np.array([0.0, 1.0, 1.0]), scalars), **others}
    rows, every = drawn(source, 6_000, asked), unmatched(source, 600_000, asked)
    holds = np.abs(every.scalars[:, 0] - scalars[every.codes[:, 1]]) < window
    for span, other in others.items():
        holds &= other.weights[every.codes[:, span]] > 0
    assert holds.sum() > 800
    rest = [span for span in (0, 2, 3) if span not in others]
    assert_alike(cells(rows.codes, rest), cells(every.codes[holds], rest))


def test_what_no_row_can_hold_or_next_to_none_does_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.zeros(LAYOUT.width)
    logits[3] = -1_000.0
    started = time.monotonic()
    for asked in ({0: asks(3, size=4)}, {1: Match(np.array([0.0, 1.0, 0.0]), np.array([np.nan, 0.99, np.nan]))}):
        with pytest.raises(JobError, match="next to no row"):
            drawn(constant(logits), 1_000, asked)
    assert time.monotonic() - started < 20
    monkeypatch.setattr(TvaeNetwork, "raw", None)
    with pytest.raises(JobError, match="holds what is given; give values that go together"):
        drawn(network("tvae"), 10, {0: Match(np.zeros(4), None), 2: asks(0, size=3)})


def test_conditions_of_ctgan_follow_the_original_frequencies_or_what_is_asked_for() -> None:
    source, n = network("ctgan"), 60_000
    assert isinstance(source, CtganNetwork)
    torch.manual_seed(3)
    hot = source._conditions(n, {}).numpy()
    assert (hot.sum(axis=1) == 1).all()
    expected = n / len(SHARES) * np.concatenate(SHARES)
    assert chisquare(hot.sum(axis=0), expected).pvalue > LEAST_P
    asked = {2: asks(1, size=3), 3: asks(0, size=2), 1: asks(0, size=3)}
    of_rows = {span: RowMatch.of([each], np.zeros(n, dtype=int)) for span, each in asked.items()}
    hot = source._conditions(n, of_rows).numpy().sum(axis=0)
    assert set(np.flatnonzero(hot)) == {4 + 1, 4 + 3 + 0}
    assert chisquare(hot[[5, 7]]).pvalue > LEAST_P


def test_a_generator_without_conditions_draws_from_noise_alone() -> None:
    torch.manual_seed(0)
    layout = Layout((Span("n", 3, False),), ("n",))
    source = CtganNetwork(layout, GeneratorNetwork(N_NOISE, (8,), layout.width).eval(), ())
    assert drawn(source, 20).codes.shape == (20, 1)
    assert len(drawn(source, 20, {0: asks(1, size=3)})) == 20

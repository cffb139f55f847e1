"""PATE-GAN: a generator that learns from a student, and a student that learns from noisy votes of teachers.

In each round teachers vote on rows that the generator has drawn, and the votes are counted with noise. The student is a
ridge regression of the noisy counts on the pairs of codes that these rows hold. The generator then takes some steps to
make rows that the student scores high. Student and generator see generated rows, noisy counts and released marginals:
no real row, and nothing that depends on one without noise. The number of rounds, labels and steps is fixed in advance.

Six published programs of this idea leak more than they claim (Ganev, Annamalai, De Cristofaro 2024, 2406.13985, and the
authors' reports to the projects). Their errors, and how each is ruled out here:

- *Teachers share rows*: all are given the first part, or a new sample in each round. Here each unit is dealt to one
  teacher, once and for all (`teachers`).
- *Bounds, categories and scales are read off the table*, before or beside training. Here the encoding follows from the
  declared schema and from released histograms that the plan pays for.
- *Wrong noise*: a scale of lambda in place of 1 / lambda. Here an event of the plan states the noise, an exact sampler
  draws it, and the audit of a claim compares both.
- *A wrong accountant*: moments with a wrong index or a forgotten logarithm, or a bound that depends on the exact votes
  and is published. Here labels are releases with Gaussian noise like any other, accounted for by two accountants; the
  cost depends on no data.
- *A budget that is checked after it is spent*, once in a round. Here every round is planned and charged before its
  votes are counted.
- *A student or generator that sees real rows*. Here neither is given any.
- *One network for teachers and student*, whose weights then come from real rows. Here they share nothing.

# DEVIATES: teachers and the student weigh pairs of codes where the paper has networks. A student learns from the counts
# of votes as numbers, where the paper has their noisy majority: a count tells more at the same cost. The generator is
# also fitted to released one-way marginals, which the paper does not have.

Source: Jordon, Yoon, van der Schaar 2019, "PATE-GAN: generating synthetic data with differential privacy guarantees";
Papernot et al. 2018 (1802.08908) for votes with Gaussian noise; Hoerl & Kennard 1970 for ridge regression.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.dp_ctgan import PrivateCtganSpec, ReleasedGenerator, rate_share
from synth.neural.encoding import Layout
from synth.neural.networks import GeneratorNetwork, Spans, released_shares
from understudy.extras.pate.teachers import Similarity, Teachers

if TYPE_CHECKING:
    from understudy.extras.pate.generator import PateGan

N_COMPARED = 448  # generated rows of a round that teachers hold against real ones, beside those that they vote on
WARM_STEPS, WARM_ROUNDS = 150, 4
"""Steps of the generator before the first round, toward the released marginals alone: at most, and at most as many as
so many rounds have."""
SIGNAL = 0.1
"""Standard deviation of the share of votes that a pair of codes is taken to explain, before anything is known."""
LEAST_NOISE = 0.03  # standard deviation of the share of votes that pairs of codes do not explain, beside the noise
KEPT = 0.8  # the share of a round's weight that the next round leaves it
SCORE_WEIGHT = 5.0  # of the student's scores in the generator's loss

Release = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Noisy counts in place of exact ones, of which a budget has charged the release."""


class Student:
    """Weights on pairs of codes, by ridge regression of the shares of votes that generated rows got.

    Older rounds weigh less: their rows were held against those of an older generator.
    """

    def __init__(self, spans: Spans, noise: float, rounds_kept: int = 6) -> None:
        self._rounds_kept = rounds_kept
        self._spans, self._variance = spans, noise**2 + LEAST_NOISE**2
        self._n_pairs = max(len(spans.offsets) * (len(spans.offsets) - 1) / 2, 1.0)
        self._rounds: list[tuple[Tensor, Tensor]] = []
        self._other_span = (spans.span_of[:, None] != spans.span_of[None, :]).float()
        self.weights = torch.zeros(spans.n_codes, spans.n_codes)

    def learn(self, codes: Tensor, shares: Tensor) -> None:
        """Learn from one more round.
        `codes`: of generated rows, int64 of shape (n, n_spans).
        `shares`: noisy share of teachers that took each for a real row, shape (n,).
        """
        self._rounds = [*self._rounds, (self._spans.one_hot(codes), (shares - shares.mean()).float())]
        self._rounds = self._rounds[-self._rounds_kept :]
        rows, labels = (torch.cat(parts) for parts in zip(*self._rounds, strict=True))
        n_rounds = len(self._rounds)
        sizes = torch.tensor([len(of_round) for _, of_round in self._rounds])
        variance = (self._variance / KEPT ** torch.arange(n_rounds - 1.0, -1.0, -1.0)).repeat_interleave(sizes)
        agreeing = rows @ rows.T
        alike = SIGNAL**2 * agreeing * (agreeing - 1) / 2 / self._n_pairs
        factor = torch.linalg.cholesky(alike + torch.diag(variance))
        dual = torch.cholesky_solve(labels[:, None], factor).squeeze(1)
        pairs = SIGNAL**2 * (rows * dual[:, None]).T @ rows / self._n_pairs
        self.weights = pairs / 2 * self._other_span

    def scores(self, fakes: Tensor) -> Tensor:
        """Of relaxed rows, shape (n,), as the generator's loss takes them."""
        return SCORE_WEIGHT * ((fakes @ self.weights) * fakes).sum(1)


def train(
    spec: "PateGan",
    teachers: Teachers,
    layout: Layout,
    one_way: Sequence[NDArray[np.floating]],
    release: Release,
    sigma: float,
    tell: Callable[[int], None],
) -> GeneratorNetwork:
    """The average of the generators on the way, to sample from.
    `teachers`: *Sensitive*. They are asked for counts of votes, and for nothing else.
    """
    settings = PrivateCtganSpec(
        d_latent=spec.d_latent, generator_widths=spec.generator_widths, generator_rate=spec.learning_rate
    )
    n_labels = spec.labels_per_round
    maker = ReleasedGenerator(settings, layout, one_way, n_labels + N_COMPARED, torch.device("cpu"))
    similarity = Similarity(released_shares(one_way, layout).numpy(), layout)
    student = Student(maker.spans, sigma / teachers.n_teachers, spec.rounds_kept)
    n_steps = spec.rounds * spec.generator_steps
    for _ in range(min(WARM_STEPS, WARM_ROUNDS * spec.generator_steps)):
        maker.step(student.scores)
    for done in range(spec.rounds):
        rows = maker.rows()
        shown, compared = rows[:n_labels], rows[n_labels:]
        noisy = release(teachers.votes(shown.numpy(), compared.numpy(), similarity))
        student.learn(shown, torch.from_numpy(noisy / teachers.n_teachers))
        for step in range(spec.generator_steps):
            maker.set_rate(rate_share(done * spec.generator_steps + step, n_steps))
            maker.step(student.scores)
        tell(done + 1)
    average: GeneratorNetwork = maker.average
    return average

"""PATE-GAN: teachers on disjoint sets of units, a student that learns from their noisy votes, and a generator.

In each round teachers vote on rows that the generator has drawn, and the votes are counted with noise. The student is a
ridge regression of the noisy counts on the pairs of codes that these rows hold. The generator then takes some steps to
make rows that the student scores high. Student and generator see generated rows, noisy counts and released marginals:
no real row, and nothing that depends on one without noise. The number of rounds, labels and steps is fixed in advance.

A teacher tells real rows from generated ones by the codes that a row holds together in two columns. Its score of a row
x is a mean over its own rows y of a similarity of x and y, less the same mean over generated rows. Above zero, it votes
"real". That is the first step of a logistic regression on pairs of codes, from zero weights. It has no random start,
and needs no more than a few rows. The similarity of x and y is a sum over pairs of columns. Each pair adds the product
of its two agreements, each less its expectation under released marginals.

A count of votes moves by at most 1 where one unit is gone:

- Each unit has one teacher, which follows from a hash of the unit's own encoded rows and its turn among equal units. No
  place and no number of rows has a say. So a unit that is gone moves no other one to another teacher. The key of the
  hash is public: any assignment would do for the guarantee, which takes no credit for its being random.
- A teacher is a function of its own rows, of released shares and of generated rows. A teacher without rows votes "no".
- Similarities are whole numbers, and so are their sums. Sums of floating-point numbers round by the numbers beside
  them; a row of one teacher could then tip the vote of another.

Six published programs of this idea leak more than they claim (Ganev, Annamalai, De Cristofaro 2024, 2406.13985, and the
authors' reports to the projects). Their errors, and how each is ruled out here:

- *Teachers share rows*: all are given the first part, or a new sample in each round. Here each unit is dealt to one
  teacher, once and for all.
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
Papernot et al. 2017 (1610.05755) for teachers on disjoint sets, and 2018 (1802.08908) for votes with Gaussian noise;
Gretton et al. 2012, section 2.3, for means of similarities that tell two samples apart; Hoerl & Kennard 1970 for ridge
regression.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.dp_ctgan import PrivateCtganSpec, ReleasedGenerator, rate_share
from synth.neural.encoding import Layout
from synth.neural.networks import GeneratorNetwork, Spans, released_shares

CHUNK_ROWS = 8_192  # rows that are compared at a time
FINENESS = 64  # steps of a similarity in whole numbers, to one of an agreement in a code that every row has
RAREST_SHARE = 1e-3  # keeps the weight of an agreement in a rare code finite
WITHOUT = 0  # votes of a teacher that has no rows
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


@dataclass(frozen=True, eq=False)
class Teachers:
    """*Sensitive*. The units of a table, dealt to teachers."""

    codes: NDArray[np.integer] = field(repr=False)  # rows teacher by teacher, shape (n_rows, n_spans)
    teacher: NDArray[np.int64] = field(repr=False)  # of each row, ascending, shape (n_rows,)
    n_teachers: int

    @classmethod
    def dealt(cls, codes: NDArray[np.integer], owner: NDArray[np.int64] | None, n_teachers: int, key: bytes) -> Self:
        """Every unit with all of its rows dealt to one teacher (`dealt_to`)."""
        teacher = dealt_to(codes, owner, n_teachers, key)
        order = np.argsort(teacher, kind="stable")
        return cls(np.ascontiguousarray(codes[order]), teacher[order], n_teachers)

    def votes(
        self, shown: NDArray[np.integer], generated: NDArray[np.integer], similarity: "Similarity"
    ) -> NDArray[np.int64]:
        """How many teachers take each row shown for a real one; shape (n_shown,). *Sensitive*.
        `generated`: generated rows that real ones are compared with, at least one, shape (n, n_spans).
        """
        tables = similarity.tables(shown)
        level = similarity.of(tables, generated).sum(axis=0) // len(generated)
        teachers, rank, n_rows = np.unique(self.teacher, return_inverse=True, return_counts=True)
        totals = np.zeros((len(teachers), len(shown)), dtype=np.int64)
        for start in range(0, len(self.codes), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            similar, teacher = similarity.of(tables, self.codes[chunk]), rank[chunk]
            first = np.flatnonzero(np.diff(teacher, prepend=-1))
            totals[teacher[first]] += np.add.reduceat(similar, first, axis=0)
        votes_real = totals > n_rows[:, None] * level
        without = WITHOUT * (self.n_teachers - len(teachers))
        return np.asarray(votes_real.sum(axis=0) + without, dtype=np.int64)


def dealt_to(
    codes: NDArray[np.integer], owner: NDArray[np.int64] | None, n_teachers: int, key: bytes
) -> NDArray[np.int64]:
    """The teacher of each row, by a hash of its unit's rows and the unit's turn among equal ones; shape (n_rows,).
    `codes`: *Sensitive*. The encoded rows, shape (n_rows, n_spans).
    `owner`: *Sensitive*. The unit of each row, from 0, shape (n_rows,); `None`: each row is a unit.
    """
    content = np.ascontiguousarray(codes, dtype="<i4")
    rows = [hashlib.blake2b(row.tobytes(), digest_size=16, key=key).digest() for row in content]
    units = rows if owner is None else _joined(rows, owner, key)
    turns: Counter[bytes] = Counter()
    teacher = np.empty(len(units), dtype=np.int64)
    for index, unit in enumerate(units):
        digest = hashlib.blake2b(unit + turns[unit].to_bytes(8, "little"), digest_size=8, key=key).digest()
        teacher[index] = int.from_bytes(digest, "little") % n_teachers
        turns[unit] += 1
    return teacher if owner is None else teacher[owner]


def _joined(rows: list[bytes], owner: NDArray[np.int64], key: bytes) -> list[bytes]:
    """A digest of the rows of each unit, whatever their order."""
    rows_of: list[list[bytes]] = [[] for _ in range(int(owner.max(initial=-1)) + 1)]
    for row, unit in zip(rows, owner, strict=True):
        rows_of[unit].append(row)
    return [hashlib.blake2b(b"".join(sorted(each)), digest_size=16, key=key).digest() for each in rows_of]


class Similarity:
    """The similarity of rows, in whole numbers: agreements beyond expectation, multiplied over pairs of columns.

    An agreement in a code weighs the more, the rarer the code is by its released share; of shape (n_codes,).
    """

    def __init__(self, shares: NDArray[np.float64], layout: Layout) -> None:
        weight = FINENESS / np.sqrt(shares + RAREST_SHARE)
        self._weight = np.rint(weight).astype(np.int64)
        self._expected = np.rint(weight * shares).astype(np.int64)
        self._sizes, self._offsets = layout.sizes, layout.offsets

    def tables(self, shown: NDArray[np.integer]) -> list[NDArray[np.int64]]:
        """For each span, how far each of its codes agrees with each row; shapes (size, n_shown)."""
        tables = []
        for index, size in enumerate(self._sizes):
            codes = shown[:, index]
            places = codes + self._offsets[index]
            table = np.tile(-self._expected[places], (size, 1))
            table[codes, np.arange(len(shown))] += self._weight[places]
            tables.append(table)
        return tables

    @staticmethod
    def of(tables: list[NDArray[np.int64]], rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """The similarity of each row to each one shown; shape (n_rows, n_shown). `rows`: shape (n_rows, n_spans)."""
        total = np.zeros((len(rows), tables[0].shape[1]), dtype=np.int64)
        squares = np.zeros_like(total)
        for index, table in enumerate(tables):
            agreement = table[rows[:, index]]
            total += agreement
            squares += agreement * agreement
        return (total * total - squares) // 2


if TYPE_CHECKING:
    from understudy.extras.pate.generator import PateGan


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
        """Learn from one more round: generated rows, and the noisy share of teachers that took each for real."""
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
    spec: "PateGan", teachers: Teachers, layout: Layout, one_way: Sequence[NDArray[np.floating]], release: Release,
    sigma: float, tell: Callable[[int], None],
) -> GeneratorNetwork:  # fmt: skip
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

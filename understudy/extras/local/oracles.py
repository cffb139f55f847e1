"""Frequency oracles: how a respondent randomizes one answer, and what many such reports say of the shares.

A report supports each answer with a probability: `p` the true one, `q` any other. Shares follow from how often each is
supported, without bias. Probabilities are whole numbers over a power of two, rounded towards more privacy. Random words
are compared with them, so that no floating point is in a report.

Source: Wang, Blocki, Li, Jha 2017 (1705.04421): the framework (Section 3), both mechanisms (4.1 and 4.3) and the choice
between them (Section 5).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from synth.dp.mechanisms import Words, system_words

CHUNK = 4_000_000  # random words that are held at once
_DIGITS = 80  # decimal digits of an exponential, before it is rounded to a whole number of `2^-64`
_HEX = re.compile("[0-9a-f]*", re.ASCII)
_Answers = TypeVar("_Answers", np.ndarray, list[Any])
NO_ANSWER = -1  # the cell of a respondent who answers nothing, not even that the value is missing


@dataclass(frozen=True)
class _Oracle:
    """What both have. `p` and `q` are probabilities as above, `n_words` random words of a report, about; `randomize`
    makes a report of each respondent's true answer, `NO_ANSWER` for none, and `supported` counts those that support
    each answer; int64, shape (n_cells,). In a file a report is what `to_plain` makes of it; `accepts` says whether what
    came in is one, which may be anything, and `from_plain` reads accepted ones.
    """

    n_cells: int
    epsilon: float
    allows_no_answer: bool = False
    mechanism: ClassVar[str]

    @property
    def size(self) -> int:
        return self.n_cells

    def support(self: Any, cells: np.ndarray, words: Words = system_words) -> np.ndarray:
        """Supports of all answers, from reports that respondents randomize. `cells`: *Sensitive*. Shape (n,)."""
        total = np.zeros(self.n_cells, dtype=np.int64)
        for part in self.chunks(cells):
            total += self.supported(self.randomize(part, words))
        return total

    def chunks(self: Any, cells: _Answers) -> Iterator[_Answers]:
        step = max(CHUNK // self.n_words, 1)
        return (cells[start : start + step] for start in range(0, len(cells), step))

    def counts(self: Any, support: np.ndarray, n: float) -> np.ndarray:
        """The number of respondents with each answer, without bias: some may be below zero. Equation 1."""
        return np.asarray((support - n * self.q) / (self.p - self.q))

    def variance(self: Any, share: np.ndarray | float, n: float) -> np.ndarray:
        """The variance of an estimated share, given who answered. Equation 2."""
        p, q, known = self.p, self.q, np.clip(share, 0.0, 1.0)
        return np.asarray((known * p * (1 - p) + (1 - known) * q * (1 - q)) / (n * (p - q) ** 2))


@dataclass(frozen=True)
class DirectEncoding(_Oracle):
    """Generalized randomized response (Kairouz, Bonawitz, Ramage 2016): the true answer, or any other with the same
    small probability. No answer is one more symbol, where it is allowed. Reports are symbols, shape (n,), int64.
    """

    mechanism: ClassVar[str] = "generalized randomized response"
    n_words: ClassVar[int] = 4

    @property
    def n_symbols(self) -> int:
        return self.n_cells + self.allows_no_answer

    @cached_property
    def n_true_words(self) -> int:
        """Of `2^64` words those by which the truth is told; rounded down."""
        with localcontext() as context:
            context.prec = _DIGITS
            odds = Decimal(self.epsilon).exp()
            share = odds / (odds + self.n_symbols - 1)
            return min(int((share * 2**64).to_integral_value(ROUND_FLOOR)), 2**64 - 1)

    @property
    def p(self) -> float:
        return self.n_true_words / 2**64

    @property
    def q(self) -> float:
        return (2**64 - self.n_true_words) / 2**64 / (self.n_symbols - 1)

    def randomize(self, cells: np.ndarray, words: Words = system_words) -> np.ndarray:
        truth = np.where(cells == NO_ANSWER, self.n_cells, cells).astype(np.int64)
        if len(truth) and not 0 <= truth.min() <= truth.max() < self.n_symbols:
            raise ValueError("answers are among those that there are")
        other = _below(self.n_symbols - 1, len(truth), words)
        is_other = words(len(truth), np.uint64) >= np.uint64(self.n_true_words)
        return np.where(is_other, other + (other >= truth), truth)

    def supported(self, reports: np.ndarray) -> np.ndarray:
        return np.bincount(reports, minlength=self.n_symbols)[: self.n_cells]

    def to_plain(self, reports: np.ndarray) -> list[int]:
        return [int(symbol) for symbol in reports]

    def accepts(self, answer: object) -> bool:
        return type(answer) is int and 0 <= answer < self.n_symbols

    def from_plain(self, answers: Sequence[int]) -> np.ndarray:
        return np.array(answers, dtype=np.int64)


@dataclass(frozen=True)
class UnaryEncoding(_Oracle):
    """Optimized unary encoding: a bit for each answer, that of the true one by a fair coin, the others seldom set. No
    answer sets no bit but by chance. Reports have shape (n, n_cells), boolean.
    """

    mechanism: ClassVar[str] = "optimized unary encoding"
    p: ClassVar[float] = 0.5

    @property
    def n_words(self) -> int:
        return self.n_cells

    @cached_property
    def set_by_chance(self) -> int:
        """Of `2^32` words those by which the bit of another answer is set; rounded up."""
        with localcontext() as context:
            context.prec = _DIGITS
            share = 1 / (Decimal(self.epsilon).exp() + 1)
            return int((share * 2**32).to_integral_value(ROUND_CEILING))

    @property
    def q(self) -> float:
        return self.set_by_chance / 2**32

    def randomize(self, cells: np.ndarray, words: Words = system_words) -> np.ndarray:
        if len(cells) and not NO_ANSWER <= cells.min() <= cells.max() < self.n_cells:
            raise ValueError("answers are among those that there are")
        bits = words(len(cells) * self.n_cells, np.uint32).reshape(len(cells), self.n_cells) < self.set_by_chance
        answered = np.flatnonzero(cells != NO_ANSWER)
        bits[answered, cells[answered]] = (words(len(cells), np.uint8) & 1).astype(bool)[answered]
        return bits

    def supported(self, reports: np.ndarray) -> np.ndarray:
        return np.asarray(reports.sum(axis=0, dtype=np.int64))

    def to_plain(self, reports: np.ndarray) -> list[str]:
        """Bits in hexadecimal, the first answer's first."""
        return [bits.tobytes().hex() for bits in np.packbits(reports, axis=1)]

    def accepts(self, answer: object) -> bool:
        n_digits, n_left = -(-self.n_cells // 8) * 2, -self.n_cells % 8
        is_hex = isinstance(answer, str) and len(answer) == n_digits and _HEX.fullmatch(answer) is not None
        return is_hex and int(str(answer)[-2:], 16) % 2**n_left == 0  # bits after the last answer's are none

    def from_plain(self, answers: Sequence[str]) -> np.ndarray:
        packed = np.frombuffer(bytes.fromhex("".join(answers)), dtype=np.uint8).reshape(len(answers), -1)
        return np.unpackbits(packed, axis=1, count=self.n_cells)


Oracle = DirectEncoding | UnaryEncoding


@lru_cache(maxsize=2**16)
def smaller_variance(n_cells: int, epsilon: float, allows_no_answer: bool = False) -> Oracle:
    """The oracle of the two with the smaller variance for rare answers: direct below 3 e^epsilon + 2 symbols, about.

    >>> [smaller_variance(k, 1.0).mechanism.split()[0] for k in (4, 10, 11)]
    ['generalized', 'generalized', 'optimized']
    """
    kinds: tuple[type[Oracle], ...] = (DirectEncoding, UnaryEncoding)
    both = (kind(n_cells, epsilon, allows_no_answer) for kind in kinds)
    return min(both, key=lambda oracle: float(oracle.variance(0.0, 1)))


def _below(limit: int, n: int, words: Words) -> np.ndarray:
    """Whole numbers below a limit, all as likely: words that would favor some are drawn again; int64, shape (n,)."""
    whole = 2**64 - 2**64 % limit
    drawn = words(n, np.uint64).copy()
    while whole < 2**64 and (again := np.flatnonzero(drawn >= np.uint64(whole))).size:
        drawn[again] = words(len(again), np.uint64)
    return (drawn % np.uint64(limit)).astype(np.int64)

"""Frequency oracles: the exact likelihood ratio of every report, no bias, the stated variance, and planted faults."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from synth.dp.mechanisms import system_words
from understudy.extras.local.oracles import NO_ANSWER, DirectEncoding, Oracle, UnaryEncoding, smaller_variance

SMALL = [
    kind(k, epsilon, allows_no_answer)
    for kind in (DirectEncoding, UnaryEncoding)
    for k, epsilon, allows_no_answer in (
        (2, 0.1, False), (3, 1.0, True), (4, 4.0, False), (2, 30.0, True), (3, 100.0, False),
    )
]  # fmt: skip


def exponential(epsilon: float) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(epsilon).exp())


class Scripted:
    """Words that are told, in turn: a word is the first or the last of its type, or a small number."""

    def __init__(self, words: list[int]) -> None:
        self._words = list(words)

    def __call__(self, n: int, dtype: type[np.unsignedinteger[Any]]) -> np.ndarray:
        taken, self._words = self._words[:n], self._words[n:]
        return np.array(taken, dtype=dtype)


def scripts(oracle: Oracle) -> Iterator[tuple[list[int], Fraction]]:
    """Every way in which the words of one report may fall, with its exact probability."""
    if isinstance(oracle, DirectEncoding):
        others = oracle.n_symbols - 1
        kept = Fraction(oracle.n_true_words, 2**64)
        for other, (lie, chance) in product(range(others), ((0, kept), (2**64 - 1, 1 - kept))):
            yield [other, lie], chance / others
        return
    chance = Fraction(oracle.set_by_chance, 2**32)
    for bits in product((True, False), repeat=oracle.n_cells):
        likely = math.prod((chance if bit else 1 - chance for bit in bits), start=Fraction(1))
        for coin in (0, 1):
            yield [*(0 if bit else 2**32 - 1 for bit in bits), coin], likely / 2


def report_chances(oracle: Oracle, cell: int) -> dict[bytes, Fraction]:
    chances: dict[bytes, Fraction] = {}
    for words, chance in scripts(oracle):
        report = oracle.randomize(np.array([cell]), Scripted(words)).tobytes()
        chances[report] = chances.get(report, Fraction(0)) + chance
    return chances


def check_ratio(oracle: Oracle, epsilon: float) -> None:
    """No report is more than e^epsilon times as likely after one answer as after any other."""
    cells = [
        *range(oracle.n_cells),
        *([NO_ANSWER] if oracle.allows_no_answer or isinstance(oracle, UnaryEncoding) else []),
    ]
    chances = [report_chances(oracle, cell) for cell in cells]
    most = exponential(epsilon)
    for first, other in product(chances, chances):
        assert sum(first.values()) == 1
        assert all(first[report] <= most * other.get(report, Fraction(0)) for report in first if first[report] > 0)


def check_estimates(oracle: Oracle, *, repeats: int = 300, n: int = 3_000) -> None:
    weights = np.arange(1, oracle.n_cells + 1, dtype=float)
    cells = np.repeat(np.arange(oracle.n_cells), np.round(n * weights / weights.sum()).astype(int))
    n = len(cells)
    true = np.bincount(cells, minlength=oracle.n_cells) / n
    shares = np.array([oracle.counts(oracle.support(cells), n) / n for _ in range(repeats)])
    stated = oracle.variance(true, n)
    assert np.all(np.abs(shares.mean(axis=0) - true) < 4.5 * np.sqrt(stated / repeats))
    # The variance of a variance of normal numbers is 2 / (repeats - 1).
    assert np.all(np.abs(shares.var(axis=0, ddof=1) / stated - 1) < 4.5 * math.sqrt(2 / (repeats - 1)))


def check_chances(oracle: Oracle, n: int = 40_000) -> None:
    """Reports of the system's randomness support answers with the probabilities that estimates rest on."""
    support = oracle.support(np.zeros(n, dtype=np.int64))
    stated = np.array([oracle.p, *[oracle.q] * (oracle.n_cells - 1)])
    assert np.all(np.abs(support / n - stated) < 4.5 * np.sqrt(stated * (1 - stated) / n))


def check_secret(oracle: Oracle) -> None:
    """The same answers give other reports, whatever generator is seeded."""
    cells = np.zeros(200, dtype=np.int64)
    np.random.seed(0)  # noqa: NPY002
    first = oracle.randomize(cells)
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, oracle.randomize(cells))


@pytest.mark.parametrize("oracle", SMALL, ids=repr)
def test_every_report_is_at_most_e_to_the_epsilon_times_as_likely_after_another_answer(oracle: Oracle) -> None:
    check_ratio(oracle, oracle.epsilon)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [DirectEncoding, UnaryEncoding])
@pytest.mark.parametrize(("k", "epsilon"), [(4, 1.0), (20, 1.0), (20, 4.0)])
def test_shares_have_no_bias_and_the_stated_variance(kind: type[Oracle], k: int, epsilon: float) -> None:
    check_estimates(kind(k, epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_the_oracle_with_the_smaller_variance_is_taken(epsilon: float) -> None:
    e = math.exp(epsilon)
    for k in (2, 3, 10, 30, 100, 500):
        direct, unary = (k - 2 + e) / (e - 1) ** 2, 4 * e / (e - 1) ** 2
        chosen = smaller_variance(k, epsilon)
        assert isinstance(chosen, DirectEncoding if direct < unary else UnaryEncoding)
        assert float(chosen.variance(0.0, 1)) == pytest.approx(min(direct, unary), rel=1e-6)


def _doubled_kept(self: DirectEncoding) -> int:
    odds = math.exp(2 * self.epsilon)
    return int(2**64 * (odds / (odds + self.n_symbols - 1)))


def _doubled_chance(self: UnaryEncoding) -> int:
    return math.ceil(2**32 / (math.exp(2 * self.epsilon) + 1))


def _seeded(n: int, dtype: type[np.unsignedinteger[Any]]) -> np.ndarray:
    return np.frombuffer(np.random.default_rng(0).bytes(n * np.dtype(dtype).itemsize), dtype=dtype)


def _swapped(self: DirectEncoding, cells: np.ndarray, words: Any = system_words) -> np.ndarray:
    truth, other = cells.astype(np.int64), (words(len(cells), np.uint64) % (self.n_symbols - 1)).astype(np.int64)
    is_other = words(len(cells), np.uint64) < np.uint64(self.n_true_words)
    return np.where(is_other, other + (other >= truth), truth)


def _swapped_bits(self: UnaryEncoding, cells: np.ndarray, words: Any = system_words) -> np.ndarray:
    bits = (words(len(cells) * self.n_cells, np.uint8) & 1).astype(bool).reshape(len(cells), self.n_cells)
    bits[np.arange(len(cells)), cells] = words(len(cells), np.uint32) < self.set_by_chance
    return bits


def _seeded_reports(kind: type[Oracle]) -> Callable[..., np.ndarray]:
    true = kind.randomize

    def randomize(self: Any, cells: np.ndarray, words: Any = None) -> np.ndarray:
        return true(self, cells, _seeded)

    return randomize


MUTANTS: dict[str, tuple[type[Oracle], str, Any, Callable[[Oracle], None]]] = {
    "direct, epsilon doubled": (
        DirectEncoding, "n_true_words", property(_doubled_kept), lambda oracle: check_ratio(oracle, oracle.epsilon)
    ),
    "unary, epsilon doubled": (
        UnaryEncoding, "set_by_chance", property(_doubled_chance), lambda oracle: check_ratio(oracle, oracle.epsilon)
    ),
    "direct, p and q swapped": (DirectEncoding, "randomize", _swapped, check_chances),
    "unary, p and q swapped": (UnaryEncoding, "randomize", _swapped_bits, check_chances),
    "direct, seeded": (DirectEncoding, "randomize", _seeded_reports(DirectEncoding), check_secret),
    "unary, seeded": (UnaryEncoding, "randomize", _seeded_reports(UnaryEncoding), check_secret),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "plant", "check"), MUTANTS.values(), ids=MUTANTS)
def test_a_fault_in_an_oracle_is_caught(
    kind: type[Oracle], name: str, plant: Any, check: Callable[[Oracle], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(kind(3, 1.0))
    monkeypatch.setattr(kind, name, plant)
    with pytest.raises(AssertionError):
        check(kind(3, 1.0))

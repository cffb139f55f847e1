"""The estimation of shares from reports: without bias, with a known variance, and as measurements of marginals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import special

from synth.domain import Discretizer
from synth.local.survey import Question, Survey
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate
from synth.marginals.junction_tree import pieces
from synth.marginals.measurement import MEAN_ABSOLUTE

_SHARES = np.linspace(0.0, 1.0, 101)
"""Shares among which the one with the widest interval is looked for."""
_QUANTILE = float(special.ndtri(0.975))


@dataclass(frozen=True, eq=False)
class ReportCounts:
    """The reports of a survey, counted: all that is known of the respondents.
    `supports`: for each question how many reports support each answer, shape (n_cells,).
    """

    survey: Survey
    supports: tuple[np.ndarray, ...]
    n_each: tuple[int, ...]
    n: int

    def __post_init__(self) -> None:
        sizes = [question.oracle.n_cells for question in self.survey.questions]
        if [len(support) for support in self.supports] != sizes or len(self.n_each) != len(sizes):
            raise ValueError("supports are of the questions of their survey")

    def shares(self, question: int) -> np.ndarray:
        """The share of respondents with each answer, without bias: some may lie outside [0, 1]; shape (n_cells,)."""
        n_reports = self.n_each[question]
        oracle = self.survey.questions[question].oracle
        return oracle.counts(self.supports[question], n_reports) / max(n_reports, 1)

    def deviations(self, question: int, shares: np.ndarray | None = None) -> np.ndarray:
        """Standard deviation of each estimated share about that of all respondents; shape (n_cells,).

        The noise of the reports, and who of all respondents was asked.
        `shares`: true ones, shape (n_cells,); `None`: the estimated ones.
        """
        n_reports = max(self.n_each[question], 1)
        known = np.clip(self.shares(question) if shares is None else shares, 0.0, 1.0)
        noise = self.survey.questions[question].oracle.variance(known, n_reports)
        asked = known * (1 - known) / n_reports * max(self.n - n_reports, 0) / max(self.n - 1, 1)
        return np.asarray(np.sqrt(noise + asked))

    def intervals(self, question: int, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of normal intervals of the shares of all respondents; each of shape (n_cells,)."""
        width = float(special.ndtri(0.5 + confidence / 2)) * self.deviations(question)
        shares = self.shares(question)
        return shares - width, shares + width

    def measurements(self) -> list[Measurement]:
        """Each question as counts of respondents, with the mean noise of its answers.

        DEVIATES: answers differ in their variance, since that of generalized randomized response grows with the share.
        A measurement takes the root of the mean over all answers.
        """
        made = []
        for place, question in enumerate(self.survey.questions):
            sigma = self.n * float(np.sqrt(np.mean(self.deviations(place) ** 2)))
            counts = self.n * self.shares(place).reshape(question.sizes)
            made.append(Measurement(question.columns, counts, sigma))
        return made


def distribution(
    measured: Sequence[Measurement], discretizer: Discretizer, *, zeros: Sequence[Factor] = (), n_iterations: int = 1000
) -> MarkovRandomField:
    """The distribution over codes: columns and a tree of pairs, chosen by what was released.

    Every pair also says something of its two columns, and all of that is used.
    """
    sizes = discretizer.sizes
    pairs = {one.clique: one for one in measured if len(one.clique) > 1}
    single = [one for one in measured if len(one.clique) == 1]
    single += [side for pair in pairs.values() for side in _sides(pair)]
    apart = estimate(sizes, single, n_iterations=n_iterations)
    tree = spanning_tree(pairs, apart, [zero.attributes for zero in zeros])
    return estimate(sizes, [*single, *(pairs[pair] for pair in tree)], n_iterations=n_iterations, zeros=zeros)


def spanning_tree(
    pairs: Mapping[Clique, Measurement], apart: MarkovRandomField, held: Sequence[Clique] = ()
) -> list[Clique]:
    """The pairs of a tree that are furthest from independent columns, beyond what noise alone would be.

    Free of charge: it reads what was released. DEVIATES: MST pays for a private choice (2108.04978, Algorithm 1); here
    all pairs were measured.
    """
    inside = {frozenset(two) for clique in held for two in combinations(clique, 2)}
    gains = {}
    for clique, pair in pairs.items():
        if frozenset(clique) in inside:
            continue
        expected = apart.marginal(clique)
        gap = np.abs(pair.values.reshape(expected.shape) - expected).sum()
        gains[clique] = float(gap) - MEAN_ABSOLUTE * float(np.mean(pair.sigma)) * expected.size
    tree: list[Clique] = []
    for clique in sorted(gains, key=lambda one: (-gains[one], one)):
        part = pieces(apart.domain, tree)
        if gains[clique] > 0 and part[clique[0]] != part[clique[1]]:
            tree.append(clique)
    return tree


def _sides(pair: Measurement) -> list[Measurement]:
    """The columns of a pair, each a sum over the other's answers."""
    made = []
    for axis, name in enumerate(pair.clique):
        others = pair.values.shape[1 - axis]
        made.append(Measurement((name,), pair.values.sum(axis=1 - axis), float(pair.sigma) * math.sqrt(others)))
    return made


@dataclass(frozen=True)
class Precision:
    """The precision to expect of one question, from public facts alone."""

    question: Question
    half_width: float
    respondents: Mapping[float, int]


HALF_WIDTHS = (0.02, 0.01)  # half widths of an interval for which respondents are told


def precision(survey: Survey, n: int) -> tuple[Precision, ...]:
    """The precision to expect of each question of a survey."""
    made = []
    for question in survey.questions:
        needed = {width: respondents_needed(question, survey, width) for width in HALF_WIDTHS}
        n_reports = max(n * survey.n_answers / len(survey.questions), 1.0)
        made.append(Precision(question, _QUANTILE * math.sqrt(_widest(question) / n_reports), needed))
    return tuple(made)


def respondents_needed(question: Question, survey: Survey, half_width: float) -> int:
    """Respondents that it takes for a 95% interval of any share in a population to be so narrow."""
    n_reports = _QUANTILE**2 * _widest(question) / half_width**2
    return math.ceil(n_reports * len(survey.questions) / survey.n_answers)


def _widest(question: Question) -> float:
    """The variance of a share of one report, noise and sampling, at the share at which it is largest."""
    return float((question.oracle.variance(_SHARES, 1) + _SHARES * (1 - _SHARES)).max())

"""The estimation of shares from reports: without bias, with a known variance, and as measurements of marginals."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy import special

from synth.domain import Discretizer
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate
from synth.marginals.junction_tree import pieces
from synth.marginals.measurement import MEAN_ABSOLUTE
from understudy.extras.local.survey import Question, Survey

Respond = Callable[[Sequence[tuple[np.ndarray, Any]], Any], list[np.ndarray]]
_SHARES = np.linspace(0.0, 1.0, 101)  # among which the one with the widest interval is looked for
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

    @classmethod
    def of(cls, table: Any, survey: Survey, n_slots: int | None = None, respond: Respond | None = None) -> Self:
        """The reports of the respondents of a table, randomized and counted; nothing but these leaves.
        `table`: *Sensitive*. `n_slots`: as of `Survey.asked`. `respond`: of a budget; `None`: by the system's noise.
        """
        cells, n = survey.asked(table, n_slots)
        asked = [(each, question.oracle) for each, question in zip(cells, survey.questions, strict=True)]
        supports = [oracle.support(each) for each, oracle in asked] if respond is None else respond(asked, survey.event)
        return cls(survey, tuple(supports), tuple(map(len, cells)), n)

    def shares(self, question: int) -> np.ndarray:
        """The share of respondents with each answer, without bias: some may lie outside [0, 1]; shape (n_cells,)."""
        n_reports, oracle = self.n_each[question], self.survey.questions[question].oracle
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

    def intervals(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Ends of normal 95% intervals of the shares of all respondents; each of shape (n_cells,)."""
        shares, width = self.shares(question), _QUANTILE * self.deviations(question)
        return shares - width, shares + width

    def measurements(self) -> list[Measurement]:
        """Each question as counts of respondents, with the mean noise of its answers.

        DEVIATES: answers differ in their variance, since that of generalized randomized response grows with the share.
        A measurement takes the root of the mean over all answers.
        """
        return [
            Measurement(
                question.columns,
                self.n * self.shares(number).reshape(question.sizes),
                self.n * float(np.sqrt(np.mean(self.deviations(number) ** 2))),
            )
            for number, question in enumerate(self.survey.questions)
        ]


def distribution(
    measured: Sequence[Measurement], discretizer: Discretizer, *, zeros: Sequence[Factor] = (), n_iterations: int = 1000
) -> MarkovRandomField:
    """The distribution over codes: columns and a tree of pairs, chosen by what was released.

    Every pair also says something of its two columns, and all of that is used.
    """
    pairs = {each.clique: each for each in measured if len(each.clique) > 1}
    single = [each for each in measured if len(each.clique) == 1]
    single += [side for pair in pairs.values() for side in _sides(pair)]
    apart = estimate(discretizer.sizes, single, n_iterations=n_iterations)
    tree = spanning_tree(pairs, apart, [zero.attributes for zero in zeros])
    released = [*single, *(pairs[pair] for pair in tree)]
    return estimate(discretizer.sizes, released, n_iterations=n_iterations, zeros=zeros)


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
        if frozenset(clique) not in inside:
            expected = apart.marginal(clique)
            gap = float(np.abs(pair.values.reshape(expected.shape) - expected).sum())
            gains[clique] = gap - MEAN_ABSOLUTE * float(np.mean(pair.sigma)) * expected.size
    tree: list[Clique] = []
    for clique in sorted(gains, key=lambda pair: (-gains[pair], pair)):
        part = pieces(apart.domain, tree)
        if gains[clique] > 0 and part[clique[0]] != part[clique[1]]:
            tree.append(clique)
    return tree


def _sides(pair: Measurement) -> list[Measurement]:
    """The columns of a pair, each a sum over the other's answers."""
    sides = []
    for axis, name in enumerate(pair.clique):
        n_others = pair.values.shape[1 - axis]
        sides.append(Measurement((name,), pair.values.sum(axis=1 - axis), float(pair.sigma) * math.sqrt(n_others)))
    return sides


def half_width(question: Question, survey: Survey, n: int) -> float:
    """Half the widest 95% interval of a share in a population, to expect of so many respondents."""
    n_reports = max(n * survey.n_answers / len(survey.questions), 1.0)
    return _QUANTILE * math.sqrt(_widest(question) / n_reports)


def respondents_needed(question: Question, survey: Survey, width: float) -> int:
    """Respondents that it takes for a 95% interval of any share in a population to have such a half width."""
    return math.ceil(_QUANTILE**2 * _widest(question) / width**2 * len(survey.questions) / survey.n_answers)


def _widest(question: Question) -> float:
    """The variance of a share of one report, noise and sampling, at the share at which it is largest."""
    return float((question.oracle.variance(_SHARES, 1) + _SHARES * (1 - _SHARES)).max())

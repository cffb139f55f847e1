"""A black-box audit: many fits of a small table, with a target and without, judged by the synthetic tables alone.

The attacker holds one synthetic table. They know the generator, its parameters, all rows but those of one unit, the
target, and the target's rows. They want to say whether the target was in, and win where they are right more often than
epsilon and delta allow. The target is the record that is easiest to see: rare in every column.

The auditor plays that game many times, each with a fit of its own, half of them with the target
(`evaluate.privacy.audit.neighboring_tables`). On the first third a score is chosen (counts of rows that match the
target, or a logistic regression of these) and its threshold; the rest is judged by them. Exact upper ends of both error
rates then bound epsilon from below, whatever the mechanism. Since the score sees a table and not the noise, the bound
of a sound generator lies near zero: it finds what is badly broken, or a generator that repeats its rows, and proves
nothing where it finds nothing. So it is reported, and no rule rests on it.

Source: Kairouz, Oh, Viswanath 2015 (1311.0776), Theorem 2.1, for error rates and epsilon; Annamalai, Gadotti, Rocher
2024 (2405.10994) for auditing generators of tables by their worst record.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.audit_result import AuditError
from evaluate.metrics import Metric
from evaluate.privacy.audit.bounds import free_epsilon
from evaluate.privacy.audit.neighboring_tables import Worlds
from evaluate.privacy.match_scores import Cells
from evaluate.privacy.shadow_models import Budgets, Refits
from evaluate.result import Estimate
from synth.generators.base import Generator
from synth.progress import Progress, quiet
from synth.schema import Schema

if TYPE_CHECKING:
    from evaluate.intervals import Rate

METRICS = (
    Metric("privacy.black_box.epsilon", "lower", "Epsilon seen from outside",
           "A lower bound on epsilon, found by looking at synthetic tables alone; 0 proves nothing.",
           describes="it is expected near 0 whether the claim holds or not; name 'privacy.audit.excess'",
           without_holdout=True),
)  # fmt: skip

N_CLOSEST = 10
TOGETHER = (
    "likelihood of the target by column", "rows that match it, by column", "rows that match it, by pair of columns",
    "most columns that a row shares with it", "columns that the closest rows share with it", "copies of it",
)  # fmt: skip
"""Names of the numbers that are about all columns; those of single columns follow them."""
LEARNED = "a logistic regression of all counts"
LEAST_TO_LEARN = 16
"""Fits below which nothing is learned beyond the best single number."""
N_FOLDS = 4


def features(table: pd.DataFrame, target: pd.DataFrame, cells: Cells) -> np.ndarray:
    """What one synthetic table says of a target; shape (len(TOGETHER) + d_learned,).

    Args:
        table: synthetic.
        target: *Sensitive* where it is real. One row.
        cells: what counts as the same.
    """
    matches = cells.matches(table, target)
    by_column, shared = matches.mean(axis=0), matches.sum(axis=1)
    likelihood = float(np.log(matches.sum(axis=0) + 0.5).sum())
    pairs = float((shared * (shared - 1)).mean())
    closest = np.sort(shared)[-N_CLOSEST:]
    copies = float((shared == matches.shape[1]).mean())
    return np.array([likelihood, by_column.sum(), pairs, shared.max(), closest.mean(), copies, *by_column])


def names(schema: Schema) -> tuple[str, ...]:
    """What each number is, in words."""
    return (*TOGETHER, *(f"rows that match it in column {name!r}" for name in schema.learned))


def best_score(found: np.ndarray, present: np.ndarray, n_known: int) -> tuple[np.ndarray, int | None]:
    """The score of each table that tells the first ones apart best, and which number it is.

    Args:
        found: numbers of all tables, shape (n, n_features).
        present: whether the target was in, shape (n,); only the first are looked at.
        n_known: how many that is.

    Returns:
        Scores, higher where the target seems in, shape (n,), and the feature; none for the regression.
    """
    known, known_present = found[:n_known], present[:n_known]
    areas = np.array([_area(column, known_present) for column in known.T])
    feature = int(np.abs(areas - 0.5).argmax())
    learned = _learned(found, present, n_known) if n_known >= LEAST_TO_LEARN else None
    if learned is not None and learned[1] > 0.5 + abs(areas[feature] - 0.5):
        return learned[0], None
    return found[:, feature] * (1.0 if areas[feature] >= 0.5 else -1.0), feature


def _area(scores: np.ndarray, present: np.ndarray) -> float:
    """How often a table with the target scores above one without, ties half."""
    ranks, n_in = stats.rankdata(scores), int(present.sum())
    return float((ranks[present].sum() - n_in * (n_in + 1) / 2) / (n_in * (len(present) - n_in)))


def _learned(found: np.ndarray, present: np.ndarray, n_known: int) -> tuple[np.ndarray, float]:
    """The regression's scores, and how well others of its kind did on tables they had not seen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    known, answers = found[:n_known], present[:n_known]
    unseen = cross_val_predict(model, known, answers, cv=N_FOLDS, method="decision_function")
    return model.fit(known, answers).decision_function(found), _area(unseen, answers)


MEASURE = "privacy.black_box.epsilon"
CONFIDENCE = 0.99
LEAST_FITS = 20
N_SAMPLED = 1_000
"""Synthetic rows that are looked at, at least: sampling costs no budget."""
KNOWN_SHARE = 3
"""One part in so many of the fits chooses the score."""


@dataclass(frozen=True)
class BlackBox:
    """What a black-box audit found.

    Attributes:
        epsilon: claimed; none: nothing is claimed.
        delta: of the bound; 0 where nothing is claimed.
        bound: epsilon is at least this at that delta, with that confidence.
        strongest: the bound that as many trials would have given for an attacker who never errs.
        confidence: probability with which the bound holds, at least.
        n_fits: fits made.
        n_trials: fits that were judged; the others chose the score.
        false_positives: share of "in" where the target was out, with the interval that the bound rests on.
        false_negatives: share of "out" where it was in, likewise.
        score: what the guesses rest on, in words.
        ran_on: the table, in words.
    """

    epsilon: float | None
    delta: float
    bound: float
    strongest: float
    confidence: float
    n_fits: int
    n_trials: int
    false_positives: "Rate"
    false_negatives: "Rate"
    score: str
    ran_on: str

    @property
    def exceeds(self) -> bool:
        """Whether a claim is disproved."""
        return self.epsilon is not None and self.bound > self.epsilon

    @property
    def estimate(self) -> Estimate:
        """The bound as a number of an evaluation: it only describes."""
        claim = "nothing is claimed" if self.epsilon is None else f"the claim is {self.epsilon:.3g}"
        claim = f"which disproves the claim of {self.epsilon:.3g}" if self.exceeds else claim
        note = (
            f"{claim}; on {self.ran_on}, at delta {self.delta:.3g} and {self.confidence:.0%} confidence; "
            f"{self.n_trials:,} fits could have shown {self.strongest:.3g}, and 0 proves nothing"
        )
        return Estimate(MEASURE, self.bound, self.n_trials, "lower", note=note)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data."""
        return {**asdict(self), "exceeds": self.exceeds}


@dataclass(frozen=True)
class Trials:
    """How often a black-box audit plays, and for how long.

    Attributes:
        n_fits: how often the generator is fitted; an odd number is one less.
        confidence: of the bound, in (0, 1).
        time_limit_s: seconds after which no further fit is begun; none: no limit. The clock knows no result.
        seed: of all draws but the noise and the sampling of private fits.

    Raises:
        AuditError: too few fits.
    """

    n_fits: int
    confidence: float = CONFIDENCE
    time_limit_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_fits < LEAST_FITS:
            raise AuditError(f"a black-box audit needs {LEAST_FITS} fits, and n_fits={self.n_fits}; ask for more")


def black_box(
    generator: Generator, worlds: Worlds, trials: Trials, *, budgets: Budgets | None = None, progress: Progress = quiet
) -> BlackBox:
    """A lower bound on epsilon from the synthetic tables of many fits.

    No model is kept, and nothing that a fit gives leaves this function but the bound and the error rates. Fits on real
    rows under an epsilon are to be paid for by whoever asks: see `budgets`.

    Args:
        generator: with an epsilon, whose delta is the bound's, or without.
        worlds: *Sensitive* where they are real. The two tables.
        trials: how many, and for how long.
        budgets: of private fits; none: each has one of its own, outside any ledger.
        progress: told the share done.

    Raises:
        AuditError: the time is too short for enough fits; nothing is known.
        BudgetError: the schema is not declared, or the budget cannot be met; nothing was fitted.
    """
    refits = Refits.of(generator, worlds.schema, budgets)
    present = _pairs(trials.n_fits, trials.seed)
    cells, seen = Cells.of(worlds.rows, worlds.schema), list[np.ndarray]()
    until = math.inf if trials.time_limit_s is None else time.monotonic() + trials.time_limit_s
    while len(seen) < len(present) and time.monotonic() < until:
        index = len(seen)
        progress(f"black box {generator.name}", index / len(present))
        fitted = worlds.table(bool(present[index]))
        model = refits.model(fitted, index=index, seed=_seed(trials.seed, index, 0))
        table = model.sample(max(len(worlds.rows), N_SAMPLED), seed=_seed(trials.seed, index, 1))
        seen.append(features(table, worlds.target.iloc[:1], cells))
    if len(seen) < LEAST_FITS:
        raise AuditError(
            f"a black-box audit needs {LEAST_FITS} fits, and time_limit_s={trials.time_limit_s:g} leaves no room for "
            "them; allow more time, or have the generator do less by its parameters"
        )
    claim = None if refits.schedule is None else (refits.schedule.epsilon, refits.schedule.delta)
    return _concluded(np.stack(seen), present[: len(seen)], claim, trials.confidence, worlds)


def paired(n_fits: int) -> int:
    """How many fits are made where so many are asked for: as many with the target as without.

    >>> paired(101)
    100
    """
    return n_fits - n_fits % 2


def _pairs(n_fits: int, seed: int) -> np.ndarray:
    """Whether the target is in, by fit: once in every two, in random order; shape (paired(n_fits),)."""
    first = np.random.default_rng(seed).random(paired(n_fits) // 2) < 0.5
    return np.column_stack([first, ~first]).ravel()


def _seed(seed: int, index: int, purpose: int) -> int:
    return int(np.random.SeedSequence([seed, index, purpose]).generate_state(1)[0]) >> 1


def _concluded(
    seen: np.ndarray, present: np.ndarray, claim: tuple[float, float] | None, confidence: float, worlds: Worlds
) -> BlackBox:
    """What the tables prove."""
    epsilon, delta = claim or (None, 0.0)
    n_known = 2 * (len(seen) // (2 * KNOWN_SHARE))
    scores, feature = best_score(seen, present, n_known)
    threshold = _threshold(scores[:n_known], present[:n_known], delta, confidence)
    says, truth = scores[n_known:] > threshold, present[n_known:]
    wrong_in, wrong_out = _errors(says, truth, confidence)
    perfect = _errors(truth, truth, confidence)
    return BlackBox(
        epsilon=epsilon,
        delta=delta,
        bound=_least_epsilon(wrong_in[2], wrong_out[2], delta),
        strongest=_least_epsilon(perfect[0][2], perfect[1][2], delta),
        confidence=confidence,
        n_fits=len(seen),
        n_trials=len(truth),
        false_positives=wrong_in,
        false_negatives=wrong_out,
        score=LEARNED if feature is None else names(worlds.schema)[feature],
        ran_on=worlds.ran_on,
    )


def _threshold(scores: np.ndarray, present: np.ndarray, delta: float, confidence: float) -> float:
    """The threshold that bounds epsilon best, and where none does, the one that errs least."""

    def worth(threshold: float) -> tuple[float, int]:
        says = scores > threshold
        wrong_in, wrong_out = _errors(says, present, confidence)
        return _least_epsilon(wrong_in[2], wrong_out[2], delta), -int((says != present).sum())

    levels = np.unique(scores)
    between = [*((levels[1:] + levels[:-1]) / 2), levels[-1]]
    return float(max(between, key=worth))


def _errors(says: np.ndarray, truth: np.ndarray, confidence: float) -> tuple["Rate", "Rate"]:
    """Both error rates with their intervals; each may fail with half of what the confidence leaves."""
    from evaluate.intervals import clopper_pearson

    counts = ((int((says & ~truth).sum()), int((~truth).sum())), (int((~says & truth).sum()), int(truth.sum())))
    wrong_in, wrong_out = ((k / n, *clopper_pearson(k, n, level=confidence)) for k, n in counts)
    return wrong_in, wrong_out


def _least_epsilon(one: float, other: float, delta: float) -> float:
    """The least epsilon that allows both error rates, in either direction."""
    return max(free_epsilon(one, other, delta), free_epsilon(other, one, delta))

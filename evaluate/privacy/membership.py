"""A membership attack: who, of the people whose record an attacker holds, was in the training table?

The attacker knows the synthetic table, the complete record of every target, and a sample of the same population that
was not used for training (the fresh half of the holdout). They want to say of a target whether it was in the training
table. They win where they name members more often than non-members: over all targets (the AUC), or for the few targets
they are surest of (the true positive rate at a false positive rate of 0.1% or 1%), which is what a leak of a few
verbatim rows looks like. A table that tells nothing has an AUC of 1/2 and a true positive rate equal to the false one.

The score of a target compares the distance to its nearest synthetic row with the distance to its nearest row of the
attacker's own sample, so that a record which is near to everything does not look like a member. A target that stands in
the synthetic table verbatim, and not in the attacker's sample, comes before all others, the most isolated one first.

Members are a seeded sample of the training rows, non-members of the control rows, one row of each entity, so that
targets are independent and the intervals are right. Twins in training and control rows make both look alike.

Source: Carlini et al. 2022, arXiv:2112.03570 (calibration, low false positive rates); van Breugel et al. 2023,
arXiv:2302.12580 (calibration by a reference population for synthetic tables).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.intervals import LEVEL, delong_auc
from evaluate.neighbors import Rows, Space, nearest, space_of
from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.tables import Measurement, Tables

N_TARGETS = 8_000
MIN_TARGETS = 10
BACKWARD = 0.4
"""An area under the curve below this, with its interval, says that the holdout was used and train was not."""
RATES = (0.001, 0.01)
N_CURVE = 300
THRESHOLD_TAIL = 0.02
"""Part of the upper end's error of 0.025 that the estimated threshold gets: few controls decide it."""


@dataclass(frozen=True)
class Scores:
    """How sure the attacker is of each target, in [-1, 2]; *Sensitive*.

    Attributes:
        members: scores of training rows, ascending.
        controls: scores of rows that were not used for training, ascending.
    """

    members: np.ndarray
    controls: np.ndarray


def measure(tables: Tables) -> Measurement:
    """AUC and true positive rates of the attack, and its ROC curve.

    Estimates: `privacy.membership.auc`, `privacy.membership.tpr_at_0.001`, `privacy.membership.tpr_at_0.01`.
    """
    scores = attack(tables)
    if min(len(scores.members), len(scores.controls)) < MIN_TARGETS:
        message = f"an attack needs at least {MIN_TARGETS} members and as many non-members; give a larger holdout"
        return Measurement(failures=tuple(Failure(name, "skipped", message) for name in _names()))
    auc = _auc(scores)
    if auc.high is not None and auc.high < BACKWARD:
        message = (
            "the attack finds rows of the holdout in the synthetic table, not of train: "
            "are the two swapped, or was the table made from the holdout?"
        )
        return Measurement(failures=tuple(Failure(name, "failed", message) for name in _names()))
    rates = [_rate(scores, rate) for rate in RATES]
    return Measurement(
        estimates=(auc, *(rate for rate in rates if isinstance(rate, Estimate))),
        failures=tuple(rate for rate in rates if isinstance(rate, Failure)),
        figures={"membership": _curve(scores)},
    )


def attack(tables: Tables) -> Scores:
    """The scores of members and non-members."""
    space = space_of(tables)
    members = space.train.take(_targets(tables.train, tables))
    controls = space.control.take(_targets(tables.control, tables))
    return Scores(np.sort(_scores(members, space)), np.sort(_scores(controls, space)))


def _targets(frame: pd.DataFrame, tables: Tables) -> np.ndarray:
    order = drawn_order(learned_keys(frame, tables.schema), tables.seed)
    return one_per_entity(order, frame, tables.schema)[:N_TARGETS]


def _scores(targets: Rows, space: Space) -> np.ndarray:
    """How much nearer the synthetic rows are than the attacker's own; shape (len(targets),), in [-1, 2]."""
    synthetic, fresh = (nearest(targets, pool)[:, 0] for pool in (space.synthetic, space.fresh))
    both = synthetic + fresh
    contrast = (fresh - synthetic) / np.where(both > 0, both, 1.0)
    verbatim = (synthetic == 0) & (fresh > 0)
    return np.where(verbatim, 1.0 + fresh / (1.0 + fresh), contrast)


def true_positive_rate(scores: Scores, rate: float) -> tuple[float, float, float]:
    """The true positive rate at a false positive rate, with its 95% interval.

    The threshold is a control's score, and only scores above it count, so ties never help the attacker. The interval
    allows for the threshold being estimated. Upper end: most of the error pays for a threshold whose true false
    positive rate is at least `rate` (order statistics), the rest for the members (Clopper-Pearson). Lower end: given
    the k controls above the threshold, the members above it are negative binomial, which bounds the ratio of the two
    rates from below; exact where the attack is no better than chance, safe for every concave ROC curve.
    """
    n, m = len(scores.controls), len(scores.members)
    allowed = int(np.floor(rate * n + 1e-9))
    above = _n_above(scores, allowed)
    odds = float(stats.beta.ppf((1 - LEVEL) / 2, above, allowed + 1)) if above > 0 else 0.0
    low = rate * odds / (1 - odds) * n / m
    tail = (1 - LEVEL) / 2 - THRESHOLD_TAIL
    possible = _n_above(scores, int(stats.binom.ppf(1 - THRESHOLD_TAIL, n, rate)))
    high = float(stats.beta.ppf(1 - tail, possible + 1, m - possible)) if possible < m else 1.0
    return above / m, min(low, above / m), max(high, above / m)


def _n_above(scores: Scores, allowed: int) -> int:
    """How many members score above all controls but the `allowed` highest."""
    n = len(scores.controls)
    threshold = scores.controls[n - 1 - allowed] if allowed < n else -np.inf
    return len(scores.members) - int(np.searchsorted(scores.members, threshold, "right"))


def _auc(scores: Scores) -> Estimate:
    value, low, high = delong_auc(scores.members, scores.controls)
    n = len(scores.members) + len(scores.controls)
    note = "how often a training row looks more like one than a row that was not used does; 0.5 tells nothing"
    return Estimate("privacy.membership.auc", value, n, "lower", low=low, high=high, reference=0.5, note=note)


def _rate(scores: Scores, rate: float) -> Estimate | Failure:
    name = f"privacy.membership.tpr_at_{rate:g}"
    needed = round(1 / rate)
    if len(scores.controls) < needed:
        message = f"not measurable: a false positive rate of {rate:.1%} needs {needed} control rows or entities"
        return Failure(name, "skipped", message)
    value, low, high = true_positive_rate(scores, rate)
    note = f"share of attacked training rows that are recognized while {rate:.1%} of the other rows are taken for one"
    return Estimate(name, value, len(scores.members), "lower", low=low, high=high, reference=rate, note=note)


def _names() -> list[str]:
    return ["privacy.membership.auc", *(f"privacy.membership.tpr_at_{rate:g}" for rate in RATES)]


def _curve(scores: Scores) -> dict[str, object]:
    """The ROC curve, dense where the false positive rate is small."""
    n, m = len(scores.controls), len(scores.members)
    allowed = np.unique(np.round(np.geomspace(1, n + 1, N_CURVE)).astype(int)) - 1
    true = [_n_above(scores, int(k)) / m if k < n else 1.0 for k in allowed]
    return {
        "fpr": [round(float(k) / n, 6) for k in allowed],
        "tpr": [round(rate, 6) for rate in true],
        "auc": delong_auc(scores.members, scores.controls)[0],
        "n_members": m,
        "n_controls": n,
        "floor_fpr": 1.0 / n,
    }

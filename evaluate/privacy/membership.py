"""Membership inference: who, of the people whose record an attacker holds, was in the training table?

Several attacks are tried (`evaluate.privacy.membership_attacks`), and each number is that of the strongest. The maximum
of several on the same targets would be above chance by itself, so each half of the targets is scored by the best attack
on the other half, or by the first one if no attack did clearly better. Scores of different parts are not compared with
each other.

Source: Carlini et al. 2022, arXiv:2112.03570 (calibration, low false positive rates); van Breugel et al. 2023,
arXiv:2302.12580 (calibration by a reference population for synthetic tables); DeLong et al. 1988 (the area's variance).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from evaluate.intervals import LEVEL, Rate, clopper_pearson, placements
from evaluate.metrics import MEMBERS, PEOPLE, Metric
from evaluate.privacy.experiment import detectable_auc, detectable_rate, not_measured, too_few
from evaluate.privacy.membership_attacks import FOCAL, SET_SIZES, scored
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

METRICS = (
    Metric("privacy.membership.auc", "lower", "Membership attack, AUC",
           "How well an attacker tells members of the training table from outsiders; 0.5 is a coin.", counted=PEOPLE,
           key=True, attack="always", criteria=("linkability", "identifiability"), bounded=True),
    Metric("privacy.membership.tpr_at_0.01", "lower", "Members found at 1% false alarms",
           "Members the attacker finds while accusing 1 outsider in 100; chance is 1%.", counted=MEMBERS, key=True,
           attack="always", criteria=("linkability", "identifiability"), bounded=True),
    Metric("privacy.membership.tpr_at_0.001", "lower", "Members found at 0.1% false alarms",
           "The same while accusing 1 outsider in 1,000; chance is 0.1%.", counted=MEMBERS, key=True, attack="always",
           criteria=("linkability", "identifiability"), bounded=True),
)  # fmt: skip

N_CURVE = 300
THRESHOLD_TAIL = 0.02
"""Part of the upper end's error of 0.025 that the estimated thresholds get: few controls decide them."""


@dataclass(frozen=True)
class Scores:
    """Membership scores of the targets of one part; *Sensitive*."""

    members: np.ndarray
    controls: np.ndarray

    @classmethod
    def of(cls, members: np.ndarray, controls: np.ndarray) -> "Scores":
        return cls(np.sort(members), np.sort(controls))

    def n_allowed(self, rate: float) -> int:
        """Controls that may score above the threshold at a false positive rate."""
        return int(np.floor(rate * len(self.controls) + 1e-9))

    def n_above(self, allowed: int) -> int:
        """Number of members above all controls but the `allowed` highest: ties never help the attacker."""
        n = len(self.controls)
        threshold = self.controls[n - 1 - allowed] if allowed < n else -np.inf
        return len(self.members) - int(np.searchsorted(self.members, threshold, "right"))


def area(parts: Sequence[Scores]) -> Rate:
    """The area under the ROC curve, the mean over the parts by their members, with its interval (DeLong). A perfect
    separation has no estimated variance: its interval is that of a rate of all of the smaller class.
    """
    n_members, n_controls = n_targets(parts)
    value = variance = 0.0
    for part in parts:
        wins, losses = placements(part.members, part.controls)
        share = len(part.members) / n_members
        value += share * float(wins.mean())
        variance += share**2 * float(wins.var(ddof=1) / len(wins) + losses.var(ddof=1) / len(losses))
    if variance == 0.0 and value in (0.0, 1.0):
        n = min(n_members, n_controls)
        return value, *clopper_pearson(n * value, n)
    half = float(-special.ndtri((1 - LEVEL) / 2)) * variance**0.5
    return value, max(value - half, 0.0), min(value + half, 1.0)


def n_targets(parts: Sequence[Scores]) -> tuple[int, int]:
    return sum(len(part.members) for part in parts), sum(len(part.controls) for part in parts)


def true_positive_rate(parts: Sequence[Scores], rate: float) -> Rate:
    """The true positive rate at a false positive rate, with its 95% interval.

    A part's threshold is a control's score, and only scores above it count, so ties never help the attacker. The
    interval allows for thresholds being estimated. Upper end: most of the error pays for thresholds whose true false
    positive rate is at least `rate` (order statistics), the rest for the members (Clopper-Pearson). Lower end: given
    the controls above the thresholds, the members above them are negative binomial, which bounds the ratio of the two
    rates from below; exact where the attack is no better than chance, safe for every concave ROC curve.
    """
    m, n = n_targets(parts)
    allowed = [part.n_allowed(rate) for part in parts]
    above = sum(part.n_above(k) for part, k in zip(parts, allowed, strict=True))
    odds = float(stats.beta.ppf((1 - LEVEL) / 2, above, sum(allowed) + len(parts))) if above > 0 else 0.0
    low = rate * odds / (1 - odds) * n / m
    tail = (1 - LEVEL) / 2 - THRESHOLD_TAIL
    each = 1 - THRESHOLD_TAIL / len(parts)
    possible = sum(part.n_above(int(stats.binom.ppf(each, len(part.controls), rate))) for part in parts)
    high = float(stats.beta.ppf(1 - tail, possible + 1, m - possible)) if possible < m else 1.0
    return above / m, min(low, above / m), max(high, above / m)


def curve(parts: Sequence[Scores]) -> dict[str, object]:
    """The ROC curve, dense where the false positive rate is small, as plain data."""
    m, n = n_targets(parts)
    false, true = [], []
    for rate in np.unique(np.geomspace(1 / (n + 1), 1.0, N_CURVE)):
        allowed = [part.n_allowed(float(rate)) for part in parts]
        false.append(sum(allowed) / n)
        reached = zip(parts, allowed, strict=True)
        true.append(sum(p.n_above(k) if k < len(p.controls) else len(p.members) for p, k in reached) / m)
    kept = np.unique(false, return_index=True)[1]
    ends = {name: [round(rates[i], 6) for i in kept] for name, rates in (("fpr", false), ("tpr", true))}
    return {**ends, "auc": area(parts)[0], "n_members": m, "n_controls": n, "floor_fpr": 1.0 / n}


AREA = 0.0  # Stands for the area under the curve among false positive rates
AROUND = (1.0, 2.0, 4.0)
"""Multiples of a false positive rate whose true positive rates choose its attack: the rate alone rests on few rows."""

CLEARLY = 2.0
"""Standard errors by which an attack has to do better than the first one to be chosen instead of it.

Halves that choose for each other are not independent: by luck that both share, both choose the same. Of several useless
attacks the variance of the mean of both is a third larger than if they were. With a threshold, luck chooses little.
"""

Both = tuple[np.ndarray, np.ndarray]  # Something of members and of controls, in that order


@dataclass(frozen=True)
class TargetHalf:
    attack: str
    inside: Both

    def scores(self, by_attack: Mapping[str, Both]) -> Scores:
        members, controls = (scores[which] for scores, which in zip(by_attack[self.attack], self.inside, strict=True))
        return Scores.of(members, controls)


def parts_for(rate: float, by_attack: Mapping[str, Both], first: str = "") -> tuple[TargetHalf, TargetHalf]:
    """The halves of the targets, each with the attack that is best at a number on the other half; where none is clearly
    better, a named one, or the first.
    """
    first = first or next(iter(by_attack))
    even = tuple(np.arange(len(scores)) % 2 == 0 for scores in by_attack[first])
    first_half, other = (even[0], even[1]), (~even[0], ~even[1])
    return TargetHalf(_best(rate, by_attack, other, first), first_half), TargetHalf(
        _best(rate, by_attack, first_half, first), other
    )


def _best(rate: float, by_attack: Mapping[str, Both], inside: Both, first: str) -> str:
    """Name of the attack with the highest merit on some targets, if it is clearly better than the first."""
    scores = {name: TargetHalf(name, inside).scores(by_attack) for name in by_attack}
    if rate == AREA:
        merits = {name: round(area([each])[0], 12) for name, each in scores.items()}
    else:
        caught = {
            name: [each.n_above(each.n_allowed(rate * times)) for times in AROUND] for name, each in scores.items()
        }
        merits = {name: sum(n / times for n, times in zip(each, AROUND, strict=True)) for name, each in caught.items()}
    best = max(merits, key=lambda name: merits[name])
    return best if merits[best] - merits[first] > CLEARLY * _spread(rate, scores[first], merits[first]) else first


def _spread(rate: float, scores: Scores, merit: float) -> float:
    """About one standard error of a merit, where the attack tells nothing or little."""
    m, n = len(scores.members), len(scores.controls)
    if rate == AREA:
        return float(np.sqrt((m + n + 1) / (12 * m * n)))
    # Members above the thresholds are Poisson counts, each including the one before; controls decide the thresholds.
    weights = np.cumsum([1 / times for times in reversed(AROUND)])[::-1]
    by_chance = rate * m * float((weights**2 * np.diff([0.0, *AROUND])).sum()) * (1 + m / n)
    return float(np.sqrt(by_chance * max(1.0, merit / (rate * m * len(AROUND)))))


BACKWARD = 0.4
"""An area under the curve below this, with its interval, says that the holdout was used and train was not."""
RATES = (0.001, 0.01)
NOTHING = "no column is learned, so that there is nothing to tell anybody by"
NAMES = ("privacy.membership.auc", *(f"privacy.membership.tpr_at_{rate:g}" for rate in RATES))


def measure(tables: Tables) -> MetricResult:
    """AUC and true positive rates of the strongest attack, its ROC curve, and what every attack came to."""
    if not tables.schema.learned:
        return not_measured(NOTHING, *NAMES)
    scores = scored(tables)
    members, controls = next(iter(scores.values()))
    if why := too_few(len(members), len(controls)):
        return not_measured(why, *NAMES)
    # Over all targets, small leaks show in cells before they show in rows, where there are many sets of columns.
    halves = parts_for(AREA, scores, FOCAL if len(tables.schema.learned) > max(SET_SIZES) else "")
    parts = [half.scores(scores) for half in halves]
    auc = area_estimate("privacy.membership.auc", parts, note=named(AUC_NOTE, halves))
    if auc.high is not None and auc.high < BACKWARD:
        message = (
            "the attack finds rows of the holdout in the synthetic table, not of train: "
            "are the two swapped, or was the table made from the holdout?"
        )
        return MetricResult(failures=tuple(Failure(name, "failed", message) for name in NAMES))
    rates = [rate_estimate(f"privacy.membership.tpr_at_{rate:g}", rate, scores) for rate in RATES]
    figure = {**curve(parts), "attacks": _each(scores), "chosen": [part.attack for part in halves]}
    return MetricResult(
        estimates=(auc, *(rate for rate in rates if isinstance(rate, Estimate))),
        failures=tuple(rate for rate in rates if isinstance(rate, Failure)),
        figures={"membership": figure},
    )


AUC_NOTE = "how often a training row looks more like one than a row that was not used does; 0.5 tells nothing"
RATE_NOTE = "share of attacked training rows that are recognized while {:.1%} of the other rows are taken for one"


def area_estimate(name: str, parts: Sequence[Scores], *, note: str) -> Estimate:
    value, low, high = area(parts)
    n_members, n_controls = n_targets(parts)
    return Estimate(
        name, value, n_members + n_controls, "lower", low=low, high=high, reference=0.5, note=note,
        detectable=detectable_auc(n_members, n_controls),
    )  # fmt: skip


def rate_estimate(name: str, rate: float, by_attack: Mapping[str, Both]) -> Estimate | Failure:
    """The true positive rate at a false positive rate, of the strongest attack; a failure with too few controls."""
    halves = parts_for(rate, by_attack)
    parts = [half.scores(by_attack) for half in halves]
    n_members, n_controls = n_targets(parts)
    needed = round(1 / rate)
    if n_controls < needed:
        message = f"not measurable: a false positive rate of {rate:.1%} needs {needed} control rows or entities"
        return Failure(name, "skipped", message)
    value, low, high = true_positive_rate(parts, rate)
    allowed = sum(part.n_allowed(rate) for part in parts) + len(parts) - 1
    return Estimate(
        name, value, n_members, "lower", low=low, high=high, reference=rate,
        note=named(RATE_NOTE.format(rate), halves), detectable=detectable_rate(rate, allowed, n_members, n_controls),
    )  # fmt: skip


def named(note: str, halves: Sequence[TargetHalf]) -> str:
    """The note with the attacks that the number is from."""
    names = " and ".join(dict.fromkeys(half.attack for half in halves))
    return f"{note}; strongest attack: {names}"


def _each(by_attack: Mapping[str, Both]) -> list[dict[str, object]]:
    """Results of each attack alone, on all targets, as plain data."""
    attacks: list[dict[str, object]] = []
    for name, (members, controls) in by_attack.items():
        alone = [Scores.of(members, controls)]
        rates = {f"tpr_at_{r:g}": list(true_positive_rate(alone, r)) if len(controls) * r >= 1 else None for r in RATES}
        attacks.append({"name": name, "auc": list(area(alone)), **rates})
    return attacks

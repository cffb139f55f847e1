"""A membership attack: who, of the people whose record an attacker holds, was in the training table?

The attacker knows the synthetic table, the complete record of every target, and a sample of the same population that
was not used for training (the fresh half of the holdout). They want to say of a target whether it was in the training
table. They win where they name members more often than non-members: over all targets (the AUC), or for the few targets
they are surest of (the true positive rate at a false positive rate of 0.1% or 1%), which is what a leak of a few
verbatim rows looks like. A table that tells nothing has an AUC of 1/2 and a true positive rate equal to the false one.

Several attacks are tried (`attacks.py`), and each number is that of the strongest, which is chosen on one half of the
targets and scored on the other (`ensemble.py`).

Source: Carlini et al. 2022, arXiv:2112.03570 (calibration, low false positive rates); van Breugel et al. 2023,
arXiv:2302.12580 (calibration by a reference population for synthetic tables).
"""

from collections.abc import Mapping, Sequence

from evaluate.privacy.experiment import detectable_auc, detectable_rate
from evaluate.privacy.membership.attacks import scored
from evaluate.privacy.membership.ensemble import AREA, Both, Part, parts_for
from evaluate.privacy.membership.rates import Scores, area, curve, n_targets, true_positive_rate
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

__all__ = ["MIN_TARGETS", "NOTHING", "RATES", "Scores", "area", "measure", "true_positive_rate"]

MIN_TARGETS = 10
BACKWARD = 0.4
"""An area under the curve below this, with its interval, says that the holdout was used and train was not."""
RATES = (0.001, 0.01)
NOTHING = "no column is learned, so that there is nothing to tell anybody by"
NAMES = ("privacy.membership.auc", *(f"privacy.membership.tpr_at_{rate:g}" for rate in RATES))


def measure(tables: Tables) -> Measurement:
    """AUC and true positive rates of the strongest attack, its ROC curve, and what every attack came to.

    Estimates: `privacy.membership.auc`, `privacy.membership.tpr_at_0.001`, `privacy.membership.tpr_at_0.01`.
    """
    if not tables.schema.learned:
        return Measurement(failures=tuple(Failure(name, "skipped", NOTHING) for name in NAMES))
    of = scored(tables)
    members, controls = next(iter(of.values()))
    if min(len(members), len(controls)) < MIN_TARGETS:
        message = f"an attack needs at least {MIN_TARGETS} members and as many non-members; give a larger holdout"
        return Measurement(failures=tuple(Failure(name, "skipped", message) for name in NAMES))
    halves = parts_for(AREA, of)
    auc = area_estimate("privacy.membership.auc", parts := _scores(halves, of), note=_named(AUC_NOTE, halves))
    if auc.high is not None and auc.high < BACKWARD:
        message = (
            "the attack finds rows of the holdout in the synthetic table, not of train: "
            "are the two swapped, or was the table made from the holdout?"
        )
        return Measurement(failures=tuple(Failure(name, "failed", message) for name in NAMES))
    rates = [rate_estimate(f"privacy.membership.tpr_at_{rate:g}", rate, of) for rate in RATES]
    figure = {**curve(parts), "attacks": _each(of), "chosen": [part.attack for part in halves]}
    return Measurement(
        estimates=(auc, *(rate for rate in rates if isinstance(rate, Estimate))),
        failures=tuple(rate for rate in rates if isinstance(rate, Failure)),
        figures={"membership": figure},
    )


AUC_NOTE = "how often a training row looks more like one than a row that was not used does; 0.5 tells nothing"
RATE_NOTE = "share of attacked training rows that are recognized while {:.1%} of the other rows are taken for one"


def area_estimate(
    name: str, parts: Sequence[Scores], *, note: str, subject: tuple[str, ...] = (), n_comparisons: int = 1
) -> Estimate:
    """The area under the curve as a number of an evaluation.

    Args:
        name: in the catalog.
        parts: of the targets.
        note: one sentence about it.
        subject: columns that it is about.
        n_comparisons: from how many areas this one was picked (Bonferroni).
    """
    value, low, high = area(parts, n_comparisons)
    n_members, n_controls = n_targets(parts)
    return Estimate(
        name, value, n_members + n_controls, "lower", subject=subject, low=low, high=high, reference=0.5, note=note,
        detectable=detectable_auc(n_members, n_controls, n_comparisons),
    )  # fmt: skip


def rate_estimate(name: str, rate: float, of: Mapping[str, Both], among: Both | None = None) -> Estimate | Failure:
    """The true positive rate at a false positive rate, of the strongest attack; a failure with too few controls.

    Args:
        name: in the catalog.
        rate: the false positive rate.
        of: scores of all targets by every attack.
        among: only these targets, boolean; none: all.
    """
    halves = parts_for(rate, of)
    parts = _scores(halves, of, among)
    n_members, n_controls = n_targets(parts)
    needed = round(1 / rate)
    if n_controls < needed:
        message = f"not measurable: a false positive rate of {rate:.1%} needs {needed} control rows or entities"
        return Failure(name, "skipped", message)
    value, low, high = true_positive_rate(parts, rate)
    allowed = sum(part.n_allowed(rate) for part in parts) + len(parts) - 1
    return Estimate(
        name, value, n_members, "lower", low=low, high=high, reference=rate,
        note=_named(RATE_NOTE.format(rate), halves), detectable=detectable_rate(rate, allowed, n_members, n_controls),
    )  # fmt: skip


def _scores(halves: Sequence[Part], of: Mapping[str, Both], among: Both | None = None) -> list[Scores]:
    return [half.scores(of, among) for half in halves]


def _named(note: str, halves: Sequence[Part]) -> str:
    """The note with the attacks that the number is from."""
    names = " and ".join(dict.fromkeys(half.attack for half in halves))
    return f"{note}; strongest attack: {names}"


def _each(of: Mapping[str, Both]) -> list[dict[str, object]]:
    """What each attack alone came to, on all targets, as plain data."""
    found: list[dict[str, object]] = []
    for name, (members, controls) in of.items():
        alone = [Scores.of(members, controls)]
        rates = {f"tpr_at_{r:g}": list(true_positive_rate(alone, r)) if len(controls) * r >= 1 else None for r in RATES}
        found.append({"name": name, "auc": list(area(alone)), **rates})
    return found

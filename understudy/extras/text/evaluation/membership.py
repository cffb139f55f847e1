"""Membership inference by texts: whose texts were in the training table?

The attacker reads the synthetic texts, knows all texts of every target, and has texts of people who were not used (the
fresh half of the holdout). Two attacks are tried: *language model*, by how much likelier a model of runs of words of
the synthetic texts finds the target's texts than one of the attacker's own; and *repeated run*, by the dearest run of
words that stands in a synthetic text. Targets are rows, or entities with up to `TEXTS_EACH` of their texts.

Source: Carlini et al. 2021, arXiv:2012.07805; van Breugel et al. 2023, arXiv:2302.12580 (DOMIAS); Mireshghallah et al.
2022, arXiv:2203.03929.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from evaluate.metrics import MEMBERS, PEOPLE, Metric
from evaluate.privacy.experiment import MIN_TARGETS
from evaluate.privacy.membership import AREA, AUC_NOTE, Both, area_estimate, named, parts_for, rate_estimate
from evaluate.result import Failure
from evaluate.tables import MetricResult, Tables
from understudy.extras.text.evaluation.tokens import (
    NO_TEXTS,
    TextTokens,
    TokenSides,
    shared_windows,
    word_bases,
    word_probabilities,
)

METRICS = (
    Metric("privacy.texts.membership.auc", "lower", "Membership by texts, AUC", "How well an attacker who reads the "
           "synthetic texts tells whose texts were trained on; 0.5 is a coin.", counted=PEOPLE, attack="always",
           criteria=("linkability", "identifiability"), needs="texts", anchor="texts", bounded=True),
    Metric("privacy.texts.membership.tpr_at_0.01", "lower", "Members found by texts at 1% false alarms", "Members that "
           "this attacker finds while accusing 1 outsider in 100; chance is 1%.", counted=MEMBERS, attack="always",
           criteria=("linkability", "identifiability"), needs="texts", anchor="texts", bounded=True),
)  # fmt: skip
NAME, (AUC, TPR) = "privacy.texts.membership", (metric.name for metric in METRICS)
RATE = 0.01
TEXTS_EACH = 4  # Texts of one target that are looked at, at most
FEW = f"an attack needs at least {MIN_TARGETS} members and as many non-members with a text; give a larger holdout"


def measure(tables: Tables) -> MetricResult:
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    sides = TokenSides.of(tables)
    both = (sides.train, sides.control)
    # Targets of both sides have equally many texts at most: the more there are, the more are repeated.
    each = max(min(TEXTS_EACH, *(int(np.bincount(side.units, minlength=1).max()) for side in both)), 1)
    targets = []
    for side in both:  # the first texts of each of the first units in the seeded order of rows that have a text
        units, first = pd.Series(side.units), np.unique(side.units)[: tables.n_targets or None]
        targets.append(side.chosen((units.isin(first) & (units.groupby(units).cumcount() < each)).to_numpy()))
    if min(len(np.unique(side.units)) for side in targets) < MIN_TARGETS or not len(sides.synthetic.ids):
        return MetricResult(failures=tuple(Failure(name, "skipped", FEW) for name in (AUC, TPR)))
    scores = by_texts(targets, sides)
    halves = parts_for(AREA, scores)
    auc = area_estimate(AUC, [half.scores(scores) for half in halves], note=named(AUC_NOTE, halves))
    rate = rate_estimate(TPR, RATE, scores)
    return MetricResult((auc,), (rate,)) if isinstance(rate, Failure) else MetricResult((auc, rate))


def by_texts(targets: list[TextTokens], sides: TokenSides) -> Mapping[str, Both]:
    base, _ = word_bases(
        sides.words, np.bincount(np.r_[sides.fresh.ids, sides.synthetic.ids], minlength=len(sides.words))
    )
    both, n = targets[0].joined(targets[1]), len(targets[0].ids)
    by_theirs, by_own = (np.log(word_probabilities(both, texts, base)[-1]) for texts in (sides.synthetic, sides.fresh))
    likelier, dearest = [], []
    for side, theirs, own in zip(targets, np.split(by_theirs, [n]), np.split(by_own, [n]), strict=True):
        units, at = np.unique(side.units, return_inverse=True)
        of_texts = np.bincount(side.text, theirs - own, len(side)) / side.sizes.clip(1)
        likelier.append(np.bincount(at, of_texts) / np.bincount(at))
        sums, prices = np.r_[0.0, np.cumsum(-own)], np.zeros(len(units))
        for length, shared, _ in shared_windows(side, sides.synthetic):
            np.maximum.at(prices, at[side.text[shared]], sums[shared + length] - sums[shared])
        dearest.append(prices)
    return {"language model": (likelier[0], likelier[1]), "repeated run": (dearest[0], dearest[1])}

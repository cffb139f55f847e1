"""Membership inference by texts: whose texts were in the training table?

**By the synthetic texts alone.** The attacker reads them, knows all texts of every target, and has texts of people who
were not used (the fresh half of the holdout). They want to say of a target whether its texts were trained on. They win
where they name members more often than non-members. Two attacks are tried: *language model*, by how much likelier a
model of runs of words that was fitted on the synthetic texts finds the target's texts than one that was fitted on the
attacker's own; and *repeated run*, by the dearest run of words that stands in a synthetic text.

**By the model's loss.** The attacker holds the model that wrote the texts (`evaluate.tables.Tables.scorer`). They take
a target for a member whose loss is small, as it is or beside the likelihood by their own texts, since some texts are
easy for every model. Where the table is released without its model, this is a limit of what its texts may tell.

Targets are rows, or entities with up to `TEXTS_EACH` of their texts. Intervals and the choice between attacks are those
of `evaluate.privacy.membership`.

Source: Carlini et al. 2021, arXiv:2012.07805 (membership by likelihood, beside another model's); van Breugel et al.
2023, arXiv:2302.12580 (DOMIAS); Mireshghallah et al. 2022, arXiv:2203.03929 (likelihood ratios for language models).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.free_text.corpus import NO_TEXTS
from evaluate.metrics import MEMBERS, PEOPLE, Metric
from evaluate.privacy.membership import AREA, AUC_NOTE, MIN_TARGETS, Both, area_estimate, parts_for, rate_estimate
from evaluate.privacy.texts.tokens import TextTokens, TokenSides, shared_windows
from evaluate.privacy.texts.word_model import WordBases, WordModel, word_bases
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables, TextScorer

METRICS = (
    Metric("privacy.texts.membership.auc", "lower", "Membership by texts, AUC", "How well an attacker who reads the "
           "synthetic texts tells whose texts were trained on; 0.5 is a coin.", counted=PEOPLE,
           attack="always", criteria=("linkability", "identifiability"), needs="texts", anchor="texts"),
    Metric("privacy.texts.membership.tpr_at_0.01", "lower", "Members found by texts at 1% false alarms", "Members that "
           "this attacker finds while accusing 1 outsider in 100; chance is 1%.", counted=MEMBERS,
           attack="always", criteria=("linkability", "identifiability"), needs="texts", anchor="texts"),
    Metric("privacy.texts.loss.auc", "lower", "Membership by the model's loss, AUC", "The same for an attacker who "
           "holds the model that wrote the texts, where it is at hand.", counted=PEOPLE,
           attack="on request", criteria=("linkability", "identifiability"), needs="texts", anchor="texts"),
    Metric("privacy.texts.loss.tpr_at_0.01", "lower", "Members found by the model's loss at 1% false alarms", "Members "
           "that this attacker finds while accusing 1 outsider in 100; chance is 1%.", counted=MEMBERS,
           attack="on request", criteria=("linkability", "identifiability"), needs="texts", anchor="texts"),
)  # fmt: skip

NAME = "privacy.texts.membership"
BY_TEXTS, BY_LOSS = "privacy.texts.membership", "privacy.texts.loss"
RATE = 0.01
TEXTS_EACH = 4  # Texts of one target that are looked at, at most
FEW = f"an attack needs at least {MIN_TARGETS} members and as many non-members with a text; give a larger holdout"
NO_MODEL = "the model that wrote the texts is not at hand, so that nothing was attacked by its loss"


@dataclass(frozen=True)
class TextLosses:
    """Losses of the model that wrote the synthetic texts at texts of targets. *Sensitive*."""

    train: Mapping[str, np.ndarray]
    control: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls, scorer: TextScorer, train: pd.DataFrame, control: pd.DataFrame, columns: tuple[str, ...]
    ) -> "TextLosses":
        """The losses of some rows. `train`: *Sensitive*. Of members. `control`: *Sensitive*. Of non-members."""
        sides = []
        for rows in (train, control):
            losses = {name: np.asarray(scorer(name, rows), dtype=np.float64) for name in columns}
            if any(loss.shape != (len(rows),) for loss in losses.values()):
                raise ValueError("a scorer gives one loss for each row of the table that it is given")
            sides.append(losses)
        return cls(*sides)


@dataclass(frozen=True)
class TextTargets:
    """Texts of the targets of one side. *Sensitive*."""

    tokens: TextTokens
    units: np.ndarray  # the targets, ascending, shape (n,)

    @classmethod
    def of(cls, tokens: TextTokens, n_targets: int | None, each: int) -> "TextTargets":
        """The targets of a side: those who have a text, the first ones in the seeded order of rows."""
        order = np.argsort(tokens.units, kind="stable")
        ranked = tokens.units[order]
        first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]][: len(ranked)])
        turn = np.arange(len(ranked)) - np.repeat(first, np.diff(np.r_[first, len(ranked)]))
        units = ranked[first][: n_targets or None]
        kept = np.zeros(len(tokens), dtype=bool)
        kept[order] = (turn < each) & np.isin(ranked, units)
        return cls(tokens.of_texts(kept), units)

    def mean(self, of_texts: np.ndarray) -> np.ndarray:
        """The mean of some number of each text over the texts of each target; shape (n,)."""
        at = np.searchsorted(self.units, self.tokens.units)
        return np.asarray(np.bincount(at, of_texts, len(self.units)) / np.bincount(at, minlength=len(self.units)))

    def most(self, of_texts: np.ndarray) -> np.ndarray:
        """The largest one instead of the mean."""
        found = np.full(len(self.units), -np.inf)
        np.maximum.at(found, np.searchsorted(self.units, self.tokens.units), of_texts)
        return found


def measure(tables: Tables) -> MetricResult:
    """Membership by texts, and by the model's loss where it is at hand; a reason alone where there are no texts.
    Estimates: `privacy.texts.membership.*`, `privacy.texts.loss.*`.
    """
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    sides = TokenSides.of(tables)
    each = min(TEXTS_EACH, *(int(np.bincount(side.units, minlength=1).max()) for side in (sides.train, sides.control)))
    targets = [TextTargets.of(side, tables.n_targets, max(each, 1)) for side in (sides.train, sides.control)]
    names = [metric.name for metric in METRICS]
    if min(len(one.units) for one in targets) < MIN_TARGETS or not len(sides.synthetic.ids):
        return MetricResult(failures=tuple(Failure(name, "skipped", FEW) for name in names))
    models = _models(sides)
    found = _estimates(BY_TEXTS, by_texts(targets, sides, models))
    if tables.scorer is None:
        found += [Failure(name, "skipped", NO_MODEL) for name in names if name.startswith(BY_LOSS)]
    else:
        found += _estimates(BY_LOSS, by_loss(targets, tables, tables.scorer, models[1]))
    return MetricResult(
        tuple(one for one in found if isinstance(one, Estimate)),
        tuple(one for one in found if isinstance(one, Failure)),
    )


def by_texts(targets: list[TextTargets], sides: TokenSides, models: tuple[WordModel, WordModel]) -> Mapping[str, Both]:
    """Scores of members and controls by each attack that reads synthetic texts. `targets`: *Sensitive*. Members, then
    controls.
    """
    likelier, dearest = [], []
    for side in targets:
        ours, theirs = (model.log_probabilities(side.tokens) for model in models)
        likelier.append(side.mean(_means(side.tokens, ours - theirs)))
        dearest.append(side.most(_dearest(side.tokens, sides.synthetic, models[1])))
    return {"language model": (likelier[0], likelier[1]), "repeated run": (dearest[0], dearest[1])}


def by_loss(
    targets: list[TextTargets], tables: Tables, scorer: TextScorer, own: WordModel
) -> Mapping[str, Both]:  # fmt: skip
    """Scores of members and controls by the loss of the model that wrote the texts, alone and calibrated. `targets`:
    *Sensitive*. Members, then controls. `tables`: *Sensitive*. Hold their rows.
    """
    names = tables.schema.texts
    frames, places = [], []
    for side, frame in zip(targets, (tables.train, tables.control), strict=True):
        rows, at = np.unique(side.tokens.rows, return_inverse=True)
        frames.append(frame.iloc[rows].reset_index(drop=True))
        places.append(at)
    losses = TextLosses.of(scorer, frames[0], frames[1], names)
    alone, calibrated = [], []
    for side, of, at in zip(targets, (losses.train, losses.control), places, strict=True):
        each = np.stack([of[name] for name in names])[side.tokens.columns, at]
        each = np.nan_to_num(each, nan=float(np.nanmax(each)))
        alone.append(side.mean(-each))
        calibrated.append(side.mean(-each - _means(side.tokens, own.log_probabilities(side.tokens))))
    return {"loss": (alone[0], alone[1]), "calibrated loss": (calibrated[0], calibrated[1])}


def _estimates(name: str, of: Mapping[str, Both]) -> list[Estimate | Failure]:
    halves = parts_for(AREA, of)
    strongest = " and ".join(dict.fromkeys(half.attack for half in halves))
    note = f"{AUC_NOTE}; strongest attack: {strongest}"
    auc = area_estimate(f"{name}.auc", [half.scores(of) for half in halves], note=note)
    return [auc, rate_estimate(f"{name}.tpr_at_{RATE:g}", RATE, of)]


def _models(sides: TokenSides) -> tuple[WordModel, WordModel]:
    words = list(sides.vocabulary.numbers)
    bases: WordBases = word_bases(words, np.bincount(np.r_[sides.fresh.ids, sides.synthetic.ids], minlength=len(words)))
    return WordModel.fit(sides.synthetic, bases), WordModel.fit(sides.fresh, bases)


def _means(tokens: TextTokens, of_words: np.ndarray) -> np.ndarray:
    """The mean over the words of each text; 0 of a text without any."""
    sizes = np.bincount(tokens.text, minlength=len(tokens))
    return np.asarray(np.bincount(tokens.text, of_words, len(tokens)) / np.maximum(sizes, 1))


def _dearest(tokens: TextTokens, synthetic: TextTokens, own: WordModel) -> np.ndarray:
    """Of each text the price, by the attacker's own texts, of the dearest run that stands in a synthetic text."""
    found = np.zeros(len(tokens))
    sums = np.r_[0.0, np.cumsum(-own.log_probabilities(tokens))]
    for shared in shared_windows(tokens, synthetic):
        prices = sums[shared.ours + shared.length] - sums[shared.ours]
        np.maximum.at(found, tokens.text[shared.ours], prices)
    return found

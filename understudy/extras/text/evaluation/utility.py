"""What models lose by learning from synthetic texts to predict a column of their row.

A linear model that learned from synthetic rows and one that learned from as many training rows predict the same
held-out rows. Scores are squares of correlations, with their sign. Beside their difference stand that of fresh real
rows (the reference) and that of training texts beside the columns of other rows (the floor). Chance enters by held-out
rows (half-samples) and by rows learned from (models of halves), as in `evaluate.utility.study`.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.intervals import N_GROUPS
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.study import interval
from understudy.extras.text.evaluation.fidelity import (
    MIN_TEXTS,
    MOST_LEARNED,
    SIDES,
    compared,
    correlations,
    encoded,
    largest,
    text_model,
    texts_of,
)
from understudy.extras.text.evaluation.tokens import NO_TEXTS

NAME = "utility.texts"
WORST = "utility.texts.gap.worst"
_DIFFERENCE = (-2.0, 2.0)
METRICS = (
    Metric(WORST, "lower", "Columns predicted from texts, worst loss", "The largest loss of a linear model that "
           "learned from synthetic texts to predict a column of their row.", key=True, ends=_DIFFERENCE,
           counted=Counted("test rows with a text, which are half of the holdout", 2, 5_000), needs="texts",
           anchor="texts"),
)  # fmt: skip

N_SPLITS = 8  # Splits in halves of the rows learned from


def measure(tables: Tables) -> MetricResult:
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    losses = column_losses(tables)
    if not losses:
        few = f"it needs {MIN_TEXTS // 2} texts in each table and either half of the holdout, and a column that varies"
        return MetricResult(failures=(Failure(WORST, "skipped", few),))
    return MetricResult((largest(losses),))


def column_losses(tables: Tables) -> list[Estimate]:
    """Of each text and each column that varies; their intervals hold all at once."""
    whole = compared(tables)[1]
    coded, losses = EncodedSamples.of(tables, whole), list[tuple[Estimate, np.ndarray, np.ndarray]]()
    for name in tables.schema.texts if coded.columns else ():
        losses += _losses(name, texts_of(whole, name), coded, tables.seed)
    estimates = []
    for loss, drawn, halves in losses:
        low, high = interval(drawn, halves, bounds=_DIFFERENCE, n_comparisons=len(losses))
        estimates.append(replace(loss, low=low, high=high, note=f"The worst of {len(losses)} is {loss.note}"))
    return estimates


def _losses(
    name: str, texts: Sequence[np.ndarray], coded: EncodedSamples, seed: int
) -> list[tuple[Estimate, np.ndarray, np.ndarray]]:
    """The loss of each column that varies among the test rows, and what `interval` takes of it and of halves."""
    counts, outputs, columns = encoded(texts, coded)
    units = [rows.rows.units for rows in coded.rows[:SIDES]]
    train, synthetic, held_out = (np.flatnonzero([text is not None for text in each]) for each in texts)
    fresh, test = (held_out[units[2][held_out] % 2 == side] for side in (0, 1))
    sides = ((0, train), (1, synthetic), (2, fresh), (2, test))
    if min(len(np.unique(units[side][rows])) for side, rows in sides) < MIN_TEXTS // 2:
        return []
    n = min(len(train), len(synthetic), MOST_LEARNED)
    train, synthetic, fresh = train[:n], synthetic[:n], fresh[:n]
    truth, groups = outputs[2][test], units[2][test] // 2 % N_GROUPS

    def score(side: int, rows: np.ndarray, dealt: int = 0) -> np.ndarray:
        model = text_model(counts[side][rows], outputs[side][np.roll(rows, dealt)])
        correlation = correlations(model.predict(counts[2][test]), truth, columns, groups)
        return np.asarray(correlation * np.abs(correlation))

    tstr, trtr, floor = score(1, synthetic), score(0, train), score(0, train, 1)
    reference = score(0, train[: len(fresh)]) - score(2, fresh)
    # Both sides are split by the same draws: the same table twice then gives the same models, and a gap of zero.
    halves = np.array([
        [score(0, ours) - score(1, theirs) for ours, theirs in zip(
            _halved(units[0], train, split), _halved(units[1], synthetic, split), strict=True
        )] for split in np.random.default_rng([seed, 23]).integers(2**63, size=N_SPLITS).tolist()
    ])  # fmt: skip
    losses = []
    for i, column in enumerate(coded.columns):
        if truth[:, columns == i].std(axis=0).max() > 0.0:
            note = (
                f"{column!r}, predicted from {name!r}: {tstr[0, i]:.3f} of what varies by a model of synthetic texts, "
                f"{trtr[0, i]:.3f} by one of {n} real texts"
            )
            loss = Estimate(
                WORST, float((trtr - tstr)[0, i]), len(test), "lower", (name, column), None, None,
                float(reference[0, i]), float((trtr - floor)[0, i]), note,
            )  # fmt: skip
            losses.append((loss, (trtr - tstr)[:, i], halves[:, :, :, i]))
    return losses


def _halved(units: np.ndarray, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    different, at = np.unique(units[rows], return_inverse=True)
    first = np.zeros(len(different), dtype=bool)
    first[np.random.default_rng(seed).permutation(len(different))[: len(different) // 2]] = True
    return rows[first[at]], rows[~first[at]]

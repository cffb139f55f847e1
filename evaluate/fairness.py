"""Fairness: quality of synthetic rows by group of people, for each column that the schema calls sensitive.

`columns`: within a group, as many synthetic, fresh and shuffled rows are compared with its training rows. `models`:
scores by group of models trained on synthetic and on real rows. What synthetic rows add to the difference between
groups may be negative: a model that has learned nothing treats all groups alike. So it describes, and no way is better.
The worst of several groups is chosen by chance as well: its interval has the coverage of all of them together.

Source: Bhanot et al. 2021, "The problem of fairness in synthetic healthcare data", for fidelity by group; Dwork et al.
2012 (1104.3913) for parity of groups, as Agarwal et al. 2018 (1803.02453) measure it.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.estimate import Estimate, Failure, NotMeasuredError
from evaluate.fidelity.encoded import replicated
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import HALVES, half_samples
from evaluate.metrics import Metric
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Form, macro_roc_auc, r2
from evaluate.utility.study import COMPARED, SIDES, Figure, Study, interval, study_of
from synth.domain import Discretizer
from synth.schema import Schema

DISTANCE, GAP, PARITY = "fairness.tvd.excess", "fairness.gap.boosting", "fairness.parity.boosting"
_CHOSEN = "it is the worst of groups, whose number the data decide; name 'columns.tvd.excess'"
METRICS = (
    Metric(DISTANCE, "lower", "Column distance in the worst group", "Mean column distance beyond noise, in the group "
           "where it is largest.", describes=_CHOSEN, by="fairness.columns"),
    Metric(GAP, "lower", "Boosting, loss of the worst group", "What the group that loses most by it loses (TRTR - "
           "TSTR).", describes=_CHOSEN, by="fairness.models"),
    Metric(PARITY, "none", "Boosting, disparity added", "What synthetic rows add to the largest difference in "
           "predictions between two groups (demographic parity).", by="fairness.models",
           describes="a model that has learned nothing treats all groups alike, so less is not better; name "
           "'columns.tvd.excess'"),
)  # fmt: skip

MAX_GROUPS = 8  # Categories of a column at most, the most frequent ones
MIN_ROWS = 100  # Rows that a group must have in each table where something is said of it
N_BINS = 8  # Bins of a number: a group has fewer rows than the table
FORM: Form = "boosting"


@dataclass(frozen=True)
class Groups:
    """The groups of a sensitive column: its largest categories, or the quarters of a number, and missing."""

    column: str
    labels: tuple[str, ...]  # *Sensitive*. One text for each group; the last one is "missing"
    values: tuple[Any, ...] = ()  # *Sensitive*. The values that groups but the last stand for; `None` for a number
    edges: np.ndarray | None = None  # *Sensitive*. What parts a number into groups; `None` for a column with categories

    @classmethod
    def of(cls, name: str, train: pd.DataFrame, schema: Schema) -> "Groups":
        """The groups of a column in the *Sensitive* training table."""
        column: Any = schema.columns[name]
        if column.is_categorical:
            counts = train[name].dropna().astype(object).value_counts().sort_index()
            values = tuple(counts.sort_values(ascending=False, kind="stable").index[:MAX_GROUPS])
            return cls(name, (*map(str, values), "missing"), values)
        positions = column.positions(train[name])
        known = positions[~np.isnan(positions)]
        edges = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="higher")) if len(known) else np.zeros(0)
        edges = edges[edges > known.min()] if len(known) else edges
        words = [str(column.value_at(edge)) if column.is_time else f"{edge:.6g}" for edge in edges]
        inner = [f"{low} to below {high}" for low, high in itertools.pairwise(words)]
        ranges = [f"below {words[0]}", *inner, f"{words[-1]} or more"] if words else ["all"]
        return cls(name, (*ranges, "missing"), edges=edges)

    def codes(self, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
        """The group of each row, -1 for a category of none; shape (n,)."""
        series = frame[self.column]
        if self.edges is None:
            codes = pd.Index(self.values, dtype=object).get_indexer(pd.Index(series.astype(object)))
        else:
            codes = np.searchsorted(self.edges, schema.columns[self.column].positions(series), side="right")
        return np.where(series.isna().to_numpy(dtype=bool), len(self.labels) - 1, codes)


def columns(tables: Tables) -> MetricResult:
    """Column distances in the worst group of each sensitive column, and the figure "fairness_columns"."""
    names = [name for name in tables.schema.sensitive if name in tables.schema.learned]
    if not names or len(tables.schema.learned) < 2:
        raise NotMeasuredError("the schema names no sensitive column that is learned, or has no other column")
    samples = Samples.draw(tables)
    discretizer = Discretizer.by_quantiles(tables.schema, tables.train, N_BINS)
    coded = [discretizer.encode(sample.rows).astype(np.int64) for sample in samples.all]
    measured, figures = list[Estimate | Failure](), []
    for name in names:
        groups = Groups.of(name, tables.train, tables.schema)
        members = [groups.codes(sample.rows, tables.schema) for sample in samples.all]
        others = [(i, size) for i, (column, size) in enumerate(discretizer.sizes.items()) if column != name]
        excesses, rows = list[np.ndarray](), list[dict[str, Any]]()
        for group, label in enumerate(groups.labels):
            inside = [codes == group for codes in members]
            counts = [int(codes.sum()) for codes in inside]
            row = {"group": label, "real": counts[0] / max(len(inside[0]), 1)}
            row |= {"synthetic": counts[1] / max(len(inside[1]), 1), "few": min(counts) < MIN_ROWS}
            if not row["few"]:
                excesses.append(_excess(inside, coded, others, samples))
                row["excess"] = float(excesses[-1][SYNTHETIC, 0])
            rows += [row] * (counts[0] + counts[1] > 0)
        figures.append({"column": name, "groups": rows})
        if not excesses:
            measured.append(Failure(DISTANCE, "skipped", f"no group has {MIN_ROWS} rows in every table", (name,)))
            continue
        worst = max(excesses, key=lambda replicates: float(replicates[SYNTHETIC, 0]))
        value, low, high = float(worst[SYNTHETIC, 0]), None, None
        if worst.shape[1] > 1:
            low, high = half_samples(value, worst[SYNTHETIC, HALVES], bounds=(-1.0, 1.0), n_comparisons=len(excesses))
        floor = max(float(replicates[SHUFFLED, 0]) for replicates in excesses)
        note = f"mean total variation beyond a fresh real sample in the worst of {len(excesses)} groups"
        n = min(samples.n, len(members[1]))
        measured.append(Estimate(DISTANCE, value, n, "lower", (name,), low, high, 0.0, floor, note))
    return MetricResult.of(measured, {"fairness_columns": figures})


def _excess(
    inside: list[np.ndarray], coded: list[np.ndarray], columns: list[tuple[int, int]], samples: Samples
) -> np.ndarray:
    """Mean total variation of columns within a group less that of fresh rows, shape (3, n_replicates)."""
    n = min(int(mask.sum()) for mask in inside[1:])
    rows = [np.flatnonzero(inside[0]), *(np.flatnonzero(mask)[:n] for mask in inside[1:])]
    total = np.zeros(())
    for column, size in columns:
        counts = []
        for chosen, codes, sample in zip(rows, coded, samples.all, strict=True):
            cells = sample.groups[chosen] * size + codes[chosen, column]
            counts.append(replicated(np.bincount(cells, minlength=samples.n_groups * size).reshape(-1, size)))
        shares = [mask / np.maximum(mask.sum(axis=1, keepdims=True), 1) for mask in counts]
        total = total + np.abs(np.array(shares[1:]) - shares[0]).sum(axis=2) / 2 / len(columns)
    return np.asarray(total - total[FRESH])


def models(tables: Tables) -> MetricResult:
    """Losses and parity by group of each sensitive column, and the figure "fairness_models"."""
    names = [name for name in tables.schema.sensitive if name in tables.schema.learned]
    if not names:
        raise NotMeasuredError("the schema names no sensitive column that is learned")
    study, measured, figures = study_of(tables), list[Estimate | Failure](), []
    for name in names:
        groups, subject = Groups.of(name, tables.train, tables.schema), (name,)
        codes = groups.codes(study.test.rows, study.schema)
        members = {group: codes == group for group in range(len(groups.labels)) if (codes == group).sum() >= MIN_ROWS}
        why = "the sensitive column is what models predict" if study.task.target == name else ""
        if not why and len(members) < 2:
            why = f"fewer than two of its groups have {MIN_ROWS} control rows"
        if why:
            measured += [Failure(number, "skipped", why, subject) for number in (GAP, PARITY)]
            continue
        loss, rows = _worst_loss(groups, codes, members, study)
        whole, (low, high) = _compared(study, lambda *table, m=members: parity(study, [*m.values()], *table), 1.0)
        added = Estimate(
            PARITY, whole["tstr"] - whole["trtr"], len(codes), "none", subject=subject, low=low, high=high,
            reference=whole["fresh"] - whole["matched"], floor=whole["floor"] - whole["trtr"],
            note=f"largest difference in predictions between {len(members)} groups: {whole['tstr']:.3f} trained on "
            f"synthetic rows, {whole['trtr']:.3f} on real ones",
        )  # fmt: skip
        measured += [loss, added]
        level = {"model": FORM, **{f"parity_{side}": whole[side] for side in COMPARED}}
        figures.append({"column": name, "groups": rows, "levels": [level]})
    return MetricResult.of(measured, {"fairness_models": figures})


def _worst_loss(
    groups: Groups, codes: np.ndarray, members: dict[int, np.ndarray], study: Study
) -> tuple[Estimate | Failure, list[dict[str, Any]]]:
    """What the group that loses most loses, and a row for each group."""
    truth, score = study.test.truth, macro_roc_auc if study.task.kind == "classification" else r2
    rows, gaps, subject = [], [], (groups.column,)
    for group, label in enumerate(groups.labels):
        row: dict[str, Any] = {"group": label, "n": int((codes == group).sum()), "few": group not in members}
        if group in members:

            def of_group(predictions: np.ndarray, weights: np.ndarray, inside: np.ndarray = codes == group) -> Any:
                return score(predictions[inside], truth[inside], weights[:, inside])

            whole, (low, high) = _compared(study, of_group, -1.0, len(members))
            gap = Estimate(
                GAP, whole["trtr"] - whole["tstr"], row["n"], "lower", subject=subject, low=low, high=high,
                reference=whole["matched"] - whole["fresh"], floor=whole["trtr"] - whole["floor"],
            )  # fmt: skip
            if np.isfinite([gap.value, gap.reference or 0.0, gap.floor or 0.0]).all():
                gaps.append(gap)
                row["boosting"] = {"gap": gap.value, "low": low, "high": high}
        if row["n"]:
            rows.append(row)
    if not gaps:
        return Failure(GAP, "skipped", "the target does not vary within its groups", subject), rows
    note = f"TRTR - TSTR in the group that loses most, of {len(gaps)}; the interval is for all of them together"
    marks = {name: max(getattr(gap, name) for gap in gaps) for name in ("reference", "floor")}
    return replace(max(gaps, key=lambda gap: gap.value), **marks, note=note), rows


def parity(study: Study, members: list[np.ndarray], predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The largest difference between two groups in how often a class, or what number, is predicted; shape (b,)."""
    if study.task.kind == "regression":
        values = predictions[:, None] / (float(study.test.truth.std()) or 1.0)
    else:
        values = np.eye(predictions.shape[1])[predictions.argmax(axis=1)]
    means = []
    for rows in members:
        total = weights[:, rows].sum(axis=1, keepdims=True)
        means.append(np.where(total > 0, weights[:, rows] @ values[rows] / np.where(total > 0, total, 1.0), np.nan))
    return np.asarray((np.max(means, axis=0) - np.min(means, axis=0)).max(axis=1))


def _compared(
    study: Study, figure: Figure, sign: float, n_comparisons: int = 1
) -> tuple[dict[str, float], tuple[float, float]]:
    """A figure of models trained on each side, and the interval of what synthetic rows add to it, or take, by sign."""
    drawn, halves = ([score(FORM, side, figure) for side in COMPARED] for score in (study.drawn, study.split))
    whole = {side: float(figure(study.models[FORM][side].predictions, study.blocks[0])[0]) for side in SIDES}
    ends = interval(sign * (drawn[0] - drawn[1]), sign * (halves[0] - halves[1]), n_comparisons=n_comparisons)
    return whole, ends

"""How faithful every column is on its own: Kolmogorov-Smirnov, chi-square, total variation and missing values.

Numbers and dates are compared by the Kolmogorov-Smirnov distance of their present values, categories and booleans by
the chi-square of their counts (missing is a category there), all of them by total variation on the bins of the training
table (missing is a bin there). Everything is on equally many rows: see `evaluate.fidelity.samples`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluate.fidelity import contingency
from evaluate.fidelity.distances import ChiSquare, Line, chi_square, kolmogorov_smirnov
from evaluate.fidelity.samples import SYNTHETIC, Sample, Samples, excess, summarize
from evaluate.intervals import newcombe, wilson
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables
from synth.columns import DateColumn, DatetimeColumn
from synth.domain import Attribute, Discretizer, line

MAX_LABELS = 60
"""Categories that the figure of a column shows at most; the rarest are shown as one."""


@dataclass(frozen=True)
class ColumnCounts:
    """One column of the training, the synthetic and the fresh sample.

    Attributes:
        attribute: how it was made codes.
        counts: of codes, for the three samples; each of shape (n_replicates, size).
        lines: values on the line for the three samples; none for a categorical or boolean column.
        n_groups: groups that half-samples are made of, 1 where there are none.
    """

    attribute: Attribute
    counts: tuple[np.ndarray, ...]
    lines: tuple[Line, ...] | None
    n_groups: int

    @cached_property
    def tvd(self) -> np.ndarray:
        """Total variation from the training table; shape (2, n_replicates)."""
        train, *others = (contingency.shares(table) for table in self.counts)
        return np.array([contingency.total_variation(train, other) for other in others])

    @cached_property
    def ks(self) -> np.ndarray | None:
        """Kolmogorov-Smirnov distance, shape (2, n_replicates); none where there is nothing to compare."""
        if self.lines is None or not any(len(found.values) for found in self.lines[:2]):
            return None
        train, *others = self.lines
        return np.array([kolmogorov_smirnov(train, other, self.n_groups) for other in others])

    @cached_property
    def chi_squares(self) -> tuple[ChiSquare, ...]:
        """Chi-square against the training table, of synthetic and of fresh rows."""
        train, *others = self.counts
        return tuple(chi_square(train, other) for other in others)


def measure(tables: Tables) -> Measurement:
    """Distances of every learned column, their means, and the figure "columns"."""
    if not tables.schema.learned:
        why = "the schema has no column that is learned"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in _MEANS))
    samples = Samples.draw(tables)
    columns = _columns(samples, Discretizer.by_quantiles(tables.schema, tables.train))
    estimates, failures = _means(columns, samples.n)
    for column in columns:
        name = column.attribute.name
        estimates += [summarize("columns.tvd", column.tvd, samples.n, subject=(name,)), _missing(column)]
        if column.lines is None:
            estimates.append(_chi_square(column, samples.n))
        elif column.ks is None:
            failures.append(Failure("columns.ks", "skipped", "there is no present value to compare", (name,)))
        else:
            estimates.append(_ks(column, column.ks))
    return Measurement(tuple(estimates), tuple(failures), {"columns": [_figure(column) for column in columns]})


_MEANS = ("columns.ks.mean", "columns.tvd.mean", "columns.tvd.excess", "columns.tvd.worst")


def _columns(samples: Samples, discretizer: Discretizer) -> list[ColumnCounts]:
    compared = samples.all[:-1]
    codes = [discretizer.encode(sample.rows) for sample in compared]
    made = []
    for index, attribute in enumerate(discretizer.attributes):
        counts = tuple(
            contingency.counts(code[:, index], attribute.size, sample.groups, samples.n_groups)
            for code, sample in zip(codes, compared, strict=True)
        )
        made.append(ColumnCounts(attribute, counts, _lines(attribute, compared), samples.n_groups))
    return made


def _lines(attribute: Attribute, compared: tuple[Sample, ...]) -> tuple[Line, ...] | None:
    if attribute.edges is None:
        return None
    column: Any = attribute.column
    return tuple(Line.of(line.positions(s.rows[attribute.name], column), s.groups) for s in compared)


def _means(columns: list[ColumnCounts], n: int) -> tuple[list[Estimate], list[Failure]]:
    tvd = np.array([column.tvd for column in columns])
    mean = tvd.mean(axis=0)
    worst = int(np.argmax(tvd[:, SYNTHETIC, 0]))
    biased = f"A small sample adds to a distance: beside the reference, also of {n:,} rows, it is fair."
    estimates = [
        summarize("columns.tvd.mean", mean, n, note=biased),
        excess("columns.tvd.excess", mean, n),
        summarize(
            "columns.tvd.worst", tvd[worst], n, n_comparisons=len(columns),
            note=f"The worst column is {columns[worst].attribute.name!r}; its interval allows for the choice.",
        ),
    ]  # fmt: skip
    ks = [column.ks for column in columns if column.ks is not None]
    if not ks:
        return estimates, [Failure("columns.ks.mean", "skipped", "the schema has no number or date with a value")]
    return [*estimates, summarize("columns.ks.mean", np.mean(ks, axis=0), n, note=biased)], []


def _ks(column: ColumnCounts, replicates: np.ndarray) -> Estimate:
    assert column.lines is not None
    n_train, n = (len(found.values) for found in column.lines[:2])
    note = "" if n_train and n else "One side has no present value, which counts as the largest distance."
    return summarize("columns.ks", replicates, n, subject=(column.attribute.name,), note=note)


def _chi_square(column: ColumnCounts, n: int) -> Estimate:
    synthetic, fresh = column.chi_squares
    note = (
        f"Chi-square {synthetic.statistic[0]:.6g} on {synthetic.degrees} degrees of freedom, p = {synthetic.p:.3g}; "
        "p measures the number of rows, not quality."
    )
    effects = np.array([synthetic.cramers_v, fresh.cramers_v])
    return summarize("columns.chi2", effects, n, subject=(column.attribute.name,), note=note)


def _missing(column: ColumnCounts) -> Estimate:
    """The difference in the share of missing values, with an interval that has a width also where none is missing."""
    (gone, m), (k, n), (k_fresh, n_fresh) = ((int(table[0, -1]), int(table[0].sum())) for table in column.counts)
    _, low, high = newcombe(wilson(k / n, n), wilson(gone / m, m))
    return Estimate(
        "columns.missing", abs(k / n - gone / m), n, "lower", subject=(column.attribute.name,),
        low=max(low, -high, 0.0), high=max(-low, high), reference=abs(k_fresh / n_fresh - gone / m),
    )  # fmt: skip


def _figure(column: ColumnCounts) -> dict[str, Any]:
    attribute = column.attribute
    train, synthetic = (contingency.shares(table)[0] for table in column.counts[:2])
    labels = attribute.labels()
    figure: dict[str, Any] = {"column": attribute.name, "kind": attribute.column.kind, "labels": labels}
    figure |= {"edges": _edges(attribute), "train": train.tolist(), "synthetic": synthetic.tolist()}
    if attribute.edges is None and attribute.size > MAX_LABELS:
        figure |= _shortened(labels, train, synthetic)
    return {**figure, "tvd": float(column.tvd[SYNTHETIC, 0])}


def _shortened(labels: list[str], train: np.ndarray, synthetic: np.ndarray) -> dict[str, Any]:
    """Labels and shares with the categories that are rarest in the training table as one."""
    new = contingency.merged_codes(train, MAX_LABELS)
    shown = [labels[int(np.flatnonzero(new == code)[0])] for code in range(MAX_LABELS)]
    shown[-3] = f"{len(labels) - MAX_LABELS + 1} rarer ones"
    merged = (np.bincount(new, weights=shares, minlength=MAX_LABELS).tolist() for shares in (train, synthetic))
    return dict(zip(("labels", "train", "synthetic"), (shown, *merged), strict=True))


def _edges(attribute: Attribute) -> list[float] | list[str] | None:
    """Edges of the bins: numbers, or dates and times as ISO texts."""
    if attribute.edges is None:
        return None
    if isinstance(attribute.column, DateColumn | DatetimeColumn):
        unit = "D" if isinstance(attribute.column, DateColumn) else "us"
        stamps = np.ceil(attribute.edges).astype(np.int64).astype(f"datetime64[{unit}]")
        return [str(stamp) for stamp in stamps]
    limit = np.finfo(np.float64).max
    return [float(edge) for edge in np.clip(attribute.edges, -limit, limit)]

"""How faithful every column is on its own: distances of numbers, of counts, and missing values.

Numbers and dates are compared by the Kolmogorov-Smirnov distance of their present values and by the Wasserstein
distance in standard deviations of the training column, categories and booleans by the chi-square of their counts
(missing is a category there), all of them by total variation on the bins of the training table (missing is a bin
there). Everything is on equally many rows: see `evaluate.fidelity.samples`. The floor of a single column says nothing:
shuffled columns are right one by one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluate.fidelity import contingency
from evaluate.fidelity.column_figures import figure_of
from evaluate.fidelity.distances import ChiSquare, Gaps, Line, chi_square
from evaluate.fidelity.estimates import Distance, worst
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Sample, Samples
from evaluate.intervals import Rate, clustered, newcombe
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables
from synth.domain import Attribute, Discretizer, line

KINDS = ("tvd", "ks", "wasserstein")
"""Distances that are averaged over columns."""
_BOUNDS = {"tvd": 1.0, "ks": 1.0, "wasserstein": np.inf}
_BIASED = "A small sample adds to a distance: beside the reference, also of {n:,} rows, it is fair."


@dataclass(frozen=True)
class ColumnCounts:
    """One column of the training, the synthetic, the fresh and the shuffled sample.

    Attributes:
        attribute: how it was made codes.
        counts: of codes, for the four samples; each of shape (n_replicates, size).
        lines: values on the line for the four samples; none for a categorical or boolean column.
        missing: the share of missing values of the four samples; the interval counts rows of an entity that are alike
            as one piece of evidence.
        n_groups: groups that half-samples are made of, 1 where there are none.
    """

    attribute: Attribute
    counts: tuple[np.ndarray, ...]
    lines: tuple[Line, ...] | None
    missing: tuple[Rate, ...]
    n_groups: int

    @property
    def name(self) -> str:
        """The column's name."""
        return self.attribute.name

    @cached_property
    def tvd(self) -> np.ndarray:
        """Total variation from the training table; shape (3, n_replicates)."""
        train, *others = (contingency.shares(table) for table in self.counts)
        return np.array([contingency.total_variation(train, other) for other in others])

    @cached_property
    def on_the_line(self) -> dict[str, np.ndarray | str]:
        """Kolmogorov-Smirnov distance and Wasserstein / SD, each of shape (3, n_replicates), or why there is none."""
        if self.lines is None:
            return {}
        train, *others = self.lines
        if not any(len(found.values) for found in self.lines[:2]):
            return dict.fromkeys(("ks", "wasserstein"), "there is no present value to compare")
        gaps = [Gaps.between(train, other, self.n_groups) for other in others]
        found: dict[str, np.ndarray | str] = {"ks": np.array([gap.kolmogorov_smirnov for gap in gaps])}
        scale, moved = train.deviation(self.n_groups), np.array([gap.wasserstein for gap in gaps])
        if any(len(of.values) == 0 for of in self.lines):
            found["wasserstein"] = "a table has no present value in this column, so that no distance is defined"
        elif not moved.any():
            found["wasserstein"] = moved
        elif scale[0] <= 0:
            found["wasserstein"] = "the column is constant in the training table, so that there is no scale"
        else:
            found["wasserstein"] = moved / np.where(scale > 0, scale, scale[0])
        return found

    @cached_property
    def chi_squares(self) -> tuple[ChiSquare, ...]:
        """Chi-square against the training table, of synthetic, fresh and shuffled rows."""
        train, *others = self.counts
        return tuple(chi_square(train, other) for other in others)

    def distance(self, kind: str) -> np.ndarray | str | None:
        """One of `KINDS`, or why there is none; none where it is not for this kind of column."""
        return self.tvd if kind == "tvd" else self.on_the_line.get(kind)


def measure(tables: Tables) -> Measurement:
    """Distances of every learned column, their means, and the figure "columns"."""
    if not tables.schema.learned:
        why = "the schema has no column that is learned"
        names = (*(f"columns.{kind}.{of}" for kind in KINDS for of in ("mean", "excess")), "columns.tvd.excess.worst")
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in names))
    samples = Samples.draw(tables)
    columns = compared_columns(tables, samples)
    measured: list[Estimate | Failure] = []
    for kind in KINDS:
        measured += _means(kind, columns, samples.n)
    beyond = np.array([column.tvd for column in columns])
    measured.append(worst("columns.tvd.excess.worst", beyond, samples.n, [(column.name,) for column in columns]))
    for column in columns:
        measured += _of_column(column, samples.n)
    return Measurement(
        tuple(m for m in measured if isinstance(m, Estimate)),
        tuple(m for m in measured if isinstance(m, Failure)),
        {"columns": [figure_of(c.attribute, c.counts[:2], float(c.tvd[SYNTHETIC, 0])) for c in columns]},
    )


def compared_columns(tables: Tables, samples: Samples) -> list[ColumnCounts]:
    """Every learned column of the samples, in the bins of the training sample."""
    discretizer = Discretizer.by_quantiles(tables.schema, samples.train.rows)
    codes = [discretizer.encode(sample.rows) for sample in samples.all]
    made = []
    for index, attribute in enumerate(discretizer.attributes):
        counts = tuple(
            contingency.counts(code[:, index], attribute.size, sample.groups, samples.n_groups)
            for code, sample in zip(codes, samples.all, strict=True)
        )
        gone = (code[:, index] == attribute.size - 1 for code in codes)
        missing = tuple(clustered(of, sample.units) for of, sample in zip(gone, samples.all, strict=True))
        made.append(ColumnCounts(attribute, counts, _lines(attribute, samples.all), missing, samples.n_groups))
    return made


def _lines(attribute: Attribute, compared: tuple[Sample, ...]) -> tuple[Line, ...] | None:
    if attribute.edges is None:
        return None
    column: Any = attribute.column
    return tuple(Line.of(line.positions(s.rows[attribute.name], column), s.groups) for s in compared)


def _means(kind: str, columns: Iterable[ColumnCounts], n: int) -> list[Estimate | Failure]:
    """The mean of a distance over the columns that it is for, as it is and beyond a fresh sample.

    A column whose distance is undefined takes the means with it: left out, it would improve them.
    """
    names = (f"columns.{kind}.mean", f"columns.{kind}.excess")
    found = {column.name: of for column in columns if (of := column.distance(kind)) is not None}
    without = [name for name, distance in found.items() if isinstance(distance, str)]
    if not found or len(without) == len(found):
        why = "the schema has no number or date with a value"
        return [Failure(name, "skipped", why) for name in names]
    if without and kind == "wasserstein":
        why = f"it is undefined for column {without[0]!r}: {found[without[0]]}"
        return [Failure(name, "skipped", why) for name in names]
    distances = [distance for distance in found.values() if not isinstance(distance, str)]
    mean = Distance(np.mean(distances, axis=0), n, len(distances), _BOUNDS[kind])
    return [mean.plain(names[0], note=_BIASED.format(n=n)), mean.excess(names[1], note=_over(len(distances), kind))]


def _over(n_columns: int, kind: str) -> str:
    what = {"tvd": "total variation", "ks": "Kolmogorov-Smirnov distance", "wasserstein": "Wasserstein distance"}[kind]
    columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
    return f"The mean {what} over {columns}, minus that of a fresh real sample."


def _of_column(column: ColumnCounts, n: int) -> list[Estimate | Failure]:
    """All numbers about one column."""
    subject = (column.name,)
    measured: list[Estimate | Failure] = [_missing(column, n)]
    for kind in KINDS:
        distance = column.distance(kind)
        names = (f"columns.{kind}", f"columns.{kind}.excess")
        if isinstance(distance, str):
            measured += [Failure(name, "skipped", distance, subject) for name in names]
        elif distance is not None:
            note = _alone(column) if kind == "ks" else ""
            alone = Distance(distance, n, bound=_BOUNDS[kind])
            measured += [alone.plain(names[0], subject=subject, note=note), alone.excess(names[1], subject=subject)]
    return measured if column.lines is not None else [*measured, *_chi_square(column, n)]


def _alone(column: ColumnCounts) -> str:
    assert column.lines is not None
    both = all(len(found.values) for found in column.lines[:2])
    return "" if both else "One side has no present value, which counts as the largest distance."


def _chi_square(column: ColumnCounts, n: int) -> list[Estimate]:
    synthetic = column.chi_squares[SYNTHETIC]
    note = (
        f"Chi-square {synthetic.statistic[0]:.6g} on {synthetic.degrees} degrees of freedom, p = {synthetic.p:.3g}; "
        "p measures the number of rows, not quality."
    )
    effect = Distance(np.array([found.cramers_v for found in column.chi_squares]), n)
    subject = (column.name,)
    return [
        effect.plain("columns.chi2", subject=subject, note=note),
        effect.excess("columns.chi2.excess", subject=subject),
    ]


def _missing(column: ColumnCounts, n: int) -> Estimate:
    """The difference in the share of missing values, with an interval that has a width also where none is missing."""
    train, *others = column.missing
    _, low, high = newcombe(others[SYNTHETIC], train)
    differences = [abs(share - train[0]) for share, _, _ in others]
    return Estimate(
        "columns.missing", differences[SYNTHETIC], n, "lower", subject=(column.name,),
        low=max(low, -high, 0.0), high=max(-low, high), reference=differences[FRESH], floor=differences[SHUFFLED],
    )  # fmt: skip

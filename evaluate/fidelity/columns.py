"""How faithful every column is on its own: distances of numbers, of counts, and missing values.

Numbers and dates are compared by the Kolmogorov-Smirnov distance of their present values and by the Wasserstein
distance in standard deviations of the training column, categories and booleans by the chi-square of their counts
(missing is a category there), all of them by total variation on the bins of the training table (missing is a bin
there). Everything is on equally many rows: see `evaluate.fidelity.samples`. The floor of a single column says nothing:
shuffled columns are right one by one.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evaluate.fidelity import descriptives
from evaluate.fidelity.coded import Four, binned, total_variations
from evaluate.fidelity.column_figures import figure_of
from evaluate.fidelity.contingency import replicated
from evaluate.fidelity.distances import ChiSquare, Gaps, chi_square, kolmogorov_p
from evaluate.fidelity.estimates import Distance, worst
from evaluate.fidelity.lines import LEVELS, MAX_VALUES, AnyLine, CellLine, too_many
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, AnySamples
from evaluate.intervals import Rate, newcombe
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables
from synth.domain import Attribute

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
    """

    attribute: Attribute
    counts: Four
    lines: tuple[AnyLine, ...] | None
    missing: tuple[Rate, ...]

    @property
    def name(self) -> str:
        """The column's name."""
        return self.attribute.name

    @cached_property
    def tvd(self) -> np.ndarray:
        """Total variation from the training table; shape (3, n_replicates)."""
        return total_variations(self.counts)

    @cached_property
    def on_the_line(self) -> dict[str, np.ndarray | str]:
        """Kolmogorov-Smirnov distance and Wasserstein / SD, each of shape (3, n_replicates), or why there is none."""
        if self.lines is None:
            return {}
        train, synthetic, *_ = self.lines
        if train.is_empty and synthetic.is_empty:
            return dict.fromkeys(("ks", "wasserstein"), "there is no present value to compare")
        found: dict[str, np.ndarray | str] = {"ks": np.array([gaps.kolmogorov_smirnov for gaps in self.gaps])}
        scale, moved = train.deviation(), np.array([gaps.wasserstein for gaps in self.gaps])
        if any(of.is_empty for of in self.lines):
            found["wasserstein"] = "a table has no present value in this column, so that no distance is defined"
        elif not moved.any():
            found["wasserstein"] = moved
        elif scale[0] <= 0:
            found["wasserstein"] = "the column is constant in the training table, so that there is no scale"
        else:
            found["wasserstein"] = moved / np.where(scale > 0, scale, scale[0])
        return found

    @cached_property
    def gaps(self) -> tuple[Gaps, ...]:
        """Between training rows and synthetic, fresh and shuffled ones; of a number or time."""
        assert self.lines is not None
        train, *others = self.lines
        return tuple(Gaps.between(train, other) for other in others)

    @cached_property
    def chi_squares(self) -> tuple[ChiSquare, ...]:
        """Chi-square against the training table, of synthetic, fresh and shuffled rows."""
        train, *others = self.counts
        return tuple(chi_square(train, other) for other in others)

    @property
    def test(self) -> dict[str, Any] | None:
        """The two-sample test that readers know: Kolmogorov-Smirnov's D of a number, Cramer's V of a category."""
        if self.lines is None:
            found = self.chi_squares[SYNTHETIC]
            sizes = [int(of[0].sum()) for of in self.counts[:2]]
            return {"statistic": "V", "value": float(found.cramers_v[0]), "n": sizes, "p": found.p}
        sizes = [int(of.counts.sum()) for of in self.lines[:2]]
        if not all(sizes):
            return None
        distance = float(self.gaps[SYNTHETIC].kolmogorov_smirnov[0])
        return {"statistic": "D", "value": distance, "n": sizes, "p": kolmogorov_p(distance, *sizes)}

    def distance(self, kind: str) -> np.ndarray | str | None:
        """One of `KINDS`, or why there is none; none where it is not for this kind of column."""
        return self.tvd if kind == "tvd" else self.on_the_line.get(kind)


def measure(tables: Tables) -> Measurement:
    """Distances of every learned column, their means, and the figure "columns"."""
    if not tables.schema.learned:
        why = "the schema has no column that is learned"
        names = (*(f"columns.{kind}.{of}" for kind in KINDS for of in ("mean", "excess")), "columns.tvd.excess.worst")
        names += descriptives.OF_THE_TABLE
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in names))
    samples = AnySamples.of(tables)
    columns = compared_columns(tables, samples)
    measured: list[Estimate | Failure] = []
    for kind in KINDS:
        measured += _means(kind, columns, samples.n)
    beyond = np.array([column.tvd for column in columns])
    measured.append(worst("columns.tvd.excess.worst", beyond, samples.n, [(column.name,) for column in columns]))
    for column in columns:
        measured += _of_column(column, samples.n)
    whole = samples.whole()
    described, drawn = descriptives.measure(whole, tables.schema.columns, _lines(whole))
    measured += described
    return Measurement(
        tuple(m for m in measured if isinstance(m, Estimate)),
        tuple(m for m in measured if isinstance(m, Failure)),
        {"columns": [{**_figure(column), "descriptives": drawn.get(column.name)} for column in columns]},
    )


def _figure(column: ColumnCounts) -> dict[str, Any]:
    figure = figure_of(column.attribute, column.counts[:2], float(column.tvd[SYNTHETIC, 0]))
    return {**figure, "test": column.test}


def compared_columns(tables: Tables, samples: AnySamples[Any]) -> list[ColumnCounts]:
    """Every learned column of the samples, in the bins of the training sample."""
    attributes = binned(tables.schema, samples.train).attributes
    with ExitStack() as stack:
        coded = [stack.enter_context(closing(sample.coded(attributes))) for sample in samples.all]
        alone = [(index,) for index in range(len(attributes))]
        counted = list(zip(*(codes.each(alone) for codes in coded), strict=True))
    lines, missing = _lines(samples), [sample.missing() for sample in samples.all]
    return [
        ColumnCounts(
            attribute, tuple(replicated(counts) for counts in found), lines.get(attribute.name),
            tuple(of[attribute.name] for of in missing),
        )
        for attribute, found in zip(attributes, counted, strict=True)
    ]  # fmt: skip


def _lines(samples: AnySamples[Any]) -> Mapping[str, tuple[AnyLine, ...]]:
    """Values of each number and time in the four samples, in cells where one of them has too many."""
    n_values = [sample.n_values() for sample in samples.all]
    grids = {
        name: samples.train.grid(name) if too_many(max(of[name] for of in n_values)) else None for name in n_values[0]
    }
    found = [sample.lines(grids) for sample in samples.all]
    return {name: tuple(lines[name] for lines in found) for name in grids}


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
            note = _note(kind, column)
            alone = Distance(distance, n, bound=_BOUNDS[kind])
            measured += [alone.plain(names[0], subject=subject, note=note), alone.excess(names[1], subject=subject)]
    return measured if column.lines is not None else [*measured, *_chi_square(column, n)]


def _note(kind: str, column: ColumnCounts) -> str:
    """What is to be known of a distance on the line."""
    if kind == "tvd" or column.lines is None:
        return ""
    train, synthetic, *_ = column.lines
    notes = []
    if kind == "ks" and (train.is_empty or synthetic.is_empty):
        notes.append("One side has no present value, which counts as the largest distance.")
    if isinstance(train, CellLine):
        most = 1 / LEVELS if kind == "ks" else column.gaps[SYNTHETIC].area_error / train.deviation()[0]
        notes.append(f"Of more than {MAX_VALUES:,} distinct values, in cells: it is larger by {most:.2g} at most.")
    return " ".join(notes)


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

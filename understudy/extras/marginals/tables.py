"""Published tables: what is read of them, and how their cells lie over the codes of a schema.

A column of categories has a cell for each, or for each of its groups. Of a number or a time a table names where each of
its stretches begins, and a stretch goes up to the next one. So the same age may stand in years in one table and in
groups of five in another. The codes of a column are as fine as all tables together.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from synth.domain import Discretizer, grid
from synth.domain.counts import MARK
from synth.domain.discretizer import MISSING, OTHER, Attribute, regroup
from synth.errors import JobError, TableError
from synth.marginals import Factor, Measurement
from synth.marginals.factor import EXACT_SIGMA
from synth.schema import Schema, build_schema
from synth.table import conform, read_table
from synth.validation import Frozen, refuse

Mechanism = Literal["gaussian", "discrete gaussian", "laplace", "geometric", "none"]
MOST_CELLS = 1_000_000  # of one table
LARGE = 4.0  # scale from which discrete noise is as the continuous one
Array = NDArray[np.float64]


class PublishedTable(Frozen):
    """One published table: a count for every combination of what its columns hold."""

    cells: Any = Field(
        description="A file or frame with a column for each attribute and one of counts, a line for each cell; or an "
        "array, with an axis for each of `columns`: its categories or bins as declared, `missing` last where it may be."
    )
    mechanism: Mechanism = Field(
        description="What noise its counts have; none: they are exact, or rounded to whole numbers."
    )
    scale: float | None = Field(
        default=None, ge=1e-3, le=1e12,
        description="sigma of a Gaussian; the scale b of a Laplace or geometric one, at which a loss of 1/b is paid.",
    )  # fmt: skip
    columns: tuple[str, ...] | None = Field(default=None, description="Left out: all columns of `cells` but `value`.")
    value: str = Field(default="value", description="The column of counts; noise may have made some negative.")
    groups: dict[str, dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]]] = Field(
        default_factory=dict, description="Of a column with categories: the categories that one cell stands for."
    )

    @model_validator(mode="after")
    def _scaled(self) -> Self:
        exact = self.mechanism == "none"
        refuse([
            (exact and self.scale is not None, "scale is of noise, and mechanism is none; leave it out"),
            (not exact and self.scale is None, f"mechanism={self.mechanism!r} has a scale; add it"),
        ])  # fmt: skip
        return self

    @property
    def sigma(self) -> float:
        """The standard deviation of a cell."""
        if self.scale is None:
            return EXACT_SIGMA
        if (small := self._small) is not None:
            return max(math.sqrt(float((small[0] ** 2 * small[1]).sum())), 1e-6)
        if self.mechanism == "geometric":  # a = e^(-1/b); the variance is 2 a / (1 - a)^2
            return math.sqrt(0.5) / math.sinh(0.5 / self.scale)
        return self.scale * (math.sqrt(2) if self.mechanism == "laplace" else 1.0)

    @property
    def spread(self) -> float:
        """The variance of the square of a cell's noise over twice its squared mean; of a Gaussian it is 1."""
        if (small := self._small) is not None:
            second, fourth = (float((small[0] ** power * small[1]).sum()) for power in (2, 4))
            return max((fourth / max(second**2, 1e-12) - 1) / 2, 1.0)
        return 2.5 if self.mechanism in ("laplace", "geometric") else 1.0

    @property
    def _small(self) -> tuple[Array, Array] | None:
        """Values and chances of discrete noise of a small scale."""
        if self.scale is None or self.scale >= LARGE or self.mechanism not in ("discrete gaussian", "geometric"):
            return None
        x = np.arange(-200.0, 201.0)
        logs = -0.5 * (x / self.scale) ** 2 if self.mechanism == "discrete gaussian" else -np.abs(x) / self.scale
        return x, np.exp(logs) / np.exp(logs).sum()

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Noise as declared, to see what a check comes to where it is true; it protects nobody."""
        if self.scale is None:
            return rng.normal(0, EXACT_SIGMA, shape)
        if (small := self._small) is not None:
            return rng.choice(small[0], shape, p=small[1])
        if self.mechanism == "laplace":
            return rng.laplace(0, self.scale, shape)
        if self.mechanism == "geometric":
            p = -math.expm1(-1 / self.scale)
            return np.asarray(rng.geometric(p, shape) - rng.geometric(p, shape), dtype=np.float64)
        return rng.normal(0, self.sigma, shape)


@dataclass(frozen=True, eq=False)
class Cells:
    """A table's counts over attributes of the model. `positions`: for each axis where in its attribute a cell lies."""

    name: str
    table: PublishedTable
    clique: tuple[str, ...]
    positions: tuple[NDArray[np.intp], ...]
    counts: Array

    def measurement(self, domain: Mapping[str, int]) -> Measurement:
        """Codes that cannot be have no cell; they are ruled out, and a zero there says nothing."""
        values = np.zeros([domain[name] for name in self.clique])
        values[np.ix_(*self.positions)] = self.counts
        return Measurement(self.clique, values, self.table.sigma)

    def of_marginal(self, marginal: Array) -> Array:
        return np.asarray(marginal[np.ix_(*self.positions)])


@dataclass(frozen=True, eq=False)
class Publication:
    """Tables over the same rows. `domain`: the codes of columns, and coarse ones behind them."""

    discretizer: Discretizer
    domain: Mapping[str, int]
    zeros: tuple[Factor, ...]
    tables: tuple[Cells, ...]


def publication_of(tables: Mapping[str, PublishedTable], schema: Schema, most: float) -> Publication:
    """Tables by name, read and put over the codes of a schema. `most`: cells of a model."""
    frames = {name: _frame(name, table, schema) for name, table in tables.items()}
    if lacking := [name for name in schema.modeled if not any(name in frame for frame in frames.values())]:
        raise TableError(
            f"columns={', '.join(lacking)} are in no table, so that nothing is known of them; publish a table of each, "
            "or set drop = true for it"
        )
    attributes = {name: _attribute(name, schema.columns[name], frames) for name in schema.modeled}
    discretizer = Discretizer(tuple(attributes.values()))
    domain, zeros = dict(discretizer.sizes), []
    for name, attribute in attributes.items():
        if len(attribute.impossible):
            shares = np.zeros(attribute.size)
            shares[attribute.impossible] = -np.inf
            zeros.append(Factor((name,), shares))
    known: dict[tuple[str, bytes], str] = {}
    placed = []
    for name, frame in frames.items():
        axes = []
        for column in frame.columns[:-1]:
            attribute, own = attributes[column], tables[name].groups.get(column, {})
            cells, groups, n = _grouped(name, attribute, frame[column], own)
            placing = np.flatnonzero(groups < n)
            if len(placing) == n:
                axes.append((column, cells, placing[np.argsort(groups[placing])]))
                continue
            if (column, groups.tobytes()) not in known:
                if len(groups) * (n + 1) > most:
                    raise JobError(
                        f"table={name!r}, column={column!r}: {n:,} stretches beside {len(groups):,} of others are "
                        "more than max_model_mb has room for; merge some, or leave a table out"
                    )
                # A column may have several sets of coarse codes; each attribute's name ends with the mark.
                coarse = known[column, groups.tobytes()] = f"{column}\0{len(known)}{MARK}"
                domain[coarse] = n + 1
                together = groups[:, np.newaxis] == np.arange(n + 1)
                zeros.append(Factor((column, coarse), np.where(together, 0.0, -np.inf)))
            axes.append((known[column, groups.tobytes()], cells, np.arange(n)))
        placed.append(_placed(name, tables[name], axes, frame.iloc[:, -1].to_numpy()))
    return Publication(discretizer, domain, tuple(zeros), tuple(placed))


def _frame(name: str, table: PublishedTable, schema: Schema) -> pd.DataFrame:
    """The columns of a table as the schema has them (groups as they are called), and its counts last."""
    cells = read_table(table.cells) if isinstance(table.cells, str | Path) else table.cells
    frame = cells.copy() if isinstance(cells, pd.DataFrame) else _long(name, table, schema)
    frame.columns = frame.columns.map(str)
    columns = tuple(table.columns or (each for each in frame.columns if each != table.value))
    where = f"table={name!r}: "
    for fault in _faults(frame, columns, table, schema):
        raise TableError(where + fault)
    counts = pd.to_numeric(frame[table.value], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if n_bad := int((~np.isfinite(counts)).sum()):
        words = f"{n_bad} of its {table.value!r} are missing, infinite or no numbers; write each count as published"
        raise TableError(where + words)
    alone = {each: schema.columns[each] for each in columns if each not in table.groups}
    try:
        fitting = conform(frame[[*alone]], _alone(alone), part=True) if alone else frame
    except TableError as error:
        raise TableError(f"{where}{str(error).partition(';')[0]}; correct the table, or the schema") from None
    labels = frame[[*table.groups]]  # texts, and `None` stands for a missing value
    parts = {**fitting, **labels.astype(str).where(labels.notna(), None)}
    return pd.DataFrame({**{each: parts[each] for each in columns}, "\0counts": counts}, copy=False)


def _faults(frame: pd.DataFrame, columns: Sequence[str], table: PublishedTable, schema: Schema) -> Iterator[str]:
    if not frame.columns.is_unique or len(set(columns)) < len(columns):
        yield "a column stands there twice; name each once"
    for each in (*columns, table.value):
        if each not in frame.columns:
            yield f"column={each!r} is not there; it has {', '.join(frame.columns)}"
    for each in columns:
        if each not in schema.modeled:
            yield f"column={each!r} is none that the schema has to be learned; these are {', '.join(schema.modeled)}"
    for each in table.groups:
        if each not in columns or not schema.columns[each].is_categorical:
            yield f"groups are of columns with categories, and {each!r} is none; a number names where each begins"
    if more := [each for each in frame.columns if each not in (*columns, table.value)]:
        yield f"it has columns={', '.join(more)} beside those named; leave these out"


def _long(name: str, table: PublishedTable, schema: Schema) -> pd.DataFrame:
    """An array as a line for each of its cells."""
    cells = np.array(table.cells, dtype=object)  # of lists that are no array, an array of lists
    levels: list[Sequence[Any]] = []
    for each in table.columns or ():
        column: Any = schema.columns.get(each)
        if column is None or not (column.is_categorical or len(getattr(column, "bins", ()))):
            raise TableError(
                f"table={name!r}: an axis has categories or declared bins, and {each!r} has none; pass lines"
            )
        own = list(column.levels if column.is_categorical else column.bins[:-1])
        levels.append([*own, None] if column.missing else own)
    shape = tuple(map(len, levels))
    if table.groups or cells.shape != shape:
        raise TableError(
            f"table={name!r}: an array over its columns has shape={shape}, and not {cells.shape}; correct it"
        )
    lines = pd.DataFrame(list(product(*levels)), columns=list(table.columns or ()), dtype=object)
    return lines.assign(**{table.value: cells.ravel()})


def _alone(columns: Mapping[str, Any]) -> Schema:
    """The schema of these columns and nothing else."""
    plain = {name: column.model_dump(mode="json") for name, column in columns.items()}
    return build_schema({"status": "declared", "columns": plain})


def _attribute(name: str, column: Any, frames: Mapping[str, pd.DataFrame]) -> Attribute:
    """The codes of a column: categories, or stretches between all places where a stretch of any table begins."""
    if column.is_categorical:
        return Discretizer.by_schema(_alone({name: column})).attributes[0]
    positions = np.concatenate([column.positions(frame[name]) for frame in frames.values() if name in frame])
    starts = grid.between(np.unique(positions[~np.isnan(positions)]), column.unit)
    edges = grid.close(np.concatenate([grid.public_grid(column), starts]), column)
    n_cells = len(edges) + 1
    attribute = Attribute(name, column, edges, np.arange(n_cells), np.ones(n_cells))
    return regroup(attribute, np.searchsorted(starts, edges[:-1], side="right"))


def _grouped(
    table: str, attribute: Attribute, labels: pd.Series, groups: Mapping[str, Sequence[Any]]
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """The cell of each line along a column, the cell of each of its codes, and how many cells there are. Codes that
    cannot be have the number behind the last.
    """
    where = f"table={table!r}, column={attribute.name!r}"
    impossible = np.isin(np.arange(attribute.size), attribute.impossible)
    if groups:
        texts = {str(level): code for code, level in enumerate(attribute.column.levels)}
        members: dict[Any, list[int]] = {label: [texts.get(str(x), -1) for x in own] for label, own in groups.items()}
        inside = {code for codes in members.values() for code in codes}
        if -1 in inside or len(inside) < sum(map(len, members.values())):
            raise TableError(f"{where}: a group names an unknown category, or one that is in another group; correct it")
        members |= {text: [code] for text, code in texts.items() if code not in inside}
        if attribute.column.missing:
            members[None] = [attribute.size + MISSING]
        if unknown := [label for label in labels if label not in members]:
            raise TableError(f"{where}: {unknown[0]!r} is neither a category nor a group; correct it")
        firsts = np.array([members[label][0] for label in labels])
        of_code = np.arange(attribute.size)
        for codes in members.values():
            of_code[codes] = codes[0]
    else:
        firsts = attribute.codes(labels).astype(np.intp)
        of_code = np.arange(attribute.size)
        if attribute.edges is not None:
            starts = np.unique(firsts[firsts < attribute.size + OTHER])
            if len(starts) == 0 or starts[0] > 0:
                raise TableError(
                    f"{where}: its first stretch begins above the bounds of the column; add one from there on, or "
                    "declare other bounds"
                )
            of_code[:OTHER] = starts[np.searchsorted(starts, of_code[:OTHER], side="right") - 1]
    distinct, dense = np.unique(of_code[~impossible], return_inverse=True)
    if not np.isin(firsts, distinct).all():
        raise TableError(f"{where}: it has cells of missing values, and the schema says that none is; declare missing")
    if n_absent := len(np.setdiff1d(distinct, firsts)):
        is_missing = attribute.size + MISSING in np.setdiff1d(distinct, firsts)
        what = "that of missing values" if is_missing and n_absent == 1 else f"{n_absent} of its {len(distinct)}"
        raise TableError(f"{where}: a table has a cell for every category, and {what} are not there; add them")
    cells = np.full(attribute.size, len(distinct))
    cells[~impossible] = dense
    return np.searchsorted(distinct, firsts), cells, len(distinct)


def _placed(
    name: str, table: PublishedTable, axes: Sequence[tuple[str, NDArray[np.intp], NDArray[np.intp]]], counts: Array
) -> Cells:
    shape = tuple(len(positions) for _, _, positions in axes)
    if math.prod(shape) > MOST_CELLS:
        raise TableError(f"table={name!r} has {math.prod(shape):,} cells, and may have {MOST_CELLS:,}; merge some")
    at = np.ravel_multi_index([cells for _, cells, _ in axes], shape) if axes else np.zeros(len(counts), dtype=np.intp)
    if len(np.unique(at)) < len(at):
        raise TableError(f"table={name!r}: a cell stands there twice; keep one line of each")
    if len(at) < math.prod(shape):
        raise TableError(
            f"table={name!r} lacks {math.prod(shape) - len(at):,} of its {math.prod(shape):,} cells; a count of zero "
            "is written like any other"
        )
    values = np.empty(math.prod(shape))
    values[at] = counts
    return Cells(name, table, tuple(a for a, _, _ in axes), tuple(p for _, _, p in axes), values.reshape(shape))

"""Adult as the benchmark reads it: train and test parts, and the public schema with its bins and without."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

SCHEMA = Path(__file__).with_name("adult.schema.toml")
N_ROWS, N_TRAIN = 32_561, 26_048
"""Rows of UCI's `adult.data`, which come first also where `adult.test` follows; and those of the train part."""
DELTA = 1e-6
"""Of every private fit of it."""


@dataclass(frozen=True)
class Adult:
    """The table, split once and for all.

    Attributes:
        train: rows that generators see.
        test: rows that none sees.
        binned: the public schema with declared bins.
        plain: the same with bounds and categories only.
    """

    train: pd.DataFrame
    test: pd.DataFrame
    binned: Schema
    plain: Schema

    @property
    def target(self) -> str:
        """The column to predict."""
        assert self.binned.target is not None
        return self.binned.target


def read_adult(path: Path) -> Adult:
    """The table as found at UCI (no header, ``?`` where missing), or with a header and gaps.

    Raises:
        ValueError: the table has not Adult's columns or rows.
    """
    content = tomllib.loads(SCHEMA.read_text())
    names = list(content["columns"])
    with_header = {"header": 0} if _has_header(path, names) else {"header": None, "names": names}
    frame = pd.read_csv(path, skipinitialspace=True, keep_default_na=False, na_values=["", "?"], **with_header)
    if list(frame.columns) != names or len(frame) < N_ROWS:
        raise ValueError(f"not Adult's table of {N_ROWS:,} rows x {len(names)} columns: path={str(path)!r}")
    order = np.random.default_rng(0).permutation(N_ROWS)
    train, test = (frame.iloc[rows].reset_index(drop=True) for rows in (order[:N_TRAIN], order[N_TRAIN:]))
    return Adult(train, test, build_schema(content), build_schema(_without_bins(content)))


class Codes:
    """Whole numbers from 0 for the bins and categories of each column, and back, evenly within a bin.

    Args:
        schema: of whole numbers with bins, and categories.
    """

    def __init__(self, schema: Schema) -> None:
        self._columns = schema.columns

    @property
    def sizes(self) -> dict[str, int]:
        """Number of codes of each column; the last is `missing` where values may be."""
        return {name: len(self._values(name)) + column.missing for name, column in self._columns.items()}

    def encode(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The codes of a table."""
        return pd.DataFrame({name: self._encode(name, frame[name]) for name in self._columns})

    def decode(self, codes: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """A table of values for codes; a code that is missing or unknown is drawn anew from the column's others."""
        return pd.DataFrame({name: self._decode(name, codes[name], rng) for name in self._columns})

    def _values(self, name: str) -> list[object]:
        column = self._columns[name]
        return list(column.bins[:-1]) if column.is_whole else list(column.categories)  # type: ignore[union-attr]

    def _encode(self, name: str, series: pd.Series) -> np.ndarray:
        column = self._columns[name]
        if column.is_whole:
            codes = np.searchsorted(np.array(column.bins[1:-1]), series.to_numpy(), side="right")
        else:
            codes = pd.Index(self._values(name)).get_indexer(pd.Index(series.array))
        return np.where(series.isna().to_numpy(), self.sizes[name] - 1, codes)

    def _decode(self, name: str, series: pd.Series, rng: np.random.Generator) -> pd.Series:
        column, size = self._columns[name], self.sizes[name]
        codes = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        known = np.isfinite(codes) & (codes >= 0) & (codes < size)
        codes[~known] = rng.choice(codes[known], int((~known).sum())) if known.any() else 0
        whole = codes.astype(np.int64)
        if column.is_whole:
            assert column.bounds is not None
            edges = np.array(column.bins, dtype=np.int64)
            values = rng.integers(edges[whole], np.minimum(edges[whole + 1], column.bounds[1] + 1))
            return pd.Series(np.clip(values, *column.bounds))
        texts = np.array([*self._values(name), None], dtype=object)
        return pd.Series(texts[whole], dtype=object)


def _has_header(path: Path, names: list[str]) -> bool:
    return list(pd.read_csv(path, nrows=0, skipinitialspace=True).columns) == names


def _without_bins(content: dict) -> dict:  # type: ignore[type-arg]
    columns = {name: {k: v for k, v in column.items() if k != "bins"} for name, column in content["columns"].items()}
    return {**content, "columns": columns}

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
    """The table, split.

    Raises:
        ValueError: the table has not Adult's columns or rows.
    """
    frame, content = read_rows(path), tomllib.loads(SCHEMA.read_text())
    order = np.random.default_rng(0).permutation(N_ROWS)
    train, test = (frame.iloc[rows].reset_index(drop=True) for rows in (order[:N_TRAIN], order[N_TRAIN:]))
    return Adult(train, test, build_schema(content), build_schema(_without_bins(content)))


def read_rows(path: Path) -> pd.DataFrame:
    """The rows as found at UCI (no header, ``?`` where missing), or with a header and gaps.

    Raises:
        ValueError: the table has not Adult's columns or rows.
    """
    names = list(tomllib.loads(SCHEMA.read_text())["columns"])
    with_header = {"header": 0} if _has_header(path, names) else {"header": None, "names": names}
    frame: pd.DataFrame = pd.read_csv(
        path, skipinitialspace=True, keep_default_na=False, na_values=["", "?"], **with_header
    )
    if list(frame.columns) != names or len(frame) < N_ROWS:
        raise ValueError(f"not Adult's table of {N_ROWS:,} rows x {len(names)} columns: path={str(path)!r}")
    return frame


def _has_header(path: Path, names: list[str]) -> bool:
    return list(pd.read_csv(path, nrows=0, skipinitialspace=True).columns) == names


def _without_bins(content: dict) -> dict:  # type: ignore[type-arg]
    columns = {name: {k: v for k, v in column.items() if k != "bins"} for name, column in content["columns"].items()}
    return {**content, "columns": columns}

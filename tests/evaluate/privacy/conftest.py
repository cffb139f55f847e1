"""Populations of every make, and evaluations of tables drawn from them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.tables import Tables
from synth.schema import Schema, build_schema

Population = Callable[[int, np.random.Generator], pd.DataFrame]


def categorical(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Nine columns of categories that hang together, some of them missing."""
    group = rng.integers(0, 6, n)
    columns = {}
    for i in range(9):
        codes = np.where(rng.random(n) < 0.6, (group + i) % 6, rng.integers(0, 6, n))
        values = np.array([f"v{code}" for code in codes], dtype=object)
        values[rng.random(n) < 0.05] = None
        columns[f"c{i}"] = values
    return pd.DataFrame(columns)


def numeric(n: int, rng: np.random.Generator) -> pd.DataFrame:
    base = rng.standard_normal(n)
    frame = pd.DataFrame({f"x{i}": np.round(base + rng.standard_normal(n), 3) for i in range(5)})
    return frame.mask(rng.random(frame.shape) < 0.05)


def mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    days = pd.Series(np.datetime64("2020-01-01", "us") + rng.integers(0, 900, n) * np.timedelta64(1, "D"))
    frame = pd.concat([categorical(n, rng).iloc[:, :3], numeric(n, rng).iloc[:, :2]], axis=1)
    flag = pd.array(rng.random(n) < 0.3, dtype="boolean")
    flag[rng.random(n) < 0.1] = pd.NA
    return frame.assign(day=days.astype("datetime64[us]"), flag=flag, same="k", never=np.full(n, np.nan))


def one_number(n: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame({"x": rng.standard_normal(n)})


def duplicates(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Three yes/no columns: every row has many twins."""
    return pd.DataFrame({name: np.where(rng.random(n) < 0.4, "yes", "no") for name in "abc"})


POPULATIONS: dict[str, Population] = {
    "all categorical": categorical, "all numeric": numeric, "mixed": mixed, "one column": one_number,
    "many duplicates": duplicates,
}  # fmt: skip


def schema_of(frame: pd.DataFrame, **roles: object) -> Schema:
    columns: dict[str, object] = {}
    for name, series in frame.items():
        missing = {"missing": True}
        if series.dtype == object:
            columns[str(name)] = {"kind": "categorical", "categories": sorted(set(series.dropna())), **missing}
        elif isinstance(series.dtype, pd.BooleanDtype):
            columns[str(name)] = {"kind": "boolean", **missing}
        elif series.dtype == "Int64":
            columns[str(name)] = {"kind": "identifier", "bounds": [0, 10**9]}
        elif series.dtype.kind == "M":
            columns[str(name)] = {"kind": "date", "bounds": ["2019-01-01", "2030-01-01"], **missing}
        else:
            columns[str(name)] = {"kind": "real", "bounds": [-1e9, 1e9], **missing}
    return build_schema({"status": "inferred", "columns": columns, **roles})


def evaluation(
    train: pd.DataFrame, fresh: pd.DataFrame, control: pd.DataFrame, synthetic: pd.DataFrame, seed: int = 0
) -> Tables:
    """An evaluation of frames that conform already."""
    rows = [frame.reset_index(drop=True) for frame in (train, fresh, control, synthetic)]
    schema = schema_of(pd.concat(rows, ignore_index=True))
    shuffled = shuffle_columns(rows[0], np.random.default_rng([seed, 0]))
    return Tables(schema, schema, rows[0], rows[1], rows[2], shuffled, seed, synthetic=rows[3])


def drawn(population: Population, sizes: tuple[int, int, int, int], seed: int, leak: float = 0.0) -> Tables:
    """An evaluation of independent samples, a share of the synthetic rows replaced by training rows."""
    frame = population(sum(sizes), np.random.default_rng(seed))
    train, fresh, control, synthetic = (
        frame.iloc[end - size : end] for size, end in zip(sizes, np.cumsum(sizes), strict=True)
    )
    n_leaked = round(leak * len(synthetic))
    if n_leaked:
        synthetic = pd.concat([synthetic.iloc[n_leaked:], train.iloc[:n_leaked]])
    return evaluation(train, fresh, control, synthetic, seed)


@pytest.fixture(params=POPULATIONS)
def population(request: pytest.FixtureRequest) -> Population:
    """Each make of table in turn."""
    return POPULATIONS[request.param]


@pytest.fixture
def draw() -> Callable[..., Tables]:
    return drawn


@pytest.fixture
def evaluate_frames() -> Callable[..., Tables]:
    return evaluation


@pytest.fixture
def make() -> dict[str, Population]:
    return POPULATIONS

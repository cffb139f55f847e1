"""Small tables that trap encodings, each with its observed schema."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.domain.discretizer import regroup
from synth.observed import observe
from synth.schema import Schema, build_schema
from synth.table import conform
from synth.transforms.encoding import BinnedEncoding, Encoding
from synth.transforms.mode_encoding import ModalEncoding

RNG = np.random.default_rng(0)
REAL = {"kind": "real", "bounds": [-1e300, 1e300], "missing": True}
START = dt.datetime(2020, 1, 1)
TIMES = {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"], "missing": True}


def _moments(n: int, **zone: Any) -> list[dt.datetime | None]:
    seconds = RNG.integers(0, 300 * 86_400, n).tolist()
    return [None if i % 7 == 0 else START.replace(**zone) + dt.timedelta(seconds=s) for i, s in enumerate(seconds)]


def _mixed(n: int) -> list[dt.datetime | None]:
    offsets = [dt.timezone(dt.timedelta(hours=hours)) for hours in (-5, 0, 9)]
    return [m and m.astimezone(offsets[i % 3]) for i, m in enumerate(_moments(n, tzinfo=dt.UTC))]


# Each: what the schema says of the columns, and the columns.
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one_row": (
        {"x": REAL, "b": {"kind": "boolean"}, "t": TIMES, "c": {"kind": "categorical", "categories": ["a", "b"]}},
        {"x": [0.1], "b": [True], "t": [START], "c": ["b"]},
    ),
    "all_missing": (
        {
            "x": REAL, "n": {"kind": "integer", "bounds": [3, 9], "missing": True}, "t": TIMES,
            "b": {"kind": "boolean", "missing": True},
            "c": {"kind": "categorical", "categories": ["a"], "missing": True},
            "none": {"kind": "categorical", "categories": [], "missing": True},
        },
        {name: [None] * 30 for name in ("x", "n", "t", "b", "c", "none")},
    ),
    "constants": (
        {"x": REAL, "n": {"kind": "integer", "bounds": [0, 9]}, "d": {"kind": "date", "bounds": ["2020-01-01"] * 2}},
        {"x": [1e-7] * 50, "n": [4] * 50, "d": [dt.date(2020, 1, 1)] * 50},
    ),
    "two_reals": ({"x": REAL}, {"x": [-1e300, 1 / 3] * 20}),
    "heavy_tails": (
        {"x": REAL, "y": {**REAL, "scale": "log"}, "far": REAL},
        {
            "x": 10.0 ** RNG.uniform(-300, 299, 600) * RNG.choice([-1, 1], 600),
            "y": RNG.standard_cauchy(600),
            "far": np.append(RNG.normal(5, 1, 599), 1e250),
        },
    ),
    "mostly_zero": (
        {
            "gain": {"kind": "integer", "bounds": [0, 99_999], "scale": "log"},
            "loss": {"kind": "real", "bounds": [0, 1e6], "decimals": 2},
        },
        {
            "gain": np.where(RNG.random(3_000) < 0.92, 0, RNG.lognormal(8, 1, 3_000).clip(0, 99_999).astype(int)),
            "loss": np.where(RNG.random(3_000) < 0.97, 0, RNG.pareto(1.0, 3_000).clip(0, 1e6).round(2)),
        },
    ),
    "limits_of_64_bits": (
        {name: {"kind": "integer", "bounds": [-(2**63), 2**63 - 1]} for name in ("near_62", "ends", "all")},
        {
            "near_62": 2**62 + RNG.integers(-(10**6), 10**6, 300),
            "ends": RNG.choice([-(2**63), 0, 2**63 - 1], 300),
            "all": RNG.integers(-(2**63), 2**63 - 1, 300, endpoint=True),
        },
    ),
    "times": (
        {
            "wall": TIMES, "paris": {**TIMES, "timezone": "Europe/Paris"}, "mixed": {**TIMES, "timezone": "mixed"},
            "micro": {**TIMES, "precision": "us"}, "hour": {**TIMES, "precision": "h"},
            "day": {"kind": "date", "bounds": ["0001-01-01", "9999-12-31"], "missing": True},
        },
        {
            "wall": _moments(400),
            "paris": pd.Series(_moments(400, tzinfo=dt.UTC)).dt.tz_convert("Europe/Paris"),
            "mixed": pd.Series(_mixed(400), dtype=object),
            "micro": START + pd.to_timedelta(RNG.integers(0, 10**12, 400), "us"),
            "hour": START + pd.to_timedelta(RNG.integers(0, 8_000, 400), "h"),
            "day": pd.Series([None, *(dt.date.fromordinal(day) for day in RNG.integers(1, 3_652_059, 399))]),
        },
    ),
    "precisions": (
        {
            **{f"d{d}": {"kind": "real", "bounds": [-1e6, 1e6], "decimals": d} for d in (0, 2, 6)},
            "fine": {"kind": "real", "bounds": [0.0, 1e15], "decimals": 17},
            "weight": {"kind": "weight", "bounds": [0.5, 4.0]},
        },
        {
            **{f"d{d}": RNG.normal(0, 1e3, 500).round(d) for d in (0, 2, 6)},
            "fine": RNG.uniform(0, 1e15, 500), "weight": RNG.uniform(0.5, 4, 500),
        },
    ),
    "beyond_the_draw": (
        {
            "n": {"kind": "integer", "bounds": [-10, 10**9], "missing": True},
            "few": {"kind": "integer", "bounds": [0, 99]}, "x": REAL,
        },
        {
            "n": pd.Series(np.append(RNG.normal(500, 40, 20_997).astype(int), [10**9, -10, 0])).astype("Int64").where(
                np.arange(21_000) != 20_999),
            "few": np.append(RNG.integers(0, 3, 20_998), [98, 99]),
            "x": np.append(RNG.normal(0, 1, 20_999), np.nan),
        },
    ),
    "spikes": (
        {
            "whole": {"kind": "integer", "bounds": [0, 10**6], "spikes": [0, 1, 500, 777_777], "missing": True},
            "cents": {"kind": "weight", "bounds": [0, 900], "decimals": 2, "spikes": [0.1, 9.99, 900.0]},
            "x": {**REAL, "spikes": [-1e300, 1 / 3]},
        },
        {
            "whole": [None, *RNG.choice(np.append(np.repeat([1, 500, 777_777], 50), RNG.integers(0, 10**6, 300)), 599)],
            "cents": np.where(RNG.random(600) < 0.2, 9.99, RNG.uniform(0, 900, 600).round(2)),
            "x": np.where(RNG.random(600) < 0.1, 1 / 3, RNG.normal(size=600)),
        },
    ),
    "many_categories": (
        {"c": {"kind": "categorical", "categories": list(range(70_000)), "ordered": True}},
        {"c": np.arange(40_000) * 3 % 70_000},
    ),
    "to_be_observed": (
        {
            "x": {"kind": "real", "measure": True}, "n": {"kind": "integer", "measure": True, "missing": True},
            "c": {"kind": "categorical", "measure": True, "missing": True}, "t": {"kind": "datetime", "measure": True},
        },
        {
            "x": RNG.normal(size=300), "n": [None, *RNG.integers(-9, 999, 299).tolist()],
            "c": RNG.choice(np.array(["a", "b", "é", None], dtype=object), 300),
            "t": pd.Series(_moments(300)).fillna(START),
        },
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """A table that an encoding is to stand.

    Attributes:
        frame: canonical rows.
        schema: observed.
        encoding: fitted on it.
    """

    frame: pd.DataFrame
    schema: Schema
    encoding: Encoding

    @property
    def modeled(self) -> Schema:
        """The schema of the modeled columns alone."""
        content = self.schema.model_dump()
        columns = {name: content["columns"][name] for name in self.schema.modeled}
        return build_schema({"status": content["status"], "columns": columns})


def _modal(frame: pd.DataFrame, schema: Schema) -> Encoding:
    return ModalEncoding.fit(frame, schema, np.random.default_rng(1))


def _binned(frame: pd.DataFrame, schema: Schema) -> Encoding:
    return BinnedEncoding(Discretizer.by_schema(schema))


def _merged(frame: pd.DataFrame, schema: Schema) -> Encoding:
    return BinnedEncoding(Discretizer.by_quantiles(schema, frame, n_bins=7))


def _rare(frame: pd.DataFrame, schema: Schema) -> Encoding:
    """Bins of five cells and uneven masses; every third category is `other`, as in a private fit that found it rare."""
    made = []
    for attribute in Discretizer.by_schema(schema).attributes:
        cells = np.arange(attribute.n_cells - 2)
        groups = np.where(cells % 3 == 0, -1, cells) if attribute.edges is None else cells // 5
        made.append(regroup(attribute, groups, np.arange(1.0, attribute.n_cells + 1)))
    return BinnedEncoding(Discretizer(tuple(made)))


ENCODINGS: dict[str, Callable[[pd.DataFrame, Schema], Encoding]] = {
    "modal": _modal, "binned": _binned, "merged": _merged, "rare": _rare,
}  # fmt: skip


@pytest.fixture(scope="session", params=["every_kind", *TABLES])
def table(request: pytest.FixtureRequest, frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Schema]:
    """A canonical table and its observed schema."""
    if request.param == "every_kind":
        return frame, schema
    columns, data = TABLES[request.param]
    declared = build_schema({"status": "declared", "columns": columns})
    rows = conform(pd.DataFrame({name: pd.Series(values) for name, values in data.items()}), declared, part=True)
    return rows, observe(declared, rows)


@pytest.fixture(scope="session", params=ENCODINGS)
def case(request: pytest.FixtureRequest, table: tuple[pd.DataFrame, Schema]) -> Case:
    """One of the encodings, fitted on one of the tables."""
    return Case(*table, ENCODINGS[request.param](*table))


@pytest.fixture(scope="session")
def modal(table: tuple[pd.DataFrame, Schema]) -> Case:
    """The encoding without noise, fitted on one of the tables."""
    return Case(*table, _modal(*table))

"""The table that an audit fits, made of nothing but constants, and the log of what a fit drew from it.

Every column has the same codes, and every row holds one code throughout. Of each code there is a number of rows that no
other code has, and one canary: a unit that is there or not. So whatever counts rows by some columns has one cell for
each canary, and the counts say which. Where a unit may have several rows, a canary has more than a fit may use: a fit
that forgets the bound leaks more than it claims, and that shows.

Where the rows of a unit are drawn one after another, the table holds histories: every unit has k rows in their order,
and a canary three times as many. So of first rows a canary is one more in its cell, and of later ones k - 1.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from synth.dp.mechanisms import SystemNoise
from synth.schema import Schema, build_schema

N_COLUMNS = 5
N_CANARIES = 12
"""Canaries in one fit, and codes of a column; in cells of their own, they are as good as one canary in twelve fits."""
EXCESS = 3  # A canary's rows in multiples of those that a fit may use, where a unit may have several rows
UNIT, ORDER, GROWING = "unit", "order", "growing column"
IDENTIFIER = {"kind": "identifier", "bounds": [0, 10**12]}
OF_TEXT = {"kind": "text", "learn": True, "length": 16}  # A column of text of a stand-in


def text_columns(schema: Schema) -> dict[str, Any]:
    """As many columns of text as a schema has, for a stand-in: as their number sets how many texts a unit has."""
    return {f"text {place + 1}": OF_TEXT for place in range(len(schema.texts))}


def with_texts(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """A made-up table with texts, which are all alike, where its schema has columns of them."""
    return frame.assign(**dict.fromkeys(schema.texts, "a made-up text")) if schema.texts else frame


@dataclass(frozen=True)
class StandIn:
    """A public table in place of the real one."""

    schema: Schema
    n_codes: int = N_CANARIES

    @classmethod
    def like(cls, schema: Schema, n_codes: int = N_CANARIES, *, histories: bool = False) -> "StandIn":
        # No more columns than there are: a budget that tells pairs of rows must tell them of the stand-in's, too.
        n_columns = min(N_COLUMNS, len(schema.modeled)) - bool(schema.growing) if histories else N_COLUMNS
        columns: dict[str, Any] = {
            # Declared bins: no noise merges these codes, whatever epsilon is.
            f"column {i + 1}": {"kind": "integer", "bounds": [0, n_codes - 1], "bins": list(range(n_codes + 1))}
            for i in range(n_columns)
        }
        columns |= text_columns(schema)
        content = {"status": "declared", "n_units": schema.n_units, "columns": columns}
        if schema.entity is None:
            return cls(build_schema(content), n_codes)
        k = schema.max_rows_per_unit
        columns[UNIT] = IDENTIFIER
        content |= {"entity": UNIT, "max_rows_per_unit": k}
        if histories:
            content |= _roles(schema, columns, 6 * n_codes * k)
        return cls(build_schema(content), n_codes)

    @property
    def histories(self) -> bool:
        return self.schema.order is not None

    @property
    def k(self) -> int:
        return self.schema.max_rows_per_unit

    @property
    def n_brought(self) -> int:
        """Rows of one canary in the table."""
        return self.k if self.schema.entity is None else EXCESS * self.k

    @property
    def name(self) -> str:
        return f"a public stand-in{' of histories' if self.histories else ''}"

    @property
    def n_counted(self) -> int:
        """Rows of one canary that a fit may use, in multiples of those that every other unit has."""
        return 1 if self.histories else self.k

    @property
    def background(self) -> np.ndarray:
        """Units of each code beside the canary, shape (n_codes,). The rows of no two codes are as many, with a canary
        or without, whether all of its rows count or not.
        """
        apart = math.ceil(self.n_brought / max(self.k - 1, 1)) + 1 if self.histories else 2 * self.n_brought
        return apart * np.arange(1, self.n_codes + 1)

    def table(self, present: np.ndarray) -> pd.DataFrame:
        """The table with some of the canaries. `present`: which, shape (n_codes,), boolean."""
        codes, n = np.arange(self.n_codes), int(self.background.sum())
        held = np.concatenate([np.repeat(codes, self.background), codes[present]])
        n_rows = np.full(len(held), self.k if self.histories else 1)
        n_rows[n:] = self.n_brought
        rows = np.repeat(held, n_rows)
        frame = pd.DataFrame(dict.fromkeys(self.schema.modeled, rows))
        if self.schema.entity is not None:
            frame[UNIT] = np.repeat(np.concatenate([np.arange(n), n + codes[present]]), n_rows)
        if self.histories:
            # By their beginning and by their gain, which have cells for each code, whatever k is.
            places = np.arange(len(rows)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
            for name in self.schema.growing:
                frame[name] = rows * (4 * self.k + 2 * places)
            if ORDER not in self.schema.growing:
                frame[ORDER] = places
        return with_texts(frame, self.schema)

    def probes(self, n_units: int) -> pd.DataFrame:
        """A table of units that are all like canaries: each has one code, and more rows than a fit may use."""
        unit = np.repeat(np.arange(n_units), self.n_brought)
        frame = pd.DataFrame(dict.fromkeys(self.schema.modeled, unit % self.n_codes))
        owned = frame if self.schema.entity is None else frame.assign(**{UNIT: unit})
        return with_texts(owned, self.schema)

    def weight(self, counts: np.ndarray, cells: np.ndarray, present: np.ndarray) -> float | None:
        """The weight of each unit's rows in a release; `None` where these cells do not keep the codes apart. In a table
        of histories that is 1 where first rows are counted, and k - 1 where later ones are. Of a canary any number of
        rows may be counted, of all the same: the bound on them is a part of what is audited.
        """
        causes = np.stack([self.background, present], axis=1).astype(float)
        (weight, surplus), *_ = np.linalg.lstsq(causes, counts[cells].astype(float))
        explained = np.allclose(causes @ [weight, surplus], counts[cells])
        return float(weight) if explained and weight > 0 and (surplus > 0 or not present.any()) else None


def _roles(schema: Schema, columns: dict[str, Any], most: int) -> dict[str, Any]:
    """The roles of a stand-in's columns in histories, of the kinds that a schema has; their columns are added."""
    roles: dict[str, Any] = {"order": ORDER}
    grows = {"kind": "integer", "bounds": [0, most]}
    if schema.order in schema.growing:
        columns[ORDER] = grows
    else:
        columns[ORDER] = IDENTIFIER
        if schema.growing:
            columns[GROWING] = grows
            roles["nondecreasing_in_entity"] = [GROWING]
    if "column 2" in columns and any(name in schema.constant_in_entity for name in schema.modeled):
        roles["constant_in_entity"] = ["column 1"]
    return roles


@dataclass(frozen=True)
class GaussianRelease:
    """One release with Gaussian noise as it reached the sampler, flat: exact values, what was published, sigma."""

    exact: np.ndarray
    published: np.ndarray
    sigma: float


class LogComplete(Exception):
    """All that was planned is drawn: what a fit makes of it is nothing that an audit needs."""


@dataclass
class MeasurementLog:
    """A source of noise that keeps every release with Gaussian noise; the system draws."""

    n_planned: int
    releases: list[GaussianRelease] = field(default_factory=list)
    n_drawn: int = 0
    private: bool = False
    system: SystemNoise = field(default_factory=SystemNoise)

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        published = self.system.gaussian(values, sigma)
        self.releases.append(GaussianRelease(values.ravel().astype(float), published.ravel().astype(float), sigma))
        self._drawn()
        return published

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        published = self.system.laplace(values, scale)
        self._drawn()
        return published

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        chosen = self.system.noisy_max(scores, scale)
        self._drawn()
        return chosen

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return self.system.floats(values, sigma)

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """Nothing: all counts are released before the first step, and steps are audited on their own."""
        raise LogComplete

    def _drawn(self) -> None:
        self.n_drawn += 1
        if self.n_drawn == self.n_planned:
            raise LogComplete

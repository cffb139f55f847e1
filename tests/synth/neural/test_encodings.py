"""The contract of encodings on tables that trap them, their rows in files, and damage that is refused."""

import copy
import datetime as dt
import json
import resource
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.domain.discretizer import regroup
from synth.errors import OutputError
from synth.neural.encoding import BinnedEncoding, Categories, Columns, Encoded, ModalEncoding
from synth.neural.modes import EDGE, WIDTH, Modes
from synth.schema import Schema, build_schema
from synth.table import conform, spool
from synth.table.rows import Rows, observe
from synth.table.spool import Disk
from tests.synth.conftest import CONTENT, make_frame

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
    "every_kind": (CONTENT["columns"], {}),
    "one_row": (
        {"x": REAL, "b": {"kind": "boolean"}, "t": TIMES, "c": {"kind": "categorical", "categories": ["a", "b"]}},
        {"x": [0.1], "b": [True], "t": [START], "c": ["b"]},
    ),
    "all_missing": (
        {
            "x": REAL, "n": {"kind": "integer", "bounds": [3, 9], "missing": True}, "t": TIMES,
            "b": {"kind": "boolean", "missing": True},
            "none": {"kind": "categorical", "categories": [], "missing": True},
        },
        {name: [None] * 30 for name in ("x", "n", "t", "b", "none")},
    ),
    "far_apart": (
        {"x": REAL, "y": {**REAL, "scale": "log"}, "far": REAL, "gain": {"kind": "real", "bounds": [0, 1e6]}},
        {
            "x": 10.0 ** RNG.uniform(-300, 299, 600) * RNG.choice([-1, 1], 600),
            "y": RNG.standard_cauchy(600),
            "far": np.append(RNG.normal(5, 1, 599), 1e250),
            "gain": np.where(RNG.random(600) < 0.97, 0, RNG.pareto(1.0, 600).clip(0, 1e6).round(2)),
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
    "precisions_and_spikes": (
        {
            **{f"d{d}": {"kind": "real", "bounds": [-1e6, 1e6], "decimals": d} for d in (0, 6)},
            "fine": {"kind": "real", "bounds": [0.0, 1e15], "decimals": 17},
            "whole": {"kind": "integer", "bounds": [0, 10**6], "spikes": [0, 1, 500, 777_777], "missing": True},
            "cents": {"kind": "weight", "bounds": [0, 900], "decimals": 2, "spikes": [0.1, 9.99, 900.0]},
        },
        {
            **{f"d{d}": RNG.normal(0, 1e3, 500).round(d) for d in (0, 6)},
            "fine": RNG.uniform(0, 1e15, 500),
            "whole": [None, *RNG.choice(np.append(np.repeat([1, 500, 777_777], 50), RNG.integers(0, 10**6, 300)), 499)],
            "cents": np.where(RNG.random(500) < 0.2, 9.99, RNG.uniform(0, 900, 500).round(2)),
        },
    ),
    "many_categories": (
        {"c": {"kind": "categorical", "categories": list(range(66_000)), "ordered": True}},
        {"c": np.arange(11_000) * 6},
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
    """Canonical rows, their observed schema, and an encoding that was fitted on them."""

    frame: pd.DataFrame
    schema: Schema
    encoding: Any

    @property
    def modeled(self) -> Schema:
        """The schema of the modeled columns alone."""
        content = self.schema.model_dump()
        kept = {name: content["columns"][name] for name in self.schema.modeled}
        return build_schema({"status": content["status"], "columns": kept})

    def encoded(self) -> Encoded:
        rows: Encoded = self.encoding.apply(self.frame)
        return rows


def _modal(frame: pd.DataFrame, schema: Schema) -> ModalEncoding:
    return ModalEncoding.fit(frame, schema, np.random.default_rng(1))


def _binned(frame: pd.DataFrame, schema: Schema) -> BinnedEncoding:
    return BinnedEncoding(Discretizer.by_schema(schema))


def _rare(frame: pd.DataFrame, schema: Schema) -> BinnedEncoding:
    """Bins of five cells and uneven masses; every third category is `other`, as in a private fit that found it rare."""
    merged = []
    for attribute in Discretizer.by_schema(schema).attributes:
        cells = np.arange(attribute.n_cells - 2)
        groups = np.where(cells % 3 == 0, -1, cells) if attribute.edges is None else cells // 5
        merged.append(regroup(attribute, groups, np.arange(1.0, attribute.n_cells + 1)))
    return BinnedEncoding(Discretizer(tuple(merged)))


ENCODINGS: dict[str, Callable[[pd.DataFrame, Schema], Any]] = {"modal": _modal, "binned": _binned, "rare": _rare}


@cache
def case_of(table: str, kind: str) -> Case:
    declared_columns, data = TABLES[table]
    declared = build_schema({"status": "declared", "columns": declared_columns})
    frame = pd.DataFrame({name: pd.Series(values) for name, values in data.items()}) if data else make_frame(400, 0)
    rows = conform(frame, declared, part=True)
    schema = observe(declared, rows)
    return Case(rows, schema, ENCODINGS[kind](rows, schema))


@pytest.fixture(params=[(table, kind) for table in TABLES for kind in ENCODINGS], ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(*request.param)


def test_rows_are_coded_within_the_layout_and_come_back_canonical_also_when_the_encoding_was_saved(case: Case) -> None:
    encoding, layout, before = case.encoding, case.encoding.layout, case.frame.copy(deep=True)
    encoded = case.encoded()
    pd.testing.assert_frame_equal(case.frame, before)
    assert tuple(span.column for span in layout.spans) == case.schema.modeled == encoding.discretizer.columns
    assert encoded.codes.shape == (len(case.frame), len(layout.spans)) and encoded.codes.dtype == layout.dtype
    assert (encoded.codes >= 0).all() and (encoded.codes < np.array(layout.sizes)).all()
    assert encoded.scalars.shape == (len(case.frame), len(layout.scalars)) and encoded.scalars.dtype == np.float32
    assert (np.abs(encoded.scalars) <= 1).all()
    assert layout.scalars == tuple(span.column for span in layout.spans if not span.whole)
    back = encoding.invert(encoded, np.random.default_rng(1))
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))
    assert back.dtypes.equals(case.frame[list(case.schema.modeled)].dtypes)
    assert back.index.equals(pd.RangeIndex(len(case.frame)))
    for name in case.schema.modeled:
        assert (back[name].isna().to_numpy() == case.frame[name].isna().to_numpy()).all()
    saved = type(encoding).from_plain(json.loads(json.dumps(encoding.to_plain(), allow_nan=False)), case.schema)
    assert saved.layout == layout
    again = saved.apply(case.frame)
    np.testing.assert_array_equal(encoded.codes, again.codes)
    np.testing.assert_array_equal(encoded.scalars, again.scalars)
    pd.testing.assert_frame_equal(saved.invert(again, np.random.default_rng(1)), back)
    empty = encoding.invert(encoding.apply(case.frame.iloc[:0]), np.random.default_rng(0))
    assert list(empty) == list(case.schema.modeled) and len(empty) == 0


def test_rows_that_a_network_made_are_canonical(case: Case) -> None:
    rng, layout = np.random.default_rng(2), case.encoding.layout
    codes = np.column_stack([rng.integers(0, size, 500) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.choice([-1, -0.5, 0, 0.123, 1], (500, len(layout.scalars))).astype(np.float32)
    back = case.encoding.invert(Encoded(codes, scalars), rng)
    for name in case.schema.modeled:
        if not case.schema.columns[name].missing:
            assert back[name].notna().all()
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))


def test_a_value_of_the_table_is_looked_for_where_it_was_put(case: Case) -> None:
    encoding, encoded = case.encoding, case.encoded()
    for index, span in enumerate(encoding.layout.spans):
        for row in range(0, len(case.frame), max(len(case.frame) // 8, 1)):
            match = encoding.match(span.column, case.frame[span.column].iloc[row : row + 1])
            code = encoded.codes[row, index]
            assert match.weights.shape == (span.size,) and match.weights.min() >= 0 and match.weights.max() == 1
            assert (match.scalars is None) == span.whole
            scalar = None if span.whole else encoded.scalars[row, encoding.layout.scalars.index(span.column)]
            if scalar is not None and abs(scalar) >= np.float32(EDGE):
                continue  # beyond the reach of its component, so that nobody will find it there
            assert match.weights[code] > 0
            assert match.scalars is not None or match.weights.sum() == 1
            if match.scalars is not None and not np.isnan(match.scalars[code]):
                assert match.scalars[code] == pytest.approx(scalar, abs=1e-6)


@pytest.mark.parametrize("table", TABLES)
def test_whole_spans_come_back_exactly_and_components_within_float32(table: str) -> None:
    case = case_of(table, "modal")
    encoded = case.encoded()
    back = case.encoding.invert(encoded, np.random.default_rng(1))
    parts = zip(case.encoding.discretizer.attributes, case.encoding.columns, strict=True)
    for index, (attribute, column) in enumerate(parts):
        before, after = case.frame[attribute.name], back[attribute.name]
        if isinstance(column, Categories):
            pd.testing.assert_series_equal(before, after, check_index=False)
            continue
        scalars = np.zeros(len(before))
        if column.has_scalar:
            scalars = encoded.scalars[:, case.encoding.layout.scalars.index(attribute.name)].astype(np.float64)
        kept = (np.abs(scalars) < np.float32(EDGE)) & before.notna().to_numpy()
        assert (kept | before.isna().to_numpy()).mean() > 0.99
        old, new = attribute.column.positions(before), attribute.column.positions(after)
        allowed = _allowed(column, encoded.codes[:, index], old, attribute.column.unit)
        assert (np.abs(new - old)[kept] <= allowed[kept]).all()


def _allowed(column: Modes, codes: np.ndarray, values: np.ndarray, step: float | None) -> np.ndarray:
    """How far a value may be from what it was: nothing for an atom; else what float32 tells apart in its component."""
    wide = np.concatenate([np.zeros(len(column.atoms)), column.deviations, [0.0]])[codes]
    allowed = WIDTH * wide * 2.0**-23
    if column.log:  # relative to the value
        allowed = np.expm1(allowed + 1e-12 * (wide > 0)) * (1 + np.abs(values))
    inexact = (wide > 0) | (np.abs(values) > 2.0**53)
    rounded = np.where(inexact, 1e-9 * (step or 0.0) + 2 * np.spacing(np.abs(values)), 0.0)
    near = allowed + rounded
    return near if step is None else np.where(near < 0.5 * step, rounded, near + step)


def test_bins_are_the_discretizers_codes_and_a_table_without_rows_is_one_of_missing_values() -> None:
    case = case_of("every_kind", "binned")
    np.testing.assert_array_equal(case.encoded().codes, case.encoding.discretizer.encode(case.frame))
    empty = ModalEncoding.fit(case.frame.iloc[:0], case.schema, np.random.default_rng(0))
    assert set(empty.layout.sizes) == {1} and empty.layout.scalars == ()


def test_a_computed_column_is_not_encoded() -> None:
    schema = build_schema({
        "status": "declared",
        "columns": {name: {"kind": "integer", "bounds": [0, 20]} for name in ("a", "b", "total")},
        "constraints": [{"kind": "formula", "column": "total", "expression": "a + b"}],
    })  # fmt: skip
    frame = conform(pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6], "total": [5, 7, 9]}), schema)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    assert [span.column for span in encoding.layout.spans] == ["a", "b"]


# Rows in files


@pytest.mark.parametrize("kind", ["modal", "binned"])
def test_what_encoding_needs_on_the_way_does_not_grow_with_the_table(kind: str) -> None:
    n, rng = 500_000, np.random.default_rng(0)
    content = {"x": {"kind": "real", "bounds": [-1e6, 1e6]}, "c": {"kind": "categorical", "categories": ["a", "b"]}}
    schema = build_schema({"status": "declared", "columns": content})
    frame = pd.DataFrame({"x": rng.normal(size=n), "c": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)]})
    by_bins = BinnedEncoding(Discretizer.by_schema(schema))
    encoding = by_bins if kind == "binned" else ModalEncoding.fit(frame.iloc[:10_000], schema, rng)
    tracemalloc.start()
    try:
        encoded = encoding.apply(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One float64 a row and component would be 40 MB.
    assert peak - encoded.codes.nbytes - encoded.scalars.nbytes < 20e6


@pytest.mark.parametrize("kind", ["modal", "binned"])
def test_rows_in_files_are_encoded_as_those_in_memory_and_no_file_has_a_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of("every_kind", "binned")
    expected = ENCODINGS[kind](case.frame, case.schema).apply(case.frame)
    monkeypatch.setattr("synth.neural.encoding.CHUNK_ROWS", 70)
    monkeypatch.setattr(spool, "MOST_IN_MEMORY", 0)
    for nameless in (True, False):  # Python knows a file system that makes none by its first refusal
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", nameless)
        parts = (case.frame.iloc[start : start + 90] for start in range(0, len(case.frame), 90))
        filed: Any = Columns(Rows.from_frames(parts, case.schema, tmp_path), Disk(tmp_path))
        encoded = ENCODINGS[kind](filed, case.schema).apply(filed)
        np.testing.assert_array_equal(encoded.codes, expected.codes)
        np.testing.assert_array_equal(encoded.scalars, expected.scalars)
        assert isinstance(encoded.codes.base, np.memmap) or isinstance(encoded.codes, np.memmap)
        assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_IN_MEMORY", 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # ends a write as a full disk does
    try:
        with pytest.raises(OutputError, match="make room there") as error:
            Disk(tmp_path)((10**6,), np.int8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(error.value)
    assert not list(tmp_path.iterdir())


# Damage

REFUSED = (ValueError, KeyError, TypeError)


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], object]:
    def damage(content: dict[str, Any]) -> None:
        part: Any = content
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return damage


DAMAGE: list[tuple[str, str, Callable[[dict[str, Any]], object]]] = [
    ("modal", "a column is gone", lambda c: c.pop("age")),
    ("modal", "modes of categories", lambda c: c.update(job=c["age"])),
    ("modal", "codes below zero", _set("job", "codes", to=[-1, 2])),
    ("modal", "a mean beyond its range", _set("age", "means", 0, to=1e200)),
    ("modal", "a deviation of zero", _set("age", "deviations", 0, to=0.0)),
    ("modal", "weights that do not sum to one", _set("age", "weights", 0, to=3.0)),
    ("modal", "atoms beyond the bounds", _set("gain", "atoms", to=[0.0, 1e9])),
    ("binned", "a column is gone", lambda c: c.pop("age")),
    ("binned", "a number without edges", _set("age", "edges", to=None)),
    ("binned", "edges out of order", _set("age", "edges", 0, to=1e6)),
    ("binned", "a negative mass", _set("age", "mass", 0, to=-1.0)),
    ("binned", "a code far off", _set("age", "group", 0, to=10**12)),
]


@cache
def _plain(kind: str) -> str:
    return json.dumps(case_of("every_kind", kind).encoding.to_plain(), allow_nan=False)


@pytest.mark.parametrize(("kind", "name", "damage"), DAMAGE, ids=[f"{kind}, {name}" for kind, name, _ in DAMAGE])
def test_a_damaged_encoding_is_refused(kind: str, name: str, damage: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(_plain(kind))
    damage(content)
    case = case_of("every_kind", kind)
    with pytest.raises(REFUSED):
        type(case.encoding).from_plain(content, case.schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["codes", "atoms", "a"]), inner),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=JSON, data=st.data())
@pytest.mark.parametrize("kind", ["modal", "binned"])
def test_any_damage_is_refused_or_leaves_an_encoding_whose_rows_are_whole(
    kind: str, junk: Any, data: st.DataObject
) -> None:
    case, content = case_of("every_kind", kind), copy.deepcopy(json.loads(_plain(kind)))
    part = content[data.draw(st.sampled_from(sorted(content)))]
    key = data.draw(st.sampled_from(sorted(part)))
    if isinstance(part[key], list) and part[key] and data.draw(st.booleans()):
        part[key][data.draw(st.integers(0, len(part[key]) - 1))] = junk
    else:
        part[key] = junk
    try:
        encoding = type(case.encoding).from_plain(content, case.schema)
    except REFUSED:
        return
    rng, layout = np.random.default_rng(0), encoding.layout
    codes = np.column_stack([rng.integers(0, size, 50) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.uniform(-1, 1, (50, len(layout.scalars))).astype(np.float32)
    rows = encoding.invert(Encoded(codes, scalars), rng)
    pd.testing.assert_frame_equal(rows, conform(rows, case.modeled, part=True))

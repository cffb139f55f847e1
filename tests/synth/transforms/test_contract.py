"""The contract of transforms, their layouts, storage in mapped memory, and damage that is refused."""

import copy
import json
import resource
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.errors import OutputError
from synth.schema import Schema, build_schema
from synth.table import conform, spool
from synth.table.rows import Rows
from synth.table.spool import Disk
from synth.transforms import columns
from synth.transforms.columns import Columns, PresentValues
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.layout import Encoded, Layout, Span
from synth.transforms.mode_encoding import Categories, ModalEncoding
from synth.transforms.mode_normalization import EDGE, WIDTH, Modes


def _apply(case: Any, seed: int = 0) -> Encoded:
    return case.encoding.apply(case.frame, np.random.default_rng(seed))


def _there_and_back(case: Any) -> pd.DataFrame:
    return case.encoding.invert(_apply(case), np.random.default_rng(1))


def test_codes_and_scalars_stay_within_the_layout(case: Any) -> None:
    encoded, layout = _apply(case), case.encoding.layout
    assert tuple(span.column for span in layout.spans) == case.schema.modeled == case.encoding.discretizer.columns
    assert encoded.codes.shape == (len(case.frame), len(layout.spans)) and encoded.codes.dtype == layout.dtype
    assert (encoded.codes >= 0).all() and (encoded.codes < np.array(layout.sizes)).all()
    assert encoded.scalars.shape == (len(case.frame), len(layout.scalars)) and encoded.scalars.dtype == np.float32
    assert (np.abs(encoded.scalars) <= 1).all()
    assert layout.scalars == tuple(span.column for span in layout.spans if not span.whole)


def test_rows_come_back_canonical(case: Any) -> None:
    back = _there_and_back(case)
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))
    assert back.dtypes.equals(case.frame[list(case.schema.modeled)].dtypes)
    assert back.index.equals(pd.RangeIndex(len(case.frame)))


def test_missing_values_stay_missing_and_no_others_become_so(case: Any) -> None:
    back = _there_and_back(case)
    for name in case.schema.modeled:
        assert (back[name].isna().to_numpy() == case.frame[name].isna().to_numpy()).all()


def test_rows_that_a_network_made_are_canonical(case: Any) -> None:
    rng, layout = np.random.default_rng(2), case.encoding.layout
    codes = np.column_stack([rng.integers(0, size, 500) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.choice([-1, -0.5, 0, 0.123, 1], (500, len(layout.scalars))).astype(np.float32)
    back = case.encoding.invert(Encoded(codes, scalars), rng)
    for name in case.schema.modeled:
        if not case.schema.columns[name].missing:
            assert back[name].notna().all()
    pd.testing.assert_frame_equal(back, conform(back, case.modeled, part=True))


def test_the_same_generator_gives_the_same_rows_and_the_table_is_not_touched(case: Any) -> None:
    before = case.frame.copy(deep=True)
    first, second = _apply(case, seed=3), _apply(case, seed=3)
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.scalars, second.scalars)
    pd.testing.assert_frame_equal(case.frame, before)


def test_no_rows_are_encoded_as_no_rows(case: Any) -> None:
    encoded = case.encoding.apply(case.frame.iloc[:0], np.random.default_rng(0))
    assert len(encoded) == 0
    back = case.encoding.invert(encoded, np.random.default_rng(0))
    assert list(back) == list(case.schema.modeled) and len(back) == 0


def test_an_encoding_that_was_saved_encodes_the_same(case: Any) -> None:
    content = json.loads(json.dumps(case.encoding.to_plain(), allow_nan=False))
    loaded = type(case.encoding).from_plain(content, case.schema)
    assert loaded.layout == case.encoding.layout
    encoded, again = _apply(case), loaded.apply(case.frame, np.random.default_rng(0))
    np.testing.assert_array_equal(encoded.codes, again.codes)
    np.testing.assert_array_equal(encoded.scalars, again.scalars)
    back = loaded.invert(again, np.random.default_rng(1))
    pd.testing.assert_frame_equal(back, _there_and_back(case))


def test_a_value_of_the_table_is_looked_for_where_it_was_put(case: Any) -> None:
    encoding, encoded = case.encoding, _apply(case)
    for place, span in enumerate(encoding.layout.spans):
        for row in range(0, len(case.frame), max(len(case.frame) // 20, 1)):
            match = encoding.match(span.column, case.frame[span.column].iloc[row : row + 1])
            code = encoded.codes[row, place]
            assert match.weights.shape == (span.size,) and match.weights.min() >= 0 and match.weights.max() == 1
            assert (match.scalars is None) == span.whole
            scalar = None if span.whole else encoded.scalars[row, encoding.layout.scalars.index(span.column)]
            if scalar is not None and abs(scalar) >= np.float32(EDGE):
                continue  # beyond the reach of its bell, so that nobody will find it there
            assert match.weights[code] > 0
            assert match.scalars is not None or match.weights.sum() == 1
            if match.scalars is not None and not np.isnan(match.scalars[code]):
                assert match.scalars[code] == pytest.approx(scalar, abs=1e-6)


def test_no_other_column_can_be_looked_up(case: Any) -> None:
    with pytest.raises(KeyError):
        case.encoding.match("unknown", pd.Series([1]))


def test_whole_spans_come_back_exactly_and_bells_within_float32(modal: Any) -> None:
    encoded = _apply(modal)
    back = modal.encoding.invert(encoded, np.random.default_rng(1))
    parts = zip(modal.encoding.discretizer.attributes, modal.encoding.columns, strict=True)
    for place, (attribute, column) in enumerate(parts):
        before, after = modal.frame[attribute.name], back[attribute.name]
        if isinstance(column, Categories):
            pd.testing.assert_series_equal(before, after, check_index=False)
            continue
        scalars = np.zeros(len(before))
        if column.has_scalar:
            scalars = encoded.scalars[:, modal.encoding.layout.scalars.index(attribute.name)].astype(np.float64)
        kept = (np.abs(scalars) < np.float32(EDGE)) & before.notna().to_numpy()
        assert (kept | before.isna().to_numpy()).mean() > 0.99
        old, new = attribute.column.positions(before), attribute.column.positions(after)
        allowed = _allowed(column, encoded.codes[:, place], old, attribute.column.unit)
        assert (np.abs(new - old)[kept] <= allowed[kept]).all()


def _allowed(column: Modes, codes: np.ndarray, values: np.ndarray, step: float | None) -> np.ndarray:
    """How far a value may be from what it was: nothing for an atom; else what float32 tells apart in its bell."""
    bells = np.concatenate([np.zeros(len(column.atoms)), column.deviations, [0.0]])[codes]
    allowed = WIDTH * bells * 2.0**-23
    if column.log:  # relative to the value
        allowed = np.expm1(allowed + 1e-12 * (bells > 0)) * (1 + np.abs(values))
    inexact = (bells > 0) | (np.abs(values) > 2.0**53)
    rounded = np.where(inexact, 1e-9 * (step or 0.0) + 2 * np.spacing(np.abs(values)), 0.0)
    near = allowed + rounded
    return near if step is None else np.where(near < 0.5 * step, rounded, near + step)


@pytest.mark.parametrize("n_bins", [None, 7])
def test_bins_come_back_as_the_same_codes(n_bins: int | None, frame: pd.DataFrame, schema: Schema) -> None:
    by_schema = Discretizer.by_schema(schema)
    encoding = BinnedEncoding(by_schema if n_bins is None else Discretizer.by_quantiles(schema, frame, n_bins))
    encoded = encoding.apply(frame, np.random.default_rng(0))
    again = encoding.apply(encoding.invert(encoded, np.random.default_rng(1)), np.random.default_rng(2))
    np.testing.assert_array_equal(encoded.codes, again.codes)


def test_bins_are_the_discretizers_codes(frame: pd.DataFrame, schema: Schema) -> None:
    encoding = BinnedEncoding(Discretizer.by_schema(schema))
    np.testing.assert_array_equal(
        encoding.apply(frame, np.random.default_rng(0)).codes, encoding.discretizer.encode(frame)
    )


def test_a_computed_column_is_not_encoded() -> None:
    schema = build_schema(
        {
            "status": "declared",
            "columns": {name: {"kind": "integer", "bounds": [0, 20]} for name in ("a", "b", "total")},
            "constraints": [{"kind": "formula", "column": "total", "expression": "a + b"}],
        }
    )
    frame = conform(pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6], "total": [5, 7, 9]}), schema)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    assert [span.column for span in encoding.layout.spans] == ["a", "b"]


@pytest.mark.parametrize("column", ["x", "c"])
def test_rows_of_another_table_are_refused_and_never_coded_as_something_else(column: str) -> None:
    schema = build_schema(
        {
            "status": "declared",
            "columns": {
                "x": {"kind": "real", "bounds": [0, 9], "missing": True},
                "c": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
            },
        }
    )
    frame = conform(pd.DataFrame({"x": [1.0, 2.0] * 5, "c": ["a"] * 10}), schema)
    encoding = ModalEncoding.fit(frame, schema, np.random.default_rng(0))
    for value in (None, 3.0 if column == "x" else "b"):
        other = conform(frame.astype(object).assign(**{column: [value] * 10}), schema, part=True)
        with pytest.raises(ValueError, match="the table that"):
            encoding.apply(other, np.random.default_rng(0))
        assert not encoding.match(column, other[column].iloc[:1]).weights.any()


@pytest.mark.parametrize("kind", ["modal", "binned"])
def test_what_encoding_needs_on_the_way_does_not_grow_with_the_table(kind: str) -> None:
    n, rng = 1_000_000, np.random.default_rng(0)
    schema = build_schema(
        {
            "status": "declared",
            "columns": {
                "x": {"kind": "real", "bounds": [-1e6, 1e6]},
                "c": {"kind": "categorical", "categories": ["a", "b"]},
            },
        }
    )
    frame = pd.DataFrame({"x": rng.normal(size=n), "c": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)]})
    by_bins = BinnedEncoding(Discretizer.by_schema(schema))
    encoding = by_bins if kind == "binned" else ModalEncoding.fit(frame.iloc[:10_000], schema, rng)
    tracemalloc.start()
    try:
        encoded = encoding.apply(frame, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One float64 a row would be 8 MB, and one a row and bell 80.
    assert peak - encoded.codes.nbytes - encoded.scalars.nbytes < 24e6


def test_a_table_without_rows_gives_columns_that_are_missing(frame: pd.DataFrame, schema: Schema) -> None:
    encoding = ModalEncoding.fit(frame.iloc[:0], schema, np.random.default_rng(0))
    assert set(encoding.layout.sizes) == {1} and encoding.layout.scalars == ()


@pytest.mark.parametrize(("size", "dtype"), [(1, np.int16), (2**15, np.int16), (2**15 + 1, np.int32)])
def test_codes_take_the_smallest_dtype_that_holds_them(size: int, dtype: type) -> None:
    layout = Layout((Span("a", 2, whole=True), Span("b", size, whole=True)))
    rows = Encoded.zeros(3, layout)
    assert rows.codes.dtype == layout.dtype == dtype
    assert np.array([size - 1]).astype(layout.dtype)[0] == size - 1


def test_a_layout_may_be_empty() -> None:
    layout = Layout(())
    assert (layout.width, layout.n_codes, layout.offsets.tolist()) == (0, 0, [])


def test_a_span_has_codes() -> None:
    with pytest.raises(ValueError, match="at least one code"):
        Span("a", 0, whole=True)


@pytest.mark.parametrize(("codes", "scalars"), [((3, 2), (4, 1)), ((3,), (3, 1)), ((3, 2), (3,))])
def test_codes_and_scalars_are_of_the_same_rows(codes: tuple[int, ...], scalars: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be rows"):
        Encoded(np.zeros(codes, np.int16), np.zeros(scalars, np.float32))


SCHEMA = build_schema({
    "status": "declared", "columns": {"x": {"kind": "real", "bounds": [-9.0, 9.0], "missing": True}},
})  # fmt: skip
(NUMBER,) = Discretizer.by_schema(SCHEMA).attributes
RNG = np.random.default_rng(0)
COLUMNS = {
    "few": RNG.integers(0, 3, 20_000).astype(float),
    "many": RNG.normal(0, 1, 20_000),
    "some missing": np.where(RNG.random(20_000) < 0.2, np.nan, RNG.normal(0, 1, 20_000)),
    "all missing": np.full(7, np.nan),
    "as many as are drawn": RNG.normal(0, 1, 5_000),
    "one": np.array([3.0]),
    "none": np.empty(0),
}


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is put away lies in a file."""
    monkeypatch.setattr(spool, "MOST_IN_MEMORY", 0)


def _filed(column: np.ndarray, folder: Path, n_blocks: int = 7) -> Columns:
    frames = (pd.DataFrame({"x": part}) for part in np.array_split(column, n_blocks))
    return Columns(Rows.from_frames(frames, SCHEMA, folder), Disk(folder))


@pytest.fixture
def little_room() -> Iterator[None]:
    """A limit on the size of files, which ends a write as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("name", COLUMNS)
def test_values_in_a_file_are_those_in_memory_and_drawn_alike(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "CHUNK_ROWS", 1_001)
    held, filed = PresentValues.of(COLUMNS[name]), _filed(COLUMNS[name], tmp_path).values(NUMBER)
    taken = np.unique(COLUMNS[name][:3])
    taken = taken[~np.isnan(taken)]
    for here, there in ((held, filed), (held.without(taken), filed.without(taken).without(np.empty(0)))):
        assert (len(here), here.missing) == (len(there), there.missing)
        rngs = np.random.default_rng(3), np.random.default_rng(3)
        np.testing.assert_array_equal(here.draw(rngs[0]), there.draw(rngs[1]))
        assert rngs[0].random() == rngs[1].random()
        assert not len(here) or here.ends() == there.ends()
        asked = np.unique([*taken, 0.0, 1.0, 99.0])
        counted = [int((COLUMNS[name] == value).sum()) for value in asked]
        expected = counted if here is held else np.where(np.isin(asked, taken), 0, counted).tolist()
        assert here.counts(asked).tolist() == there.counts(asked).tolist() == expected


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_cut_alike_whatever_the_chunks_of_the_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "CHUNK_ROWS", 1_001)
    for n_blocks in (1, 7, 40):
        parts = list(_filed(COLUMNS[name], tmp_path, n_blocks).parts(NUMBER))
        assert [len(part) for part in parts[:-1]] == [1_001] * (len(parts) - 1)
        np.testing.assert_array_equal(np.concatenate([*parts, np.empty(0)]), COLUMNS[name])


def test_arrays_begin_with_zeros_and_hold_what_is_written(tmp_path: Path) -> None:
    for n in (30, 5_000_000):  # in memory, and in a file
        made = Disk(tmp_path)((n, 2), np.int32)
        assert not made.any()
        made[-1] = 7
        assert made.sum() == 14
    assert Disk(tmp_path)((0, 3), np.int16).shape == (0, 3)
    encoded = _filed(COLUMNS["many"], tmp_path).encoded(Layout((Span("x", 3, whole=False),), ("x",)))
    assert encoded.codes.shape == encoded.scalars.shape == (20_000, 1) and encoded.codes.dtype == np.int16


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("nameless", [True, False])
def test_no_file_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool) -> None:
    """Nor where the file system makes none without: Python knows a disk like that by its first refusal."""
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", nameless)
    filed, zeros = _filed(COLUMNS["many"], tmp_path), Disk(tmp_path)((10, 10), np.float64)
    assert len(filed) == 20_000 and zeros.shape == (10, 10)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("little_room", "no_memory")
def test_a_disk_without_room_is_told(tmp_path: Path) -> None:
    for wanted in (lambda: Disk(tmp_path)((10**6,), np.int8), lambda: _filed(COLUMNS["many"], tmp_path)):
        with pytest.raises(OutputError, match="make room there") as error:
            wanted()
        assert str(tmp_path) in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_memory")
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="nowhere"):
        Disk(tmp_path / "file" / "nowhere")((3,), np.int8)


REFUSED = (ValueError, KeyError, TypeError)
Damage = Callable[[dict[str, Any]], object]


def _set(*path: Any, to: Any) -> Damage:
    def damage(content: dict[str, Any]) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return damage


MODAL: dict[str, Damage] = {
    "a column is gone": lambda c: c.pop("age"),
    "a column is unknown": _set("height", to={"codes": [0]}),
    "a column is a number": _set("age", to=3),
    "a column is nothing": _set("job", to=None),
    "a column is a list": _set("age", to=["atoms"]),
    "categories of numbers": _set("age", to={"codes": [0, 1]}),
    "modes of categories": lambda c: c.update(job=c["age"]),
    "no codes": _set("job", "codes", to=[]),
    "codes beyond the column": _set("job", "codes", to=[0, 6]),
    "codes below zero": _set("job", "codes", to=[-1, 2]),
    "codes out of order": _set("job", "codes", to=[2, 1]),
    "codes twice": _set("job", "codes", to=[1, 1]),
    "codes of fractions": _set("job", "codes", to=[0.5, 1.5]),
    "codes of text": _set("job", "codes", to=["0", "1"]),
    "codes beyond 64 bits": _set("job", "codes", to=[0, 2**70]),
    "codes in a table": _set("job", "codes", to=[[0], [1]]),
    "no means": lambda c: c["age"].pop("means"),
    "more means than weights": lambda c: c["age"]["means"].append(1.0),
    "more deviations than means": lambda c: c["age"]["deviations"].append(1.0),
    "a mean that is no number": _set("age", "means", 0, to=float("nan")),
    "a mean beyond all numbers": _set("age", "means", 0, to=float("inf")),
    "a mean beyond float64": _set("age", "means", 0, to=10**400),
    "a mean beyond its range": _set("age", "means", 0, to=1e200),
    "a mean that is missing": _set("age", "means", 0, to=None),
    "a mean of text": _set("age", "means", 0, to="40"),
    "a negative deviation": _set("age", "deviations", 0, to=-1.0),
    "a deviation of zero": _set("age", "deviations", 0, to=0.0),
    "a deviation too small to divide by": _set("age", "deviations", 0, to=1e-300),
    "a deviation beyond its range": _set("age", "deviations", 0, to=1e300),
    "a negative weight": _set("age", "weights", 0, to=-0.1),
    "weights that do not sum to one": _set("age", "weights", 0, to=3.0),
    "atoms out of order": _set("gain", "atoms", to=[5.0, 0.0]),
    "atoms beyond the bounds": _set("gain", "atoms", to=[0.0, 1e9]),
    "an atom that is no number": _set("gain", "atoms", to=[float("nan")]),
    "missing that is no truth": _set("age", "missing", to=1),
    "a mode for missing values in a column without": _set("age", "missing", to=True),
    "a logarithm that is no truth": _set("age", "log", to="yes"),
    "a share of steps above one": _set("age", "step_shares", to=[1.5]),
    "a share of steps that is no number": _set("age", "step_shares", to=[float("nan")]),
    "shares of a column without steps": _set("gain", "step_shares", to=[0.5]),
    "no mode at all": _set(
        "age", to={"atoms": [], "means": [], "deviations": [], "weights": [], "missing": False, "log": False}
    ),
}
BINNED: dict[str, Damage] = {
    "a column is gone": lambda c: c.pop("age"),
    "a column is unknown": lambda c: c.update(height=c["age"]),
    "a column is a list": _set("age", to=["edges", "group", "mass"]),
    "no edges": lambda c: c["age"].pop("edges"),
    "edges of categories": _set("job", "edges", to=[0.0, 1.0]),
    "a number without edges": _set("age", "edges", to=None),
    "edges out of order": _set("age", "edges", 0, to=1e6),
    "an edge that is no number": _set("age", "edges", 0, to=float("nan")),
    "one edge": _set("age", to={"edges": [17.0], "group": [0, 1], "mass": [1.0, 1.0]}),
    "fewer masses than cells": lambda c: c["age"]["mass"].pop(),
    "fewer codes than cells": lambda c: c["age"]["group"].pop(),
    "fewer edges than cells": lambda c: c["age"]["edges"].pop(),
    "a negative mass": _set("age", "mass", 0, to=-1.0),
    "an infinite mass": _set("age", "mass", 0, to=float("inf")),
    "a negative code": _set("age", "group", 0, to=-1),
    "a code far off": _set("age", "group", 0, to=10**12),
    "a code of a fraction": _set("age", "group", 0, to=0.5),
    "a code without a cell": lambda c: c["job"].update(group=[0, 1, 1, 3, 4, 5]),
    "missing is not the last": lambda c: c["job"].update(group=[0, 1, 2, 3, 5, 4]),
    "missing has company": lambda c: c["job"].update(group=[0, 1, 2, 4, 3, 4]),
    "other is not the last but one": lambda c: c["job"].update(group=[0, 1, 2, 3, 2, 4]),
    "a code beyond 64 bits": _set("age", "group", 0, to=2**70),
}


def _plain(encoding: ModalEncoding | BinnedEncoding) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(encoding.to_plain(), allow_nan=False))
    return loaded


@pytest.fixture(scope="module")
def modal_content(frame: pd.DataFrame, schema: Schema) -> dict[str, Any]:
    return _plain(ModalEncoding.fit(frame, schema, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def binned_content(schema: Schema) -> dict[str, Any]:
    return _plain(BinnedEncoding(Discretizer.by_schema(schema)))


@pytest.mark.parametrize("name", MODAL)
def test_damaged_modes_are_refused(name: str, modal_content: dict[str, Any], schema: Schema) -> None:
    content = copy.deepcopy(modal_content)
    assert content["age"]["means"] and not content["age"]["missing"] and content["gain"]["atoms"] == [0.0]
    MODAL[name](content)
    with pytest.raises(REFUSED):
        ModalEncoding.from_plain(content, schema)


@pytest.mark.parametrize("name", BINNED)
def test_damaged_bins_are_refused(name: str, binned_content: dict[str, Any], schema: Schema) -> None:
    content = copy.deepcopy(binned_content)
    BINNED[name](content)
    with pytest.raises(REFUSED):
        BinnedEncoding.from_plain(content, schema)


@pytest.mark.parametrize("content", [[], None, "age", 3, {}])
def test_what_is_no_encoding_at_all_is_refused(content: Any, schema: Schema) -> None:
    for kind in (ModalEncoding, BinnedEncoding):
        with pytest.raises(REFUSED):
            kind.from_plain(content, schema)


def test_a_list_of_the_columns_is_no_encoding_of_them(schema: Schema) -> None:
    for kind in (ModalEncoding, BinnedEncoding):
        with pytest.raises(REFUSED):
            kind.from_plain(list(schema.modeled), schema)  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["codes", "atoms", "a"]), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=JSON, data=st.data())
@pytest.mark.parametrize("kind", [ModalEncoding, BinnedEncoding])
def test_any_damage_is_refused_or_leaves_an_encoding_whose_rows_are_whole(
    kind: Any, junk: Any, data: st.DataObject, modal_content: dict[str, Any], binned_content: dict[str, Any],
    schema: Schema,
) -> None:  # fmt: skip
    content = copy.deepcopy(modal_content if kind is ModalEncoding else binned_content)
    part = content[data.draw(st.sampled_from(sorted(content)))]
    key = data.draw(st.sampled_from(sorted(part)))
    if isinstance(part[key], list) and part[key] and data.draw(st.booleans()):
        part[key][data.draw(st.integers(0, len(part[key]) - 1))] = junk
    else:
        part[key] = junk
    try:
        encoding = kind.from_plain(content, schema)
    except REFUSED:
        return
    rng = np.random.default_rng(0)
    layout = encoding.layout
    codes = np.column_stack([rng.integers(0, size, 50) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.uniform(-1, 1, (50, len(layout.scalars))).astype(np.float32)
    rows = encoding.invert(Encoded(codes, scalars), rng)
    modeled = schema.model_copy(update={"columns": {name: schema.columns[name] for name in schema.modeled}})
    pd.testing.assert_frame_equal(rows, conform(rows, modeled, part=True))

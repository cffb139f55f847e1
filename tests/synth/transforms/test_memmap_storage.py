"""Tables in files: what is read from them is what memory would give, and nothing of them has a name."""

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from synth.domain import Discretizer
from synth.errors import OutputError
from synth.schema import build_schema
from synth.transforms.columns import Disk, FiledColumns, HeldValues
from synth.transforms.layout import Layout, Span

DISCRETIZER = Discretizer.by_schema(build_schema({
    "status": "declared",
    "columns": {"x": {"kind": "real", "bounds": [-9.0, 9.0]}, "c": {"kind": "categorical", "categories": ["a", "b"]}},
}))  # fmt: skip
NUMBER, CATEGORY = DISCRETIZER.attributes
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


def _filed(column: np.ndarray, folder: Path, n_blocks: int = 7) -> FiledColumns:
    blocks = (np.stack([part, np.zeros(len(part))]) for part in np.array_split(column, n_blocks) if len(part))
    return Disk(folder).keep(blocks, ("x", "c"))


@pytest.fixture
def little_room() -> Iterator[None]:
    """A limit on the size of files, which ends a write as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", COLUMNS)
def test_values_in_a_file_are_those_in_memory_and_drawn_alike(name: str, tmp_path: Path) -> None:
    held, filed = HeldValues.of(COLUMNS[name]), _filed(COLUMNS[name], tmp_path).values(NUMBER)
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


def test_a_table_comes_back_block_by_block(tmp_path: Path) -> None:
    blocks = [np.array([[0.5, np.nan], [0, 3]]), np.array([[-1.0], [2]])]
    columns = Disk(tmp_path).keep(iter(blocks), ("x", "c"))
    assert len(columns) == 3
    np.testing.assert_array_equal(np.concatenate(list(columns.parts(NUMBER))), [0.5, np.nan, -1.0])
    cells = np.concatenate(list(columns.parts(CATEGORY)))
    assert cells.tolist() == [0, 3, 2] and cells.dtype == np.int64


def test_arrays_begin_with_zeros_and_hold_what_is_written(tmp_path: Path) -> None:
    made = Disk(tmp_path)((3_000_000, 2), np.int32)
    assert not made.any()
    made[-1] = 7
    assert made.sum() == 14
    assert Disk(tmp_path)((0, 3), np.int16).shape == (0, 3)


def test_encoded_rows_are_made_row_by_row_on_the_disk(tmp_path: Path) -> None:
    made = _filed(COLUMNS["many"], tmp_path).encoded(Layout((Span("x", 3, whole=False),), ("x",)))
    assert made.codes.shape == made.scalars.shape == (20_000, 1)
    assert made.codes.dtype == np.int16 and made.codes.flags.c_contiguous and made.codes.flags.writeable


@pytest.mark.parametrize("nameless", [True, False])
def test_no_file_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool) -> None:
    """Nor where the file system makes none without: Python knows a disk like that by its first refusal."""
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", nameless)
    columns, zeros = _filed(COLUMNS["many"], tmp_path), Disk(tmp_path)((10, 10), np.float64)
    assert len(columns) == 20_000 and zeros.shape == (10, 10)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("little_room")
def test_a_disk_without_room_is_told(tmp_path: Path) -> None:
    for wanted in (lambda: Disk(tmp_path)((10**6,), np.int8), lambda: _filed(COLUMNS["many"], tmp_path)):
        with pytest.raises(OutputError, match="make room there") as error:
            wanted()
        assert str(tmp_path) in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        Disk(tmp_path / "nowhere")((3,), np.int8)

"""Files that mean harm, or that somebody got wrong: each ends in one sentence, in little memory and time."""

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synth.errors import TableError
from synth.schema import build_schema
from synth.table import conform, read_table
from synth.table.limits import LEAST_BYTES, LEAST_ROWS, TIMES, SizeLimits

SMALL = SizeLimits(n_bytes=4 << 20, n_rows=1_000, n_columns=50)
Write = Callable[[Path], Path]


def bytes_of(content: bytes, name: str = "t.csv") -> Write:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return write


def bomb(folder: Path) -> Path:
    """64 megabytes of zeros in a few hundred kilobytes."""
    path = folder / "bomb.csv.gz"
    chunk = b"0" * (1 << 20)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a\n")
        for _ in range(64):
            file.write(chunk)
    return path


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "t.csv")
    return folder / "t.csv"


def device(folder: Path) -> Path:
    (folder / "t.csv").symlink_to("/dev/zero")
    return folder / "t.csv"


def folder_named_like_a_table(folder: Path) -> Path:
    (folder / "t.parquet").mkdir()
    return folder / "t.parquet"


def parquet_of(table: pa.Table) -> Write:
    def write(folder: Path) -> Path:
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"

    return write


def codes_of_one_long_text() -> pa.Table:
    """A text of a megabyte as every one of 1,000 rows: a gigabyte once it is written out."""
    return pa.table({"a": pa.DictionaryArray.from_arrays(np.zeros(1_000, dtype=np.int32), ["x" * (1 << 20)])})


def plain_texts_of_one_value() -> pa.Table:
    """The same for a file that does not say that it holds codes."""
    return pa.table({"a": pa.array(["x" * (1 << 16)] * 500)})


def two_columns_of_one_name() -> pa.Table:
    return pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])


def zipped(text: bytes) -> bytes:
    return gzip.compress(text)


REFUSED: dict[str, tuple[Write, str]] = {
    "a gzip bomb": (bomb, "bytes once it is uncompressed"),
    "a CSV file that is too large": (bytes_of(b"a\n" + b"0\n" * (3 << 20)), "bytes once it is uncompressed"),
    "a CSV file of too many rows": (bytes_of(b"a\n" + b"0\n" * 2_000), "may have 1,000 rows"),
    "a Parquet file of too many rows": (parquet_of(pa.table({"a": pa.nulls(5_000, pa.int8())})), "may have 1,000 rows"),
    "a Parquet file of codes": (parquet_of(codes_of_one_long_text()), "bytes once it is uncompressed"),
    "a Parquet file of one long text": (parquet_of(plain_texts_of_one_value()), "bytes once it is uncompressed"),
    "too many columns": (bytes_of(",".join(f"c{i}" for i in range(60)).encode() + b"\n"), "may have 50 columns"),
    "a million columns": (bytes_of(b",".join(b"c" for _ in range(1_000_000)) + b"\n1\n"), "may have 50 columns"),
    "too many columns of Parquet": (
        parquet_of(pa.table({f"c{i}": [1] for i in range(60)})),
        "may have 50 columns",
    ),
    "a header without an end": (bytes_of(b"a" * (2 << 20) + b"\n1\n"), "header row"),
    "gzip within gzip": (bytes_of(zipped(zipped(b"a\n1\n")), "t.csv.gz"), "gzip file once it is uncompressed"),
    "gzip named CSV": (bytes_of(zipped(b"a\n1\n")), "gzip file whatever its name says"),
    "Parquet named CSV": (bytes_of(b"PAR1\0\0"), "Parquet file"),
    "a spreadsheet named CSV": (bytes_of(b"PK\x03\x04\x14\0"), "zip (a spreadsheet, perhaps) file"),
    "CSV named Parquet": (bytes_of(b"a,b\n1,2\n", "t.parquet"), "must be whole"),
    "CSV named gzip": (bytes_of(b"a,b\n1,2\n", "t.csv.gz"), "gzip-compressed"),
    "gzip that is cut short": (bytes_of(zipped(b"a\n" + os.urandom(5_000))[:-900], "t.csv.gz"), "cut short"),
    "Parquet that is cut short": (bytes_of(b"PAR1" + b"\0" * 40 + b"PAR1", "t.parquet"), "must be whole"),
    "an empty file": (bytes_of(b""), "is empty"),
    "an empty Parquet file": (bytes_of(b"", "t.parquet"), "must be whole"),
    "a header alone": (bytes_of(b"a,b\n"), "at least one row"),
    "two columns of one name": (bytes_of(b"a,a\n1,2\n"), "two columns of name='a'"),
    "two columns of one name in Parquet": (parquet_of(two_columns_of_one_name()), "two columns of name='a'"),
    "NUL bytes": (bytes_of(b"a\n1\0\n"), "NUL"),
    "UTF-16": (bytes_of("a\n1\n".encode("utf-16")), "save it as UTF-8"),
    "UTF-16 without its mark": (bytes_of("a\n1\n".encode("utf-16-le")), "NUL"),
    "Latin-1": (bytes_of("a\nK\xf6ln\n".encode("latin-1")), "another encoding"),
    "a lone surrogate": (bytes_of(b"a\n\xed\xa0\x80\n"), "UTF-8"),
    "a pipe": (pipe, "a pipe or a device"),
    "a device": (device, "a pipe or a device"),
    "a folder": (folder_named_like_a_table, "is a folder"),
    "a nested column": (parquet_of(pa.table({"a": [[1]]})), "nested"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_table_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    write, said = REFUSED[name]
    with pytest.raises(TableError) as caught:
        read_table(write(tmp_path), limits=SMALL)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_bomb_is_given_up_before_it_fills_the_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = bomb(tmp_path)
    tracemalloc.start()
    with pytest.raises(TableError):
        read_table(path, limits=SMALL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * SMALL.n_bytes


def test_codes_are_never_written_out_beyond_the_limit(tmp_path: Path) -> None:
    path = parquet_of(codes_of_one_long_text())(tmp_path)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(TableError):
        read_table(path, limits=SMALL)
    assert pa.default_memory_pool().max_memory() <= max(before, 64 << 20)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import synth.table.reading as reading

    path = bytes_of(b"a\n1\n")(tmp_path)
    plain = reading.content_of

    def slow(*arguments: object) -> bytes:
        found = plain(*arguments)  # type: ignore[arg-type]
        with path.open("ab") as file:
            file.write(b"2\n")
        return found

    monkeypatch.setattr(reading, "content_of", slow)
    with pytest.raises(TableError, match="changed"):
        read_table(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    path, said = pipe(tmp_path), list[str]()

    def read() -> None:
        try:
            read_table(path)
        except TableError as error:
            said.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert len(said) == 1


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    bytes_of(b"a\n1\n")(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    assert read_table(tmp_path / "link.csv")["a"].tolist() == ["1"]


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfa,b\r\n1,2\n3,4\r\n", b"a,b\n1,2\r\n3,4\n", b"a,b\r1,2\r3,4"])
def test_marks_and_line_ends_of_other_systems_are_read(content: bytes, tmp_path: Path) -> None:
    found = read_table(bytes_of(content)(tmp_path))
    assert found.to_numpy().tolist() == [["1", "2"], ["3", "4"]]


def test_cells_that_a_spreadsheet_would_run_are_text(tmp_path: Path) -> None:
    cells = ['=HYPERLINK("http://x";"y")', "+1+1", "-2+3", "@SUM(1)", "\t=1"]
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": cells}).to_csv(path, index=False)
    assert read_table(path)["a"].tolist() == cells


NUMBERS = ["1e308", "1e400", "-inf", "inf", "nan", "9" * 400, "0x10", "1_000", "=1+1", "12"]
DATES = ["99999-01-01", "-0001-01-01", "0000-00-00", "2020-13-45", "+275760-09-13", "2020-01-01"]


def test_absurd_numbers_and_dates_are_clamped_or_missing_and_never_fatal() -> None:
    schema = build_schema(
        {
            "format": 1,
            "status": "declared",
            "columns": {
                "n": {"kind": "integer", "bounds": [0, 100]},
                "r": {"kind": "real", "bounds": [0.0, 1.0], "decimals": 2},
                "d": {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"]},
            },
        }
    )
    size = max(len(NUMBERS), len(DATES))
    texts = {"n": NUMBERS, "r": NUMBERS, "d": DATES}
    frame = pd.DataFrame({name: [*of, *["1"] * (size - len(of))] for name, of in texts.items()})
    found = conform(frame, schema, outside="clamp", part=True)
    assert found["n"].dropna().between(0, 100).all()
    assert found["r"].dropna().between(0, 1).all()
    assert len(found) == size


def test_a_table_may_need_many_times_what_train_needs_but_not_any_number_of_times() -> None:
    small, large = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": np.zeros(10_000_000, dtype=np.int64)})
    assert SizeLimits.beside(small) == SizeLimits(LEAST_BYTES, LEAST_ROWS, 2_000)
    assert SizeLimits.beside(large).n_rows == TIMES * len(large)
    assert SizeLimits.beside(large).n_bytes == TIMES * len(large) * 8

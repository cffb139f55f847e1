"""Chunked output: any number of synthetic rows as a folder of Parquet files, one table written in bounded memory.

Each file is drawn from a child of the seed, as a `Part` of the table. Names and keys do not repeat from
file to file, and an entity has all of its rows in one. Whether there are enough names is known before the first file.
What may not repeat is kept on disk, 8 bytes a value, one part in memory at a time.
"""

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth import identifiers, personal
from synth.errors import JobError, OutputError
from synth.generators.models.constraints import REJECTED
from synth.generators.models.known_rows import GIVEN, WAYS
from synth.generators.models.model import Model
from synth.generators.models.postprocess import rows_wanted
from synth.identifiers import Part
from synth.output import check_new_folder, is_taken, sync, sync_all, unwritable
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table import write_table

ROWS_A_FILE = 1_000_000  # rows that one file holds at most, unless told


def check_names(schema: Schema, entity_shares: tuple[float, ...] | None, n_rows: int) -> None:
    """Refuse a table for which there are surely too few identifiers, or unique personal data by numbers."""
    of_entity = (schema.entity, *schema.constant_in_entity)
    n_entities = n_rows if entity_shares is None else -(-n_rows // len(entity_shares))
    for name in schema.kept:
        column: Any = schema.columns[name]
        n = n_entities if name in of_entity else n_rows
        if column.is_identifier:
            identifiers.check_room(column, n)
        elif column.is_personal:
            personal.check_room(column, n)


@dataclass(frozen=True)
class SeenOnDisk:
    """Values of the parts before one, and its own for those after it, as a `Part` asks for them.

    Two values that share their 64 bits count as one. That makes a generator draw another value and nothing else.
    """

    folder: Path
    index: int

    def taken(self, where: str) -> int:
        return int(np.load(self._path(where, self.index - 1, "count"))) if self.index else 0

    def take(self, where: str, n: int) -> None:
        np.save(self._path(where, self.index, "count"), n)

    def among(self, where: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        distinct, inverse = np.unique(hashes, return_inverse=True)
        is_known = np.zeros(len(distinct), dtype=bool)
        for index in range(self.index):
            is_known |= np.isin(distinct, np.load(self._path(where, index, "seen")))
        return is_known[inverse]

    def add(self, where: str, hashes: NDArray[np.uint64]) -> None:
        np.save(self._path(where, self.index, "seen"), hashes)

    def _path(self, where: str, index: int, what: str) -> Path:
        name = hashlib.blake2b(where.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return self.folder / f"{index:05d}-{name}.{what}.npy"


@dataclass(frozen=True)
class Written:
    """A synthetic table that is whole."""

    folder: Path
    n_rows: int
    n_files: int
    seed: int
    n_rejected: int | None
    given: str | None = None


def write_rows(  # noqa: PLR0913 - what a table is drawn from, and where to
    model: Model,
    folder: Path,
    n_rows: int | None = None,
    *,
    seed: int | None = None,
    given: Mapping[str, Any] | None = None,
    balance: Mapping[str, Mapping[Any, float] | None] | None = None,
    rows_a_file: int = ROWS_A_FILE,
    force: bool = False,
    progress: Progress = quiet,
) -> Written:
    """Write a synthetic table as a folder of Parquet files, which appears when it is whole, or not at all."""
    wanted = rows_wanted(n_rows, model.default_rows)
    if rows_a_file < 1:
        raise JobError(f"a file holds at least one row: rows_a_file={rows_a_file}; ask for more")
    check_names(model.schema, getattr(model, "entity_shares", None), wanted)
    _check_output(folder, force=force)
    n_files, seed = -(-wanted // rows_a_file), secrets.randbits(32) if seed is None else seed
    rejected, ways = list[int | None](), list[str]()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name[:40]}.", dir=folder.parent) as hidden:
            table, seen = Path(hidden) / "table", Path(hidden) / "seen"
            table.mkdir()
            seen.mkdir()
            for index in range(n_files):
                first, last = (wanted * at // n_files for at in (index, index + 1))
                digest = hashlib.blake2b(f"{seed}\0part\0{index}".encode(), digest_size=8).digest()

                def tell(label: str, share: float | None, index: int = index) -> None:
                    progress(f"file {index + 1} of {n_files}: {label}", (index + 0.5 * (share or 0.0)) / n_files)

                rows = model.sample(
                    last - first, seed=int.from_bytes(digest, "little"), given=given, balance=balance, progress=tell,
                    part=Part(seed, last - first, wanted, SeenOnDisk(seen, index)),
                )  # fmt: skip
                tell("writing", 1.0)
                path = table / f"part-{index:05d}.parquet"
                write_table(rows, path, model.schema)
                rejected.append(rows.attrs.get(REJECTED))
                ways += [rows.attrs[GIVEN]] if GIVEN in rows.attrs else []
                _check_room(path, n_files - index - 1)
            sync_all(table)
            _check_output(folder, force=force)
            if is_taken(folder):
                folder.replace(Path(hidden) / "older")
            table.replace(folder)
            sync(folder.absolute().parent)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(folder, error) from None
    n_rejected = None if None in rejected else sum(n for n in rejected if n is not None)
    return Written(folder, wanted, n_files, seed, n_rejected, max(ways, key=WAYS.index, default=None))


def _check_room(path: Path, n_left: int) -> None:
    """Refuse to go on where the files to come will not fit."""
    needed, free = n_left * path.stat().st_size, shutil.disk_usage(path.parent).free
    if needed > free:
        raise OutputError(
            f"the {n_left} files to come need about {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free; make "
            "room there, or choose another place"
        )


def _check_output(folder: Path, *, force: bool) -> None:
    """Refuse to replace a folder, unless it holds nothing but files such as are written here and is to be replaced."""
    if not (force and is_taken(folder)):
        check_new_folder(folder)
    elif (
        not folder.is_dir()
        or folder.is_symlink()
        or not all(p.match("part-*.parquet") and p.is_file() for p in folder.iterdir())
    ):
        raise OutputError(
            f"--force replaces a folder that holds nothing but part-*.parquet: {str(folder)!r} is none; name another "
            "or remove it"
        )

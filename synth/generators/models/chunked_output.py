"""Chunked output: any number of synthetic rows as a folder of Parquet files, one table written in bounded memory.

Each file is drawn from a child of the seed, as a part of the table (`synth.chunks`). Names and keys do not repeat from
file to file, and an entity has all of its rows in one. So the same call gives the same bytes, however often it was
interrupted and taken up again. Whether there are enough names is known before the first file is made.

What may not repeat is kept on disk, one part in memory at a time. Of numbers that are taken in an order it is how many;
of other values 8 bytes each.
"""

import hashlib
import math
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth import identifiers, personal
from synth.chunks import Part
from synth.distribution import VERSION
from synth.errors import BadInput, JobError, ModelError, OutputError
from synth.generators.models.constraints import REJECTED
from synth.generators.models.known_rows import GIVEN, WAYS
from synth.generators.models.model import Model
from synth.generators.models.postprocess import rows_wanted
from synth.generators.models.unfinished_rows import FileFacts, OtherRows, UnfinishedRows, unfinished_rows
from synth.output import unwritable, whole_file
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.table import write_table

_NEVER = 32
"""Minus the logarithm of how likely it is that a table has fewer entities than are counted on, at most."""
ROWS_A_FILE = 1_000_000  # rows that one file holds at most, unless told


def check_names(schema: Schema, entity_shares: tuple[float, ...] | None, n_rows: int) -> None:
    """Refuse a table for which there are too few identifiers, or unique personal data that numbers tell apart.

    One that may come out at its last entities is not refused: the file for which they do is.
    """
    of_entity = (schema.entity, *schema.constant_in_entity)
    n_entities = n_rows if entity_shares is None else least_entities(entity_shares, n_rows)
    for name in schema.kept:
        column: Any = schema.columns[name]
        n = n_entities if name in of_entity else n_rows
        if column.is_identifier:
            identifiers.check_room(column, n)
        elif column.is_personal:
            personal.check_room(column, n)


def least_entities(shares: tuple[float, ...], n_rows: int) -> int:
    """The least number of entities of so many rows: surely, or next to surely where that is more.

    Source: Bernstein's inequality, for the sum of the sizes.

    >>> least_entities((0.5, 0.5), 1_000_000), least_entities((0.5, 0.5), 10)
    (664475, 5)
    """
    sizes = np.arange(1, len(shares) + 1)
    mean = float(np.average(sizes, weights=shares))
    variance = float(np.average((sizes - mean) ** 2, weights=shares))
    deviation = math.sqrt(2 * _NEVER * n_rows * variance / mean) + len(shares) * _NEVER / 3
    return max(math.floor((n_rows - deviation) / mean), -(-n_rows // len(shares)))


@dataclass(frozen=True)
class SeenOnDisk:
    """Values of the parts before one, and its own for those after it: a `synth.chunks.Seen`.

    Two values that share their 64 bits count as one. That makes a generator draw another value and nothing else.
    """

    folder: Path
    index: int

    def taken(self, place: str) -> int:
        """Number of identifiers that the parts before have taken."""
        return int(self._path(place, self.index - 1, "txt").read_text(encoding="ascii")) if self.index else 0

    def take(self, place: str, n: int) -> None:
        """Note how many numbers this part and those before it have taken, for those after it."""
        with self._written(place, "txt") as beside:
            beside.write_text(str(n), encoding="ascii")

    def among(self, place: str, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """True for each value that a part before holds; shape (n,)."""
        distinct, places = np.unique(hashes, return_inverse=True)
        found = np.zeros(len(distinct), dtype=bool)
        for index in range(self.index):
            known = np.load(self._path(place, index, "npy"), allow_pickle=False)
            if len(known):
                at = np.minimum(np.searchsorted(known, distinct), len(known) - 1)
                found |= known[at] == distinct
        return found[places]

    def add(self, place: str, hashes: NDArray[np.uint64]) -> None:
        """Note values of this part, for those after it."""
        with self._written(place, "npy") as beside:
            np.save(beside, np.sort(hashes))

    def _written(self, place: str, suffix: str) -> AbstractContextManager[Path]:
        self.folder.mkdir(exist_ok=True)
        return whole_file(self._path(place, self.index, suffix))

    def _path(self, place: str, index: int, suffix: str) -> Path:
        name = hashlib.blake2b(place.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return self.folder / f"{index:05d}-{name}.{suffix}"


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
    """Write a synthetic table as a folder of Parquet files, which appears when it is whole.

    What is written of it when that ends early is kept in a hidden folder beside, and the same call goes on from there.
    """
    wanted = rows_wanted(n_rows, model.default_rows)
    if rows_a_file < 1:
        raise JobError(f"a file holds at least one row: rows_a_file={rows_a_file}; ask for more")
    check_names(model.schema, getattr(model, "entity_shares", None), wanted)
    n_files = -(-wanted // rows_a_file)
    with unfinished_rows(folder, force=force) as rows, _told(rows, n_files):
        asked = {
            "model": _digest(model, rows.hidden / "model"),
            "version": VERSION,
            "rows": wanted,
            "rows_a_file": rows_a_file,
            "given": {name: repr(value) for name, value in sorted((given or {}).items())},
            "balance": repr(sorted((balance or {}).items())),
            "seed": seed,
        }
        call = rows.claim(asked, force=force)
        done = rows.done
        for index in range(len(done), n_files):
            first, last = (wanted * place // n_files for place in (index, index + 1))
            part = Part(call["seed"], last - first, wanted, SeenOnDisk(rows.seen, index))

            def under_way(label: str, share: float | None, index: int = index) -> None:
                progress(f"file {index + 1} of {n_files}: {label}", (index + 0.5 * (share or 0.0)) / n_files)

            def drawn(part: Part = part, index: int = index) -> pd.DataFrame:
                digest = hashlib.blake2b(f"{call['seed']}\0part\0{index}".encode(), digest_size=8).digest()
                seed_of_file = int.from_bytes(digest, "little")
                return model.sample(
                    part.n_rows, seed=seed_of_file, given=given, balance=balance, progress=under_way, part=part
                )  # fmt: skip

            done.append(_write(model, rows.file(index), drawn, under_way))
            rows.note(call, done)
            _check_room(rows.file(index), n_files - len(done))
        rows.finish(force=force)
        rejected = [file.n_rejected for file in done]
        n_rejected = None if None in rejected else sum(n for n in rejected if n is not None)
        ways = [file.given for file in done if file.given is not None]
        return Written(folder, wanted, len(done), call["seed"], n_rejected, max(ways, key=WAYS.index, default=None))


def _write(model: Model, file: Path, draw: Callable[[], pd.DataFrame], progress: Progress) -> FileFacts:
    """One file, and how it came about."""
    table = draw()
    progress("writing", 1.0)
    write_table(table, file, model.schema)
    return FileFacts(table.attrs.get(REJECTED), table.attrs.get(GIVEN))


def _digest(model: Model, place: Path) -> str:
    """A text of this model alone; of one that cannot be saved, and that no later call can have, a fresh text."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        model.save(place)
    except ModelError:
        return secrets.token_hex(16)
    found = hashlib.sha256()
    for path in sorted(place.iterdir()):
        content = path.read_bytes()
        found.update(f"{path.name}\0{len(content)}\0".encode() + content)
    shutil.rmtree(place)
    return found.hexdigest()


def _check_room(file: Path, n_left: int) -> None:
    """Refuse to go on where the files to come will not fit."""
    needed, free = n_left * file.stat().st_size, shutil.disk_usage(file.parent).free
    if needed > free:
        raise OutputError(
            f"the {n_left} files to come need about {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free; make "
            "room there, or choose another place"
        )


@contextmanager
def _told(rows: UnfinishedRows, n_files: int) -> Iterator[None]:
    """Errors as sentences that say what is kept; where the same call can only fail again, nothing is."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _noted(unwritable(rows.out, error), rows, n_files) from None
    except BadInput as error:
        if not isinstance(error, OutputError):
            rows.discard()
        elif not isinstance(error, OtherRows):
            _noted(error, rows, n_files)
        raise
    except BaseException as error:
        _noted(error, rows, n_files)
        raise


def _noted(error: BaseException, rows: UnfinishedRows, n_files: int) -> BaseException:
    n_done = len(rows.done)
    if n_done:
        error.add_note(f"{n_done} of {n_files} files are kept, and the same command goes on from there")
    return error

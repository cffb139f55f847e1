"""Post-processing of drawn columns into a table: identifiers, personal data, entities, the order of columns; and files.

Entities get their rows by noisy shares of sizes. Columns that are constant within an entity are so in its rows: rows
that agree in them go together, and a constant in which hardly any agree is that of the entity's first row. Rows are
drawn without their entity. Where two rows of an entity share the rest of its key, such as one visit of a patient a
day, rows change hands. They do so first at random. Where that does not do, the most frequent values go first, each to
the entities with most rows left.

Any number of rows is a folder of Parquet files, one table written in bounded memory. Each file is drawn from a child
of the seed, as a part of the table (`synth.identifiers`). Names and keys do not repeat from file to file, and an entity
has all of its rows in one. What may not repeat is kept on disk, 8 bytes a value, one part in memory at a time.
"""

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth import identifiers, personal
from synth.constraints import Unique
from synth.domain.relations import repeated
from synth.errors import JobError, ModelError, OutputError
from synth.generators.models.constraints import REJECTED
from synth.generators.models.given import GIVEN, WAYS, Balance
from synth.identifiers import Part
from synth.output import check_new_folder, is_taken, sync, sync_all, unwritable
from synth.progress import Progress, quiet
from synth.row_order import order_of_identifiers, order_ranks
from synth.schema import Schema
from synth.table import present, write_table

if TYPE_CHECKING:
    from synth.generators.models.model import Model

ROUNDS = 30  # rounds in which rows change hands at random
LEAST_A_GROUP = 2.0
"""Rows that agree in what is constant within an entity, on average, in multiples of the rows of an entity."""


def entity_of_rows(shares: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """A synthetic entity's number for every row, shape (n_rows,): consecutive rows share one."""
    sizes = rng.choice(np.arange(1, len(shares) + 1), size=n_rows, p=shares / shares.sum())
    return np.repeat(np.arange(n_rows), sizes)[:n_rows]


def group_rows(constant: pd.DataFrame, shares: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows in an order in which those of one entity follow each other and agree, and the entity of
    each; shape (n,) both. Entities come in random order, so that it tells nothing.
    """
    groups = row_groups(constant)
    of_entity, sizes = _cut(np.bincount(groups), shares, rng)
    # Rows of a group are alike but for their order, which is random: any of them may be in any of its entities.
    rows = np.argsort(groups, kind="stable")
    by_group = np.argsort(of_entity, kind="stable")
    entity = np.repeat(rng.permutation(len(sizes)), sizes[by_group])
    order = np.argsort(entity, kind="stable")
    return rows[order], entity[order]


def row_groups(rows: pd.DataFrame) -> np.ndarray:
    """A number for every row, equal where all the values are, from zero on without gaps; shape (n,)."""
    groups = np.zeros(len(rows), dtype=np.int64)
    for _, series in rows.items():
        if series.dtype == object:  # pandas takes texts for equal that differ after a NUL
            known: dict[object, int] = {}
            numbers = np.array([known.setdefault(value, len(known)) for value in series], dtype=np.int64)
        else:
            numbers = pd.factorize(series, use_na_sentinel=False)[0]
        groups = np.unique(groups * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)[1]
    return groups


def _cut(rows_left: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Entities that fill groups of rows exactly: the group of each, and how many rows it has.
    `rows_left`: rows of each group, shape (n_groups,).
    """
    # As many of each size as the shares say, the largest first, each into a group with room, in proportion to it. One
    # that fits nowhere becomes smaller, and what is then left over is cut up in the same way.
    rows_left = rows_left.copy()
    groups, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    while n_left := int(rows_left.sum()):
        _, drawn = np.unique(entity_of_rows(shares, n_left, rng), return_counts=True)
        n_wanted = np.bincount(drawn, minlength=len(shares) + 1)
        n_unplaced = 0
        for size in range(len(shares), 0, -1):
            open_groups = np.flatnonzero(rows_left >= size)
            room = rows_left[open_groups] // size
            n_entities = min(int(n_wanted[size]) + n_unplaced, int(room.sum()))
            n_unplaced += int(n_wanted[size]) - n_entities
            placed = rng.multivariate_hypergeometric(room, n_entities, method="marginals")
            rows_left[open_groups] -= placed * size
            groups.append(np.repeat(open_groups, placed))
            sizes.append(np.full(n_entities, size))
    return np.concatenate(groups), np.concatenate(sizes)


def _shared(constant: pd.DataFrame, shares: np.ndarray, schema: Schema) -> list[str]:
    """The columns that all rows of an entity take from its first row: where rows agree in a name by chance alone, no
    entity would have several of them. Columns of a constraint are never taken over: a row might break it.
    """
    mean = float(np.average(np.arange(1, len(shares) + 1), weights=shares))
    bound = {name for each in schema.constraints for name in each.columns}
    n_values = {str(name): constant[name].nunique() for name in constant if name not in bound}
    taken: list[str] = []
    for name in sorted(n_values, key=lambda name: -n_values[name]):
        left = [other for other in constant if other not in taken]
        if mean == 1 or len(constant) >= LEAST_A_GROUP * mean * (int(row_groups(constant[left]).max(initial=0)) + 1):
            break
        taken.append(name)
    return taken


def deal(learned: pd.DataFrame, owner: np.ndarray, schema: Schema, rng: np.random.Generator) -> np.ndarray:
    """The entity of every row, shape (n,), none of which holds a value of its key twice; sizes stay as they are.

    Rows change hands among entities that agree in what is constant within one. The same array comes back where nothing
    has to change.
    """
    key = next((c for c in schema.constraints if isinstance(c, Unique) and schema.entity in c.columns), None)
    if key is None:
        return owner
    values = _values(learned, tuple(name for name in key.columns if name != schema.entity), schema)
    constant = [name for name in schema.constant_in_entity if name in schema.learned]
    groups = row_groups(learned[constant])
    owner = _swapped(owner, values, groups, rng)
    for group in np.unique(groups[_clashes(owner, values)]):
        rows = np.flatnonzero(groups == group)
        dealt = _dealt(values[rows], owner[rows], rng)
        if dealt is None:
            raise ModelError(
                f"the rows that were drawn cannot be dealt to entities so that {key}: a value is in more rows than "
                "there are entities to hold it; correct the constraint, or name fewer columns in constant_in_entity"
            )
        owner = owner.copy()
        owner[rows] = dealt
    return owner


def _values(learned: pd.DataFrame, names: tuple[str, ...], schema: Schema) -> np.ndarray:
    """A number for the rest of each row's key, equal where it repeats; a missing part repeats nothing."""
    again = repeated(learned, Unique(columns=names), schema.columns)
    numbers = np.arange(len(learned))
    numbers[again] = len(learned) + row_groups(learned.loc[again, list(names)])
    return np.unique(numbers, return_inverse=True)[1]


def _clashes(owner: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Positions of rows with a value that an earlier row of the same entity holds."""
    together = owner.astype(np.int64) * (int(values.max()) + 1) + values
    first = np.zeros(len(owner), dtype=bool)
    first[np.unique(together, return_index=True)[1]] = True
    return np.flatnonzero(~first)


def _swapped(owner: np.ndarray, values: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The owners after rows that clash have changed hands with others of their group, as long as that helps."""
    clashes = _clashes(owner, values)
    for _ in range(ROUNDS):
        if len(clashes) == 0:
            break
        others = rng.choice(len(owner), size=min(len(owner), 4 * len(clashes)), replace=False)
        rows = np.union1d(clashes, others)
        tried = owner.copy()
        tried[rows[np.argsort(groups[rows], kind="stable")]] = owner[
            rows[np.lexsort((rng.random(len(rows)), groups[rows]))]
        ]
        left = _clashes(tried, values)
        if len(left) < len(clashes):
            owner, clashes = tried, left
    return owner


def _dealt(values: np.ndarray, owner: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The owners of one group's rows, with the same number of rows each and no value twice; `None` where there is none.

    Source: Gale 1957, "A theorem on flows in networks": a value goes to the entities with most rows left, which leaves
    a way for all others wherever there is one.
    """
    entities, left = np.unique(owner, return_counts=True)
    dealt = np.empty_like(owner)
    numbers, counts = np.unique(values, return_counts=True)
    order = np.argsort(values, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    for index in np.lexsort((rng.random(len(numbers)), -counts)):
        most = np.lexsort((rng.random(len(left)), -left))[: counts[index]]
        if len(most) < counts[index] or left[most].min() == 0:
            return None
        left[most] -= 1
        dealt[order[starts[index] : starts[index] + counts[index]]] = entities[most]
    return dealt


def rows_wanted(n_rows: int | None, default_rows: int) -> int:
    wanted = default_rows if n_rows is None else n_rows
    if isinstance(wanted, bool) or not isinstance(wanted, Integral) or wanted < 1:
        shown = repr(wanted) if isinstance(wanted, int | float | str) else type(wanted).__name__  # no cell of a table
        raise JobError(f"rows={shown:.40} must be a whole number from 1; known cells are given=...")
    return int(wanted)


def check_part(part: Part, most: int) -> None:
    """Refuse files that are too short for all rows of an entity, of which there may be so many."""
    if most > part.n_rows and not part.is_whole:
        raise JobError(
            f"all rows of an entity are in one file, and it may have {most}: rows_a_file={part.n_rows} is too few; "
            "write more rows a file"
        )


def finish(
    learned: pd.DataFrame,
    schema: Schema,
    entity_shares: tuple[float, ...] | None,
    rng: np.random.Generator,
    part: Part | None = None,
    given: tuple[str, ...] | None = None,
) -> pd.DataFrame:
    """The table as its reader knows it, `attrs` kept, with its identifiers and its personal data, made anew.
    `given`: columns of which each row has its own value; the rows then stay in their order.
    """
    part, attrs = Part.whole(len(learned), rng) if part is None else part, learned.attrs
    owner, order = None, np.arange(len(learned))

    def reorder(positions: np.ndarray) -> None:
        nonlocal learned, order
        learned, order = learned.take(positions).set_axis(pd.RangeIndex(len(learned))), order[positions]

    if schema.entity is not None and entity_shares is not None:
        shares = np.array(entity_shares)
        check_part(part, len(shares))
        constant = [name for name in schema.constant_in_entity if name in schema.learned]
        shared = [name for name in _shared(learned[constant], shares, schema) if name not in (given or ())]
        if grouped := [name for name in constant if name not in shared]:
            positions, owner = group_rows(learned[grouped], shares, rng)
            reorder(positions)
        else:
            owner = entity_of_rows(shares, len(learned), rng)
        dealt = deal(learned, owner, schema, rng)
        if dealt is not owner:
            positions = np.argsort(dealt, kind="stable")
            reorder(positions)
            owner = dealt[positions]
        first = np.unique(owner, return_index=True)[1][np.unique(owner, return_inverse=True)[1]]
        learned = learned.assign(**{name: learned[name].take(first).set_axis(learned.index) for name in shared})
    whole = _with_unlearned(learned, owner, schema, rng, part)
    if given is not None:
        whole = whole.take(np.argsort(order)).reset_index(drop=True)
    table = present(whole, schema)
    table.attrs.update(attrs)
    return table


def _with_unlearned(
    learned: pd.DataFrame, owner: np.ndarray | None, schema: Schema, rng: np.random.Generator, part: Part
) -> pd.DataFrame:
    """The table with the columns that are made anew; rows of an entity, side by side, share what is constant in it."""
    columns: dict[str, Any] = {}
    for name in schema.kept:
        column: Any = schema.columns[name]
        if column.is_text:  # a language model writes it, once the row is whole
            columns[name] = np.full(len(learned), None, dtype=object)
        elif not column.is_replaced:
            columns[name] = learned[name]
        else:
            of_row = owner if name == schema.entity or name in schema.constant_in_entity else None
            n = len(learned) if of_row is None else int(of_row.max()) + 1
            generate = identifiers.generate if column.is_identifier else personal.generate
            values = _in_order(generate(column, n, rng, part, name), column, learned, schema, of_row)
            columns[name] = values if of_row is None else values[of_row]
    return pd.DataFrame(columns, index=pd.RangeIndex(len(learned)), copy=False)


def _in_order(
    values: np.ndarray, column: Any, learned: pd.DataFrame, schema: Schema, owner: np.ndarray | None = None
) -> np.ndarray:
    """Identifiers in the order of the columns that they rise with: of rows, or of the first rows of entities."""
    if getattr(column, "rises_with", None) is None:
        return values
    names = [name for name in column.rises_with if name in learned]
    keys = pd.DataFrame({name: schema.columns[name].order_keys(learned[name]) for name in names}, index=learned.index)
    if owner is not None:
        keys = keys.groupby(owner).min()
    if not names:
        return np.sort(values)
    ordered = np.empty_like(values)
    ordered[np.lexsort([keys[name].to_numpy() for name in reversed(names)])] = np.sort(values)
    return ordered


def finish_histories(
    learned: pd.DataFrame, owner: np.ndarray, schema: Schema, rng: np.random.Generator, part: Part | None = None
) -> pd.DataFrame:
    """The synthetic table of whole histories as its reader knows it.

    Where an identifier orders the rows of an entity, the new ones stand in that order.
    `owner`: the entity of every row as a number from 0 on, ascending, shape (n,).
    """
    part = Part.whole(len(learned), rng) if part is None else part
    table = _with_unlearned(learned, owner, schema, rng, part)
    if (name := order_of_identifiers(schema)) is not None:
        ranks = order_ranks(pd.Series(table[name]), schema)
        table[name] = table[name].to_numpy()[np.lexsort((ranks, owner))]
    return present(table, schema)


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
    model: "Model",
    folder: Path,
    n_rows: int | None = None,
    *,
    seed: int | None = None,
    given: Mapping[str, Any] | None = None,
    balance: Balance | None = None,
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

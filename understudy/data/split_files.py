"""Split files: a real table cut into train and holdout, for commands that take one step at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from synth.errors import JobError, OutputError
from synth.generators.models.chunked_output import ROWS_A_FILE
from synth.output import whole_folder
from synth.schema import Schema
from synth.split import split_table
from synth.table import check_names, conform, read_table, write_table
from synth.table.arrow import from_arrow
from synth.table.conforming import Outside
from understudy.data.load import StoredSplit, read_stored
from understudy.data.source import RealTable

if TYPE_CHECKING:
    from synth.stored import StoredTable

SIDES = ("train", "holdout")


@dataclass(frozen=True)
class Cut:
    """The terms of a split."""

    holdout_share: float
    seed: int
    stratified: bool
    outside: Outside


def part(table: RealTable, schema: Schema, cut: Cut, out: Path) -> tuple[Path, Path]:
    """Train and holdout, written into a new folder that appears whole.

    Args:
        table: *Sensitive*. A file gives two files; stored files give two folders of Parquet, cells as they are stored
            unless they are clamped.
    """
    if table.stored:
        return _part_stored(table, schema, cut, out)
    train, holdout = (out / f"{side}{table.suffix}" for side in SIDES)
    check_names(schema.kept, train)
    real = read_table(table.file, schema, outside=cut.outside)
    sides = split_table(
        real, schema, holdout_share=cut.holdout_share, seed=cut.seed, private=not cut.stratified
    )  # fmt: skip
    with whole_folder(out) as folder:
        write_table(sides.train, folder / train.name, schema)
        write_table(sides.holdout, folder / holdout.name, schema)
    return train, holdout


def _part_stored(table: RealTable, schema: Schema, cut: Cut, out: Path) -> tuple[Path, Path]:
    if table.is_database:
        raise JobError(
            f"rows do not leave their database, and {table.shown!r} is in one; let a job split it there "
            "(`understudy run`), or make a view of each part"
        )
    if cut.stratified:
        raise JobError("a stratified split is drawn in memory, and this table is not; leave --stratified out")
    with read_stored(table, schema, cut.outside) as real, whole_folder(out) as folder:
        sides = StoredSplit.of(real, schema, holdout_share=cut.holdout_share, seed=cut.seed)
        try:
            for name, side in zip(SIDES, (sides.train, sides.holdout), strict=True):
                _write(side, schema, folder / name, cut.outside)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise OutputError(f"{str(out)!r} cannot be written ({reason}); choose another place or make room") from None
    return out / SIDES[0], out / SIDES[1]


def _write(side: "StoredTable", schema: Schema, folder: Path, outside: Outside) -> None:
    """The kept columns of a side as a folder of Parquet files: cells as they are stored, or clamped."""
    import pyarrow as pa
    from pyarrow import parquet

    from synth.stored.connection import batches

    folder.mkdir()
    for index, batch in enumerate(batches(side.place, side.rows.select(*schema.kept), ROWS_A_FILE)):
        path, rows = folder / f"part-{index:05}.parquet", pa.Table.from_batches([batch])
        if outside == "clamp":
            frame = pd.DataFrame({name: from_arrow(rows.column(name)) for name in schema.kept})
            write_table(conform(frame, schema, outside="clamp", part=True), path, schema)
        else:
            parquet.write_table(rows, path)

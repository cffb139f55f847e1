"""Split files: a real table cut into train and holdout, for commands that take one step at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from synth.generators.models.postprocess import ROWS_A_FILE
from synth.output import whole_folder
from synth.schema import Schema
from synth.split import split_table
from synth.table import check_names, write_table
from synth.table.conforming import Outside
from synth.table.rows import Rows
from understudy.data.load import read_rows
from understudy.data.source import RealTable

SIDES = ("train", "holdout")


@dataclass(frozen=True)
class Cut:
    """The terms of a split."""

    holdout_share: float
    seed: int
    stratified: bool
    outside: Outside


def part(table: RealTable, schema: Schema, cut: Cut, out: Path) -> tuple[Path, Path]:
    """Train and holdout, written into a new folder that appears whole: two files, or two folders of Parquet parts."""
    train, holdout = (out / f"{side}{table.suffix}" for side in SIDES)
    check_names(schema.kept, out / f"train{table.suffix or '.parquet'}")
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    real = read_rows(table, schema, cut.outside, out.absolute().parent)
    sides = split_table(real, schema, holdout_share=cut.holdout_share, seed=cut.seed, private=not cut.stratified)
    with whole_folder(out) as folder:
        for rows, path in ((sides.train, folder / train.name), (sides.holdout, folder / holdout.name)):
            if path.suffix:
                write_table(rows.frame(), path, schema)
                continue
            path.mkdir()
            for index, frame in enumerate(_parts(rows)):
                write_table(frame, path / f"part-{index:05}.parquet", schema)
    return train, holdout


def _parts(side: Rows) -> Iterator[pd.DataFrame]:
    """The rows in parts of about as many rows as a file has."""
    frames: list[pd.DataFrame] = []
    for frame in side.frames():
        if frames and sum(map(len, frames)) + len(frame) > ROWS_A_FILE:
            yield pd.concat(frames, ignore_index=True)
            frames = []
        frames.append(frame)
    yield pd.concat(frames, ignore_index=True)

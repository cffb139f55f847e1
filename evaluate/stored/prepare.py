"""Preparation of tables that stay where they are stored: checked and counted there, samples fetched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from evaluate.sampling import (
    MIN_SYNTHETIC_ROWS,
    Side,
    refuse_few,
    refuse_one_unit,
    refuse_shared,
    shuffle_columns,
    side_seed,
)
from evaluate.stored.keys import N, at_home, brought
from evaluate.stored.tables import Drawer, StoredReal, StoredSides, StoredTables
from synth.errors import TableError
from synth.schema import Schema
from synth.split import halves
from synth.stored import StoredTable
from synth.stored.row_hash import KEY, POSITION, DrawnRows, with_keys
from synth.stored.table import observed
from synth.stored.violations import refuse_violations
from synth.table import conform
from synth.table.arrow import from_arrow
from synth.table.conforming import Outside, faulty_cells

R = TypeVar("R")

SEARCHED = 5
"""Synthetic rows that are fetched for each real row of a sample."""
_AT = "understudy_at"


def prepared(
    cls: Callable[..., R],
    train: StoredTable,
    holdout: StoredTable,
    schema: Schema,
    *,
    seed: int,
    outside: Outside,
    sample_rows: int,
    **options: Any,
) -> R:
    """`evaluate.tables.Real.prepare_stored`, which explains all arguments."""
    holdout = at_home(holdout, train)
    tables: dict[Side, StoredTable] = {"train": train, "holdout": holdout}
    n_rows: dict[Side, int] = {name: len(table) for name, table in tables.items()}
    refuse_few(n_rows["train"], n_rows["holdout"])
    for name, table in tables.items():
        with _named(name):
            table.check(schema)
            if outside == "refuse":
                refuse_violations(table, schema)
    declared, schema = schema, observed(schema, train, holdout)
    sides = StoredSides(train, holdout, schema, seed)
    twins = _twins(sides)
    refuse_shared(twins["train_alone"] / n_rows["train"], twins["holdout_in_alone"] / n_rows["holdout"])
    drawn, frames, before = {}, {}, {}
    for name in tables:
        with _named(name):
            drawn[name] = sides.drawer(name).sample(sample_rows)
            fetched = _fetched(drawn[name])
            frames[name] = conform(fetched, declared, outside=outside, part=True)
            before[name] = faulty_cells(fetched, declared)
    n_sampled = {name: len(frame) for name, frame in frames.items()}
    refuse_few(n_sampled["train"], n_sampled["holdout"])
    numbered = frames["holdout"].assign(**{_AT: np.arange(n_sampled["holdout"])})
    fresh, control = halves(numbered, schema, seed=seed)
    refuse_one_unit(fresh, control)
    in_train = _counts_in_train(sides, drawn["holdout"])
    of_fresh, of_control = (half.pop(_AT).to_numpy() for half in (fresh, control))
    stored = StoredReal(
        sides, sample_rows, n_rows, n_sampled, twins, in_train[of_fresh], drawn["holdout"], of_control
    )  # fmt: skip
    of_holdout = before["holdout"].iloc[np.concatenate([of_fresh, of_control])].reset_index(drop=True)
    # The same order within each column, whatever its cells are.
    shuffled, of_train = (
        shuffle_columns(rows, np.random.default_rng([seed, 0])) for rows in (frames["train"], before["train"])
    )
    return cls(
        schema, declared, frames["train"], fresh, control, shuffled, seed, stored=stored,
        faulty=(of_holdout, of_train) if outside == "clamp" else None, **options,
    )  # fmt: skip


def beside(real: StoredReal, synthetic: StoredTable) -> tuple[pd.DataFrame, StoredTables]:
    """A sample of a synthetic table as it was offered, and all tables where they are."""
    synthetic, schema = at_home(synthetic, real.sides.train), real.sides.schema
    n_rows = len(synthetic)
    if n_rows < MIN_SYNTHETIC_ROWS:
        raise EvaluationError(f"a synthetic table needs at least {MIN_SYNTHETIC_ROWS} rows; sample more")
    with _named("synthetic"):
        drawer = Drawer(synthetic, schema, side_seed(real.sides.seed, "synthetic"))
        more = [name for name in synthetic.rows.columns if name not in (*schema.kept, synthetic.slot)]
        frame = _fetched(drawer.sample(SEARCHED * real.sample_rows, more))
    return frame, StoredTables(real, synthetic, n_rows, len(frame), drawer)


def _fetched(drawn: DrawnRows) -> pd.DataFrame:
    """The rows as they are stored, in their order. *Sensitive* where they are real."""
    table = drawn.place.fetch(drawn.rows.order_by(POSITION))
    names = drawn.rows.columns[:-2]
    frame = pd.DataFrame({i: from_arrow(table.column(name)) for i, name in enumerate(names)})
    return frame.set_axis(pd.Index(names, dtype=object), axis=1)


def _twins(sides: StoredSides) -> dict[str, int]:
    """Counts of equal rows within train and across both sides, of all rows."""
    place = sides.meeting_place()
    train, holdout = (sides.keys(side, place).counts for side in ("train", "holdout"))
    alone = train.filter(train[N] == 1)
    asked = {
        "train_alone": alone.count(),
        "holdout_in_train": holdout.semi_join(train, KEY)[N].sum(),
        "holdout_in_alone": holdout.semi_join(alone, KEY)[N].sum(),
    }
    return {name: place.number(number.fill_null(0)) for name, number in asked.items()}


def _counts_in_train(sides: StoredSides, drawn: DrawnRows) -> np.ndarray:
    """Counts of rows of all of train that equal each drawn row, in their order."""
    place = sides.meeting_place()
    keyed = with_keys(StoredTable(drawn.place, drawn.rows), sides.schema, [POSITION])
    keys = brought(keyed.select(POSITION, KEY), drawn.place, place)
    train = sides.keys("train", place).counts
    counted = keys.left_join(train, KEY).select(POSITION, **{N: train[N].fill_null(0)})
    return np.asarray(place.fetch(counted.order_by(POSITION)).column(1).to_numpy(), dtype=np.int64)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A block whose errors about a table say which of them is at fault."""
    try:
        yield
    except TableError as error:
        raise type(error)(f"{name}: {error}") from None

"""Real and synthetic tables where they are stored: what is drawn of them, and what is counted of all their rows.

Everything that needs rows works on seeded samples, whole entities, that are drawn there and fetched. Of the synthetic
table more is fetched than of the real ones: an attack finds a leak only in what it searches.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from evaluate.stored_draws import Drawer
from evaluate.stored_keys import KeyCounts, N, brought, meeting_place
from evaluate.tables import MIN_SYNTHETIC_ROWS, Real, Side, refuse_few, refuse_shared, shuffle_columns, side_seed
from synth.errors import TableError
from synth.schema import Schema
from synth.split import halves
from synth.stored import StoredTable
from synth.stored.content import KEY, with_keys
from synth.stored.drawing import POSITION, DrawnRows
from synth.stored.observed import observed
from synth.stored.place import Place
from synth.stored.violations import refuse_violations
from synth.table import conform
from synth.table.conforming import Outside
from synth.table.given import from_arrow

R = TypeVar("R", bound=Real)

SEARCHED = 5
"""Synthetic rows that are fetched for each real row of a sample."""
_IN_TRAIN = "understudy_in_train"


@dataclass(frozen=True, eq=False)
class StoredReal:
    """The two sides of a real table where they are stored.

    Attributes:
        train: *Sensitive*. All of it.
        holdout: *Sensitive*. All of it.
        schema: with domains known.
        seed: of the evaluation.
        sample_rows: rows of either side that are drawn at most.
        n_rows: rows of "train" and "holdout".
        n_sampled: rows of their samples.
        twins: *Sensitive*. Of all rows, counts of those of train that stand there once, and of those of the holdout
            that stand in train, at all or once.
        fresh_in_train: *Sensitive*. How many rows of all of train equal each row of `Real.fresh`; shape (n_fresh,).
        kept: *Sensitive*. What is drawn and counted once.
    """

    train: StoredTable
    holdout: StoredTable
    schema: Schema
    seed: int
    sample_rows: int
    n_rows: Mapping[Side, int]
    n_sampled: Mapping[Side, int]
    twins: Mapping[str, int] = field(default_factory=dict, repr=False)
    fresh_in_train: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def drawn(self, side: Side, limit: int | None) -> DrawnRows:
        """As `StoredTables.drawn`, of the real sides."""
        return self.drawer(side).first(limit)

    def drawer(self, side: Side) -> Drawer:
        """What draws rows of one side."""
        if ("drawer", side) not in self.kept:
            self.kept["drawer", side] = Drawer(getattr(self, side), self.schema, side_seed(self.seed, side))
        found: Drawer = self.kept["drawer", side]
        return found

    @property
    def meeting_place(self) -> Place:
        """Where keys of both sides are counted together."""
        if "place" not in self.kept:
            self.kept["place"] = meeting_place([self.train, self.holdout])
        found: Place = self.kept["place"]
        return found

    def keys(self, side: Side, place: Place) -> KeyCounts:
        """The distinct rows of one side, counted in a place."""
        name = ("keys", side, id(place.connection))  # which lives as long as what is kept
        if name not in self.kept:
            self.kept[name] = KeyCounts.of(getattr(self, side), self.schema, place)
        found: KeyCounts = self.kept[name]
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """Rows of either side and equal ones among them, all counted there; and rows of samples that are not all."""
        n_train, n_holdout, across = self.n_rows["train"], self.n_rows["holdout"], self.twins["holdout_in_train"]
        counted = {
            "train_rows": n_train,
            "holdout_rows": n_holdout,
            "duplicates_across": {"count": across, "share": across / n_holdout},
            "duplicate_share_train": 1.0 - self.twins["train_alone"] / n_train,
        }
        cut = {f"{side}_rows": n for side, n in self.n_sampled.items() if n < self.n_rows[side]}
        return {**counted, "sampled": cut} if cut else counted

    def beside(self, synthetic: StoredTable) -> "tuple[pd.DataFrame, StoredTables]":
        """A sample of a synthetic table as it was offered, and all tables where they are.

        Raises:
            EvaluationError: it has too few rows; nothing was measured.
            TableError: it lacks a column, or cannot be read where it is stored; nothing was measured.
        """
        n_rows = len(synthetic)
        if n_rows < MIN_SYNTHETIC_ROWS:
            raise EvaluationError(f"a synthetic table needs at least {MIN_SYNTHETIC_ROWS} rows; sample more")
        with _named("synthetic"):
            drawer = Drawer(synthetic, self.schema, side_seed(self.seed, "synthetic"))
            more = [n for n in synthetic.rows.columns if n not in (*self.schema.kept, synthetic.slot)]
            frame = _fetched(drawer.sample(SEARCHED * self.sample_rows, more))
        return frame, StoredTables(self, synthetic, n_rows, len(frame), drawer)


@dataclass(frozen=True, eq=False)
class StoredTables:
    """The tables of an evaluation where they are stored.

    Attributes:
        real: *Sensitive*. The real sides.
        offered: the synthetic table.
        n_offered: its rows.
        n_sampled: rows of the sample that attacks search.
        drawer: what draws its rows.
    """

    real: StoredReal
    offered: StoredTable
    n_offered: int
    n_sampled: int
    drawer: Drawer = field(repr=False)

    @property
    def train(self) -> StoredTable:
        """*Sensitive*. The rows the generator saw."""
        return self.real.train

    @property
    def holdout(self) -> StoredTable:
        """*Sensitive*. Rows it did not see."""
        return self.real.holdout

    def drawn(self, side: Side, limit: int | None) -> DrawnRows:
        """The first rows of one table in its seeded order: what `Tables.order` of all rows gives; drawn once.

        Args:
            side: "train", "synthetic" or "holdout".
            limit: so many rows at most; none: all.
        """
        if side != "synthetic":
            return self.real.drawn(side, limit)
        return self.drawer.first(limit)

    @property
    def searched(self) -> float:
        """The share of the synthetic table that attacks search."""
        return self.n_sampled / self.n_offered


def prepared(
    cls: type[R],
    train: StoredTable,
    holdout: StoredTable,
    schema: Schema,
    *,
    seed: int,
    outside: Outside,
    sample_rows: int,
    **options: Any,
) -> R:
    """`Real.prepare_stored`, which explains all arguments."""
    sides: dict[Side, StoredTable] = {"train": train, "holdout": holdout}
    n_rows: dict[Side, int] = {name: len(table) for name, table in sides.items()}
    refuse_few(n_rows["train"], n_rows["holdout"])
    for name, table in sides.items():
        with _named(name):
            table.check(schema)
            if outside == "refuse":
                refuse_violations(table, schema)
    declared, schema = schema, observed(schema, train, holdout)
    stored = StoredReal(train, holdout, schema, seed, sample_rows, n_rows, {})
    stored = replace(stored, twins=_twins(stored))
    shares = stored.twins["train_alone"] / n_rows["train"], stored.twins["holdout_in_alone"] / n_rows["holdout"]
    refuse_shared(*shares)
    frames = {}
    for name in sides:
        with _named(name):
            drawn = stored.drawer(name).sample(sample_rows)
            frames[name] = conform(_fetched(drawn), declared, outside=outside, part=True)
            if name == "holdout":
                frames[name][_IN_TRAIN] = _counts_in_train(stored, drawn)
    refuse_few(len(frames["train"]), len(frames["holdout"]))
    fresh, control = halves(frames["holdout"], schema, seed=seed)
    stored = replace(
        stored, n_sampled={name: len(frame) for name, frame in frames.items()},
        fresh_in_train=fresh.pop(_IN_TRAIN).to_numpy(),
    )  # fmt: skip
    shuffled = shuffle_columns(frames["train"], np.random.default_rng([seed, 0]))
    control = control.drop(columns=_IN_TRAIN)
    return cls(schema, declared, frames["train"], fresh, control, shuffled, seed, stored=stored, **options)


def _fetched(drawn: DrawnRows) -> pd.DataFrame:
    """The rows as they are stored, in their order. *Sensitive* where they are real."""
    table = drawn.place.fetch(drawn.rows.order_by(POSITION))
    names = drawn.rows.columns[:-2]
    frame = pd.DataFrame({i: from_arrow(table.column(name)) for i, name in enumerate(names)})
    return frame.set_axis(pd.Index(names, dtype=object), axis=1)


def _twins(stored: StoredReal) -> dict[str, int]:
    """Counts of equal rows within train and across both sides, of all rows."""
    place = stored.meeting_place
    train, holdout = (stored.keys(side, place).counts for side in ("train", "holdout"))
    alone = train.filter(train[N] == 1)
    asked = {
        "train_alone": alone.count(),
        "holdout_in_train": holdout.semi_join(train, KEY)[N].sum(),
        "holdout_in_alone": holdout.semi_join(alone, KEY)[N].sum(),
    }
    return {name: place.number(number.fill_null(0)) for name, number in asked.items()}


def _counts_in_train(stored: StoredReal, drawn: DrawnRows) -> np.ndarray:
    """How many rows of all of train equal each drawn row, in their order."""
    place = stored.meeting_place
    keyed = with_keys(StoredTable(drawn.place, drawn.rows), stored.schema, [POSITION])
    keys = brought(keyed.select(POSITION, KEY), drawn.place, place)
    train = stored.keys("train", place).counts
    counted = keys.left_join(train, KEY).select(POSITION, **{N: train[N].fill_null(0)})
    return np.asarray(place.fetch(counted.order_by(POSITION)).column(1).to_numpy(), dtype=np.int64)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A block whose errors about a table say which of them is at fault."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{name}: {error}") from None

"""The tables that every measure is given, prepared once, so that all of them compare the same rows."""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from evaluate.options import N_ROWS, N_TARGETS, SAMPLE_ROWS, EvaluationOptions
from evaluate.result import Estimate, EvaluationError, Failure
from evaluate.sampling import (
    MIN_SYNTHETIC_ROWS,
    CellFaults,
    RowHashes,
    Side,
    draw,
    refuse_few,
    refuse_one_unit,
    refuse_overlap,
    shuffle_columns,
    side_seed,
    tickets,
)
from evaluate.text import percent
from synth.dp.statement import PrivacyStatement
from synth.errors import TableError, TableNote
from synth.row_hash import content_keys, drawn_order, seeded_order
from synth.schema import Schema
from synth.split import halves, split_table
from synth.table.rows import Rows, observe
from synth.table.table import Table
from synth.table.translating import TranslatedTable, Translations

T = TypeVar("T")

SEARCHED = 5
"""Synthetic rows that measures are given at most, for each such real row: an attack finds a leak where it searches."""
_AT = "understudy_at"
MOST_NAMED = 5  # columns that a note names


class SharedResults:
    """*Sensitive*. Intermediate results that several measures share, each made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """The result of this name, made at its first use."""
        if name not in self._made:
            self._made[name] = make()
        value: T = self._made[name]
        return value

    def clear(self) -> None:
        self._made.clear()


@dataclass(frozen=True)
class MetricResult:
    """The result of one measure module: numbers, failures, and data to draw."""

    estimates: tuple[Estimate, ...] = ()
    failures: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, measured: Iterable[Estimate | Failure], figures: Mapping[str, Any] | None = None) -> Self:
        numbers = tuple(measured)
        failures = tuple(each for each in numbers if isinstance(each, Failure))
        return cls(tuple(each for each in numbers if isinstance(each, Estimate)), failures, figures or {})


@dataclass(frozen=True, eq=False)
class Whole:
    """*Sensitive*. All rows of a table of which a sample is at hand."""

    rows: Rows
    hashes: RowHashes
    n_sampled: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class _Sides:
    """The real rows of an evaluation, all conforming to one schema, and what is known of those that are not at hand."""

    schema: Schema
    declared: Schema
    train: pd.DataFrame  # *Sensitive*. The rows the generator saw, or a seeded sample of them
    # *Sensitive*. Half of the holdout: the fresh real sample of attacks and models; copies are counted in all of it.
    fresh: pd.DataFrame
    control: pd.DataFrame  # *Sensitive*. The other half: non-members of attacks and the test set of utility
    shuffled: pd.DataFrame  # *Sensitive*. The training rows, each column shuffled on its own: the floor
    seed: int
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    sample_rows: int = SAMPLE_ROWS
    # *Sensitive*. Which cells of `holdout` and of `shuffled` did not fit the schema before they were clamped, by
    # column; none: they all did.
    faulty: tuple[pd.DataFrame, pd.DataFrame] | None = field(default=None, repr=False, compare=False)
    # *Sensitive*. The sides of which a sample is at hand.
    whole: Mapping[Side, Whole] = field(default_factory=dict, repr=False, compare=False)
    # *Sensitive*. All real rows, where none were held out and halves of them stand for train and holdout.
    undivided: Whole | None = field(default=None, repr=False, compare=False)
    show_rows: bool = True  # whether the internal report may show some of them

    @property
    def held_out(self) -> bool:
        """False where no real rows were held out from the generator."""
        return self.undivided is None

    @property
    def holdout(self) -> pd.DataFrame:
        """*Sensitive*. `fresh` and `control` together: the fresh real sample of fidelity, which needs no halves."""
        return pd.concat([self.fresh, self.control], ignore_index=True)

    def hashes(self, side: Side) -> RowHashes:
        """*Sensitive*. Of all rows of one table, whether they are at hand or not."""
        if side in self.whole:
            return self.whole[side].hashes
        kept = self._results_of(side)
        return kept.once(("hashes", side), lambda: RowHashes.of([getattr(self, side)], self.schema))

    def drawn(self, frame: pd.DataFrame, seed: int | None = None) -> np.ndarray:
        """Positions of the rows of a frame in a seeded random order, drawn once of a table at hand."""
        sides: tuple[Side, ...] = ("train", "fresh", "control", "synthetic")
        side = next((name for name in sides if getattr(self, name, None) is frame), None)
        seed = self.seed if seed is None else seed
        if side is None:
            return drawn_order(content_keys(frame, self.schema), seed)
        return self._results_of(side).once(("drawn", side, seed), lambda: drawn_order(self._keys(side), seed))

    def _keys(self, side: Side) -> np.ndarray:
        frame = getattr(self, side)
        return self._results_of(side).once(("keys", side), lambda: content_keys(frame, self.schema))

    def n_all(self, side: Side) -> int:
        """Rows of one table, whether they are at hand or not."""
        return len(self.whole[side] if side in self.whole else getattr(self, side))

    def share_at_hand(self, side: Side) -> float:
        return self.whole[side].n_sampled / len(self.whole[side]) if side in self.whole else 1.0

    def _results_of(self, side: Side) -> SharedResults:
        raise NotImplementedError


@dataclass(frozen=True)
class Real(_Sides):
    """The real rows of an evaluation, for any number of synthetic tables."""

    @classmethod
    def prepare(
        cls, train: Any, holdout: Any, schema: Schema, options: EvaluationOptions | None = None, **settings: Any
    ) -> Self:
        """The real side of an evaluation, of *Sensitive* tables that are not clamped yet; `holdout` may be `None`."""
        options = EvaluationOptions.of(options, settings)
        seed, outside, limit = options.seed, options.outside, options.sample_rows
        sources: dict[Side, Any] = {"train": train, "holdout": holdout}
        rows: dict[Side, Rows] = {}
        for side, table in sources.items():
            with _naming(side):
                rows |= {} if table is None else {side: Rows.of(table, schema, outside=outside, other=True)}
        declared = schema
        if schema.measured:
            schema = observe(schema, *(side_rows.frame(*schema.measured) for side_rows in rows.values()))
        undivided = None
        if holdout is None:
            everything = rows["train"]
            undivided = Whole(everything, RowHashes.of(everything.chunks(), schema), len(everything))
            rows["train"], rows["holdout"] = split_table(
                everything, declared, holdout_share=0.5, seed=seed, private=True, any_size=True
            )
        refuse_few(len(rows["train"]), len(rows["holdout"]), held_out=undivided is None)
        hashes = {side: RowHashes.of(side_rows.chunks(), schema) for side, side_rows in rows.items()}
        if undivided is None:
            refuse_overlap(hashes["train"].distinct, hashes["holdout"].keys)
        # In an order that depends on what rows hold, not on how they came, so that all that is drawn does too.
        drawn = {side: draw(rows[side], hashes[side], schema, side_seed(seed, side), limit) for side in sources}
        at = {side: positions for side, (positions, _) in drawn.items()}
        train, holdout = (frame for _, frame in drawn.values())
        refuse_few(len(train), len(holdout))
        fresh, control = halves(holdout.assign(**{_AT: at["holdout"]}), schema, seed=seed)
        refuse_one_unit(fresh, control)
        at["holdout"] = np.concatenate([fresh.pop(_AT), control.pop(_AT)])
        faulty = None
        if outside == "clamp" or declared.status == "inferred":
            faults = {side: CellFaults.of(rows[side], declared) for side in sources}
            before = {side: faults[side].frame(at[side]) for side in sources}
            faulty = before["holdout"], _shuffled(before["train"], seed)
            if outside == "refuse":
                _tell_clamped(faults)
        whole = {s: Whole(rows[s], hashes[s], len(at[s])) for s in sources if len(at[s]) < len(rows[s])}
        real = cls(
            schema, declared, train, fresh, control, _shuffled(train, seed), seed, options.n_targets, options.n_rows,
            limit, faulty, whole, undivided, options.show_rows,
        )  # fmt: skip
        for side in sources:
            if side not in whole:
                real.kept.once(("hashes", side), partial(hashes[side].take, at[side]))
        return real

    def beside(self, synthetic: Any, statement: PrivacyStatement | None = None) -> "Tables":
        """These rows and a synthetic table, whatever it comes from; what is kept of real rows is shared by all."""
        table = None
        if isinstance(synthetic, Rows):
            rows = synthetic
        else:
            with _naming("synthetic"):
                table = TranslatedTable(Table.of(synthetic), self.schema)  # values in another form are translated
                rows = Rows.from_chunks(table.chunks(self.declared), self.declared)
        if len(rows) < MIN_SYNTHETIC_ROWS:
            raise EvaluationError(f"a synthetic table needs at least {MIN_SYNTHETIC_ROWS} rows; sample more")
        # Validity asks for what the schema declares, the rest for what real rows hold.
        fitted, schema = rows, self.schema
        if schema is not self.declared:
            fitted = Rows.of(rows, schema) if table is None else Rows.from_chunks(table.chunks(schema), schema)
        hashes = RowHashes.of(fitted.chunks(), self.schema)
        seed = side_seed(self.seed, "synthetic")
        at, frame = draw(fitted, hashes, self.schema, seed, SEARCHED * self.sample_rows)
        ranks = tickets(hashes, seed)
        if len(at) == len(rows):
            ranks[at] = np.arange(len(at))
        whole: dict[Side, Whole] = {} if len(at) == len(rows) else {"synthetic": Whole(fitted, hashes, len(at))}
        real = {field.name: getattr(self, field.name) for field in fields(self)} | {"whole": {**self.whole, **whole}}
        tables = Tables(
            **real, synthetic=frame, offered=rows, ranks=ranks, claim=statement,
            unjudged=_unjudged(synthetic, table, self.schema, at),
            translated={} if table is None else dict(table.counted),
        )  # fmt: skip
        if not whole:
            tables.kept.once(("hashes", "synthetic"), lambda: hashes.take(at))
        object.__setattr__(tables, "kept_of_real", self.kept)  # a table that is changed by `replace` has its own
        return tables

    @cached_property
    def kept(self) -> SharedResults:
        """*Sensitive*. What is made of these rows alone, once for all synthetic tables."""
        return SharedResults()

    def _results_of(self, side: Side) -> SharedResults:
        return self.kept


@dataclass(frozen=True)
class Tables(_Sides):
    """Real and synthetic rows, all conforming to one schema."""

    _: KW_ONLY
    synthetic: pd.DataFrame
    claim: PrivacyStatement | None = None
    translated: Translations = field(default_factory=dict)
    # all synthetic rows under the declared schema, with the faults of their cells; `None` where rows were given that
    # fit.
    offered: Rows | None = field(default=None, repr=False, compare=False)
    # of these rows, which do not depend on how they came, shape (n,).
    ranks: np.ndarray | None = field(default=None, repr=False, compare=False)
    # the columns of the synthetic rows at hand that the schema drops or does not know, as they came.
    unjudged: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)
    # *Sensitive*. What several measures need of these tables.
    kept: SharedResults = field(default_factory=SharedResults, init=False, repr=False, compare=False)
    # *Sensitive*. The same of real rows alone: other synthetic tables beside the same `Real` share it.
    kept_of_real: SharedResults = field(default_factory=SharedResults, init=False, repr=False, compare=False)

    @classmethod
    def prepare(
        cls,
        train: Any,
        holdout: Any,
        synthetic: Any,
        schema: Schema,
        *,
        statement: PrivacyStatement | None = None,
        **settings: Any,
    ) -> "Tables":
        """The tables of one evaluation: `Real.prepare` beside one synthetic table."""
        return Real.prepare(train, holdout, schema, **settings).beside(synthetic, statement)

    @property
    def counted_undivided(self) -> "Tables":
        """These tables, all real rows being what the generator saw, as far as whole rows are counted."""
        if self.undivided is None:
            return self
        return replace(self, whole={**self.whole, "train": self.undivided, "holdout": self.undivided})

    def order(self, side: Side) -> np.ndarray:
        """Positions of a table's rows in a seeded random order by what they hold: the first n are a sample of n."""
        seed, rows = side_seed(self.seed, side), getattr(self, side)

        def draw_order() -> np.ndarray:
            if self.schema.entity is None and not self.schema.texts:
                return drawn_order(self._keys(side), seed)
            return seeded_order(rows, self.schema, seed)

        return self._results_of(side).once(("order", side), draw_order)

    def _results_of(self, side: Side) -> SharedResults:
        return self.kept if side == "synthetic" else self.kept_of_real


def _tell_clamped(faults: Mapping[Side, CellFaults]) -> None:
    """A note on values of real rows that a schema proposed from others has no room for. *Sensitive*."""
    shares = [(float(flags.mean()), name, side) for side in faults for name, flags in faults[side].flags.items()]
    shown = [
        f"{name!r} of {side} {percent(share)}" for share, name, side in sorted(shares)[: -MOST_NAMED - 1 : -1] if share
    ]
    if shown:
        reason = f"values that the proposed schema has no room for were clamped ({', '.join(shown)} of cells)"
        warnings.warn(TableNote(f"{reason}; declare wider bounds and all categories"), stacklevel=4)


def _unjudged(source: Any, table: TranslatedTable | None, schema: Schema, at: np.ndarray) -> pd.DataFrame:
    """The columns that the schema does not keep, of the rows at some positions."""
    if isinstance(source, pd.DataFrame):
        return source[[name for name in source.columns if name not in schema.kept]].iloc[at].reset_index(drop=True)
    others = () if table is None else [name for name in table.names if name not in schema.kept]
    if table is None or not others:
        return pd.DataFrame(index=range(len(at)))
    return table.columns(others).iloc[at].reset_index(drop=True)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """A block whose errors about a table say which of them is at fault."""
    try:
        yield
    except TableError as error:
        raise type(error)(f"{name}: {error}") from None


def _shuffled(train: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Each column in an order of its own, the same whatever its cells are."""
    return shuffle_columns(train, np.random.default_rng([seed, 0]))

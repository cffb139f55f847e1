"""The tables that every measure is given, prepared once, so that all of them compare the same rows."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pandas as pd

from evaluate.result import Estimate, EvaluationError, Failure
from evaluate.sampling import (
    MIN_SYNTHETIC_ROWS,
    Side,
    refuse_few,
    refuse_one_unit,
    refuse_overlap,
    seeded_order,
    shuffle_columns,
    side_seed,
)
from synth.dp.statement import PrivacyStatement
from synth.errors import TableError
from synth.observed import observe
from synth.schema import Schema
from synth.split import halves
from synth.table import conform
from synth.table.conforming import Outside, faulty_cells
from synth.table.translating import Translations, translate

if TYPE_CHECKING:  # their libraries are slow to import
    from evaluate.stored.tables import StoredReal, StoredTables
    from synth.stored import StoredTable

T = TypeVar("T")
TextScorer = Callable[[str, pd.DataFrame], np.ndarray]
"""A fitted model's loss at texts: of a column's name and some rows, the mean loss per token of each, in nats, shape
(n,); not a number where the text is missing."""

N_TARGETS = 8_000
"""Rows of train, and as many of the holdout, that attacks are tried on at most, unless more are asked for."""
N_ROWS = 50_000
"""Rows of each table that marginal fidelity compares at most, unless more are asked for."""
SAMPLE_ROWS = 100_000
"""Rows of each side of a table that stays where it is stored that are drawn for measures that need rows."""
_AT = "understudy_at"


class SharedResults:
    """*Sensitive*. Intermediate results that several measures share, each made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """The result of this name, made at its first use."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def clear(self) -> None:
        """Forget all of it."""
        self._made.clear()


@dataclass(frozen=True)
class MetricResult:
    """The result of one measure module: numbers, failures, and data to draw."""

    estimates: tuple[Estimate, ...] = ()
    failures: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StatedClaim:
    """The claim of a table's privacy statement: public numbers."""

    epsilon: float
    delta: float
    n_units: int
    max_rows_per_unit: int = 1

    @classmethod
    def of(cls, stated: PrivacyStatement | None) -> "StatedClaim | None":
        """The claim of a statement; `None` where there is none."""
        return None if stated is None else cls(stated.epsilon, stated.delta, stated.n_units, stated.max_rows_per_unit)


@dataclass(frozen=True)
class Real:
    """The real rows of an evaluation, all conforming to one schema, for any number of synthetic tables.

    Attributes:
        train: *Sensitive*. The rows the generator saw.
        fresh: *Sensitive*. Half of the holdout: the fresh real sample that the references of privacy and utility are
            measured on.
        control: *Sensitive*. The other half: non-members of attacks and the test set of utility.
        shuffled: *Sensitive*. The training rows, each column shuffled on its own: the floor.
        faulty: *Sensitive*. Which cells of `holdout` and of `shuffled` did not fit the schema before they were clamped,
            by column; none: they all did.
    """

    schema: Schema
    declared: Schema
    train: pd.DataFrame
    fresh: pd.DataFrame
    control: pd.DataFrame
    shuffled: pd.DataFrame
    seed: int
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    stored: "StoredReal | None" = None
    faulty: tuple[pd.DataFrame, pd.DataFrame] | None = field(default=None, repr=False)

    @classmethod
    def prepare(
        cls,
        train: pd.DataFrame,
        holdout: pd.DataFrame,
        schema: Schema,
        *,
        seed: int = 0,
        outside: Outside = "refuse",
        n_targets: int | None = N_TARGETS,
        n_rows: int | None = N_ROWS,
    ) -> Self:
        """The real side of an evaluation.

        Args:
            train: *Sensitive*. Real rows that the generator saw, not clamped yet.
            holdout: *Sensitive*. Real rows that it did not see, not clamped yet.
        """
        refuse_few(len(train), len(holdout))
        as_read = train, holdout
        train, holdout = _conform("train", train, schema, outside), _conform("holdout", holdout, schema, outside)
        declared, schema = schema, observe(schema, train, holdout)
        refuse_overlap(train, holdout, schema)
        # In an order that depends on what rows hold, not on how they came, so that all that is drawn does too.
        order = seeded_order(train, schema, side_seed(seed, "train"))
        order_of_holdout = seeded_order(holdout, schema, side_seed(seed, "holdout"))
        train, holdout = _taken(train, order), _taken(holdout, order_of_holdout)
        fresh, control = halves(holdout.assign(**{_AT: order_of_holdout}), schema, seed=seed)
        refuse_one_unit(fresh, control)
        at = np.concatenate([fresh.pop(_AT), control.pop(_AT)])
        shuffled, faulty = _shuffled(train, seed), None
        if outside == "clamp":
            before = [faulty_cells(rows, declared) for rows in as_read]
            faulty = _taken(before[1], at), _shuffled(_taken(before[0], order), seed)
        return cls(schema, declared, train, fresh, control, shuffled, seed, n_targets, n_rows, faulty=faulty)

    @classmethod
    def prepare_stored(  # noqa: PLR0913 (as `prepare`, and how large samples are)
        cls,
        train: "StoredTable",
        holdout: "StoredTable",
        schema: Schema,
        *,
        seed: int = 0,
        outside: Outside = "refuse",
        n_targets: int | None = N_TARGETS,
        n_rows: int | None = N_ROWS,
        sample_rows: int = SAMPLE_ROWS,
    ) -> Self:
        """The real side of an evaluation of tables that stay where they are stored.

        What is counted is counted there, on all rows. All else works on seeded samples that are drawn there: these are
        the frames. Where a sample is the whole table, every number is the one that `prepare` leads to.

        Args:
            train: *Sensitive*. Real rows that the generator saw.
            holdout: *Sensitive*. Real rows that it did not see.
        """
        from evaluate.stored.prepare import prepared

        real: Self = prepared(
            cls, train, holdout, schema, seed=seed, outside=outside, n_targets=n_targets, n_rows=n_rows,
            sample_rows=sample_rows,
        )  # fmt: skip
        return real

    def beside(
        self, synthetic: pd.DataFrame, statement: PrivacyStatement | None = None, scorer: TextScorer | None = None
    ) -> "Tables":
        """These rows and a synthetic table; what measures keep of real rows is shared by all of them."""
        if self.stored is not None:
            raise EvaluationError(
                "the real table stays where it is stored, and a table in memory cannot be counted beside it; write the "
                "synthetic one to a Parquet file and open that"
            )
        return self._beside(synthetic, statement, None, scorer)

    def beside_stored(
        self, synthetic: "StoredTable", statement: PrivacyStatement | None = None, scorer: TextScorer | None = None
    ) -> "Tables":
        """These rows and a synthetic table that stays where it is stored; the rest as in `beside`."""
        if self.stored is None:
            raise EvaluationError(
                "the real rows are in memory, and a table that is stored cannot be counted beside them; read it, or "
                "open the real ones where they are stored"
            )
        from evaluate.stored.prepare import beside

        offered, stored = beside(self.stored, synthetic)
        return self._beside(offered, statement, stored, scorer)

    def _beside(
        self,
        offered: pd.DataFrame,
        statement: PrivacyStatement | None,
        stored: "StoredTables | None",
        scorer: TextScorer | None,
    ) -> "Tables":
        if len(offered) < MIN_SYNTHETIC_ROWS:
            raise EvaluationError(f"a synthetic table needs at least {MIN_SYNTHETIC_ROWS} rows; sample more")
        translated: Translations = {}
        if stored is None:  # where all rows are counted, none are translated
            with _naming("synthetic"):
                offered, translated = translate(offered, self.schema)
        fitted = _conform("synthetic", offered, self.schema, "clamp")
        if stored is None:  # else it was drawn in this order
            order = seeded_order(fitted, self.schema, side_seed(self.seed, "synthetic"))
            offered, fitted = (_taken(rows, order) for rows in (offered, fitted))
        real = {one.name: getattr(self, one.name) for one in fields(self)} | {"stored": stored}
        made = Tables(
            **real, offered=offered, synthetic=fitted, claim=StatedClaim.of(statement), scorer=scorer,
            translated=translated,
        )  # fmt: skip
        object.__setattr__(made, "kept_of_real", self.kept)  # a table that is changed by `replace` has its own
        return made

    @property
    def holdout(self) -> pd.DataFrame:
        """*Sensitive*. `fresh` and `control` together."""
        return pd.concat([self.fresh, self.control], ignore_index=True)

    @cached_property
    def kept(self) -> SharedResults:
        """*Sensitive*. What is made of these rows alone, once for all synthetic tables."""
        return SharedResults()


@dataclass(frozen=True)
class Tables:
    """Real and synthetic rows, all conforming to one schema.

    Attributes:
        train: *Sensitive*.
        fresh: *Sensitive*.
        control: *Sensitive*.
        shuffled: *Sensitive*.
        faulty: *Sensitive*. As in `Real`.
        kept: *Sensitive*. What several measures need of these tables.
        kept_of_real: *Sensitive*. The same of real rows alone: other synthetic tables beside the same `Real` share it.
    """

    schema: Schema
    declared: Schema
    train: pd.DataFrame
    fresh: pd.DataFrame
    control: pd.DataFrame
    offered: pd.DataFrame
    synthetic: pd.DataFrame
    shuffled: pd.DataFrame
    seed: int
    claim: StatedClaim | None = None
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    stored: "StoredTables | None" = None
    scorer: TextScorer | None = field(default=None, repr=False, compare=False)
    translated: Translations = field(default_factory=dict)
    faulty: tuple[pd.DataFrame, pd.DataFrame] | None = field(default=None, repr=False, compare=False)
    kept: SharedResults = field(default_factory=SharedResults, init=False, repr=False, compare=False)
    kept_of_real: SharedResults = field(default_factory=SharedResults, init=False, repr=False, compare=False)

    @classmethod
    def prepare(
        cls,
        train: pd.DataFrame,
        holdout: pd.DataFrame,
        synthetic: pd.DataFrame,
        schema: Schema,
        *,
        seed: int = 0,
        outside: Outside = "refuse",
        statement: PrivacyStatement | None = None,
    ) -> "Tables":
        """The tables of one evaluation: `Real.prepare` beside one synthetic table."""
        return Real.prepare(train, holdout, schema, seed=seed, outside=outside).beside(synthetic, statement)

    @property
    def unjudged(self) -> tuple[Hashable, ...]:
        """Columns of the offered table that the schema drops or does not know: no measure compares them."""
        return tuple(name for name in self.offered.columns if name not in self.schema.kept)

    def order(self, side: Side) -> np.ndarray:
        """Positions of the rows of one table in a seeded random order, which depends on what they hold alone.

        The first n of them are a sample of n rows; tables are drawn independently of each other.
        """
        kept = self.kept if side == "synthetic" else self.kept_of_real
        rows, seed = getattr(self, side), side_seed(self.seed, side)
        return kept.once(("order", side), lambda: seeded_order(rows, self.schema, seed))

    @property
    def holdout(self) -> pd.DataFrame:
        """*Sensitive*. `fresh` and `control` together: the fresh real sample of fidelity, which needs no halves."""
        return pd.concat([self.fresh, self.control], ignore_index=True)


def _conform(name: str, rows: pd.DataFrame, schema: Schema, outside: Outside) -> pd.DataFrame:
    with _naming(name):
        return conform(rows, schema, outside=outside, part=True)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """A block whose errors about a table say which of them is at fault."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{name}: {error}") from None


def _taken(rows: pd.DataFrame, order: np.ndarray) -> pd.DataFrame:
    """Rows by their positions, numbered anew."""
    return rows.iloc[order].reset_index(drop=True)


def _shuffled(train: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Each column in an order of its own, the same whatever its cells are."""
    return shuffle_columns(train, np.random.default_rng([seed, 0]))

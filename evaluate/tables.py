"""The tables that every measure is given, prepared once, so that all of them compare the same rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from evaluate.result import Estimate, EvaluationError, Failure
from evaluate.sampling import drawn_order, learned_keys
from synth.errors import TableError
from synth.observed import observe
from synth.schema import Schema
from synth.split import halves, row_keys
from synth.table import conform
from synth.table.conforming import Outside

MIN_TRAIN_ROWS = 40
MIN_HOLDOUT_ROWS = 40
MIN_SYNTHETIC_ROWS = 2
N_TARGETS = 8_000
"""Rows of train, and as many of the holdout, that attacks are tried on at most, unless more are asked for."""
MOSTLY = 0.5
"""Share of rows above which a table is one without twins, and a holdout is not held out."""


Side = Literal["train", "synthetic", "holdout", "shuffled"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True)
class Measurement:
    """What one measure module gives: numbers, what it could not measure, and data to draw."""

    estimates: tuple[Estimate, ...] = ()
    failures: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What the table's privacy statement promises: public numbers.

    Attributes:
        epsilon: of the claim.
        delta: of the claim.
        n_units: the declared number of units.
        max_rows_per_unit: rows of one unit that were used at most.
    """

    epsilon: float
    delta: float
    n_units: int
    max_rows_per_unit: int = 1

    @classmethod
    def of(cls, statement: Mapping[str, Any] | None) -> "Claim | None":
        """The claim of a statement as plain data; none where there is none, or it names no numbers."""
        known = {name: (statement or {}).get(name) for name in ("epsilon", "delta", "n_units")}
        if not all(isinstance(number, int | float) for number in known.values()):
            return None
        return cls(**known, max_rows_per_unit=int((statement or {}).get("max_rows_per_unit", 1)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Real:
    """The real rows of an evaluation, all conforming to one schema, for any number of synthetic tables.

    Attributes:
        schema: what the columns mean, with domains that are not declared read off the real tables.
        declared: the schema as it was given, which alone says what is valid.
        train: *Sensitive*. The rows the generator saw.
        fresh: *Sensitive*. Half of the holdout: the fresh real sample that the references of privacy and utility are
            measured on.
        control: *Sensitive*. The other half: non-members of attacks and the test set of utility.
        shuffled: *Sensitive*. The training rows, each column shuffled on its own: the floor.
        seed: every draw of every measure derives from it.
        n_targets: rows of either side that attacks are tried on at most; none: all.
    """

    schema: Schema
    declared: Schema
    train: pd.DataFrame
    fresh: pd.DataFrame
    control: pd.DataFrame
    shuffled: pd.DataFrame
    seed: int
    n_targets: int | None = N_TARGETS

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
    ) -> Self:
        """The real side of an evaluation.

        Args:
            train: *Sensitive*. Real rows that the generator saw.
            holdout: *Sensitive*. Real rows that it did not see.
            schema: inferred or declared.
            seed: for the halves of the holdout, the shuffle, and all that measures draw.
            outside: what to do with values that do not fit the schema: "refuse", or "clamp" as `synth.table.conform`
                does.
            n_targets: rows of either side that attacks are tried on at most, a seeded sample; none: all.

        Raises:
            EvaluationError: too few rows on one side, or train and holdout share theirs; nothing was measured.
            TableError: a table does not fit the schema.
        """
        for name, rows, least in (("train", train, MIN_TRAIN_ROWS), ("holdout", holdout, MIN_HOLDOUT_ROWS)):
            if len(rows) < least:
                raise EvaluationError(f"an evaluation needs at least {least} rows of {name}; give it a larger table")
        sides = (("train", train), ("holdout", holdout))
        train, holdout = (_conform(name, rows, schema, outside) for name, rows in sides)
        declared, schema = schema, observe(schema, train, holdout)
        refuse_overlap(train, holdout, schema)
        train, holdout = (_in_seeded_order(real, schema, seed) for real in (train, holdout))
        fresh, control = halves(holdout, schema, seed=seed)
        shuffled = shuffle_columns(train, np.random.default_rng([seed, 0]))
        return cls(schema, declared, train, fresh, control, shuffled, seed, n_targets)

    def beside(self, synthetic: pd.DataFrame, statement: Mapping[str, Any] | None = None) -> "Tables":
        """These rows and a synthetic table; what measures keep of real rows is shared by all of them.

        Args:
            synthetic: the rows to judge; they may violate the schema, which `validity` counts.
            statement: their privacy statement as plain data; none where there is none.

        Raises:
            EvaluationError: the table has too few rows; nothing was measured.
            TableError: it lacks a column; nothing was measured.
        """
        if len(synthetic) < MIN_SYNTHETIC_ROWS:
            raise EvaluationError(f"a synthetic table needs at least {MIN_SYNTHETIC_ROWS} rows; sample more")
        fitted = _conform("synthetic", synthetic, self.schema, "clamp")
        real = {one.name: getattr(self, one.name) for one in fields(self)}
        made = Tables(**real, offered=synthetic, synthetic=fitted, claim=Claim.of(statement))
        object.__setattr__(made, "kept_of_real", self._kept)  # a table that is changed by `replace` has its own
        return made

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True)
class Tables:
    """Real and synthetic rows, all conforming to one schema.

    Attributes:
        schema: as in `Real`, like all others that are not explained here.
        declared: as there.
        train: *Sensitive*.
        fresh: *Sensitive*.
        control: *Sensitive*.
        offered: the rows to judge as they were given: only `validity` looks at these.
        synthetic: the rows to judge, clamped to the schema.
        shuffled: *Sensitive*.
        seed: every draw of every measure derives from it.
        claim: what the table's privacy statement promises; none where there is none.
        n_targets: as in `Real`.
        kept: *Sensitive*. What one measure has made for another, by a name of their choice.
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
    claim: Claim | None = None
    n_targets: int | None = N_TARGETS
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    kept_of_real: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        statement: Mapping[str, Any] | None = None,
    ) -> "Tables":
        """The tables of one evaluation: `Real.prepare` beside one synthetic table."""
        return Real.prepare(train, holdout, schema, seed=seed, outside=outside).beside(synthetic, statement)

    def order(self, side: Side) -> np.ndarray:
        """Positions of the rows of one table in a seeded random order, which depends on what they hold alone.

        The first n of them are a sample of n rows; tables are drawn independently of each other.
        """
        kept = self.kept if side == "synthetic" else self.kept_of_real
        if ("order", side) not in kept:
            seed = len(SIDES) * self.seed + SIDES.index(side)
            kept["order", side] = drawn_order(learned_keys(getattr(self, side), self.schema), seed)
        found: np.ndarray = kept["order", side]
        return found

    @property
    def holdout(self) -> pd.DataFrame:
        """*Sensitive*. `fresh` and `control` together: the fresh real sample of fidelity, which needs no halves."""
        return pd.concat([self.fresh, self.control], ignore_index=True)


def _conform(name: str, rows: pd.DataFrame, schema: Schema, outside: Outside) -> pd.DataFrame:
    try:
        return conform(rows, schema, outside=outside, part=True)
    except TableError as error:
        raise TableError(f"{name}: {error}") from None


def _in_seeded_order(rows: pd.DataFrame, schema: Schema, seed: int) -> pd.DataFrame:
    """The rows in an order that depends on what they hold, not on how they came, so that all that is drawn does too."""
    keys = row_keys(rows, sorted({*schema.learned, *([schema.entity] if schema.entity else [])}))
    return rows.iloc[drawn_order(keys, seed)].reset_index(drop=True)


def refuse_overlap(train: pd.DataFrame, holdout: pd.DataFrame, schema: Schema) -> None:
    """Refuse a holdout that is not held out: its rows stand in train, though the table is not one of twins.

    Args:
        train: *Sensitive*. Conforming to the schema.
        holdout: *Sensitive*. Conforming to the schema.
        schema: names the columns.

    Raises:
        EvaluationError: most rows of the holdout are rows of train; nothing was measured.
    """
    keys, counts = np.unique(row_keys(train, schema.learned), return_counts=True)
    alone = counts[counts == 1].sum() / counts.sum()
    shared = np.isin(row_keys(holdout, schema.learned), keys[counts == 1]).mean()
    if alone > MOSTLY and shared > MOSTLY:
        raise EvaluationError(
            "a holdout is held out, and most rows of this one are rows of train; pass the two parts that "
            "`understudy split` made"
        )


def shuffle_columns(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The table with every column permuted on its own: right in each column, wrong in every pair."""
    shuffled = {name: frame[name].take(rng.permutation(len(frame))).reset_index(drop=True) for name in frame.columns}
    return pd.DataFrame(shuffled)

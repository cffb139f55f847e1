"""Rows on condition: values that somebody wants in some columns, and the distribution of all others given them.

A value lies in a cell and a cell in a code. The model is conditioned on the code, and the column then holds the value
itself. Within a code, codes of all other columns are independent of the value, and so this is the model's own
conditional distribution over them. That holds for a bin, and for a category merged with others. Where two columns
determine each other, the one that is modeled is conditioned on. Free of any budget: a released model is all it reads.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.constraints import Formula
from synth.domain import Discretizer
from synth.domain.constraint_checks import canonical
from synth.domain.counted_form import to_counted
from synth.domain.discretizer import Attribute
from synth.errors import JobError, ModelError, nearest
from synth.generators.models.constraints import completed, draw_accepted, draw_lawful, with_dependents
from synth.marginals import Factor, LatentClasses, MarkovRandomField
from synth.marginals.markov_random_field import condition
from synth.marginals.sampling import round_counts
from synth.schema import Schema
from synth.table.arrow import as_objects
from synth.table.cast import cast
from synth.table.chunk import as_series
from synth.table.faults import BIT, Fault

GIVEN = "given"
"""Key in `attrs` of a table sampled on conditions: one of `WAYS`, the least exact that was taken for any row."""
WAYS = ("exact", "rejection", "direct", "weights", "merged")
"""Ways in which conditions are met, the most exact first."""
N_SHOWN = 8  # categories that a message lists at most


@dataclass(frozen=True)
class Conditions:
    """Conditions: the values of some columns of a synthetic table."""

    values: Mapping[str, pd.Series]
    evidence: Mapping[str, np.ndarray]
    asked: tuple[str, ...] = ()
    wanted: Mapping[str, pd.Series] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None, discretizer: Discretizer, schema: Schema) -> Self:
        """Conditions from values by column.

        A column that is modeled as what is left of others is conditioned on where all of these are given. Else rows
        that come to have another value are rejected.
        """
        attributes = {attribute.name: attribute for attribute in discretizer.attributes}
        asked: dict[str, pd.Series] = {}
        for name, value in (given or {}).items():
            if name not in schema.modeled and name not in schema.equivalents:
                raise JobError(_unknown(name, schema))
            column, read = _modeled(name, _read(name, value, schema), schema)
            if column in asked and not asked[column].equals(read):
                raise JobError(_no_rows(given or {}))
            asked[column] = read
        parents = {name: what.parents for name, what in schema.worked_out.items() if name in asked}
        wanted = {name: asked[name] for name, named in parents.items() if not {*named} <= asked.keys()}
        values: dict[str, pd.Series] = {n: each for n, each in asked.items() if n not in wanted}
        if len(parents) > len(wanted):
            counted = to_counted(pd.DataFrame(values), schema)
            values = {str(name): column for name, column in counted.items()}
        evidence = {name: _evidence(attributes[name], value) for name, value in values.items()}
        return cls(values, evidence, tuple(given or ()), wanted)

    def applied(
        self, distribution: MarkovRandomField | LatentClasses, zeros: Iterable[Factor] = ()
    ) -> MarkovRandomField | LatentClasses:
        """The distribution over codes, given the conditions."""
        evidence = self.ruled_out(zeros)
        try:
            if isinstance(distribution, LatentClasses):
                return distribution.condition(evidence)
            return condition(distribution, evidence)
        except ModelError:
            raise JobError(self.no_rows) from None

    def ruled_out(self, zeros: Iterable[Factor]) -> dict[str, np.ndarray]:
        """The evidence, and what structural zeros make of it where they leave at most one column open.

        No row that keeps the constraints is lost. A distribution that does not hold the zeros itself needs fewer
        rejections so, and shows before any is drawn that values do not go together.
        """
        ruled = dict(self.evidence)
        for zero in zeros:
            *known, last = sorted(zero.attributes, key=lambda name: name not in self.evidence)
            if self.evidence.keys() >= {*known}:
                order = [zero.attributes.index(name) for name in (*known, last)]
                is_open = np.isfinite(zero.log_values).transpose(order).astype(np.float64)
                for name in known:
                    is_open = np.tensordot(self.evidence[name], is_open, axes=1)
                ruled[last] = ruled.get(last, 1.0) * (is_open > 0)
        return ruled

    @property
    def no_rows(self) -> str:
        """The sentence for values that do not go together."""
        return _no_rows(self.asked)

    def fixed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The canonical rows with exactly the values asked for; the same object where nothing was."""
        if not self.values:
            return frame
        first = np.zeros(len(frame), dtype=np.intp)
        held = {name: value.take(first).set_axis(frame.index) for name, value in self.values.items()}
        columns = {name: held.get(name, frame[name]) for name in frame.columns}
        return pd.DataFrame(columns, index=frame.index, copy=False)


@dataclass(frozen=True)
class ConditionMixture:
    """Conditions by shares of the rows: those of a table that is balanced over the values of a column."""

    conditions: tuple[Conditions, ...]
    shares: tuple[float, ...]
    is_asked: bool
    schema: Schema

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any] | None,
        balance: Mapping[str, Mapping[Any, float] | None] | None,
        discretizer: Discretizer,
        schema: Schema,
    ) -> Self:
        """Conditions of every part of a table."""
        if not balance:
            return cls((Conditions.of(given, discretizer, schema),), (1.0,), bool(given), schema)
        if len(balance) > 1 or (given or {}).keys() & balance.keys():
            raise JobError(f"balance={sorted(balance)} must be one column that is not given; name one")
        ((name, shares),) = balance.items()
        asked = dict.fromkeys(_values(name, discretizer, schema), 1.0) if shares is None else dict(shares)
        weights = list(asked.values())
        if not asked or not all(0 <= weight < np.inf for weight in weights) or not sum(weights) > 0:
            raise JobError(f"balance={name!r} must give each value a share of at least 0, and some more; correct them")
        kept = [(value, weight) for value, weight in asked.items() if weight > 0]
        parts = tuple(Conditions.of({**(given or {}), name: value}, discretizer, schema) for value, _ in kept)
        return cls(parts, tuple(weight for _, weight in kept), is_asked=True, schema=schema)

    def lawful_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        draw: Callable[[int, Conditions], pd.DataFrame],
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Rows of all parts that keep the constraints. `draw`: so many rows on conditions, as they are counted."""

        def drawn(n: int, conditions: Conditions) -> pd.DataFrame:
            return conditions.fixed(with_dependents(conditions.fixed(draw(n, conditions)), self.schema))

        return draw_lawful(lambda n: self._mixed(n, rng, drawn), n_rows, self.schema, part)

    def _mixed(
        self, n_rows: int, rng: np.random.Generator, draw: Callable[[int, Conditions], pd.DataFrame]
    ) -> pd.DataFrame:
        """Rows of all parts in random order, as many of each as its share says, rounded at random."""
        if len(self.conditions) == 1:
            return self._wanted(n_rows, self.conditions[0], draw)
        counts = round_counts(np.array([self.shares]), np.array([n_rows]), rng)[0]
        parts = [self._wanted(int(n), each, draw) for n, each in zip(counts, self.conditions, strict=True) if n]
        return pd.concat(parts, ignore_index=True).take(rng.permutation(n_rows)).reset_index(drop=True)

    def _wanted(
        self, n_rows: int, conditions: Conditions, draw: Callable[[int, Conditions], pd.DataFrame]
    ) -> pd.DataFrame:  # fmt: skip
        """Rows on conditions; those whose computed columns have another value than is wanted are drawn again."""
        if not conditions.wanted:
            return draw(n_rows, conditions)

        def judge(drawn: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
            rows, unlawful = completed(drawn, self.schema)
            for name, value in conditions.wanted.items():
                is_missing = rows[name].isna().to_numpy()
                differs = (rows[name] != value[0]).fillna(value=True).to_numpy(dtype=bool)
                unlawful |= ~is_missing if value.isna()[0] else is_missing | differs
            return drawn, unlawful

        def refusal(*_: Any) -> JobError:
            parents = {p for name in conditions.wanted for p in self.schema.worked_out[name].parents}
            return JobError(
                f"given={sorted(conditions.wanted)} is worked out from other columns, and next to no row has what "
                f"is given; give {', '.join(sorted(parents))}, too"
            )

        return draw_accepted(lambda n: draw(n, conditions), judge, n_rows, refusal)


def _values(name: str, discretizer: Discretizer, schema: Schema) -> list[Any]:
    """The values that a balanced column has: its categories that the model holds."""
    attribute = next((each for each in discretizer.attributes if each.name == name and name in schema.columns), None)
    if attribute is None and name not in schema.equivalents:
        raise JobError(_unknown(name, schema).replace("given=", "balance="))
    if attribute is None or attribute.edges is not None:
        raise JobError(f"balance={name!r} is no modeled column of categories; give the share of each value")
    if (own := schema.columns[name]).modeled is not None:
        return list(own.tokens if own.is_boolean else own.levels)
    known: Sequence[Any] = attribute.column.levels
    held = [value for value, mass in zip(known, attribute.mass, strict=False) if mass > 0]
    if attribute.column.is_boolean:
        return [attribute.column.tokens[int(value)] for value in held]
    return held


def _no_rows(given: Collection[str]) -> str:
    """The sentence for values that do not go together."""
    return (
        f"the model has no rows that meet what is given: columns={sorted(given)}; give values that go together, or "
        "fewer of them"
    )


def _modeled(name: str, value: pd.Series, schema: Schema) -> tuple[str, pd.Series]:
    """The modeled column and its value, where a column that may be computed from it has the given value."""
    dependency = schema.equivalents.get(name)
    if dependency is None:
        return name, value
    by_value = dependency.inverse
    if value[0] not in by_value:
        raise JobError(f"given={name!r} has a value that is in no listed combination; give another")
    return dependency.determinant, canonical([by_value[value[0]]], schema.columns[dependency.determinant])


def _unknown(name: str, schema: Schema) -> str:
    """The reason that no condition can be on a column."""
    column = schema.columns.get(name)
    if column is None:
        return f"given={name!r} is not a column; {nearest(str(name), schema.modeled)}"
    if column.drop:
        return f"given={name!r} is dropped, and no model knows it; give a column that is kept"
    if not column.is_learned:
        return f"given={name!r} is of kind {column.kind}, which no model learns; give a learned column"
    formula = next(c for c in schema.constraints if isinstance(c, Formula) and c.column == name)
    return f"given={name!r} is computed by a formula; give its operands: {', '.join(formula.operands)}"


def _read(name: str, value: Any, schema: Schema) -> pd.Series:
    """The value as a canonical column of one row, as a table's reader would take it."""
    column = schema.columns[name]
    array, bits = cast(as_objects([value]), column, schema.missing_values, clamp=False)
    if bits[0] == BIT[Fault.MISSING]:
        raise JobError(f"given={name!r} is never missing, as its schema says; give a value")
    if bits[0]:
        raise JobError(f"given={name!r} must be {_allowed(column)}; give a value that its schema allows")
    return as_series(array, column)


def _allowed(column: Any) -> str:
    """The values that a column may hold, in words."""
    if column.is_boolean:
        return f"one of {list(column.tokens)}"
    if column.is_categorical:
        shown = ", ".join(map(repr, column.levels[:N_SHOWN]))
        more = len(column.levels) - N_SHOWN
        return f"one of its {len(column.levels)} categories ({shown}{f' and {more} more' if more > 0 else ''})"
    return f"of kind {column.kind} and within {column.bounds[0]} and {column.bounds[1]}"


def _evidence(attribute: Attribute, value: pd.Series) -> np.ndarray:
    """All weight on the code of the value; none on a code that no synthetic row has."""
    weights = np.zeros(attribute.size)
    weights[attribute.codes(value)] = 1.0
    weights[attribute.impossible] = 0.0
    return weights

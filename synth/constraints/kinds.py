"""Constraint kinds: what each of them says, its validation, and dependencies between columns that follow from them."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from synth.constraints.expression import BEFORE, Expression, Unit, names, needs, parse
from synth.errors import nearest
from synth.validation import Frozen, require_plain

Value = (
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True)]
    | Annotated[float, Field(strict=True)]
    | Annotated[str, Field(strict=True)]
)
"""A value of a combination: true or false, a number or a text."""


Columns = Mapping[str, Any]  # of a schema; this package comes before it
EXPRESSION = (
    "Sums, differences, products, quotients and functions of numbers and times; a name that is no plain word stands "
    "in backticks."
)
UNIT = "Unit in which times count in the expression: week, day, hour, minute or second."


class _Constraint(Frozen):
    proposed: str | None = Field(
        default=None, description="What speaks for a proposal of `schema infer`; a declared schema has none."
    )

    @property
    def looks_back(self) -> bool:
        """True if it is about a row and the row before it, of the same entity."""
        return False

    def check(self, columns: Columns) -> None:
        """Refuse columns, learned ones of the schema, that the constraint cannot be about."""

    @field_validator("columns", check_fields=False)
    @classmethod
    def _distinct(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) != len(columns):
            raise ValueError("columns repeat; name each once")
        return columns


class Expressed:
    """What its expression names, for a formula and for what a column is modeled as."""

    @property
    def parsed(self: Any) -> Any:
        """The expression as a tree; `None`: there is none."""
        return None if self.expression is None else parse(self.expression)

    @property
    def operands(self: Any) -> tuple[str, ...]:
        """The columns that it names, in the row itself or in the one before it, each once."""
        return () if self.parsed is None else operands_of(self.parsed)

    @property
    def parents(self: Any) -> tuple[str, ...]:
        """Those of them in the row itself."""
        return () if self.parsed is None else tuple(dict.fromkeys(names(self.parsed)))

    @property
    def looks_back(self: Any) -> bool:
        """True if the row before is needed."""
        return self.parsed is not None and any(names(self.parsed, before=True))


class Inequality(_Constraint):
    """One column is never above another: numbers, or times. It holds where either is missing.

    Beside a date, a time counts as its day.
    """

    kind: Literal["inequality"] = "inequality"
    low: str = Field(description="Column that holds the lower value.")
    high: str = Field(description="Column that holds the higher value.")
    strict: bool = Field(default=False, description="Whether the two are never equal either.")
    by_day: bool = Field(
        default=False,
        description="Compare the days of two times, where one column holds days as midnights; beside a date always so.",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.low, self.high

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.low == self.high:
            raise ValueError(f"low and high are one column={self.low!r}; name two")
        return self

    def check(self, columns: Columns) -> None:
        low, high = columns[self.low], columns[self.high]
        sides = (self.low, low), (self.high, high)
        for name, column in sides:
            if not column.is_line:
                raise ValueError(
                    f"column={name!r} is of kind {column.kind}, which has no order; name a number or a time"
                )
        both = f"columns {self.low!r} and {self.high!r} are a"
        if low.is_number != high.is_number:
            raise ValueError(f"{both} number and a time; compare like with like")
        # The day of a time in UTC is a day as a date is.
        is_day_beside_utc = {low.zone, high.zone} == {None, "UTC"} and (low.is_date or high.is_date)
        if (low.zone is None) != (high.zone is None) and not is_day_beside_utc:
            raise ValueError(
                f"{both} time with a zone and one without, which cannot be compared; declare timezone for both or for "
                "neither"
            )
        for name, column in sides if self.by_day else ():
            if column.is_number or column.zone not in (None, "UTC"):
                what = f"is of kind {column.kind}" if column.is_number else f"has timezone={column.zone!r}"
                raise ValueError(
                    f"by_day=true compares days of times by wall clock or in UTC: column={name!r} {what}; leave by_day "
                    "out, or declare another timezone"
                )

    def __str__(self) -> str:
        order = f"{self.low!r} is {'less than' if self.strict else 'at most'} {self.high!r}"
        return f"{order} by day" if self.by_day else order


class FixedCombinations(_Constraint):
    """Two or more columns take only values that are listed together. It holds where any of them is missing."""

    kind: Literal["fixed_combinations"] = "fixed_combinations"
    columns: tuple[str, ...] = Field(min_length=2, description="Categorical, boolean, integer or real columns.")
    combinations: tuple[tuple[Value, ...], ...] = Field(min_length=1, description="One value for each column, each.")

    @field_validator("combinations", mode="before")
    @classmethod
    def _plain(cls, combinations: Any) -> Any:
        for position, combination in enumerate(combinations if isinstance(combinations, list | tuple) else ()):
            if not isinstance(combination, list | tuple) or not all(
                isinstance(v, int | float | str) for v in combination
            ):
                raise ValueError(
                    f'combination {position} is no list of texts, numbers, true or false; write one such as ["a", 1]'
                )
            require_plain(f"combination {position}", combination)
        return combinations

    @model_validator(mode="after")
    def _one_value_each(self) -> Self:
        for position, combination in enumerate(self.combinations):
            if len(combination) != len(self.columns):
                raise ValueError(
                    f"combination {position} has {len(combination)} values for {len(self.columns)} columns; give each "
                    "column one"
                )
        typed = {tuple((type(value), value) for value in combination) for combination in self.combinations}
        if len(typed) != len(self.combinations):
            raise ValueError("combinations repeat; list each once")
        return self

    @cached_property
    def determined(self) -> Mapping[tuple[str, str], Mapping[Value, Value]]:
        """Values of one column by those of another that determines it, by the names (determining, determined).

        Reals determine nothing: what is drawn of them is not among those listed.
        """
        result: dict[tuple[str, str], Mapping[Value, Value]] = {}
        by_column = dict(zip(self.columns, zip(*self.combinations, strict=True), strict=True))
        for pair in itertools.permutations(self.columns, 2):
            together = set(zip(by_column[pair[0]], by_column[pair[1]], strict=True))
            values = dict(together)
            if len(values) == len(together) and not any(isinstance(value, float) for value in values):
                result[pair] = values
        return result

    def check(self, columns: Columns) -> None:
        for name, values in zip(self.columns, zip(*self.combinations, strict=True), strict=True):
            column = columns[name]
            is_real = column.is_number and not column.is_whole
            if not (column.is_categorical or (column.is_number and not column.is_weight)):
                raise ValueError(
                    f"column={name!r} is of kind {column.kind}; combinations are of categorical, boolean, integer or "
                    "real columns"
                )
            if is_real and not any(told == name for _, told in self.determined):
                raise ValueError(
                    f"column={name!r} is of kind {column.kind}, and no other column says which of its values it has; "
                    "name one that does, or leave the constraint out"
                )
            if column.is_measured:
                raise ValueError(
                    f"column={name!r} is to be measured, while its combinations name its values as public; leave out "
                    "measure = true, or the constraint"
                )
            how = " (a real has a point, as in 1.0)" if is_real else ""
            for position, value in enumerate(values):
                if not column.allows(value):
                    raise ValueError(
                        f"combination {position} has {value!r}, which column={name!r} cannot hold; correct the "
                        f"combination{how}, or the column's declaration"
                    )

    def __str__(self) -> str:
        together = " and ".join(map(repr, self.columns))
        return f"{together} take one of {len(self.combinations)} listed combinations"


class Formula(Expressed, _Constraint):
    """A column is computed from others: it is rounded to its own precision, and missing where an operand is missing."""

    kind: Literal["formula"] = "formula"
    column: str = Field(description="Number or time that is computed, never learned.")
    expression: str = Field(description=EXPRESSION)
    unit: Unit | None = Field(default=None, description=UNIT)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.column, *self.operands)))

    @field_validator("expression")
    @classmethod
    def _readable(cls, expression: str) -> str:
        if not operands_of(parse(expression)):
            raise ValueError(f"expression={expression!r} names no column; a constant needs no formula, but bounds")
        return expression

    def check(self, columns: Columns) -> None:
        check_operands(self.columns, self.unit, columns)
        column = columns[self.column]
        if f"{BEFORE}()" in needs(self.parsed) and not column.missing:
            raise ValueError(
                f"column={self.column!r} is computed from the row before, and the first row of an entity has none; "
                "set missing = true, or write either(before(...), ...)"
            )
        if column.is_measured or column.measures_spikes:
            remedy = "declare its bounds" if column.is_measured else "leave out measure_spikes = true"
            raise ValueError(f"column={self.column!r} is computed, and what is computed is not measured; {remedy}")

    def __str__(self) -> str:
        return f"{self.column!r} is {self.expression}"


def operands_of(expression: Expression) -> tuple[str, ...]:
    """The columns that an expression names, in the row or the one before it, each once."""
    return tuple(dict.fromkeys((*names(expression), *names(expression, before=True))))


class Unique(_Constraint):
    """No two rows hold the same values in one or more columns. Rows where any of them is missing are not compared."""

    kind: Literal["unique"] = "unique"
    columns: tuple[str, ...] = Field(min_length=1, description="Columns whose values together never repeat.")

    def __str__(self) -> str:
        together = " and ".join(map(repr, self.columns))
        return f"{together} never {'repeats' if len(self.columns) == 1 else 'repeat together'}"


class Steps(_Constraint):
    """What never follows a category in the next row of the same entity. It holds where either is missing."""

    kind: Literal["steps"] = "steps"
    column: str = Field(description="Categorical column.")
    never: tuple[tuple[Value, Value], ...] = Field(
        default=(), description="Pairs of a value and one that never follows it in the next row."
    )
    stays: tuple[Value, ...] = Field(default=(), description="Values that no other follows.")
    last: tuple[Value, ...] = Field(default=(), description="Values that no row follows.")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def looks_back(self) -> bool:
        return True

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.never or self.stays or self.last):
            raise ValueError("steps rule nothing out; name some in never, stays or last")
        return self

    def allowed(self, levels: Sequence[Value]) -> list[tuple[Value, Value]]:
        """Pairs of a value and one that may follow it."""
        ruled_out = {*self.never, *((before, now) for before in self.last for now in levels)}
        ruled_out |= {(before, now) for before in self.stays for now in levels if before != now}
        return [step for step in itertools.product(levels, levels) if step not in ruled_out]

    def check(self, columns: Columns) -> None:
        column, what = columns[self.column], f"column={self.column!r}"
        if not column.is_categorical or column.is_boolean or column.is_measured or column.modeled is not None:
            raise ValueError(
                f"steps are of categories that are declared: {what} is of kind {column.kind}, measured or modeled; "
                "leave them out"
            )
        if not {*itertools.chain(*self.never), *self.stays, *self.last} <= {*column.levels}:
            raise ValueError(f"steps name a value that is no category of {what}; correct it")
        if not self.allowed(column.levels):
            raise ValueError(f"steps of {what} let no row follow another; allow a pair of values")

    def __str__(self) -> str:
        return f"{self.column!r} takes no step that is ruled out"


Constraint = Annotated[Inequality | FixedCombinations | Formula | Unique | Steps, Field(discriminator="kind")]


def check(constraints: Sequence[Constraint], columns: Columns) -> None:
    computed = set[str]()
    for position, constraint in enumerate(constraints):
        try:
            for name in constraint.columns:
                _check_name(name, constraint, columns)
            constraint.check(columns)
        except ValueError as error:
            raise ValueError(f"constraints.{position}: {error}") from None
        if isinstance(constraint, Formula):
            if constraint.column in computed:
                raise ValueError(f"column={constraint.column!r} has two formulas; keep one")
            computed.add(constraint.column)


def _check_name(name: str, constraint: Constraint, columns: Columns) -> None:
    if name not in columns:
        raise ValueError(f"{name!r} is not a column; {nearest(name, columns)}")
    column = columns[name]
    if column.drop:
        raise ValueError(f"column={name!r} is dropped; keep the column, or leave the constraint out")
    if not column.is_learned and not (isinstance(constraint, Unique) and column.is_identifier):
        raise ValueError(f"column={name!r} is of kind {column.kind}, which is made anew; name another")


def in_order(parents: Mapping[str, Collection[str]]) -> list[str]:
    """Columns, each after those among them that it is worked out from."""
    waiting, placed = dict(parents), list[str]()
    while waiting:
        ready = [name for name in waiting if waiting.keys().isdisjoint(waiting[name])]
        if not ready:
            circle = ", ".join(map(repr, waiting))
            raise ValueError(f"formulas need each other in a circle: columns {circle}; take one of them out")
        placed += ready
        waiting = {name: named for name, named in waiting.items() if name not in ready}
    return placed


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip


def numbers_of(levels: Sequence[Any]) -> dict[Any, float] | None:
    """The numbers that categories stand for: whole numbers, or months by their English names; `None`: they do not.

    >>> numbers_of(("Jan", "March", "12"))
    {'Jan': 1.0, 'March': 3.0, '12': 12.0}
    """
    numbers: dict[Any, float] = {}
    for level in levels:
        text = str(level).strip().lower()
        months = [at for at, month in enumerate(_MONTHS, 1) if text in (month, month[:3])]
        if isinstance(level, bool) or not (months or text.isdecimal()):
            return None
        numbers[level] = float(months[0] if months else int(text))
    return numbers or None


def check_operands(named: Sequence[str], unit: Unit | None, columns: Columns) -> None:
    """Refuse an expression about columns that are neither numbers nor times, or about times without a unit.
    `named`: the column that it gives first.
    """
    for name in named:
        if not columns[name].is_line and (name == named[0] or numbers_of(columns[name].levels) is None):
            raise ValueError(
                f"column={name!r} is of kind {columns[name].kind}; a formula is about integer, real and weight "
                "columns, dates and times"
            )
        if columns[name].is_time and unit is None:
            raise ValueError(f'column={name!r} is a time, which counts in a unit; add one, such as unit = "day"')


@dataclass(frozen=True)
class Dependency:
    """One column determines another."""

    determinant: str
    dependent: str
    mapping: Mapping[Value, Value]

    @property
    def inverse(self) -> Mapping[Value, Value]:
        """The value of the determinant by that of the dependent, where the two determine each other."""
        return {dependent: determinant for determinant, dependent in self.mapping.items()}


def equivalents(
    constraints: Sequence[Constraint], columns: Mapping[str, Any], first: Sequence[str], constant: Sequence[str]
) -> dict[str, Dependency]:
    """Columns that another determines and is determined by, over any number of lists: a model need not hold them.

    A column that may be missing, or that a formula computes, is held. Each determinant is held itself.
    """
    computed = {constraint.column for constraint in constraints if isinstance(constraint, Formula)}
    links, stated = dict[str, list[Dependency]](), list(_listed(constraints))
    determinants = {each.determinant for each in stated}
    for each in stated:
        names = {each.determinant, each.dependent}
        if each.dependent in first and each.dependent not in determinants:
            continue  # a real, which determines nothing, but has to be held
        is_open = names.isdisjoint(computed) and not any(columns[name].missing for name in names)
        if is_open and len(names & set(constant)) != 1 and len(set(each.mapping.values())) == len(each.mapping):
            links.setdefault(each.determinant, []).append(each)

    def rank(name: str) -> tuple[int, bool, bool]:
        """Lowest for the column that is best held: one that matters, else one with an order, else one with levels."""
        column = columns[name]
        return first.index(name) if name in first else len(first), not column.is_ordered, not column.is_categorical

    dependents: dict[str, Dependency] = {}
    for determinant in sorted(links, key=rank):
        if determinant not in dependents:
            dependents |= _reached(determinant, links)
    return dependents


def dependencies(constraints: Sequence[Constraint], computed: Mapping[str, Dependency]) -> list[Dependency]:
    """Dependencies between columns that a model holds, each after those that its determinant depends on.

    Of two columns that determine each other, the first that is listed determines.
    """
    waiting: dict[tuple[str, str], Dependency] = {}
    for each in _listed(constraints):
        rule = each  # between the columns that are held in place of these two
        if rule.determinant in computed:
            rule = _composed(computed[rule.determinant], rule)
        if rule.dependent in computed:
            back = computed[rule.dependent]
            rule = _composed(rule, Dependency(back.dependent, back.determinant, back.inverse))
        if rule.determinant != rule.dependent and (rule.dependent, rule.determinant) not in waiting:
            waiting.setdefault((rule.determinant, rule.dependent), rule)
    placed = []
    while waiting:
        unknown = {dependent for _, dependent in waiting}
        names = next((names for names in waiting if names[0] not in unknown), next(iter(waiting)))
        placed.append(waiting.pop(names))
    return placed


def combinations_of_held(
    constraint: FixedCombinations, computed: Mapping[str, Dependency]
) -> tuple[tuple[str, ...], set[tuple[Value, ...]]]:
    """The columns that a model holds of a constraint, and its possible combinations; computed ones are replaced."""
    replaced = [computed[name].determinant if name in computed else name for name in constraint.columns]
    names = tuple(dict.fromkeys(replaced))
    inverse = {name: computed[name].inverse for name in constraint.columns if name in computed}
    kept = set()
    for combination in constraint.combinations:
        row: dict[str, set[Value | None]] = {name: set() for name in names}
        for name, determinant, value in zip(constraint.columns, replaced, combination, strict=True):
            row[determinant].add(inverse[name].get(value) if name in inverse else value)
        values = [next(iter(known)) for known in row.values() if len(known) == 1]
        if len(values) == len(names) and None not in values:
            kept.add(tuple(value for value in values if value is not None))
    return names, kept


def _listed(constraints: Sequence[Constraint]) -> Iterator[Dependency]:
    """Every dependency that a constraint states, in their order."""
    for constraint in constraints:
        if isinstance(constraint, FixedCombinations):
            for names, mapping in constraint.determined.items():
                yield Dependency(*names, mapping)


def _reached(determinant: str, links: Mapping[str, Sequence[Dependency]]) -> dict[str, Dependency]:
    """Columns that a column determines along links that hold both ways."""
    ends: dict[str, Dependency] = {}
    waiting = list(links[determinant])
    while waiting:
        each = waiting.pop(0)
        if each.dependent != determinant and each.dependent not in ends:
            ends[each.dependent] = each
            waiting += [_composed(each, further) for further in links.get(each.dependent, ())]
    return ends


def _composed(first: Dependency, second: Dependency) -> Dependency:
    """The first's determinant determines the second's dependent, wherever both say so."""
    mapping = {value: second.mapping[middle] for value, middle in first.mapping.items() if middle in second.mapping}
    return Dependency(first.determinant, second.dependent, mapping)

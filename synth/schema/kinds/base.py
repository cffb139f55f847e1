"""What all kinds of columns have in common: their public fields, and what the rest of the product asks of a column.

A kind is a class with its fields, and its own answers to these questions. Nobody else asks for that class.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from synth.schema.kinds.modeled import Modeled
from synth.validation import Frozen, refuse, require_plain

if TYPE_CHECKING:
    import pandas as pd

TaskKind = Literal["classification", "regression"]  # of the models that predict a target
NOT_READ_OFF = "public knowledge, not read off this table"
NEARLY_ALL = 0.9  # share of the values on a step from which on every cell of a grid holds one of its multiples
_READ_OFF = frozenset({
    "bounds", "bins", "scale", "steps", "step_shares", "spikes", "below", "above", "categories", "ordered", "modeled",
    "every",
})  # fmt: skip
"""Fields of a proposed column that were read off the values of a table."""
_FORM = ("format", "tokens", "timezone", "part", "unique", "length")  # as values are written: public, measured or not
MOST_BESIDE = 50
BELOW = "Texts and values below the bounds, ascending, each a value of its own: nothing lies between."
ABOVE = "The same above the bounds, such as 9999-12-31 for what has no end."


class Part(Frozen):
    """One of several values that a table writes in one cell."""

    column: str = Field(description="Name of the column that holds the cells.")
    form: str = Field(description="A cell, `{}` for each value: `{}/{}`.")
    place: int = Field(ge=0, description="Which of the values it is, from 0.")

    @model_validator(mode="after")
    def _in_form(self) -> Self:
        if {*self.form.replace("{}", "")} & {*"{}"} or self.place >= self.form.count("{}"):
            raise ValueError(
                "form has {} for each value, of which place is one from 0 on, and no other brace; correct it"
            )
        return self

    def read(self, cell: str) -> str:
        """The text of the value, the whole cell where it is not of the form."""
        first, *between, last = self.form.split("{}")
        start, end, values = len(first), len(cell) - len(last), list[str]()
        if start > end or not (cell.startswith(first) and cell.endswith(last)):
            return cell
        for literal in between:  # one pass: a pattern would try every way to share out a long cell
            position = cell.find(literal, start, end)
            if position < 0:
                return cell
            values.append(cell[start:position])
            start = position + len(literal)
        return [*values, cell[start:end]][self.place]


class AnyColumn(Frozen):
    """The fields of every column, and answers that most kinds share."""

    is_learned: ClassVar[bool] = True  # by generators; else it is left out, written anew, or free text
    is_categorical: ClassVar[bool] = False  # one of `levels`
    is_boolean: ClassVar[bool] = False
    is_line: ClassVar[bool] = False  # a number or a time: values have positions on a line of float64
    is_number: ClassVar[bool] = False
    is_whole: ClassVar[bool] = False  # a number that int64 holds
    is_weight: ClassVar[bool] = False  # of rows in a survey: it predicts nothing
    is_time: ClassVar[bool] = False
    is_date: ClassVar[bool] = False  # a time whose positions are days; those of others are microseconds
    rhythm: ClassVar[Any] = None  # what dates are the first, or the last, days of
    ticks: ClassVar[Any] = None  # the positions of these days
    is_span: ClassVar[bool] = False  # a number that counts `micros` microseconds: a duration, or a time of day
    is_identifier: ClassVar[bool] = False
    is_personal: ClassVar[bool] = False
    is_text: ClassVar[bool] = False
    reads_digits: ClassVar[bool] = False  # numbers are read, and written, as the digits of a text: days as 20201105
    has_own_texts: ClassVar[bool] = False  # cells are texts that only `parse` reads and `write` writes
    shows_texts: ClassVar[bool] = False  # a DataFrame holds texts, though values lie on a line
    domain: ClassVar[str | None] = None  # the field that a private fit can measure
    tasks: ClassVar[tuple[TaskKind, ...]] = ()  # of models that predict it
    is_measured: ClassVar[bool] = False  # bounds or categories are not declared but to be measured
    measures_spikes: ClassVar[bool] = False  # frequent values are not declared but to be measured
    is_ordered: ClassVar[bool] = False  # categories whose order means something
    holds_whole_numbers: ClassVar[bool] = False  # as categories or identifiers, rather than texts
    levels: ClassVar[tuple[Any, ...]] = ()  # all values of a categorical column, in order
    spellings: ClassVar[tuple[Any, ...]] = ()  # texts of a file that stand for a value each, as far as listed
    zone: ClassVar[str | None] = None  # of times; "mixed": each value has its own offset
    domain_words: ClassVar[str] = ""  # bounds, number of categories, template or form
    noun: ClassVar[str] = ""  # one value, in words

    missing: bool = Field(default=False, description="Whether a value may be missing.")
    drop: bool = Field(default=False, description="Leave the column out: it is neither learned nor written.")
    part: Part | None = Field(default=None, description="Where a cell of the table holds several values: which it is.")
    dtype: str | None = Field(default=None, description="pandas dtype of the column in a DataFrame or Parquet file.")
    modeled: Modeled | None = Field(default=None, description="What is learned in place of the column's own value.")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A field that not all kinds have: whoever asks knows by the questions above that it is there."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        refuse(self.rules())
        return self

    def rules(self) -> Iterator[tuple[object, str]]:
        """What is broken in the fields, and the sentence on it; each is asked where all before it are kept."""
        yield from ()

    @classmethod
    def propose(cls, about: Any) -> Any:
        """A column of this kind if the facts speak for it, else `None`; the kinds that ship are told apart by `infer`.
        `about`: *Sensitive*. The `synth.infer.facts.ColumnFacts` of a column.
        """
        return None

    def parse(self, text: str) -> Any:
        """The number that a text stands for, `None` if it is not of the form; where `has_own_texts`."""
        raise NotImplementedError

    def write(self, value: Any) -> str:
        """The text of a number; where `has_own_texts`."""
        raise NotImplementedError

    def typed(self, series: Any) -> Any:
        """A canonical column as values that its dtype holds, or is made of; `None`: as they are, or as texts."""
        return None

    def order_keys(self, series: Any) -> np.ndarray:
        """Numbers in the order of the values of a canonical column: positions, or codes of categories; shape (n,)."""
        codes = {level: code for code, level in enumerate(self.levels)}
        return np.array([codes.get(value, np.nan) for value in series], dtype=np.float64)

    @property
    def is_quantity(self) -> bool:
        """True of numbers and times but survey weights: their values follow each other."""
        return self.is_line and not self.is_weight

    @property
    def is_replaced(self) -> bool:
        """True if values are written anew, of the same form, and nothing of the real ones is kept."""
        return self.is_identifier or self.is_personal

    def allows(self, value: Any) -> bool:
        """True if a listed combination may hold the value."""
        return False

    def asserted(self) -> str:
        """What a declaration of the column asserts to be public."""
        if self.drop:
            return "the column is left out: it is neither learned nor written, and nothing is asserted but its name"
        if self.modeled is not None:
            rest = self.model_copy(update={"modeled": None}).asserted()
            return f"{rest}; it is learned as {self.modeled}, and this is {NOT_READ_OFF}"
        if self.measures_spikes:
            rest = self.model_copy(update={"measure_spikes": False}).asserted()
            return f"{rest}; frequent values are not asserted: a private fit measures them under its budget"
        told = self.model_dump(exclude_defaults=True, include={*_FORM})
        forms = ", ".join(f"{name}={value!r}" for name, value in told.items())
        how = f"; {forms}: how it is written is public, too" if forms else ""
        return self._asserted("may be missing" if self.missing else "never missing") + how

    def _asserted(self, often: str) -> str:
        raise NotImplementedError

    def read_off(self) -> list[tuple[str, str]]:
        """Parts that may have been read off the values of a table, and what each may tell."""
        return []


class MeasurableColumn(AnyColumn):
    """A column whose domain need not be public: where it is not, a private fit measures it and pays for it."""

    domain: ClassVar[str] = "bounds"
    measure: bool = Field(
        default=False, description="The domain is not public: a private fit measures it under its budget."
    )

    @model_validator(mode="before")
    @classmethod
    def _domain(cls, content: Any) -> Any:
        if not isinstance(content, Mapping) or content.get("measure") is not True:
            return content
        for key in ("bins", "spikes", "below", "above"):
            if content.get(key):
                raise ValueError(f"a column to measure has no {key}, which would be public; leave out one of the two")
        return {cls.domain: cls.widest(content), **content}

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[Any, ...]:
        """The domain of a column of which only its other keys are public: a dtype, a precision, a time zone."""
        raise NotImplementedError

    @property
    def is_measured(self) -> bool:
        return self.measure

    @property
    def says_nothing(self) -> bool:
        """True if the domain is to be measured, and nothing narrows it."""
        return self.measure and tuple(getattr(self, self.domain)) == self.widest(dict(self))

    def to_measure(self) -> dict[str, Any]:
        """The fields without what was read off a table; one that is measured already keeps its outer limits."""
        if self.measure:
            return dict(self)
        return {key: value for key, value in dict(self).items() if key not in _READ_OFF} | {"measure": True}

    def _asserted(self, often: str) -> str:
        if not self.measure:
            return self._asserted_domain(often)
        what = self.noun if self.says_nothing else range_words(self.noun, self.bounds)
        return (
            f"{self.domain} are not asserted: a private fit measures them under its budget; public is only that every "
            f"value is {what}, {often}"
        )

    def _asserted_domain(self, often: str) -> str:
        raise NotImplementedError


class LineColumn(MeasurableColumn):
    """A number or a time: its values have positions on one line of float64."""

    is_line: ClassVar[bool] = True
    ladder: ClassVar[tuple[tuple[float, float], ...]] = ()  # steps, each with its share, coarsest first
    tasks: ClassVar[tuple[TaskKind, ...]] = ("regression",)
    below: tuple[Any, ...] = Field(default=(), max_length=MOST_BESIDE, description=BELOW)
    above: tuple[Any, ...] = Field(default=(), max_length=MOST_BESIDE, description=ABOVE)

    def rules(self) -> Iterator[tuple[object, str]]:
        yield self.bounds[0] > self.bounds[1], f"bounds={list(self.bounds)} are reversed; write the lower one first"
        if not self.below and not self.above:
            return
        listed = (*self.below, *self.above)
        require_plain("below and above", listed)
        alike = "" in listed or len(set(listed)) < len(listed)
        yield alike, "below and above name each value once, and no empty text; leave out the others"
        line = [self.position(known) for _, known in self.beside.values()]
        n_below, (low, high) = len(self.below), self.span
        ladder = [*line[:n_below][::-1], low, high, *line[n_below:]]
        yield (
            any(a >= b for a, b in itertools.pairwise(ladder) if (a, b) != (low, high)),
            f"below={list(self.below)} and above={list(self.above)} must ascend, and lie beyond "
            f"bounds={list(self.bounds)}; move the bounds, or leave out what lies between them",
        )

    @property
    def unit(self) -> float | None:
        """Distance between neighboring positions that the column can hold; `None` for a continuous one."""
        raise NotImplementedError

    @property
    def spacing(self) -> float | None:
        """Distance between nearly all values: the coarsest step that so many keep, else that between any two values."""
        return next((size for size, share in self.ladder if share >= NEARLY_ALL), self.unit)

    @property
    def span(self) -> tuple[float, float]:
        low, high = self.bounds
        return self.position(low), self.position(high)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest position that there may be: of the bounds, or of the values beside them."""
        places = [*self.span, *(position for position, _ in self.beside.values())]
        return min(places), max(places)

    @property
    def beside(self) -> dict[Any, tuple[float, Any]]:
        """For each value of `below` and `above`, outward, its position and its canonical value.

        Positions follow the bounds without a gap. A text is, canonically, the next value outward.
        """
        places = dict[Any, tuple[float, Any]]()
        for values, start, sign in ((self.below[::-1], 0, -1), (self.above, 1, 1)) if self.below or self.above else ():
            position = line = self.span[start]
            for value in values:
                position, line = self._next(position, sign), self._next(line, sign)
                line = line if isinstance(value, str) else self.position(value)
                places[value] = position, self.value_at(line)
        return places

    def _next(self, position: float, sign: int) -> float:
        if self.unit is None:
            return float(np.nextafter(position, sign * np.inf))
        return self.position(self.value_at(position + sign * self.unit))

    @property
    def shows_texts(self) -> bool:
        return self.has_own_texts or bool(self.own_texts)

    @property
    def own_texts(self) -> dict[str, Any]:
        """The canonical value of each text beside the line."""
        return {value: known for value, (_, known) in self.beside.items() if isinstance(value, str)}

    def is_beside(self, series: Any) -> np.ndarray:
        """Flags of the values of a canonical column that are beside the line; shape (n,)."""
        known = [self.position(known) for _, known in self.beside.values()]
        return np.isin(self.line(series), known) if known else np.zeros(len(series), dtype=bool)

    def positions(self, series: Any) -> np.ndarray:
        """The position of each value of a canonical column, without gaps; shape (n,), NaN where missing."""
        line = self.line(series)
        moved = [(line == self.position(known), position) for position, known in self.beside.values()]
        for at, position in moved:
            line[at] = position
        return line

    def ordinary(self, series: Any) -> np.ndarray:
        """The same, NaN beside the line, too: what formulas compute with and inequalities compare."""
        line = self.line(series)
        return np.where(self.is_beside(series), np.nan, line) if self.beside else line

    def line(self, series: Any) -> np.ndarray:
        """The position of each value where it truly is; shape (n,), NaN where missing."""
        raise NotImplementedError

    def canonical(self, value: Any) -> Any:
        """A value as bounds hold it, as a canonical column holds it."""
        return value

    def put_beside(self, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Values within the bounds, those whose drawn position is beside them as the values there; shape (n,)."""
        for position, known in self.beside.values():
            values[counts == (position if self.unit is None else round(position / self.unit))] = known
        return values

    def order_keys(self, series: Any) -> np.ndarray:
        return self.positions(series)

    def position(self, value: Any) -> float:
        """The position of one declared value: a bound, an edge."""
        raise NotImplementedError

    def value_at(self, position: float) -> Any:
        """The value at a position, as bounds hold it: what `position` inverts."""
        raise NotImplementedError

    def plain(self, value: Any) -> Any:
        """A value of a canonical column, as bounds hold it."""
        raise NotImplementedError

    def between(self, first: float, last: float) -> tuple[Any, Any]:
        """Bounds that hold the half-open [first, last) on the line, within the column's own."""
        raise NotImplementedError

    def values(self, counts: np.ndarray, missing: np.ndarray) -> "pd.Series":
        """Drawn positions as a canonical column.
        `counts`: of `unit` where there is one, else positions, shape (n,).
        `missing`: true where the value is missing, shape (n,).
        """
        raise NotImplementedError

    def show(self, count: int) -> str:
        """The text of so many units, for labels."""
        raise NotImplementedError

    @property
    def domain_words(self) -> str:
        return " to ".join(end.isoformat() if hasattr(end, "isoformat") else str(end) for end in self.bounds)

    @property
    def limit_words(self) -> list[str]:
        """What is public of the values, in words."""
        every = [f"that days are of one kind ({each})"] if (each := getattr(self, "every", None)) else []
        return ["these limits"] + ["bins"] * bool(getattr(self, "bins", ())) + every

    def _asserted_domain(self, often: str) -> str:
        *first, last = self.limit_words
        limits = f"{', '.join(first)} and {last}" if first else last
        beside = ", ".join(map(str, (*self.below, *self.above)))
        value = range_words(self.noun, self.bounds) + (f" or, apart from these, one of: {beside}" if beside else "")
        return f"every value is {value}, {often}, and {limits} are {NOT_READ_OFF}"

    def read_off(self) -> list[tuple[str, str]]:
        told = ("the values below and above the bounds", "the rarest may be one unit's own")
        return [("the bounds", "each may be one unit's own")] + [told] * bool(self.below or self.above)


def range_words(noun: str, bounds: tuple[Any, Any]) -> str:
    return f"{noun} from {bounds[0]} to {bounds[1]}"

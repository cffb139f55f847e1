"""Personal data that synthetic texts repeat: e-mail addresses, long numbers and full names of one training person.

Looked for is what one unit of the training table alone has, in its texts or in its columns of personal data, and no
held-out unit. Numbers are compared by their digits, addresses and names without case and signs. Telephone numbers, card
numbers and accounts are numbers of at least `LEAST_DIGITS` digits, whatever stands between them.

Chance repeats numbers, too, where every text has one. How often it does follows from their digits, each at its place as
the real numbers have it (`by_digits`), and of names from how frequent first and last names are. Values that two real
units share say the same of what anybody may write (`by_twins`; Good 1953). Values of a kind count where there are more
of them than both explain (`evaluate.privacy.pii.too_many`).

Source: Good 1953, "The population frequencies of species and the estimation of population parameters".
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from evaluate.free_text.corpus import ngrams, words
from evaluate.privacy.pii import N_PHONE, likeness, too_many
from evaluate.privacy.texts.listed import sentence_around
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.personal.formats import CARD_DIGITS, as_text, is_iban
from synth.schema import Schema

LEAST_DIGITS = 7  # Digits of a number that may point to one person
SHARED = -1  # Stands for the owner of a value that several units have
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NUMBER = re.compile(r"\+?\(?\d(?:[ ()/.-]{0,2}\d){6,}")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_NUMBERS = ("phone", "card_number", "account_number", "national_id", "iban")

Value = tuple[str, str]
"""Kind, and what values of the kind are compared by: `email`, `name`, or `number` with the count of its digits."""


def values_in(text: str) -> Iterator[tuple[Value, int]]:
    """E-mail addresses and long numbers of a text, each with the place where it begins.

    >>> [value for value, _ in values_in("Write to Ann@example.org or call (617) 555-0143.")]
    [('email', 'annexampleorg'), ('number 10', '6175550143')]
    """
    for found in _EMAIL.finditer(text):
        yield ("email", likeness(found[0], "email")), found.start()
    at: set[int] = set()
    for found in filter(lambda one: is_iban(one[0]), _IBAN.finditer(text)):
        at.update(range(*found.span()))
        yield ("iban", likeness(found[0], "iban")), found.start()
    for found in _NUMBER.finditer(text):
        if found.start() not in at:
            yield from ((value, found.start()) for value in number_of(found[0]))


def number_of(text: str) -> tuple[Value, ...]:
    """A long number by its digits; nothing where it has too few.

    >>> number_of("+1 617 555 0143"), number_of("555-014")
    ((('number 10', '6175550143'),), ())
    """
    digits = "".join(character for character in text if character.isdecimal() and character.isascii())
    if len(digits) < LEAST_DIGITS:
        return ()
    if len(digits) < CARD_DIGITS[0]:  # a telephone number, with the code of its country or without
        digits = digits[-N_PHONE:]
    return ((f"number {len(digits)}", digits),)


@dataclass(frozen=True)
class PersonalFound:
    share: float
    held_out: float
    n: int
    note: str
    sentences: tuple[tuple[int, int, str], ...]  # column, row and sentence of each such text; *Sensitive*


@dataclass(frozen=True)
class ValueOwners:
    """*Sensitive*. Whose each personal value is."""

    owners: Mapping[Value, int]
    twins: Mapping[str, int]
    pairs: Mapping[str, int]
    n_train: int

    @classmethod
    def of(cls, tables: Tables) -> "ValueOwners":
        """The values of all real rows, collected once for all synthetic tables."""
        return tables.kept_of_real.once("personal values of texts", lambda: cls._collected(tables))

    @classmethod
    def _collected(cls, tables: Tables) -> "ValueOwners":
        held: dict[Value, set[int]] = defaultdict(set)
        n_train = 0
        for side in (tables.train, tables.holdout):
            owners = entity_codes(side, tables.schema)
            for row, value in _of_rows(side, tables.schema):
                held[value].add(int(owners[row]) + n_train)
            n_train = n_train or int(owners.max(initial=-1)) + 1
        twins, pairs = Counter(kind for (kind, _), of in held.items() if len(of) == 2), Counter[str]()
        for (kind, _), of in held.items():
            pairs[kind] += len(of)
        return cls({v: next(iter(of)) if len(of) == 1 else SHARED for v, of in held.items()}, twins, pairs, n_train)

    def of_one(self, *, in_train: bool) -> frozenset[Value]:
        """Values that one unit alone has, of train or of the holdout."""
        return frozenset(
            v for v, owner in self.owners.items() if owner != SHARED and (owner < self.n_train) is in_train
        )

    def by_digits(self, kind: str, of: Iterable[Value]) -> float:
        """The chance that one honest number of a kind is one of some real ones, by its digits at their places. `of`:
        *Sensitive*. The real ones.
        """
        numbers = [value for of_kind, value in self.owners if of_kind == kind]
        counts = [Counter(place) for place in zip(*numbers, strict=True)]
        chance = 0.0
        for _, value in of:
            likely = 1.0
            for digit, count in zip(value, counts, strict=True):
                likely *= (count[digit] + 1) / (len(numbers) + 10)
            chance += likely
        return chance

    def by_names(self, of: Iterable[Value]) -> float:
        """The same of names, by how frequent their first and their last words are among the real ones."""
        names = [value.split(" ") for kind, value in self.owners if kind == "name"]
        first, last = Counter(name[0] for name in names), Counter(name[-1] for name in names)
        parts = (value.split(" ") for _, value in of)
        return sum(first[part[0]] * last[part[-1]] for part in parts) / max(len(names), 1) ** 2

    def by_chance(self, kind: str, n: int, of: frozenset[Value]) -> float:
        """Different values of one unit alone that so many honest ones of a kind repeat. `of`: *Sensitive*. All values
        of one training unit alone.
        """
        there = [value for value in of if value[0] == kind]
        chance = self.by_names(there) if kind == "name" else 0.0
        chance = self.by_digits(kind, there) if kind.startswith("number") else chance
        twins = 2 * self.twins.get(kind, 0) / max(self.pairs.get(kind, 0), 1)
        return n * (chance + twins * len(there) / max(self.pairs.get(kind, 0), 1))


@dataclass(frozen=True)
class NameWords:
    """*Sensitive*. First and last words of real names, and how many words these have."""

    first: frozenset[str]
    last: frozenset[str]
    sizes: frozenset[int]

    @classmethod
    def of(cls, names: Iterable[str]) -> "NameWords":
        """Of full names, their words with spaces between them."""
        split = [name.split(" ") for name in names]
        first, last = (frozenset(name[place] for name in split) for place in (0, -1))
        return cls(first, last, frozenset(map(len, split)))

    def found_in(self, text: str) -> Iterator[tuple[Value, int]]:
        """Names in a text, real ones and others of such words, with the place where each begins."""
        split = words(text) if self.sizes else []
        if self.first.isdisjoint(split):
            return
        for size in self.sizes:
            for run in ngrams(split, size):
                if run[0] in self.first and run[-1] in self.last:
                    yield ("name", " ".join(run)), max(text.casefold().find(run[0]), 0)


def personal_of(tables: Tables) -> PersonalFound:
    """Personal data of training people in the synthetic texts, beyond chance. `tables`: *Sensitive*. With at least one
    column of text.
    """
    known = ValueOwners.of(tables)
    ours, others = (known.of_one(in_train=side) for side in (True, False))
    names = NameWords.of(value for kind, value in known.owners if kind == "name")
    there: list[tuple[int, int, Value, int]] = []
    rows = set()
    for number, name in enumerate(tables.schema.texts):
        for row, text in enumerate(tables.synthetic[name].tolist()):
            if isinstance(text, str):
                rows.add(row)
                there += [(number, row, value, at) for value, at in (*values_in(text), *names.found_in(text))]
    kinds = defaultdict(set)
    for _, _, value, _ in there:
        kinds[value[0]].add(value)
    counted = {
        kind for kind, values in kinds.items()
        if too_many(len(values & ours), known.by_chance(kind, len(values), ours))
    }  # fmt: skip
    hits = [one for one in there if one[2] in ours and one[2][0] in counted]
    held_out = {row for _, row, value, _ in there if value in others}
    n = len(rows)
    return PersonalFound(
        len({row for _, row, _, _ in hits}) / max(n, 1), len(held_out) / max(n, 1), n, _note(hits, n),
        tuple(_sentences(tables, hits)),
    )  # fmt: skip


def _note(hits: list[tuple[int, int, Value, int]], n: int) -> str:
    rows = {row for _, row, _, _ in hits}
    note = f"{len(rows):,} of {n:,} texts repeat what one training person alone has, beyond chance"
    plain = {"email": "e-mail addresses", "name": "full names", "iban": "IBANs"}
    kinds = sorted({plain.get(value[0], "long numbers") for _, _, value, _ in hits})
    return f"{note}: {', '.join(kinds)}" if kinds else note


def _sentences(tables: Tables, hits: list[tuple[int, int, Value, int]]) -> Iterator[tuple[int, int, str]]:
    seen = set()
    for number, row, value, at in hits:
        if value not in seen:
            seen.add(value)
            yield number, row, sentence_around(str(tables.synthetic[tables.schema.texts[number]].iloc[row]), at)


def _of_rows(side: pd.DataFrame, schema: Schema) -> Iterator[tuple[int, Value]]:
    """*Sensitive*. Personal values of all rows, of their texts and of their columns of personal data."""
    for name in schema.texts:
        for row, text in enumerate(side[name].tolist()):
            if isinstance(text, str):
                yield from ((row, value) for value, _ in values_in(text))
    held = {n: c.personal for n in schema.kept if (c := schema.columns[n]).is_personal}
    for name, kind in held.items():
        if kind == "email" or kind in _NUMBERS:
            for row, value in enumerate(side[name].tolist()):
                if not pd.isna(value):
                    yield from ((row, one) for one in _of_column(as_text(value), kind))
    yield from _names_of(side, held)


def _of_column(text: str, kind: str) -> tuple[Value, ...]:
    return ((kind, likeness(text, kind)),) if kind in ("email", "iban") else number_of(text)


def _names_of(side: pd.DataFrame, held: Mapping[str, str]) -> Iterator[tuple[int, Value]]:
    """Full names: of one column, or of a first and a last one."""
    by_kind = {kind: name for name, kind in held.items()}
    parts = ["name"] if "name" in by_kind else ["first_name", "last_name"]
    if not all(part in by_kind for part in parts):
        return
    for row, values in enumerate(zip(*(side[by_kind[part]].tolist() for part in parts), strict=True)):
        if not any(pd.isna(value) for value in values):
            name = words(" ".join(as_text(value) for value in values))
            if len(name) > 1:
                yield row, ("name", " ".join(name))

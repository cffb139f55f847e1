"""Personal data that synthetic texts repeat: e-mail addresses, long numbers and full names of one training person.

Looked for is what one unit of the training table alone has, in its texts or in its columns of personal data, and no
held-out unit. Numbers are compared by their digits, addresses and names without case and signs. Telephone numbers, card
numbers and accounts are numbers of at least `LEAST_DIGITS` digits, whatever stands between them.

Chance repeats numbers, too, where every text has one. How often it does follows from their digits, each at its place as
the real numbers have it, and of names from how frequent first and last names are. Values that two real units share say
the same of what anybody may write (twins; Good 1953). Values of a kind count where there are more of them than both
explain (`evaluate.privacy.pii.too_many`).

Source: Good 1953, "The population frequencies of species and the estimation of population parameters".
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.privacy.pii import N_PHONE, likeness, too_many
from evaluate.result import Estimate
from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.personal.formats import CARD_DIGITS, as_text
from synth.schema import Schema
from understudy.extras.text.evaluation.tokens import words

PERSONAL = "privacy.texts.personal"
LEAST_DIGITS = 7  # Digits of a number that may point to one person
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NUMBER = re.compile(r"\+?\(?\d(?:[ ()/.-]{0,2}\d){6,}")
_TOLD = ("email", "phone", "card_number", "account_number", "national_id", "iban")  # Columns that texts may tell of

Value = tuple[str, str]
"""Kind, and what values of the kind are compared by: `email`, `name`, or `number` with the count of its digits."""


def values_in(text: str) -> Iterator[tuple[Value, int]]:
    """E-mail addresses and long numbers of a text, each with the place where it begins.

    >>> [value for value, _ in values_in("Write to Ann@example.org or call +1 (617) 555-0143, not 555-014.")]
    [('email', 'annexampleorg'), ('number 10', '6175550143')]
    """
    for found in _EMAIL.finditer(text):
        yield ("email", likeness(found[0], "email")), found.start()
    for found in _NUMBER.finditer(text):
        digits = "".join(character for character in found[0] if character.isdecimal() and character.isascii())
        if len(digits) < CARD_DIGITS[0]:  # a telephone number, with the code of its country or without
            digits = digits[-N_PHONE:]
        if len(digits) >= LEAST_DIGITS:
            yield (f"number {len(digits)}", digits), found.start()


@dataclass(frozen=True)
class KnownValues:
    """*Sensitive*. The personal values of all real rows, and those that one unit alone has, of train and held out."""

    of_all: dict[str, list[str]]  # different values by kind
    twins: Counter[str]  # by kind, those of two units
    pairs: Counter[str]  # by kind, of a value and a unit that has it
    ours: frozenset[Value]
    held_out: frozenset[Value]

    @classmethod
    def of(cls, tables: Tables) -> "KnownValues":
        """The values of all real rows, collected once for all synthetic tables."""
        return tables.kept_of_real.once("personal values of texts", lambda: cls._collected(tables))

    @classmethod
    def _collected(cls, tables: Tables) -> "KnownValues":
        owners: dict[Value, set[tuple[bool, int]]] = defaultdict(set)
        for in_train, side in ((True, tables.train), (False, tables.holdout)):
            units = entity_codes(side, tables.schema)
            for row, value in _of_rows(side, tables.schema):
                owners[value].add((in_train, int(units[row])))
        of_all, pairs = defaultdict[str, list[str]](list), Counter[str]()
        for (kind, plain), whose in owners.items():
            of_all[kind].append(plain)
            pairs[kind] += len(whose)
        alone = [
            frozenset(value for value, whose in owners.items() if len(whose) == 1 and next(iter(whose))[0] is side)
            for side in (True, False)
        ]
        twins = Counter(kind for (kind, _), whose in owners.items() if len(whose) == 2)
        return cls(of_all, twins, pairs, alone[0], alone[1])

    def by_chance(self, kind: str, n: int) -> float:
        """How many values of one training unit alone n different honest ones of a kind repeat."""
        ours, known = [value for of_kind, value in self.ours if of_kind == kind], self.of_all[kind]
        chance = 0.0
        if kind == "name":
            split = [value.split(" ") for value in known]
            first, last = Counter(name[0] for name in split), Counter(name[-1] for name in split)
            chance = sum(first[name[0]] * last[name[-1]] for name in map(str.split, ours)) / max(len(split), 1) ** 2
        elif kind.startswith("number"):
            counts = [Counter(digits) for digits in zip(*known, strict=True)]
            chance = sum(
                float(
                    np.prod([(n_of[digit] + 1) / (len(known) + 10) for digit, n_of in zip(value, counts, strict=True)])
                )
                for value in ours
            )
        n_pairs = max(self.pairs[kind], 1)
        return n * (chance + 2 * self.twins[kind] / n_pairs * len(ours) / n_pairs)


def personal_of(tables: Tables) -> tuple[Estimate, list[tuple[int, int, int]]]:
    """The share of synthetic texts with personal data of training people beyond chance, and column, row and place of
    each value, the first time. `tables`: with at least one column of text.
    """
    known = KnownValues.of(tables)
    names = [name.split(" ") for name in known.of_all.get("name", ())]
    parts = ({name[0] for name in names}, {name[-1] for name in names}, {len(name) for name in names})
    there: list[tuple[int, int, Value, int]] = []
    rows, kinds = set(), defaultdict(set)
    for column, name in enumerate(tables.schema.texts):
        for row, text in enumerate(tables.synthetic[name].tolist()):
            if isinstance(text, str):
                rows.add(row)
                for value, at in (*values_in(text), *_names_in(text, *parts)):
                    there.append((column, row, value, at))
                    kinds[value[0]].add(value)
    counted = {
        kind for kind, values in kinds.items()
        if too_many(len(values & known.ours), known.by_chance(kind, len(values)))
    }  # fmt: skip
    hits = [each for each in there if each[2] in known.ours and each[2][0] in counted]
    n, n_hit = len(rows), len({row for _, row, _, _ in hits})
    note = f"{n_hit:,} of {n:,} texts repeat what one training person alone has, beyond chance"
    plain = {"email": "e-mail addresses", "name": "full names"}
    if kinds_hit := sorted({plain.get(value[0], "long numbers") for _, _, value, _ in hits}):
        note += f": {', '.join(kinds_hit)}"
    held_out = len({row for _, row, value, _ in there if value in known.held_out}) / max(n, 1)
    share = n_hit / max(n, 1)
    first = {value: (column, row, at) for column, row, value, at in reversed(hits)}
    estimate = Estimate(PERSONAL, share, n, "lower", low=share, high=share, reference=held_out, note=note)
    return estimate, sorted(first.values())


def _names_in(text: str, first: set[str], last: set[str], sizes: set[int]) -> Iterator[tuple[Value, int]]:
    """Names in a text, real ones and others of such first and last words, with the place where each begins."""
    split = words(text) if first else []
    for at, word in enumerate(split):
        for size in sizes if word in first else ():
            if at + size <= len(split) and split[at + size - 1] in last:
                yield ("name", " ".join(split[at : at + size])), max(text.casefold().find(word), 0)


def _of_rows(side: pd.DataFrame, schema: Schema) -> Iterator[tuple[int, Value]]:
    """*Sensitive*. Personal values of all rows, of their texts and of their columns of personal data."""
    kept = {column.personal: name for name in schema.kept if (column := schema.columns[name]).is_personal}
    personal = (name for name in schema.kept if schema.columns[name].is_personal)
    for name in (*schema.texts, *(name for name in personal if schema.columns[name].personal in _TOLD)):
        for row, value in enumerate(side[name].tolist()):
            if not pd.isna(value):
                yield from ((row, found) for found, _ in values_in(as_text(value)))
    parts = ["name"] if "name" in kept else ["first_name", "last_name"]
    if all(part in kept for part in parts):
        for row, values in enumerate(zip(*(side[kept[part]].tolist() for part in parts), strict=True)):
            full = [] if any(map(pd.isna, values)) else words(" ".join(map(as_text, values)))
            if len(full) > 1:
                yield row, ("name", " ".join(full))

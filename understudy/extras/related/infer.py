"""Keys proposed from names, types and containment: for a person to confirm. A private fit takes declared ones only."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pandas as pd

from evaluate.text import listed
from understudy.extras.related.keys import ForeignKey, Keys, TableKeys, comparable, sources_of

WORDS = {"id", "key", "code", "cd", "no", "nr", "num", "number", "uuid", "guid", "fk", "pk", "sk", "ref", "row"}
GLUED = re.compile(r"^(id|fk)?([a-z]{3,}?)(id|key|no|nr|num|number|code)?$")  # customerid, idProduct
COUNTERS = {"line", "seq", "pos", "position", "item"}  # what numbers the rows of a parent is called
AFFIXES = {"tbl", "dim", "fact", "fct", "table", "dataset", "master", "csv"}  # of names of tables
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\D|$)|\d{1,2}:\d\d")
CONTAINED = 0.9  # share of the rows of a foreign key that name a row, at least: the rest are orphans, to be settled
NEAR = 0.5  # share of them from which a name that fits is worth a word
OWN_TEXTS = 20  # distinct texts of a foreign key that alone tell what it refers to, whatever its name
BY_CHANCE = 1e-9  # chance that numbers of the same size are all there, below which they tell it likewise
COLLISIONS = 3.0  # rows that were to repeat by chance and do not, from which columns are a key
SMALL = 100  # rows of a table that may be a lookup table
MOST_COLUMNS = 8  # columns of a table among which a key of several is looked for
Primary = dict[str, tuple[str, ...]]


def infer_keys(tables: Mapping[str, Any]) -> Keys:
    """The keys that names, types and containment propose, each with its reasons. `tables`: *Sensitive*.

    A primary key never repeats and is never missing; among such columns the name decides, and what other tables refer
    to. A foreign key is called like another table or its key (`customerId`, `fk_customer`, `cust_no`), or has values
    that are hardly by chance those of a key, and names rows that are there. What was nearly one is told, too.

    >>> customers = pd.DataFrame({"id": [1, 2, 3], "region": ["n", "s", "s"]})
    >>> orders = pd.DataFrame({"order_id": [7, 8], "customer_id": [3, 1], "total": [2.5, 2.5]})
    >>> print(infer_keys({"customers": customers, "orders": orders}))
    Keys of 2 tables with 1 relation
    customers
      key id  (never repeats, never missing)
      (3 rows that others refer to; public? keep=["customers"] takes it over as it is)
    orders
      key order_id  (never repeats, never missing)
      customer_id -> customers  (the name, and all values are there)
    """
    read = _Tables.of({name: table.frame() for name, table in sources_of(tables).items()})
    near, primary = {name: list[str]() for name in read.columns}, {name: _primary(name, read) for name in read.columns}
    parents = {name: read.columns[name][key[0]] for name, key in primary.items() if len(key) == 1}
    extend = {a for a, b in permutations(parents, 2) if _goes_up(a, b, parents[a], parents[b], read)}
    foreign = {name: dict(_foreign(name, read, parents, extend, near[name])) for name in read.columns}
    for name, of_table in foreign.items():
        _drop_chance(name, read, primary, foreign)
        if not primary[name]:
            primary[name] = _of_several(read.columns[name], [c for key in of_table for c in key.columns])
    for name in read.columns:  # those of several columns, which stand now
        foreign[name] |= dict(_of_composite(name, read, primary, foreign[name], near[name]))
    _open_circles(foreign, near)
    own, reasons = dict[str, TableKeys](), dict[str, tuple[str, ...]]()
    for name, columns in read.columns.items():
        kept, n = foreign[name], read.n[name]
        number = _number(columns, primary[name], [c for key in kept for c in key.columns])
        own[name] = TableKeys(primary=primary[name], foreign=tuple(kept), number=number)
        why = ["never repeats, never missing" if primary[name] else "no column or few name each row"]
        why += kept.values()
        if n and not kept and n <= SMALL and any(key.table == name for each in foreign.values() for key in each):
            why.append(f'{n} rows that others refer to; public? keep=["{name}"] takes it over as it is')
        if not primary[name] and (unique := [c for c, each in columns.items() if each.is_unique and n > 1]):
            near[name].append(f"of {listed(unique)} no value repeats; is it the key? name it as primary")
        reasons[name] = (*why, *near[name])
    return Keys(tables=own, reasons=reasons)


@dataclass(frozen=True)
class _Column:
    """A column that may be part of a key. *Sensitive*."""

    kind: str  # "integer", "codes" or "words"
    codes: np.ndarray  # of each cell's value, -1 where it is missing
    distinct: pd.Index
    stems: frozenset[str]  # the name, and without what says that it is a key
    is_called_key: bool
    plain: str
    is_first: bool

    @classmethod
    def of(cls, name: str, frame: pd.DataFrame) -> "_Column | None":
        series = frame[name]
        try:
            codes, values = pd.factorize(comparable(series))
            kind = pd.api.types.infer_dtype(values)
            if kind == "string":
                texts = list(map(str, values))
                kind = "words" if any(" " in text for text in texts) else "codes"
                kind = "dates" if all(map(DATE.match, texts)) or any(len(text) > 64 for text in texts) else kind
            if not len(values) or kind not in ("integer", "codes", "words") or pd.api.types.is_bool_dtype(series.dtype):
                return None
            index = pd.Index(values, dtype=np.int64 if kind == "integer" else object)
        except (TypeError, OverflowError):  # of lists and the like, and of numbers of many digits
            return None
        return cls(kind, codes, index, *_stems(name), _plain(name), name == frame.columns[0])

    @cached_property
    def n(self) -> np.ndarray:
        """Rows of each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    @property
    def is_unique(self) -> bool:
        return len(self.distinct) == len(self.codes)

    def share_in(self, key: "_Column") -> float:
        """The share of cells that are values of a key; infinite where it is of another type, and so holds none."""
        if (self.kind == "integer") != (key.kind == "integer"):
            return math.inf
        return float(self.n[key.distinct.get_indexer(self.distinct) >= 0].sum() / self.n.sum())

    def is_by_chance(self, key: "_Column") -> bool:
        """Whether numbers of the same size, or few texts, may all be values of the key by chance."""
        if self.kind != "integer" or key.kind != "integer":
            return self.kind != key.kind or self.kind == "words" or len(self.distinct) < OWN_TEXTS
        density = len(key.distinct) / (max(int(key.distinct.max()), 1) + 1)
        return not self.is_called_key or bool(density ** len(self.distinct) > BY_CHANCE)


@dataclass(frozen=True)
class _Tables:
    columns: Mapping[str, Mapping[str, _Column]]
    n: Mapping[str, int]  # of rows
    stems: Mapping[str, set[str]]  # of names of tables

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> "_Tables":
        columns = {
            name: {c: column for c in map(str, frame) if (column := _Column.of(c, frame)) is not None}
            for name, frame in frames.items()
        }
        words = {name: _plain(name).split("_") for name in frames}
        shared = set[str]() if len(words) < 2 else set.intersection(*map(set, words.values()))
        stems = {}
        for name, each in words.items():
            kept = [word for word in each if word not in AFFIXES | shared] or each
            stems[name] = _singular("_".join(kept))
        return cls(columns, {name: len(frame) for name, frame in frames.items()}, stems)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name)).lower()).strip("_")


def _singular(stem: str) -> set[str]:
    """A name in one word or several, as one row is called."""
    ends = {stem, re.sub("(s|n)$", "", stem), re.sub("ies$", "y", stem), re.sub("(es|en)$", "", stem)}
    return {each for each in ends if each}


def _stems(name: str) -> tuple[frozenset[str], bool]:
    """What a column's name says it is of, and whether it says that it is a key."""
    words = _plain(name).split("_")
    kept = [*words]
    while kept and kept[-1] in WORDS:
        kept.pop()
    while kept and kept[0] in {"id", "fk", "pk", "sk"}:
        kept.pop(0)
    stems = _singular("_".join(kept)) if len(kept) < len(words) else {"_".join(kept)}
    if kept and (glued := GLUED.match(kept[-1])):
        stems |= {"_".join([*kept[:-1], glued[2]])}
    return frozenset(stems), len(kept) < len(words)


def _fits(column: _Column, stems: set[str], key: _Column | None = None) -> int:
    """How well a column is called after a table, or the table's key: 4 like the table to 1 in short, or 0."""
    if column.kind == "integer" and not column.is_called_key:  # orders, total_orders: how many there are
        stems = {stem for stem in stems if not re.search("[^sui]s$", stem)}
    if column.stems & stems:
        return 4
    of_key = key.stems if key is not None else frozenset[str]()
    if column.stems & of_key:
        return 3
    if any(a.endswith(f"_{b}") for a, b in product(column.stems, {*stems, *of_key})):
        return 2
    longer = any(b.endswith(f"_{a}") for a, b in product(column.stems, stems))  # status of order_status
    if longer and (column.is_called_key or column.kind != "integer"):
        return 1
    last = {stem.rpartition("_")[2] for stem in column.stems}  # cust_no of customer, account_id of acct
    short = any(_shortens(a, b) or _shortens(b, a) for a, b in product(last, stems))
    return int(short and (column.is_called_key or column.plain.endswith(("key", "id"))))


def _shortens(short: str, word: str) -> bool:
    """Whether letters of a word, in their order and with the first, make the short one: acct of account."""
    letters = iter(word)
    return 3 <= len(short) < len(word) and short[0] == word[0] and all(letter in letters for letter in short)


def _primary(table: str, read: _Tables) -> tuple[str, ...]:
    best, most = tuple[str, ...](), 0.0
    for name, column in read.columns[table].items():
        if not column.is_unique:
            continue
        fits = 4 if column.plain in WORDS else _fits(column, read.stems[table])
        score = 3.0 * (fits > 0) + column.is_called_key + 0.5 * column.is_first
        score += 2.0 * _is_referred_to(table, column, read)
        # What happens not to repeat names nothing, unless its name says so, or it stands first and not by chance.
        is_told = score >= 1 or (column.is_first and column.kind == "codes")
        if column.kind == "integer" and column.is_first:  # too close together for this to be by chance
            is_told |= len(column.distinct) ** 2 / 2 / (int(np.ptp(column.distinct)) + 1) >= COLLISIONS
        if column.kind == "words":  # of a lookup table that has no code
            score, is_told = 0.4, fits == 4
        if is_told and score > most:
            best, most = (name,), score
    return best


def _is_referred_to(table: str, key: _Column, read: _Tables) -> bool:
    """Whether another table has a column of that name which is not called after it, and all is there."""
    names = {key.plain, *(f"{stem}_{key.plain}" for stem in read.stems[table])}
    return bool(key.stems) and any(
        each.plain in names and each.kind == key.kind and each.share_in(key) >= CONTAINED
        for other, columns in read.columns.items()
        for each in columns.values()
        if other != table and not _fits(each, read.stems[other])
    )


def _foreign(
    table: str, read: _Tables, parents: Mapping[str, _Column], extend: set[str], near: list[str]
) -> Iterator[tuple[ForeignKey, str]]:
    """Each column's best parent, rather not one that extends another, and the reasons; beside it what is nearly one."""
    for name, column in read.columns[table].items():
        options, close, is_own = [], [], column is parents.get(table)
        for other, key in parents.items():
            fits, by_chance = _fits(column, read.stems[other], key), column.is_by_chance(key)
            if (not fits and by_chance and not column.is_called_key) or (is_own and other == table):
                continue
            share, is_there = column.share_in(key), CONTAINED if fits > 1 else 1.0
            pair = (fits, share, other not in extend, -read.n[other], other)
            if other != table and (fits or not by_chance) and is_there <= share <= 1:
                options += [pair] if not is_own or _goes_up(table, other, column, key, read) else []
            elif not is_own and (share == 1 or (fits > 1 and other != table and share >= NEAR)):
                close.append(pair)
        if options:
            fits, share, *_, other = max(options)
            missing = float((column.codes < 0).mean())
            how = f"{share:.4g} of its values are there".replace("1 of its", "all")
            why = f"{'the name, and ' * bool(fits)}{how}" + f", {missing:.1%} missing" * (missing > 0)
            yield ForeignKey(columns=(name,), table=other), why
        elif close:
            _, share, *_, other = max(close)
            near.append(f"{name} -> {other} is none: {_against(table, other, share)}")


def _against(table: str, other: str, share: float) -> str:
    if share > 1:
        return "one has numbers, the other texts; make them of one type"
    if other == table:
        return "rows of one table do not name each other in synthetic ones"
    if share < 1:
        return f"only {share:.1%} of its values are there; add the others, or set orphans"
    return "all values are there, but the name does not say so; name it in foreign if it is one"


def _goes_up(table: str, other: str, own: _Column, key: _Column, read: _Tables) -> bool:
    """Of two tables with one key, whether the first extends the other: named after the key, of fewer rows, or later."""
    if not _fits(own, read.stems[other], key) or not CONTAINED <= own.share_in(key) <= 1:
        return False
    after = [bool(own.stems & read.stems[each]) for each in (table, other)]
    sizes, names = (read.n[table], read.n[other]), list(read.n)
    if after[0] != after[1]:
        return after[1]
    return sizes[0] < sizes[1] or (sizes[0] == sizes[1] and names.index(table) > names.index(other))


def _drop_chance(name: str, read: _Tables, primary: Primary, foreign: Mapping[str, Mapping[ForeignKey, str]]) -> None:
    """Take a key for none that names the rows of another table, and so few of them that none would be named twice."""
    parent = next((key.table for key in foreign[name] if key.columns == primary[name]), None)
    is_used = any(key.table == name for of in foreign.values() for key in of)
    if parent is not None and not is_used and read.n[name] ** 2 / 2 / read.n[parent] < COLLISIONS:
        primary[name] = ()


def _of_several(columns: Mapping[str, _Column], of_foreign: list[str]) -> tuple[str, ...]:
    """Columns that name a row together: foreign keys and what is called a key or a number, as few as do."""
    named = [c for c, each in columns.items() if each.is_called_key or {*each.plain.split("_")} & COUNTERS]
    named += [c for c, each in columns.items() if each.plain.endswith(("number", "no")) or each.kind == "codes"]
    likely = [c for c in dict.fromkeys([*of_foreign, *named]) if (columns[c].codes >= 0).all()][:MOST_COLUMNS]
    likely = [c for c in columns if c in likely]
    for n in (2, 3):
        best, most = tuple[str, ...](), 0.0
        for chosen in combinations(likely, n):
            codes, cells = np.zeros(len(columns[chosen[0]].codes), dtype=np.int64), 1
            for each in (columns[c] for c in chosen):
                codes, cells = codes * len(each.distinct) + each.codes, cells * len(each.distinct)
            expected = len(codes) ** 2 / 2 / cells
            is_told = expected >= COLLISIONS or {*chosen} <= {*of_foreign}
            if len(codes) <= cells < 2**63 and is_told and expected > most and pd.Series(codes).is_unique:
                best, most = chosen, expected
        if best:
            return best
    return ()


def _of_composite(
    table: str, read: _Tables, primary: Primary, foreign: Mapping[ForeignKey, str], near: list[str]
) -> Iterator[tuple[ForeignKey, str]]:
    taken = [{*key.columns} for key in foreign]
    for other, key in primary.items():
        by_plain = {each.plain: c for c, each in read.columns[table].items()}
        columns = tuple(by_plain.get(read.columns[other][c].plain, "") for c in key)
        if other == table or len(key) < 2 or "" in columns or {*primary[table]} == {*columns}:
            continue
        pairs = [(read.columns[table][a], read.columns[other][b]) for a, b in zip(columns, key, strict=True)]
        at = np.stack([np.append(b.distinct.get_indexer(a.distinct), -1)[a.codes] for a, b in pairs])
        present = (np.stack([a.codes for a, _ in pairs]) >= 0).all(axis=0)
        rows = pd.MultiIndex.from_arrays([b.codes for _, b in pairs]).get_indexer(pd.MultiIndex.from_arrays([*at]))
        if not present.any() or (rows[present] >= 0).mean() < CONTAINED:
            continue
        if any({*columns} & each and not each < {*columns} for each in taken):
            near.append(f"{' + '.join(columns)} -> {other} is none: another key has a part of it; choose one")
            continue
        taken.append({*columns})
        yield ForeignKey(columns=columns, table=other), "columns of the same names, and all pairs are there"


def _open_circles(foreign: Mapping[str, dict[ForeignKey, str]], near: Mapping[str, list[str]]) -> None:
    """Take out keys that would close a circle, the later ones first, and say so."""
    for name in foreign:
        for key in list(foreign[name]):
            above, seen = [key.table], set[str]()
            while above:
                at = above.pop()
                seen.add(at)
                above += [k.table for k in foreign[at] if k.table not in seen]
            if name in seen:
                del foreign[name][key]
                near[name].append(f"{key} is none: it closes a circle of tables, and such keys are not kept")


def _number(columns: Mapping[str, _Column], primary: tuple[str, ...], of_foreign: list[str]) -> str | None:
    """The part of a key of several columns that counts the rows of the rest from 1."""
    own = [name for name in primary if name not in of_foreign]
    if len(primary) < 2 or len(own) != 1 or columns[own[0]].kind != "integer":
        return None
    numbers = pd.Series(columns[own[0]].distinct.to_numpy()[columns[own[0]].codes])
    groups = numbers.groupby([columns[name].codes for name in primary if name != own[0]], sort=False)
    is_counted = (groups.transform("min") == 1) & (groups.transform("max") == groups.transform("size"))
    return own[0] if bool(is_counted.mean() > 0.99) else None

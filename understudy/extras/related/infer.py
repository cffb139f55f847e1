"""Keys proposed from names, types and containment: for a person to confirm. A private fit takes declared ones only."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from synth.table import Table
from understudy.extras.related.keys import ForeignKey, Keys, TableKeys, positions, repeats

KEY_NAME = re.compile(r"(^|_)(id|key|code|no|nr|num|number|uuid|guid|line|seq)$")
CONTAINED = 0.9  # share of the rows of a foreign key that name a row, at least: the rest are orphans, to be settled
OWN_TEXTS = 20  # distinct texts of a foreign key that alone tell what it refers to, whatever its name
SMALL = 100  # rows of a table that may be a lookup table
MOST_COLUMNS = 8  # columns of a table among which a key of several is looked for


def infer_keys(tables: Mapping[str, Any]) -> Keys:
    """The keys that names, types and containment propose, each with its reasons. `tables`: *Sensitive*.

    A primary key never repeats and is never missing; among such columns the name decides. A foreign key has the name of
    another table or of its key, or texts that are hardly by chance those of a key, and names rows that are there.

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
    frames = {name: Table.of(table).frame() for name, table in tables.items()}
    primary = {name: _primary(name, frame) for name, frame in frames.items()}
    foreign = {name: dict(_foreign(name, frames, primary)) for name in frames}
    for name, frame in frames.items():
        if not primary[name]:
            primary[name] = _of_several(frame, [c for key in foreign[name] for c in key.columns])
    for name in frames:  # those of several columns, which stand now
        foreign[name] |= dict(_of_composite(name, frames, primary))
    own, reasons = dict[str, TableKeys](), dict[str, tuple[str, ...]]()
    keys = Keys(
        tables={name: TableKeys(primary=primary[name], foreign=tuple(foreign[name])) for name in _acyclic(foreign)}
    )
    for name in frames:
        kept = keys.tables[name].foreign
        number = _number(frames[name], primary[name], [c for key in kept for c in key.columns])
        own[name] = keys.tables[name].model_copy(update={"number": number})
        why = ["never repeats, never missing" if primary[name] else "no column or few name each row"]
        why += [foreign[name][key] for key in kept]
        is_parent = any(key.table == name for of in foreign.values() for key in of)
        if is_parent and not kept and len(frames[name]) <= SMALL:
            why.append(f'{len(frames[name])} rows that others refer to; public? keep=["{name}"] takes it over as it is')
        reasons[name] = tuple(why)
    return Keys(tables=own, reasons=reasons)


def _acyclic(foreign: Mapping[str, dict[ForeignKey, str]]) -> Mapping[str, dict[ForeignKey, str]]:
    """The same without keys that would close a circle, the later ones first."""
    for name in foreign:
        for key in list(foreign[name]):
            above, seen = [key.table], set[str]()
            while above:
                at = above.pop()
                seen.add(at)
                above += [k.table for k in foreign[at] if k.table not in seen]
            if name in seen:
                del foreign[name][key]
    return foreign


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name)).lower()).strip("_")


def _names_of(table: str) -> set[str]:
    """The name of a table in one word or several, as one row is called."""
    name = _plain(table)
    ends = {name, name.removesuffix("s"), re.sub("ies$", "y", name), re.sub("es$", "", name)}
    return {each for each in ends if each}


def _is_key_like(series: pd.Series) -> bool:
    """Whole numbers, or texts without blanks."""
    values = series.dropna()
    if (
        pd.api.types.is_bool_dtype(series.dtype)
        or pd.api.types.is_datetime64_any_dtype(series.dtype)
        or len(values) == 0
    ):
        return False
    if pd.api.types.is_numeric_dtype(series.dtype):
        numbers = values.to_numpy(dtype=np.float64)
        return bool((numbers == np.floor(numbers)).all())
    return bool(values.map(lambda value: isinstance(value, str) and len(value) <= 64 and " " not in value).all())


def _primary(table: str, frame: pd.DataFrame) -> tuple[str, ...]:
    best, most = tuple[str, ...](), 0.0
    for at, name in enumerate(map(str, frame.columns)):
        if not _is_key_like(frame[name]) or frame[name].isna().any() or repeats(frame, [name]).any():
            continue
        plain = _plain(name)
        own = plain in {
            "id",
            *(f"{each}{end}" for each in _names_of(table) for end in ("_id", "id", "_key", "_code", "_no", "")),
        }
        score = 3.0 * own + 1.0 * bool(KEY_NAME.search(plain)) + 0.5 * (at == 0)
        # Numbers that happen not to repeat name nothing, unless their name says so or they stand first.
        if score > most and (score >= 1 or not pd.api.types.is_float_dtype(frame[name].dtype)):
            best, most = (name,), score
    return best


def _foreign(
    table: str, frames: Mapping[str, pd.DataFrame], primary: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[ForeignKey, str]]:
    """Each column's best parent, and the reasons."""
    frame = frames[table]
    for name in map(str, frame.columns):
        if not _is_key_like(frame[name]):
            continue
        options = []
        for other, key in primary.items():
            if other == table or len(key) != 1:
                continue
            named, parent = _is_named_after(name, other, key[0]), frames[other][key[0]]
            if pd.api.types.is_numeric_dtype(parent.dtype) != pd.api.types.is_numeric_dtype(frame[name].dtype):
                continue
            texts = not pd.api.types.is_numeric_dtype(parent.dtype) and frame[name].nunique() >= OWN_TEXTS
            if not (named or texts):
                continue
            at, present = positions(frame, [name], frames[other], key), frame[name].notna().to_numpy()
            share = float((at[present] >= 0).mean()) if present.any() else 0.0
            if share < (CONTAINED if named else 1.0):
                continue
            if (name,) == primary[table] and not _goes_up(table, other, name, len(frame), len(frames[other])):
                continue
            missing = f", {1 - present.mean():.1%} missing" if not present.all() else ""
            how = "the name, and " if named else ""
            options.append(
                (
                    named,
                    share,
                    -len(parent),
                    other,
                    f"{how}{share:.4g} of its values are there{missing}".replace("1 of its", "all"),
                )
            )
        if options:
            _, _, _, other, why = max(options)
            yield ForeignKey(columns=(name,), table=other), why


def _is_named_after(name: str, table: str, key: str) -> bool:
    plain, of_key = _plain(name), _plain(key)
    wanted = {
        each + end for each in _names_of(table) for end in ("", "_id", "id", "_key", "_code", "_no", f"_{of_key}")
    }
    wanted |= {of_key} if of_key not in ("id", "key", "code", "no", "number") else set()
    return plain in wanted or any(plain.endswith(f"_{each}") for each in wanted)


def _goes_up(table: str, other: str, name: str, n: int, n_other: int) -> bool:
    """Of two tables with one key, whether the first extends the other: named after the key, or of more rows."""
    after = [any(_plain(name).startswith(each) and len(each) > 1 for each in _names_of(t)) for t in (table, other)]
    return after[1] if after[0] != after[1] else n < n_other


def _of_several(frame: pd.DataFrame, of_foreign: list[str]) -> tuple[str, ...]:
    """Columns that name a row together: foreign keys and what is called a key or a number, as few as do."""
    named = [str(name) for name in frame if KEY_NAME.search(_plain(str(name))) and _is_key_like(frame[name])]
    likely = list(dict.fromkeys([*of_foreign, *named]))[:MOST_COLUMNS]
    likely = [name for name in likely if frame[name].notna().all()]
    for n in (2, 3):
        for chosen in combinations(likely, n):
            if not repeats(frame, chosen).any():
                return chosen
    return ()


def _of_composite(
    table: str, frames: Mapping[str, pd.DataFrame], primary: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[ForeignKey, str]]:
    for other, key in primary.items():
        if other != table and len(key) > 1 and {*key} <= {*frames[table]} and {*primary[table]} != {*key}:
            at = positions(frames[table], key, frames[other], key)
            present = frames[table][list(key)].notna().all(axis=1).to_numpy()
            if present.any() and (at[present] >= 0).mean() >= CONTAINED:
                yield ForeignKey(columns=key, table=other), "columns of the same names, and all pairs are there"


def _number(frame: pd.DataFrame, primary: tuple[str, ...], of_foreign: list[str]) -> str | None:
    """The part of a key of several columns that counts the rows of the rest from 1."""
    own = [name for name in primary if name not in of_foreign]
    if len(primary) < 2 or len(own) != 1 or not pd.api.types.is_integer_dtype(frame[own[0]].dtype):
        return None
    groups = frame.groupby([name for name in primary if name != own[0]], sort=False)[own[0]]
    is_counted = (groups.transform("min") == 1) & (groups.transform("max") == groups.transform("size"))
    return own[0] if bool(is_counted.mean() > 0.99) else None

"""Synthetic related tables beside real ones: keys, numbers of rows, dependence across relations, attacks on units.

Each table is looked at with the columns of its parents and their parents beside its own, by the engine and the measures
of one table. A fresh real sample of units says what distance chance comes to.
"""

import hashlib
import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.options import EvaluationOptions
from evaluate.privacy.membership import AREA, area, parts_for, true_positive_rate
from evaluate.privacy.membership_attacks import scored, targets_of
from evaluate.tables import Real, Tables
from evaluate.text import listed
from synth.errors import SchemaError, TableNote, nearest
from synth.infer import infer_schema
from synth.schema import Schema
from synth.table import Table
from understudy.extras.related.keys import (
    ForeignKey,
    Keys,
    Positions,
    candidates,
    comparable,
    followed,
    hidden_columns,
    positions,
    repeats,
)
from understudy.extras.related.walk import labels

UNIT = "unit of privacy"
OWN, COUNT, PARENT, GRANDPARENT = "own", "count", "parents", "grandparents"
RATE = 0.01  # of false alarms at which members are counted


@dataclass(frozen=True)
class Compared:
    """A mean distance from the training tables, of synthetic, fresh real and shuffled rows."""

    table: str
    what: str  # "numbers of rows", or whose columns the table's own go together with
    n: int  # of columns or pairs
    synthetic: float
    fresh: float
    shuffled: float

    @property
    def ratio(self) -> float:
        return self.synthetic / max(self.fresh, 1e-9)


@dataclass(frozen=True)
class RelatedEvaluation:
    """The figures of one set of synthetic tables.

    Attributes:
        keys: share of the rows of each key that are valid: a primary one never repeats and is never missing, a foreign
            one is missing or names a row.
        compared: numbers of rows, and dependence on parents and on their parents.
        attack: of whole units over all tables: the AUC, and members found at 1% false alarms; empty without attacks.
    """

    keys: Mapping[str, float]
    compared: tuple[Compared, ...]
    attack: Mapping[str, tuple[float, float, float]]

    def __str__(self) -> str:
        lines = [f"{key}: {share:.2%} valid" for key, share in self.keys.items()]
        lines += [
            f"{each.table}, {each.what} ({each.n}): {each.synthetic:.4f}, fresh {each.fresh:.4f}, shuffled "
            f"{each.shuffled:.4f}, ratio {each.ratio:.2f}"
            for each in self.compared
        ]
        lines += [f"{name}: {value:.3f} ({low:.3f} to {high:.3f})" for name, (value, low, high) in self.attack.items()]
        return "\n".join(lines)

    def ratio(self, what: str) -> float:
        """The mean distance over that of a fresh real sample, over all tables by numbers of pairs; NaN of none."""
        alike = [each for each in self.compared if each.what == what]
        if not alike:
            return math.nan
        return sum(e.synthetic * e.n for e in alike) / max(sum(e.fresh * e.n for e in alike), 1e-9)


def valid_keys(tables: Mapping[str, pd.DataFrame], keys: Keys) -> dict[str, float]:
    """The share of rows of each key that are valid."""
    result = {}
    for name in keys.order:
        own, frame = keys.tables[name], tables[name]
        if own.primary:
            bad = repeats(frame, own.primary) | frame[list(own.primary)].isna().any(axis=1).to_numpy()
            result[f"{name}: {' + '.join(own.primary)}"] = 1.0 - float(bad.mean()) if len(bad) else 1.0
        for key in own.foreign:
            at = positions(frame, key.columns, tables[key.table], keys.tables[key.table].primary)
            missing = frame[list(key.columns)].isna().any(axis=1).to_numpy()
            result[f"{name}: {key}"] = float((missing | (at >= 0)).mean()) if len(at) else 1.0
    return result


def joined(
    tables: Mapping[str, pd.DataFrame], keys: Keys, name: str, unit: str | None, keep: Collection[str] = ()
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows of a table with numbers of rows below, its parents' columns and theirs; and of which of these each is.
    `tables`: *Sensitive*. A row's unit is the row of the table of units that it is below, in the column `UNIT`.
    """
    frame, roles = tables[name].reset_index(drop=True), dict[str, str]()
    columns = dict[str, pd.Series]()
    for column in _plain(frame, keys, name):
        columns[column], roles[column] = frame[column], OWN
    for child, key in keys.edges():
        if key.table == name:
            at = positions(tables[child], key.columns, frame, keys.tables[name].primary)
            count = f"rows of {child} by {'+'.join(key.columns)}"
            columns[count], roles[count] = pd.Series(np.bincount(at[at >= 0], minlength=len(frame))), COUNT

    def add(at: Positions, child: str, prefix: str, level: str) -> None:
        for key in keys.tables[child].foreign:
            of_child = positions(tables[child], key.columns, tables[key.table], keys.tables[key.table].primary)
            rows, start = followed(at, of_child), f"{prefix}{key.table}."
            if any(each.startswith(start) for each in columns):
                start = f"{prefix}{'+'.join(key.columns)}->{key.table}."
            for column in _plain(tables[key.table], keys, key.table):
                target = f"{start}{column}"
                cells = tables[key.table][column].reset_index(drop=True)
                columns[target], roles[target] = pd.Series(cells.reindex(rows).array), level
            if level == PARENT:
                add(rows, key.table, start, GRANDPARENT)

    every = np.arange(len(frame))
    add(every, name, "", PARENT)
    starts = dict(zip(keys.order, np.cumsum([0, *(len(tables[each]) for each in keys.order)]), strict=False))
    at, table, units = every, name, every + starts[name]
    for child, key in way_up(keys, name, unit, keep):
        rows = positions(tables[child], key.columns, tables[key.table], keys.tables[key.table].primary)
        at, table = followed(at, rows), key.table
        units = np.where(at >= 0, at + starts[table], units)
    columns[UNIT] = pd.Series(units)
    return pd.DataFrame(columns), roles


def way_up(keys: Keys, name: str, unit: str | None, keep: Collection[str] = ()) -> list[tuple[str, ForeignKey]]:
    """The keys by which a row is below a row of the table of units; `None`: of the topmost one. Empty: it is not."""
    options = [] if name == unit else candidates(keys, name, keep)
    ways = [[(name, key), *way_up(keys, key.table, unit, keep)] for key in options]
    return next((way for way in ways if unit is None or way[-1][1].table == unit), [])


def unit_of(keys: Keys, unit: str | None, keep: Collection[str] = ()) -> str:
    """The table whose rows are units: the one that is named, or else the only one that is below none."""
    roots = [name for name in keys.order if name not in keep and not candidates(keys, name, keep)]
    if unit is None and len(roots) > 1:
        raise SchemaError(f"tables={listed(roots)} are below none; set unit to the table whose rows are people")
    if unit is not None and unit not in keys.tables:
        raise SchemaError(f"unit={unit!r} is not a table; {nearest(unit, keys.tables)}")
    return unit or roots[0]


def split_related(
    tables: Mapping[str, Any], keys: Any, *, unit: str | None = None, keep: Collection[str] = (),
    holdout_share: float = 0.2, seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Train and holdout: each unit with all rows below it on one side, by a hash of its key; other tables on both.

    Args:
        tables: *Sensitive*. As `us.fit_related` takes them.
        keys: likewise.
        unit: the table whose rows are units; `None`: the only one that is below none.
        keep: lookup tables.
        holdout_share: share of units that go to the holdout.
        seed: names the split; another seed is another release of the same tables.
    """
    sources = {name: Table.of(table) for name, table in tables.items()}
    frames, keys = {name: source.frame() for name, source in sources.items()}, Keys.of(keys)
    table = unit_of(keys, unit, keep)
    if not 0 < holdout_share < 1 or not (primary := keys.tables[table].primary):
        raise SchemaError(f"a split needs 0 < holdout_share={holdout_share} < 1, and a primary key of unit={table!r}")
    names = labels(pd.DataFrame({c: comparable(frames[table][c]).astype(object) for c in primary}), primary)
    bound = int(holdout_share * 2**64).to_bytes(8, "big")
    texts = (f"understudy.split {seed}\n{name}".encode() for name in names)
    inside = np.array([hashlib.md5(text, usedforsecurity=False).digest() < bound for text in texts] + [False])
    sides: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, source in sources.items():
        at, way = np.arange(len(frames[name])), way_up(keys, name, table, keep)
        for child, key in way:
            rows = positions(frames[child], key.columns, frames[key.table], keys.tables[key.table].primary)
            at = followed(at, rows)
        if name != table and not way:
            sides[0][name] = sides[1][name] = source.back(frames[name])
            continue
        for side, kept in zip(sides, (~inside[at], inside[at]), strict=True):
            side[name] = source.back(frames[name][kept].reset_index(drop=True))
    return sides


def _plain(frame: pd.DataFrame, keys: Keys, name: str) -> list[str]:
    hidden = hidden_columns(keys, name)
    return [c for c in map(str, frame) if c not in hidden]


def sides_of(
    train: Mapping[str, Any], synthetic: Mapping[str, Any], holdout: Mapping[str, Any], keys: Any,
    unit: str | None = None, keep: Collection[str] = (),
) -> dict[str, tuple[Tables, dict[str, str]]]:  # fmt: skip
    """Each table of units and below, joined, of all three sides, as measures take them. Real rows: *Sensitive*."""
    keys, result, rng = Keys.of(keys), dict[str, tuple[Tables, dict[str, str]]](), np.random.default_rng(0)
    frames = [{n: Table.of(table).frame() for n, table in side.items()} for side in (train, holdout, synthetic)]
    most = sum(map(len, frames[0].values()))
    is_control = rng.random(most + sum(map(len, frames[1].values()))) < 0.5  # of units, in all tables alike
    below = [n for n in keys.order if unit is None or n == unit or way_up(keys, n, unit, keep)]
    for name in (n for n in below if n not in keep):
        parts, roles = zip(*(joined(side, keys, name, unit, keep) for side in frames), strict=True)
        known, fresh, drawn = parts
        fresh = fresh.assign(**{UNIT: fresh[UNIT] + most})
        schema = _schema_of(pd.concat([known, fresh], ignore_index=True))
        if schema is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableNote)
            real = Real.prepare(known, fresh, schema, EvaluationOptions(outside="clamp"))
            other = is_control[real.holdout[UNIT].to_numpy(dtype=np.int64)]
            halves = {"fresh": real.holdout[~other], "control": real.holdout[other]}
            real = replace(real, **{half: rows.reset_index(drop=True) for half, rows in halves.items()})
            result[name] = real.beside(drawn), roles[0]
    return result


def _schema_of(frame: pd.DataFrame) -> Schema | None:
    schema = infer_schema(frame.drop(columns=UNIT), propose_entity=False, constraints=False)
    if not schema.learned:
        return None
    unit = {"kind": "identifier", "bounds": (0, 2**53)}
    kept = {
        n: c.model_copy(update={"modeled": None, "missing": True}) for n, c in schema.columns.items() if c.is_learned
    }
    return Schema.model_validate({**dict(schema), "entity": UNIT, "columns": {UNIT: unit, **kept}, "constraints": ()})


def evaluate_related(
    train: Mapping[str, Any], synthetic: Mapping[str, Any], *, holdout: Mapping[str, Any], keys: Any,
    unit: str | None = None, keep: Collection[str] = (), attacks: bool = True,
) -> RelatedEvaluation:  # fmt: skip
    """The figures of synthetic related tables.

    Args:
        train: *Sensitive*. The tables that the model saw.
        synthetic: the tables it gives.
        holdout: *Sensitive*. Tables of other units, which it did not see. What units have in common, such as the
            courses that students take, is to be the same in both where units are attacked: `us.split_related`.
        keys: as `us.fit_related` takes them.
        unit: the table whose rows are units; `None`: the only one that is below none.
        keep: lookup tables that were taken over; nothing of theirs is measured.
        attacks: whether to attack units, which takes most of the time.
    """
    keys = Keys.of(keys)
    unit = unit_of(keys, unit, keep) if attacks else unit
    sides, compared = sides_of(train, synthetic, holdout, keys, unit, keep), list[Compared]()
    for name, (tables, roles) in sides.items():
        coded = EncodedSamples.of(tables, Samples.draw(tables))
        at = {
            role: [i for i, c in enumerate(coded.columns) if roles.get(c) == role]
            for role in (OWN, COUNT, PARENT, GRANDPARENT)
        }
        chosen = {"numbers of rows": [(i, i) for i in at[COUNT]]}
        chosen |= {role: [(i, j) for i in at[OWN] for j in at[role]] for role in (PARENT, GRANDPARENT)}
        chosen["numbers of rows given columns"] = [(i, j) for i in at[COUNT] for j in (*at[OWN], *at[PARENT])]
        if not any(chosen.values()):
            continue
        tvd, _ = coded.pairwise()
        for what, pairs in chosen.items():
            if pairs:
                mean = tvd[:, 0][:, [i for i, _ in pairs], [j for _, j in pairs]].mean(axis=1)
                compared.append(Compared(name, what, len(pairs), *map(float, mean[[SYNTHETIC, FRESH, SHUFFLED]])))
    frames = {name: Table.of(table).frame() for name, table in synthetic.items()}
    attack = unit_attack(sides) if attacks else {}
    return RelatedEvaluation(valid_keys(frames, keys), tuple(compared), attack)


def unit_attack(sides: Mapping[str, tuple[Tables, Any]]) -> dict[str, tuple[float, float, float]]:
    """The membership attack on whole units: of each attack a unit's highest score over all its rows in all tables.

    Scores of tables are made alike by the mean and deviation of those of held-out units there.
    """
    scores: dict[str, tuple[pd.Series, pd.Series]] = {}
    for tables, _ in sides.values():
        members, controls = targets_of(tables)
        frames = (tables.train, members), (tables.control, controls)
        units = [frame[UNIT].to_numpy()[targets.positions[targets.first]] for frame, targets in frames]
        for attack, of_sides in scored(tables).items():
            mean, deviation = float(of_sides[1].mean()), float(of_sides[1].std()) or 1.0
            alike = [pd.Series((s - mean) / deviation, index=u) for s, u in zip(of_sides, units, strict=True)]
            before = scores.get(attack, (pd.Series(dtype=float), pd.Series(dtype=float)))
            both = (pd.concat([a, b]).groupby(level=0).max() for a, b in zip(before, alike, strict=True))
            scores[attack] = next(both), next(both)
    by_attack = {name: (a.to_numpy(), b.to_numpy()) for name, (a, b) in scores.items()}
    result = {}
    for name, rate in (("AUC of the attack on units", AREA), (f"units found at {RATE:.0%} false alarms", RATE)):
        parts = [half.scores(by_attack) for half in parts_for(rate, by_attack)]
        result[name] = area(parts) if rate == AREA else true_positive_rate(parts, rate)
    return result

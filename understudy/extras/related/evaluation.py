"""Synthetic related tables beside real ones: keys, numbers of rows, dependence across relations, attacks on units.

Each table is looked at with the columns of its parents and their parents beside its own, by the engine and the measures
of one table. A fresh real sample of units says what distance chance comes to.
"""

import hashlib
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.options import EvaluationOptions
from evaluate.privacy.membership import AREA, area, parts_for, true_positive_rate
from evaluate.privacy.membership_attacks import scored, targets_of
from evaluate.privacy.pii import expected, likenesses, too_many
from evaluate.result import EvaluationError
from evaluate.tables import Real, Tables
from evaluate.text import listed
from synth.errors import SchemaError, TableError, TableNote, nearest
from synth.generators.fit import check_seed
from synth.infer import infer_schema
from synth.schema import Schema
from synth.schema.residual_schema import free_name
from understudy.extras.related.keys import (
    ForeignKey,
    Keys,
    Positions,
    candidates,
    check_columns,
    check_kept,
    comparable,
    followed,
    hidden_columns,
    made_anew,
    positions,
    repeats,
    sources_of,
    taken,
)
from understudy.extras.related.walk import labels

UNIT = "unit of privacy"
NAMES = {"kind": "identifier", "bounds": (0, 2**53)}  # of rows: numbers that mean nothing
OTHERS = 2**50  # numbers of synthetic units begin here
OWN, COUNT, PARENT, GRANDPARENT = "own", "count", "parents", "grandparents"
N_BINS, AT_ONCE = 16, 500  # of a number of a unit, and units that are compared at a time
MOST_UNITS = 20_000  # synthetic units that are searched
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

    @property
    def words(self) -> str:
        pairs = f"{self.n} pair{'s' * (self.n != 1)} of its own columns and its {self.what}'"
        return f"{self.what} ({self.n})" if self.what.startswith("numbers") else pairs


@dataclass(frozen=True)
class Source:
    """The origin of a column of joined rows: whose it is, and what it is called there."""

    role: str
    table: str
    column: str


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


def real_keys(
    real: Sequence[Mapping[str, pd.DataFrame]], synthetic: Mapping[str, pd.DataFrame], keys: Keys,
    schemas: Mapping[str, Schema],
) -> dict[str, float]:  # fmt: skip
    """The share of synthetic keys that are real ones, of keys made anew; 0 where chance explains them."""
    result = {}
    for name, schema in schemas.items():
        for key in made_anew(keys, name):
            cells = [pd.concat([s[name][key] for s in sides], ignore_index=True) for sides in (real, [synthetic])]
            known, drawn = (likenesses(each, "identifier") for each in cells)
            column: Any = schema.columns[key]
            if not column.is_identifier:  # as it is made anew
                kinds = {key: "identifier"}
                column = infer_schema(cells[0].to_frame(key), propose_entity=False, kinds=kinds).columns[key]
            hits = pd.Series(drawn).isin({*known.tolist()} - {None}).to_numpy()
            rng = np.random.default_rng(0)
            by_chance = expected(column, frozenset(known.tolist()) - {None}, len(drawn), rng)
            result[f"{name}: {key}"] = float(hits.mean()) if too_many(int(hits.sum()), by_chance) else 0.0
    return result


def joined(
    tables: Mapping[str, pd.DataFrame], keys: Keys, name: str, unit: str | None, keep: Collection[str] = ()
) -> tuple[pd.DataFrame, dict[str, Source]]:
    """The rows of a table with numbers of rows below, its parents' columns and theirs; and whose each of these is.
    `tables`: *Sensitive*. A row's unit is the row of the table of units that it is below, in the column `UNIT`.
    """
    frame, sources = tables[name].reset_index(drop=True), dict[str, Source]()
    columns = dict[str, pd.Series]()
    for column in _plain(frame, keys, name):
        columns[column], sources[column] = frame[column], Source(OWN, name, column)
    for child, key in keys.edges():
        if key.table == name:
            at = positions(tables[child], key.columns, frame, keys.tables[name].primary)
            count = free_name(f"rows of {child} by {'+'.join(key.columns)}", columns)
            columns[count] = pd.Series(np.bincount(at[at >= 0], minlength=len(frame)))
            sources[count] = Source(COUNT, child, count)

    def add(at: Positions, child: str, prefix: str, level: str) -> None:
        for key in keys.tables[child].foreign:
            of_child = positions(tables[child], key.columns, tables[key.table], keys.tables[key.table].primary)
            rows, start = followed(at, of_child), f"{prefix}{key.table}."
            if any(each.startswith(start) for each in columns):
                start = f"{prefix}{'+'.join(key.columns)}->{key.table}."
            for column in _plain(tables[key.table], keys, key.table):
                target = f"{start}{column}"
                cells = tables[key.table][column].reset_index(drop=True)
                columns[target], sources[target] = taken(cells, rows), Source(level, key.table, column)
            if level == PARENT:
                add(rows, key.table, start, GRANDPARENT)

    every = np.arange(len(frame))
    add(every, name, "", PARENT)
    starts = dict(zip(keys.order, np.cumsum([0, *(len(tables[each]) for each in keys.order)]), strict=False))
    units = every + starts[name]
    for table, at in above(tables, keys, name, unit, keep):
        units = np.where(at >= 0, at + starts[table], units)
    columns[UNIT] = pd.Series(units)
    return pd.DataFrame(columns), sources


def above(
    tables: Mapping[str, pd.DataFrame], keys: Keys, name: str, unit: str | None, keep: Collection[str]
) -> Iterator[tuple[str, Positions]]:
    """The tables on the way up to that of units, and the row of each that a row is below, -1 for none."""
    at = np.arange(len(tables[name]))
    for child, key in way_up(keys, name, unit, keep):
        at = followed(at, positions(tables[child], key.columns, tables[key.table], keys.tables[key.table].primary))
        yield key.table, at


def way_up(keys: Keys, name: str, unit: str | None, keep: Collection[str] = ()) -> list[tuple[str, ForeignKey]]:
    """The keys by which a row is below a row of the table of units; `None`: of the topmost one. Empty: it is not."""
    options = [] if name == unit else candidates(keys, name, keep)
    ways = [[(name, key), *way_up(keys, key.table, unit, keep)] for key in options]
    return next((way for way in ways if unit is None or way[-1][1].table == unit), [])


def unit_of(keys: Keys, unit: str | None, keep: Collection[str] = ()) -> str:
    """The table whose rows are units: the one that is named, or else the only one that is below none."""
    roots = [name for name in keys.order if name not in keep and not candidates(keys, name, keep)]
    if not roots:
        raise SchemaError("keep names every table, so that no row is a unit; name public lookup tables alone")
    if unit is None and len(roots) > 1:
        raise SchemaError(f"tables={listed(roots)} are below none; set unit to the table whose rows are people")
    if unit is not None and unit not in [*keys.tables]:
        raise SchemaError(f"unit={unit!r} is not a table; {nearest(str(unit), keys.tables)}")
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
    sources, keys = sources_of(tables), Keys.of(keys)
    frames = {name: source.frame() for name, source in sources.items()}
    check_seed(seed)
    check_kept(keys, keep)
    check_columns(frames, keys)
    table = unit_of(keys, unit, keep)
    if not isinstance(holdout_share, float) or not 0 < holdout_share < 1 or not keys.tables[table].primary:
        raise SchemaError(f"a split needs 0 < holdout_share={holdout_share} < 1, and a primary key of unit={table!r}")
    bound = int(holdout_share * 2**64).to_bytes(8, "big")

    def held_out(name: str) -> np.ndarray:
        """Flags of rows by their own keys; shape (n,)."""
        primary = keys.tables[name].primary
        names = labels(pd.DataFrame({c: comparable(frames[name][c]).astype(object) for c in primary}), primary)
        texts = (f"understudy.split {seed}\n{each}".encode() for each in names)
        return np.array([hashlib.md5(text, usedforsecurity=False).digest() < bound for text in texts], dtype=bool)

    own = {name: held_out(name) for name in keys.order if keys.tables[name].primary}
    if own[table].all() or not own[table].any():
        raise TableError(
            f"holdout_share={holdout_share} leaves no row of unit={table!r} on one side; use a larger table or another "
            "share"
        )
    sides: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, source in sources.items():
        if name != table and not way_up(keys, name, table, keep):
            sides[0][name] = sides[1][name] = source.back(frames[name])
            continue
        inside = own.get(name, np.zeros(len(frames[name]), dtype=bool))  # of rows that are below none
        for parent, at in above(frames, keys, name, table, keep):
            inside = np.where(at >= 0, own[parent][at], inside)
        for side, kept in zip(sides, (~inside, inside), strict=True):
            side[name] = source.back(frames[name][kept].reset_index(drop=True))
    return sides


def _plain(frame: pd.DataFrame, keys: Keys, name: str) -> list[str]:
    hidden = hidden_columns(keys, name)
    return [c for c in map(str, frame) if c not in hidden]


@dataclass(frozen=True)
class Units:
    """The table whose rows are units, `None` for the topmost ones, and what a joined table calls their column."""

    keys: Keys
    table: str | None
    keep: Collection[str] = ()
    column: str = UNIT

    @property
    def tables(self) -> list[str]:
        """Those of units and below."""
        drawn = (name for name in self.keys.order if name not in self.keep)
        return [n for n in drawn if self.table in (None, n) or way_up(self.keys, n, self.table, self.keep)]

    def joined(self, tables: Mapping[str, pd.DataFrame], name: str) -> tuple[pd.DataFrame, dict[str, Source]]:
        frame, sources = joined(tables, self.keys, name, self.table, self.keep)
        return frame.rename(columns={UNIT: self.column}), sources


SchemaOf = Callable[[str, pd.DataFrame, Mapping[str, Source]], Schema | None]


@dataclass(frozen=True)
class RealTables:
    """The real side of each table of units and below, joined, for any number of sets of synthetic ones. *Sensitive*."""

    units: Units
    reals: Mapping[str, Real]
    unmeasured: Mapping[str, str]  # tables that are not measured, and why
    sources: Mapping[str, Mapping[str, Source]]

    @classmethod
    def prepare(
        cls, train: Mapping[str, pd.DataFrame], holdout: Mapping[str, pd.DataFrame], units: Units,
        options: EvaluationOptions, schema_of: SchemaOf | None = None,
    ) -> Self:  # fmt: skip
        """`schema_of` gives the schema of a joined table; left out: it is inferred."""
        rng, schema_of = np.random.default_rng(0), schema_of or _inferred
        result = cls(units, reals := {}, unmeasured := {}, sources := {})
        most = sum(map(len, train.values()))
        is_control = rng.random(most + sum(map(len, holdout.values()))) < 0.5  # of units, in all tables alike
        for name in units.tables:
            (known, of), (fresh, _) = units.joined(train, name), units.joined(holdout, name)
            fresh[units.column] += most
            if (schema := schema_of(name, pd.concat([known, fresh], ignore_index=True), of)) is None:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableNote)
                try:
                    real = Real.prepare(known[list(schema.kept)], fresh[list(schema.kept)], schema, options)
                except EvaluationError as error:
                    unmeasured[name] = str(error)
                    continue
            other = is_control[real.holdout[units.column].to_numpy(dtype=np.int64)]
            halves = {"fresh": real.holdout[~other], "control": real.holdout[other]}
            reals[name] = replace(real, **{half: rows.reset_index(drop=True) for half, rows in halves.items()})
            sources[name] = of
        return result

    def beside(self, synthetic: Mapping[str, pd.DataFrame]) -> dict[str, Tables]:
        return {name: real.beside(self.rows(synthetic, name)) for name, real in self.reals.items()}

    def rows(self, synthetic: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
        """The rows of a synthetic table, joined, with the columns that are measured."""
        rows = self.units.joined(synthetic, name)[0][list(self.reals[name].declared.kept)]
        return rows.assign(**{self.units.column: rows[self.units.column] + OTHERS})  # no unit is a real one


def _inferred(name: str, frame: pd.DataFrame, sources: Mapping[str, Source]) -> Schema | None:
    schema = infer_schema(frame.drop(columns=UNIT), propose_entity=False, constraints=False)
    if not schema.learned:
        return None
    kept = {
        n: c.model_copy(update={"modeled": None, "missing": True}) for n, c in schema.columns.items() if c.is_learned
    }
    return Schema.model_validate({**dict(schema), "entity": UNIT, "columns": {UNIT: NAMES, **kept}, "constraints": ()})


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
    check_kept(keys, keep)
    unit = unit_of(keys, unit, keep) if attacks or unit is not None else None
    frames = list[dict[str, pd.DataFrame]]()
    for what, side in (("train", train), ("holdout", holdout), ("synthetic tables", synthetic)):
        frames.append({name: table.frame() for name, table in sources_of(side, what).items()})
        check_columns(frames[-1], keys)
    known, fresh, drawn = frames
    reals = RealTables.prepare(known, fresh, Units(keys, unit, keep), EvaluationOptions(outside="clamp"))
    for name, why in reals.unmeasured.items():
        raise EvaluationError(f"{name}: {why}")
    sides = reals.beside(drawn)
    attack = unit_attack(sides) if attacks else {}
    return RelatedEvaluation(valid_keys(drawn, keys), compared(sides, reals.sources), attack)


def compared(sides: Mapping[str, Tables], sources: Mapping[str, Mapping[str, Source]]) -> tuple[Compared, ...]:
    result = list[Compared]()
    for name, tables in sides.items():
        coded = EncodedSamples.of(tables, Samples.draw(tables))
        at = {
            role: [i for i, c in enumerate(coded.columns) if c in sources[name] and sources[name][c].role == role]
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
                result.append(Compared(name, what, len(pairs), *map(float, mean[[SYNTHETIC, FRESH, SHUFFLED]])))
    return tuple(result)


def unit_attack(sides: Mapping[str, Tables], entity: str = UNIT) -> dict[str, tuple[float, float, float]]:
    """The membership attack on whole units: of each attack a unit's highest score over all its rows in all tables.

    Scores of tables are made alike by the mean and deviation of those of held-out units there. One more attack looks
    at all rows of a unit together: how near the synthetic unit is that is most like it.
    """
    scores: dict[str, tuple[pd.Series, pd.Series]] = {}
    for tables in sides.values():
        members, controls = targets_of(tables)
        frames = (tables.train, members), (tables.control, controls)
        units = [frame[entity].to_numpy()[targets.positions[targets.first]] for frame, targets in frames]
        for attack, of_sides in scored(tables).items():
            mean, deviation = float(of_sides[1].mean()), float(of_sides[1].std()) or 1.0
            alike = [pd.Series((s - mean) / deviation, index=u) for s, u in zip(of_sides, units, strict=True)]
            before = scores.get(attack, (pd.Series(dtype=float), pd.Series(dtype=float)))
            both = (pd.concat([a, b]).groupby(level=0).max() for a, b in zip(before, alike, strict=True))
            scores[attack] = next(both), next(both)
    by_attack = {name: (a.to_numpy(), b.to_numpy()) for name, (a, b) in scores.items()}
    first = next(iter(scores.values()))
    by_attack["whole units"] = nearness(sides, entity, (first[0].index, first[1].index))
    result = {}
    for name, rate in (("AUC of the attack on units", AREA), (f"units found at {RATE:.0%} false alarms", RATE)):
        parts = [half.scores(by_attack) for half in parts_for(rate, by_attack)]
        result[name] = area(parts) if rate == AREA else true_positive_rate(parts, rate)
    return result


def nearness(sides: Mapping[str, Tables], entity: str, units: tuple[pd.Index, pd.Index]) -> tuple[Any, Any]:
    """How near the synthetic unit is that is most like each of some members and controls, beside other real ones.

    A unit is described by its numbers of rows of each kind: of each value of a column, and of each whole row.
    *Sensitive*.
    """
    kinds, owners, side_of = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    n_kinds, names = 0, ("train", "control", "fresh", "synthetic")
    for tables in sides.values():
        frames = [getattr(tables, side) for side in names]
        owner = np.concatenate([frame[entity].to_numpy(dtype=np.int64) for frame in frames])
        of_side = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
        whole = np.zeros(len(owner), dtype=np.int64)
        for column in tables.schema.learned:
            cells = pd.concat([frame[column] for frame in frames], ignore_index=True)
            codes = _codes(cells, int(of_side.searchsorted(1)))
            whole = np.unique(whole * (int(codes.max(initial=0)) + 2) + codes + 1, return_inverse=True)[1]
            kinds.append(codes + 1 + n_kinds)
            n_kinds += int(codes.max(initial=0)) + 2
        kinds.append(whole + n_kinds)
        n_kinds += int(whole.max(initial=0)) + 1
        owners += [owner] * (len(tables.schema.learned) + 1)
        side_of += [of_side] * (len(tables.schema.learned) + 1)
    every, at = np.unique(np.concatenate(owners), return_inverse=True)
    counts = sparse.csr_matrix((np.ones(len(at)), (at, np.concatenate(kinds))), shape=(len(every), n_kinds))
    among = [np.unique(at[np.concatenate(side_of) == side]) for side in range(len(names))]
    squares = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()

    def nearest(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        result = np.empty(len(rows))
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            products = (counts[part] @ counts[others].T).toarray()
            result[start : start + AT_ONCE] = (squares[part, None] + squares[others] - 2 * products).min(axis=1)
        return np.sqrt(np.maximum(result, 0))

    rng, drawn = np.random.default_rng(0), among[3][:MOST_UNITS]
    fresh = among[2]
    if len(among[3]) > MOST_UNITS:
        drawn = rng.choice(among[3], MOST_UNITS, replace=False)
    scores = []
    for wanted in units:
        rows = every.searchsorted(wanted.to_numpy(dtype=np.int64))
        scores.append(nearest(rows, fresh) - nearest(rows, drawn))
    return scores[0], scores[1]


def _codes(cells: pd.Series, n_train: int) -> np.ndarray:
    """Codes of cells: categories, or numbers and times among quantiles of training rows; -1 where missing."""
    values = pd.to_numeric(cells.rank(method="dense")) if not pd.api.types.is_object_dtype(cells.dtype) else None
    if values is None or pd.api.types.is_bool_dtype(cells.dtype) or cells.nunique() <= N_BINS:
        return np.asarray(pd.factorize(cells)[0])
    edges = np.unique(values.iloc[:n_train].dropna().quantile(np.linspace(0, 1, N_BINS + 1)[1:-1]))
    return np.where(values.isna(), -1, edges.searchsorted(values.to_numpy(dtype=np.float64), side="right"))

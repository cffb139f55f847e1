"""Quasi-identifiers: people who are alone with theirs, and whose combination stands in the synthetic table.

The attacker knows a target's quasi-identifiers (an age, a sex, a place) and that the target was in the training table.
They look the combination up in the synthetic table, and win where it stands there: of somebody who is the only one with
it, the rest of that row may be the truth. A synthetic table also holds combinations that real people have by chance,
and the more of them, the fewer columns there are. So the same is counted of control rows.

People who share a combination are an equivalence class (`EquivalenceClasses`). Whether somebody is alone depends on the
number of people they are among. A training row is compared with all training rows but itself, and a control row with as
many: all training rows but one. What is left is whether the row was seen. It does not show what else of the row is
right, which is for attribute inference to say.

Where tables are stored, all training rows and all synthetic rows are counted there, by keys of the combinations alone.
Control rows are those of the sample of the holdout, each among all training rows: a sample of people, not of the class
that they are in.

Training rows that are alone are the combinations that occur once, and control rows that are alone are drawn from the
mass of what never occurs; luck that makes one larger makes the other smaller. The variance of their difference is that
of a rate over the combinations that occur once, and twice as much for each that occurs twice (Robbins 1968). The mass
of what never occurs may lie in few combinations, which several control rows then share: these count as one.

Source: Sweeney 2002, "k-anonymity: a model for protecting privacy"; Good 1953, "The population frequencies of species
and the estimation of population parameters"; Robbins 1968, "Estimating the total probability of the unobserved outcomes
of an experiment", for the variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis.expr.types as ir
import numpy as np

from evaluate.intervals import Rate, design_effect_of_units, newcombe, wilson
from evaluate.metrics import ALONE, Metric
from evaluate.privacy.experiment import detectable_advantage
from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, learned_keys, one_per_entity, side_seed
from evaluate.stored.keys import N, brought
from evaluate.stored.tables import StoredSides, StoredTables
from evaluate.tables import MetricResult, Tables
from synth.row_hash import DIGITS
from synth.schema import Schema
from synth.stored import StoredTable
from synth.stored.connection import StorageLocation
from synth.stored.row_hash import KEY, POSITION, TICKET, TIE, ticketed, with_keys

METRICS = (
    Metric("privacy.quasi_identifiers", "lower", "Matched quasi-identifiers",
           "Share of people, alone with their quasi-identifiers, whose combination stands in the synthetic table.",
           describes="honest rows match, too; name 'privacy.quasi_identifiers.excess'"),
    Metric("privacy.quasi_identifiers.excess", "lower", "Matched quasi-identifiers beyond chance",
           "The same, minus the share of people who were not used.", counted=ALONE, attack="always",
           criteria=("singling out", "identifiability",)),
)  # fmt: skip


@dataclass(frozen=True)
class EquivalenceClasses:
    """Equivalence classes of quasi-identifiers, and their people in the synthetic table. *Sensitive*.

    Attributes:
        sizes: people with one combination, among as many as there are training rows, each one of those who are looked
            at included; shape (k,).
        people: how many of those who are looked at have it, shape (k,).
        matched: whether a synthetic row has it, shape (k,), boolean.
        times: how many combinations are alike in all this, shape (k,).
    """

    sizes: np.ndarray
    people: np.ndarray
    matched: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, n_others: np.ndarray, matched: np.ndarray) -> "EquivalenceClasses":
        """People by the keys of their combinations, with how many others have the same, and whether it is matched."""
        _, first, people = np.unique(keys, return_index=True, return_counts=True)
        return cls(n_others[first] + 1, people, matched[first], np.ones_like(people))

    @classmethod
    def of_members(cls, sizes: np.ndarray, matched: np.ndarray, times: np.ndarray) -> "EquivalenceClasses":
        """People who are all looked at, by how many have a combination and how many combinations these are."""
        return cls(sizes, sizes, matched, times)

    def of_size(self, least: int, most: int) -> "EquivalenceClasses":
        """The people who are in a crowd of that size."""
        found = (self.sizes >= least) & (self.sizes <= most)
        return EquivalenceClasses(self.sizes[found], self.people[found], self.matched[found], self.times[found])

    def __len__(self) -> int:
        return int((self.people * self.times).sum())

    @property
    def n_matched(self) -> int:
        """People whose combination stands in the synthetic table."""
        return int((self.people * self.times)[self.matched].sum())

    @property
    def rate(self) -> Rate:
        """Their share, with its interval: people who share a combination are matched together."""
        return wilson(self.n_matched / len(self), self.n_independent)

    @property
    def n_independent(self) -> float:
        """Effective number of independent people."""
        return len(self) / design_effect_of_units(self.people, self.people * self.matched, self.times)


def of_combinations(schema: Schema, columns: Sequence[str]) -> Schema:
    """The schema of some learned columns alone, and of the entity: keys of its rows are keys of their combinations."""
    kept = {*columns, schema.entity}
    return schema.model_copy(update={"columns": {name: c for name, c in schema.columns.items() if name in kept}})


def equivalence_classes(tables: Tables, columns: Sequence[str]) -> tuple[EquivalenceClasses, EquivalenceClasses]:
    """Of training and of control rows, each among as many others; one row of each entity.

    Args:
        tables: *Sensitive*.
    """
    people = (
        tables.train.iloc[one_per_entity(tables.order("train"), tables.train, tables.schema)],
        tables.control.iloc[control_people(tables)],
    )
    schema = of_combinations(tables.schema, columns)
    # Control rows beyond as many as there are training rows would tell more of few combinations, not of more.
    train, control = (learned_keys(frame.head(len(people[0])), schema) for frame in people)
    synthetic = np.unique(learned_keys(tables.synthetic, schema))
    return (
        EquivalenceClasses.of(train, _times(train, train) - 1, np.isin(train, synthetic)),
        EquivalenceClasses.of(control, _times(control, train[:-1]), np.isin(control, synthetic)),
    )


def control_people(tables: Tables) -> np.ndarray:
    """Positions of control rows, one of each entity, in a seeded order."""
    order = drawn_order(learned_keys(tables.control, tables.schema), tables.seed)
    return one_per_entity(order, tables.control, tables.schema)


def _times(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Counts of each key among others, shape (len(keys),)."""
    ranked = np.sort(among)
    return np.asarray(ranked.searchsorted(keys, "right") - ranked.searchsorted(keys, "left"))


_RANK, _LAST, _TIMES, _THERE = "understudy_rank", "understudy_last", "times", "there"


@dataclass(frozen=True, eq=False)
class _Combinations:
    """The combinations of the training people, where they are counted.

    Attributes:
        counts: *Sensitive*. `understudy_key`, and how many people have it, `n_rows`.
        times: *Sensitive*. How many combinations so many people have.
        last: *Sensitive*. The key of whoever comes last in the seeded order.
    """

    counts: ir.Table = field(repr=False)
    times: dict[int, int] = field(repr=False)
    last: str = field(repr=False)


def stored_equivalence_classes(
    tables: Tables, stored: StoredTables, columns: Sequence[str]
) -> tuple[EquivalenceClasses, EquivalenceClasses]:
    """Of all training people and of the sampled control people; one row of each entity.

    Args:
        tables: *Sensitive*. The samples.
        stored: *Sensitive*. All rows.
    """
    sides, place = stored.real.sides, stored.real.sides.meeting_place(stored.offered)
    name = ("stored_equivalence_classes", tuple(columns), id(place.connection))
    train = sides.once(name, lambda: _trained(sides, columns, place))
    schema = of_combinations(sides.schema, columns)
    keys = with_keys(stored.offered, schema).select(KEY).distinct()
    synthetic = brought(keys, stored.offered.place, place)
    try:
        matched = _times_by_size(place, train.counts.semi_join(synthetic, KEY))
        control = _control(tables, stored, train, synthetic, place, columns)
    finally:
        place.forget(synthetic)
    sizes = np.array(sorted(train.times), dtype=np.int64)
    found, every = (np.array([times.get(int(size), 0) for size in sizes]) for times in (matched, train.times))
    whether = np.repeat([True, False], len(sizes))
    return EquivalenceClasses.of_members(np.tile(sizes, 2), whether, np.r_[found, every - found]), control


def _trained(sides: StoredSides, columns: Sequence[str], place: StorageLocation) -> _Combinations:
    table, schema = sides.train, sides.schema
    ranked = ticketed(with_keys(table, schema), side_seed(sides.seed, "train"))
    ranked = ranked.select(*schema.kept, **{_RANK: ranked[TICKET] + ranked[KEY]})
    people = with_keys(StoredTable(table.place, ranked), of_combinations(schema, columns), [_RANK])
    if schema.entity is not None:
        firsts = people.group_by(TIE).agg(**{_RANK: (people[_RANK] + people[KEY]).min()})
        people = firsts.mutate(**{KEY: firsts[_RANK].substr(2 * DIGITS, DIGITS)})
    counts = people.group_by(KEY).agg(
        **{N: people.count().cast("int64"), _LAST: people[_RANK].substr(0, 2 * DIGITS).max()}
    )  # fmt: skip
    counts = brought(counts, table.place, place)
    lasts = counts.group_by(N).agg(**{_TIMES: counts.count(), _LAST: (counts[_LAST] + counts[KEY]).max()})
    sizes, times, last = (column.to_pylist() for column in place.fetch(lasts).columns)
    return _Combinations(counts.drop(_LAST), dict(zip(sizes, times, strict=True)), max(last)[2 * DIGITS :])


def _times_by_size(place: StorageLocation, counts: ir.Table) -> dict[int, int]:
    sizes, times = place.fetch(counts.group_by(N).agg(**{_TIMES: counts.count()})).columns
    return dict(zip(sizes.to_pylist(), times.to_pylist(), strict=True))


def _control(
    tables: Tables, stored: StoredTables, train: _Combinations, synthetic: ir.Table, place: StorageLocation,
    columns: Sequence[str],
) -> EquivalenceClasses:  # fmt: skip
    """The control people, each among all training people but the last."""
    drawn, schema = stored.real.sampled_holdout, of_combinations(tables.schema, columns)
    keyed = with_keys(StoredTable(drawn.place, drawn.rows), schema, [POSITION]).select(POSITION, KEY)
    keys = brought(keyed, drawn.place, place)
    there = synthetic.select(KEY, **{_THERE: synthetic[KEY]})
    counted = keys.left_join(train.counts, KEY).select(POSITION, KEY, **{N: train.counts[N].fill_null(0)})
    both = counted.left_join(there, KEY).select(POSITION, KEY, N, **{_THERE: there[_THERE].notnull()})
    try:
        found = place.fetch(both.order_by(POSITION))
    finally:
        place.forget(keys)
    people = control_people(tables)[: sum(size * times for size, times in train.times.items())]
    at = stored.real.control_positions[people]
    names, n_others, matched = (np.asarray(found.column(i))[at] for i in (1, 2, 3))
    return EquivalenceClasses.of(names, n_others - (names == train.last), matched)


SHARE, EXCESS = "privacy.quasi_identifiers", "privacy.quasi_identifiers.excess"
CLASSES = (("1", 1, 1), ("2-4", 2, 4), ("5+", 5, 2**62))
"""Names of the classes of k-anonymity, with the fewest and the most people who share a combination."""


def measure(tables: Tables) -> MetricResult:
    """The share of people alone with their quasi-identifiers who are matched, and its excess over that of others.

    Estimates: `privacy.quasi_identifiers`, `privacy.quasi_identifiers.excess`.

    Of tables that stay where they are stored, all training rows are counted there.
    """
    columns = sorted(set(tables.schema.quasi_identifiers) & set(tables.schema.learned))
    if not columns:
        return _skipped("the schema names no quasi-identifiers that are learned; name them to have this counted")
    train, control = _equivalence_classes(tables, columns)
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    if not len(alone) or not len(reference):
        return _skipped("nobody is alone with their quasi-identifiers, among the training rows or the control rows")
    share, against = alone.rate, reference.rate
    excess = excess_of(train, control)
    listed = ", ".join(repr(name) for name in columns)
    return MetricResult(
        (
            Estimate(
                SHARE, share[0], len(alone), "lower", low=share[1], high=share[2], reference=against[0],
                note=f"share of people alone with their {listed} whose combination stands in the synthetic table",
            ),
            Estimate(
                EXCESS, excess[0], len(alone) + len(reference), "lower", low=excess[1], high=excess[2], reference=0.0,
                note="the same share, less that of people who were not used for training",
                detectable=detectable_excess(train, control),
            ),
        ),
        figures={"quasi_identifiers": {"columns": columns, "classes": _classes(train, control)}},
    )  # fmt: skip


def _equivalence_classes(tables: Tables, columns: Sequence[str]) -> tuple[EquivalenceClasses, EquivalenceClasses]:
    if tables.stored is None:
        return equivalence_classes(tables, columns)

    return stored_equivalence_classes(tables, tables.stored, columns)


def _skipped(message: str) -> MetricResult:
    return MetricResult(failures=tuple(Failure(name, "skipped", message) for name in (SHARE, EXCESS)))


def excess_of(train: EquivalenceClasses, control: EquivalenceClasses) -> Rate:
    """Excess of matched unique people of train over those of control, with the interval."""
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    members = wilson(alone.rate[0], len(alone) / dependence(train, control))
    return newcombe(members, reference.rate)


def detectable_excess(train: EquivalenceClasses, control: EquivalenceClasses) -> float:
    """The excess that would have been told from none in 80 of 100 repetitions."""
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    return detectable_advantage(reference.rate[0], len(alone) / dependence(train, control), reference.n_independent)


def dependence(train: EquivalenceClasses, control: EquivalenceClasses) -> float:
    """Design effect of combinations that occur once, since others occur twice by the same luck."""
    alone, pairs = train.of_size(1, 1), train.of_size(2, 2)
    others = control.of_size(1, 1)
    share = (alone.n_matched + others.n_matched) / (len(alone) + len(others))
    spread = share * (1 - share)
    if not len(pairs):
        return 1.0
    # Both people of a pair are counted, which makes the sum twice that over combinations.
    matched = pairs.rate[0]
    of_pairs = (matched * (1 - share) ** 2 + (1 - matched) * share**2) / spread if spread else 1.0
    return 1.0 + of_pairs * len(pairs) / len(alone)


def _classes(train: EquivalenceClasses, control: EquivalenceClasses) -> list[dict[str, Any]]:
    """Of each class of k-anonymity, how many people there are on either side and how many of them are matched."""
    found = []
    for name, least, most in CLASSES:
        ours, theirs = train.of_size(least, most), control.of_size(least, most)
        counts = {"train": len(ours), "train_matched": ours.n_matched}
        found.append({"k": name, **counts, "control": len(theirs), "control_matched": theirs.n_matched})
    return found

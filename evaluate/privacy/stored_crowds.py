"""People by how many share their quasi-identifiers, counted where the tables are stored.

All training rows and all synthetic rows are counted, by keys of the combinations alone. Control rows are those of the
sample of the holdout, each among all training rows: a sample of people, not of the crowd that they are in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import ibis.expr.types as ir
import numpy as np

from evaluate.privacy.crowds import Crowds, control_people, of_combinations
from evaluate.sides import side_seed
from evaluate.stored.keys import N, brought
from evaluate.stored.sides import StoredSides
from evaluate.stored.tables import StoredTables
from evaluate.tables import Tables
from synth.row_hash import DIGITS
from synth.stored import StoredTable
from synth.stored.connection import Place
from synth.stored.drawing import POSITION, TICKET, ticketed
from synth.stored.row_hash import KEY, TIE, with_keys

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


def crowds(tables: Tables, stored: StoredTables, columns: Sequence[str]) -> tuple[Crowds, Crowds]:
    """Of all training people and of the sampled control people; one row of each entity.

    Args:
        tables: *Sensitive*. The samples.
        stored: *Sensitive*. All rows.
        columns: quasi-identifiers, at least one.
    """
    sides, place = stored.real.sides, stored.real.sides.meeting_place(stored.offered)
    name = ("crowds", tuple(columns), id(place.connection))
    train = sides.once(name, lambda: _trained(sides, columns, place))
    schema = of_combinations(sides.schema, columns)
    keys = with_keys(stored.offered, schema).select(KEY).distinct()
    synthetic = brought(keys, stored.offered.place, place)
    try:
        matched = _times(place, train.counts.semi_join(synthetic, KEY))
        control = _control(tables, stored, train, synthetic, place, columns)
    finally:
        place.forget(synthetic)
    sizes = np.array(sorted(train.times), dtype=np.int64)
    found, every = (np.array([times.get(int(size), 0) for size in sizes]) for times in (matched, train.times))
    whether = np.repeat([True, False], len(sizes))
    return Crowds.of_members(np.tile(sizes, 2), whether, np.r_[found, every - found]), control


def _trained(sides: StoredSides, columns: Sequence[str], place: Place) -> _Combinations:
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


def _times(place: Place, counts: ir.Table) -> dict[int, int]:
    sizes, times = place.fetch(counts.group_by(N).agg(**{_TIMES: counts.count()})).columns
    return dict(zip(sizes.to_pylist(), times.to_pylist(), strict=True))


def _control(
    tables: Tables, stored: StoredTables, train: _Combinations, synthetic: ir.Table, place: Place,
    columns: Sequence[str],
) -> Crowds:  # fmt: skip
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
    return Crowds.of(names, n_others - (names == train.last), matched)

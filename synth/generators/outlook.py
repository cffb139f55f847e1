"""What a private fit will come to, from public facts alone: noise in a column, in a pair, in a triple, time and memory.

Noise alone, before anything smooths it: the estimation fits all measurements at once, keeps counts above zero, and the
mechanisms pass over marginals that noise would fill, so that a model is as a rule closer to the table than the noise of
a typical pair. What is left out of a model, and what is lost within a code, is not in these figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import Discretizer
from synth.domain.coarsening import has_coarse_codes
from synth.dp.events import Event, GaussianEvent
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.generators.aim import Aim
from synth.generators.costs import Work, cost_of
from synth.generators.independent import Independent
from synth.generators.latent_class import BEYOND_CODES, LatentClass, has_order
from synth.generators.mst import Mst
from synth.generators.one_way import COLUMNS
from synth.generators.overhead import SIZES, domain_shares
from synth.generators.search import CELLS_A_MB
from synth.marginals.measurement import MEAN_ABSOLUTE
from synth.schema import Schema

Planned = Independent | Mst | Aim | LatentClass
"""The generators whose outlook is known before a fit."""
ASSUMED_CATEGORIES = 20
"""Categories that a column whose list is not declared is taken to have."""
_LISTED_COLUMNS = 40
"""Columns that triples are looked for among; of a wider table an even selection stands for all."""


@dataclass(frozen=True)
class Noise:
    """What noise alone does to one marginal.

    Attributes:
        codes: of each of its columns.
        sigma: standard deviation of the noise of a cell, in rows.
        error: expected total variation that it causes, at most 1.
    """

    codes: tuple[int, ...]
    sigma: float
    error: float


@dataclass(frozen=True)
class Outlook:
    """What one private fit will come to.

    Attributes:
        generator: its name.
        epsilon: that the schedule claims.
        delta: of the guarantee.
        n_rows: rows that the fit is taken to see, a public number.
        sizes: codes of each modeled column, about.
        columns: expected total variation of each modeled column.
        tree: the median pair of the spanning tree with the fewest cells; none where no pair is measured.
        pair: the median pair of those that may be measured; none where no pair is.
        triple: the median triple of those that may be measured; none where no triple is.
        n_marginals: pairs and triples that are measured.
        seconds: of one core.
        memory_mb: at most about.
        assumed: columns whose domain is not declared, so that it is assumed here.
    """

    generator: str
    epsilon: float
    delta: float
    n_rows: int
    sizes: Mapping[str, int]
    columns: Mapping[str, float]
    tree: Noise | None
    pair: Noise | None
    triple: Noise | None
    n_marginals: int
    seconds: float
    memory_mb: float
    assumed: tuple[str, ...]

    @property
    def column(self) -> float:
        """Mean over the columns of the total variation that noise causes."""
        return float(np.mean(list(self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        """The outlook as plain data."""
        return {**asdict(self), "column": self.column}


def outlook(
    generator: Planned, schema: Schema, *, schedule: Schedule | None = None, train_share: float = 1.0
) -> Outlook:
    """What a fit under this schema will come to. Reads no row.

    Args:
        generator: with an epsilon.
        schema: declared, with n_units.
        schedule: that the generator gave for this schema; none: it is asked for one, which takes a second or so.
        train_share: of the units that the fit sees, in (0, 1]; a job holds the others back.

    Raises:
        BudgetError: the generator has no epsilon, the schema is not declared, or the budget leaves no room.
        SchemaError: the schema rules the fit out.
    """
    schedule = generator.schedule(schema) if schedule is None else schedule
    if schedule is None:
        raise BudgetError(
            f"an outlook needs an epsilon: generator={generator.name!r} has none; set one such as epsilon=1.0"
        )
    assert schema.n_units is not None
    n_rows = max(round(schema.n_units * train_share), 1)
    cells, sizes = _domain(generator, schema)
    one_way, marginals = _measured(schedule, schema)
    sigma = _median_sigma(marginals)
    n_marginals = sum(event.count for event in marginals)
    coarse = _coarse(generator, schema, sizes)
    pairs = _allowed(generator, _combinations_of(coarse, 2)) if n_marginals else []
    listed = _combinations_of(coarse, 3) if n_marginals and _degree(generator) > 2 else []
    triples = _allowed(generator, listed)
    n_triples = math.comb(len(sizes), 3) * len(triples) / max(len(listed), 1)
    n_refined = sum(coarse[name] < sizes[name] for name in sizes)
    n_coarse = sum(coarse.values())
    n_counted = n_rows * len(schema.spikes_measured)  # every value of such a column may be another one
    work = Work(n_rows, cells, sizes, n_marginals, pairs, triples, n_triples, n_refined, n_counted, n_coarse)
    spent = cost_of(generator, len(schedule.events), work)
    return Outlook(
        generator=generator.name,
        epsilon=schedule.epsilon,
        delta=schedule.delta,
        n_rows=n_rows,
        sizes=sizes,
        columns={name: _column_error(one_way.sigma, sizes[name], cells[name], n_rows) for name in sizes},
        tree=_noise(_median(_smallest_tree(coarse)) if n_marginals else None, sigma, n_rows),
        pair=_noise(_median(pairs), sigma, n_rows),
        triple=_noise(_median(triples), sigma, n_rows),
        n_marginals=n_marginals,
        seconds=spent.seconds,
        memory_mb=spent.memory_mb,
        assumed=schema.measured,
    )


def assumed(schema: Schema) -> Schema:
    """The schema with a domain for every column that is to be measured: so many categories, or the widest bounds.

    Measured bounds give a grid of as many cells as declared ones that are wide. No value is taken to be frequent.
    """
    texts = tuple(str(number) for number in range(ASSUMED_CATEGORIES))
    filled: dict[str, Any] = {}
    for name in schema.measured:
        listed = {"categories": texts} if isinstance(schema.columns[name], CategoricalColumn) else {}
        filled[name] = schema.columns[name].model_copy(update={"measure": False, **listed})
    for name in schema.spikes_measured:
        filled[name] = filled.get(name, schema.columns[name]).model_copy(update={"measure_spikes": False})
    return schema.model_copy(update={"columns": {**schema.columns, **filled}})


def _combinations_of(sizes: Mapping[str, int], degree: int) -> list[tuple[int, ...]]:
    """The codes of every marginal of a degree, over an even selection of the columns where there are many."""
    codes = sorted(sizes.values(), reverse=True)
    if degree > 2 and len(codes) > _LISTED_COLUMNS:
        codes = [codes[i] for i in np.linspace(0, len(codes) - 1, _LISTED_COLUMNS).round().astype(int)]
    return list(combinations(codes, degree))


def _domain(generator: Planned, schema: Schema) -> tuple[dict[str, int], dict[str, int]]:
    """Fine cells and codes of each column: numbers and times are merged into about `n_bins`."""
    cells, sizes = {}, {}
    for attribute in Discretizer.by_schema(assumed(schema)).attributes:
        merged = attribute.edges is not None and not getattr(attribute.column, "bins", ())
        limit = generator.n_bins + BEYOND_CODES if merged else attribute.size
        cells[attribute.name], sizes[attribute.name] = attribute.n_cells, min(attribute.size, limit)
    return cells, sizes


def _coarse(generator: Planned, schema: Schema, sizes: Mapping[str, int]) -> dict[str, int]:
    """Codes by which larger marginals count each column: coarse ones where the generator has them."""
    if isinstance(generator, LatentClass):
        return _coarsest(generator, schema, sizes)
    n_coarse = generator.coarse_codes if isinstance(generator, Aim) else 0
    coarse = dict(sizes)
    for name, size in sizes.items():
        is_line = not isinstance(schema.columns[name], CategoricalColumn | BooleanColumn)
        if n_coarse and is_line and has_coarse_codes(size - BEYOND_CODES, n_coarse):
            coarse[name] = n_coarse + BEYOND_CODES
    return coarse


def _coarsest(generator: LatentClass, schema: Schema, sizes: Mapping[str, int]) -> dict[str, int]:
    """Codes by which all pairs count each column."""
    n_groups, n_categories = generator.n_groups(schema), generator.n_categories(schema, sizes)
    return {
        name: min(size, BEYOND_CODES + (n_groups[name] if has_order(schema.columns[name]) else n_categories))
        for name, size in sizes.items()
    }


def _measured(schedule: Schedule, schema: Schema) -> tuple[GaussianEvent, list[GaussianEvent]]:
    """The event of the columns, and those of larger marginals."""
    beside = {SIZES, *domain_shares(schema)}
    events: list[Event] = [event for event in schedule.events if event.what not in beside]
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    one_way = next(event for event in gaussian if event.what == COLUMNS)
    return one_way, [event for event in gaussian if event is not one_way]


def _median_sigma(events: Sequence[GaussianEvent]) -> float:
    """Noise of the middle release; 0 where there is none."""
    return float(np.median(np.repeat([e.sigma for e in events], [e.count for e in events]))) if events else 0.0


def _degree(generator: Planned) -> int:
    if isinstance(generator, LatentClass):
        return 3 if generator.rounds != 0 else 2
    return generator.degree if isinstance(generator, Aim) else 2


def _allowed(generator: Planned, marginals: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those that a generator's limits on cells let it measure."""
    if isinstance(generator, Independent):
        return []
    if isinstance(generator, LatentClass):
        return [codes for codes in marginals if len(codes) == 2 or math.prod(codes) <= generator.max_cells]
    limit = min(generator.max_cells, generator.max_model_mb * CELLS_A_MB)
    return [codes for codes in marginals if math.prod(codes) <= limit]


def _smallest_tree(sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The pairs of the spanning tree with the fewest cells: every column with the smallest one."""
    smallest, *others = sorted(sizes.values())
    return [(other, smallest) for other in others]


def _median(marginals: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The marginal in the middle by cells; none of none."""
    return sorted(marginals, key=lambda codes: (math.prod(codes), codes))[len(marginals) // 2] if marginals else None


def _noise(codes: tuple[int, ...] | None, sigma: float, n_rows: int) -> Noise | None:
    return None if codes is None else Noise(codes, sigma, _error(sigma * math.prod(codes), n_rows))


def _error(total_sigma: float, n_rows: int) -> float:
    """Half of the expected absolute noise over all cells, as a share of the rows; at most 1."""
    return min(MEAN_ABSOLUTE * total_sigma / (2 * n_rows), 1.0)


def _column_error(sigma: float, size: int, n_cells: int, n_rows: int) -> float:
    """The noise of a column's codes, each the sum of the fine cells it is made of: at most as if all had as many."""
    return _error(sigma * math.sqrt(size * n_cells), n_rows)

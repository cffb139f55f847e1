"""The forecast of a private fit, from public facts alone: noise in a column, a pair and a triple, time and memory.

The errors are those of noise alone, before anything smooths it. The estimation fits all measurements at once, keeps
counts above zero, and the mechanisms pass over marginals that noise would fill. So a model is as a rule closer to the
table than the noise of a typical pair. What is left out of a model, and what is lost within a code, is not in these
figures.

The costs are a model of few constants, each measured: process time on one core of a server of 2023, without a profiler.
They are meant for the question whether a fit takes seconds, minutes or hours: expect a factor of three either way.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from synth.domain import Discretizer
from synth.domain.counts import has_coarse_codes
from synth.dp.events import Event, GaussianEvent
from synth.dp.schedule import Schedule, require_declared
from synth.errors import BudgetError, JobError
from synth.generators.aim import Aim
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.columns import COLUMNS, SIZES, domain_shares
from synth.generators.fitting.selection import (
    FOCUSED_PAIRS,
    ITERATIONS,
    LEAST_DRAWS,
    MOST_CANDIDATES,
    MOST_TRIPLES,
    OTHER_PAIRS,
)
from synth.generators.latent_class import BEYOND_CODES, N_BATCHES, N_STEPS, LatentClass, has_order
from synth.generators.marginal_generator import Independent
from synth.generators.mst import Mst
from synth.generators.wrapper import unwrapped
from synth.marginals.factor import CELLS_A_MB
from synth.marginals.measurement import MEAN_ABSOLUTE
from synth.schema import Schema

CALIBRATION_S = 0.1  # pricing one line of the books until the noise is found
LIBRARIES_S, LIBRARIES_MB = 0.5, 300.0  # loading what the first fit of a process loads
NOISE_S_A_CELL, NOISE_S_A_RELEASE = 11e-6, 220e-6
"""Discrete Gaussian noise: for each cell, and for each release."""
READING_S_A_CELL = 200e-9
"""Checking, cutting and coding one cell of the table, into fine cells and into codes."""
COUNTING_S_A_ROW = 2.7e-9  # counting one row into one marginal
CLIQUE_S, CLIQUE_S_A_CELL = 60e-6, 5e-9
"""Comparing one candidate with what the model expects: for each, and for each of its cells."""
ANSWER_S_A_COLUMN = 20e-6
"""Working out a pair of a tree that was not measured, for each column of the table."""
JUNCTION_S_A_CLIQUE = 3e-6
"""Asking how large the model would get with one more clique, for each clique it has."""
SAMPLING_S_A_CELL = 21e-9  # drawing one cell of a table from a model
STEP_S_A_CLIQUE, STEP_S_A_CELL = 24e-6, 14e-9
"""One step of the estimation: for each measurement, and for each cell of the model."""
TREE_STEPS, LAST_STEPS = 60, 250
"""Steps until the estimation of a tree comes to rest, and the last one of a larger model."""
CLASS_S_A_CODE, CLASS_S_A_CELL = 14e-9, 60e-12
"""One step of a mixture, for each class: for each code, and for each pair of coarse ones."""
CLASS_COPIES = 12  # tables of the size of a mixture that a step holds at once
FILLED = 0.5  # share of its limit that a model's size reaches as a rule
JOINED_PAIRS = 1.5  # pairs of columns that one measured marginal joins anew, as a rule
TABLE_MB_A_CELL = 60 / 1e6  # the table, its checked copy and its codes
MODEL_COPIES = 12  # tables of the model's size that an estimation holds at once
Planned = Independent | Mst | Aim | LatentClass
"""The generators whose outlook is known before a fit."""
ASSUMED_CATEGORIES = 20  # categories that a column whose list is not declared is taken to have
_LISTED_COLUMNS = 40
"""Columns that triples are looked for among; of a wider table an even selection stands for all."""


@dataclass(frozen=True)
class FitWork:
    """The work of a fit."""

    n_rows: int
    cells: Mapping[str, int]
    sizes: Mapping[str, int]
    n_marginals: int
    pairs: Sequence[tuple[int, ...]]
    triples: Sequence[tuple[int, ...]]
    n_triples: float = 0.0
    n_refined: int = 0
    n_counted: int = 0
    n_coarse: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class Cost:
    """Seconds of one core, and memory at most about."""

    seconds: float
    memory_mb: float


def cost_of(generator: PrivateGenerator, n_events: int, work: FitWork) -> Cost:
    seconds = n_events * CALIBRATION_S + LIBRARIES_S + work.n_rows * work.n_columns * READING_S_A_CELL
    n_noisy = sum(work.cells.values()) + work.n_counted
    seconds += work.n_columns * NOISE_S_A_RELEASE + n_noisy * NOISE_S_A_CELL
    memory = LIBRARIES_MB + work.n_rows * work.n_columns * TABLE_MB_A_CELL
    more = Cost(_steps_s(TREE_STEPS, work.n_columns, sum(work.sizes.values())), 0.0)
    if isinstance(generator, Aim) and work.n_marginals:
        more = _of_aim(generator, work)
    elif isinstance(generator, Mst) and work.n_marginals:
        more = _of_mst(generator, work)
    elif isinstance(generator, LatentClass) and work.n_marginals:
        more = _of_classes(generator, work)
    return Cost(seconds + more.seconds, memory + more.memory_mb)


def _of_mst(generator: Mst, work: FitWork) -> Cost:
    """Every pair scored once, a tree of them measured, one estimation."""
    per_pair = ANSWER_S_A_COLUMN * work.n_columns + COUNTING_S_A_ROW * work.n_rows + CLIQUE_S
    typical = _mean_cells(work.pairs)
    scoring = len(work.pairs) * (per_pair + CLIQUE_S_A_CELL * typical)
    tree_cells = min(work.n_marginals * typical, generator.max_model_mb * CELLS_A_MB)
    steps = _steps_s(TREE_STEPS, work.n_columns + work.n_marginals, tree_cells)
    return Cost(scoring + _noise_s(work.n_marginals, tree_cells) + steps, MODEL_COPIES * tree_cells / CELLS_A_MB)


def _of_aim(generator: Aim, work: FitWork) -> Cost:
    """In every round: candidates told from those too large, scored on drawn rows, one measured, the model estimated."""
    rounds, d = work.n_marginals, work.n_columns
    variants = 1 + work.n_refined / max(d, 1)  # of a column: by its codes, and by its coarse ones
    candidates = d + len(work.pairs) * variants**2
    if generator.degree > 2:
        listed = math.comb(d + work.n_refined, generator.degree) <= MOST_CANDIDATES
        joined = rounds / 2 * JOINED_PAIRS * d * variants
        candidates += work.n_triples * variants**3 if listed else min(joined, work.n_triples * variants**3)
    cells = _mean_cells([*work.pairs, *work.triples])
    cliques = d + rounds / 2
    if rounds < d:  # marginals that close no loop stand side by side; loops fill what room there is
        model_cells = sum(work.sizes.values()) + rounds * min(cells, _mean_cells(work.pairs))
    else:
        model_cells = min(round(FILLED * generator.max_model_mb * CELLS_A_MB), math.prod(work.sizes.values()))
    n_draws = min(max(work.n_rows, LEAST_DRAWS), generator.n_draws)
    a_candidate = JUNCTION_S_A_CLIQUE * cliques + COUNTING_S_A_ROW * n_draws + CLIQUE_S + CLIQUE_S_A_CELL * cells
    a_round = candidates * a_candidate + n_draws * d * SAMPLING_S_A_CELL
    a_round += _steps_s(ITERATIONS, cliques, model_cells / 2)
    seconds = rounds * a_round + candidates * work.n_rows * COUNTING_S_A_ROW
    seconds += _noise_s(rounds, rounds * cells) + _steps_s(LAST_STEPS, d + rounds, model_cells)
    counted = candidates * cells
    return Cost(seconds, MODEL_COPIES * generator.max_model_mb + counted / CELLS_A_MB)


def _of_classes(generator: LatentClass, work: FitWork) -> Cost:
    """All pairs measured, candidates scored before each batch, and a mixture fitted by a fixed number of steps."""
    n_codes, k = sum(work.sizes.values()), generator.n_classes
    seconds = N_STEPS * k * (n_codes * CLASS_S_A_CODE + work.n_coarse**2 * CLASS_S_A_CELL)
    candidates, cells = len(work.pairs) + min(work.n_triples, MOST_TRIPLES), _mean_cells([*work.pairs, *work.triples])
    seconds += candidates * (COUNTING_S_A_ROW * work.n_rows + CLIQUE_S_A_CELL * cells)
    seconds += N_BATCHES * candidates * (CLIQUE_S + k * cells * CLASS_S_A_CELL)
    seconds += _noise_s(work.n_marginals, len(work.pairs) * _mean_cells(work.pairs))
    floats = CLASS_COPIES * n_codes * k + 3 * work.n_coarse**2 + candidates * cells
    return Cost(seconds, floats * 4e-6)


def _mean_cells(marginals: Sequence[tuple[int, ...]]) -> float:
    return float(np.mean([math.prod(codes) for codes in marginals])) if marginals else 0.0


def _noise_s(n_releases: int, n_cells: float) -> float:
    return n_releases * NOISE_S_A_RELEASE + n_cells * NOISE_S_A_CELL


def _steps_s(n_steps: int, n_cliques: float, n_cells: float) -> float:
    return n_steps * (n_cliques * STEP_S_A_CLIQUE + n_cells * STEP_S_A_CELL)


@dataclass(frozen=True)
class MarginalNoise:
    """The error that noise alone makes in one marginal."""

    codes: tuple[int, ...]
    sigma: float
    error: float


@dataclass(frozen=True)
class Outlook:
    """The outlook of one private fit: its noise, its error and its cost."""

    generator: str
    epsilon: float
    delta: float
    n_rows: int
    sizes: Mapping[str, int]
    columns: Mapping[str, float]
    tree: MarginalNoise | None
    pair: MarginalNoise | None
    triple: MarginalNoise | None
    n_marginals: int
    seconds: float
    memory_mb: float
    assumed: tuple[str, ...]

    @property
    def column(self) -> float:
        """Mean over the columns of the total variation that noise causes."""
        return float(np.mean(list(self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "column": self.column}


def outlook(
    whole: PrivateGenerator, schema: Schema, *, schedule: Schedule | None = None, train_share: float = 1.0
) -> Outlook:
    """The outlook of a fit under this schema by a generator of `Planned`, or a wrapper around one. Reads no row."""
    schedule = whole.schedule(schema) if schedule is None else schedule
    asked, schema, generator = schema, whole.counted(schema), unwrapped(whole)
    if not isinstance(generator, Planned):
        raise JobError(f"generator={whole.name!r} has no outlook before a fit; name one on marginals")
    if schedule is None:
        raise BudgetError(
            f"an outlook needs an epsilon: generator={generator.name!r} has none; set one such as epsilon=1.0"
        )
    n_rows = max(round(require_declared(schema) * train_share), 1)
    cells, sizes = _domain(generator, schema)
    one_way, marginals = _measured(schedule, schema)
    sigma = (
        float(np.median(np.repeat([e.sigma for e in marginals], [e.count for e in marginals]))) if marginals else 0.0
    )
    n_marginals = sum(event.count for event in marginals)
    coarse = _coarse(generator, schema, sizes)
    smallest, *others = sorted(coarse.values())
    pairs = _allowed(generator, _combinations_of(coarse, 2)) if n_marginals else []
    has_triples = generator.rounds != 0 if isinstance(generator, LatentClass) else getattr(generator, "degree", 2) > 2
    listed = _combinations_of(coarse, 3) if n_marginals and has_triples else []
    triples = _allowed(generator, listed)
    n_triples = math.comb(len(sizes), 3) * len(triples) / max(len(listed), 1)
    n_refined = sum(coarse[name] < sizes[name] for name in sizes)
    n_coarse = sum(coarse.values())
    n_counted = n_rows * len(schema.spikes_measured)  # every value of such a column may be another one
    work = FitWork(n_rows, cells, sizes, n_marginals, pairs, triples, n_triples, n_refined, n_counted, n_coarse)
    spent = cost_of(generator, len(schedule.events), work)
    return Outlook(
        generator=generator.name,
        epsilon=schedule.epsilon,
        delta=schedule.delta,
        n_rows=n_rows,
        sizes=sizes,
        # A code's noise is that of the fine cells it is made of: at most as if all codes had as many. Some
        # columns are counted, and no table has them.
        columns={
            name: _error(one_way.sigma * math.sqrt(size * cells[name]), n_rows)
            for name, size in sizes.items()
            if name in asked.columns
        },
        # The spanning tree with the fewest cells: every column with the smallest one.
        tree=_noise(_median([(other, smallest) for other in others]) if n_marginals else None, sigma, n_rows),
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
        listed = {"categories": texts} if schema.columns[name].domain == "categories" else {}
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
        n_groups, n_categories = generator.n_groups(schema), generator.n_categories(schema, sizes)
        return {
            name: min(size, BEYOND_CODES + (n_groups[name] if has_order(schema.columns[name]) else n_categories))
            for name, size in sizes.items()
        }
    n_coarse = generator.coarse_codes if isinstance(generator, Aim) else 0
    coarse = dict(sizes)
    for name, size in sizes.items():
        is_line = not schema.columns[name].is_categorical
        if n_coarse and is_line and has_coarse_codes(size - BEYOND_CODES, n_coarse):
            coarse[name] = n_coarse + BEYOND_CODES
    return coarse


def _measured(schedule: Schedule, schema: Schema) -> tuple[GaussianEvent, list[GaussianEvent]]:
    """The event of the columns, in histories of first rows, and those of larger marginals."""
    beside = {SIZES, FOCUSED_PAIRS, OTHER_PAIRS, *domain_shares(schema)}
    events: list[Event] = [event for event in schedule.events if event.what not in beside]
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    one_way = [event for event in gaussian if event.what.startswith(COLUMNS)]
    return one_way[0], [event for event in gaussian if event not in one_way]


def _allowed(generator: Planned, marginals: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Marginals that a generator's limits on cells let it measure."""
    if isinstance(generator, Independent):
        return []
    if isinstance(generator, LatentClass):
        return [codes for codes in marginals if len(codes) == 2 or math.prod(codes) <= generator.max_cells]
    limit = min(generator.max_cells, generator.max_model_mb * CELLS_A_MB)
    return [codes for codes in marginals if math.prod(codes) <= limit]


def _median(marginals: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The marginal in the middle by cells; `None` of no marginals."""
    return sorted(marginals, key=lambda codes: (math.prod(codes), codes))[len(marginals) // 2] if marginals else None


def _noise(codes: tuple[int, ...] | None, sigma: float, n_rows: int) -> MarginalNoise | None:
    return None if codes is None else MarginalNoise(codes, sigma, _error(sigma * math.prod(codes), n_rows))


def _error(total_sigma: float, n_rows: int) -> float:
    """Half of the expected absolute noise over all cells, as a share of the rows; at most 1."""
    return min(MEAN_ABSOLUTE * total_sigma / (2 * n_rows), 1.0)

"""What a private fit costs in seconds of one core and in memory: a model of few constants, each measured.

The constants are process time on one core of a server of 2023, without a profiler. They are meant for the question
whether a fit takes seconds, minutes or hours: expect a factor of three either way.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synth.generators.aim import Aim
from synth.generators.base import PrivateGenerator
from synth.generators.class_search import MOST_TRIPLES
from synth.generators.latent_class import N_BATCHES, N_STEPS, LatentClass
from synth.generators.mst import Mst
from synth.generators.search import CELLS_A_MB, ITERATIONS, LEAST_DRAWS, MOST_CANDIDATES

CALIBRATION_S = 0.1
"""Pricing one line of the books until the noise is found."""
LIBRARIES_S, LIBRARIES_MB = 0.5, 300.0
"""Loading what the first fit of a process loads."""
NOISE_S_A_CELL, NOISE_S_A_RELEASE = 11e-6, 220e-6
"""Discrete Gaussian noise: for each cell, and for each release."""
READING_S_A_CELL = 200e-9
"""Checking, cutting and coding one cell of the table, into fine cells and into codes."""
COUNTING_S_A_ROW = 2.7e-9
"""Counting one row into one marginal."""
CLIQUE_S, CLIQUE_S_A_CELL = 60e-6, 5e-9
"""Comparing one candidate with what the model expects: for each, and for each of its cells."""
ANSWER_S_A_COLUMN = 20e-6
"""Working out a pair of a tree that was not measured, for each column of the table."""
JUNCTION_S_A_CLIQUE = 3e-6
"""Asking how large the model would get with one more clique, for each clique it has."""
SAMPLING_S_A_CELL = 21e-9
"""Drawing one cell of a table from a model."""
STEP_S_A_CLIQUE, STEP_S_A_CELL = 24e-6, 14e-9
"""One step of the estimation: for each measurement, and for each cell of the model."""
TREE_STEPS, LAST_STEPS = 60, 250
"""Steps until the estimation of a tree comes to rest, and the last one of a larger model."""
CLASS_S_A_CODE, CLASS_S_A_CELL = 14e-9, 60e-12
"""One step of a mixture, for each class: for each code, and for each pair of coarse ones."""
CLASS_COPIES = 12
"""Tables of the size of a mixture that a step holds at once."""
FILLED = 0.5
"""Share of its limit that a model's size reaches as a rule."""
JOINED_PAIRS = 1.5
"""Pairs of columns that one measured marginal joins anew, as a rule."""
TABLE_MB_A_CELL = 60 / 1e6
"""The table, its checked copy and its codes."""
MODEL_COPIES = 12
"""Tables of the model's size that an estimation holds at once."""


@dataclass(frozen=True)
class Work:
    """What a fit has to do.

    Attributes:
        n_rows: of the table.
        cells: fine cells of each column.
        sizes: codes of each column.
        n_marginals: larger marginals that are measured.
        pairs: codes of the pairs that may be measured.
        triples: codes of the triples that may be measured, or of a selection.
        n_triples: how many may be measured.
        n_refined: columns that are counted by coarse codes as well as by fine ones.
        n_counted: exact values that are counted at most, where frequent ones are to be measured.
        n_coarse: codes of all columns by which larger marginals count them.
    """

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
        """Columns of the table that are modeled."""
        return len(self.sizes)


@dataclass(frozen=True)
class Cost:
    """Seconds of one core, and memory at most about."""

    seconds: float
    memory_mb: float


def cost_of(generator: PrivateGenerator, n_events: int, work: Work) -> Cost:
    """What a fit costs.

    Args:
        generator: an `Aim`, an `Mst` and a `LatentClass` measure marginals; any other leaves columns on their own.
        n_events: lines of its books.
        work: what there is to do.
    """
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


def _of_mst(generator: Mst, work: Work) -> Cost:
    """Every pair scored once, a tree of them measured, one estimation."""
    per_pair = ANSWER_S_A_COLUMN * work.n_columns + COUNTING_S_A_ROW * work.n_rows + CLIQUE_S
    typical = _mean_cells(work.pairs)
    scoring = len(work.pairs) * (per_pair + CLIQUE_S_A_CELL * typical)
    tree_cells = min(work.n_marginals * typical, generator.max_model_mb * CELLS_A_MB)
    steps = _steps_s(TREE_STEPS, work.n_columns + work.n_marginals, tree_cells)
    return Cost(scoring + _noise_s(work.n_marginals, tree_cells) + steps, MODEL_COPIES * tree_cells / CELLS_A_MB)


def _of_aim(generator: Aim, work: Work) -> Cost:
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
    model_cells = _model_cells(generator, work, cells)
    n_draws = min(max(work.n_rows, LEAST_DRAWS), generator.n_draws)
    a_candidate = JUNCTION_S_A_CLIQUE * cliques + COUNTING_S_A_ROW * n_draws + CLIQUE_S + CLIQUE_S_A_CELL * cells
    a_round = candidates * a_candidate + n_draws * d * SAMPLING_S_A_CELL
    a_round += _steps_s(ITERATIONS, cliques, model_cells / 2)
    seconds = rounds * a_round + candidates * work.n_rows * COUNTING_S_A_ROW
    seconds += _noise_s(rounds, rounds * cells) + _steps_s(LAST_STEPS, d + rounds, model_cells)
    counted = candidates * cells
    return Cost(seconds, MODEL_COPIES * generator.max_model_mb + counted / CELLS_A_MB)


def _of_classes(generator: LatentClass, work: Work) -> Cost:
    """All pairs measured, candidates scored before each batch, and a mixture fitted by a fixed number of steps."""
    n_codes, k = sum(work.sizes.values()), generator.n_classes
    seconds = N_STEPS * k * (n_codes * CLASS_S_A_CODE + work.n_coarse**2 * CLASS_S_A_CELL)
    candidates, cells = len(work.pairs) + min(work.n_triples, MOST_TRIPLES), _mean_cells([*work.pairs, *work.triples])
    seconds += candidates * (COUNTING_S_A_ROW * work.n_rows + CLIQUE_S_A_CELL * cells)
    seconds += N_BATCHES * candidates * (CLIQUE_S + k * cells * CLASS_S_A_CELL)
    seconds += _noise_s(work.n_marginals, len(work.pairs) * _mean_cells(work.pairs))
    floats = CLASS_COPIES * n_codes * k + 3 * work.n_coarse**2 + candidates * cells
    return Cost(seconds, floats * 4e-6)


def _model_cells(generator: Aim, work: Work, cells: float) -> float:
    """Size of the last model: marginals that close no loop stand side by side; loops fill what room there is."""
    if work.n_marginals < work.n_columns:
        return sum(work.sizes.values()) + work.n_marginals * min(cells, _mean_cells(work.pairs))
    return float(min(round(FILLED * generator.max_model_mb * CELLS_A_MB), math.prod(work.sizes.values())))


def _mean_cells(marginals: Sequence[tuple[int, ...]]) -> float:
    return float(np.mean([math.prod(codes) for codes in marginals])) if marginals else 0.0


def _noise_s(n_releases: int, n_cells: float) -> float:
    return n_releases * NOISE_S_A_RELEASE + n_cells * NOISE_S_A_CELL


def _steps_s(n_steps: int, n_cliques: float, n_cells: float) -> float:
    return n_steps * (n_cliques * STEP_S_A_CLIQUE + n_cells * STEP_S_A_CELL)

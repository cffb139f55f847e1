"""What public facts tell before a fit: the generator that `auto` chooses, and the error that noise will make.

The forecast is of a column and of a pair. Estimation fits all measurements at once, keeps counts above zero, and the
mechanisms pass over marginals that noise would fill: a model is as a rule closer to the table than the noise of a
typical pair. What a model leaves out is not in these figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from synth import extras
from synth.domain import Discretizer
from synth.domain.counts import has_coarse_codes
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule, require_declared
from synth.errors import BudgetError, JobError
from synth.generators.aim import Aim
from synth.generators.base import Generator, PrivateGenerator, fit_model, unwrapped
from synth.generators.fitting.private_fit import COLUMNS, SIZES, domain_shares
from synth.generators.fitting.selection import FOCUSED_PAIRS, OTHER_PAIRS
from synth.generators.latent_class import BEYOND_CODES, LatentClass, has_order
from synth.generators.marginal_generator import Independent, Mst
from synth.generators.models.model import Model
from synth.generators.trees import Trees
from synth.marginals.factor import CELLS_A_MB, MEAN_ABSOLUTE
from synth.schema import Schema

FEW_COLUMNS = 6  # with fewer columns a junction tree holds what matters, and sharper than classes do
LEAST_SIGNAL = 5.0  # below it pairs are noise: columns on their own are nearer to the table, by pairs and triples, too


class Auto(PrivateGenerator):
    """Without epsilon `trees`; with it `latent_class`, `aim` or `independent`, as public facts have it.

    Facts are kinds, levels and number of columns, units, and epsilon. The rule comes from fits of eleven tables and of
    parts of three at epsilon 1, and of six at other epsilons. It reads no row, so that choosing costs nothing. The
    model is that of the chosen generator, and bears its name.
    """

    name: ClassVar[str] = "auto"

    def chosen(self, schema: Schema) -> Generator:
        return self._choose(schema)[0]

    def reason(self, schema: Schema) -> str:
        return self._choose(schema)[1]

    def _choose(self, schema: Schema) -> tuple[Generator, str]:
        """The generator for tables of a schema, and why: the first rule that holds."""
        if self.epsilon is None:
            why = "no epsilon is named, so that nothing is promised: its table may repeat what single rows say"
            return Trees(), why
        n_columns, signal = len(schema.modeled), self.signal(schema)
        alone, few, classes = (kind(epsilon=self.epsilon, delta=self.delta) for kind in (Independent, Aim, LatentClass))
        drawn_given = any(wrapper.wraps(few, schema) for wrapper in extras.load("wrapper").values())
        drowned = (
            f"pairs drown in noise: all units are {signal:.2g} standard deviations of the noise of a pair, and a model "
            f"of pairs takes {LEAST_SIGNAL:g}"
        )
        few_columns = f"of {n_columns} columns a junction tree holds what matters, and sharper than classes do"
        all_pairs = f"all {n_columns * (n_columns - 1) // 2} pairs are measured at once: none has to be left out"
        rules: tuple[tuple[bool, Generator, str], ...] = (
            (n_columns == 1, alone, "one column is to be learned, so that there are no pairs to measure"),
            (signal < LEAST_SIGNAL, alone, drowned),
            (n_columns < FEW_COLUMNS, few, few_columns),
            (drawn_given, few, "rows of an entity are drawn given the one before, which a junction tree does exactly"),
            (True, classes, all_pairs),
        )
        return next((chosen, why) for holds, chosen, why in rules if holds)

    def signal(self, schema: Schema) -> float:
        """Units in standard deviations of the noise of a pair, had all pairs the whole budget; public."""
        return LatentClass(epsilon=self.epsilon, delta=self.delta).signal(schema)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self.chosen(schema).check(schema)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        return self.chosen(schema).cautions(schema)

    def schedule(self, schema: Schema) -> Schedule | None:
        self.check(schema)
        chosen = self.chosen(schema)
        return chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None

    def fit(self, train: Any, schema: Schema | None = None, **options: Any) -> Model:
        schema = self.schema_of_fit(schema)
        return fit_model(self.chosen(schema), train, schema, **options)


Planned = Independent | Mst | Aim | LatentClass  # the generators whose outlook is known before a fit
ASSUMED_CATEGORIES = 20  # categories that a column whose list is not declared is taken to have


@dataclass(frozen=True)
class Outlook:
    """Mean total variation that noise adds to each column, to the smallest pairs (of a tree) and to a typical pair."""

    generator: str
    n_rows: int
    columns: Mapping[str, float]
    tree: float | None
    pair: float | None
    n_marginals: int

    @property
    def column(self) -> float:
        return float(np.mean(list(self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "column": self.column}


def outlook(
    whole: PrivateGenerator, schema: Schema, *, schedule: Schedule | None = None, train_share: float = 1.0
) -> Outlook:
    """The outlook of a fit under this schema by a generator of `Planned`, or a wrapper around one. Reads no row."""
    schedule = whole.schedule(schema) if schedule is None else schedule
    counted, generator = whole.counted(schema), unwrapped(whole)
    if not isinstance(generator, Planned):
        raise JobError(f"generator={whole.name!r} has no outlook before a fit; name one on marginals")
    if schedule is None:
        raise BudgetError(
            f"an outlook needs an epsilon: generator={generator.name!r} has none; set one such as epsilon=1.0"
        )
    n_rows = max(round(require_declared(counted) * train_share), 1)
    cells, sizes = _domain(generator, counted)
    beside = {SIZES, FOCUSED_PAIRS, OTHER_PAIRS, *domain_shares(counted)}
    events = [e for e in schedule.events if isinstance(e, GaussianEvent) and e.what not in beside]
    one_way = next(event for event in events if event.what.startswith(COLUMNS))
    marginals = [event for event in events if not event.what.startswith(COLUMNS)]
    n_marginals, pairs, trees = sum(event.count for event in marginals), list[int](), list[int]()
    if n_marginals:
        smallest, *others = sorted(_coarse(generator, counted, sizes).values())
        limit = math.inf
        if not isinstance(generator, LatentClass | Independent):
            limit = min(generator.max_cells, generator.max_model_mb * CELLS_A_MB)
        pairs = [size for a, b in combinations([smallest, *others], 2) if (size := a * b) <= limit]
        trees = [smallest * other for other in others]  # the spanning tree with the fewest cells
    sigma = float(np.median(np.repeat([e.sigma for e in marginals], [e.count for e in marginals]))) if marginals else 0

    def noise(n_cells: Sequence[int]) -> float | None:
        return _error(sigma * sorted(n_cells)[len(n_cells) // 2], n_rows) if n_cells else None

    # A code's noise is that of the fine cells it is made of: at most as if all codes had as many. Some columns are
    # counted, and no table has them.
    columns = {
        name: _error(one_way.sigma * math.sqrt(size * cells[name]), n_rows)
        for name, size in sizes.items()
        if name in schema.columns
    }
    return Outlook(generator.name, n_rows, columns, noise(trees), noise(pairs), n_marginals)


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


def _error(total_sigma: float, n_rows: int) -> float:
    """Half of the expected absolute noise over all cells, as a share of the rows; at most 1."""
    return min(MEAN_ABSOLUTE * total_sigma / (2 * n_rows), 1.0)

"""The error that noise will make of a table, from public facts before a fit: no row is read, and nothing is spent.

Of a column the laws are those of real fits (tests/synth/generators/test_outlook.py holds them to it): estimation fits
all measurements at once, keeps counts above zero and smooths numbers, so that less is left than the noise of all cells.
Of pairs it is the noise as it is measured. What a model leaves out is not in these figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtr

from synth.domain import Discretizer
from synth.domain.counts import has_coarse_codes
from synth.dp.events import GaussianEvent, StabilityEvent
from synth.dp.schedule import Schedule, require_declared
from synth.generators.aim import Aim
from synth.generators.base import Generator, PrivateGenerator, compose, unwrapped
from synth.generators.fitting.private_fit import COLUMNS, SIZES, domain_event, domain_shares
from synth.generators.fitting.selection import FOCUSED_PAIRS, OTHER_PAIRS
from synth.generators.latent_class import BEYOND_CODES, LatentClass, has_order
from synth.generators.marginal_generator import Independent, Mst
from synth.marginals.factor import CELLS_A_MB, MEAN_ABSOLUTE
from synth.schema import Schema

Planned = Independent | Mst | Aim | LatentClass  # the generators whose outlook is known before a fit
ASSUMED_CATEGORIES = 20  # categories that a column whose list is not declared is taken to have
LEFT, MOST_LEFT = 0.25, 0.3
"""Share of the noise of its categories that estimation leaves in a column, and the error that it tends to as noise
grows."""
SMOOTH, MEASURED = 4.0, 8.0
"""A smooth density leaves the noise of so many cells in a number, however many it has: with declared bounds, and with
measured ones."""
TAIL, LEAST_CELLS = 0.7, 20
"""Rows that noise puts beyond nearly all real numbers of a column, in standard deviations of the noise of a cell, and
the cells up to which a column is taken to have no tail."""
A_TENTH = 0.1  # a domain is lost where so large a share of the column's values is
BOUNDS_SIGNAL = (9.0, 4.0)
"""Units, in standard deviations of the noise, for which measured bounds clamp a tenth of the values in half of the
fits, and the spread around it."""
WORST, MEAN, BEYOND = 0.3, 0.1, 0.02
"""The rows in the wrong place of one column and of an average one, and those in a tail, beyond which a table fails the
policy `internal`, the mildest that ships."""
MOST_NAMED = 6  # columns that a clause names
MOST_EPSILON = 10.0  # the largest that a remedy names


@dataclass(frozen=True)
class Outlook:
    """What noise is expected to do.

    Of each column the total variation that it adds beyond a fresh real sample, and the chance that a domain to measure
    loses a tenth of the values; of numbers the share put into a tail; total variation of the smallest pairs (of a
    tree) and of a typical pair.
    """

    generator: str
    n_rows: int
    columns: Mapping[str, float]
    lost: Mapping[str, float]
    tails: Mapping[str, float]
    tree: float | None
    pair: float | None
    n_marginals: int

    @property
    def column(self) -> float:
        return float(np.mean(list(self.columns.values())))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "column": self.column}

    def failures(
        self, worst: float | None = WORST, mean: float | None = MEAN, tail: float | None = BEYOND
    ) -> tuple[str, ...]:
        """Clauses on why a table is expected to fail rules with these limits, `None` where there is no such rule."""
        reasons = []
        if worst is not None and 1 - math.prod(1 - chance for chance in self.lost.values()) >= 0.5:
            reasons.append(
                f"chance that what is measured of a column loses a tenth of its values: {_listed(self.lost)}"
            )
        if worst is not None and (far := {name: share for name, share in self.columns.items() if share > worst}):
            reasons.append(f"rows in the wrong place of a column, above {worst:.0%}: {_listed(far)}")
        if mean is not None and self.column > mean:
            reasons.append(
                f"rows in the wrong place of an average column, above {mean:.0%}: {self.column:.0%}, the most of "
                f"{_listed(self.columns)}"
            )
        if tail is not None and (long := {name: share for name, share in self.tails.items() if share > tail}):
            reasons.append(f"rows beyond nearly all real values of a number, above {tail:.0%}: {_listed(long)}")
        return tuple(reasons)


def doubt(
    asked: Generator,
    schema: Schema,
    schedule: Schedule | None,
    *,
    train_share: float = 1.0,
    policy: str = "internal",
    **limits: float | None,
) -> str | None:
    """A sentence on why a private fit is expected to FAIL a policy and what costs less; `None` where it is not."""

    def failures(times: float = 1.0, under: Schema = schema) -> tuple[str, ...]:
        """With so many times the rows: an outlook rests on the noise as a share of them alone."""
        expected = outlook(asked, under, schedule=schedule, train_share=train_share * times)
        return () if expected is None else expected.failures(**limits)

    reasons = () if schedule is None else failures()
    if not reasons:
        return None
    remedies = []
    if schema.measured and not failures(under=assumed(schema)):
        remedies.append("declare bounds and categories that are public in place of measuring them")
    times = next((times for times in 1.25 ** np.arange(1, 31) if not failures(times)), None)
    if times is not None:
        epsilon = float(times * getattr(asked, "epsilon", 1.0))
        remedies += [f"set about epsilon={epsilon:.2g}"] * (epsilon <= MOST_EPSILON)
        remedies.append(f"fit about {float(f'{times * require_declared(schema):.2g}'):,.0f} units")
    return (
        f"expected to FAIL policy {policy!r} by noise alone, with its budget spent: {'; '.join(reasons)}. Before that, "
        f"{', or '.join([*remedies, 'leave out columns that nobody needs'])}"
    )


def outlook(
    asked: Generator, schema: Schema, *, schedule: Schedule | None = None, train_share: float = 1.0
) -> Outlook | None:
    """The outlook of a fit under this schema; `None` without an epsilon, and where nothing can be worked out: of
    generators beside `Planned`, and of rows that are drawn in order. Reads no row.
    """
    whole = compose(asked, schema)
    generator = unwrapped(whole)
    if not isinstance(generator, Planned) or not isinstance(whole, PrivateGenerator) or whole.in_order:
        return None
    schedule, counted = whole.schedule(schema) if schedule is None else schedule, whole.counted(schema)
    if schedule is None:
        return None
    n_rows = max(round(require_declared(counted) * train_share), 1)
    cells, sizes = _domain(generator, counted)
    domains = {domain_event(counted, name): name for name in counted.measured}
    beside = {SIZES, FOCUSED_PAIRS, OTHER_PAIRS, *domain_shares(counted)}
    gaussian = [e for e in schedule.events if isinstance(e, GaussianEvent) and e.what not in beside]
    one_way = next(event for event in gaussian if event.what.startswith(COLUMNS))
    marginals = [event for event in gaussian if not event.what.startswith(COLUMNS)]
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

    lost, unnamed = _domain_losses(schedule, domains, n_rows)
    columns = {}
    for name in [name for name in sizes if name in schema.columns]:  # some columns are counted, and no table has them
        least = unnamed.get(name, 0.0)
        if schema.columns[name].is_categorical:
            all_noise = _error(LEFT * one_way.sigma * (min(sizes[name], 1 / least) if least else sizes[name]), n_rows)
            error = -MOST_LEFT * math.expm1(-all_noise / MOST_LEFT)
        else:
            error = _error(one_way.sigma * min(MEASURED if name in lost else SMOOTH, cells[name]), n_rows)
        columns[name] = min(error - math.expm1(-least), 1.0)
    numbers = [name for name in columns if not schema.columns[name].is_categorical and cells[name] > LEAST_CELLS]
    tails = dict.fromkeys(numbers, min(TAIL * one_way.sigma / n_rows, 1.0))
    return Outlook(generator.name, n_rows, columns, lost, tails, noise(trees), noise(pairs), n_marginals)


def _domain_losses(
    schedule: Schedule, domains: Mapping[str, str], n_rows: int
) -> tuple[dict[str, float], dict[str, float]]:
    """By column whose domain is measured, the chance that a tenth of its values is lost; and of categories the least
    share of those that are named.

    `domains`: columns by what their events are called.
    """
    lost, unnamed = dict[str, float](), dict[str, float]()
    for event in schedule.events:
        if isinstance(event, StabilityEvent) and event.what in domains:
            lost[domains[event.what]] = float(ndtr((event.threshold - A_TENTH * n_rows) / event.sigma))
            unnamed[domains[event.what]] = event.threshold / n_rows
        elif isinstance(event, GaussianEvent) and event.what in domains:
            middle, spread = BOUNDS_SIGNAL
            lost[domains[event.what]] = float(ndtr((middle - n_rows / event.sigma) / spread))
    return lost, unnamed


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


def _listed(shares: Mapping[str, float]) -> str:
    """The columns with their shares, the largest first, and how many more there are."""
    ordered = sorted(shares, key=lambda name: -shares[name])
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    return ", ".join(f"{name!r} {shares[name]:.0%}" for name in ordered[:MOST_NAMED]) + more


def _domain(generator: Planned, schema: Schema) -> tuple[dict[str, int], dict[str, int]]:
    """Fine cells and codes of each column: numbers and times are merged into about `n_bins`."""
    cells, sizes = {}, {}
    for attribute in Discretizer.by_schema(assumed(schema)).attributes:
        merged = attribute.edges is not None and not getattr(attribute.column, "bins", ())
        limit = generator.bins(schema) + BEYOND_CODES if merged else attribute.size
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

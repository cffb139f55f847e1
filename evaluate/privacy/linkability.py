"""Linkability: does the synthetic table tell which records of two sources belong to the same person?

The attacker holds two extracts of the same people, with different columns, and the synthetic table, which has all
columns. For a person's part in one source they look up the synthetic rows that are nearest by its columns. For the
other source they do the same by its columns. They win where a synthetic row is among both: it says that the two parts
are one person's. Columns that hang together link some parts of people whom no generator saw, too; only what training
rows give beyond these is a leak.

How the columns fall into two is drawn at random a few times, and is taken from the schema where it says so: its
quasi-identifiers against all others, and sets of columns that different parties hold (`parties`).

One synthetic row is looked up on each side. With more, members and others alike are linked by rows that have nothing to
do with them; a copied row is the nearest one on both sides already. In tables of categories many rows are equally near;
chance splits these ties, the same way on both sides.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459,
section 5.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluate.metrics import PEOPLE, Metric
from evaluate.neighbors import SpaceRows, gower_nearest, space_of
from evaluate.privacy.attribute_inference import Attacked
from evaluate.privacy.experiment import Experiment, largest, standing_out
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema

METRICS = (
    Metric("privacy.linkability", "lower", "Linking two sources", "How much more often two parts of one person's "
           "record lead to the same synthetic row, of members over others.", counted=PEOPLE, key=True, attack="always",
           criteria=("linkability",)),
    Metric("privacy.linkability.split", "lower", "Linking two sources, one split",
           "The same for one way to part the columns.", describes="it is one of several and picked by nobody; name "
           "'privacy.linkability', which allows for the choice"),
)  # fmt: skip

WORST, SPLIT = "privacy.linkability", "privacy.linkability.split"
N_SAMPLED = 3  # Splits that are drawn
N_NEIGHBORS = 1
MIN_TARGETS = 10
_STREAM = 0x11  # Tells this module's random numbers from those of others with the same seed


@dataclass(frozen=True)
class ColumnSplit:
    columns: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, one: Iterable[str], other: Iterable[str]) -> "ColumnSplit":
        """The same split, whichever side is named first."""
        first, second = sorted((tuple(sorted(one)), tuple(sorted(other))), key=lambda side: (len(side), side))
        return cls(first, second)


def measure(tables: Tables) -> MetricResult:
    """The advantage with each split of the columns, and with the one that stands out most. Estimates:
    `privacy.linkability`, `privacy.linkability.split`.
    """
    attacked, splits = Attacked.of(tables), list(splits_of(tables.schema, tables.seed))
    why = _nothing(attacked, splits)
    if why:
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in (WORST, SPLIT)))
    space, n_members = space_of(tables), len(attacked.members)
    targets = space.train.take(attacked.members).joined(space.control.take(attacked.controls))
    pool = space.synthetic.take(attacked.pool)
    linked = [_linked(targets, pool, split) for split in splits]
    tried = [Experiment(hits[:n_members], hits[n_members:], by_chance(len(pool))) for hits in linked]
    n = len(splits)
    both = list(zip(splits, tried, strict=True))
    each = [one.estimate(SPLIT, note=_rates(one), subject=split.columns, n_comparisons=n) for split, one in both]
    is_sampled = len(pool) < len(tables.synthetic)
    drawn = [_drawn(split, one, n) for split, one in both]
    return MetricResult((_worst(each, is_sampled), *each), figures={"linkability": drawn})


def splits_of(schema: Schema, seed: int) -> Iterator[ColumnSplit]:
    """Every split that is tried, each once: random halves of the learned columns, then those that the schema names."""
    yield from dict.fromkeys(split for split in _every_split(schema, seed) if split.columns)


def _every_split(schema: Schema, seed: int) -> Iterator[ColumnSplit]:
    learned = sorted(schema.learned)
    rng = np.random.default_rng([seed, _STREAM])
    for _ in range(N_SAMPLED):
        names = [learned[i] for i in rng.permutation(len(learned))]
        yield ColumnSplit.of(names[: len(names) // 2], names[len(names) // 2 :])
    known = set(schema.quasi_identifiers) & set(learned)
    yield ColumnSplit.of(known, set(learned) - known)
    for one, other in combinations([set(held) & set(learned) for held in schema.parties], 2):
        if not one & other:
            yield ColumnSplit.of(one, other)


def _nothing(attacked: Attacked, splits: Sequence[ColumnSplit]) -> str:
    """The reason why there is nothing to attack; else empty."""
    if not splits:
        return "two sources need a column each, and the table has fewer than two columns that are learned"
    if min(len(attacked.members), len(attacked.controls)) < MIN_TARGETS:
        return f"an attack needs at least {MIN_TARGETS} members and as many non-members; give a larger holdout"
    return ""


def _linked(targets: SpaceRows, pool: SpaceRows, split: ColumnSplit) -> np.ndarray:
    """Whose parts share a synthetic row, shape (len(targets),), boolean."""
    k = min(N_NEIGHBORS, len(pool))
    one, other = (gower_nearest(targets, pool, columns, k) for columns in (split.columns, split.others))
    return np.asarray((one[:, :, None] == other[:, None, :]).any(axis=(1, 2)))


def by_chance(n_pool: int, k: int = N_NEIGHBORS) -> float:
    """The probability that two samples of k of the synthetic rows share one.

    >>> round(by_chance(100, 2), 6)
    0.039798
    """
    k = min(k, n_pool)
    return float(1 - np.prod([max(n_pool - k - i, 0) / (n_pool - i) for i in range(k)]))


def _worst(each: Sequence[Estimate], is_sampled: bool) -> Estimate:
    """The split that stands out most from chance; the interval is that of the largest advantage of any split."""
    worst = each[standing_out(each)]
    note = f"by {_listed(worst.subject)} against the others, which stands out most of {len(each)} splits: {worst.note}"
    if is_sampled:
        note += "; the attacker looks at a sample of the synthetic rows"
    return largest(WORST, each, note)


def _drawn(split: ColumnSplit, one: Experiment, n: int) -> Mapping[str, Any]:
    """One split as plain data; the interval of its advantage allows for all splits."""
    sides = {"columns": list(split.columns), "others": list(split.others)}
    return {**sides, **one.figure(), "advantage": list(one.advantage(n))}


def _listed(columns: Sequence[str], most: int = 4) -> str:
    names = [repr(name) for name in columns[:most]]
    return ", ".join(names) + (f" and {len(columns) - most} more" if len(columns) > most else "")


def _rates(one: Experiment) -> str:
    return f"the two parts of {one.attack.mean():.1%} of members and {one.control.mean():.1%} of controls are linked"

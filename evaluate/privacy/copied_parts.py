"""Training records of which something stands in the synthetic table beyond coincidence: values, parts, near copies.

Values of numbers and times count column by column: a category that one person alone has is known from the schema, and
so are the bounds of a number. Parts are a few columns together, drawn at random many times. A near copy is a synthetic
row that lies many times nearer to somebody than other real people do.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from evaluate.intervals import Rate, clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, MEMBERS, Metric
from evaluate.neighbors import LEAST
from evaluate.privacy.coincidence import CERTAIN, FITTED, Alone, Coincidences, Exact, RealCodes, exact_of, fewest_copied
from evaluate.privacy.copies import share_of_people, weighed_people
from evaluate.privacy.membership_attacks import TargetNeighborhoods, targets_of
from evaluate.result import Estimate
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables

METRICS = (
    Metric("privacy.copies.values", "lower", "People whose exact values are copied", "Share of training people who "
           "have a number or time to the last digit alone, and whose value stands in the table beyond chance.",
           counted=COPIED_PEOPLE, sampled="copied"),
    Metric("privacy.copies.parts", "lower", "People of whom a part is copied", "Share of training people of whom a few "
           "columns together, which nobody else has, stand in the table beyond chance.", counted=COPIED_PEOPLE,
           sampled="copied"),
    Metric("privacy.copies.near", "lower", "People copied with small changes", "Share of training people to whom a "
           "synthetic row lies many times nearer than the nearest held-out person, beyond chance.", counted=MEMBERS,
           sampled="copied"),
)  # fmt: skip

K = TypeVar("K")
VALUES, PARTS, NEAR = "privacy.copies.values", "privacy.copies.parts", "privacy.copies.near"
SIZES = {4: 48, 8: 24}
"""Number of parts drawn, by their number of columns. Short ones lie within what was copied, long ones tell people
apart."""
COARSE = 20  # Values of a coarse column, at most
FEWEST = 2  # Columns of which no several make a part
NEARNESS = (0.1, 0.2)
"""Distance of a near copy at most, over that to the nearest row of the attacker's half of the holdout."""
MAX_ROWS = 20_000
"""Rows of train, and of the holdout, whose parts are looked for at most; the synthetic table is searched whole."""

MIXED = np.uint64(6364136223846793005)  # Knuth's factor: content of several columns becomes one number by it


def measure(tables: Tables) -> MetricResult:
    """People whose exact values, parts of rows, or nearly whole rows stand in the table beyond coincidence."""
    exact = exact_of(tables)
    return MetricResult((_values(exact), _with_coarse(_parts(exact, tables.seed), exact, tables), _near(tables)))


def _values(exact: Exact) -> Estimate:
    """The column in which most people's own values stand, or the mean over all columns where it is more."""
    real, n = exact.real(), exact.synthetic.shape[1]
    each: dict[str, Coincidences] = {}
    n_units = int(real.units.max(initial=0)) + 1
    hits, could = np.zeros(n_units), np.zeros(n_units)
    for name, codes, synthetic, free in zip(exact.names, real.codes, exact.synthetic, exact.free, strict=True):
        known = np.zeros(len(codes), dtype=bool) if free is None else (codes >= 0) & np.r_[free, False][codes]
        alone = Alone.of(codes[known], real.units[known], real.in_train[known])
        if len(alone.content):
            hit = alone.hit_by(synthetic)
            each[name] = alone.coincidences(hit, n)
            hits += np.bincount(alone.units[hit], minlength=n_units)
            could += np.bincount(alone.units, minlength=n_units)
    if not each:
        return _nobody(VALUES, "no number or time has a value that one person alone has", real.n_people(n))
    comparisons = len(each) + 1
    ends = {f"column {name!r}": coincidences.copied(comparisons) for name, coincidences in each.items()}
    ends["all columns on average"] = _on_average(hits, could, real, len(each), comparisons)
    worst, people = _worst(ends)
    note = f"share of people whose own value, to the last digit, stands in the table beyond chance; {worst}"
    return share_of_people(VALUES, people, real.n_people(n), note)


def _worst(ends: Mapping[K, Rate]) -> tuple[K, Rate]:
    """Where most people are certain, with the upper end of all."""
    worst = max(ends, key=lambda name: (ends[name][1], ends[name][0]))
    return worst, (*ends[worst][:2], max(high for *_, high in ends.values()))


def _on_average(hits: np.ndarray, could: np.ndarray, real: RealCodes, n_columns: int, n_comparisons: int) -> Rate:
    """People who are copied in the average column; the values of one person are no independent hits."""
    in_train = np.zeros(len(hits), dtype=bool)
    in_train[real.units[real.in_train]] = True
    alike = float((hits**2).sum() / hits.sum()) if hits.any() else 1.0  # as a design effect
    sums = (float(units[side].sum()) / alike for units in (hits, could) for side in (in_train, ~in_train))
    value, low, high = (end * alike / n_columns for end in Coincidences(*sums).copied(n_comparisons))
    return value, low, high


def _parts(exact: Exact, seed: int) -> Estimate:
    """The part of the columns of which most people's own content stands in the table."""
    real, n = exact.real(MAX_ROWS), exact.synthetic.shape[1]
    parts = _drawn_parts(len(exact.names), np.random.default_rng([seed, 6]))
    if not parts:
        return _nobody(PARTS, f"a row of {len(exact.names)} learned columns has no part of several", real.n_people(n))
    factors = np.random.default_rng([seed, 7]).integers(1, 2**63, len(exact.names), dtype=np.uint64) | np.uint64(1)
    ends = {}
    for part in parts:
        alone = Alone.of(_content(real.codes, part, factors), real.units, real.in_train)
        hit = alone.hit_by(_content(exact.synthetic, part, factors))
        ends[part] = alone.coincidences(hit, n).copied(len(parts), FITTED)
    people = _worst(ends)[1]
    note = (
        "share of people of whom a part of their row that nobody else has stands in the table beyond chance; the worst "
        f"of {len(parts)} parts"
    )
    people = people if real.share == 1.0 else _of_all(real.n_units, people)
    return share_of_people(PARTS, people, real.n_people(n), note)


def _with_coarse(parts: Estimate, exact: Exact, tables: Tables) -> Estimate:
    """The number with a lower end that people with rare values of all coarse columns may raise."""
    coarse = [name for name, codes in zip(exact.names, exact.train, strict=True) if len(np.unique(codes)) <= COARSE]
    if not FEWEST < len(coarse) < len(exact.names):
        return parts
    n = min(tables.hashes("train").n_units, tables.n_all("synthetic"))
    low = min(weighed_people(tables, coarse)[0] / n, 1.0)
    if low <= parts.interval[0]:
        return parts
    note = f"share of people of whom all {len(coarse)} coarse columns stand in the table beyond chance"
    note += f"; at least {math.ceil(low * n):,} people"
    return replace(parts, low=low, value=max(low, parts.value), high=max(low, parts.interval[1]), note=note)


def _near(tables: Tables) -> Estimate:
    """The share of attacked people to whom a synthetic row is much nearer than the nearest held-out person."""
    n_people = len(np.unique(entity_codes(tables.train, tables.schema)))
    if not tables.schema.learned:
        return _nobody(NEAR, "no column is learned", min(n_people, len(tables.synthetic)))
    members, controls = targets_of(tables)
    # Of a smaller synthetic table, no more than its rows can be copies; of these, the attacked people's share.
    n_most = max(1, round(min(1.0, len(tables.synthetic) / n_people) * len(members)))
    ends = {}
    for nearness in NEARNESS:
        train, holdout = (_n_near(side, nearness) for side in (members, controls))
        ends[nearness] = Coincidences(train, holdout, len(members), len(controls)).copied(2 * len(NEARNESS), FITTED)
    nearest, (value, low, high) = _worst(ends)
    low = max(low, fewest_copied(_surprises(members), _surprises(controls), CERTAIN / 2))
    people = max(value, low), low, max(high, low)
    note = (
        f"{len(members):,} people were looked at; share of those who could be copied to whom a synthetic row is at "
        f"least {1 / nearest:g} times nearer, beyond chance, than the nearest of held-out people"
    )
    people = people if len(members) == n_people else _of_all(len(members), people)
    return share_of_people(NEAR, people, n_most, note)


def _of_all(n: int, people: Rate) -> Rate:
    """Copied people of so many who were looked at, with the interval of a sample of all."""
    value, low, high = people
    least, most = clopper_pearson(low, n)[0], clopper_pearson(min(high, n), n)[1]
    return value, min(least * n, value), most * n


def _surprises(targets: TargetNeighborhoods) -> np.ndarray:
    """A weight for each target by how much nearer a synthetic row is than a held-out one, where few others live."""
    fresh, synthetic = (side.distances[:, 0] for side in (targets.fresh, targets.synthetic))
    return targets.surest(fresh**2 * np.log(np.maximum(fresh / (2 * np.maximum(synthetic, LEAST)), 1.0)))


def _n_near(targets: TargetNeighborhoods, nearness: float) -> int:
    """Number of targets with a synthetic row nearer than so much of the distance to a held-out row."""
    nearer = targets.synthetic.distances[:, 0] < nearness * targets.fresh.distances[:, 0]
    return int(targets.surest(nearer.astype(np.float64)).sum())


def _drawn_parts(d: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    sizes = [size for size, times in SIZES.items() if size < d for _ in range(times)]
    sizes = sizes or [d - 1] * d * (d > FEWEST)
    return list(dict.fromkeys(tuple(sorted(rng.permutation(d)[:size].tolist())) for size in sizes))


def _content(codes: np.ndarray, part: tuple[int, ...], factors: np.ndarray) -> np.ndarray:
    """A number for what each row holds in some columns, equal for equal content; shape (n,), uint64."""
    content = np.zeros(codes.shape[1], dtype=np.uint64)
    for i in part:
        content = (content ^ (content >> np.uint64(29))) * MIXED + (codes[i] + 2).astype(np.uint64) * factors[i]
    return content


def _nobody(name: str, why: str, n: int) -> Estimate:
    """The number where there is nothing to copy in this way."""
    return Estimate(name, 0.0, n, "lower", low=0.0, high=0.0, reference=0.0, note=f"nobody: {why}")

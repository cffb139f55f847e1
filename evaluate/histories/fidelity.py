"""Fidelity of histories: rows per entity, gaps, transitions, correlations with the row before, and what is constant.

It is measured where the schema names an entity and an order: by what follows what in a history (panel data,
longitudinal or sequential data). Distances are from the training histories, beside fresh real ones, and beside the
synthetic rows dealt at random to entities (`evaluate.histories.samples`). Their intervals are by half-samples of
entities. Entities that break a promise of the schema are a share of each table, no distance, with Wilson intervals.

A transition is the value of a column in the row before, and now. Total variation of its joint distribution only
describes. What a rule rests on is the dependence of the two (`evaluate.fidelity.dependence`): 0 as in fresh real
histories, 1 where a row has nothing to do with the one before. It does not see what single columns get wrong.

Source: Diggle, Heagerty, Liang, Zeger 2002, "Analysis of Longitudinal Data", on transition models and correlations.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares, dependence_of
from evaluate.fidelity.encoded import replicated, total_variations
from evaluate.fidelity.estimates import Distance
from evaluate.fidelity.rows import OrderedValues
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.histories.samples import (
    MIN_COMPARED,
    MIN_HISTORIES,
    NO_ORDER,
    GroupedHistories,
    HistorySamples,
    StepCodes,
    has_times,
    numbers,
    step_codes,
    step_positions,
    varying,
)
from evaluate.intervals import N_GROUPS, wilson
from evaluate.metrics import Counted, Metric, biased
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

ENTITIES = Counted("entities of the synthetic table and as many of the holdout", 1)
STEPS = Counted("rows that follow another one, in the synthetic table and as many in the holdout", 1)
_DECLARED = (
    Metric("histories.lengths", "lower", "Rows per entity, distance",
           "Largest gap between the two cumulative curves of how many rows an entity has.",
           describes=biased("histories.lengths.excess")),
    Metric("histories.lengths.excess", "lower", "Rows per entity, distance beyond noise",
           "The same, minus that of fresh real histories.", counted=ENTITIES, key=True),
    Metric("histories.gaps", "lower", "Gaps between rows, distance",
           "Largest gap between the two cumulative curves of how far rows of an entity lie apart in their order.",
           describes=biased("histories.gaps.excess")),
    Metric("histories.gaps.excess", "lower", "Gaps between rows, distance beyond noise",
           "The same, minus that of fresh real histories.", counted=STEPS),
    Metric("histories.transitions", "lower", "Transitions of a column, distance",
           "Total variation of a column's value in the row before and now, taken together.",
           describes=biased("histories.transitions.excess")),
    Metric("histories.transitions.mean", "lower", "Transitions, mean distance",
           "Total variation of the value in the row before and now, averaged over columns that may change.",
           describes=biased("histories.transitions.excess")),
    Metric("histories.transitions.excess", "lower", "Transitions, distance beyond noise",
           "Mean distance of transitions minus that of fresh real histories.", counted=STEPS),
    Metric("histories.dependence.floor_share", "lower", "Transitions lost or made up", "0: the dependence between "
           "a row and the one before is as close to the real one as in fresh real histories. 1: as far as in rows "
           "dealt at random to entities. Above 1, dependence is made up.", counted=STEPS, key=True,
           note="0 as fresh real histories, 1 as rows dealt at random"),
    Metric("histories.dependence.floor_share.worst", "lower", "Transitions lost or made up, worst column",
           "The largest such share of a single column, and the column it belongs to.", counted=STEPS),
    Metric("histories.lag", "lower", "Correlation with the row before, error",
           "Difference in how strongly a number is correlated, by ranks, with its value in the row before.",
           describes=biased("histories.lag.excess")),
    Metric("histories.lag.mean", "lower", "Correlation with the row before, mean error",
           "The same, averaged over numbers and times.", describes=biased("histories.lag.excess")),
    Metric("histories.lag.excess", "lower", "Correlation with the row before, error beyond noise",
           "The same, minus that of fresh real histories.", counted=STEPS),
    Metric("histories.lag.floor_share", "lower", "Correlations with the row before, lost", "0 is as close as fresh "
           "real histories, 1 as far as rows dealt at random to entities.", counted=STEPS),
    Metric("histories.constants.broken", "lower", "Constants that vary", "Share of synthetic entities of two rows or "
           "more in which a column varies that is constant in every entity.",
           counted=Counted("synthetic entities of two rows or more")),
    Metric("histories.nondecreasing.broken", "lower", "Columns that fall", "Share of synthetic entities of two rows "
           "or more in which a column falls that never falls in an entity.",
           counted=Counted("synthetic entities of two rows or more")),
)  # fmt: skip
METRICS = tuple(replace(metric, needs="order") for metric in _DECLARED)
GATED = tuple(metric.name for metric in METRICS if metric.gateable)

NAME = "fidelity.histories"
SHARE, WORST = "histories.dependence.floor_share", "histories.dependence.floor_share.worst"
_FEW = f"it needs at least {MIN_HISTORIES} entities with two rows or more in each table"
_UNTOLD = "histories of rows dealt at random are not told from fresh real ones: few rows, or hardly any dependence"
_FRESH_HISTORIES = "0 is as good as fresh real histories, 1 as bad as rows dealt at random to entities."
MOST_LENGTHS = 12  # Lengths of histories that are drawn one by one; the last stands for all that are longer


def measure(tables: Tables) -> MetricResult:
    """Distances of histories, and the figure "histories"; nothing but a reason where the schema names no order."""
    schema = tables.schema
    if schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    samples = HistorySamples.of(tables)
    if samples.n_histories < MIN_HISTORIES or samples.equal_steps().n_histories < MIN_COMPARED:
        return MetricResult(failures=tuple(Failure(name, "skipped", _FEW) for name in GATED))
    lengths, counts = _lengths(samples)
    measured = [*lengths, *_gaps(samples, tables), *_broken(samples, tables)]
    transitions, drawn = _transitions(samples, tables)
    measured += [*transitions, *_lags(samples, tables)]
    return MetricResult(
        tuple(one for one in measured if isinstance(one, Estimate)),
        tuple(one for one in measured if isinstance(one, Failure)),
        {"histories": {"lengths": counts, "transitions": drawn}},
    )


def _lengths(samples: HistorySamples) -> tuple[list[Estimate], dict[str, Any]]:
    """The distance between rows per entity, and the shares that a report draws."""
    equal = samples.equal_entities()
    lines = [OrderedValues.of(one.lengths.astype(np.float64), one.groups, N_GROUPS) for one in equal.all]
    distance = _distance(lines)
    # Dealt histories are as long as the synthetic ones, so that they are no floor of lengths.
    plain, excess = distance.plain("histories.lengths"), distance.excess("histories.lengths.excess")
    found = [replace(plain, floor=None), replace(excess, floor=None)]
    longest = min(MOST_LENGTHS, int(max(one.lengths.max() for one in samples.all)))
    counted = [np.minimum(one.lengths, longest) for one in (samples.train, samples.others[SYNTHETIC])]
    shares = [np.bincount(one, minlength=longest + 1)[1:] / len(one) for one in counted]
    labels = [f"{i + 1}" for i in range(longest)]
    labels[-1] += " or more" if longest == MOST_LENGTHS else ""
    edges = [i + 0.5 for i in range(longest + 1)]
    tvd = float(np.abs(shares[0] - shares[1]).sum() / 2)
    return found, {
        "column": "rows per entity", "kind": "integer", "labels": [*labels, "other", "missing"], "edges": edges,
        "train": [*shares[0].tolist(), 0.0, 0.0], "synthetic": [*shares[1].tolist(), 0.0, 0.0], "tvd": tvd,
    }  # fmt: skip


def _distance(lines: list[OrderedValues]) -> Distance:
    """Kolmogorov-Smirnov's distance of three lines from the first one."""
    train, *others = lines
    replicates = np.array([Gaps.between(train, one).kolmogorov_smirnov for one in others])
    return Distance(replicates, int(others[SYNTHETIC].counts.sum()))


def _gaps(samples: HistorySamples, tables: Tables) -> list[Estimate | Failure]:
    """The distance between gaps of an order that is a number or time."""
    if not has_times(tables.schema):
        why = f"the order {tables.schema.order!r} is an identifier, which has no distances"
        return [Failure("histories.gaps.excess", "skipped", why)]
    lines = []
    for one in samples.equal_steps().all:
        now, before = one.histories.pairs
        lines.append(OrderedValues.of(one.ranks[now] - one.ranks[before], one.step_groups, N_GROUPS))
    distance = _distance(lines)
    return [distance.plain("histories.gaps"), distance.excess("histories.gaps.excess")]


def _transitions(samples: HistorySamples, tables: Tables) -> tuple[list[Estimate | Failure], list[dict[str, Any]]]:
    """Distances of transitions by column, over all columns, their dependence, and what a report draws."""
    names = varying(tables.schema)
    if not names:
        why = "every learned column but the order is constant in an entity"
        return [Failure(name, "skipped", why) for name in ("histories.transitions.excess", SHARE, WORST)], []
    equal = samples.equal_steps()
    n, n_whole = equal.others[SYNTHETIC].n_steps, samples.others[SYNTHETIC].n_steps
    ratio = samples.train.n_steps / min(one.n_steps for one in samples.others)
    found: list[Estimate | Failure] = []
    replicates, squares, drawn = [], {}, []
    for name in names:
        codes = step_codes(name, samples, tables.schema)
        size = len(codes.labels)
        whole = tuple(map(replicated, _counts(samples, codes)))
        squares[name] = Squares.of(dependence_of(whole, (size, size), (codes.is_number, codes.is_number)))
        distances = total_variations(tuple(map(replicated, _counts(equal, codes))))
        replicates.append(distances)
        found.append(Distance(distances, n).plain("histories.transitions", subject=(name,)))
        tvd, reference, floor = (float(one) for one in distances[:, 0])
        drawn.append({"columns": [name], "tvd": tvd, "reference": reference, "floor": floor})
    mean = Distance(np.mean(replicates, axis=0), n, len(replicates))
    found += [mean.plain("histories.transitions.mean"), mean.excess("histories.transitions.excess")]
    found += _dependence(squares, n_whole, ratio)
    return found, sorted(drawn, key=lambda one: one["reference"] - one["tvd"])


def _counts(samples: HistorySamples, codes: StepCodes) -> list[np.ndarray]:
    """Counts of the codes before and now by group, for each table; shape (n_groups, n_codes squared)."""
    size, found = len(codes.labels), []
    for one, of in zip(samples.all, codes.codes, strict=True):
        now, before = one.histories.pairs
        cells = (one.step_groups * size + of[before]) * size + of[now]
        found.append(np.bincount(cells, minlength=N_GROUPS * size * size).reshape(N_GROUPS, -1))
    return found


def _dependence(squares: dict[str, Squares], n: int, ratio: float) -> list[Estimate | Failure]:
    """The share over columns, and the largest of a column; both of columns whose dependence differs from zero. Training
    and dealt rows tell these columns: others, such as a drug that hardly anybody takes, add noise.
    """
    telling = {column: one for column, one in squares.items() if one.tells(ratio, len(squares))}
    if not telling:
        return [Failure(name, "skipped", _UNTOLD) for name in (SHARE, WORST)]
    weak = f" Of {len(telling)} of {len(squares)} columns; the dependence of the others is weak."
    weak = weak if len(telling) < len(squares) else ""
    total = Squares.total(telling.values())
    low, high = total.interval()
    overall = Estimate(
        SHARE, total.share(SYNTHETIC), n, "lower", low=low, high=high, reference=total.share(FRESH),
        floor=total.share(SHUFFLED), note=f"{_FRESH_HISTORIES}{weak}",
    )  # fmt: skip
    intervals = np.array([one.interval(len(telling)) for one in telling.values()])
    shares = {column: one.share(SYNTHETIC) for column, one in telling.items()}
    worst = max(shares, key=lambda column: shares[column])
    return [overall, Estimate(
        WORST, shares[worst], n, "lower", low=float(intervals[:, 0].max()), high=float(intervals[:, 1].max()),
        reference=max(one.share(FRESH) for one in telling.values()),
        floor=max(one.share(SHUFFLED) for one in telling.values()), note=f"The worst is {worst!r}.{weak}",
    )]  # fmt: skip


def _lags(samples: HistorySamples, tables: Tables) -> list[Estimate | Failure]:
    """Differences of correlations with the row before, by column and over all numbers."""
    names = numbers(tables.schema)
    if not names:
        why = "no number or time may change in an entity, but for the order"
        return [Failure(name, "skipped", why) for name in ("histories.lag.excess", "histories.lag.floor_share")]
    equal = samples.equal_steps()
    n, found, replicates = equal.others[SYNTHETIC].n_steps, list[Estimate | Failure](), []
    for name in names:
        train, *others = _correlations(name, equal, tables)
        differences = np.array([np.abs(one - train) for one in others])
        replicates.append(differences)
        found.append(Distance(differences, n, bound=2.0).plain("histories.lag", subject=(name,)))
    mean = Distance(np.mean(replicates, axis=0), n, len(names), bound=2.0)
    share = mean.floor_share("histories.lag.floor_share")
    if isinstance(share, Failure):
        share = Failure(share.measure, "skipped", _UNTOLD)
    return [*found, mean.plain("histories.lag.mean"), mean.excess("histories.lag.excess"), share]


def _correlations(name: str, samples: HistorySamples, tables: Tables) -> list[np.ndarray]:
    """Correlations of ranks in the training table, now and in the row before; each of shape (n_replicates,)."""
    positions = step_positions(name, samples.all, tables.schema)
    known = np.sort(positions[0][~np.isnan(positions[0])])
    found = []
    for one, values in zip(samples.all, positions, strict=True):
        below = (known.searchsorted(values, "left") + known.searchsorted(values, "right")) / (2.0 * max(len(known), 1))
        ranks = np.where(np.isnan(values), np.nan, below) - 0.5
        now, before = one.histories.pairs
        x, y, groups = ranks[before], ranks[now], one.step_groups
        there = ~(np.isnan(x) | np.isnan(y))
        x, y, groups = x[there], y[there], groups[there]
        sums = (np.ones(len(x)), x, y, x * x, y * y, x * y)
        found.append(_correlation(np.array([np.bincount(groups, one_of, minlength=N_GROUPS) for one_of in sums])))
    return found


def _correlation(sums: np.ndarray) -> np.ndarray:
    """Pearson's correlation from counts and moments by group, shape (6, n_groups); 0 where one does not vary."""
    n, x, y, xx, yy, xy = replicated(sums.T).T
    n = np.maximum(n, 1.0)
    spread = np.maximum(xx / n - (x / n) ** 2, 0.0) * np.maximum(yy / n - (y / n) ** 2, 0.0)
    together = xy / n - x * y / n**2
    return np.asarray(np.where(spread > 1e-12, together / np.sqrt(np.maximum(spread, 1e-12)), 0.0).clip(-1.0, 1.0))


@dataclass(frozen=True)
class BrokenHistories:
    """Share of the entities of each table, in the order of `HistorySamples.others`, that break a rule."""

    shares: tuple[float, float, float]
    n: int

    def estimate(self, name: str, empty: str) -> Estimate:
        value, low, high = wilson(self.shares[SYNTHETIC], self.n)
        if empty:
            value = low = high = 0.0
        return Estimate(
            name, value, self.n, "lower", low=low, high=high, reference=self.shares[FRESH],
            floor=self.shares[SHUFFLED], note=empty,
        )  # fmt: skip


def _broken(samples: HistorySamples, tables: Tables) -> list[Estimate]:
    """Entities in which a constant varies, or a column falls that never does."""
    schema = tables.schema
    constant = [name for name in schema.constant_in_entity if name in schema.kept]
    growing = [name for name in schema.nondecreasing_in_entity if name in schema.kept]
    varies = _of_entities(samples, [_varies(one, constant) for one in samples.others])
    fallen = _of_entities(samples, [_falls(one, growing, tables) for one in samples.others])
    return [
        varies.estimate("histories.constants.broken", "" if constant else "The schema names no constant column."),
        fallen.estimate(
            "histories.nondecreasing.broken", "" if growing else "The schema names no column that never falls."
        ),
    ]


def _of_entities(samples: HistorySamples, broken: list[np.ndarray | None]) -> BrokenHistories:
    """Shares of entities of two rows or more with a step that breaks a rule."""
    shares = []
    for one, steps in zip(samples.others, broken, strict=True):
        hit = np.zeros(len(one.lengths), dtype=bool)
        if steps is not None:
            hit[one.step_owners[steps]] = True
        shares.append(float(hit[one.lengths > 1].mean()))
    return BrokenHistories((shares[0], shares[1], shares[2]), samples.others[SYNTHETIC].n_histories)


def _varies(one: GroupedHistories, names: list[str]) -> np.ndarray | None:
    """Mask of the steps at which one of some columns changes."""
    now, before = one.histories.pairs
    found = None
    for name in names:
        codes = pd.factorize(one.frame[name])[0]
        changed = codes[now] != codes[before]
        found = changed if found is None else found | changed
    return found


def _falls(one: GroupedHistories, names: list[str], tables: Tables) -> np.ndarray | None:
    """Mask of the steps at which one of some numbers falls."""
    now, before = one.histories.pairs
    found = None
    for name in names:
        (positions,) = step_positions(name, [one], tables.schema)
        fell = positions[now] < positions[before]
        found = fell if found is None else found | fell
    return found

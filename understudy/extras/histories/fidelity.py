"""Fidelity of histories: rows per entity, gaps, what follows from the row before, what never follows, constants.

It is measured where the schema names an entity and an order: by what follows what in a history (panel data,
longitudinal or sequential data). Distances are from the training histories, beside fresh real ones, and beside the
synthetic rows dealt at random to entities (`samples`). Their intervals are by half-samples of entities. Entities that
break a promise of the schema are a share of each table, no distance, with Wilson intervals.

A transition is the value of a column in the row before, and now. What a rule rests on is the dependence of the two
(`evaluate.fidelity.dependence`): 0 as in fresh real histories, 1 where a row has nothing to do with the one before. It
hardly sees what is rare, such as the dead who come back. So steps that never or hardly occur in training histories,
though chance alone would bring them, are counted by entity, value by value.

Source: Diggle, Heagerty, Liang, Zeger 2002, "Analysis of Longitudinal Data", on transition models and correlations.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares, dependence_of
from evaluate.fidelity.encoded import replicated, total_variations
from evaluate.fidelity.estimates import Distance
from evaluate.fidelity.rows import OrderedValues
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC
from evaluate.figures import ColumnShares, FigurePart, Number, Share
from evaluate.intervals import N_GROUPS, Rate, newcombe, wilson
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema
from understudy.extras.histories.samples import (
    MIN_COMPARED,
    MIN_HISTORIES,
    NO_ORDER,
    GroupedHistories,
    HistorySamples,
    StepCodes,
    step_positions,
    varying,
)

NAME = "fidelity.histories"
SHARE, WORST = "histories.dependence.floor_share", "histories.dependence.floor_share.worst"
LENGTHS, GAPS, LAG = "histories.lengths.excess", "histories.gaps.excess", "histories.lag.floor_share"
CONSTANTS, GROWING = "histories.constants.broken", "histories.nondecreasing.broken"
IMPOSSIBLE = "histories.impossible.excess"
ENTITIES = Counted("entities of the synthetic table and as many of the holdout", 1)
STEPS = Counted("rows that follow another one, in the synthetic table and as many in the holdout", 1)
SEVERAL = Counted("synthetic entities of two rows or more")
_DEALT = (SHARE, WORST, LAG)  # What rows dealt at random to entities must fail on
METRICS = tuple(
    replace(metric, needs="order", anchor="histories", spoiled_by=("dealt",) if metric.name in _DEALT else ())
    for metric in (
        Metric(LENGTHS, "lower", "Rows per entity, distance beyond noise", "Largest gap between the two cumulative "
               "curves of how many rows an entity has, minus that of fresh real histories.", counted=ENTITIES, key=True,
               ends=(-1.0, 1.0)),
        Metric(GAPS, "lower", "Gaps between rows, distance beyond noise", "Largest gap between the two cumulative "
               "curves of how far rows of an entity lie apart in their order, minus that of fresh real histories.",
               counted=STEPS, ends=(-1.0, 1.0)),
        Metric(SHARE, "lower", "Transitions lost or made up", "0: the dependence between a row and the one before is "
               "as close to the real one as in fresh real histories. 1: as far as in rows dealt at random to entities. "
               "Above 1, dependence is made up.", counted=STEPS, key=True,
               note="0 as fresh real histories, 1 as rows dealt at random"),
        Metric(WORST, "lower", "Transitions lost or made up, worst column",
               "The largest such share of a single column, and the column it belongs to.", counted=STEPS),
        Metric(LAG, "lower", "Correlations with the row before, lost", "How strongly numbers are correlated, by ranks, "
               "with their value in the row before: 0 is as close as fresh real histories, 1 as far as rows dealt at "
               "random to entities.", counted=STEPS),
        Metric(IMPOSSIBLE, "lower", "Steps that hardly occur", "Of entities with some value, the share in which a step "
               "follows that never or hardly occurs in real histories, beyond that of fresh real ones; the worst value "
               "of a column.", counted=Counted("synthetic entities with that value"), key=True, ends=(-1.0, 1.0)),
        Metric(CONSTANTS, "lower", "Constants that vary", "Share of synthetic entities of two rows or more in which a "
               "column varies that is constant in every entity.", counted=SEVERAL, ends=(0.0, 1.0)),
        Metric(GROWING, "lower", "Columns that fall", "Share of synthetic entities of two rows or more in which a "
               "column falls that never falls in an entity.", counted=SEVERAL, ends=(0.0, 1.0)),
    )
)  # fmt: skip
_FEW = f"it needs at least {MIN_HISTORIES} entities with two rows or more in each table"
_UNTOLD = "histories of rows dealt at random are not told from fresh real ones: few rows, or hardly any dependence"
_FRESH_HISTORIES = "0 is as good as fresh real histories, 1 as bad as rows dealt at random to entities."
MOST_LENGTHS = 12  # Lengths of histories that are drawn one by one; the last stands for all that are longer
HARDLY, LEAST_EXPECTED = 0.05, 20.0
"""A step hardly occurs: this share of what independent rows would bring, where that is as much in training rows."""
LEAST_AT_RISK, LEAST_FRESH = 300, 150
"""Synthetic and fresh entities with a value that is looked at. With fewer no interval is narrow enough to keep a limit:
they count where their share is beyond fresh histories for certain."""

Answers = list[Estimate | Failure]


class HistoryFigures(FigurePart):
    """Rows per entity as one column, and each column's transitions; `lost` where its dependence is strong enough."""

    class Transitions(FigurePart):
        columns: list[str] = Field(min_length=1, max_length=1)
        tvd: Share
        reference: Share
        floor: Share
        lost: Number | None = None

    lengths: ColumnShares
    transitions: list[Transitions]


def measure(tables: Tables) -> MetricResult:
    """Distances of histories, and the figure "histories"; nothing but a reason where the schema names no order."""
    schema = tables.schema
    if schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    samples = HistorySamples.of(tables)
    if (
        min(each.n_histories for each in samples.all) < MIN_HISTORIES
        or samples.equal_steps().n_histories < MIN_COMPARED
    ):
        return MetricResult(failures=tuple(Failure(metric.name, "skipped", _FEW) for metric in METRICS))
    codes = {name: StepCodes.of(name, samples, schema) for name in varying(schema)}
    transitions, drawn = _transitions(samples, codes)
    # Dealt histories are as long as the synthetic ones, so that they are no floor of lengths.
    answers: Answers = [replace(length_distance(samples).excess(LENGTHS), floor=None), *transitions]
    if schema.columns[schema.order].is_identifier:
        why = f"the order {schema.order!r} is an identifier, which has no distances"
        answers.append(Failure(GAPS, "skipped", why))
    else:
        answers.append(gap_distance(samples).excess(GAPS))
    lags = lag_distance(samples, schema)
    lag = None if lags is None else lags.floor_share(LAG)
    if lag is None or isinstance(lag, Failure):
        lag = Failure(
            LAG, "skipped", _UNTOLD if lag else "no number or time may change in an entity, but for the order"
        )
    answers += [lag, impossible_steps(samples, codes), *_broken(samples, schema)]
    return MetricResult(
        tuple(answer for answer in answers if isinstance(answer, Estimate)),
        tuple(answer for answer in answers if isinstance(answer, Failure)),
        {"histories": {"lengths": _length_curve(samples), "transitions": drawn}},
    )


def length_distance(samples: HistorySamples) -> Distance:
    """Of rows per entity."""
    equal = samples.equal_entities()
    return _distance([OrderedValues.of(each.lengths * 1.0, each.groups, N_GROUPS) for each in equal.all])


def gap_distance(samples: HistorySamples) -> Distance:
    """Of how far rows that follow each other lie apart in their order."""
    lines = []
    for each in samples.equal_steps().all:
        now, before = each.histories.pairs
        lines.append(OrderedValues.of(each.ranks[now] - each.ranks[before], each.step_groups, N_GROUPS))
    return _distance(lines)


def _distance(lines: list[OrderedValues]) -> Distance:
    """Kolmogorov-Smirnov's distance of three lines from the first one."""
    train, *others = lines
    replicates = np.array([Gaps.between(train, other).kolmogorov_smirnov for other in others])
    return Distance(replicates, int(others[SYNTHETIC].counts.sum()))


def _length_curve(samples: HistorySamples) -> dict[str, Any]:
    """Shares of entities by their number of rows, which a report draws."""
    longest = min(MOST_LENGTHS, int(max(each.lengths.max() for each in samples.all)))
    counted = [np.minimum(each.lengths, longest) for each in (samples.train, samples.others[SYNTHETIC])]
    shares = [np.bincount(lengths, minlength=longest + 1)[1:] / len(lengths) for lengths in counted]
    labels = [f"{i + 1}" for i in range(longest)]
    labels[-1] += " or more" if longest == MOST_LENGTHS else ""
    return {
        "column": "rows per entity", "kind": "integer", "labels": [*labels, "other", "missing"],
        "edges": [i + 0.5 for i in range(longest + 1)], "train": [*shares[0].tolist(), 0.0, 0.0],
        "synthetic": [*shares[1].tolist(), 0.0, 0.0], "tvd": float(np.abs(shares[0] - shares[1]).sum() / 2),
    }  # fmt: skip


def _transitions(samples: HistorySamples, codes: dict[str, StepCodes]) -> tuple[Answers, list[dict[str, Any]]]:
    """The dependence on the row before, over all columns and of the worst one; what a report draws of each column.

    They are of columns whose dependence differs from zero. Training and dealt rows tell these columns: others, such as
    a drug that hardly anybody takes, add noise.
    """
    if not codes:
        why = "every learned column but the order is constant in an entity"
        return [Failure(name, "skipped", why) for name in (SHARE, WORST)], []
    equal, n = samples.equal_steps(), samples.others[SYNTHETIC].n_steps
    ratio = samples.train.n_steps / min(each.n_steps for each in samples.others)
    squares, drawn = {}, dict[str, dict[str, Any]]()
    for name, of_column in codes.items():
        size, is_number = len(of_column.labels), of_column.is_number
        whole = tuple(map(replicated, step_counts(samples, of_column)))
        squares[name] = Squares.of(dependence_of(whole, (size, size), (is_number, is_number)))
        distances = total_variations(tuple(map(replicated, step_counts(equal, of_column))))
        tvd, reference, floor = (float(distance) for distance in distances[:, 0])
        drawn[name] = {"columns": [name], "tvd": tvd, "reference": reference, "floor": floor, "lost": None}
    telling = {name: column for name, column in squares.items() if column.tells(ratio, len(squares))}
    shares = {name: column.share(SYNTHETIC) for name, column in telling.items()}
    for name, share in shares.items():
        drawn[name]["lost"] = share
    figures = sorted(drawn.values(), key=lambda figure: figure["reference"] - figure["tvd"])
    if not telling:
        return [Failure(name, "skipped", _UNTOLD) for name in (SHARE, WORST)], figures
    weak = f" Of {len(telling)} of {len(squares)} columns; the dependence of the others is weak."
    weak = weak if len(telling) < len(squares) else ""
    total = Squares.total(telling.values())
    low, high = total.interval()
    overall = Estimate(
        SHARE, total.share(SYNTHETIC), n, "lower", low=low, high=high, reference=total.share(FRESH),
        floor=total.share(SHUFFLED), note=f"{_FRESH_HISTORIES}{weak}",
    )  # fmt: skip
    intervals = np.array([column.interval(len(telling)) for column in telling.values()])
    name = max(shares, key=lambda name: shares[name])
    worst = Estimate(
        WORST, shares[name], n, "lower", low=float(intervals[:, 0].max()), high=float(intervals[:, 1].max()),
        reference=max(column.share(FRESH) for column in telling.values()),
        floor=max(column.share(SHUFFLED) for column in telling.values()), note=f"The worst is {name!r}.{weak}",
    )  # fmt: skip
    return [overall, worst], figures


def step_counts(samples: HistorySamples, codes: StepCodes) -> list[np.ndarray]:
    """Counts of the codes before and now by group, for each table; shape (n_groups, n_codes squared)."""
    size, counts = len(codes.labels), []
    for each, own in zip(samples.all, codes.codes, strict=True):
        now, before = each.histories.pairs
        cells = (each.step_groups * size + own[before]) * size + own[now]
        counts.append(np.bincount(cells, minlength=N_GROUPS * size * size).reshape(N_GROUPS, -1))
    return counts


def lag_distance(samples: HistorySamples, schema: Schema) -> Distance | None:
    """Of correlations with the row before, over all numbers and times; `None` where there are none."""
    names = [name for name in varying(schema) if schema.columns[name].is_line]
    equal, replicates = samples.equal_steps(), []
    for name in names:
        train, *others = correlations(name, equal, schema)
        replicates.append([np.abs(other - train) for other in others])
    n = equal.others[SYNTHETIC].n_steps
    return Distance(np.mean(replicates, axis=0), n, len(names), bound=2.0) if names else None


def correlations(name: str, samples: HistorySamples, schema: Schema) -> list[np.ndarray]:
    """Correlations of ranks in the training table, now and in the row before; each of shape (n_replicates,)."""
    positions = step_positions(name, samples.all, schema)
    known = np.sort(positions[0][~np.isnan(positions[0])])
    correlations = []
    for each, values in zip(samples.all, positions, strict=True):
        below = (known.searchsorted(values, "left") + known.searchsorted(values, "right")) / (2.0 * max(len(known), 1))
        ranks = np.where(np.isnan(values), np.nan, below) - 0.5
        now, before = each.histories.pairs
        x, y, groups = ranks[before], ranks[now], each.step_groups
        there = ~(np.isnan(x) | np.isnan(y))
        x, y, groups = x[there], y[there], groups[there]
        terms = (np.ones(len(x)), x, y, x * x, y * y, x * y)
        sums = np.array([np.bincount(groups, term, minlength=N_GROUPS) for term in terms])
        n, x, y, xx, yy, xy = replicated(sums.T).T
        n = np.maximum(n, 1.0)
        spread = np.maximum(xx / n - (x / n) ** 2, 0.0) * np.maximum(yy / n - (y / n) ** 2, 0.0)
        together = xy / n - x * y / n**2  # 0 is what a column comes to that does not vary
        correlation = np.where(spread > 1e-12, together / np.sqrt(np.maximum(spread, 1e-12)), 0.0)
        correlations.append(correlation.clip(-1.0, 1.0))
    return correlations


def impossible_steps(samples: HistorySamples, codes: dict[str, StepCodes]) -> Estimate:
    """The value that is followed most often, by entities and beyond fresh histories, by what hardly ever follows it."""
    found, few = list[tuple[str, str, list[tuple[int, int]]]](), list[tuple[str, str, list[tuple[int, int]]]]()
    for name, column in codes.items():
        barred, last = _barred(samples.train, column)
        hits = [_entities(each, own, barred, last) for each, own in zip(samples.others, column.codes[1:], strict=True)]
        for code, label in enumerate(column.labels):
            counts = [(int(hit[code]), int(at_risk[code])) for hit, at_risk in hits]
            if barred[code].any():
                are_enough = counts[SYNTHETIC][1] >= LEAST_AT_RISK and counts[FRESH][1] >= LEAST_FRESH
                (found if are_enough else few).append((name, label, counts))
    rates, n_tried = [_rates(counts, len(found)) for *_, counts in found], len(found) + len(few)
    for each in few:
        of_few = _rates(each[2], n_tried)
        if newcombe(of_few[SYNTHETIC], of_few[FRESH])[1] > 0:  # no chance, however few
            found.append(each)
            rates.append(of_few)
    if not found:
        n, why = samples.others[SYNTHETIC].n_histories, "There is no value that something hardly ever follows."
        if few:
            why = "Too few entities have a value that something hardly ever follows for a share of them to be told."
        return Estimate(IMPOSSIBLE, 0.0, n, "lower", low=0.0, high=0.0, reference=0.0, floor=0.0, note=why)
    excess = np.array([newcombe(each[SYNTHETIC], each[FRESH]) for each in rates])
    worst = int(np.argmax(excess[:, 1]))
    name, label, counts = found[worst]
    (k, n), (k_fresh, n_fresh) = counts[SYNTHETIC], counts[FRESH]
    note = (
        f"The worst is {label!r} of {name!r}: a step that hardly ever follows it in training histories follows it in "
        f"{k:,} of {n:,} entities, in fresh real histories in {k_fresh:,} of {n_fresh:,}. Of {len(found)} values."
    )
    return Estimate(
        IMPOSSIBLE, float(excess[worst, 0]), n, "lower", low=float(excess[:, 1].max()),
        high=float(excess[:, 2].max()), reference=0.0,
        floor=max(each[SHUFFLED][0] - each[FRESH][0] for each in rates), note=note,
    )  # fmt: skip


def _rates(counts: list[tuple[int, int]], n_comparisons: int) -> list[Rate]:
    return [wilson(k / max(n, 1), max(n, 1), n_comparisons) for k, n in counts]


def _barred(train: GroupedHistories, column: StepCodes) -> tuple[np.ndarray, np.ndarray]:
    """Steps that hardly ever occur, shape (n_codes, n_codes), and values that hardly any row follows: as often as
    `HARDLY` of what steps come to whose rows are independent.
    """
    size, own = len(column.labels), column.codes[0]
    now, before = train.histories.pairs
    counts = np.bincount(own[before] * size + own[now], minlength=size * size).reshape(size, size)
    followed, follow = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(followed, follow) / max(counts.sum(), 1)
    of_rows = np.bincount(own[train.histories.rows], minlength=size) * counts.sum() / max(len(train.histories.rows), 1)
    last = (of_rows >= LEAST_EXPECTED) & (followed <= HARDLY * of_rows)
    return ((expected >= LEAST_EXPECTED) & (counts <= HARDLY * expected)) | last[:, None], last


def _entities(
    each: GroupedHistories, own: np.ndarray, barred: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """By value, entities with a barred step from it, and those that could have one; both of shape (n_codes,)."""
    (now, before), owners = each.histories.pairs, each.step_owners
    rows = each.histories.rows
    ends = last[own[rows]]  # nothing has to follow here to be at risk
    values, of = np.append(own[before], own[rows][ends]), np.append(owners, each.histories.owners[ends])
    n_codes = len(last)
    at_risk = np.unique(of * n_codes + values) % n_codes
    broken = barred[own[before], own[now]]
    hit = np.unique(owners[broken] * n_codes + own[before][broken]) % n_codes
    return np.bincount(hit, minlength=n_codes), np.bincount(at_risk, minlength=n_codes)


def _broken(samples: HistorySamples, schema: Schema) -> list[Estimate]:
    """Entities in which a constant varies, or a column falls that never does."""

    def varies(each: GroupedHistories, name: str) -> np.ndarray:
        now, before = each.histories.pairs
        codes = pd.factorize(each.frame[name])[0]
        return np.asarray(codes[now] != codes[before])

    def falls(each: GroupedHistories, name: str) -> np.ndarray:
        now, before = each.histories.pairs
        (positions,) = step_positions(name, [each], schema)
        return np.asarray(positions[now] < positions[before])

    estimates = []
    for measure, names, breaks, none in (
        (CONSTANTS, schema.constant_in_entity, varies, "The schema names no constant column."),
        (GROWING, schema.nondecreasing_in_entity, falls, "The schema names no column that never falls."),
    ):
        kept, shares = [name for name in names if name in schema.kept], []
        for each in samples.others:
            hit = np.zeros(len(each.lengths), dtype=bool)
            for name in kept:
                hit[each.step_owners[breaks(each, name)]] = True
            shares.append(float(hit[each.lengths > 1].mean()))
        n = samples.others[SYNTHETIC].n_histories
        value, low, high = wilson(shares[SYNTHETIC], n) if kept else (0.0, 0.0, 0.0)
        estimates.append(Estimate(
            measure, value, n, "lower", low=low, high=high, reference=shares[FRESH], floor=shares[SHUFFLED],
            note="" if kept else none,
        ))  # fmt: skip
    return estimates

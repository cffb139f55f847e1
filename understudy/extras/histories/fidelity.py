"""Fidelity of histories: rows per entity, gaps, what follows from the row before, and what never follows.

Distances are from the training histories, beside fresh real ones, and beside the synthetic rows dealt at random to
entities: as many and as long histories of the same rows, none of which has to do with the one before it. Their
intervals are by half-samples of entities: whole histories stay together.

A transition is the value of a column in the row before, and now. What a rule rests on is the dependence of the two
(`evaluate.fidelity.dependence`): 0 as in fresh real histories, 1 where a row has nothing to do with the one before. It
hardly sees what is rare, such as the dead who come back. So steps that never or hardly occur in training histories,
though chance alone would bring them, are counted by entity, value by value.

Source: Diggle, Heagerty, Liang, Zeger 2002, "Analysis of Longitudinal Data", on transition models and correlations.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from evaluate.fidelity.columns import Gaps
from evaluate.fidelity.dependence import Squares
from evaluate.fidelity.encoded import total_variations
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Distance, OrderedValues
from evaluate.gate.policy_checks import SpoiledCase
from evaluate.intervals import N_GROUPS, newcombe, wilson
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.result_io import ColumnShares, FigurePart, Number, Share
from evaluate.sampling import Side, side_seed
from evaluate.tables import MetricResult, Real, Tables
from synth.row_order import Histories, histories_of, order_ranks
from synth.schema import Schema
from understudy.extras.histories.layout import broken_steps

NO_ORDER = "the schema names no order of an entity's rows, so that they make no history"
"""The reason why nothing is measured of a table without histories."""
MIN_HISTORIES = 2 * N_GROUPS  # Entities with two rows or more that each table needs
MIN_COMPARED = 24
"""Of these, those that are left where tables are cut to equally many steps: with fewer a half-sample may be empty."""
N_BINS = 8  # Quantiles of the training table that values of a number are told apart by
MOST_CATEGORIES = 16  # Categories that are told apart, the most frequent ones; the others are one
NAME = "fidelity.histories"
WORST = "histories.dependence.floor_share.worst"
LENGTHS, GAPS = "histories.lengths.excess", "histories.gaps.excess"
IMPOSSIBLE = "histories.impossible.excess"
ENTITIES = Counted("entities of the synthetic table and as many of the holdout", 1)
STEPS = Counted("rows that follow another one, in the synthetic table and as many in the holdout", 1)
METRICS = tuple(
    replace(metric, needs="order", anchor="histories", spoiled_by=("dealt",) if metric.name == WORST else ())
    for metric in (
        Metric(LENGTHS, "lower", "Rows per entity, distance beyond noise", "Largest gap between the two cumulative "
               "curves of how many rows an entity has, minus that of fresh real histories.", counted=ENTITIES, key=True,
               ends=(-1.0, 1.0)),
        Metric(GAPS, "lower", "Gaps between rows, distance beyond noise", "Largest gap between the two cumulative "
               "curves of how far rows of an entity lie apart in their order, minus that of fresh real histories.",
               counted=STEPS, ends=(-1.0, 1.0)),
        Metric(WORST, "lower", "Transitions lost or made up, worst column", "0: rows depend on the one before as in "
               "fresh real histories. 1: as in rows dealt at random to entities. Above 1, dependence is made up. Of "
               "the worst column.", counted=STEPS, key=True,
               note="0 as fresh real histories, 1 as rows dealt at random"),
        Metric(IMPOSSIBLE, "lower", "Steps that hardly occur", "Of entities with some value, the share in which a step "
               "follows that never or hardly occurs in real histories, beyond that of fresh real ones; or the share in "
               "which a constant varies, or a column falls that never does. The worst of all.",
               counted=Counted("synthetic entities with that value"), key=True, ends=(-1.0, 1.0)),
    )
)  # fmt: skip
_FEW = f"it needs at least {MIN_HISTORIES} entities with two rows or more in each table"
_UNTOLD = "histories of rows dealt at random are not told from fresh real ones: few rows, or hardly any dependence"
MOST_LENGTHS = 12  # Lengths of histories that are drawn one by one; the last stands for all that are longer
HARDLY, LEAST_EXPECTED = 0.05, 20.0
"""A step hardly occurs: this share of what independent rows would bring, where that is as much in training rows."""
LEAST_AT_RISK, LEAST_FRESH = 300, 150
"""Synthetic and fresh entities with a value that is looked at. With fewer no interval is narrow enough to keep a limit:
they count where their share is beyond fresh histories for certain."""


@dataclass(frozen=True, eq=False)
class GroupedHistories:
    """Histories of one table. *Sensitive* where it is real."""

    frame: pd.DataFrame
    histories: Histories
    ranks: np.ndarray  # values of the order as numbers, shape (n_rows,)
    turns: np.ndarray  # the place of each entity in a seeded random order, shape (n_entities,)

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, seed: int) -> "GroupedHistories":
        histories = histories_of(frame, schema)
        turns = np.random.default_rng([seed, 14]).permutation(len(histories.starts))
        return cls(frame, histories, order_ranks(frame[str(schema.order)], schema), turns)

    def dealt(self, seed: int) -> "GroupedHistories":
        """The same rows, dealt at random to as many histories of the same lengths, and put in order there."""
        dealt = np.random.default_rng([seed, 15]).permutation(self.histories.rows)
        order = np.lexsort((self.ranks[dealt], self.histories.owners))
        return GroupedHistories(self.frame, Histories(dealt[order], self.histories.starts), self.ranks, self.turns)

    @property
    def lengths(self) -> np.ndarray:
        return self.histories.lengths

    @property
    def n_histories(self) -> int:
        """Entities with two rows or more."""
        return int((self.lengths > 1).sum())

    @property
    def n_steps(self) -> int:
        return int((self.lengths - 1).sum())

    def first_entities(self, n: int) -> "GroupedHistories":
        kept = self.turns < n
        lengths = self.lengths[kept]
        rows = self.histories.rows[np.repeat(kept, self.lengths)]
        return GroupedHistories(self.frame, Histories(rows, np.cumsum(lengths) - lengths), self.ranks, self.turns[kept])

    def first_steps(self, n: int) -> "GroupedHistories":
        """The first entities of the random order that have n steps together, at most."""
        order = np.argsort(self.turns)
        return self.first_entities(int(np.searchsorted(np.cumsum(self.lengths[order] - 1), n, "right")))

    @property
    def groups(self) -> np.ndarray:
        return self.turns % N_GROUPS

    @property
    def step_groups(self) -> np.ndarray:
        return np.asarray(self.groups[self.step_owners])

    @property
    def step_owners(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), self.lengths - 1)


@dataclass(frozen=True, eq=False)
class HistorySamples:
    train: GroupedHistories  # *Sensitive*
    others: tuple[GroupedHistories, ...]  # synthetic, fresh and dealt ones

    @classmethod
    def of(cls, tables: Tables) -> "HistorySamples":
        def grouped(side: Side, frame: Callable[[], pd.DataFrame]) -> GroupedHistories:
            kept = tables.kept if side == "synthetic" else tables.kept_of_real
            seed = side_seed(tables.seed, side)
            return kept.once(("histories", side), lambda: GroupedHistories.of(frame(), tables.schema, seed))

        train, fresh = grouped("train", lambda: tables.train), grouped("holdout", lambda: tables.holdout)
        synthetic = grouped("synthetic", lambda: tables.synthetic)
        seed = side_seed(tables.seed, "shuffled")
        return cls(train, (synthetic, fresh, tables.kept.once("dealt histories", lambda: synthetic.dealt(seed))))

    @property
    def all(self) -> tuple[GroupedHistories, ...]:
        return (self.train, *self.others)

    @property
    def n_histories(self) -> int:
        return min(each.n_histories for each in self.all)

    def equal_steps(self) -> "HistorySamples":
        """The others cut to equally many steps: a small sample adds to a distance."""
        n = min(each.n_steps for each in self.others)
        return HistorySamples(self.train, tuple(each.first_steps(n) for each in self.others))


def varying(schema: Schema) -> tuple[str, ...]:
    """Modeled columns that may change from row to row, without the order, which rows are sorted by."""
    return tuple(name for name in schema.modeled if name not in schema.constant_in_entity and name != schema.order)


@dataclass(frozen=True)
class StepCodes:
    codes: tuple[np.ndarray, ...]
    labels: tuple[str, ...]
    is_number: bool
    is_cut: bool  # whether a code is of many values, which lie between two quantiles

    @classmethod
    def of(cls, name: str, samples: HistorySamples, schema: Schema) -> "StepCodes":
        """Values are told apart as the training table suggests. `samples`: *Sensitive*."""
        column, series = schema.columns[name], [each.frame[name] for each in samples.all]
        if column.is_categorical:
            counts = series[0].dropna().astype(object).value_counts()
            # The most frequent categories; of equally frequent ones those that sort first.
            frequent = sorted(counts.index, key=lambda value: (-int(counts[value]), str(value)))[:MOST_CATEGORIES]
            index = pd.Index(frequent, dtype=object)
            known = [index.get_indexer(pd.Index(each.astype(object))) for each in series]
            missing = [each.isna().to_numpy(dtype=bool) for each in series]
            labels, n, is_cut = [str(value) for value in frequent], len(frequent), False
        else:
            positions = [column.positions(each) for each in series]
            missing = [np.isnan(each) for each in positions]
            values = positions[0][~missing[0]]
            edges = np.unique(values)[1:]  # between all values where these are few, else between quantiles
            if is_cut := len(edges) >= N_BINS:
                edges = np.unique(np.quantile(values, np.arange(1, N_BINS) / N_BINS, method="lower"))
            known = [np.searchsorted(edges, each, side="right") for each in positions]
            n = len(edges) + 1
            labels = [f"part {i + 1} of {n}" for i in range(n)]
        codes = (np.where(gone, n + 1, np.where(code < 0, n, code)) for code, gone in zip(known, missing, strict=True))
        return cls(tuple(codes), (*labels, "other", "missing"), not column.is_categorical, is_cut)


def deal_rows(real: Real) -> pd.DataFrame:
    """The training rows, dealt at random to the entities; each has as many rows as before. `real`: *Sensitive*."""
    entity = str(real.schema.entity)
    turns = np.random.default_rng([real.seed, 5]).permutation(len(real.train))
    return real.train.assign(**{entity: real.train[entity].take(turns).set_axis(real.train.index)})


DEALT = SpoiledCase(
    needs="order",
    measure="fidelity.histories",
    spoil=deal_rows,
    title="Rows dealt at random to entities must fail on histories",
    text="The training table with its rows dealt at random to entities",
    subject="the dependence on the row before",
    silent="Rows hardly depend on the row before, or too few entities have two rows to tell.",
)


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
    schema = tables.schema
    if schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    samples = HistorySamples.of(tables)
    if samples.n_histories < MIN_HISTORIES or samples.equal_steps().n_histories < MIN_COMPARED:
        return MetricResult(failures=tuple(Failure(metric.name, "skipped", _FEW) for metric in METRICS))
    codes = {name: StepCodes.of(name, samples, schema) for name in varying(schema)}
    telling, drawn = dependences(samples, codes)
    gaps: Estimate | Failure
    if schema.columns[schema.order].is_identifier:
        gaps = Failure(GAPS, "skipped", f"the order {schema.order!r} is an identifier, which has no distances")
    else:
        gaps = gap_distance(samples).excess(GAPS)
    # Dealt histories are as long as the synthetic ones, so that they are no floor of lengths.
    lengths = replace(length_distance(samples).excess(LENGTHS), floor=None)
    answers = [lengths, _worst(telling, samples, len(codes)), gaps, impossible_steps(samples, codes, schema)]
    return MetricResult(
        tuple(answer for answer in answers if isinstance(answer, Estimate)),
        tuple(answer for answer in answers if isinstance(answer, Failure)),
        {"histories": {"lengths": _length_curve(samples), "transitions": drawn}},
    )


def length_distance(samples: HistorySamples) -> Distance:
    n = min(len(each.lengths) for each in samples.others)
    equal = (samples.train, *(each.first_entities(n) for each in samples.others))
    return _distance([(each.lengths * 1.0, each.groups) for each in equal])


def gap_distance(samples: HistorySamples) -> Distance:
    """Of how far rows that follow each other lie apart in their order."""
    pairs = [(each, *each.histories.pairs) for each in samples.equal_steps().all]
    return _distance([(each.ranks[now] - each.ranks[before], each.step_groups) for each, now, before in pairs])


def _distance(tables: list[tuple[np.ndarray, np.ndarray]]) -> Distance:
    """Kolmogorov-Smirnov's distance of values, with their groups, from those of the first table."""
    train, *others = (OrderedValues.of(values, groups, N_GROUPS) for values, groups in tables)
    replicates = np.array([Gaps.between(train, other).kolmogorov_smirnov for other in others])
    return Distance(replicates, int(others[SYNTHETIC].counts.sum()))


def _length_curve(samples: HistorySamples) -> dict[str, Any]:
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


def dependences(
    samples: HistorySamples, codes: dict[str, StepCodes]
) -> tuple[dict[str, Squares], list[dict[str, Any]]]:  # fmt: skip
    """The dependence on the row before of each column in which it is told from none, and what a report draws of all.

    Training and dealt rows tell these columns: others, such as a drug that hardly anybody takes, add noise.
    """
    equal, ratio = samples.equal_steps(), samples.train.n_steps / min(each.n_steps for each in samples.others)
    squares, figures = {}, dict[str, dict[str, Any]]()
    for name, column in codes.items():
        size, is_number = len(column.labels), column.is_number
        counts = tuple(step_counts(samples, column))
        squares[name] = Squares.of_counts(counts, (size, size), (is_number, is_number))
        distances = total_variations(tuple(step_counts(equal, column)))[:, 0]
        figures[name] = {"columns": [name], **dict(zip(("tvd", "reference", "floor"), distances.tolist(), strict=True))}
    telling = {name: column for name, column in squares.items() if column.tells(ratio, len(squares))}
    drawn = [
        {**figure, "lost": telling[name].share(SYNTHETIC) if name in telling else None}
        for name, figure in figures.items()
    ]  # fmt: skip
    return telling, sorted(drawn, key=lambda figure: figure["reference"] - figure["tvd"])


def _worst(telling: dict[str, Squares], samples: HistorySamples, n_columns: int) -> Estimate | Failure:
    """The largest share of a column; its interval holds the shares of all at once."""
    if not telling:
        why = _UNTOLD if n_columns else "every learned column but the order is constant in an entity"
        return Failure(WORST, "skipped", why)
    intervals = np.array([column.interval(len(telling)) for column in telling.values()])
    shares = np.array([[column.share(rank) for rank in (SYNTHETIC, FRESH, SHUFFLED)] for column in telling.values()])
    worst = int(shares[:, 0].argmax())
    weak = f" Of {len(telling)} of {n_columns} columns; the dependence of the others is weak."
    note = f"The worst is {list(telling)[worst]!r}.{weak if len(telling) < n_columns else ''}"
    low, high = intervals.max(axis=0).tolist()
    value, reference, floor = shares.max(axis=0).tolist()
    n = samples.others[SYNTHETIC].n_steps
    return Estimate(WORST, value, n, "lower", low=low, high=high, reference=reference, floor=floor, note=note)


def step_counts(samples: HistorySamples, codes: StepCodes) -> list[np.ndarray]:
    """Counts of the codes before and now by group, for each table; shape (n_groups, n_codes squared)."""
    size, counts = len(codes.labels), []
    for each, own in zip(samples.all, codes.codes, strict=True):
        now, before = each.histories.pairs
        cells = (each.step_groups * size + own[before]) * size + own[now]
        counts.append(np.bincount(cells, minlength=N_GROUPS * size * size).reshape(N_GROUPS, -1))
    return counts


def impossible_steps(samples: HistorySamples, codes: dict[str, StepCodes], schema: Schema) -> Estimate | Failure:
    """The value that is followed most often, by entities and beyond fresh histories, by what hardly ever follows it; or
    the promise of the schema that most entities break.
    """
    tried = list[tuple[str, str, list[tuple[int, int]], bool]]()
    are_told = not codes
    for name, column in codes.items():
        barred, last, of_column = _barred(samples.train, column)
        are_told |= of_column
        hits = [_entities(each, own, barred, last) for each, own in zip(samples.others, column.codes[1:], strict=True)]
        for code in np.flatnonzero(barred.any(axis=1)):
            counts = [(int(hit[code]), int(at_risk[code])) for hit, at_risk in hits]
            are_enough = counts[SYNTHETIC][1] >= LEAST_AT_RISK and counts[FRESH][1] >= LEAST_FRESH
            what = f"{column.labels[code]!r} of {name!r}, followed by what hardly ever follows it in training histories"
            tried.append((name, what, counts, are_enough))
    is_open = bool(tried or not are_told) and not any(are_enough for *_, are_enough in tried)
    for name in (*schema.constant_in_entity, *schema.nondecreasing_in_entity):
        if name in schema.kept:
            verb = "varies though it is constant" if name in schema.constant_in_entity else "falls though it never does"
            counts = [(count_broken(each, name, schema), each.n_histories) for each in samples.others]
            tried.append(("", f"{name!r}, which {verb}", counts, True))
    n_enough, judged = sum(are_enough for *_, are_enough in tried), []
    for name, what, counts, are_enough in tried:
        rates = [wilson(k / max(n, 1), max(n, 1), n_enough if are_enough else len(tried)) for k, n in counts]
        if not name:  # a promise holds whatever real rows do
            rates[FRESH] = (0.0, 0.0, 0.0)
        excess = newcombe(rates[SYNTHETIC], rates[FRESH])
        is_certain = excess[1] > 0  # no chance, however few
        is_open &= not is_certain
        if are_enough or is_certain:
            judged.append((excess, what, counts, rates[SHUFFLED][0] - rates[FRESH][0]))
    if is_open:
        why = "too few entities have a value that something hardly ever follows for a share of them to be told"
        return Failure(IMPOSSIBLE, "skipped", why)
    if not judged:
        n, why = samples.others[SYNTHETIC].n_histories, "There is no value that something hardly ever follows."
        return Estimate(IMPOSSIBLE, 0.0, n, "lower", low=0.0, high=0.0, reference=0.0, floor=0.0, note=why)
    excess, what, ((k, n), (k_fresh, n_fresh), _), _ = max(judged, key=lambda each: each[0][1])
    note = (
        f"The worst is {what}: in {k:,} of {n:,} entities, in fresh real histories in {k_fresh:,} of {n_fresh:,}. Of "
        f"{len(judged)} values and promises."
    )
    return Estimate(
        IMPOSSIBLE, excess[0], n, "lower", low=excess[1], high=max(each[0][2] for each in judged), reference=0.0,
        floor=max(each[3] for each in judged), note=note,
    )  # fmt: skip


def _barred(train: GroupedHistories, column: StepCodes) -> tuple[np.ndarray, np.ndarray, bool]:
    """Steps that hardly ever occur, shape (n_codes, n_codes), and values that hardly any row follows: as often as
    `HARDLY` of what steps come to whose rows are independent. True with them if there are rows enough for any.
    """
    size, own = len(column.labels), column.codes[0]
    now, before = train.histories.pairs
    counts = np.bincount(own[before] * size + own[now], minlength=size * size).reshape(size, size)
    followed, follow = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(followed, follow) / max(counts.sum(), 1)
    of_rows = np.bincount(own[train.histories.rows], minlength=size) * counts.sum() / max(len(train.histories.rows), 1)
    last = (of_rows >= LEAST_EXPECTED) & (followed <= HARDLY * of_rows)
    are_told = bool((expected >= LEAST_EXPECTED).any() or last.any())
    # A number that leaps is seldom impossible, so that of its parts only what never follows is barred.
    seldom = counts <= (0.0 if column.is_cut else HARDLY) * expected
    return ((expected >= LEAST_EXPECTED) & seldom) | last[:, None], last, are_told


def _entities(
    each: GroupedHistories, own: np.ndarray, barred: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """By value, entities with a barred step from it, and those that could have one; both of shape (n_codes,)."""
    (now, before), owners, rows, size = each.histories.pairs, each.step_owners, each.histories.rows, len(last)
    ends = last[own[rows]]  # nothing has to follow here to be at risk
    values = np.append(own[before], own[rows][ends])
    at_risk = np.unique(np.append(owners, each.histories.owners[ends]) * size + values) % size
    broken = barred[own[before], own[now]]
    hit = np.unique(owners[broken] * size + own[before][broken]) % size
    return np.bincount(hit, minlength=size), np.bincount(at_risk, minlength=size)


def count_broken(each: GroupedHistories, name: str, schema: Schema) -> int:
    return len(np.unique(each.step_owners[broken_steps(each.frame, name, each.histories, schema)]))

"""Self-tests of an evaluation: tables of which it is known what a policy must say, made of a few of the same real rows.

honest: a half of the holdout, which no rule may fail; copy: the training rows, which must fail on privacy; some copies:
the honest rows, of which `COPIED` are replaced by training rows, which must fail on copies; shuffled and sorted: the
training rows with every column shuffled or sorted, which must fail on what holds between columns, or between texts and
their rows; and those that extras bring by the registry kind "self-test".

They are measured like every other table, on at most `MAX_ROWS` rows in all, by the measures that tell most for their
time. Work is limited and time is not, so that a busy machine comes to what an idle one does.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from evaluate.gate.policy_checks import COPIED, SpoiledCase, brought_cases
from evaluate.metrics import CATALOG, GATEABLE
from evaluate.result import Candidate, Case, SelfTest
from evaluate.sampling import MIN_HOLDOUT_ROWS, MIN_TRAIN_ROWS, MOSTLY, entity_codes, shuffle_columns
from evaluate.tables import MetricResult, Real, Tables
from synth.schema import Schema
from synth.schema.residual_schema import unordered
from synth.split import halves, twins

MAX_ROWS = 2_000  # Rows of train and holdout together
MAX_COLUMNS = 32
"""Columns that attacks and pairs look at; of a wider table these are drawn. Whole rows are compared where copies are
counted."""

COPIES, MEMBERSHIP, COLUMNS, PAIRS = "privacy.copies", "privacy.membership", "fidelity.columns", "fidelity.pairs"
TELLING: dict[Case, tuple[str, ...]] = {
    "honest": (COPIES, COLUMNS, PAIRS, MEMBERSHIP),
    "copy": (COPIES, MEMBERSHIP),
    "some copies": (COPIES,),
    "shuffled": (PAIRS,),
    "sorted": (PAIRS,),
}
"""The measures of each case, beside those of extras whose numbers say that the case spoils them."""
NARROWED = (PAIRS, MEMBERSHIP)  # Measures that look at `MAX_COLUMNS` at most


def self_tests_of(
    real: Real, measures: Collection[str], run: Callable[[str, Tables], MetricResult]
) -> tuple[SelfTest, ...]:  # fmt: skip
    """Every case measured, or why it says nothing about this table. The same rows and seed give the same numbers."""
    brought = brought_cases(lambda need: bool(getattr(real.schema, need)))
    cases = _telling(real.schema, brought)
    asked = {case: [name for name in telling if name in measures] for case, telling in cases.items()}
    unasked = "It takes one of {}, and none was asked for." if real.held_out else "It takes {}, which takes a holdout."
    absent = {
        case: unasked.format(", ".join(cases[case]) if real.held_out else cases[case][0])
        for case, names in asked.items()
        if not names
    }
    sample = None if len(absent) == len(asked) else _sampled(real)
    if sample is None:
        few = f"Fewer than {MIN_TRAIN_ROWS} rows are left where entities are kept whole."
        return tuple(SelfTest(case, absent=absent.get(case, few)) for case in cases)
    few_real, honest = sample
    frames, silent = _frames(few_real, honest, brought)
    absent = {**silent, **absent}
    tables = {case: few_real.beside(frame) for case, frame in frames.items() if case not in absent}
    measured = _measured(tables, asked, run)
    return tuple(SelfTest(case, measured.get(case), absent.get(case, "")) for case in cases)


def _telling(schema: Schema, brought: Mapping[Case, SpoiledCase]) -> dict[Case, tuple[str, ...]]:
    """The measures of each case; one that a case spoils has to keep honest rows, too."""
    cases: dict[Case, tuple[str, ...]] = {**TELLING, **{case: (spoiled.measure,) for case, spoiled in brought.items()}}
    for metric in CATALOG.values():
        spoiled = [case for case in metric.spoiled_by if case in TELLING]
        if spoiled and (not metric.needs or getattr(schema, metric.needs)):
            cases |= {case: (*cases[case], metric.by) for case in ("honest", *spoiled)}
    return cases


def _frames(
    real: Real, honest: pd.DataFrame | None, brought: Mapping[Case, SpoiledCase]
) -> tuple[dict[Case, pd.DataFrame], dict[Case, str]]:
    """*Sensitive*. The rows of each case, and reasons why a case says nothing of them."""
    frames: dict[Case, pd.DataFrame] = {"copy": real.train, "shuffled": real.shuffled, "sorted": _sorted(real.train)}
    frames |= {case: spoiled.spoil(real) for case, spoiled in brought.items()}
    reasons: dict[Case, str] = {}
    if honest is None:
        few = f"Half of the holdout and another half to measure it by need {2 * MIN_HOLDOUT_ROWS} rows."
        reasons |= {"honest": few, "some copies": few}
    else:
        hashes, n_copied = real.hashes("train"), round(COPIED * len(honest))
        alone = real.train[hashes.times(hashes.keys) == 1]
        some = pd.concat([honest.iloc[n_copied:], alone.head(n_copied)], ignore_index=True)
        frames = {"honest": honest, **frames, "some copies": some}
        if len(alone) < n_copied:
            reasons["some copies"] = "Nearly every training row has a twin, so that nobody is known by one."
    if len(real.schema.learned) < 2:
        nothing = "Fewer than two columns are learned, so nothing holds between columns."
        reasons |= {"shuffled": nothing, "sorted": nothing}
    if twins(pd.concat([real.fresh, real.control]), real.train, real.schema.learned).mean() > MOSTLY:
        reasons["copy"] = "Most held-out rows equal a training row, so a copy is hardly told from an honest table."
        reasons.setdefault("some copies", reasons["copy"])
    return frames, reasons


def _measured(
    tables: Mapping[Case, Tables],
    asked: Mapping[Case, Collection[str]],
    run: Callable[[str, Tables], MetricResult],
) -> dict[Case, Candidate]:
    """The numbers of each table that a rule may rest on, without what a report draws."""
    results: dict[Case, list[MetricResult]] = {case: [] for case in tables}
    brought = (name for names in asked.values() for name in names)
    for name in dict.fromkeys((COPIES, COLUMNS, PAIRS, MEMBERSHIP, *brought)):
        for case, table in tables.items():
            if name in asked[case]:
                results[case].append(run(name, _narrowed(table) if name in NARROWED else table))
    return {
        case: Candidate(
            name=case,
            estimates=tuple(e for result in measured for e in result.estimates if e.measure in GATEABLE),
            failures=tuple(f for result in measured for f in result.failures if f.measure in GATEABLE),
        )
        for case, measured in results.items()
    }


def _sampled(real: Real) -> tuple[Real, pd.DataFrame | None] | None:
    """A few of the rows, whole entities, and honest ones of the holdout; `None` where too few are left."""
    side = MAX_ROWS // 2
    train = _some(real.train, real.schema, side)
    fresh, control = (_some(frame, real.schema, side // 2) for frame in (real.fresh, real.control))
    honest = None
    if min(len(fresh), len(control)) >= MIN_HOLDOUT_ROWS:
        honest, (fresh, control) = fresh, halves(control, real.schema, seed=real.seed)
    if len(train) < MIN_TRAIN_ROWS or not len(fresh) or not len(control):
        return None
    names = sorted(train.columns)
    shuffled = shuffle_columns(train[names], np.random.default_rng([real.seed, 3]))[list(train.columns)]
    return replace(real, train=train, fresh=fresh, control=control, shuffled=shuffled, whole={}), honest


def _some(rows: pd.DataFrame, schema: Schema, most: int) -> pd.DataFrame:
    """At most so many of the rows, which stand in a random order: the first, with all rows of their entities."""
    if len(rows) <= most:
        return rows
    if schema.entity is None:
        return rows.head(most).reset_index(drop=True)
    codes = entity_codes(rows, schema)  # numbered as they come
    sizes = np.bincount(codes)
    few = np.flatnonzero(sizes <= most // 4)  # one large entity is no sample
    return rows[np.isin(codes, few[np.cumsum(sizes[few]) <= most])].reset_index(drop=True)


def _sorted(train: pd.DataFrame) -> pd.DataFrame:
    """The table with every column sorted on its own, missing values first: all of them rise together."""
    ranks = {name: pd.factorize(train[name], sort=True)[0] for name in train.columns}
    return pd.DataFrame(
        {name: train[name].take(np.argsort(ranks[name], kind="stable")).reset_index(drop=True) for name in ranks}
    )


def _narrowed(tables: Tables) -> Tables:
    """The tables with at most `MAX_COLUMNS`, drawn by name; as they are where they have no more."""
    schema = tables.schema
    if len(schema.learned) <= MAX_COLUMNS:
        return tables
    drawn = np.random.default_rng([tables.seed, 4]).permutation(sorted(schema.learned))[:MAX_COLUMNS]
    kept = {*map(str, drawn), schema.target, schema.entity}
    # A column may name others, which were not drawn: what it is modeled by, rises with, or stands in one cell with.
    columns = {
        name: unordered(column).model_copy(update={"modeled": None, "part": None})
        for name, column in schema.columns.items()
        if name in kept
    }
    narrow = Schema(status=schema.status, target=schema.target, task=schema.task, entity=schema.entity, columns=columns)
    return replace(tables, schema=narrow)

"""Self-tests of an evaluation: tables of which it is known what a policy must say, made of a few of the same real rows.

* honest: a half of the holdout, which no rule may fail;
* copy: the training rows themselves, which must fail on privacy;
* shuffled: the training rows with every column shuffled, which must fail on what holds between columns.

They are measured like every other table, on at most `MAX_ROWS` rows in all and within `LIMIT_S`, by the measures that
tell most for their time, and by none that was not asked for. What they come to depends on a policy: see
`evaluate.checks`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evaluate.catalog import GATEABLE
from evaluate.result import Candidate, Case, SelfTest
from evaluate.sampling import entity_codes
from evaluate.sides import MIN_HOLDOUT_ROWS, MIN_TRAIN_ROWS, MOSTLY, shuffle_columns
from evaluate.tables import Measurement, Real, Tables
from synth.schema import Schema
from synth.split import halves, twins

MAX_ROWS = 2_000
"""Rows of train and holdout together."""
MAX_PAIRED = 32
"""Columns whose pairs are looked at, as the time goes with their square; the others of a wider table are left out."""
LIMIT_S = 10.0
"""Wall seconds for all cases together."""

COPIES, MEMBERSHIP, COLUMNS, PAIRS = "privacy.copies", "privacy.membership", "fidelity.columns", "fidelity.pairs"
TELLING: dict[Case, tuple[str, ...]] = {
    "honest": (COPIES, COLUMNS, PAIRS, MEMBERSHIP),
    "copy": (COPIES, MEMBERSHIP),
    "shuffled": (PAIRS,),
}
"""The measures of each case."""

Run = Callable[[str, Tables, float], Measurement]
"""What a measure gives of a table within so many wall seconds, with whatever goes wrong turned into failures."""


@dataclass(frozen=True)
class _Sample:
    """*Sensitive*. The rows of all cases.

    Attributes:
        real: the real side beside which they are measured.
        honest: the half of the holdout that plays the synthetic table; none where the holdout is too small for halves.
    """

    real: Real
    honest: pd.DataFrame | None

    @property
    def tables(self) -> dict[Case, pd.DataFrame]:
        """The table of each case that there is."""
        made: dict[Case, pd.DataFrame] = {"copy": self.real.train, "shuffled": self.real.shuffled}
        return made if self.honest is None else {"honest": self.honest, **made}

    @property
    def silent(self) -> dict[Case, str]:
        """Why a case says nothing of these rows, by case."""
        real, found = self.real, dict[Case, str]()
        if self.honest is None:
            found["honest"] = f"Half of the holdout and another half to measure it by need {2 * MIN_HOLDOUT_ROWS} rows."
        if len(real.schema.learned) < 2:
            found["shuffled"] = "Fewer than two columns are learned, so nothing holds between columns."
        outside = pd.concat([real.fresh, real.control])
        if twins(outside, real.train, real.schema.learned).mean() > MOSTLY:
            found["copy"] = "Most held-out rows equal a training row, so a copy is hardly told from an honest table."
        return found


def self_tests_of(real: Real, measures: Collection[str], run: Run) -> tuple[SelfTest, ...]:
    """Every case measured, or why it says nothing about this table. The same rows and seed give the same numbers.

    Args:
        real: *Sensitive*. The rows of the evaluation.
        measures: that were asked for.
        run: measures.
    """
    asked = {case: [name for name in telling if name in measures] for case, telling in TELLING.items()}
    absent = {case: _unasked(case) for case, names in asked.items() if not names}
    sample = None if len(absent) == len(asked) else _sampled(real)
    if sample is None:
        few = f"Fewer than {MIN_TRAIN_ROWS} rows are left where entities are kept whole."
        return tuple(SelfTest(case, absent=absent.get(case, few)) for case in TELLING)
    absent = {**sample.silent, **absent}
    tables = {case: sample.real.beside(made) for case, made in sample.tables.items() if case not in absent}
    found = _measured(tables, asked, run)
    return tuple(SelfTest(case, found.get(case), absent.get(case, "")) for case in TELLING)


def _measured(
    tables: Mapping[Case, Tables], asked: Mapping[Case, Collection[str]], run: Run
) -> dict[Case, Candidate]:  # fmt: skip
    """The numbers of each table that a rule may rest on, without what a report draws.

    The quickest measures run first, on all tables, so that a slow machine loses the least.
    """
    ends = time.monotonic() + LIMIT_S
    found: dict[Case, list[Measurement]] = {case: [] for case in tables}
    for name in (COPIES, COLUMNS, PAIRS, MEMBERSHIP):
        for case, given in tables.items():
            if name in asked[case]:
                narrow = replace(given, schema=_narrowed(given.schema, given.seed)) if name == PAIRS else given
                found[case].append(run(name, narrow, max(ends - time.monotonic(), 0.001)))
    return {case: _candidate(case, measured) for case, measured in found.items()}


def _candidate(case: Case, measured: Iterable[Measurement]) -> Candidate:
    measured = list(measured)
    return Candidate(
        name=case,
        estimates=tuple(e for one in measured for e in one.estimates if e.measure in GATEABLE),
        failures=tuple(f for one in measured for f in one.failures if f.measure in GATEABLE),
    )


def _unasked(case: Case) -> str:
    return f"It takes one of {', '.join(TELLING[case])}, and none was asked for."


def _sampled(real: Real) -> _Sample | None:
    """A few of the rows, whole entities; none where too few are left."""
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
    made = replace(real, train=train, fresh=fresh, control=control, shuffled=shuffled, stored=None)
    return _Sample(made, honest)


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


def _narrowed(schema: Schema, seed: int) -> Schema:
    """The schema with some of its columns, drawn by name; as it is where it has few."""
    if len(schema.learned) <= MAX_PAIRED:
        return schema
    drawn = np.random.default_rng([seed, 4]).permutation(sorted(schema.learned))[:MAX_PAIRED]
    kept = {*map(str, drawn), schema.target, schema.entity}
    columns = {name: column for name, column in schema.columns.items() if name in kept}
    return Schema(status=schema.status, target=schema.target, task=schema.task, entity=schema.entity, columns=columns)

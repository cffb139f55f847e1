"""Every table of a comparison measured on the same terms: what is the same for all, and what is found of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from evaluate.engine import attempted, measure_candidate, real_facts
from evaluate.gate.finding import Finding
from evaluate.gate.policy import Policy
from evaluate.ranking.figures import Figures
from evaluate.result import Candidate, Failure
from evaluate.tables import Real
from synth.input_file import GivenFile
from synth.progress import Progress
from synth.schema import Schema
from synth.table.limits import Limits
from understudy.vendors.asked import Asked
from understudy.vendors.offers import Offered, look_at, sampled
from understudy.vendors.rules import barring, beyond_policy, lacking_columns

PERSONAL = "privacy.personal"


@dataclass(frozen=True)
class Bench:
    """What is the same for all tables. *Sensitive*."""

    asked: Asked
    schema: Schema
    policy: Policy
    train: pd.DataFrame
    holdout: pd.DataFrame
    limits: Limits
    real: Real
    progress: Progress
    given: Mapping[str, GivenFile]
    started: str

    def beside(self, offered: Offered) -> Real:
        """The real rows by the columns that a table has; without all of them, they serve that table alone."""
        return self.real if not offered.lacking else self.prepared(offered.schema)

    def prepared(self, schema: Schema) -> Real:
        """The real rows by the columns of a schema."""
        return Real.prepare(
            self.train, self.holdout, schema, seed=self.asked.seed, outside=self.asked.outside,
            n_targets=self.asked.n_targets,
        )  # fmt: skip

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the real table, with how train and holdout differ."""
        return real_facts(self.real, self.asked.measures)


@dataclass(frozen=True)
class Measured:
    """One table, measured.

    Attributes:
        candidate: with nothing that lacking a column could improve.
        figures: that it is ranked by; none where it is not ranked.
        barred: what bars it.
        open: what may bar it, for all that is known.
        own: what the comparison's own rules say.
    """

    candidate: Candidate
    figures: Figures | None
    barred: list[Finding]
    open: list[Finding]
    own: list[Finding]


def looked_at(bench: Bench, named: Mapping[str, Any]) -> tuple[dict[str, Offered], dict[str, str]]:
    """The tables that can be read, and why the others cannot.

    Args:
        bench: what is the same for all.
        named: their files, by the vendors' names.
    """
    offers, unusable = {}, {}
    for index, (name, path) in enumerate(named.items()):
        bench.progress(f"read {name}", index / len(named))
        got, _ = attempted(name, partial(look_at, name, path, bench.schema, bench.limits))
        if isinstance(got, Failure):
            unusable[name] = got.message
        else:
            offers[name] = got
    return offers, unusable


def measure(bench: Bench, offered: Offered, n_rows: int) -> Measured:
    """One table, on as many rows as all others, with what bars it.

    Args:
        bench: *Sensitive*: holds the real rows.
        offered: the table.
        n_rows: that are compared of it.

    Raises:
        TableError: it changed since it was looked at; nothing was measured.
    """
    asked, real = bench.asked, bench.beside(offered)
    delivered = offered.read(bench.limits)
    tables = real.beside(sampled(delivered, offered.schema, n_rows, asked.seed))
    candidate = measure_candidate(
        offered.name, tables, measures=asked.measures, time_limit_s=asked.time_limit_s, progress=bench.progress,
        generator={"vendor": offered.name},
    )  # fmt: skip
    whole = real.beside(delivered) if len(delivered) > n_rows else None
    own = beyond_policy(tables, candidate, None if whole is None else whole.synthetic)
    if whole is not None:
        in_all = measure_candidate(offered.name, whole, measures=[PERSONAL])
        own += [f for f in barring(in_all, bench.policy, [], bench.facts)[0] if f.rule.measure.startswith(PERSONAL)]
    barred, left_open = barring(candidate, bench.policy, own, bench.facts)
    figures = None if barred or offered.lacking else Figures.of(tables, asked.time_limit_s)
    tables.kept.clear()
    return Measured(lacking_columns(candidate, offered.lacking), figures, barred, left_open, own)

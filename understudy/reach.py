"""Rules that a table of a size cannot be shown to keep: public numbers tell before anything is fitted.

An attack that finds nothing still has an interval, whose upper end lies the higher the fewer people it is tried on. A
rule whose limit lies below that end is INCONCLUSIVE whatever the table is, unless the privacy claim proves it. The same
holds of a share of synthetic rows that is zero, or one. So rules are looked at whose intervals follow from counts:
membership, from numbers of people; rows equal to a real row, and rows that keep the schema, from that of synthetic
rows. Where real rows repeat each other, a table may yet keep a rule on an excess. Any other rule could be passed by
some table of any size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from evaluate.gate.finding import bounded, false_alarms, most_of
from evaluate.gate.policy import Policy, Rule
from evaluate.intervals import clopper_pearson, wilson
from evaluate.privacy.membership import Scores, true_positive_rate
from evaluate.privacy.membership_attacks import MOST_ROWS, ROWS_EACH, affordable_targets

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

Z = float(special.ndtri(0.975))
STEP, MOST_TIMES = 1.25, 1_000.0
"""The growth of the number of units until a rule could pass, and the largest multiple that is tried."""
LARGER_SHARES = (0.3, 0.4, 0.5)
EQUAL_ROWS = tuple(f"privacy.copies{of}" for of in ("", ".excess", ".unique.excess"))
"""Shares of synthetic rows that are equal to a real one."""
VALID_ROWS = "validity.rows"


@dataclass(frozen=True)
class Size:
    """Public numbers that the width of an interval follows from."""

    n_units: int
    holdout_share: float
    n_targets: int | None
    rows_each: int = 1
    n_rows: int | None = None
    n_searched: int | None = None

    @property
    def n_synthetic(self) -> int:
        return self.n_units if self.n_rows is None else self.n_rows

    @property
    def sides(self) -> tuple[int, int]:
        """Members and controls of an attack; the other half of the holdout is the attacker's own sample.

        >>> Size(200_000, 0.2, 8_000).sides, Size(200_000, 0.2, 8_000, rows_each=9).sides
        ((8000, 8000), (4000, 4000))
        """
        n_held = self.n_units * self.holdout_share
        members, controls = int(self.n_units - n_held), int(n_held / 2)
        if self.n_targets is None:
            return members, controls
        n_searched = self.n_synthetic if self.n_searched is None else min(self.n_searched, self.n_synthetic)
        n = affordable_targets(self.n_targets, n_searched)
        most = min(n, MOST_ROWS * n // min(self.rows_each, ROWS_EACH))
        return min(members, most), min(controls, most)


def beyond_reach(
    policy: Policy, sizes: Mapping[str, Size], limits: "Mapping[str, TradeOff | None]"
) -> Iterator[str]:  # fmt: skip
    """Sentences without a final stop on binding rules that no table of this size could pass, and what would decide."""
    for rule in policy.rules:
        if rule.severity == "fail" and not rule.subject:
            left = [
                label
                for label, size in sizes.items()
                if not could_pass(rule, size) and not _proves(limits[label], rule)
            ]
            if left:
                sign = 1 if rule.direction == "lower" else -1
                worst = max(
                    (sizes[label] for label in left), key=lambda size: sign * (unfavorable(rule.measure, size) or 0)
                )
                end = unfavorable(rule.measure, worst)
                if end is not None:
                    yield _told(rule, end, policy, worst, left if len(left) < len(sizes) else [])


def _proves(limit: "TradeOff | None", rule: Rule) -> bool:
    most = None if limit is None else most_of(limit, rule.measure)
    return most is not None and rule.keeps(most)


def could_pass(rule: Rule, size: Size) -> bool:
    """True where a table that gives nobody away could pass a rule, by measurement, as far as counts tell."""
    end = unfavorable(rule.measure, size)
    return end is None or rule.keeps(end)


def unfavorable(measure: str, size: Size) -> float | None:
    """The unfavorable end of the interval of a valid table that gives nobody away; `None` if counts do not tell.

    It is 1 where a rate of an attack cannot be measured.

    >>> round(unfavorable("privacy.membership.tpr_at_0.01", Size(40_000, 0.2, 8_000)), 4)
    0.0197
    >>> round(unfavorable("validity.rows", Size(300, 0.2, None)), 4)
    0.9878
    """
    if measure in (*EQUAL_ROWS, VALID_ROWS) and size.rows_each > 1:
        return None  # rows of one entity count as fewer, and nobody knows how many entities a generator makes
    if measure in EQUAL_ROWS:
        return wilson(0.0, size.n_synthetic)[2]
    if measure == VALID_ROWS:
        return clopper_pearson(size.n_synthetic, size.n_synthetic)[0]
    if not bounded(measure):
        return None
    return _of_attack(false_alarms(measure), size)


def _of_attack(rate: float | None, size: Size) -> float:
    """The upper end of an area, or of a true positive rate at a false positive rate, where nobody is given away."""
    n_members, n_controls = size.sides
    if min(n_members, n_controls) < 2:
        return 1.0
    if rate is None:
        return 0.5 + Z * float(np.sqrt((n_members + n_controls + 1) / (12 * n_members * n_controls)))
    if n_controls * rate < 1:
        return 1.0
    halves = [Scores.of(*(np.linspace(0, 1, n // 2 + 2)[1:-1] for n in (n_members, n_controls))) for _ in range(2)]
    return true_positive_rate(halves, rate)[2]


def _told(rule: Rule, end: float, policy: Policy, size: Size, labels: list[str]) -> str:
    named = f" for {', '.join(f'generators.{label}' for label in labels)}" if any(labels) else ""
    end_of = f"at {'most' if rule.direction == 'lower' else 'least'} {rule.limit:g}"
    seen = f"comes to as {'much' if rule.direction == 'lower' else 'little'} as {end:.3g}"
    if _of_synthetic(rule):
        table, settings = f"a synthetic table of {size.n_synthetic:,} rows", ""
        seen += " where every row is valid" if rule.measure == VALID_ROWS else " where no two rows are equal"
    else:
        table, settings = f"a table of n_units={size.n_units}", f"with holdout_share={size.holdout_share:g} "
        settings += f"and max_rows_per_unit={size.rows_each} rows of each entity " if size.rows_each > 1 else ""
        seen = "cannot be measured" if end >= 1.0 else f"{seen} where nobody is given away"
    remedies = " or ".join(_remedies(rule, size)) or "no table of a thousand times the size"
    return (
        f"policy={policy.name!r} asks for {rule.measure} of {end_of}, which {table} is too small to show{named}: "
        f"{settings}it {seen}, so that the verdict is INCONCLUSIVE, or a PASS by luck; what would decide: {remedies}"
    )


def _of_synthetic(rule: Rule) -> bool:
    return rule.measure in EQUAL_ROWS or rule.measure == VALID_ROWS


def _remedies(rule: Rule, size: Size) -> Iterator[str]:
    """Remedies that would decide, each alone, or more units and all targets together."""
    if _of_synthetic(rule):
        n_rows = _enough(rule, replace(size, n_units=size.n_synthetic, n_rows=None))
        if n_rows is not None:
            yield f"rows = {n_rows}"
        return
    if size.n_targets is not None and could_pass(rule, replace(size, n_targets=None)):
        yield 'targets = "all"'
    share = next((s for s in LARGER_SHARES if could_pass(rule, replace(size, holdout_share=s))), None)
    if share is not None and share > size.holdout_share:
        yield f"holdout_share = {share:g}"
    for targets, words in ((size.n_targets, ""), (None, 'targets = "all" and ')):
        n_units = _enough(rule, replace(size, n_targets=targets))
        if n_units is not None:
            yield f"{words}about {n_units:,} units"
            return


def _enough(rule: Rule, size: Size) -> int | None:
    """Units of which a table could pass, to two digits; `None` where not even a thousand times as many are enough."""
    times = 1.0
    while times < MOST_TIMES:
        n_units = float(f"{size.n_units * times:.1e}")
        if could_pass(rule, replace(size, n_units=int(n_units))):
            return int(n_units)
        times *= STEP
    return None

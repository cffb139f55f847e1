"""What can be said of a job before any row of its table is read: cautions, and rules that its size cannot show.

A caution is said of a job in which nothing is wrong: each is a choice.

An attack that finds nothing still has an interval, whose upper end lies the higher the fewer people it is tried on. A
rule whose limit lies below that end is INCONCLUSIVE whatever the table is, unless the privacy claim proves it. The same
holds of a share of synthetic rows that is zero, or one. So rules are looked at whose intervals follow from counts:
membership, from numbers of people; rows equal to a real row, and rows that keep the schema, from that of synthetic
rows. Where real rows repeat each other, a table may yet keep a rule on an excess. Any other rule could be passed by
some table of any size.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from evaluate.gate.decision import bounded, false_alarms, most_of
from evaluate.gate.policy import Policy, Rule, load_policy, shipped
from evaluate.intervals import clopper_pearson, wilson
from evaluate.privacy.membership import Scores, true_positive_rate
from evaluate.privacy.membership_attacks import MOST_ROWS, ROWS_EACH, affordable_targets
from evaluate.provenance import ComposedClaim
from evaluate.text import typed_loss
from reports.exports import runs
from synth.dp.events import GaussianEvent, RandomizedResponseEvent
from synth.dp.renyi_curve import RdpCurve
from synth.dp.schedule import Schedule, resolve_delta
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.base import cautions as warned
from synth.generators.outlook import doubt
from synth.schema import Schema
from understudy.budget import LEDGER_VARIABLE, Fund
from understudy.job.spec import composed

if TYPE_CHECKING:
    from synth.dp.schedule import TradeOff


WEAK_EPSILON = 10.0
"""An epsilon above this is called weak."""
FEW_UNITS = 5000
"""Fewer units than this are called few."""
DROWNED_SHARE = 0.05
"""Noise whose standard deviation is beyond this share of the units is called large."""
Z = float(special.ndtri(0.975))
STEP, MOST_TIMES = 1.25, 1_000.0
"""The growth of the number of units until a rule could pass, and the largest multiple that is tried."""
LARGER_SHARES = (0.3, 0.4, 0.5)
EQUAL_ROWS = tuple(f"privacy.copies{of}" for of in ("", ".excess", ".unique.excess"))
"""Shares of synthetic rows that are equal to a real one."""
VALID_ROWS = "validity.rows"


@dataclass(frozen=True)
class Intent:
    generators: Mapping[str, Generator]
    schedules: Mapping[str, Schedule]
    schema: Schema
    fund: Fund | None
    outside: str
    swept: "Swept | None" = None


@dataclass(frozen=True)
class Swept:
    composed: ComposedClaim | None
    unpaid: bool
    schedules: Mapping[str, Schedule]


def cautions(intent: Intent) -> Iterator[str]:
    """Sentences without a final stop, each with its reason."""
    schema = intent.schema
    plain = [label for label, chosen in intent.generators.items() if not chosen.promises]
    if plain:
        yield (
            f"no formal guarantee for {_listed(intent, plain)}: a synthetic table without an epsilon is not private by "
            "itself, and may repeat what single rows say"
        )
    for label, chosen in intent.generators.items():
        yield from (f"{_listed(intent, [label])}: {sentence}" for sentence in warned(chosen, schema))
    categories = {name: getattr(schema.columns[name], "categories", ()) for name in schema.learned}
    named = [name for name, texts in categories.items() if any(isinstance(text, str) and runs(text) for text in texts)]
    if named:  # the texts themselves are not shown
        yield (
            f"categories of {', '.join(map(repr, named))} begin like formulas, which a spreadsheet runs when it opens "
            "the synthetic CSV file; declare other texts, write Parquet, or tell whoever gets the table"
        )
    if intent.schedules:
        for label in intent.schedules:
            yield from _of_budget(intent, label)
        yield from _of_units(intent)
        yield from _of_all(intent)


RULES = {"worst": "columns.tvd.excess.worst", "mean": "columns.tvd.excess", "tail": "columns.tail.excess.worst"}
"""Measures whose rules an outlook foretells, by its names of their limits."""


def doubts(intent: Intent, policy: Policy, train_share: float = 1.0) -> dict[str, str]:
    """Sentences without a final stop on private fits that are expected to FAIL a policy, by label."""
    binding = {rule.measure: rule.failing for rule in policy.rules if rule.severity == "fail" and not rule.subject}
    limits = {name: binding.get(measure) for name, measure in RULES.items()}
    result = {}
    for label, schedule in intent.schedules.items():
        chosen = intent.generators[label]
        why = doubt(chosen, intent.schema, schedule, train_share=train_share, policy=policy.name, **limits)
        if why is not None:
            result[label] = f"{_listed(intent, [label])}: {why}"
    return result


def beyond_shipped(share: float) -> list[str]:
    """Policies that ship and allow no column so many rows in the wrong place."""
    rules = ((name, rule) for name in shipped() for rule in load_policy(name).rules if rule.measure == RULES["worst"])
    return [name for name, rule in rules if rule.breaks(share)]


def _of_budget(intent: Intent, label: str) -> Iterator[str]:
    chosen = intent.generators[label]
    if not isinstance(chosen, PrivateGenerator) or chosen.epsilon is None:
        return
    if chosen.epsilon > WEAK_EPSILON:
        yield (
            f"epsilon={chosen.epsilon:g} of {_listed(intent, [label])} is weak: it lets what comes out be "
            f"e^{chosen.epsilon:g}, about {math.exp(chosen.epsilon):.2g}, times as likely with one unit as without it, "
            "plus delta"
        )
    automatic = resolve_delta("auto", intent.schema)
    if chosen.delta != "auto" and chosen.delta > automatic:
        yield (
            f'delta={chosen.delta:g} of {_listed(intent, [label])} is larger than the {automatic:.2g} of "auto": it '
            "alone would allow every row to be given away whole with that probability"
        )


def _of_units(intent: Intent) -> Iterator[str]:
    n_units, k = intent.schema.n_units or 0, intent.schema.max_rows_per_unit
    drawn = [event for schedule in intent.schedules.values() for event in schedule.events]
    curated = not all(isinstance(event, RandomizedResponseEvent) for event in drawn)
    if curated and n_units < FEW_UNITS:
        yield (
            f"n_units={n_units} is few for a private fit: its noise does not shrink with the table, so that little but "
            "the most frequent values and the strongest relations will stand out from it"
        )
    events = [event for event in drawn if isinstance(event, GaussianEvent)]
    sigma = max((event.sigma for event in events if event.sensitivity == k), default=0.0)
    if k > 1 and sigma > DROWNED_SHARE * n_units:
        yield (
            f"max_rows_per_unit={k} makes the noise {k} times as large as one row per unit would: counts get a "
            f"standard deviation of up to {sigma:.3g}, at n_units={n_units}; a lower one uses fewer rows of each unit "
            "and adds less noise"
        )


def _of_all(intent: Intent) -> Iterator[str]:
    schedules = intent.schedules if intent.swept is None else intent.swept.schedules
    together = composed(schedules) if intent.swept is None else intent.swept.composed
    if len(schedules) > 1 and together is not None:  # whoever picks the best of them has looked at all
        in_ledger = ""
        if intent.fund is not None:
            curve = RdpCurve.total(schedule.curve for schedule in schedules.values())
            spent = typed_loss(intent.fund.holding.total.spent(curve))
            in_ledger = f" ({spent} in the ledger, which adds up by RDP)"
        named = _listed(intent, list(intent.schedules)) if intent.swept is None else "all points of the sweep"
        yield (
            f"{len(schedules)} private fits of one table compose, {named}: together they come to "
            f"epsilon={typed_loss(together.epsilon)} at delta={typed_loss(together.delta)}{in_ledger}, "
            "which is the price of choosing the best of them too"
        )
    if intent.swept is not None and intent.swept.unpaid:
        yield (
            "NOTHING OF THIS SWEEP MAY BE RELEASED: no ledger pays for its private fits, so its synthetic tables and "
            "models are not kept, and every verdict is FAIL; to release one of its points, name a ledger, which "
            "reserves the sum of all of them"
        )
    elif intent.fund is None:
        yield (
            "a private fit outside a ledger is not added to earlier releases of the same table; name a ledger in the "
            f"job ([ledger] url), with a fit's --ledger, or in {LEDGER_VARIABLE}"
        )
    elif intent.fund.holding.n_units != intent.schema.n_units:
        yield (
            f"n_units={intent.schema.n_units} of the schema is not the n_units={intent.fund.holding.n_units} that the "
            "ledger's total was opened with; both should be the public number of units"
        )
    if intent.outside == "refuse":
        yield (
            'values outside the schema stop a private fit (outside = "refuse"), and whether it stops depends on the '
            'rows, which the guarantee does not cover; clamping them (outside = "clamp" in a job, --clamp of a fit) is '
            "inside it"
        )


def _listed(intent: Intent, labels: list[str]) -> str:
    return ", ".join(f"generators.{label}" if label else intent.generators[label].name for label in labels)


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


def beyond_reach(policy: Policy, sizes: Mapping[str, Size], limits: "Mapping[str, TradeOff | None]") -> Iterator[str]:
    """Sentences without a final stop on binding rules that no table of this size could pass, and what would decide."""
    for rule in policy.rules:
        if rule.severity != "fail" or rule.subject:
            continue
        proven = {label: None if limit is None else most_of(limit, rule.measure) for label, limit in limits.items()}
        kept = {label for label, most in proven.items() if most is not None and rule.keeps(most)}
        left = [label for label, size in sizes.items() if label not in kept and not could_pass(rule, size)]
        ends = {label: unfavorable(rule.measure, sizes[label]) or 0.0 for label in left}
        if left:
            worst = max(left, key=lambda label: ends[label] if rule.direction == "lower" else -ends[label])
            yield _told(rule, ends[worst], policy, sizes[worst], left if len(left) < len(sizes) else [])


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
    return _of_attack(false_alarms(measure), size) if bounded(measure) else None


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
    most, much = ("most", "much") if rule.direction == "lower" else ("least", "little")
    seen = f"comes to as {much} as {end:.3g}"
    if rule.measure in (*EQUAL_ROWS, VALID_ROWS):
        table, settings = f"a synthetic table of {size.n_synthetic:,} rows", ""
        seen += " where every row is valid" if rule.measure == VALID_ROWS else " where no two rows are equal"
    else:
        table, settings = f"a table of n_units={size.n_units}", f"with holdout_share={size.holdout_share:g} "
        settings += f"and max_rows_per_unit={size.rows_each} rows of each entity " if size.rows_each > 1 else ""
        seen = "cannot be measured" if end >= 1.0 else f"{seen} where nobody is given away"
    remedies = " or ".join(_remedies(rule, size)) or "no table of a thousand times the size"
    return (
        f"policy={policy.name!r} asks for {rule.measure} of at {most} {rule.limit:g}, which {table} is too small to "
        f"show{named}: {settings}it {seen}, so that the verdict is INCONCLUSIVE, or a PASS by luck; what would decide: "
        f"{remedies}"
    )


def _remedies(rule: Rule, size: Size) -> Iterator[str]:
    """Remedies that would decide, each alone, or more units and all targets together."""
    if rule.measure in (*EQUAL_ROWS, VALID_ROWS):
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

"""Which generator, with which settings, and what to expect of it: from public facts alone, so that asking is free.

The schema, epsilon and delta decide; no row is read. The limits below are rules of thumb, set by fits of Adult and of
Airbnb's listings at epsilons from 0.01 to 1.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from evaluate.gate.policy import Policy
from synth.dp.schedule import Schedule
from synth.errors import JobError
from synth.generators.auto import Auto
from synth.generators.base import Generator
from synth.generators.forecast import Outlook, Planned, outlook
from synth.generators.registry import generator
from synth.schema import Schema
from understudy.advice_reasons import (
    AGAINST_NETWORKS,
    DROWNED,
    against_aim,
    against_mst,
    against_pairs,
    for_aim,
    for_classes,
    for_mst,
    limited,
    size,
    without_epsilon,
)
from understudy.advice_warnings import Facts, warnings_of
from understudy.job import SplitSpec

MOST_SECONDS, LONGEST_SECONDS = 1800.0, 6 * 3600.0
"""A fit by aim or of latent classes that takes longer is not recommended; a tree has more time."""
MOST_MB = 4096.0
"""Nor is a fit that takes so much more memory than columns on their own."""
SMALLER_MODELS: tuple[Mapping[str, Any], ...] = ({"degree": 2}, {"degree": 2, "max_model_mb": 1.0})
"""What is tried where aim takes too much: pairs only, then a smaller model of them."""
FEWER_CLASSES = ({"n_classes": 1000}, {"n_classes": 300})
"""Fewer classes, where a fit takes too much."""
COARSER = ({"n_bins": 16}, {"n_bins": 8})
"""What is tried where the pairs of a tree drown in noise: fewer codes."""
HOLDOUT_SHARE = SplitSpec().holdout_share
"""What a job keeps from every generator unless it says otherwise."""


@dataclass(frozen=True)
class Option:
    """One generator, the settings that differ from its defaults, and what to expect of it."""

    generator: Planned
    schedule: Schedule
    outlook: Outlook
    train_share: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The generator's name."""
        return self.generator.name

    @property
    def joins(self) -> bool:
        """Whether it measures a tree's worth of pairs, of which the smallest stand out from the noise."""
        tree, needed = self.outlook.tree, len(self.outlook.sizes) - 1
        return tree is not None and tree.error <= DROWNED and self.outlook.n_marginals >= needed

    def with_settings(self, schema: Schema, settings: Mapping[str, Any]) -> "Option":
        """The same generator, set otherwise in what changes no noise, with an outlook of its own."""
        changed = self.generator.model_copy(update=dict(settings))
        found = outlook(changed, schema, schedule=self.schedule, train_share=self.train_share)
        return Option(changed, self.schedule, found, self.train_share, settings)


@dataclass(frozen=True)
class Advice:
    """What to fit, and why.

    Attributes:
        schema: that it was asked for.
        epsilon: that it was asked for.
        delta: that it was asked for.
        chosen: the recommendation.
        options: the private generators as they come, and the recommendation where it is set otherwise.
        reasons: sentences for the choice.
        warnings: sentences on what to mind, and what would help.
        holdout_share: of the units that the fit is taken not to see.
    """

    schema: Schema
    epsilon: float
    delta: float | Literal["auto"]
    chosen: Option
    options: tuple[Option, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    holdout_share: float = HOLDOUT_SHARE

    @property
    def job_lines(self) -> tuple[str, ...]:
        """The recommendation as lines of a job file."""
        delta = {} if self.delta == "auto" else {"delta": self.delta}
        values = {"epsilon": self.epsilon, **delta, **self.chosen.settings}
        # A job holds out something; without a holdout there is a fit, and no job.
        said = self.holdout_share not in (0.0, HOLDOUT_SHARE)
        split = ("[split]", f"holdout_share = {self.holdout_share}", "") if said else ()
        return (
            *split,
            f"[generators.{self.chosen.name}]",
            *(f"{key} = {json.dumps(value)}" for key, value in values.items()),
        )

    @property
    def without_epsilon(self) -> str:
        """A sentence on the fit that names no epsilon."""
        return without_epsilon(Auto().chosen(self.schema).name)

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain data."""
        return {
            "recommended": _plain(self.chosen),
            "options": [_plain(option) for option in self.options],
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "without_epsilon": self.without_epsilon,
            "job": list(self.job_lines),
            "holdout_share": self.holdout_share,
            "epsilon": self.epsilon,
            "delta": self.chosen.outlook.delta,
        }


def advise(
    schema: Schema,
    epsilon: float,
    delta: float | Literal["auto"] = "auto",
    holdout_share: float = HOLDOUT_SHARE,
    policies: Sequence[Policy] = (),
) -> Advice:
    """The generator to fit under this schema and budget. Reads no row.

    Args:
        schema: declared, with n_units.
        epsilon: total, of one fit.
        delta: of the guarantee.
        holdout_share: of the units that the fit does not see, in [0, 1).
        policies: to say of which rules no table of this size could pass, and the claim does not prove.

    Raises:
        BudgetError: the schema is not declared or names no n_units, or the budget leaves no room.
        SchemaError: free text is kept, or nothing is there to learn.
        JobError: epsilon or the share is out of range.
    """
    if not 0 <= holdout_share < 1:
        raise JobError(f"a holdout is a share in [0, 1): holdout_share={holdout_share:g}; choose one inside")
    made = [
        _option(generator(kind.name, epsilon=epsilon, delta=delta), schema, 1 - holdout_share)
        for kind in get_args(Planned)
    ]
    options = {option.name: option for option in made}
    chosen, reasons = _choice(options, schema)
    shown = list(options.values())
    if chosen.settings:
        shown.append(chosen)
    facts = Facts(schema, epsilon, chosen.generator, chosen.outlook, chosen.train_share, chosen.schedule)
    warnings = tuple(warnings_of(facts))
    if policies and holdout_share > 0 and schema.n_units is not None:
        from evaluate.tables import N_TARGETS
        from understudy.reach import Size, beyond_reach

        sizes = {"": Size(schema.n_units, holdout_share, N_TARGETS, schema.max_rows_per_unit)}
        limits = {"": chosen.schedule.trade_off}
        warnings += tuple(said for policy in policies for said in beyond_reach(policy, sizes, limits))
    return Advice(schema, epsilon, delta, chosen, tuple(shown), (*reasons, AGAINST_NETWORKS), warnings, holdout_share)


def _option(chosen: Generator, schema: Schema, train_share: float) -> Option:
    assert isinstance(chosen, Planned)
    schedule = chosen.schedule(schema)
    assert schedule is not None
    found = outlook(chosen, schema, schedule=schedule, train_share=train_share)
    return Option(chosen, schedule, found, train_share)


def _choice(options: Mapping[str, Option], schema: Schema) -> tuple[Option, list[str]]:
    """The richest model that the budget, time and memory allow, and sentences for it."""
    alone, tree, rounds = options["independent"], options["mst"], options["aim"]
    if tree.outlook.tree is None:
        return alone, ["one column is to be learned, so that there are no pairs to measure"]
    auto = Auto(epsilon=rounds.generator.epsilon, delta=rounds.generator.delta)
    suited = auto.chosen(schema)
    if suited.name == alone.name:
        return alone, [against_pairs(auto.signal(schema)), _for_columns(alone)]
    if suited.name == "latent_class":
        classes = options["latent_class"]
        fewer = _variants(classes, schema, FEWER_CLASSES)
        fit = _first(option for option in fewer if _affordable(option, alone, MOST_SECONDS))
        if fit is not None:
            return fit, [*for_classes(fit), *limited(classes, fit)]
    smaller = _variants(rounds, schema, SMALLER_MODELS) if rounds.joins else ()
    fitting = _first(option for option in smaller if _affordable(option, alone, MOST_SECONDS))
    if fitting is not None:
        return fitting, [*for_aim(fitting), *limited(rounds, fitting)]
    against = against_aim(rounds)
    coarser = _variants(tree, schema, COARSER)
    usable = _first(option for option in coarser if option.joins and _affordable(option, alone, LONGEST_SECONDS))
    if usable is not None:
        return usable, [*against, *for_mst(usable, tree)]
    return alone, [*against, *against_mst(tree), _for_columns(alone)]


def _for_columns(alone: Option) -> str:
    return f"columns on their own cost {size(alone.outlook.column)} each"


def _affordable(option: Option, alone: Option, seconds: float) -> bool:
    """Whether time is within a limit, and memory within its own beyond what the table itself takes."""
    return option.outlook.seconds <= seconds and option.outlook.memory_mb - alone.outlook.memory_mb <= MOST_MB


def _variants(option: Option, schema: Schema, settings: Iterable[Mapping[str, Any]]) -> Iterator[Option]:
    """The generator as it comes, then set otherwise, one after the other."""
    yield option
    yield from (option.with_settings(schema, one) for one in settings)


def _first(options: Iterable[Option]) -> Option | None:
    return next(iter(options), None)


def _plain(option: Option) -> dict[str, Any]:
    return {"settings": dict(option.settings), **option.outlook.to_dict()}

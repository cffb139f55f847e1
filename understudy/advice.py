"""Advice before a fit: a generator, its settings, and the error and cost to expect of it. Asking is free.

Public facts decide: the schema, epsilon and delta; no row is read. The outlook of each option is a table; reasons say
only what it does not show. Warnings name remedies that are worked out, not guessed. The limits below are rules of
thumb, set by fits of Adult and of Airbnb's listings at epsilons from 0.01 to 1.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from evaluate.gate.policy import Policy
from synth.domain.grid import EVEN_CELLS
from synth.dp.events import StabilityEvent
from synth.dp.schedule import Schedule
from synth.errors import JobError
from synth.generators.auto import LEAST_SIGNAL, Auto
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.fitting.fixed_costs import domain_event_name, domain_shares, spikes_event_name
from synth.generators.fitting.histograms import RARE
from synth.generators.forecast import ASSUMED_CATEGORIES, MarginalNoise, Outlook, Planned, assumed, outlook
from synth.generators.registry import generator
from synth.generators.wrapper import usual_options, wrappers
from synth.schema import Schema
from understudy.console import duration
from understudy.job.spec import SplitSpec
from understudy.run.preflight import WEAK_EPSILON

DROWNED = 0.4
"""A pair that noise alone is expected to move by more, as a total variation, says little of the table."""
AGAINST_NETWORKS = (
    "ctgan and tvae are not among the options: on Adult, with 26,048 rows to fit, a model trained on synthetic rows at "
    "epsilon 1 has an AUC of about 0.89 with ctgan and 0.88 with tvae, where aim has 0.905 and real rows have 0.924"
)
"""The reason against networks, whatever the schema: no rule tells their tables, so that this was measured."""


def without_epsilon(generator: str) -> str:
    """The default of a fit that names no epsilon, and what that means."""
    return (
        f"without epsilon the default is {generator}, which promises nothing: its table may repeat what single rows say"
    )


MOST_SECONDS, LONGEST_SECONDS = 1800.0, 6 * 3600.0
"""A fit by aim or of latent classes that takes longer is not recommended; a tree has more time."""
MOST_MB = 4096.0
"""Nor is a fit that takes so much more memory than columns on their own."""
SMALLER_MODELS: tuple[Mapping[str, Any], ...] = ({"degree": 2}, {"degree": 2, "max_model_mb": 1.0})
"""Settings that are tried where aim takes too much: pairs only, then a smaller model of them."""
FEWER_CLASSES = ({"n_classes": 1000}, {"n_classes": 300})
"""Fewer classes, where a fit takes too much."""
COARSER = ({"n_bins": 16}, {"n_bins": 8})
"""Settings that are tried where the pairs of a tree drown in noise: fewer codes."""
HOLDOUT_SHARE = SplitSpec().holdout_share
"""The share that a job holds out from every generator unless it says otherwise."""


@dataclass(frozen=True)
class Option:
    """One generator, the settings that differ from its defaults, and what to expect of it."""

    generator: PrivateGenerator
    schedule: Schedule
    outlook: Outlook
    train_share: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.generator.name

    @property
    def joins(self) -> bool:
        """True where it measures a tree's worth of pairs, of which the smallest stand out from the noise."""
        tree, needed = self.outlook.tree, len(self.outlook.sizes) - 1
        return tree is not None and tree.error <= DROWNED and self.outlook.n_marginals >= needed

    def under(self, schema: Schema) -> Outlook:
        """The outlook under another schema, all else alike."""
        return outlook(self.generator, schema, train_share=self.train_share)

    def with_settings(self, schema: Schema, settings: Mapping[str, Any]) -> "Option":
        """The same generator, set otherwise in what changes no noise, with an outlook of its own."""
        changed = self.generator.model_copy(update=dict(settings))
        found = outlook(changed, schema, schedule=self.schedule, train_share=self.train_share)
        return Option(changed, self.schedule, found, self.train_share, settings)


@dataclass(frozen=True)
class Advice:
    """A recommended generator with its reasons."""

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
        delta = {} if self.delta == "auto" else {"delta": self.delta}
        values = {"epsilon": self.epsilon, **delta, **self.chosen.settings, **usual_options(self.schema)}
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
        return without_epsilon(Auto().chosen(self.schema).name)

    def to_dict(self) -> dict[str, Any]:
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
    """The generator to fit under this schema and budget. Reads no row."""
    if not 0 <= holdout_share < 1:
        raise JobError(f"a holdout is a share in [0, 1): holdout_share={holdout_share:g}; choose one inside")
    made = [
        _option(generator(kind.name, epsilon=epsilon, delta=delta, **usual_options(schema)), schema, 1 - holdout_share)
        for kind in get_args(Planned)
    ]
    options = {option.name: option for option in made}
    chosen, reasons = _choice(options, schema)
    shown = list(options.values())
    if chosen.settings:
        shown.append(chosen)
    warnings = tuple(_warnings_of(chosen, schema, epsilon))
    if policies and holdout_share > 0 and schema.n_units is not None:
        from evaluate.options import N_TARGETS
        from understudy.reach import Size, beyond_reach

        sizes = {"": Size(schema.n_units, holdout_share, N_TARGETS, schema.max_rows_per_unit)}
        limits = {"": chosen.schedule.trade_off}
        warnings += tuple(said for policy in policies for said in beyond_reach(policy, sizes, limits))
    return Advice(schema, epsilon, delta, chosen, tuple(shown), (*reasons, AGAINST_NETWORKS), warnings, holdout_share)


def _option(chosen: Generator, schema: Schema, train_share: float) -> Option:
    schedule = chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None
    if schedule is None or not isinstance(chosen, PrivateGenerator):
        raise JobError(f"generator={chosen.name!r} has no outlook before a fit; name one on marginals")
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
        return alone, [_against_pairs(auto.signal(schema))]
    if suited.name == "latent_class":
        classes = options["latent_class"]
        fewer = _variants(classes, schema, FEWER_CLASSES)
        fit = next((option for option in fewer if _affordable(option, alone, MOST_SECONDS)), None)
        if fit is not None:
            return fit, [*_for_classes(fit), *_limited(classes, fit)]
    smaller = _variants(rounds, schema, SMALLER_MODELS) if rounds.joins else ()
    fitting = next((option for option in smaller if _affordable(option, alone, MOST_SECONDS)), None)
    if fitting is not None:
        return fitting, [*_for_aim(fitting), *_limited(rounds, fitting)]
    against = _against_aim(rounds)
    coarser = _variants(tree, schema, COARSER)
    usable = next((option for option in coarser if option.joins and _affordable(option, alone, LONGEST_SECONDS)), None)
    if usable is not None:
        return usable, [*against, *_for_mst(usable, tree)]
    return alone, [*against, *_against_mst(tree)]


def _affordable(option: Option, alone: Option, seconds: float) -> bool:
    """True where time is within a limit, and memory within its own beyond what the table itself takes."""
    return option.outlook.seconds <= seconds and option.outlook.memory_mb - alone.outlook.memory_mb <= MOST_MB


def _variants(option: Option, schema: Schema, settings: Iterable[Mapping[str, Any]]) -> Iterator[Option]:
    """The generator as it comes, then set otherwise, one after the other."""
    yield option
    yield from (option.with_settings(schema, one) for one in settings)


def _plain(option: Option) -> dict[str, Any]:
    return {"settings": dict(option.settings), **option.outlook.to_dict()}


def _for_aim(option: Option) -> list[str]:
    n_columns = len(option.outlook.sizes)
    return [
        f"aim measures {option.outlook.n_marginals} marginals of two columns or more, and {n_columns - 1} pairs would "
        f"tie the {n_columns} columns together: what is left goes to relations that a tree leaves out"
    ]


def _for_classes(option: Option) -> list[str]:
    n_columns, outlook = len(option.outlook.sizes), option.outlook
    n_pairs = n_columns * (n_columns - 1) // 2
    return [
        f"latent_class measures all {n_pairs} pairs of {n_columns} columns at once, and "
        f"{outlook.n_marginals - n_pairs} marginals beside them: no tree has to leave a pair out"
    ]


def _against_pairs(signal: float) -> str:
    """The reason against pairs, where the units are so many standard deviations of a pair's noise."""
    return (
        f"pairs drown in noise: all units are {signal:.2g} standard deviations of the noise of a pair, and a model of "
        f"pairs takes {LEAST_SIGNAL:g}"
    )


def _limited(before: Option, after: Option) -> list[str]:
    if before is after:
        return []
    return [
        f"as it comes, {before.outlook.generator} would take about {_cost(before.outlook)}; with {settings_of(after)} "
        f"it takes about {_cost(after.outlook)}"
    ]


def _against_aim(option: Option) -> list[str]:
    found, needed = option.outlook, len(option.outlook.sizes) - 1
    if found.n_marginals < needed:
        return [
            f"the budget lets aim measure {found.n_marginals} marginals, fewer than the {needed} pairs that tie "
            f"{needed + 1} columns together"
        ]
    if not option.joins:
        return [f"a typical round of aim is too noisy: {_drowned(found.tree)}"]
    return [f"aim would take about {_cost(found)}, even with a smaller model"]


def _for_mst(option: Option, before: Option) -> list[str]:
    reasons = [f"mst measures {option.outlook.n_marginals} pairs, just as many as tie the columns together"]
    if option is not before:
        reasons.append(
            f"with the default number of bins {_drowned(before.outlook.tree)}; with {settings_of(option)} that falls, "
            "at the price of coarser numbers and times"
        )
    return reasons


def _against_mst(option: Option) -> list[str]:
    if option.outlook.tree is None or option.outlook.tree.error <= DROWNED:
        return [f"mst would take about {_cost(option.outlook)}"]
    return [f"even a tree's pairs drown in noise, with the fewest bins tried too: {_drowned(option.outlook.tree)}"]


def _drowned(noise: MarginalNoise | None) -> str:
    if noise is None:
        return "it measures no pair"
    codes = " x ".join(map(str, noise.codes))
    return (
        f"a pair of {codes} codes, as in the tree with the fewest cells, has an expected total variation of "
        f"{noise.error:.2g} from noise alone (limit {DROWNED:g})"
    )


def settings_of(option: Option) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in option.settings.items())


def _cost(found: Outlook) -> str:
    return f"{duration(found.seconds)} and {found.memory_mb:.0f} MB"


LARGE_COLUMN_ERROR = 0.1
"""Noise in a column beyond this share of the rows calls for more units or a larger epsilon."""
MANY_CATEGORIES = 50
"""More categories than this are called many."""
COARSE_CELL = 1000
"""An even cell that holds more values than this hides what lies near zero."""
SHOWN = 3
"""Columns that one sentence names at most."""


def _warnings_of(option: Option, schema: Schema, epsilon: float) -> Iterator[str]:
    """Sentences without a final stop, each with its reason and what would help."""
    if epsilon > WEAK_EPSILON:
        yield (
            f"epsilon={epsilon:g} is weak: it lets what comes out be e^{epsilon:g}, about "
            f"{_about(math.exp(epsilon))}, times as likely with one unit as without it, plus delta; "
            f"{WEAK_EPSILON:g} or less is stronger"
        )
    error, n_units = option.outlook.column, schema.n_units
    if n_units is not None and error > LARGE_COLUMN_ERROR:
        wanted = n_units * error / LARGE_COLUMN_ERROR
        yield (
            f"n_units={n_units} is small for epsilon={epsilon:g}: noise alone moves {error:.2g} of a column on "
            f"average; {LARGE_COLUMN_ERROR:g} takes more than {_about(wanted)} units, or a larger epsilon"
        )
    yield from _of_entity(option, schema)
    yield from _of_measured(option, schema)
    yield from _of_categories(option.outlook, schema)
    yield from _of_bounds(schema)
    yield from _of_identifiers(schema)
    yield from (said for wrapper in wrappers(option.generator) for said in wrapper.advice(schema))


def _of_entity(option: Option, schema: Schema) -> Iterator[str]:
    k = schema.max_rows_per_unit
    if k > 1:
        halved = schema.model_copy(update={"max_rows_per_unit": max(k // 2, 1)})
        less = option.under(halved)
        yield (
            f"max_rows_per_unit={k} makes noise {k} times as large as one row per entity would: a column has an "
            f"expected total variation of {option.outlook.column:.2g}, and {less.column:.2g} at {max(k // 2, 1)}, "
            "which uses fewer rows of each entity; errors are shares of the rows that there are if each entity has one"
        )


def _of_measured(option: Option, schema: Schema) -> Iterator[str]:
    measured, shares = schema.measured, domain_shares(schema)
    if schema.spikes_measured:
        events = [spikes_event_name(name) for name in schema.spikes_measured]
        planned = map(option.schedule.event, events)
        thresholds = [event.threshold for event in planned if isinstance(event, StabilityEvent)]
        yield (
            f"{_listed(schema.spikes_measured)}: frequent values are to be measured, which takes "
            f"{sum(shares[what] for what in events):.0%} of the budget and names those that about {max(thresholds):,} "
            "rows or more hold; declared as spikes they are free"
        )
    if not measured:
        return
    share = sum(shares[domain_event_name(schema, name)] for name in measured)
    declared = option.under(assumed(schema))
    yield (
        f"{_listed(measured)}: bounds or categories are to be measured, which takes {share:.0%} of the budget; "
        f"declared, a column's expected total variation would fall from {option.outlook.column:.3g} to "
        f"{declared.column:.3g}; a list of categories is taken to have {ASSUMED_CATEGORIES} here"
    )


def _of_categories(found: Outlook, schema: Schema) -> Iterator[str]:
    many = [
        name
        for name in found.columns
        if schema.columns[name].is_categorical and found.sizes[name] - 2 > MANY_CATEGORIES
    ]
    if many:
        worst = max(many, key=lambda name: found.columns[name])
        yield (
            f"{_listed(many)}: more than {MANY_CATEGORIES} categories; of column={worst!r}, with "
            f"{found.sizes[worst] - 2}, noise alone moves {found.columns[worst]:.2g}, and those with a noisy count "
            f"below {RARE:g} sigma are merged into one; grouping them by public knowledge keeps more"
        )


def _of_bounds(schema: Schema) -> Iterator[str]:
    for name in schema.modeled:
        column = schema.columns[name]
        if not column.is_number or column.measure or column.bins or column.scale == "log":
            continue
        unit, width = column.unit, (column.bounds[1] - column.bounds[0]) / EVEN_CELLS
        if unit is not None and width > COARSE_CELL * unit:
            yield (
                f"column={name!r} has wide bounds on a linear scale: a cell of its grid is {width:.3g} wide, and what "
                'is smaller is not told apart; set scale = "log", or narrower bounds, where most values are small'
            )


def _of_identifiers(schema: Schema) -> Iterator[str]:
    names = [name for name in schema.kept if schema.columns[name].is_identifier]
    if names:
        yield f"{_listed(names)}: identifiers are made anew in the same format; nothing about them is learned"
    names = [name for name in schema.kept if schema.columns[name].is_personal]
    if names:
        yield f"{_listed(names)}: personal data is written anew by Faker; nothing about it is learned"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(f"column={name!r}" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _about(number: float) -> str:
    """Two digits, and as many zeros as it takes."""
    return f"{float(f'{number:.2g}'):,.0f}"

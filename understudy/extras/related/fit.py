"""`fit_related`: from related tables and their keys to a model of all of them."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.text import listed
from synth.dp.budget import Budget
from synth.dp.events import Event
from synth.dp.schedule import Schedule, calibrate
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError, JobError, SchemaError, TableError, nearest
from synth.generators.aim import Aim
from synth.generators.auto import Auto
from synth.generators.base import Generator, cautions, compose, draws_in_order, fit_model, unwrapped
from synth.generators.fit import check_seed
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent, MarginalGenerator
from synth.generators.registry import generator as specification
from synth.generators.trees import AutoregressiveGenerator
from synth.infer import infer_schema
from synth.progress import Progress, quiet, show, shown
from synth.schema import Schema
from synth.schema.kinds import IdentifierColumn
from synth.table import conform
from understudy.extras.related.below import PILOT_ROWS, BelowOthers
from understudy.extras.related.infer import infer_keys
from understudy.extras.related.keys import (
    Keys,
    Orphans,
    check_columns,
    check_kept,
    check_keys,
    hidden_columns,
    made_anew,
    sources_of,
)
from understudy.extras.related.model import Drawn, RelatedModel, as_known
from understudy.extras.related.units import bounded, check_private
from understudy.extras.related.walk import Walk, lay_out, with_measured


def fit_related(  # noqa: PLR0913 (as `synth.fit`: tables, then the rest by keyword)
    tables: Mapping[str, Any],
    keys: Any = None,
    generator: Generator | str | None = None,
    *,
    schemas: Mapping[str, Schema] | None = None,
    keep: Collection[str] = (),
    orphans: Orphans = "refuse",
    unit: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    budget: Budget | None = None,
    **parameters: Any,
) -> RelatedModel:
    """A model of related tables, whose `sample()` gives synthetic ones in which every foreign key is a key.

    Args:
        tables: *Sensitive*. By name, each anything that `us.fit` takes.
        keys: by table the name of its primary key, or a dict with `primary`, `foreign` (the parent's name by column)
            and, for a fit with epsilon, `most` rows of one parent; or what `us.infer_keys` gives. `None`: they are
            inferred and shown, which a fit with epsilon does not do.
        generator: of all tables, one that draws rows given others (trees, arn, aim, mst, latent_class, independent);
            left out: `auto`.
        schemas: by table, declared where `epsilon` is set, else inferred where there is none.
        keep: lookup tables that are public, and taken over as they are.
        orphans: rows whose foreign key names no row: "refuse" the tables, "drop" such rows and all below them, or
            "keep" them, their key missing. A fit with epsilon drops them.
        unit: without epsilon, the table whose rows are people, or what else a value of few is blurred for. `None`: the
            first parent of each table where it has 400 rows or more, else each row.
        seed: for everything but the noise of a private fit.
        progress: told what is being done.
        budget: what a fit with epsilon draws from, of the schedule that it plans; `None`: its own.
        parameters: of the generator, such as `epsilon=1.0`, which is that of all tables together. The unit is then a
            row of the one table that is below none, with all rows below it.

    Raises:
        BadInput: the tables, keys, schemas or parameters cannot be used; nothing was fitted.
    """
    keep, sources = (keep,) if isinstance(keep, str) else keep, sources_of(tables)
    check_seed(seed)
    frames = {name: source.frame() for name, source in sources.items()}
    if orphans not in ("refuse", "drop", "keep"):
        raise JobError(f"orphans={orphans!r} is unknown; choose refuse, drop or keep")
    if isinstance(generator, Generator) and parameters:
        raise JobError(
            f"{generator.name!r} has its parameters, and {min(parameters)!r} is one more; give all in one place"
        )
    chosen = generator if isinstance(generator, Generator) else specification(generator or "auto", **parameters)
    if keys is None and chosen.promises:
        raise BudgetError("a fit with epsilon takes no keys that were read off the rows; declare keys")
    if keys is None:
        keys = infer_keys(frames)
        if progress is not quiet:
            show(keys)
    keys, schemas = Keys.of(keys), _checked(schemas)
    if chosen.promises and keys.reasons:
        raise BudgetError("these keys were read off the rows; confirm them with keys.declared()")
    check_kept(keys, keep)
    check_columns(frames, keys)
    _check_names(keys, schemas, unit, promises=chosen.promises)
    if chosen.promises:
        root = check_private(keys, keep, schemas)
        drawn = (name for name in keys.order if name not in keep)
        frames |= {name: conform(frames[name], schemas[name], outside="clamp") for name in drawn}
        rows, parents = bounded(frames, keys, keep, root, schemas)
    else:
        checked = check_keys(frames, keys, orphans)
        rows, parents = dict(checked.tables), {name: dict(each) for name, each in checked.parents.items()}
    walk = lay_out(rows, parents, keys, keep, schemas, private=chosen.promises, unit=unit)
    if not walk.steps:
        raise TableError("the tables to be learned have no rows; give some to one of them at least")
    _tell_lost(walk, frames)
    with shown(progress) as tell:
        models, statement = _fitted(walk, chosen, seed, tell, budget)
    return RelatedModel(
        keys, statement, models, {name: frames[name] for name in keep}, walk.steps,
        {name: tuple(map(str, frame)) for name, frame in frames.items()},
        {name: _made(walk, name, rows[name]) for name in walk.steps},
        {name: _dtypes(walk, name, frames[name]) for name in frames if name not in keep},
        {name: _n_roots(walk, name, models) for name in walk.roots},
        {} if chosen.promises else _slots(walk, rows, parents),
        {name: source.back for name, source in sources.items()},
    )  # fmt: skip


def _check_names(keys: Keys, schemas: Mapping[str, Any], unit: str | None, *, promises: bool) -> None:
    if unit is not None and promises:
        raise JobError(f"unit={unit!r}: with epsilon the unit is a row of the table that is below none; leave unit out")
    for what, names in (("unit", [] if unit is None else [unit]), ("schemas", schemas)):
        if odd := next((str(name) for name in names if str(name) not in keys.tables), None):
            raise JobError(f"{what}: {odd!r} is not a table; {nearest(odd, keys.tables)}")


def _tell_lost(walk: Walk, frames: Mapping[str, pd.DataFrame]) -> None:
    """A warning of columns that no model learns and no key explains; a part of a key is refused. Reads no row."""
    for name in walk.steps:
        own, hidden = walk.own.get(name), hidden_columns(walk.keys, name)
        kept = {*hidden, *(() if own is None else own.kept), *(() if own is None else own.written)}
        lost = [column for column in map(str, frames[name]) if column not in kept]
        if part := next((column for column in walk.keys.tables[name].primary if column in lost), None):
            raise SchemaError(
                f"{name}: key column={part!r} holds texts that no model learns; give a schema in which it is "
                "categorical, or another key"
            )
        if lost:
            why = "of no kind that is learned; give a schema, or keep the table where it is public"
            warnings.warn(f"{name}: {listed(lost)} left out: {why}", stacklevel=3)


def _checked(schemas: Any) -> dict[str, Schema]:
    if not isinstance(schemas or {}, Mapping):
        raise SchemaError(f"schemas is a {type(schemas).__name__}; give a dict of schemas by table")
    for name, schema in (schemas or {}).items():
        if not isinstance(schema, Schema):
            raise SchemaError(f"schemas: that of {name!r} is a {type(schema).__name__}; read_schema gives one")
    return dict(schemas or {})


def _n_roots(walk: Walk, name: str, models: Mapping[str, Any]) -> int:
    if name in models:
        return int(models[name].default_rows)
    return int(walk.declared[name].n_units or 1) if walk.private else len(walk.rows[name])


def _slots(walk: Walk, rows: Mapping[str, pd.DataFrame], parents: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """How often each row of a large lookup table is named."""
    result = {}
    for name, step in walk.steps.items():
        for each in step.further:
            if each.key.table in walk.keep and each.label is None:
                at = parents[name][each.key]
                result[f"{name}: {each.key}"] = tuple(
                    np.bincount(at[at >= 0], minlength=len(rows[each.key.table])).tolist()
                )
    return result


def _made(walk: Walk, name: str, frame: pd.DataFrame) -> dict[str, IdentifierColumn]:
    """The columns of a primary key that are made anew, in the form that they have."""
    result = {}
    for column in made_anew(walk.keys, name):
        declared: Any = walk.declared[name].columns.get(column) if name in walk.declared else None
        if declared is None or not declared.is_identifier or declared.drop:
            declared = infer_schema(frame[[column]], propose_entity=False, kinds={column: "identifier"}).columns[column]
        result[column] = declared
    return result


def _dtypes(walk: Walk, name: str, frame: pd.DataFrame) -> dict[str, str]:
    """Of the columns of keys: as they came, of a private fit as they are declared. Of a table without rows, of all."""
    columns = sorted(hidden_columns(walk.keys, name)) if name in walk.steps else list(map(str, frame))
    if not walk.private:
        return {c: str(frame[c].dtype) for c in columns}
    known: Any = walk.declared[name].columns
    return {c: "int64" if c in known and known[c].holds_whole_numbers else "object" for c in columns}


def _fitted(
    walk: Walk, generator: Generator, seed: int, progress: Progress, budget: Budget | None
) -> tuple[dict[str, Any], PrivacyStatement | None]:
    """A model of each table, and the statement on all of them."""
    learned = {name: schema for name, schema in walk.schemas.items() if name in walk.learned}
    chosen, budgets, statement = chosen_for(walk, generator), dict[str, Budget](), None
    if generator.promises:
        releases = releases_of(walk, chosen)
        budget = Budget(releases.schedule) if budget is None else budget
        budgets, statement = releases.budgets(budget), releases.statement(budget)
    models = dict[str, Any]()
    drawn, rng = dict[str, Drawn](), np.random.default_rng(seed)
    for at, (name, schema) in enumerate(learned.items()):

        def tell(label: str, share: float | None, at: int = at, name: str = name) -> None:
            progress(f"{name}: {label}", (at + (share or 0.0)) / len(learned))

        options = {"known": walk.steps[name].inherited, "budget": budgets.get(name)}
        for sentence in cautions(chosen[name], schema):
            warnings.warn(f"{name}: {sentence}", stacklevel=3)
        if isinstance(chosen[name], BelowOthers) and chosen[name].known:
            schema, rows = _told(walk, name, models, drawn, rng)
            chosen[name] = chosen[name].model_copy(update={"rows": rows})
        models[name] = fit_model(chosen[name], walk.rows[name], schema, seed=seed, progress=tell, **options)
    return models, statement


def chosen_for(walk: Walk, generator: Generator) -> dict[str, Any]:
    """The specification of each table's fit, checked."""
    learned = {name: schema for name, schema in walk.schemas.items() if name in walk.learned}
    chosen: dict[str, Any] = {name: _chosen(walk, name, generator) for name in learned}
    for name, each in chosen.items():
        kind = unwrapped(each).chosen(learned[name])
        if learned[name].order is not None and not draws_in_order(generator, learned[name]):
            raise JobError(
                f"{name}: generator={kind.name!r} draws no rows that follow each other, as order="
                f"{learned[name].order!r} asks; choose trees, arn, aim or mst, or leave order out"
            )
        if walk.steps[name].inherited and not isinstance(kind, MarginalGenerator | AutoregressiveGenerator):
            raise JobError(
                f"{name}: generator={kind.name!r} hardly finds rows that fit a parent's; choose one that draws rows "
                "given others: trees, arn, aim, mst, latent_class or independent"
            )
    return chosen


def _chosen(walk: Walk, name: str, generator: Generator) -> Generator:
    """The generator of one table; of rows below others with epsilon, one that spends nothing on what is known."""
    chosen, step = compose(generator, walk.schemas[name]), walk.steps[name]
    if step.first is None or not walk.private or not isinstance(chosen, MarginalGenerator):
        return chosen
    if isinstance(generator, Auto) and isinstance(chosen, LatentClass):  # which cannot spare it
        chosen = Aim(epsilon=chosen.epsilon, delta=chosen.delta)
    spares = chosen.conditional or isinstance(chosen, Independent)
    return BelowOthers(base=chosen, known=step.inherited if spares else ())


def _told(
    walk: Walk, name: str, models: Mapping[str, Any], drawn: dict[str, Drawn], rng: np.random.Generator
) -> tuple[Schema, pd.DataFrame]:
    """The schema of a table with what was measured above it, and synthetic rows of what its own are drawn given."""
    related, order = RelatedModel(walk.keys, None, models, {}, walk.steps, {}, {}, {}, {}, {}, {}), list(walk.steps)
    for table in order[: order.index(name)]:
        if table not in drawn and walk.steps[table].first is None:
            n = min(models[table].default_rows, PILOT_ROWS)
            columns = models[table].sample(n, seed=int(rng.integers(2**63)))
            drawn[table] = Drawn(columns, pd.DataFrame(index=columns.index), {})
        elif table not in drawn:
            drawn[table] = related.below(walk.steps[table], drawn, models.get(table), rng)
    known, _, _ = related.known_rows(walk.steps[name], drawn, rng)
    schema = with_measured(walk, name, {table: model.schema for table, model in models.items()})
    rows = known.sample(min(len(known), PILOT_ROWS), random_state=rng).reset_index(drop=True)
    return schema, as_known(rows, schema, rng)


@dataclass(frozen=True)
class Releases:
    """All that the fits of a private model draw: one schedule, and which events of it are each table's."""

    schedule: Schedule
    events: Mapping[str, tuple[Event, ...]]
    unit: Schema  # as the statement has it

    def budgets(self, budget: Budget) -> dict[str, Budget]:
        if budget.schedule.digest != self.schedule.digest:
            raise BudgetError("a budget was planned for other tables than these; plan it for their keys and schemas")
        return {name: budget.part(events) for name, events in self.events.items()}

    def alone(self, name: str) -> Schedule:
        return replace(self.schedule, events=self.events[name])

    def statement(self, budget: Budget) -> PrivacyStatement:
        """The statement on all tables, whose events are told by table."""
        named = (replace(e, what=f"{name}: {e.what}") for name, events in self.events.items() for e in events)
        return replace(budget.statement(self.unit), events=tuple(event.record() for event in named))


def releases_of(walk: Walk, chosen: Mapping[str, Any]) -> Releases:
    """One schedule that is calibrated to the epsilon of all tables, of which each fit has the same share of rho."""
    plans, deltas = {}, set[float]()
    for name, each in chosen.items():
        schema = walk.schemas[name]
        each.check(schema)
        counted = each.counted(schema)
        each.check_counted(counted)
        deltas.add(each.claimed_delta(schema))
        plans[name] = each.all_events(counted, each.claimed_delta(schema))
    (delta,) = deltas
    epsilon, n = next(iter(chosen.values())).epsilon, len(plans)
    whole = calibrate(lambda rho: [event for plan in plans.values() for event in plan(rho / n)], epsilon, delta)
    events, start = dict[str, tuple[Event, ...]](), 0
    for name, plan in plans.items():
        end = start + len(plan(1.0))
        events[name], start = whole.events[start:end], end
    (root,) = walk.roots
    return Releases(whole, events, _unit_schema(walk, root))


def _unit_schema(walk: Walk, root: str) -> Schema:
    """What the statement says of the units: a row of the root with all below it."""
    key = " + ".join(walk.keys.tables[root].primary)
    return Schema.model_validate({
        "status": "declared", "n_units": walk.schemas[root].n_units, "entity": key,
        "dataset": walk.schemas[root].dataset,
        "max_rows_per_unit": max(each.max_rows_per_unit for each in walk.schemas.values()),
        "columns": {key: {"kind": "identifier", "bounds": (0, 1)}, f"rows of {root}": {"kind": "boolean"}},
    })  # fmt: skip

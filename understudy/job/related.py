"""A job of two related tables as two jobs of one table each: parents with their numbers of rows, and joined rows.

An epsilon of the job is that of both tables together: each fit has a share of it, and the two compose to no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluate.engine import aimed
from evaluate.gate.policy import check_waivers
from evaluate.provenance import ComposedClaim
from synth.dp.schedule import EPSILON_RANGE, Schedule
from synth.errors import BudgetError, JobError, SchemaError
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.wrapper import draws_in_order, unwrapped
from synth.histories.relation import RELATED_TABLES, Relation, TableRole
from synth.parsing import GivenFile, read_given
from synth.schema import Schema
from synth.schema_file import schema_of, to_toml
from synth.validation import parse_toml
from understudy.job.load import Inputs, check_measures, generator_of, given_policy, named_policy, read_waivers
from understudy.job.spec import RelatedJob, build_related_job
from understudy.job.sweep import PlannedCandidate, composed

FIRST_SHARE = 0.68
"""Share of epsilon of the first guess for either table: of small epsilons it is about 1/sqrt(2), and less of others."""
LEAST_USED = 0.98
"""Share of the job's epsilon that both fits compose to at least, where one more guess comes nearer."""
MOST_GUESSES = 8


@dataclass(frozen=True)
class RelatedInputs:
    """A job of two related tables with what its files say."""

    job: RelatedJob
    relation: Relation
    tables: Mapping[TableRole, Inputs]
    together: Mapping[str, ComposedClaim]


def is_related(job_path: Path) -> bool:
    """True for a job file that names two related tables."""
    return "tables" in parse_toml(read_given(job_path, "job", JobError), "job", JobError)


def read_related(job_path: Path) -> RelatedInputs:
    """A job of two related tables with its files, or the first thing that is wrong with them. No row is read."""
    given, home = {"job": read_given(job_path, "job", JobError)}, job_path.parent
    job = build_related_job(parse_toml(given["job"], "job", JobError))
    relation = _relation(job, home)
    given["policy"] = given_policy(job.policy, home)
    policy = named_policy(given["policy"])
    waivers = read_waivers(job.waivers, home, given)
    check_waivers(waivers, [policy], list(job.points))
    check_measures(job.evaluation.measures or ())
    schemas: dict[TableRole, Schema] = {"parents": relation.parents, "rows": relation.rows}
    for role, schema in schemas.items():
        if schema.texts:
            raise JobError(
                f"free text is learned of one table alone, and {role} of two hold column={schema.texts[0]!r}; set "
                "drop = true for it"
            )
    epsilons: dict[str, float] = {}
    together: dict[str, ComposedClaim] = {}
    for point in job.points.values():
        if point.epsilon is not None:
            epsilons[point.label], together[point.label] = _shared(point, schemas)
    aim = job.evaluation.target
    aimed_at: TableRole = "parents" if aim is not None and aim in relation.parent_schema.columns else "rows"
    tables: dict[TableRole, Inputs] = {}
    for role in RELATED_TABLES:
        own = job.of_table(role, epsilons, role == aimed_at)
        aimed(schemas[role], own.evaluation.target, own.evaluation.task)
        generators = {
            label: generator_of(point, schemas[role], f"generators.{label}", home)
            for label, point in own.points.items()
        }
        if role == "rows":
            _check_histories(generators, schemas[role])
        text = GivenFile(home / f"{role}.schema.toml", to_toml(schemas[role]).encode())
        tables[role] = Inputs(own, {**given, "schema": text}, schemas[role], policy, waivers, generators)
    return RelatedInputs(job, relation, tables, together)


def _relation(job: RelatedJob, home: Path) -> Relation:
    schemas = []
    for role in RELATED_TABLES:
        path = home / getattr(job.tables, role).schema_path
        try:
            schemas.append(schema_of(read_given(path, "schema", SchemaError)))
        except SchemaError as error:
            raise SchemaError(f"tables.{role}: {error}") from None
    return Relation(*schemas, private=job.is_private)


def _check_histories(generators: Mapping[str, Generator], schema: Schema) -> None:
    """Refuse a generator that cannot draw the rows of a parent that is known."""
    for label, chosen in generators.items():
        if not draws_in_order(chosen, schema):
            reason = (
                "noise would hide how they follow each other; raise epsilon or lower max_rows_per_unit"
                if chosen.promises and unwrapped(chosen).conditional
                else "choose trees, arn, aim or mst"
            )
            raise JobError(
                f"generators.{label}: generator={chosen.name!r} does not draw the rows of a parent one after another: "
                f"{reason}"
            )


def _shared(point: PlannedCandidate, schemas: Mapping[TableRole, Schema]) -> tuple[float, ComposedClaim]:
    """The epsilon of each of two fits that compose to no more than the job asks for, and what they compose to.

    Both have the same. No row is read, and nothing depends on one.
    """
    epsilon = float(point.epsilon or 0.0)
    share, best = FIRST_SHARE * epsilon, None
    for _ in range(MOST_GUESSES):
        share = max(share, EPSILON_RANGE[0])
        schedules = {role: _schedule(point, role, schema, share) for role, schema in schemas.items()}
        both = composed({str(role): schedule for role, schedule in schedules.items()})
        if both is not None and both.epsilon <= epsilon:
            best = (share, both) if best is None or share > best[0] else best
            if both.epsilon >= LEAST_USED * epsilon:
                break
        reached = epsilon if both is None else both.epsilon
        if share == EPSILON_RANGE[0] and reached > epsilon:
            break
        share *= (1 + LEAST_USED) / 2 * epsilon / reached
    if best is None:
        raise BudgetError(
            f"generators.{point.label}: epsilon={epsilon:g} is that of both tables together, and leaves no room for "
            "two fits; choose a larger epsilon"
        )
    return best


def _schedule(point: PlannedCandidate, role: TableRole, schema: Schema, epsilon: float) -> Schedule:
    chosen = generator_of(point, schema, f"generators.{point.label} of the {role}", Path(), epsilon=epsilon)
    schedule = chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None
    if schedule is None:
        raise JobError(f"generators.{point.label}: generator={chosen.name!r} takes no epsilon; leave it out")
    return schedule

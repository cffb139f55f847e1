"""A job with all its files, each read once and checked against the others. No row and no ledger is read.

A policy of one's own is such a file, too. It never goes by the name of a shipped one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluate.gate.policy import Policy, Waiver, build_policy, build_waivers, check_waivers, find_policy
from evaluate.metrics import MODULES
from synth import extras
from synth.errors import JobError, SchemaError, nearest
from synth.generators.base import Generator
from synth.generators.registry import generator
from synth.generators.wrapper import compose, with_files
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.validation import GivenFile, parse_toml, read_given
from understudy.job.kinds import kind_of
from understudy.job.spec import Job, JobTerms, build_job
from understudy.job.sweep import NONE, PlannedCandidate


def given_policy(name_or_path: str, beside: Path) -> GivenFile:
    return read_given(find_policy(name_or_path, beside), "policy", JobError)


def named_policy(file: GivenFile) -> Policy:
    return build_policy(parse_toml(file, "policy", JobError))


@dataclass(frozen=True)
class Inputs:
    job: Job
    given: Mapping[str, GivenFile]
    schema: Schema
    policy: Policy
    waivers: tuple[Waiver, ...]
    generators: Mapping[str, Generator]


def read_inputs(job_path: Path) -> Inputs:
    """A job with its schema, policy, waivers and generators, or the first thing that is wrong with them."""
    files, home = {"job": read_given(job_path, "job", JobError)}, job_path.parent
    job = build_job(parse_toml(files["job"], "job", JobError))
    files["schema"] = read_given(home / job.table.schema_path, "schema", SchemaError)
    schema = schema_of(files["schema"])
    policy, waivers = read_terms(job, home, files)
    job.evaluation.aim(schema)
    return Inputs(job, files, schema, policy, waivers, _generators(job, schema, home))


def read_terms(job: JobTerms, home: Path, files: dict[str, GivenFile]) -> tuple[Policy, tuple[Waiver, ...]]:
    """The policy and the waivers of a job, and a look at its measures; the files are added to those that are given."""
    files["policy"] = given_policy(job.policy, home)
    policy = named_policy(files["policy"])
    waivers = read_waivers(job.waivers, home, files)
    check_waivers(waivers, [policy], list(job.points))
    check_measures(job.evaluation.measures or ())
    return policy, waivers


def read_waivers(path: str | None, home: Path, files: dict[str, GivenFile]) -> tuple[Waiver, ...]:
    if path is None:
        return ()
    files["waivers"] = read_given(home / path, "waivers", JobError)
    return build_waivers(parse_toml(files["waivers"], "waivers", JobError))


def check_measures(measures: Iterable[str]) -> None:
    for name in measures:
        if name not in MODULES:
            raise JobError(f"measure={name!r} is unknown; {nearest(name, MODULES)}")


def check_file(path: Path) -> str:
    """The kind of a file of settings that can be used: "schema", "policy", "waivers file", "job", or one of an extra.

    A job is checked with the schema, policy and waivers that it names, and with parameters of its generators.
    """
    file = read_given(path, "settings", JobError)
    content = parse_toml(file, "settings", JobError)
    if "columns" in content:
        schema_of(file)
        return "schema"
    if "rules" in content:
        named_policy(file)
        return "policy"
    if set(content) == {"waivers"} and not isinstance(content["waivers"], str):
        build_waivers(content)
        return "waivers file"
    for key, kind in extras.load("settings").items():
        if key in content:
            kind.read(path)
            return str(kind.title.lower())
    of_extra = kind_of(path)
    if of_extra is None:
        read_inputs(path)
    else:
        of_extra.check(path)
    return "job"


def _generators(job: Job, schema: Schema, home: Path) -> dict[str, Generator]:
    """The specification of every candidate, checked; the seeds of a sweep share theirs."""
    generators: dict[tuple[str, float | None], Generator] = {}
    for point in job.points.values():
        if point.setting not in generators:
            where = f"generators.{point.family}{_at(job, point)}"
            generators[point.setting] = generator_of(point, schema, where, home)
    return {label: generators[point.setting] for label, point in job.points.items()}


def generator_of(point: PlannedCandidate, schema: Schema, where: str, home: Path, **changed: Any) -> Generator:
    parameters = with_files({**point.spec.parameters, **changed}, lambda path: str(home / path))
    try:
        chosen = compose(generator(point.spec.generator or point.family, **parameters), schema)
        chosen.check(schema)
    except JobError as error:
        raise JobError(f"{where}: {error}") from None
    return chosen


def _at(job: Job, point: PlannedCandidate) -> str:
    """The epsilon of a list that an error is about."""
    if not job.generators[point.family].sweeps:
        return ""
    return f" at epsilon={NONE if point.epsilon is None else format(point.epsilon, 'g')}"

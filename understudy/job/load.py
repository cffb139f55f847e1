"""Files of settings, each read once and checked: a job with all that it names, and JSON Schemas for editors.

No row and no ledger is read. A policy of one's own never goes by the name of a shipped one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel

from evaluate.gate.policy import Policy, Waiver, build_policy, build_waivers, check_waivers, find_policy
from evaluate.metrics import MODULES
from synth import extras
from synth.errors import JobError, SchemaError, nearest
from synth.generators.base import Generator, compose, with_files
from synth.generators.registry import generator
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.validation import GivenFile, parse_toml, read_given
from understudy.job.spec import NONE, Job, JobTerms, PlannedCandidate, build_job


@dataclass(frozen=True)
class JobKind:
    """`run` gives the exit code; its first argument is the job file, and its others are those of `understudy run`.
    `check` reads the job with all its files. `spec`: of the file; `None` where no JSON Schema tells of it.
    """

    run: Callable[..., int]
    check: Callable[[Path], Any]
    spec: type[BaseModel] | None = None


def kind_of(path: Path) -> JobKind | None:
    """The kind of a job file; `None` for one of one table."""
    content = parse_toml(read_given(path, "job", JobError), "job", JobError)
    return next((extras.load("job")[key] for key in extras.entries("job") if key in content), None)


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
    policy, waivers = read_rules(job.policy, job.waivers, home, files)
    check_waivers(waivers, [policy], list(job.points))
    check_measures(job.evaluation.measures or ())
    return policy, waivers


def read_rules(
    policy: str, waivers: str | Path | None, home: Path, files: dict[str, GivenFile]
) -> tuple[Policy, tuple[Waiver, ...]]:
    """A policy and its waivers; their files are added to those that are given."""
    files["policy"] = given_policy(policy, home)
    rules = named_policy(files["policy"])
    if waivers is None:
        return rules, ()
    files["waivers"] = read_given(home / waivers, "waivers", JobError)
    return rules, build_waivers(parse_toml(files["waivers"], "waivers", JobError))


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
            at = ""
            if job.generators[point.family].sweeps:
                at = f" at epsilon={NONE if point.epsilon is None else format(point.epsilon, 'g')}"
            generators[point.setting] = generator_of(point, schema, f"generators.{point.family}{at}", home)
    return {label: generators[point.setting] for label, point in job.points.items()}


def generator_of(point: PlannedCandidate, schema: Schema, where: str, home: Path, **changed: Any) -> Generator:
    parameters = with_files({**point.spec.parameters, **changed}, lambda path: str(home / path))
    try:
        chosen = compose(generator(point.spec.generator or point.family, **parameters), schema)
        chosen.check(schema)
    except JobError as error:
        raise JobError(f"{where}: {error}") from None
    return chosen


DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Described:
    """A kind of file. `make` gives its JSON Schema, or is where that function lies; `read` is of kinds of extras."""

    title: str
    description: str
    make: str | Callable[[], dict[str, Any]]
    read: Callable[[Path], object] = lambda path: None


def json_schema(name: str) -> dict[str, Any]:
    kinds: Mapping[str, Described] = {**KINDS, **extras.load("settings")}
    if name not in kinds:
        raise JobError(f"kind={name!r} is no file that has a JSON Schema; {nearest(name, kinds)}")
    kind = kinds[name]
    content = (resolve_name(kind.make) if isinstance(kind.make, str) else kind.make)()
    if name in IN_ONE_FORM:
        for part in (content, *content["$defs"].values()):
            part["required"] = list(part["properties"])
    head = {"$schema": DIALECT, "$id": f"urn:understudy:{name}", "title": kind.title, "description": kind.description}
    return {**head, **{key: value for key, value in content.items() if key not in head}}


KINDS: Mapping[str, Described] = {
    "schema": Described(
        "Schema", "What is public about one table: its columns, bounds and unit of privacy.",
        "synth.schema_file:schema_json",
    ),
    "job": Described(
        "Job", "One run: a table, its schema, generators, measures and a policy.", "understudy.job.spec:job_json"
    ),
    "policy": Described(
        "Policy", "What must hold before a table may go to an audience, and why.",
        "evaluate.gate.policy:Policy.model_json_schema",
    ),
    "waivers": Described(
        "Waivers", "Rules of a policy that a named person answers for, until a date.",
        "evaluate.gate.policy:Waivers.model_json_schema",
    ),
    "evaluation": Described(
        "Evaluation", "What was measured of synthetic tables beside a real one.",
        "evaluate.result_io:evaluation_json",
    ),
    "model-card": Described(
        "Model card", "What a synthetic table is, for whoever is given it.", "reports.model_card.schema:card_json"
    ),
    "manifest": Described(
        "Manifest", "What belongs to a bundle of evidence, with the hash of every file.",
        "understudy.bundle.manifest:Manifest.model_json_schema",
    ),
    "sign-off": Described(
        "Sign-off", "Who answers for the release of a table, in which role, until when.",
        "understudy.bundle.manifest:SignOff.model_json_schema",
    ),
    "withdrawal": Described(
        "Withdrawal", "Why a bundle is not to be relied on any more, by whom.",
        "understudy.bundle.manifest:Withdrawal.model_json_schema",
    ),
}  # fmt: skip
"""Every kind of file by the name that the command takes; extras bring others."""
IN_ONE_FORM = ("manifest", "sign-off", "withdrawal")
"""Documents of a bundle, which are refused where any of their keys is left out."""

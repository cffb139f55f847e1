"""The job of several sites: one schema, one generator, the sites by name, and how far they trust each other.

Every site and the server hold the same job. A site's table and ledger are its own, and no part of what is agreed upon.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from evaluate.gate.policy import Policy
from synth.dp.schedule import Schedule
from synth.errors import JobError, SchemaError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.selection import NOISY_PAIRS
from synth.generators.registry import generator
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone
from synth.schema_file import schema_of, to_toml
from synth.validation import Frozen, GivenFile, parse_toml, read_given, refuse
from understudy.job.load import Described, check_measures, given_policy, named_policy
from understudy.job.spec import LABEL, checked_job

BY_SUMS = ("independent", "mst", "aim")
"""Generators that read sums of counts alone, once their choices come from noisy pairs."""
BY_STEPS = ("ctgan", "tvae")  # generators whose networks are trained at each site
LEAST_NOISY = 2  # honest sites that stay to the end at least: the noise of one alone would be all that hides its rows


class SiteSpec(Frozen):
    """One site's own files, which `sites run` alone reads. Relative paths start from the job file."""

    table: str | None = Field(None, description="A file, a folder of files, or postgresql://host/database#table.")
    ledger: str | None = Field(None, description="The site's ledger, for which the schema names a dataset.")


class TrainingSpec(Frozen):
    local_steps: int = Field(default=10, ge=1, strict=True, description="Steps of each site between two means.")


class SitesJob(Frozen):
    name: str | None = Field(default=None, max_length=200, description="The headline of the run.")
    seed: int = Field(default=0, ge=0, strict=True, description="Of everything but private noise.")
    schema_path: str = Field(alias="schema", description="The schema file, the same for all sites.")
    policy: str = Field(default="internal", description="Policy by which each site judges the table.")
    generator: dict[str, Any] = Field(description="Its name (independent, mst, aim, ctgan, tvae), epsilon and more.")
    colluding: int = Field(default=1, ge=0, strict=True, description="Sites that may tell the server all they know.")
    dropouts: int = Field(default=0, ge=0, strict=True, description="Sites that may drop out on the way.")
    timeout_s: float = Field(default=3600.0, gt=0, description="Seconds that a site may work on one answer.")
    measures: tuple[str, ...] | None = Field(None, description="Measures that each site takes; left out: all.")
    audit: bool = Field(default=True, description="Whether each site audits the claim, on a stand-in of no real row.")
    rows: int | None = Field(default=None, ge=1, strict=True, description="Rows to draw; left out: as many as real.")
    training: TrainingSpec = Field(TrainingSpec(), description="Of ctgan and tvae: how the sites train together.")
    sites: dict[str, SiteSpec] = Field(description="The sites by name; three or more.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        n_sites, colluding, dropouts = len(self.sites), self.colluding, self.dropouts
        name = self.generator.get("name")
        refuse([
            ("training" in self.model_fields_set and name not in BY_STEPS,
             f"training is of {' and '.join(BY_STEPS)}, and generator.name={name!r} takes no steps; leave it out"),
            (not all(LABEL.fullmatch(site) for site in self.sites),
             "names of sites have letters, digits, ._- only; rename one"),
            (n_sites < 3, f"sites={n_sites} cannot be protected from each other; name three or more"),
            (self.n_honest < LEAST_NOISY,
             f"colluding={colluding} and dropouts={dropouts} leave {self.n_honest} of {n_sites} sites, and "
             f"{LEAST_NOISY} have to hide each other; lower one of the two"),
            (2 * self.threshold <= n_sites + colluding,
             f"dropouts={dropouts} of {n_sites} sites would let two sums of the same answers come together, by the "
             f"help of colluding={colluding}; lower one of the two"),
        ])  # fmt: skip
        return self

    @property
    def threshold(self) -> int:
        return len(self.sites) - self.dropouts

    @property
    def n_honest(self) -> int:
        """Sites whose noise is in every sum, and which tell nobody."""
        return self.threshold - self.colluding


@dataclass(frozen=True)
class SitesInputs:
    job: SitesJob
    schema: Schema
    policy: Policy
    generator: PrivateGenerator
    home: Path
    files: Mapping[str, GivenFile]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.job.sites))

    @property
    def digest(self) -> str:
        agreed = [to_toml(self.schema), self.generator.name, self.generator.parameters(), self.policy.name, self.names]
        settings = self.job.model_dump(include={"seed", "rows", "colluding", "dropouts", "training"})
        return hashlib.sha256(json.dumps([agreed, settings], sort_keys=True).encode()).hexdigest()

    @property
    def counted(self) -> Schema:
        """The schema of rows as they are counted: sums do not show how rows follow each other."""
        return in_rows_alone(self.schema).counted

    @property
    def by_sums(self) -> bool:
        return self.generator.name in BY_SUMS

    @cached_property
    def schedule(self) -> Schedule:
        """All that a fit draws about any unit; steps of training come last. It reads no row."""
        schedule = self.generator.schedule(self.schema)
        assert schedule is not None  # as the generator has an epsilon
        return schedule


def read_sites_job(path: Path) -> SitesInputs:
    files = {"job": read_given(path, "job", JobError)}
    job = checked_job(SitesJob, parse_toml(files["job"], "job", JobError), "job of several sites")
    files["schema"] = read_given(path.parent / job.schema_path, "schema", SchemaError)
    schema = schema_of(files["schema"])
    files["policy"] = given_policy(job.policy, path.parent)
    check_measures(job.measures or ())
    chosen = _generator(job, schema)
    return SitesInputs(job, schema, named_policy(files["policy"]), chosen, path.parent, files)


def _generator(job: SitesJob, schema: Schema) -> PrivateGenerator:
    parameters = dict(job.generator)
    name = str(parameters.pop("name", None))
    if name not in (*BY_SUMS, *BY_STEPS):
        raise JobError(f"several sites fit {', '.join((*BY_SUMS, *BY_STEPS))}, not generator.name={name!r}; choose one")
    if name in ("mst", "aim") and (choices := parameters.setdefault("choices", NOISY_PAIRS)) != NOISY_PAIRS:
        raise JobError(
            f"several sites show sums alone, and generator.choices={choices!r} needs exact distances in one place; "
            f'set choices = "{NOISY_PAIRS}", or leave it out'
        )
    try:
        chosen = generator(name, **parameters)
    except JobError as error:
        raise JobError(f"generator: {error}") from None
    if not isinstance(chosen, PrivateGenerator) or not chosen.promises:
        raise JobError("several sites add noise to what they show, and the generator has no epsilon; set one")
    chosen.check(schema)
    measured = ", ".join(dict.fromkeys((*schema.measured, *schema.spikes_measured)))
    for is_wrong, why in (
        (schema.texts, f"several sites learn no free text: columns={', '.join(schema.texts)}; set drop = true for it"),
        (measured,
         f"several sites agree on what is public before any row is read, and columns={measured} are to be measured; "
         "declare their bounds, categories and spikes"),
        (schema.dataset is None and any(site.ledger for site in job.sites.values()),
         'a ledger pays for a dataset by its name; add dataset = "NAME" at the top of the schema file'),
    ):  # fmt: skip
        if is_wrong:
            raise JobError(why)
    return chosen


SETTINGS = Described(
    "Job of several sites", "What several sites and a server agree upon.", SitesJob.model_json_schema, read_sites_job
)

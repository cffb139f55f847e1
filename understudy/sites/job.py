"""The job of several sites: one schema, one generator, the sites by name, and how far they trust each other.

Every site and the server hold the same job. A site's table and ledger are its own, and no part of what is agreed upon.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from evaluate.gate.policy import Policy
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError, SchemaError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.noisy_pairs import NOISY_PAIRS
from synth.generators.registry import generator
from synth.parsing import GivenFile, read_given
from synth.schema import Schema
from synth.schema.counted import in_rows_alone
from synth.schema_file import schema_of, to_toml
from synth.validation import Frozen, parse_toml, sentence
from understudy.job.load import check_measures, given_policy, named_policy
from understudy.job.spec import LABEL

BY_SUMS = ("independent", "mst", "aim")
"""Generators that read sums of counts alone, once their choices come from noisy pairs."""
BY_STEPS = ("ctgan", "tvae")
"""Generators whose networks are trained at each site."""
LEAST_NOISY = 2
"""Honest sites that stay to the end at least: the noise of one alone would be all that hides its rows."""


class SiteSpec(Frozen):
    """One site's own files; `understudy sites run` alone reads them. Relative paths start from the job file."""

    table: str | None = Field(
        default=None, description="The site's table: a file, a folder of files, or postgresql://host/database#table."
    )
    ledger: str | None = Field(default=None, description="The site's ledger; left out: outside any ledger.")


class TrainingSpec(Frozen):
    """The training of networks over several sites."""

    rounds: int | None = Field(
        default=None, ge=1, strict=True, description="Looks of the sites at each other; left out: by local_steps."
    )
    local_steps: int | None = Field(
        default=None, ge=1, strict=True, description="Steps of each site between two looks; left out: 10, or by rounds."
    )
    proximal: float = Field(
        default=0.0, ge=0, le=1e3, allow_inf_nan=False,
        description="mu of FedProx, a pull of each site toward the weights of all; 0: FedAvg.",
    )  # fmt: skip
    secure: bool = Field(default=True, description="The server sees sums of updates alone; false: each site's own.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.rounds is not None and self.local_steps is not None:
            raise ValueError(
                f"rounds={self.rounds} and local_steps={self.local_steps} follow from each other, since the generator "
                "says how many steps there are; name one of the two"
            )
        return self


class SitesJob(Frozen):
    """A job of several sites."""

    name: str | None = Field(default=None, max_length=200, description="The headline of the run.")
    seed: int = Field(default=0, ge=0, strict=True, description="Of everything but private noise.")
    schema_path: str = Field(alias="schema", description="The schema file, the same for all sites.")
    policy: str = Field(default="internal", description="Policy by which each site judges the table.")
    generator: dict[str, Any] = Field(
        description="Its name and parameters: independent, mst or aim with an epsilon; ctgan or tvae."
    )
    colluding: int = Field(
        default=1, ge=0, strict=True, description="Sites that may tell the server all that they know."
    )
    dropouts: int = Field(default=0, ge=0, strict=True, description="Sites that may drop out on the way.")
    timeout_s: float = Field(default=600.0, gt=0, description="Seconds after which a site counts as gone.")
    measures: tuple[str, ...] | None = Field(
        default=None, description="Measures that each site takes of the table; left out: all."
    )
    measure_limit_s: float | None = Field(
        default=None, gt=0, description="Seconds for each measure; left out: no limit."
    )
    audit: bool = Field(default=True, description="Whether each site audits the claim, on a stand-in of no real row.")
    rows: int | None = Field(default=None, ge=1, strict=True, description="Rows to draw; left out: as many as real.")
    training: TrainingSpec = Field(
        default_factory=TrainingSpec, description="Of ctgan and tvae: how the sites train together."
    )
    sites: dict[str, SiteSpec] = Field(description="The sites by name; three or more.")

    @field_validator("sites")
    @classmethod
    def _named(cls, sites: dict[str, SiteSpec]) -> dict[str, SiteSpec]:
        for name in sites:
            if not re.fullmatch(LABEL, name):
                raise ValueError(f"site={name!r} names files, so it has letters, digits and ._- only; rename it")
        return sites

    @model_validator(mode="after")
    def _trains(self) -> Self:
        name = self.generator.get("name")
        if "training" in self.model_fields_set and name not in BY_STEPS:
            raise ValueError(
                f"training is of {' and '.join(BY_STEPS)}, and generator.name={name!r} counts; leave training out"
            )
        return self

    @model_validator(mode="after")
    def _enough(self) -> Self:
        n_sites = len(self.sites)
        if n_sites < 3:
            raise ValueError(
                f"sites={n_sites} cannot be protected from each other, since each takes its own rows off the sum; name "
                "three or more"
            )
        honest = n_sites - self.dropouts - self.colluding
        if honest < LEAST_NOISY:
            raise ValueError(
                f"colluding={self.colluding} and dropouts={self.dropouts} leave {honest} of {n_sites} sites, and "
                f"{LEAST_NOISY} have to hide each other; lower one of the two"
            )
        if 2 * (n_sites - self.dropouts) <= n_sites + self.colluding:
            raise ValueError(
                f"dropouts={self.dropouts} of {n_sites} sites would let two sums of the same answers come together, by "
                f"the help of colluding={self.colluding}: 2 (sites - dropouts) must be above sites + colluding; lower "
                "one of the two"
            )
        return self

    @property
    def threshold(self) -> int:
        """Sites without which no sum is shown."""
        return len(self.sites) - self.dropouts

    @property
    def n_honest(self) -> int:
        """Sites whose noise is in every sum, and which tell nobody."""
        return self.threshold - self.colluding


@dataclass(frozen=True)
class SitesInputs:
    """A job of several sites with what its files say."""

    job: SitesJob
    schema: Schema
    policy: Policy
    generator: PrivateGenerator
    home: Path
    given: Mapping[str, GivenFile]

    @property
    def names(self) -> tuple[str, ...]:
        """The sites, sorted."""
        return tuple(sorted(self.job.sites))

    @property
    def digest(self) -> str:
        """SHA-256 of all that the sites and the server agree upon."""
        agreed = {
            "schema": to_toml(self.schema),
            "generator": [self.generator.name, self.generator.parameters()],
            "seed": self.job.seed,
            "policy": self.policy.name,
            "rows": self.job.rows,
            "sites": self.names,
            "colluding": self.job.colluding,
            "dropouts": self.job.dropouts,
            "training": self.job.training.model_dump(),
        }
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    @property
    def counted(self) -> Schema:
        """The schema of rows as they are counted: sums do not show how rows follow each other."""
        return in_rows_alone(self.schema).counted

    @property
    def by_sums(self) -> bool:
        """True of a generator that is fitted to sums of counts."""
        return self.generator.name in BY_SUMS

    @cached_property
    def schedule(self) -> Schedule | None:
        """All that a fit draws about any unit; `None` where it promises nothing. It reads no row."""
        return self.generator.schedule(self.schema)


def read_sites_job(path: Path) -> SitesInputs:
    """A job of several sites with its files, or the first thing that is wrong with them. No row is read."""
    given = {"job": read_given(path, "job", JobError)}
    job = build_sites_job(parse_toml(given["job"], "job", JobError))
    given["schema"] = read_given(path.parent / job.schema_path, "schema", SchemaError)
    schema = schema_of(given["schema"])
    given["policy"] = given_policy(job.policy, path.parent)
    check_measures(job.measures or ())
    chosen = _generator(job)
    _check(chosen, schema)
    return SitesInputs(job, schema, named_policy(given["policy"]), chosen, path.parent, given)


def build_sites_job(content: dict[str, Any]) -> SitesJob:
    """A job of several sites from plain data, as its file holds it."""
    try:
        return SitesJob.model_validate(content)
    except ValidationError as error:
        raise JobError(f"the job of several sites cannot be used: {sentence(error, SitesJob)}") from None


def _generator(job: SitesJob) -> PrivateGenerator:
    parameters = dict(job.generator)
    name = parameters.pop("name", None)
    if name not in (*BY_SUMS, *BY_STEPS):
        raise JobError(
            f"several sites fit {', '.join((*BY_SUMS, *BY_STEPS))}, and generator.name={name!r} is none of them; "
            "choose one"
        )
    if name in ("mst", "aim"):
        chosen = parameters.setdefault("choices", NOISY_PAIRS)
        if chosen != NOISY_PAIRS:
            raise JobError(
                f"several sites show sums alone, and generator.choices={chosen!r} needs exact distances in one place; "
                f'set choices = "{NOISY_PAIRS}", or leave it out'
            )
    try:
        found = generator(str(name), **parameters)
    except JobError as error:
        raise JobError(f"generator: {error}") from None
    if not isinstance(found, PrivateGenerator):
        raise JobError(f"generator={name!r} takes no epsilon; choose {', '.join(BY_SUMS)}")
    return found


def _check(chosen: PrivateGenerator, schema: Schema) -> None:
    """Refuse what sums of several sites cannot serve."""
    chosen.check(schema)
    if schema.texts:
        raise SchemaError(
            f"several sites learn no free text, and the schema keeps column={schema.texts[0]!r}; set drop = true for it"
        )
    if chosen.name in BY_SUMS and not chosen.promises:
        raise BudgetError(
            f"several sites add noise to what they show, and generator={chosen.name!r} has no epsilon; set one"
        )
    if schema.measured or schema.spikes_measured:
        names = ", ".join(dict.fromkeys((*schema.measured, *schema.spikes_measured)))
        raise SchemaError(
            f"several sites agree on what is public before any row is read, and columns={names} are to be measured; "
            "declare their bounds, categories and spikes"
        )

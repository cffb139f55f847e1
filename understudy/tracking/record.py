"""The record of a finished run on a tracking server: a parent run, and a run below it for each candidate.

A tracking server is a place where others read. So a whitelist says what is sent, in one of two widths:

- "public" holds nothing that was computed from real rows outside a budget. It has the job's own words without seeds,
  and what is declared. It has the claims of fits, released numbers and the verdict to hand on. Of a table with a
  guarantee it has the model card to hand on.
- "internal" adds what reads real rows: key figures, verdicts, seeds, the report with its evaluation. It is for a server
  that only those read who may read the internal report.

No synthetic table and no model is ever sent: these leave by a sign-off.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from os import environ
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evaluate.gate.claim import Claims, Composition
from evaluate.metrics import CATALOG
from evaluate.result import NOTICE, Candidate
from reports.exports.summary import SUMMARY
from reports.model_card.privacy import noise_multiplier
from synth.distribution import VERSION
from understudy.artifacts import CARDS, EVALUATION, JUNIT, PUBLIC_MARKDOWN, PUBLIC_YAML, REPORT, VERDICT, Delivery
from understudy.bundle.manifest import TO_HAND_ON
from understudy.job.spec import Job, TrackingSpec
from understudy.provenance import INPUTS
from understudy.tracking import client

LIMIT_S = 180.0
"""Seconds that a server may take for one run; then it has no or an unfinished record of it."""
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
}
"""Settings of the library where the environment has none: a server that is away is found out in seconds."""
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
"""The library reports its own use to its makers; nothing of a run is told to anybody else."""
MOST_CHARACTERS = 500
"""Of a parameter's value, as many as every server takes."""
PUBLIC_NOTE = (
    "Nothing here was computed from real rows outside a privacy budget: see the output folder for the evidence."
)
INTERNAL_FILES = (REPORT, EVALUATION, VERDICT, SUMMARY, JUNIT, *(f"{name}.toml" for name in INPUTS))


@dataclass(frozen=True)
class TrackedRun:
    """One run of a record."""

    name: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    artifacts: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class TrackingRecord:
    """A finished run as plain data, ready to be sent."""

    server: str
    experiment: str
    runs: tuple[TrackedRun, ...]

    @classmethod
    def of(cls, asked: TrackingSpec, job: Job, delivery: Delivery, folder: Path) -> "TrackingRecord":
        """The record of a run.

        Args:
            delivery: *Sensitive*: its evaluation was measured on real rows. Of it, the whitelist alone is read.
        """
        known = _Known(asked.content == "internal", job, delivery, folder)
        children = (known.child(candidate) for candidate in delivery.evaluation.candidates)
        return cls(asked.mlflow.rstrip("/"), asked.experiment, (known.parent(), *children))

    def to_json(self) -> str:
        """The record as the process that sends it reads it."""
        return json.dumps(asdict(self), allow_nan=False)


@dataclass(frozen=True)
class _Known:
    """All that a record may be made of.

    Attributes:
        delivery: *Sensitive*. What the run came to.
    """

    internal: bool
    job: Job
    delivery: Delivery = field(repr=False)
    folder: Path

    @property
    def run_id(self) -> str:
        """The run's identity, drawn at random."""
        return str(self.delivery.evaluation.provenance.run_id)

    def parent(self) -> TrackedRun:
        """The run of the job."""
        return TrackedRun(
            self.delivery.title, dict(self._asked()), dict(self._ledger()), dict(self._tags()), tuple(self._files())
        )

    def child(self, candidate: Candidate) -> TrackedRun:
        """The run of one candidate."""
        claims = Composition.of(self.delivery.evaluation).claims(candidate)
        generator = candidate.generator
        settings = {} if generator is None else generator.settings
        tags = {client.RUN_ID: f"{self.run_id}/{candidate.name}", "understudy.guarantee": _guarantee(claims)}
        ruled = next((one for one in self.delivery.verdicts if one.candidate == candidate.name), None)
        if self.internal and ruled is not None:
            tags["understudy.verdict"] = ruled.verdict
        metrics = {
            **dict(_claimed(candidate, claims)),
            **(dict(self._published(candidate)) if _guarantee(claims) == "formal" else {}),
        }
        if self.internal:
            metrics.update(self._figures(candidate))
        return TrackedRun(candidate.name, {name: _text(value) for name, value in settings.items()}, metrics, tags)

    def _asked(self) -> Iterator[tuple[str, str]]:
        """The parameters of the job.

        A seed would let a guess of a row be confirmed, and so would the hash of limits that were read off the table.
        """
        evaluation, job = self.delivery.evaluation, self.job
        declared = evaluation.schema.status == "declared"
        asked = {
            "policy": f"{self.delivery.policy.name} {self.delivery.policy.version}",
            "release": self.delivery.release,
            "schema_status": evaluation.schema.status,
            "schema_sha256": evaluation.provenance.schema_sha256 if declared or self.internal else None,
            "dataset": evaluation.schema.dataset if declared else None,
            "unit": evaluation.schema.unit,
            "n_units": evaluation.schema.n_units if declared else None,
            "holdout_share": job.split.holdout_share,
            "understudy": VERSION,
            **({"seed": job.seed, "split_seed": job.split_seed} if self.internal else {}),
        }
        yield from ((name, _text(value)) for name, value in asked.items() if value is not None)

    def _ledger(self) -> Iterator[tuple[str, float]]:
        ledger = self.delivery.evaluation.provenance.ledger
        if ledger is not None:
            yield "ledger.epsilon.left", ledger.left_epsilon
            yield "ledger.epsilon.total", ledger.total_epsilon

    def _tags(self) -> Iterator[tuple[str, str]]:
        yield client.RUN_ID, self.run_id
        yield "understudy.content", "internal" if self.internal else "public"
        yield "understudy.output", str(self.folder.absolute()) if self.internal else self.folder.name
        yield client.NOTE, NOTICE if self.internal else PUBLIC_NOTE
        sweep, released = self.delivery.evaluation.provenance.sweep, self.delivery.released
        if sweep is not None:
            yield "understudy.releasable", str(sweep.releasable).lower()
        public = json.loads((self.folder / VERDICT).read_text(encoding="utf-8"))["verdict_to_hand_on"]
        if public is not None and self._promises:
            yield "understudy.to_hand_on.verdict", f"{public} of the rules that can be shown; the others stay inside"
        if self.internal and released is not None:
            yield "understudy.verdict", released.verdict

    def _files(self) -> Iterator[tuple[str, str | None]]:
        names: list[tuple[str, str | None]] = []
        if self.internal or self._promises:  # without a guarantee a table has, unless said, as many rows as train
            names += [(f"{TO_HAND_ON}/{name}", TO_HAND_ON) for name in (PUBLIC_YAML, PUBLIC_MARKDOWN)]
        if self.internal:
            names += [(name, None) for name in INTERNAL_FILES]
            cards = sorted((self.folder / CARDS).glob("*"))
            names += [(f"{CARDS}/{path.name}", CARDS) for path in cards]
        for name, place in names:
            if (self.folder / name).is_file():
                yield str((self.folder / name).absolute()), place

    @property
    def _promises(self) -> bool:
        """True where the table named for release has a guarantee that nobody disputes."""
        evaluation, name = self.delivery.evaluation, self.delivery.release
        claims = (Composition.of(evaluation).claims(one) for one in evaluation.candidates if one.name == name)
        return any(_guarantee(claim) == "formal" for claim in claims)

    def _published(self, candidate: Candidate) -> Iterator[tuple[str, float]]:
        """Numbers that were read off real rows and paid for, of the whole table."""
        published = self.delivery.evaluation.provenance.released_numbers
        if published is not None and published.table == candidate.name:
            yield from ((one.measure, one.value) for one in published.numbers if not one.subject)

    def _figures(self, candidate: Candidate) -> Iterator[tuple[str, float]]:
        """Key figures, and those that the policy rules on, of the whole table."""
        ruled = {rule.measure for rule in self.delivery.policy.rules}
        for one in candidate.estimates:
            key = one.measure in CATALOG and CATALOG[one.measure].key
            if not one.subject and (key or one.measure in ruled):
                yield one.measure, one.value


def _guarantee(claims: Claims | None) -> str:
    """The state of what a table claims, in a word."""
    if claims is None:
        return "none"
    if not claims.counted.private:
        return "void"
    return "disputed" if claims.counted.disputed else "formal"


def _claimed(candidate: Candidate, claims: Claims | None) -> Iterator[tuple[str, float]]:
    """The claim that the table is judged by, and that of its fit alone; of a void or disputed one no number."""
    if claims is None or candidate.statement is None or _guarantee(claims) != "formal":
        return
    yield "claim.epsilon", claims.counted.epsilon
    yield "claim.delta", claims.counted.delta
    yield "fit.epsilon", claims.alone.epsilon
    yield "fit.delta", claims.alone.delta
    noise = noise_multiplier(candidate.statement)
    if noise is not None:
        yield "fit.noise_multiplier", noise


def _text(value: object) -> str:
    """A value as a parameter's text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


@dataclass(frozen=True)
class Tracked:
    """The outcome of sending a record."""

    server: str
    url: str | None = None
    failure: str = ""


def track(asked: TrackingSpec, job: Job, delivery: Delivery, folder: Path) -> Tracked:
    """The record of a finished run, made and sent. Whatever goes wrong is told, and nothing is raised.

    Args:
        delivery: *Sensitive*: its evaluation was measured on real rows.
    """
    try:
        record = TrackingRecord.of(asked, job, delivery, folder)
    except Exception as error:  # noqa: BLE001 - the run is finished: no record of it may change what it came to
        return _failed(asked.mlflow, f"the record cannot be made: {type(error).__name__}")
    return send(record)


def send(record: TrackingRecord, limit_s: float = LIMIT_S) -> Tracked:
    """Send a record, by a process of its own. Whatever goes wrong is told, and nothing is raised."""
    # Some versions of the library ask the environment where files go, whatever server the client has.
    try:
        content = record.to_json()
    except (TypeError, ValueError) as error:
        return _failed(record.server, f"its record cannot be written: {type(error).__name__}")
    environment = {**SETTINGS, **environ, **QUIET, "MLFLOW_TRACKING_URI": record.server}
    try:
        ended = subprocess.run(  # noqa: S603 - our own module, and arguments that no shell reads
            [sys.executable, "-P", client.__file__],
            input=content,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
            check=False,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        return _failed(record.server, f"it took longer than {limit_s:g} s", began=True)
    except (OSError, ValueError) as error:
        return _failed(record.server, f"the process that sends it ended: {type(error).__name__}", began=True)
    if "failure" in answer:
        return _failed(record.server, answer["failure"], began=answer["began"])
    page = f"{record.server}/#/experiments/{quote(answer['experiment'])}/runs/{quote(answer['run'])}"
    return Tracked(record.server, page)


def _failed(server: str, why: str, *, began: bool = False) -> Tracked:
    if began:
        what = f"this run was not tracked as a whole, and MLflow at {server} may have an unfinished record of it"
    else:
        what = f"nothing was tracked at MLflow's {server}"
    return Tracked(server, failure=f"{what} ({why}); the output and its verdict stand as they are")

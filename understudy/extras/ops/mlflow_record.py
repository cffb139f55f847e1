"""The record of a finished run on an MLflow server: a parent run, and a run below it for each candidate.

A tracking server is a place where others read. So a whitelist says what is sent, in one of two widths:

- "public" holds nothing that was computed from real rows outside a budget. It has the job's own words without seeds,
  and what is declared. It has the claims of fits, released numbers and the verdict to hand on. Of a table with a
  guarantee it has the model card to hand on.
- "internal" adds what reads real rows: key figures, verdicts, seeds, the report with its evaluation. It is for a server
  that only those read who may read the internal report.

No synthetic table and no model is ever sent: these leave by a sign-off.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from os import environ
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field, field_validator

from evaluate.gate.claim import Claims, Composition
from evaluate.metrics import CATALOG
from evaluate.result import NOTICE, Candidate
from reports.exports.summary import SUMMARY
from reports.model_card.privacy import noise_multiplier
from synth.distribution import VERSION, missing_extra
from synth.url import split
from understudy.artifacts import CARDS, EVALUATION, JUNIT, PUBLIC_MARKDOWN, PUBLIC_YAML, REPORT, VERDICT, Delivery
from understudy.bundle.manifest import TO_HAND_ON
from understudy.extras.ops import mlflow_client
from understudy.job.spec import Job
from understudy.job.tracking import Tracked, Tracker
from understudy.provenance import INPUTS

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
MOST_CHARACTERS = 500  # of a parameter's value, as many as every server takes
PUBLIC_NOTE = (
    "Nothing here was computed from real rows outside a privacy budget: see the output folder for the evidence."
)
INTERNAL_FILES = (REPORT, EVALUATION, VERDICT, SUMMARY, JUNIT, *(f"{name}.toml" for name in INPUTS))
ADDRESS = (
    "the address of an MLflow server is like http://127.0.0.1:5000 or https://host/path, without user, password and "
    "parameters, since the job is copied into the output; give credentials by the environment variables "
    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
)


Record = dict[str, Any]
"""A finished run as plain data: a server, an experiment, and its runs, the parent first."""


class Mlflow(Tracker):
    """The tracking server that is told of a finished run."""

    mlflow: str = Field(description="Address of an MLflow server, such as http://127.0.0.1:5000; no credentials.")
    experiment: str = Field(default="understudy", min_length=1, max_length=200, description="Its name there.")
    content: Literal["public", "internal"] = Field(
        default="public",
        description="public sends nothing that was computed from real rows; internal adds figures, verdicts and the "
        "report.",
    )

    @field_validator("mlflow")
    @classmethod
    def _an_address_without_credentials(cls, mlflow: str) -> str:
        parts = split(mlflow)
        is_plain = parts is not None and parts.scheme in ("http", "https") and parts.hostname
        if parts is None or not is_plain or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(ADDRESS)
        return mlflow

    def check(self) -> None:
        if importlib.util.find_spec("mlflow") is None:
            raise missing_extra("tracking.mlflow, which may be left out,", "mlflow")

    def track(self, job: Job, delivery: Delivery, folder: Path) -> Tracked:
        try:
            record = record_of(self, job, delivery, folder)
        except Exception as error:  # noqa: BLE001 - the run is finished: no record of it may change what it came to
            return _failed(self.mlflow, f"the record cannot be made: {type(error).__name__}")
        return send(record)


def record_of(asked: Mlflow, job: Job, delivery: Delivery, folder: Path) -> Record:
    """The record of a run as plain data. `delivery`: *Sensitive*: of it the whitelist alone is read."""
    internal = asked.content == "internal"
    ledger = delivery.evaluation.provenance.ledger
    left = {"ledger.epsilon.left": ledger.left_epsilon, "ledger.epsilon.total": ledger.total_epsilon} if ledger else {}
    parent = {
        "name": delivery.title,
        "params": _params(job, delivery, internal=internal),
        "metrics": left,
        "tags": dict(_tags(delivery, folder, internal=internal)),
        "artifacts": list(_files(delivery, folder, internal=internal)),
    }
    children = [_child(one, delivery, internal=internal) for one in delivery.evaluation.candidates]
    return {"server": asked.mlflow.rstrip("/"), "experiment": asked.experiment, "runs": [parent, *children]}


def _child(candidate: Candidate, delivery: Delivery, *, internal: bool) -> Record:
    """The run of a candidate."""
    evaluation = delivery.evaluation
    claims = Composition.of(evaluation).claims(candidate)
    guarantee = _guarantee(claims)
    run_id = f"{evaluation.provenance.run_id}/{candidate.name}"
    tags = {mlflow_client.RUN_ID: run_id, "understudy.guarantee": guarantee}
    metrics: dict[str, float] = {}
    if claims is not None and candidate.statement is not None and guarantee == "formal":
        metrics = {"claim.epsilon": claims.counted.epsilon, "claim.delta": claims.counted.delta}
        metrics |= {"fit.epsilon": claims.alone.epsilon, "fit.delta": claims.alone.delta}
        if (noise := noise_multiplier(candidate.statement)) is not None:
            metrics["fit.noise_multiplier"] = noise
        published = evaluation.provenance.released_numbers  # read off real rows, and paid for
        if published is not None and published.table == candidate.name:
            metrics |= {one.measure: one.value for one in published.numbers if not one.subject}
    if internal:
        verdicts = {verdict.candidate: verdict.verdict for verdict in delivery.verdicts}
        if candidate.name in verdicts:
            tags["understudy.verdict"] = verdicts[candidate.name]
        ruled = {rule.measure for rule in delivery.policy.rules}
        shown = ruled | {name for name, metric in CATALOG.items() if metric.key}
        metrics |= {one.measure: one.value for one in candidate.estimates if not one.subject and one.measure in shown}
    settings = {} if candidate.generator is None else candidate.generator.settings
    params = {name: _text(value) for name, value in settings.items()}
    return {"name": candidate.name, "params": params, "metrics": metrics, "tags": tags, "artifacts": []}


def _params(job: Job, delivery: Delivery, *, internal: bool) -> dict[str, str]:
    """The parameters of the job.

    A seed would let a guess of a row be confirmed, and so would the hash of limits that were read off the table.
    """
    evaluation, schema = delivery.evaluation, delivery.evaluation.schema
    declared = schema.status == "declared"
    asked = {
        "policy": f"{delivery.policy.name} {delivery.policy.version}",
        "release": delivery.release,
        "schema_status": schema.status,
        "schema_sha256": evaluation.provenance.schema_sha256 if declared or internal else None,
        "dataset": schema.dataset if declared else None,
        "unit": schema.unit,
        "n_units": schema.n_units if declared else None,
        "holdout_share": job.split.holdout_share,
        "understudy": VERSION,
        **({"seed": job.seed, "split_seed": job.split_seed} if internal else {}),
    }
    return {name: _text(value) for name, value in asked.items() if value is not None}


def _tags(delivery: Delivery, folder: Path, *, internal: bool) -> Iterator[tuple[str, str]]:
    yield mlflow_client.RUN_ID, str(delivery.evaluation.provenance.run_id)
    yield "understudy.content", "internal" if internal else "public"
    yield "understudy.output", str(folder.absolute()) if internal else folder.name
    yield mlflow_client.NOTE, NOTICE if internal else PUBLIC_NOTE
    if (sweep := delivery.evaluation.provenance.sweep) is not None:
        yield "understudy.releasable", str(sweep.releasable).lower()
    public = json.loads((folder / VERDICT).read_text(encoding="utf-8"))["verdict_to_hand_on"]
    if public is not None and _promises(delivery):
        yield "understudy.to_hand_on.verdict", f"{public} of the rules that can be shown; the others stay inside"
    if internal and delivery.released is not None:
        yield "understudy.verdict", delivery.released.verdict


def _files(delivery: Delivery, folder: Path, *, internal: bool) -> Iterator[tuple[str, str | None]]:
    names: list[tuple[str, str | None]] = []
    if internal or _promises(delivery):  # without a guarantee a table has, unless said, as many rows as train
        names += [(f"{TO_HAND_ON}/{name}", TO_HAND_ON) for name in (PUBLIC_YAML, PUBLIC_MARKDOWN)]
    if internal:
        names += [(name, None) for name in INTERNAL_FILES]
        names += [(f"{CARDS}/{path.name}", CARDS) for path in sorted((folder / CARDS).glob("*"))]
    yield from ((str((folder / name).absolute()), parent) for name, parent in names if (folder / name).is_file())


def _promises(delivery: Delivery) -> bool:
    """True where the table named for release has a guarantee that nobody disputes."""
    composition = Composition.of(delivery.evaluation)
    released = (one for one in delivery.evaluation.candidates if one.name == delivery.release)
    return any(_guarantee(composition.claims(one)) == "formal" for one in released)


def _guarantee(claims: Claims | None) -> str:
    """The state of what a table claims, in a word."""
    if claims is None:
        return "none"
    if not claims.counted.private:
        return "void"
    return "disputed" if claims.counted.disputed else "formal"


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def send(record: Record, limit_s: float = LIMIT_S) -> Tracked:
    """Send a record, by a process of its own. Whatever goes wrong is told, and nothing is raised."""
    server: str = record["server"]
    # Some versions of the library ask the environment where files go, whatever server the client has.
    environment = {**SETTINGS, **environ, **QUIET, "MLFLOW_TRACKING_URI": server}
    command = [sys.executable, "-P", mlflow_client.__file__]
    try:
        content = json.dumps(record, allow_nan=False)
        ended = subprocess.run(  # noqa: S603 - our own module, and arguments that no shell reads
            command, input=content, capture_output=True, text=True, timeout=limit_s, env=environment, check=False
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        return _failed(server, f"it took longer than {limit_s:g} s")
    except (OSError, TypeError, ValueError) as error:
        return _failed(server, f"the process that sends it ended: {type(error).__name__}")
    if "failure" in answer:
        return _failed(server, answer["failure"])
    return Tracked(server, f"{server}/#/experiments/{quote(answer['experiment'])}/runs/{quote(answer['run'])}")


def _failed(server: str, why: str) -> Tracked:
    what = f"this run was not tracked, or not as a whole, at MLflow's {server}"
    return Tracked(server, failure=f"{what} ({why}); the output and its verdict stand as they are")

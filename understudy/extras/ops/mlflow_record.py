"""The record of a finished run on an MLflow server: a parent run, and a run below it for each candidate.

A tracking server is a place where others read. So a whitelist says what is sent. "public" holds nothing that was
computed from real rows outside a budget: the job's own words without seeds, what is declared, claims of fits, released
numbers, the verdict to hand on, and of a table with a guarantee the model card to hand on. "internal" adds what
was computed from real rows, for a server that only those read who may read the internal report. Of the report and the
evaluation it is a copy without the real rows that these show. No real row, no synthetic table and no model is ever
sent: tables and models leave by a sign-off.
"""

import importlib.util
import io
import json
import logging
import os
import time
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from evaluate.gate.claim import Claims, claims_of
from evaluate.metrics import CATALOG
from evaluate.result import NOTICE, Candidate
from reports import render_html
from reports.exports import SUMMARY
from reports.guarantee import noise_multiplier
from synth.extras import VERSION, missing_extra
from synth.validation import split_address
from understudy.bundle.evidence import CARDS, EVALUATION, JUNIT, PUBLIC_MARKDOWN, PUBLIC_YAML, REPORT, VERDICT, Delivery
from understudy.bundle.manifest import TO_HAND_ON
from understudy.job.spec import Job, Tracked, Tracker
from understudy.provenance import INPUTS

# A server that is away is found out in seconds, unless the environment says otherwise.
SETTINGS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}  # the library reports its use to its makers
PUBLIC_NOTE = "Nothing here was computed from real rows outside a privacy budget; the evidence is in the output folder."
INTERNAL_FILES = (VERDICT, SUMMARY, JUNIT, *(f"{name}.toml" for name in INPUTS))
Run = dict[str, Any]
"""A run as plain data: its name, and its params, metrics, tags and files, and texts by the name of their file."""


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
        parts = split_address(mlflow)
        is_plain = parts is not None and parts.scheme in ("http", "https") and parts.hostname
        if parts is None or not is_plain or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "the address of an MLflow server is like http://127.0.0.1:5000, without user, password and parameters, "
                "since the job is copied into the output; MLFLOW_TRACKING_USERNAME and the like give credentials"
            )
        return mlflow.rstrip("/")

    def check(self) -> None:
        if importlib.util.find_spec("mlflow") is None:
            raise missing_extra("tracking.mlflow, which may be left out,", "mlflow")

    def track(self, job: Job, delivery: Delivery, folder: Path) -> Tracked:
        before = dict(os.environ)
        os.environ.update({**SETTINGS, **before, **QUIET, "MLFLOW_TRACKING_URI": self.mlflow})
        logging.disable()
        try:
            with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
                return Tracked(self.mlflow, _send(self, runs_of(self, job, delivery, folder), folder))
        except Exception as error:  # noqa: BLE001 - the run is finished: no record may change what it came to
            why = f"this run was not tracked, or not as a whole, at MLflow's {self.mlflow} ({type(error).__name__})"
            return Tracked(self.mlflow, failure=f"{why}; the output and its verdict stand as they are")
        finally:
            logging.disable(logging.NOTSET)
            os.environ.clear()
            os.environ.update(before)


def runs_of(asked: Mlflow, job: Job, delivery: Delivery, folder: Path) -> list[Run]:
    internal, evaluation = asked.content == "internal", delivery.evaluation
    known, schema = evaluation.provenance, evaluation.schema
    children = [
        _child(table, claims_of(evaluation, table), delivery, internal=internal) for table in evaluation.candidates
    ]
    formal = [child["name"] for child in children if child["tags"]["understudy.guarantee"] == "formal"]
    promises, declared, ledger = delivery.release in formal, schema.status == "declared", known.ledger
    public = json.loads((folder / VERDICT).read_text(encoding="utf-8"))["verdict_to_hand_on"]
    # A seed would let a guess of a row be confirmed, and so would the hash of limits that were read off the table.
    params = {
        "policy": f"{delivery.policy.name} {delivery.policy.version}", "release": delivery.release,
        "schema_status": schema.status, "schema_sha256": known.schema_sha256 if declared or internal else None,
        "dataset": schema.dataset if declared else None, "unit": schema.unit,
        "n_units": schema.n_units if declared else None, "holdout_share": job.split.holdout_share,
        "understudy": VERSION, "seed": job.seed if internal else None,
        "split_seed": job.split_seed if internal else None,
    }  # fmt: skip
    tags = {
        "understudy.run_id": str(known.run_id),
        "understudy.content": asked.content,
        "understudy.output": str(folder.absolute()) if internal else folder.name,
        "understudy.releasable": None if known.sweep is None else str(known.sweep.releasable).lower(),
        "understudy.to_hand_on.verdict": f"{public} of the rules that can be shown" if public and promises else None,
        "understudy.verdict": delivery.released.verdict if internal and delivery.released else None,
        "mlflow.note.content": NOTICE if internal else PUBLIC_NOTE,
    }
    left, total = (None, None) if ledger is None else (ledger.left_epsilon, ledger.total_epsilon)
    metrics = {"ledger.epsilon.left": left, "ledger.epsilon.total": total}
    # Without a guarantee a table has, unless said, as many rows as train, which its public card would tell.
    files = [f"{TO_HAND_ON}/{name}" for name in (PUBLIC_YAML, PUBLIC_MARKDOWN)] if internal or promises else []
    if internal:
        files += [*INTERNAL_FILES, *(f"{CARDS}/{path.name}" for path in sorted((folder / CARDS).glob("*")))]
    files = [name for name in files if (folder / name).is_file()]
    texts = {}
    if internal:
        bare = evaluation.without_rows()
        page = render_html(bare, verdicts=delivery.verdicts, title=delivery.title, release=delivery.release)
        texts = {REPORT: page, EVALUATION: bare.to_json()}
    kept = {"params": params, "tags": tags, "metrics": metrics, "files": files, "texts": texts}
    return [{"name": delivery.title, **kept}, *children]


def _child(candidate: Candidate, claims: Claims | None, delivery: Delivery, *, internal: bool) -> Run:
    known, guarantee = delivery.evaluation.provenance, "none"
    if claims is not None:
        guarantee = "void" if not claims.counted.private else "disputed" if claims.counted.disputed else "formal"
    metrics: dict[str, float | None] = {}
    if claims is not None and candidate.statement is not None and guarantee == "formal":
        metrics = {"claim.epsilon": claims.counted.epsilon, "claim.delta": claims.counted.delta}
        metrics |= {"fit.epsilon": claims.alone.epsilon, "fit.delta": claims.alone.delta}
        metrics["fit.noise_multiplier"] = noise_multiplier(candidate.statement)
        published = known.released_numbers  # read off real rows, and paid for
        if published is not None and published.table == candidate.name:
            metrics |= {number.measure: number.value for number in published.numbers if not number.subject}
    if internal:
        shown = {rule.measure for rule in delivery.policy.rules} | {name for name, each in CATALOG.items() if each.key}
        whole = [number for number in candidate.estimates if not number.subject and number.measure in shown]
        metrics |= {number.measure: number.value for number in whole}
    verdicts = {verdict.candidate: verdict.verdict for verdict in delivery.verdicts}
    tags = {
        "understudy.run_id": f"{known.run_id}/{candidate.name}",
        "understudy.guarantee": guarantee,
        "understudy.verdict": verdicts.get(candidate.name) if internal else None,
    }
    params = {} if candidate.generator is None else candidate.generator.settings
    return {"name": candidate.name, "params": params, "metrics": metrics, "tags": tags, "files": [], "texts": {}}


def _send(asked: Mlflow, runs: list[Run], folder: Path) -> str:
    """Write the runs, of which only a complete record is finished; the address of the parent's page."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException

    client, ids, now = MlflowClient(tracking_uri=asked.mlflow), list[str](), int(time.time() * 1000)
    if client.get_experiment_by_name(asked.experiment) is None:
        with suppress(MlflowException):  # another process makes it at the same moment
            client.create_experiment(asked.experiment)
    experiment = client.get_experiment_by_name(asked.experiment).experiment_id
    for run in runs:
        tags, params, metrics = (
            {name: value for name, value in run[kind].items() if value is not None}
            for kind in ("tags", "params", "metrics")
        )
        tags |= {"mlflow.parentRunId": ids[0]} if ids else {}
        ids.append(client.create_run(experiment, run_name=run["name"], tags=tags).info.run_id)
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}
        numbers = [Metric(name, value, now, 0) for name, value in metrics.items()]
        client.log_batch(ids[-1], numbers, [Param(name, text) for name, text in texts.items()])
        for name in run["files"]:
            client.log_artifact(ids[-1], str(folder / name), name.rpartition("/")[0] or None)
        for name, text in run["texts"].items():
            client.log_text(ids[-1], text, name)
    for run_id in reversed(ids):
        client.set_terminated(run_id)
    return f"{asked.mlflow}/#/experiments/{experiment}/runs/{ids[0]}"

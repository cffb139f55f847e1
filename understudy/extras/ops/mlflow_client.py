"""The process that writes one record to an MLflow server.

It is run by its path, reads the record as JSON from standard input, and answers one JSON object on standard output. The
library retries, logs, starts threads and reads many settings; here none of that can touch the run that is tracked.
"""

import json
import sys
import time
from contextlib import suppress
from typing import Any

IN_A_BATCH = 100
"""Parameters, tags or metrics that every server takes at once."""
RUN_ID, PARENT, NOTE = "understudy.run_id", "mlflow.parentRunId", "mlflow.note.content"


def main() -> None:
    """Write what standard input holds; the answer is the run's address on the server, or how far it came."""
    record, answers = json.load(sys.stdin), sys.stdout
    sys.stdout = sys.stderr  # the library prints where the run is
    try:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=record["server"])
        experiment = _experiment(client, record["experiment"])
        answer = {"experiment": experiment, "run": _write(client, experiment, record)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the run that is tracked stands; it is told by its kind
        answer = {"failure": type(error).__name__}
    json.dump(answer, answers)


def _experiment(client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException):  # it is there, or another process makes it at the same moment
        return str(client.create_experiment(name))
    return str(client.get_experiment_by_name(name).experiment_id)


def _write(client: Any, experiment: str, record: dict[str, Any]) -> str:
    """The parent run, then a run below it for each candidate; a run that an earlier start began is gone on with."""
    runs: list[str] = []
    try:
        for content in record["runs"]:
            runs.append(_run(client, experiment, content, runs[0] if runs else None))
    except BaseException:
        if runs:
            client.set_terminated(runs[0], "FAILED")
        raise
    for run in reversed(runs):
        client.set_terminated(run, "FINISHED")
    return runs[0]


def _run(client: Any, experiment: str, content: dict[str, Any], parent: str | None) -> str:
    from mlflow.entities import Metric, Param, RunTag

    tags = {**content["tags"], **({} if parent is None else {PARENT: parent})}
    earlier = client.search_runs([experiment], f"tags.`{RUN_ID}` = '{tags[RUN_ID]}'", max_results=1)
    run = earlier[0] if earlier else client.create_run(experiment, run_name=content["name"], tags=tags)
    run_id, now = str(run.info.run_id), int(time.time() * 1000)
    items = {
        "params": [Param(name, value) for name, value in content["params"].items()],
        "tags": [RunTag(name, value) for name, value in tags.items()],
        "metrics": [Metric(name, value, now, 0) for name, value in content["metrics"].items()],
    }
    for kind, all_of_it in items.items():
        for start in range(0, len(all_of_it), IN_A_BATCH):
            client.log_batch(run_id, **{kind: all_of_it[start : start + IN_A_BATCH]})
    for path, folder in content["artifacts"]:
        client.log_artifact(run_id, path, folder)
    return run_id


if __name__ == "__main__":
    main()

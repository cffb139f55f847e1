"""One table on each kind of place: a file, a folder of files, a database; and jobs that read it there."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pytest

from tests.synth.postgres import PASSWORD, Server
from tests.synth.postgres import server as server
from tests.understudy.conftest import SCHEMA, Workspace, small_table

Place = Literal["file", "folder", "database"]
WHO = {"kind": "identifier", "template": "P####"}
NAMED = {**SCHEMA, "dataset": "patients", "columns": {"who": WHO, **SCHEMA["columns"]}}
Put = Callable[[pd.DataFrame, Place], str]


def named_table(n_rows: int = 900, seed: int = 0) -> pd.DataFrame:
    """The small table with a name for each row, without which a database cannot tell them apart."""
    frame = small_table(n_rows, seed)
    frame.insert(0, "who", [f"P{place:04d}" for place in range(n_rows)])
    return frame


@pytest.fixture
def put(workspace: Workspace, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Stores rows and gives their address; the password of a database is where the driver looks for it."""

    def stored(frame: pd.DataFrame, place: Place) -> str:
        name = f"t{uuid.uuid4().hex}"
        if place == "file":
            return workspace.write_table(frame, f"{name}.parquet").name
        if place == "folder":
            (workspace.folder / name).mkdir()
            cut = len(frame) // 3
            workspace.write_table(frame.iloc[:cut], f"{name}/a.parquet")
            workspace.write_table(frame.iloc[cut:], f"{name}/b.parquet")
            return name
        server: Server = request.getfixturevalue("server")
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        database = server.create()
        insert(server.url(database), frame)
        return f"{server.url(database).replace(f':{PASSWORD}', '')}#visits"

    return stored


def insert(url: str, frame: pd.DataFrame) -> None:
    """The rows as the table `visits` of a database."""
    import ibis

    connection = ibis.connect(url)
    connection.create_table("visits", pa.Table.from_pandas(frame, preserve_index=False))
    connection.disconnect()


def write_job(workspace: Workspace, address: str, **changes: Any) -> Path:
    """A job on a table, short enough for a test."""
    workspace.write_schema(**NAMED)
    generators = changes.pop("generators", {"independent": {"epsilon": 1.0}})
    evaluation = {"measures": ["validity", "fidelity.columns"], **changes.pop("evaluation", {})}
    table = {"path": address, "schema": "schema.toml", "outside": "clamp", **changes.pop("table", {})}
    return workspace.write_job(generators=generators, evaluation=evaluation, table=table, **changes)

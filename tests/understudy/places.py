"""One table in each kind of source, and jobs that read it there."""

import uuid
from pathlib import Path
from typing import Any, Literal

import duckdb
import pandas as pd

from tests.understudy.conftest import SCHEMA, Workspace, small_table

Place = Literal["file", "folder", "pattern", "database"]
WHO = {"kind": "identifier", "template": "P####"}
NAMED = {**SCHEMA, "dataset": "patients", "columns": {"who": WHO, **SCHEMA["columns"]}}


def named_table(n_rows: int = 900, seed: int = 0) -> pd.DataFrame:
    """The small table with a name for each row."""
    frame = small_table(n_rows, seed)
    frame.insert(0, "who", [f"P{path:04d}" for path in range(n_rows)])
    return frame


def put(workspace: Workspace, frame: pd.DataFrame, source: Place) -> str:
    """Stores rows and gives their whole path or address."""
    name = f"t{uuid.uuid4().hex}"
    if source == "file":
        return str(workspace.write_table(frame, f"{name}.parquet"))
    if source == "database":
        path = workspace.folder / f"{name}.duckdb"
        with duckdb.connect(path) as connection:
            connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
        return f"duckdb://{path}#visits"
    (workspace.folder / name).mkdir()
    cut = len(frame) // 3
    workspace.write_table(frame.iloc[:cut], f"{name}/a.parquet")
    workspace.write_table(frame.iloc[cut:], f"{name}/b.parquet")
    return str(workspace.folder / name / ("*.parquet" if source == "pattern" else ""))


def write_job(workspace: Workspace, address: str, **changes: Any) -> Path:
    """A job on a table, short enough for a test."""
    workspace.write_schema(**NAMED)
    generators = changes.pop("generators", {"independent": {"epsilon": 1.0}})
    evaluation = {"measures": ["validity", "fidelity.columns"], **changes.pop("evaluation", {})}
    table = {"path": address, "schema": "schema.toml", "outside": "clamp", **changes.pop("table", {})}
    return workspace.write_job(generators=generators, evaluation=evaluation, table=table, **changes)

"""One point of the benchmark of stored tables, in a process of its own: one piece of work, one line of JSON.

``python -m benchmarks.stored_point POINT``, where POINT is a JSON object of `Point`'s fields.
"""

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.evaluated import measured

MODEL, ROWS = "model", "rows"
"""What a scratch folder holds: the model that the table is drawn from, and the table."""


@dataclass(frozen=True)
class Point:
    """What is measured on what.

    Attributes:
        work: one of `WORKS`.
        folder: the scratch folder.
        rows: of the table.
        threads: of DuckDB.
        memory_mb: of DuckDB.
        table: Adult, to fit the model to; none: a made table.
    """

    work: str
    folder: str
    rows: int = 0
    threads: int = 2
    memory_mb: int = 1_500
    table: str | None = None

    @property
    def model(self) -> Path:
        """The model that rows are drawn from."""
        return Path(self.folder) / MODEL

    @property
    def stored(self) -> Path:
        """The folder of Parquet files."""
        return Path(self.folder) / f"{ROWS}-{self.rows}"


def draw_model(point: Point) -> Callable[[], object]:
    """`mst` without epsilon on Adult's train part, or on a made table of 15 columns."""
    import synth
    from benchmarks.adult_table import read_adult
    from benchmarks.growth_table import make_table

    if point.table is None:
        frame, schema = make_table(50_000, 15)
    else:
        adult = read_adult(Path(point.table))
        frame, schema = adult.train, adult.binned
    return lambda: synth.fit(frame, schema, "mst").save(point.model)


def write(point: Point) -> Callable[[], object]:
    """The table itself, drawn from the model and written file by file."""
    from synth.generators.models.chunked_output import write_rows
    from synth.generators.registry import load_model

    model = load_model(point.model)
    return lambda: write_rows(model, point.stored, point.rows, seed=0)


def fit(point: Point) -> Callable[[], object]:
    """`mst` at epsilon 1, end to end: open, split, bound, count, measure, fit."""
    from synth.generators.mst import Mst
    from synth.generators.registry import load_model
    from synth.split import split_table

    schema = load_model(point.model).schema.model_copy(update={"n_units": point.rows})

    def run() -> None:
        train, _ = split_table(point.stored, schema, holdout_share=0.2, seed=0, private=True)
        Mst(epsilon=1.0).fit(train, schema)

    return run


def count(point: Point) -> Callable[[], object]:
    """All columns and pairs in the model's codes, from opening the files to the last count."""
    from synth.generators.fitting.training_data import TrainingTable
    from synth.generators.registry import load_model
    from synth.table.rows import Rows

    model: Any = load_model(point.model)
    names = model.discretizer.columns

    def run() -> None:
        counts = TrainingTable(Rows.of(point.stored, model.schema)).coded(model.discretizer)
        for _ in counts.each(_columns_and_pairs(names)):
            pass

    return run


def plain(point: Point) -> Callable[[], object]:
    """The same counts, of values as they are, as plain SQL over the files through DuckDB's own API."""
    import duckdb

    options: dict[str, Any] = {"threads": point.threads, "memory_limit": f"{point.memory_mb}MB"}

    def run() -> None:
        with duckdb.connect(config=options) as connection:
            files = str(point.stored / "*.parquet")
            names = connection.execute("SELECT * FROM read_parquet($1) LIMIT 0", [files]).fetchdf().columns
            for clique in _columns_and_pairs(names):
                by = ", ".join(f'"{name}"' for name in clique)
                query = f"SELECT {by}, count(*) FROM read_parquet($1) GROUP BY {by}"
                connection.execute(query, [files]).fetchnumpy()

    return run


def _columns_and_pairs(names: Any) -> list[tuple[str, ...]]:
    return [*((name,) for name in names), *itertools.combinations(names, 2)]


WORKS: Mapping[str, Callable[[Point], Callable[[], object]]] = {
    "model": draw_model, "write": write, "fit": fit, "count": count, "plain": plain,
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    point = Point(**json.loads(sys.argv[1]))
    print(json.dumps(measured(WORKS[point.work](point))))

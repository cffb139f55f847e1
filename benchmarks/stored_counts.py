"""Ways to count all pairs of a stored table: which is the fastest, and how many sets of columns one query should take.

``python -m benchmarks.stored_counts FOLDER`` on what ``benchmarks.stored --folder FOLDER`` left: in DuckDB the ways
that a table of codes can be counted there, and what ours gets by wide counts. With ``--address URL#table``, of the same
table in a database, ours alone, by cells and sets of a query.
"""

import argparse
import itertools
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stored_point import MODEL, ROWS
from synth.generators.registry import load_model
from synth.stored import counts as counting
from synth.stored import open_table
from synth.stored.counts import StoredCounts

WIDTHS = ((0, 64), (0, 32), (4_096, 32), (16_384, 32), (65_536, 32), (16_384, 16))
"""Cells of a set of columns, and sets of a query."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.stored_counts", description=__doc__)
    parser.add_argument("folder", type=Path, help="as benchmarks.stored left it")
    parser.add_argument("--rows", type=int, default=1_000_000, help="which of its tables")
    parser.add_argument("--address", help="the same table in a database")
    parser.add_argument("--threads", type=int, default=2, help="of DuckDB")
    options = parser.parse_args(arguments)
    model: Any = load_model(options.folder / MODEL)
    address = options.address or str(options.folder / f"{ROWS}-{options.rows}")
    with open_table(address, threads=options.threads) as real:
        counts = real.training(model.schema).coded(model.discretizer)
        pairs = list(itertools.combinations(counts.domain, 2))
        print(f"{len(pairs)} pairs, {sum(counts.domain[a] * counts.domain[b] for a, b in pairs):,} cells")
        if real.place.backend == "duckdb":
            for name, way in _ways(counts).items():
                _timed(name, lambda way=way: way(pairs))
        for n_cells, n_sets in WIDTHS:
            counting.CELLS_A_SET, counting.SETS_A_SCAN = n_cells, n_sets
            _timed(f"ours, {n_cells:,} cells a set, {n_sets} sets a query", lambda: list(counts.each(pairs)))


def _timed(name: str, run: Callable[[], object]) -> None:
    """The better of two runs; processor seconds are this process's, not the server's."""
    found = []
    for _ in range(2):
        started, used = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - started, time.process_time() - used))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    seconds, cpu_s = (min(figures) for figures in zip(*found, strict=True))
    print(f"{name:44} {seconds:8.2f} s {cpu_s:8.2f} CPU s   peak so far {peak_mb:6.0f} MB", flush=True)


def _ways(counts: StoredCounts) -> dict[str, Callable[[Sequence[tuple[str, str]]], object]]:
    """Other ways in DuckDB: through its own API, on the same codes."""
    engine, table = counts.place.connection.con, counts.codes.get_name()
    column = dict(zip(counts.domain, counts.codes.columns, strict=True))
    sizes = counts.domain

    def asked(queries: Iterable[str]) -> None:
        for query in queries:
            engine.execute(query).fetchnumpy()

    def by_itself(pairs: Sequence[tuple[str, str]]) -> None:
        asked(f"SELECT {column[a]}, {column[b]}, count(*) FROM {table} GROUP BY ALL" for a, b in pairs)

    def as_one_number(pairs: Sequence[tuple[str, str]]) -> None:
        asked(
            f"SELECT {column[a]}::INT * {sizes[b]} + {column[b]} AS x, count(*) FROM {table} GROUP BY x"
            for a, b in pairs
        )

    def grouping_sets(pairs: Sequence[tuple[str, str]]) -> None:
        for start in range(0, len(pairs), 32):
            some = pairs[start : start + 32]
            names = ", ".join(dict.fromkeys(column[name] for pair in some for name in pair))
            sets = ", ".join(f"({column[a]}, {column[b]})" for a, b in some)
            asked([f"SELECT {names}, count(*) FROM {table} GROUP BY GROUPING SETS ({sets})"])

    def in_numpy(pairs: Sequence[tuple[str, str]]) -> None:
        found = {(a, b): np.zeros(sizes[a] * sizes[b], dtype=np.int64) for a, b in pairs}
        for batch in engine.execute(f"SELECT * FROM {table}").fetch_record_batch(65_536):
            codes = {name: batch.column(of).to_numpy().astype(np.int64) for name, of in column.items()}
            for (a, b), cells in found.items():
                cells += np.bincount(codes[a] * sizes[b] + codes[b], minlength=len(cells))

    return {
        "one query for each pair": by_itself,
        "one query for each pair, as one number": as_one_number,
        "grouping sets of 32 pairs": grouping_sets,
        "one pass of codes through numpy's bincount": in_numpy,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])

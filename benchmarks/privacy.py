"""The evaluation of privacy beside its peers: what it costs, and anonymeter's risks on the same tables.

``python -m benchmarks.privacy TABLE --out privacy.json``, where TABLE is UCI's ``adult.data``; peers are those of
``make bench-peers``. Ours and theirs run in turn, each in a process of its own, imports and compiling not counted: with
one thread for processor seconds, with two for seconds of the clock. ``--only`` takes some parts; those that the file
holds stay. ``python -m benchmarks.privacy --out privacy.json`` only draws the tables.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.evaluation import LARGE_ROWS, apart, held_to
from benchmarks.peer import ENVIRONMENTS, HERE, run_script
from benchmarks.privacy_drawing import OURS, draw
from benchmarks.privacy_tables import TABLES
from benchmarks.runs import NOT_INSTALLED, about, keep, read_kept

STEP = "benchmarks.privacy_point"
PEERS: Mapping[str, tuple[str, str]] = {
    "anonymeter, three attacks": ("anonymeter", "cost"),
    "mostlyai-qa, distances": ("mostlyai_qa", "distances"),
    "mostlyai-qa, whole report": ("mostlyai_qa", "report"),
}
"""The environment of each, and what its script does."""
N_COLUMNS = 3
"""Conditions of a predicate, anonymeter's own default."""


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    content: dict[str, Any] = read_kept(options.out, {})
    for part in options.only if options.table is not None else ():
        versions = {name: metadata.version(name) for name in ("numpy", "pandas", "scikit-learn", "scipy")}
        content |= {"about": about(versions=versions), part: PARTS[part](options)}
        keep(options.out, content)
    print(draw(content))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.privacy", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="adult.data; none only draws what --out holds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts; unless said, all")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each whose cost is measured")
    parser.add_argument("--attacks", type=int, default=500, help="of anonymeter's whose cost is measured, each kind")
    parser.add_argument("--risk-attacks", type=int, default=1000, help="of those whose risks are compared, each kind")
    parser.add_argument("--rows", type=int, default=LARGE_ROWS, help="of the large table")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="seconds of one peer's run at most")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    return parser.parse_args(arguments)


def _cost(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Ours and theirs in turn, so that a busier hour slows all."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in (OURS, *PEERS)}
    with _folder(options, {"table": "honest", "n_attacks": options.attacks}) as folder:
        for _ in range(options.repeats):
            for name, threads in ((name, threads) for name in runs for threads in (1, 2)):
                if name == OURS:
                    run = apart(STEP, "ours", str(options.table), str(folder), threads=threads)
                else:
                    library, do = PEERS[name]
                    run = _peer(folder, library, {"do": do, "threads": threads}, options.limit_s)
                runs[name].append({**run, "threads": threads})
                _say(f"{name}, {threads} threads: {run.get('failure') or round(run['wall_s'], 1)}")
    return runs


def _large(options: argparse.Namespace) -> dict[str, Any]:
    """Ours once on many rows."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "task.json").write_text(json.dumps({"rows": options.rows}))
        run = apart(STEP, "large", str(options.table), folder, threads=2)
    return {**run, "rows": options.rows}


def _risks(options: argparse.Namespace) -> dict[str, Any]:
    """By table: anonymeter's attacks as it makes them, as we read them, and ours."""
    runs = {}
    for table in TABLES:
        with _folder(options, {"table": table, "n_attacks": options.risk_attacks}) as folder:
            steps = ("rewritten", "rates")
            runs[table] = {step: apart(STEP, step, str(options.table), str(folder)) for step in steps}
            runs[table]["theirs"] = _peer(folder, "anonymeter", {"do": "risks", "threads": 1}, options.limit_s)
        _say(f"risks of {table}: {runs[table]['theirs'].get('failure') or 'done'}")
    return runs


PARTS: Mapping[str, Callable[[argparse.Namespace], Any]] = {"cost": _cost, "large": _large, "risks": _risks}


@contextmanager
def _folder(options: argparse.Namespace, task: Mapping[str, Any]) -> Iterator[Path]:
    """A folder with the tables of a task, made elsewhere: a child's peak memory is at least its parent's."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "task.json").write_text(json.dumps({**task, "n_columns": N_COLUMNS, "seed": 0}))
        apart(STEP, "tables", str(options.table), folder)
        yield Path(folder)


def _peer(folder: Path, library: str, task: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """What a peer's script found; whatever goes wrong is a result too."""
    python = ENVIRONMENTS / library / "bin" / "python"
    if not python.exists():
        return {"failure": NOT_INSTALLED}
    whole = {**json.loads((folder / "task.json").read_text()), **task}
    (folder / "task.json").write_text(json.dumps(whole))
    script = HERE / "peers" / f"with_{library}.py"
    failure = run_script(python, script, folder, limit_s, held_to(whole["threads"]))
    if failure is not None:
        return {"failure": failure}
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Peers, each in an environment of its own (`make bench-peers`), run as a child on the same rows.

Those of `PEERS` get codes of public bins, those of `TABLE_PEERS` the table as it is read, with its schema.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adult_table import Adult, Codes
from benchmarks.evaluation import held_to
from benchmarks.runs import NOT_INSTALLED
from synth.schema import Schema
from synth.schema.kinds.dates import DAY, MICROSECONDS
from synth.table import conform
from synth.table.conforming import shown_column

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-peers"
MODEL_MB = 4.0
"""Limit of a peer's model where it takes one: as large as ours."""
PEERS = tuple(f"{library}.{mechanism}" for library in ("opendp", "smartnoise", "dpmm") for mechanism in ("mst", "aim"))
REMARKS = {
    "opendp": "pure zCDP at the rho that epsilon and delta allow; aim over triples; rows drawn independently",
    "smartnoise": "aim over pairs, as it comes; rows drawn independently; takes the number of rows as known",
    "dpmm": "aim over pairs, as it comes; one process",
}
"""How each was run, beside what is the same for all."""


@dataclass(frozen=True)
class TablePeer:
    """A peer that learns from a table as it is.

    Attributes:
        python: of its environment.
        script: what it runs, with a folder as its argument.
    """

    python: Path
    script: Path


TABLE_PEERS = {
    "tabularargn": TablePeer(ENVIRONMENTS / "mostly" / "bin" / "python", HERE / "peers" / "with_tabularargn.py"),
    "arf": TablePeer(ENVIRONMENTS / "arf" / "bin" / "python", HERE / "peers" / "with_arf.py"),
}
"""By the names of their fits."""


@dataclass(frozen=True)
class PeerRun:
    """What a peer made.

    Attributes:
        synthetic: a table of values; none where it failed.
        fit_s: seconds of its fit, compiling included, imports not.
        fit_cpu_s: processor seconds of the same.
        sample_s: seconds to sample as many rows as it was given.
        versions: of its packages.
        failure: why there is no table; none where there is one.
        facts: numbers that it tells of its fit.
    """

    synthetic: pd.DataFrame | None = None
    fit_s: float | None = None
    fit_cpu_s: float | None = None
    sample_s: float | None = None
    versions: dict[str, str] | None = None
    failure: str | None = None
    facts: dict[str, float] = field(default_factory=dict)


def run_peer(name: str, adult: Adult, privacy: tuple[float, float], seed: int, limit_s: float) -> PeerRun:
    """One fit and sample of a peer; whatever goes wrong is a result too.

    Args:
        name: one of `PEERS`.
        adult: the table.
        privacy: epsilon and delta.
        seed: for what is not noise, and for the values within a bin.
        limit_s: seconds after which it is stopped.
    """
    library, mechanism = name.split(".")
    python = ENVIRONMENTS / library / "bin" / "python"
    if not python.exists():
        return PeerRun(failure=NOT_INSTALLED)
    codes, (epsilon, delta) = Codes(adult.binned), privacy
    with tempfile.TemporaryDirectory() as position:
        folder = Path(position)
        codes.encode(adult.train).to_csv(folder / "train.csv", index=False)
        task = {"mechanism": mechanism, "sizes": codes.sizes, "epsilon": epsilon, "delta": delta, "seed": seed}
        task |= {"rho": rho_within(epsilon, delta), "model_mb": MODEL_MB}
        (folder / "task.json").write_text(json.dumps(task))
        failure = run_script(python, HERE / "peers" / f"with_{library}.py", folder, limit_s)
        if failure is not None:
            return PeerRun(failure=failure)
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        synthetic = codes.decode(pd.read_csv(folder / "synthetic.csv"), np.random.default_rng(seed))
    return PeerRun(synthetic=synthetic, **result)


def run_table_peer(
    name: str, train: pd.DataFrame, schema: Schema, privacy: Mapping[str, float], seed: int, limit_s: float
) -> PeerRun:
    """One fit and sample of a peer on a table as it is; whatever goes wrong is a result too.

    Times come and go as ISO 8601 (of UTC where they have a zone), and are given back in the schema's form and bounds.

    Args:
        name: one of `TABLE_PEERS`.
        train: the real rows, as they were read.
        schema: what is public of them; the peer gets the learned columns, and all that it says of them.
        privacy: epsilon and delta; empty for a fit without a guarantee.
        seed: of the fit and the sample.
        limit_s: seconds after which it is stopped.

    Returns:
        As many synthetic rows as train has, and as facts what the peer's process took.
    """
    peer = TABLE_PEERS[name]
    if not peer.python.exists():
        return PeerRun(failure=f"{name} is {NOT_INSTALLED}")
    columns = {learned: schema.columns[learned] for learned in schema.learned}
    with tempfile.TemporaryDirectory() as position:
        folder = Path(position)
        _with_iso_times(train, schema).to_csv(folder / "train.csv", index=False)
        facts = {learned: column.model_dump(mode="json") for learned, column in columns.items()}
        (folder / "task.json").write_text(json.dumps({"columns": facts, "seed": seed, **privacy}))
        failure = run_script(peer.python, peer.script, folder, limit_s, held_to(1))
        if failure is not None:
            return PeerRun(failure=failure)
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        times = [learned for learned, column in columns.items() if column.is_time]
        texts = dict.fromkeys(times, str)
        synthetic = pd.read_csv(folder / "synthetic.csv", keep_default_na=False, na_values=[""], dtype=texts)
    shown = {learned: _from_iso(synthetic[learned], learned, schema) for learned in times}
    return PeerRun(synthetic.assign(**shown), versions=result.pop("versions"), facts=result)


def _with_iso_times(train: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The learned columns, with a missing time as an empty cell."""
    canonical = conform(train, schema, part=True)
    times = {}
    for name in schema.learned:
        column = schema.columns[name]
        if column.is_time:
            stamps, unit = (
                column.instants(canonical[name]),
                "D" if column.is_date else "us",
            )
            times[name] = np.where(np.isnat(stamps), None, np.datetime_as_string(stamps, unit=unit))
    return train[list(schema.learned)].assign(**times)


def _from_iso(texts: pd.Series, name: str, schema: Schema) -> pd.Series:
    """Times in the form of the real ones."""
    column = schema.columns[name]
    assert column.is_time
    stamps = texts.fillna("NaT").to_numpy(dtype=str).astype("datetime64[us]")
    missing = np.isnat(stamps)
    unit = DAY if column.is_date else MICROSECONDS[column.precision]
    counts = np.where(missing, 0, stamps.astype(np.int64) // unit)
    return shown_column(column.values(counts, missing), name, column)


def run_script(
    python: Path, script: Path, folder: Path, limit_s: float, environment: Mapping[str, str] | None = None
) -> str | None:
    """Why a script did not finish; none where it did. It is stopped with all its children."""
    command = [str(python), "-W", "ignore", str(script), str(folder)]
    started = time.perf_counter()
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"stopped after {limit_s:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code == 0:
        return None
    return f"failed after {time.perf_counter() - started:.0f} s: {_complaint((folder / 'log.txt').read_text())[:100]}"


def _complaint(log: str) -> str:
    """The last line that names an error, else the last."""
    lines = log.strip().splitlines() or ["nothing was said"]
    return next((line for line in reversed(lines) if re.search(r"(Error|Exception)\b.*:", line)), lines[-1])


@cache
def rho_within(epsilon: float, delta: float) -> float:
    """The largest zCDP cost that stays within epsilon and delta, for peers that take no other budget."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    low, high = 0.0, epsilon
    while high - low > 1e-9 * epsilon:
        middle = (low + high) / 2
        accountant = RdpAccountant()
        accountant.compose(ZCDpEvent(middle))
        low, high = (middle, high) if accountant.get_epsilon(delta) <= epsilon else (low, middle)
    return low

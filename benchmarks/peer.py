"""Peers, each in an environment of its own (`make bench-peers`), run as a child on the same rows.

Those of `PEERS` get codes of public bins, those of `TABLE_PEERS` the table as it is read, with its schema. Not on PyPI
by name, and so not run: dpsynth, private-pgm's mechanisms (`mbi` has none), Private-GSD, private evolution and MargNet.
PrivBayes of `dpmm` 0.1.9 is left out: by its source it divides mutual information by the root of both entropies, and
charges the sensitivity of mutual information itself.
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

from benchmarks.evaluation import held_to
from benchmarks.runs import NOT_INSTALLED
from synth.domain.discretizer import OTHER, Discretizer, with_cells
from synth.generators.fitting.training_data import counted_source
from synth.generators.models.model import TableModel
from synth.schema import Schema
from synth.schema.kinds.dates import DAY, MICROSECONDS
from synth.table import conform
from synth.table.conforming import shown_column

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-peers"
N_BINS = 32
"""Of a number or time without declared bins, beside the cells of its spikes."""
MODEL_MB = 4.0
"""Limit of a peer's model where it takes one: as large as ours."""
PEERS = tuple(f"{library}.{mechanism}" for library in ("opendp", "smartnoise", "dpmm") for mechanism in ("mst", "aim"))
REMARKS = {
    "opendp": "pure zCDP at the rho that epsilon and delta allow; aim over triples; rows drawn independently",
    "smartnoise": "aim over pairs, as it comes; rows drawn independently; takes the number of rows as known",
    "dpmm": "aim over pairs, as it comes; one process; choices by the seed, noise not",
}
"""How each was run, beside what is the same for all: epsilon and delta as asked, of one row, and domains as told."""


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


def is_peer(fit: str) -> bool:
    """True of a fit that runs in an environment of its own."""
    return fit.partition(":")[0] in (*PEERS, *TABLE_PEERS)


@dataclass(frozen=True)
class PeerRun:
    """What a peer made.

    Attributes:
        synthetic: a table of values; none where it failed.
        versions: of its packages.
        failure: why there is no table; none where there is one.
        facts: numbers that it tells of its fit, and what its process took, imports left out.
    """

    synthetic: pd.DataFrame | None = None
    versions: dict[str, str] | None = None
    failure: str | None = None
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, Any]:
        """Seconds of its fit, compiling included, processor seconds of the same, and seconds of its sample."""
        return {name: self.facts[name] for name in ("fit_s", "fit_cpu_s", "sample_s")}


class Codes(TableModel):
    """Whole numbers from 0 for the columns of a table, as ours are counted and by what is declared alone, and back.

    Rows of codes are decoded and finished as those of a model of ours are, but values are drawn evenly within a code.
    """

    def __init__(self, schema: Schema) -> None:
        attributes = [with_cells(each, N_BINS) for each in Discretizer.by_schema(schema.counted).attributes]
        self.schema, self.discretizer = schema, Discretizer(tuple(attributes))
        self.entity_shares = None if schema.entity is None else (1.0,)
        self._possible = {
            f"c{at}": np.setdiff1d(np.arange(each.size), each.impossible) for at, each in enumerate(attributes)
        }

    @property
    def sizes(self) -> dict[str, int]:
        """Number of codes of each column that has any choice."""
        return {name: len(codes) for name, codes in self._possible.items() if len(codes) > 1}

    def encode(self, train: pd.DataFrame) -> pd.DataFrame:
        """The codes of rows as they were read."""
        rows = counted_source(train, self.schema, promises=True, mapped=False).frame()
        codes = dict(zip(self._possible, self.discretizer.encode(rows).T, strict=True))
        return pd.DataFrame({name: np.searchsorted(self._possible[name], codes[name]) for name in self.sizes})

    def decode(self, codes: pd.DataFrame, seed: int) -> pd.DataFrame:
        """As many rows of values; a code that is missing or unknown is drawn anew from the column's others."""
        columns = []
        for attribute, (name, possible) in zip(self.discretizer.attributes, self._possible.items(), strict=True):
            numbers = pd.to_numeric(codes[name], errors="coerce") if name in codes else pd.Series(0, codes.index)
            index = numbers.where(numbers.isin(range(len(possible))), len(possible)).to_numpy(dtype=np.int64)
            columns.append(np.append(possible, attribute.size + OTHER)[index])
        self._rows = np.column_stack(columns)
        self.default_rows = len(codes)
        return self.sample(seed=seed)

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Values of the rows of codes in random order, each of them once where so many are asked for."""
        return self.discretizer.decode(self._rows[np.resize(rng.permutation(len(self._rows)), n_rows)], rng)


def run_peer(
    name: str, train: pd.DataFrame, schema: Schema, privacy: Mapping[str, float], seed: int, limit_s: float
) -> PeerRun:
    """One fit and sample of a peer; whatever goes wrong is a result too.

    Times come and go as ISO 8601 (of UTC where they have a zone), and are given back in the schema's form and bounds.

    Args:
        name: one of `TABLE_PEERS`, else a library and its mechanism.
        train: the real rows, as they were read.
        schema: what is public of them; the peer gets the learned columns, and all that it says of them.
        privacy: epsilon and delta; empty for a fit without a guarantee.
        seed: of what is not noise.
        limit_s: seconds after which it is stopped.

    Returns:
        As many synthetic rows as train has, and as facts what the peer's process took.
    """
    library, _, mechanism = name.partition(".")
    of_codes = TablePeer(ENVIRONMENTS / library / "bin" / "python", HERE / "peers" / f"with_{library}.py")
    peer, codes = TABLE_PEERS.get(name, of_codes), Codes(schema) if mechanism else None
    if not peer.python.exists():
        return PeerRun(failure=f"{name} is {NOT_INSTALLED}")
    if codes is None:
        columns = {learned: schema.columns[learned].model_dump(mode="json") for learned in schema.learned}
        table, task = _with_iso_times(train, schema), {"columns": columns}
    else:
        task = {"mechanism": mechanism, "sizes": codes.sizes, "rho": rho_within(**privacy), "model_mb": MODEL_MB}
        table = codes.encode(train)
    with tempfile.TemporaryDirectory() as position:
        folder = Path(position)
        table.to_csv(folder / "train.csv", index=False)
        (folder / "task.json").write_text(json.dumps({**task, "seed": seed, **privacy}))
        failure = run_script(peer.python, peer.script, folder, limit_s, held_to(1))
        if failure is not None:
            return PeerRun(failure=failure)
        result = json.loads((folder / "result.json").read_text())
        path = folder / "synthetic.csv"
        synthetic = _read_table(path, schema) if codes is None else codes.decode(pd.read_csv(path), seed)
    return PeerRun(synthetic, versions=result.pop("versions"), facts=result)


def _read_table(path: Path, schema: Schema) -> pd.DataFrame:
    times = [learned for learned in schema.learned if schema.columns[learned].is_time]
    synthetic = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(times, str))
    return synthetic.assign(**{learned: _from_iso(synthetic[learned], learned, schema) for learned in times})


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

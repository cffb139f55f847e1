"""A job of several sites, their tables, and a run in this process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from synth.domain import Discretizer
from synth.dp.ledger.records import LedgerEntry
from tests.understudy.conftest import SCHEMA, small_table
from understudy.budget import ledger_url, open_fund
from understudy.cli import app
from understudy.data import find_table
from understudy.extras.sites.channel import LocalChannel, Recorder, unpack
from understudy.extras.sites.job import SitesInputs, read_sites_job
from understudy.extras.sites.server import Participant, SitesOutcome, serve
from understudy.extras.sites.site import CountQuery

NAMES = ("east", "north", "south", "west")
SIZES = (300, 600, 400, 300)  # rows of the sites: unlike each other
QUICK = {"measures": ["fidelity.columns"], "audit": False}


@dataclass(frozen=True)
class SitesHome:
    home: Path

    @property
    def inputs(self) -> SitesInputs:
        return _read(self.home / "job.toml", (self.home / "job.toml").read_text())

    def write(self, generator: Mapping[str, Any], **keys: Any) -> SitesInputs:
        sites = {name: {"table": f"{name}.csv"} for name in NAMES}
        content = {"schema": "schema.toml", "generator": dict(generator), **QUICK, **keys, "sites": sites}
        (self.home / "job.toml").write_text(tomli_w.dumps(content))
        return self.inputs

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_csv(self.home / f"{name}.csv")

    def ledger(self, name: str) -> str:
        return ledger_url(str(self.home / f"{name}.db")) or ""

    def open_ledgers(self, epsilon: float = 2.0) -> None:
        for name in NAMES:
            opened = ["ledger", "open", "--schema", str(self.home / "schema.toml"), "--epsilon", str(epsilon)]
            assert CliRunner().invoke(app, [*opened, "--ledger", str(self.home / f"{name}.db")]).exit_code == 0

    def ledger_entries(self, name: str) -> list[LedgerEntry]:
        """What a site's ledger says of reservations, in order."""
        entries = open_fund(self.ledger(name), self.inputs.schema).ledger.history()
        return [entry for entry in entries if entry.token]

    @contextmanager
    def participants(self, *, ledger: bool = False, outs: str = "at") -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            yield {
                name: stack.enter_context(self.participant(name, outs, self.ledger(name) if ledger else None).at_work())
                for name in NAMES
            }

    def participant(self, name: str, outs: str = "at", ledger: str | None = None) -> Participant:
        table = find_table(str(self.home / f"{name}.csv"))
        return Participant(name, self.inputs, table, self.home / f"{outs}-{name}", ledger)

    def run(self, recorder: Recorder | None = None, out: str = "out", **more: Any) -> SitesOutcome:
        with self.participants(**more) as sites:
            return serve(self.inputs, LocalChannel(sites, recorder), self.home / out)


class Altered:
    """A site that answers by a function of itself, the task that is asked of it, and the request."""

    def __init__(self, site: Any, act: Callable[[Any, str, bytes], bytes]) -> None:
        self._site, self._act = site, act

    def answer(self, request: bytes) -> bytes:
        return self._act(self._site, unpack(request)[0]["task"], request)


def dies(site: Any, task: str, n_answers: int = 0) -> Altered:
    """A site that answers so many requests of a task, and is gone then."""
    left = [n_answers + 1]

    def act(site: Any, asked: str, request: bytes) -> bytes:
        left[0] -= asked == task
        if left[0] <= 0:
            raise ConnectionError
        return bytes(site.answer(request))

    return Altered(site, act)


@cache
def _read(path: Path, _: str) -> SitesInputs:
    """A job, read once: the noise of its schedule takes a second to calibrate."""
    return read_sites_job(path)


@pytest.fixture
def sites_home(tmp_path: Path) -> SitesHome:
    """Four sites with the parts of one table of 1,600 rows, by age, so that they are unlike each other."""
    table = small_table(1600).sort_values("age", ignore_index=True)
    start = 0
    for name, size in zip(NAMES, SIZES, strict=True):
        table.iloc[start : start + size].to_csv(tmp_path / f"{name}.csv", index=False)
        start += size
    (tmp_path / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "n_units": 1600, "dataset": "towns"}))
    return SitesHome(tmp_path)


def cells_query(home: SitesHome, number: int = 0) -> CountQuery:
    """A query for all cells of the schema."""
    codes = Discretizer.by_schema(home.inputs.counted)
    cliques = tuple((name,) for name in codes.columns)
    return CountQuery(number=number, event=0, kind="cells", discretizer=codes.to_plain(), cliques=cliques)

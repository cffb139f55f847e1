"""A run of all sites on one machine: the server here, and each site in a process of its own, over Flower and TLS.

::

    OUT/
        server/     the server's output
        sites/NAME/ the output of each site
        logs/       what each site said

Keys and certificates are made for the run and live in a hidden folder beside OUT. Where the run is cut short, the same
command goes on: the server from the sums that it saw, each site from the answers that it kept.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from synth.errors import JobError, OutputError
from synth.output import RUN, hidden_beside, is_taken
from synth.progress import Progress, quiet
from understudy.sites.channel import ChannelError
from understudy.sites.job import SitesInputs
from understudy.sites.messages import SitesError
from understudy.sites.participant import is_delivered
from understudy.sites.server import SitesOutcome, are_enough, serve

if TYPE_CHECKING:
    from understudy.sites.flower.server import FlowerChannel

JOIN_S = 300.0
"""Seconds that sites have to read their tables and join."""
LOOK_EVERY_S = 2.0
"""Seconds between looks at sites that have not joined."""
GRACE_S = 20.0
"""Seconds that a site's process has to end once the run is over."""


@dataclass(frozen=True)
class SitesRun:
    """A run of all sites on this machine."""

    job_path: Path
    inputs: SitesInputs
    out: Path

    def site_folder(self, name: str) -> Path:
        """The output of a site."""
        return self.out / "sites" / name


def plan_run(job_path: Path, inputs: SitesInputs, out: Path) -> SitesRun:
    """A run, or the first thing that is wrong. No row is read."""
    for name, site in inputs.job.sites.items():
        if site.table is None:
            raise JobError(f"sites.{name}.table is missing, and a run on one machine reads it; add it")
    run = SitesRun(job_path, inputs, out)
    sites = {name: run.site_folder(name) for name in inputs.names}
    for made in (out / "server", *(at for name, at in sites.items() if not is_delivered(name, inputs, at))):
        if is_taken(made):
            raise OutputError(f"an output must be new: {str(made)!r} exists; name another --out or remove it")
    return run


def run_here(run: SitesRun, progress: Progress = quiet) -> SitesOutcome:
    """Carry out a run: sites are started, the server serves them, and all have ended when this returns."""
    from understudy.sites.flower.credentials import make_server_files, make_site_files
    from understudy.sites.flower.server import FlowerChannel

    for folder in (run.out, run.out / "sites", run.out / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    hidden = hidden_beside(run.out, RUN)
    files = make_server_files(hidden / "server")
    keys = {name: make_site_files(hidden / "sites", name, files.ca) for name in run.inputs.names}
    public = {name: site.public_key for name, site in keys.items()}
    # Sites end once the channel has told them that the run is over: their processes are waited for after that.
    with ExitStack() as stack, FlowerChannel(files, public, hidden / "server") as channel:
        progress("waiting for sites", None)
        processes = {
            name: stack.enter_context(_site(run, name, channel, keys[name].key, files.ca)) for name in run.inputs.names
        }
        _wait(run, channel, processes)
        outcome = serve(run.inputs, channel, run.out / "server", progress)
    shutil.rmtree(hidden, ignore_errors=True)
    return outcome


@contextmanager
def _site(
    run: SitesRun, name: str, channel: "FlowerChannel", key: Path, ca: Path
) -> "Iterator[subprocess.Popen[bytes]]":
    """A site's process, which has ended when the block is left; it ends by itself once the server is gone."""
    spec = run.inputs.job.sites[name]
    command = [
        *(sys.executable, "-m", "understudy", "sites", "join", str(run.job_path.absolute())),
        *("--site", name, "--table", _at(run, str(spec.table)), "--out", str(run.site_folder(name).absolute())),
        *("--server", channel.address, "--ca", str(ca.absolute()), "--key", str(key.absolute())),
        *(("--ledger", _at(run, spec.ledger)) if spec.ledger is not None else ()),
    ]
    with (run.out / "logs" / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command, and no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    try:
        yield process
    except BaseException:
        process.terminate()
        raise
    finally:
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(run: SitesRun, channel: "FlowerChannel", processes: "Mapping[str, subprocess.Popen[bytes]]") -> None:
    """Wait until all sites have joined, or after a while until there are enough."""
    until = time.monotonic() + JOIN_S
    while True:
        try:
            channel.wait_for_sites(LOOK_EVERY_S)
        except ChannelError:
            if time.monotonic() >= until:
                if are_enough(run.inputs, channel):
                    return
                raise
        else:
            return
        for name, process in processes.items():
            if process.poll() is not None:
                said = (run.out / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
                raise SitesError(f"site={name!r} could not take part: {said[-1] if said else 'it said nothing'}")


def _at(run: SitesRun, place: str) -> str:
    """A place of the job, relative ones from the job file's folder."""
    return place if "://" in place else str((run.inputs.home / place).absolute())

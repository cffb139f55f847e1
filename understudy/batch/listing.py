"""The jobs of a batch, named after their files, and what of them cannot run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from synth.errors import BadInput, JobError, MissingExtra
from understudy.inputs import read_inputs
from understudy.job import Job, read_job

SUMMARY_JSON, SUMMARY_CSV = "summary.json", "summary.csv"
OWN = ".batch"
MOST_BYTES = 100
"""Of a name: unfinished work and files that are being written lengthen it, and file systems end at 255."""


@dataclass(frozen=True)
class BatchJob:
    """One job of a batch.

    Attributes:
        name: its file's, without the ending.
        path: absolute, of its file.
        folder: absolute, of the batch.
        spec: what the file says; none where it cannot be read.
        fault: why it cannot be used; empty where it can.
    """

    name: str
    path: Path
    folder: Path
    spec: Job | None
    fault: str = ""

    @property
    def out(self) -> Path:
        """The folder that the job's run is to leave."""
        return self.folder / self.name

    @property
    def log(self) -> Path:
        """What the latest start of the job said."""
        return self.folder / f"{self.name}.log"

    @property
    def mark(self) -> Path:
        """Which table the latest start of the job was to read."""
        return self.folder / OWN / f"{self.name}.json"


def listed(paths: Sequence[Path], folder: Path) -> list[BatchJob]:
    """The jobs of a batch in the order given, a file that is named twice once, each checked with all that it names.

    Neither a row of a table nor a ledger is read.

    Args:
        paths: of job files.
        folder: of the batch.

    Raises:
        JobError: a pattern matched nothing, a name cannot name a folder, or two jobs would share one; nothing was run.
    """
    whole = list(dict.fromkeys(Path(os.path.normpath(path.absolute())) for path in paths))
    for path in whole:
        _check_there(path)
        _check_name(path)
    _check_apart(whole)
    return [_job(path, Path(os.path.normpath(folder.absolute()))) for path in whole]


def _job(path: Path, folder: Path) -> BatchJob:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        return BatchJob(path.stem, path, folder, None, f"the job is no file: path={str(path)!r}; name a TOML file")
    try:
        spec = read_job(path)
    except JobError as error:
        return BatchJob(path.stem, path, folder, None, str(error).rstrip("."))
    return BatchJob(path.stem, path, folder, spec, _fault(path))


def _fault(path: Path) -> str:
    """Why a job that can be read cannot be used; empty where nothing is known to speak against it."""
    try:
        read_inputs(path)
    except (BadInput, MissingExtra) as error:
        return str(error).rstrip(".")
    except Exception:  # noqa: BLE001 - the job's own process meets the same, and tells it without harm to the others
        return ""
    return ""


def _check_there(path: Path) -> None:
    if not path.exists() and any(sign in path.name for sign in "*?["):
        raise JobError(f"no job file is called so: path={str(path)!r}; name files that are there")


def _check_name(path: Path) -> None:
    name = path.stem
    speaks = name and name.isprintable() and name == name.strip() and not name.startswith((".", "-"))
    if not speaks or len(os.fsencode(name)) > MOST_BYTES:
        raise JobError(
            f"a job's file names its output, and path={str(path)!r} cannot; use at most {MOST_BYTES} bytes of "
            "printable characters, without '.' or '-' in front and spaces around"
        )


def _check_apart(paths: Sequence[Path]) -> None:
    """No file of a batch may be another's, on file systems that know no upper case either."""
    taken = dict.fromkeys((SUMMARY_JSON, SUMMARY_CSV), "the batch's own summary")
    for path in paths:
        names = {path.stem.casefold(), f"{path.stem}.log".casefold()}
        for name in sorted(names & taken.keys()):
            raise JobError(
                f"job={str(path)!r} would write {name!r}, as would {taken[name]}; rename the job's file, or give it a "
                "batch of its own"
            )
        taken |= dict.fromkeys(names, f"job={str(path)!r}")

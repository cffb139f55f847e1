"""The output of a run while it is worked on: who may, and what is left when that ends badly."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from synth.errors import OutputError
from synth.output import check_new_folder, is_taken, sole, unwritable
from understudy.work import RESERVATIONS, SPENT, OtherWork, Work, work_folder

PARTS = ".parts"
"""How the hidden folder ends in which `synth.generators.models.unfinished_rows` keeps rows that are being written."""
WORKERS_WAIT_S = 30.0
"""How long a new start waits for the processes of one that was killed."""


def requested(out: Path) -> frozenset[str]:
    """Labels of the generators for which unfinished work of this output may hold a reservation."""
    return frozenset(path.stem for path in (work_folder(out) / RESERVATIONS).glob("[!.]*.json"))


def check_free(out: Path, *, restart: bool = False) -> bool:
    """Refuse an output that is taken, before any work is done, but for one whose run was cut short before it told so.

    Args:
        out: of a run.
        restart: whether the run is to begin anew, so that nothing may be there.

    Returns:
        Whether a run has finished the output, and nobody was told yet.

    Raises:
        OutputError: it exists and is not an empty folder, or its parent is missing or closed to writing.
    """
    if not restart and Work(work_folder(out), out).is_finished:
        return True
    tidy(out)
    check_new_folder(out)
    return False


def tidy(out: Path) -> None:
    """Remove what is left of the work that made an output; unfinished work stays."""
    left = work_folder(out)
    if is_taken(out) and left.is_dir() and not (left / "result").exists():
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def unfinished(out: Path, *, restart: bool = False) -> Iterator[Work]:
    """The work on an output, new or as it was left; when the block ends badly it is kept if that is worth it.

    Args:
        out: the folder that it is to become.
        restart: remove what was left.

    Where a run has finished the output and was cut short before anybody was told, its work is yielded as it is.

    Raises:
        OutputError: another run is at work on this output, or the output is taken; nothing was changed.
    """
    work = Work(work_folder(out), out)
    busy = f"another run is at work on --out {str(out)!r}; wait for it to end, or name another --out"
    with sole(work.folder, busy, lambda error: unwritable(out, error)):
        try:
            wait_for_workers(work.worker_locks, out)
            if not check_free(out, restart=restart):
                if restart:
                    work.clear()
                _sweep(work.folder)
            yield work
        except OtherWork:
            raise
        except BaseException as error:
            if note := _left(work):
                error.add_note(note)
            _forget(work)
            raise
        _forget(work)


def _forget(work: Work) -> None:
    if not work.is_worth_keeping:
        work.forget()


def wait_for_workers(places: Sequence[Path], out: Path) -> None:
    """Wait until the processes of an earlier start have noticed that it is over: they may be about to draw.

    Args:
        places: a lock for each of them; it goes with its process.
        out: what they work on.

    Raises:
        OutputError: one of them is still at work; nothing was changed.
    """
    for place in places:
        try:
            with FileLock(place, timeout=WORKERS_WAIT_S):
                place.unlink()
        except Timeout:
            raise OutputError(
                f"a process of an earlier start is still at work on --out {str(out)!r}; wait for it, or end it"
            ) from None


def _left(work: Work) -> str:
    """What an error leaves, in words; empty for nothing."""
    if work.is_worth_keeping:
        return f"the unfinished work is kept: the same command goes on from there, and with --restart anew ({SPENT})"
    return "the output is whole all the same" if work.is_finished else ""


def _sweep(folder: Path) -> None:
    """Remove what a killed process was still writing: it has a hidden name until it is whole.

    The parts of a synthetic table are taken up again by whoever writes it, and sweeps them itself.
    """
    kept = {path for parts in folder.rglob(f".*{PARTS}") for path in (parts, *parts.rglob("*"))}
    for path in sorted(set(folder.rglob(".*")) - kept, key=lambda p: len(p.parts), reverse=True):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

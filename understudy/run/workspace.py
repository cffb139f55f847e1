"""The workspace of a run: a hidden folder beside the output, which a later start of the same run goes on from.

::

    .NAME.unfinished/
        lock            held by the process at work
        work.json       whose work it is: job, schema, policy, version, output, ledger, the table's keyed fingerprint
        reservations/   one request to the ledger for each private generator, written before it is made
        journals/       noisy values of private fits, written before anything reads them
        training/       checkpoint and log, of each fit under way
        measured/       the evaluation of each finished candidate, and the published numbers
        workers/        a lock for each process that makes candidates
        warnings.json   what came up underway
        result/         becomes the output by one rename

What was paid is kept: requests, noisy values, and what a network was trained to by them. Of a candidate that is not
finished all else is made again, from the same noise. Everything but journals and the lock is written beside and
renamed, so whatever is there is whole. One process at a time works on an output, and waits for workers that an earlier
start left.
"""

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from synth.dp.noise_journal import Journal
from synth.errors import JobError
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside, is_taken, read_state, sync, whole_file
from understudy.budget import SPENT
from understudy.executor import wait_for_workers
from understudy.provenance import now

RESERVATIONS, JOURNALS, TRAINING = "reservations", "journals", "training"
LOG, CLIPPING = "log.jsonl", "clipping.internal.jsonl"
"""Logs of a network in training; the latter is read off real rows."""
MEASURED, WORKERS = "measured", "workers"
_PARTS = (RESERVATIONS, JOURNALS, MEASURED)


class OtherWork(JobError):
    """Unfinished work of another run is in the way; it was left as it is."""


def work_folder(out: Path) -> Path:
    return hidden_beside(out, RUN)


@dataclass(frozen=True)
class RunWorkspace:
    """The folder of one unfinished run, held by this process alone."""

    folder: Path
    out: Path

    @property
    def unfinished(self) -> Unfinished:
        return Unfinished(self.folder, self.out, self.result)

    @property
    def result(self) -> Path:
        return self.folder / "result"

    @property
    def is_worth_keeping(self) -> bool:
        """True where anything was reserved, drawn or trained, or a candidate is finished, and no output is made yet."""
        if not self.unfinished.state or not self.result.exists():
            return False
        kept = (path for part in _PARTS for path in (self.folder / part).glob("*"))
        return any((self.folder / TRAINING).rglob("*.pt")) or any(path.stat().st_size > 0 for path in kept)

    def claim(self, names: Mapping[str, str | None]) -> None:
        """Take up the work if it goes by these names, or if nothing in it is worth keeping."""
        known = self.unfinished.state
        other = [what for what in names if what in known and known[what] != names[what]]
        if other and self.is_worth_keeping:
            raise OtherWork(
                f"unfinished work stands in the way of --out {str(self.out)!r}, and it is of another "
                f"{' and another '.join(other)}; finish that with what it was begun with, name another --out, or add "
                f"--restart, which removes it ({SPENT})"
            )
        if other or not known:
            self.unfinished.clear()
            known |= {"attempt": secrets.token_hex(8), "began": now()}  # what this start has claimed before stays
        for part in (*_PARTS, WORKERS, "result/synthetic", "result/models"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.unfinished.write_state({**known, **names})

    def request(self, label: str) -> dict[str, Any] | None:
        content: dict[str, Any] | None = read_state(self.folder / RESERVATIONS / f"{label}.json", None)
        return content

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep what will be asked of the ledger for a generator; it is on the disk when this returns."""
        self._write(f"{RESERVATIONS}/{label}.json", content)

    def forget_request(self, label: str) -> None:
        (self.folder / RESERVATIONS / f"{label}.json").unlink(missing_ok=True)

    def journal(self, label: str) -> Journal:
        """The noisy values of a generator's fit, new or as an earlier start left them."""
        return Journal(self._journal(label))

    def forget_journal(self, label: str) -> None:
        """Drop a journal without a value, and what was trained on none."""
        shutil.rmtree(self.training(label), ignore_errors=True)
        self._journal(label).unlink(missing_ok=True)
        sync(self.folder / JOURNALS)

    def training(self, label: str) -> Path:
        return self.folder / TRAINING / label

    def keep_log(self, label: str) -> None:
        """Make the log of a training part of the result."""
        for log in self.training(label).rglob(LOG):
            kept = self.result / TRAINING / log.parent.relative_to(self.training(label)) / f"{label}.jsonl"
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, kept)

    def expect_clipping(self, label: str) -> None:
        """Have a training by DP-SGD note how many units it clips; what an earlier start noted stays."""
        self.training(label).mkdir(parents=True, exist_ok=True)
        (self.training(label) / CLIPPING).touch()

    def clipped(self, label: str) -> tuple[int, int] | None:
        """*Sensitive*. Units whose gradient a training clipped, and those sampled; `None` where it is no DP-SGD."""
        notes = [path.read_text(encoding="utf-8") for path in self.training(label).rglob(CLIPPING)]
        lines = [json.loads(line) for note in notes for line in note.splitlines()]
        return (sum(line["clipped"] for line in lines), sum(line["units"] for line in lines)) if lines else None

    def measured(self, label: str) -> Path:
        """The file of a candidate's evaluation, or of the published numbers."""
        return self.folder / MEASURED / f"{label}.json"

    def begin(self, label: str, table: Path) -> None:
        """Remove what an earlier start left of a candidate, but for what was drawn and trained."""
        for path in (self.model(label), table):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def model(self, label: str) -> Path:
        return self.result / "models" / label

    def is_drawn(self, label: str) -> bool:
        """True where a noisy value of a release is on the disk, or what was made of all of them."""
        if self.measured(label).exists() or not self._journal(label).exists():
            return self.measured(label).exists()
        journal = self.journal(label)
        journal.close()
        return journal.n_persisted > 0

    @property
    def attempt(self) -> str:
        """The identifier of this work, however often it is taken up again."""
        return str(self.unfinished.state["attempt"])

    @property
    def began_at(self) -> str:
        """The time of the first start, in UTC as ISO 8601 has it: its evidence is no younger."""
        return str(self.unfinished.state["began"])

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(read_state(self.folder / "warnings.json", []))

    def add_warnings(self, sentences: Sequence[str]) -> None:
        """Keep what came up; a sentence that is known is not repeated."""
        if not set(sentences) - set(self.warnings):
            return
        with FileLock(self.folder / "warnings.lock"):
            self._write("warnings.json", list(dict.fromkeys((*self.warnings, *sentences))))

    def finish(self) -> None:
        check_new_folder(self.out)
        self.unfinished.publish()

    def _journal(self, label: str) -> Path:
        return self.folder / JOURNALS / f"{label}.journal"

    def _write(self, name: str, content: Any) -> None:
        with whole_file(self.folder / name) as beside:
            beside.write_text(json.dumps(content), encoding="utf-8")


def requested(out: Path) -> frozenset[str]:
    """Labels of the generators for which unfinished work of this output may hold a reservation."""
    return frozenset(path.stem for path in (work_folder(out) / RESERVATIONS).glob("[!.]*.json"))


def tidy(out: Path) -> None:
    """Remove what is left of the work that made an output; unfinished work stays."""
    left = work_folder(out)
    if is_taken(out) and left.is_dir() and not (left / "result").exists():
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def unfinished(out: Path, *, restart: bool = False) -> Iterator[RunWorkspace]:
    """The work on an output, new or as it was left; when the block ends badly it is kept if that is worth it."""
    work = RunWorkspace(work_folder(out), out)
    busy = f"another run is at work on --out {str(out)!r}; wait for it to end, or name another --out"
    with work.unfinished.held(busy):
        try:
            wait_for_workers(work.folder / WORKERS, out)
            tidy(out)
            check_new_folder(out)
            if restart or not work.result.exists():  # what is left of work whose output was moved away
                work.unfinished.clear()
            _sweep(work.folder)
            yield work
        except OtherWork:
            raise
        except BaseException as error:
            if work.is_worth_keeping:
                on = "the same command goes on from there"
                error.add_note(f"the unfinished work is kept: {on}, and with --restart anew ({SPENT})")
            else:
                work.unfinished.discard()
            raise
        work.unfinished.discard()


def _sweep(folder: Path) -> None:
    """Remove what a killed process was still writing: it has a hidden name until it is whole."""
    for path in sorted(folder.rglob(".*"), key=lambda p: len(p.parts), reverse=True):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

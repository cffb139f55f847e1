"""The workspace of a run: a hidden folder beside the output, which a later start of the same run goes on from.

::

    .NAME.unfinished/
        lock            held by the process at work
        work.json       whose work it is: job, schema, policy, version, output, ledger, the table's keyed fingerprint
        reservations/   one request to the ledger for each private generator, written before it is made
        journals/       noisy values of private fits, written before anything reads them
        training/       unfinished columns or checkpoint, and log, of each fit under way
        stages/         what is known of each candidate's finished stages
        measured/       the evaluation of each finished candidate
        workers/        a lock for each process that makes candidates
        warnings.json   what came up underway
        result/         becomes the output by one rename

Everything but journals and the lock is written beside and renamed, so whatever is there is whole. How such a folder is
held, resumed, published and discarded, `synth.output.Unfinished` says. One process at a time works on an output, waits
for workers that an earlier start left, and tidies up when a run ends badly.
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
from synth.output import (
    ROWS,
    RUN,
    Unfinished,
    check_new_folder,
    hidden_beside,
    is_taken,
    read_state,
    sync,
    sync_all,
    whole_file,
)
from understudy.budget.payment import SPENT
from understudy.executors.executor import wait_for_workers
from understudy.provenance import now

RESERVATIONS, JOURNALS, STAGES, TRAINING = "reservations", "journals", "stages", "training"
LOG, CLIPPING = "log.jsonl", "clipping.internal.jsonl"
"""Logs of a network in training; the latter is read off real rows."""
MEASURED, WORKERS = "measured", "workers"


class OtherWork(JobError):
    """Unfinished work of another run is in the way; it was left as it is."""


def work_folder(out: Path) -> Path:
    """The hidden folder of an output's unfinished work."""
    return hidden_beside(out, RUN)


@dataclass(frozen=True)
class RunWorkspace:
    """The folder of one unfinished run, held by this process alone."""

    folder: Path
    out: Path

    @property
    def unfinished(self) -> Unfinished:
        """The folder as work that is held, resumed, published and discarded."""
        return Unfinished(self.folder, self.out, self.result)

    @property
    def result(self) -> Path:
        """The folder that becomes the output."""
        return self.folder / "result"

    @property
    def is_worth_keeping(self) -> bool:
        """True where anything was reserved, drawn or trained, or a fit is finished, and the output is not made yet."""
        has_name = bool(self.unfinished.state) and self.result.exists()
        trained = any((self.folder / TRAINING).rglob("*.pt"))
        return has_name and (
            trained or any(p.stat().st_size > 0 for part in _PARTS for p in (self.folder / part).glob("*"))
        )

    @property
    def is_finished(self) -> bool:
        """True where the result has become the output."""
        return self.unfinished.is_finished

    def claim(self, names: Mapping[str, str | None]) -> None:
        """Take up the work if it goes by these names, or if nothing in it is worth keeping."""
        known = self.unfinished.state
        other = [what for what in names if what in known and known[what] != names[what]]
        if other and self.is_finished:
            raise OtherWork(
                f"an output folder must be new: {str(self.out)!r} exists, and is of another "
                f"{' and another '.join(other)}; name another or remove it"
            )
        if self.is_finished:
            return
        if other and self.is_worth_keeping:
            raise OtherWork(
                f"unfinished work stands in the way of --out {str(self.out)!r}, and it is of another "
                f"{' and another '.join(other)}; finish that with what it was begun with, name another --out, or add "
                f"--restart, which removes it ({SPENT})"
            )
        if other or not known:
            self.unfinished.clear()
        for part in (*_PARTS, MEASURED, WORKERS, "result/synthetic", "result/models"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.unfinished.write_state({**known, **names})

    def request(self, label: str) -> dict[str, Any] | None:
        """The request to the ledger for a generator; `None` before there is one."""
        found: dict[str, Any] | None = self._read(f"{RESERVATIONS}/{label}.json", None)
        return found

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep what will be asked of the ledger for a generator; it is on the disk when this returns."""
        self._write(f"{RESERVATIONS}/{label}.json", content)

    def forget_request(self, label: str) -> None:
        """Drop a request that the ledger did not grant."""
        (self.folder / RESERVATIONS / f"{label}.json").unlink(missing_ok=True)

    def journal(self, label: str) -> Journal:
        """The noisy values of a generator's fit, new or as an earlier start left them."""
        return Journal(self._journal(label))

    def _has_values(self, label: str) -> bool:
        if not self._journal(label).exists():
            return False
        journal = self.journal(label)
        journal.close()
        return journal.n_persisted > 0

    def forget_journal(self, label: str) -> None:
        """Drop a journal without a value, and what was trained on none."""
        shutil.rmtree(self.training(label), ignore_errors=True)
        self._journal(label).unlink(missing_ok=True)
        sync(self.folder / JOURNALS)

    def training(self, label: str) -> Path:
        """The folder of a fit's unfinished work and its log."""
        return self.folder / TRAINING / label

    def keep_log(self, label: str) -> None:
        """Make the log of a finished training part of the result."""
        for log in self.training(label).rglob(LOG):
            kept = self.result / TRAINING / log.parent.relative_to(self.training(label)) / f"{label}.jsonl"
            kept.parent.mkdir(parents=True, exist_ok=True)
            log.replace(kept)

    def expect_clipping(self, label: str) -> None:
        """Have a training by DP-SGD note how many units it clips; what an earlier start noted stays."""
        self.training(label).mkdir(parents=True, exist_ok=True)
        (self.training(label) / CLIPPING).touch()

    def clipped(self, label: str) -> tuple[int, int] | None:
        """*Sensitive*. Units whose gradient a training clipped, and those sampled; `None` where it is no DP-SGD."""
        notes = [path.read_text(encoding="utf-8") for path in self.training(label).rglob(CLIPPING)]
        lines = [json.loads(line) for note in notes for line in note.splitlines()]
        return (sum(line["clipped"] for line in lines), sum(line["units"] for line in lines)) if lines else None

    def forget_training(self, label: str) -> None:
        """Drop the checkpoint of a training whose model is saved."""
        shutil.rmtree(self.training(label), ignore_errors=True)

    def stage(self, label: str) -> dict[str, Any]:
        """The facts of a generator's finished stages; empty before the first."""
        found: dict[str, Any] = self._read(f"{STAGES}/{label}.json", {})
        return found

    def write_stage(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep what is known of a generator's finished stages."""
        self._write(f"{STAGES}/{label}.json", content)

    def measured(self, label: str) -> Path:
        """The file of a candidate's evaluation."""
        return self.folder / MEASURED / f"{label}.json"

    @property
    def workers(self) -> Path:
        """The folder of locks: each process that makes candidates holds one as long as it lives."""
        return self.folder / WORKERS

    def model(self, label: str) -> Path:
        """The folder of a generator's model."""
        return self.result / "models" / label

    def is_drawn(self, label: str) -> bool:
        """True where a noisy value of a fit is on the disk, or all that is made of them: its model or its table."""
        return self.model(label).is_dir() or "statement" in self.stage(label) or self._has_values(label)

    @property
    def attempt(self) -> str:
        """The identifier of this work, however often it is taken up again."""
        known: str | None = self._read("attempt.json", None)
        if known is None:
            known = secrets.token_hex(8)
            self._write("attempt.json", known)
        return known

    @property
    def began_at(self) -> str:
        """The time of the first start, in UTC as ISO 8601 has it: its evidence is no younger."""
        known: str | None = self._read("began.json", None)
        if known is None:
            known = now()
            self._write("began.json", known)
        return known

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all starts of this work."""
        return tuple(self._read("warnings.json", []))

    def add_warnings(self, sentences: Sequence[str]) -> None:
        """Keep what came up; a sentence that is known is not repeated."""
        if not set(sentences) - set(self.warnings):
            return
        with FileLock(self.folder / "warnings.lock"):
            self._write("warnings.json", list(dict.fromkeys((*self.warnings, *sentences))))

    def finish(self) -> None:
        """Turn the result into the output; whose it is stays known until the folder is discarded."""
        check_new_folder(self.out)
        sync_all(self.result)
        # Every model is saved by now: noisy values are of no more use, and would only be lying about.
        shutil.rmtree(self.folder / JOURNALS)
        self.unfinished.publish()

    def _journal(self, label: str) -> Path:
        return self.folder / JOURNALS / f"{label}.journal"

    def _read(self, name: str, otherwise: Any) -> Any:
        return read_state(self.folder / name, otherwise)

    def _write(self, name: str, content: Any) -> None:
        with whole_file(self.folder / name) as beside:
            beside.write_text(json.dumps(content), encoding="utf-8")


_PARTS = (RESERVATIONS, JOURNALS, STAGES)


def requested(out: Path) -> frozenset[str]:
    """Labels of the generators for which unfinished work of this output may hold a reservation."""
    return frozenset(path.stem for path in (work_folder(out) / RESERVATIONS).glob("[!.]*.json"))


def check_free(out: Path, *, restart: bool = False) -> bool:
    """Refuse an output that is taken, before any work, but for one whose run was cut short before it told so."""
    if not restart and RunWorkspace(work_folder(out), out).is_finished:
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
def unfinished(out: Path, *, restart: bool = False) -> Iterator[RunWorkspace]:
    """The work on an output, new or as it was left; when the block ends badly it is kept if that is worth it.

    Where a run has finished the output and was cut short before anybody was told, its work is yielded as it is.
    """
    work = RunWorkspace(work_folder(out), out)
    busy = f"another run is at work on --out {str(out)!r}; wait for it to end, or name another --out"
    with work.unfinished.held(busy):
        try:
            wait_for_workers(work.workers, out)
            if not check_free(out, restart=restart):
                if restart:
                    work.unfinished.clear()
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


def _forget(work: RunWorkspace) -> None:
    if not work.is_worth_keeping:
        work.unfinished.discard()


def _left(work: RunWorkspace) -> str:
    """The remains of a run that ends in an error, in words; empty for none."""
    if work.is_worth_keeping:
        return f"the unfinished work is kept: the same command goes on from there, and with --restart anew ({SPENT})"
    return "the output is whole all the same" if work.is_finished else ""


def _sweep(folder: Path) -> None:
    """Remove what a killed process was still writing: it has a hidden name until it is whole.

    The parts of a synthetic table are taken up again by whoever writes it, and sweeps them itself.
    """
    kept = {path for parts in folder.rglob(f".*{ROWS}") for path in (parts, *parts.rglob("*"))}
    for path in sorted(set(folder.rglob(".*")) - kept, key=lambda p: len(p.parts), reverse=True):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

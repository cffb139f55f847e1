"""The outputs in a folder, read for an index: what each says of its tables, once it is certain that it is as sealed.

A verdict is the recorded one. It is read from an output whose files are all as they were sealed, and is not judged
again. Whatever is damaged, withdrawn, over, unfinished or failed is a row of its own that says so, and never a PASS.
A batch's summary and an evaluation that lies by itself are not sealed: neither of them gives a verdict.
Links to folders are not followed, and hidden folders are not looked into, but for unfinished work.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evaluate.gate.checks import BROKEN
from evaluate.gate.claim import Composition
from evaluate.result import NOTICE, Candidate, Evaluation, EvaluationError
from evaluate.result_io import evaluation_from
from reports.glossary import entry
from reports.index import (
    EXPIRED,
    FIGURES,
    MARK,
    NO_OUTPUT,
    NOT_JUDGED,
    NOT_SOUND,
    SIGNED_OFF,
    UNFINISHED,
    VERDICTS,
    WITHDRAWN,
    Claimed,
    Index,
    IndexRow,
    Links,
    render_index,
)
from reports.model_card.privacy import standing_of
from synth.errors import JobError, OutputError, UnderstudyError
from synth.output import MAKING, RUN, check_writable, whole_file
from synth.progress import Progress, quiet
from understudy.artifacts import EVALUATION, JUNIT, REPORT
from understudy.batch.jobs import OWN, SUMMARY_JSON
from understudy.batch.result import (
    BAD,
    CRASHED,
    KILLED,
    NO_VERDICT,
    NOT_STARTED,
    deciding,
    read_content,
    rests_on_expired_waiver,
)
from understudy.bundle.documents import is_there
from understudy.bundle.files import read_plain
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON, Manifest
from understudy.bundle.records import Withdrawal
from understudy.bundle.verification import (
    NO_REGISTER,
    SUFFIXES,
    UNSIGNED,
    VERDICT,
    Demand,
    Verification,
    verdict_content,
    verify,
)
from understudy.executors.executor import CUT, TIMED_OUT
from understudy.run.released_numbers import REPORT as REPORT_TO_HAND_ON

FILE = "index.html"
HEAD_BYTES, LIMIT_BYTES = 4096, 256 << 20
"""Of a file, to see what it is; of an evaluation."""
BEGIN = re.compile(rb'\s*\{\s*"schema_version"')
ENDED = {"withdrawn": WITHDRAWN, "expired": EXPIRED}
"""Problems of evidence that is whole, and may not be relied on any more."""
AT_WORK = "It is at work, or was cut short: the same command goes on from there."
NOT_SEALED = f"It holds no {MANIFEST}, so that nobody can say whether it is as it was made."
ONLY_TO_HAND_ON = "A folder to hand on: its verdict is in the internal output that it was taken from."
ALONE = f"It lies by itself: no {MANIFEST} vouches for it, and no verdict is recorded with it."
GONE = f"and neither {VERDICT} nor {MANIFEST} is there: its seal and verdicts are gone"
UNANSWERED = frozenset({BAD, CRASHED, NOT_STARTED, TIMED_OUT, CUT})
"""States of a job in a batch's summary that left no verdict; a kill has its signal's number, too."""
FINISHED = frozenset({*VERDICTS, NO_VERDICT})
"""States of a job in a batch's summary that left an output."""
UNREADABLE = "The system refuses to open it."
Reader = Callable[[Path, str, Path, Demand], list[IndexRow]]
"""The rows of one output: from its path, its name, the path of the page, and what must hold of a bundle."""
OTHER_VERDICTS = f"{VERDICT} and {MANIFEST} do not tell of the same verdicts."


def read_index(folder: Path, page: Path, demand: Demand, progress: Progress = quiet) -> Index:
    """Every output in a folder and below."""
    if not folder.is_dir():
        raise JobError(f"there is no folder to index: path={str(folder)!r}; name one that holds outputs")
    found, rows = list(_outputs(folder)), []
    for done, (path, read) in enumerate(found):
        progress(path.name, done / len(found))
        name = path.relative_to(folder).as_posix()
        rows += read(path, folder.resolve().name if name == "." else name, page, demand)
    rows = _with_batches(folder, rows)
    if not rows:
        raise JobError(
            f"no output is in folder={str(folder)!r}; name one that `understudy run`, `batch`, `try`, `compare` or "
            "`evaluate` wrote into"
        )
    rows.sort(key=lambda row: (row.output, not row.released))
    return Index(folder.resolve().name, tuple(rows), datetime.now(UTC), _notes(demand, rows, folder))


def check_page(page: Path) -> None:
    """Refuse a path for the page, before any work is done."""
    check_writable(page)
    for parent in page.absolute().parents:
        if is_there(parent / MANIFEST):
            raise OutputError(
                f"a sealed output takes no further file: --out {str(page)!r} lies in one; name a file elsewhere"
            )
    if page.is_symlink() or (page.exists() and MARK.encode() not in _head(page)):
        raise OutputError(f"an index replaces no other file: {str(page)!r} is none; name another")


def write_index(index: Index, page: Path) -> None:
    """Write the page, whole or not at all."""
    check_page(page)
    text = render_index(index)
    with whole_file(page) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def _head(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe would be waited for
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _notes(demand: Demand, rows: Iterable[IndexRow], folder: Path) -> tuple[str, ...]:
    """Notes on what was not asked of the outputs, and on what was not looked into."""
    notes = []
    links = sum((Path(at) / name).is_symlink() for at, folders, _ in os.walk(folder) for name in folders)
    if links:
        notes.append(f"{links} link{'s' if links > 1 else ''} to folders, not followed: what lies there is not here.")
    if not demand.keys and any(row.is_measured for row in rows):
        notes.append("No key was asked for: whoever changes an output on purpose can seal it anew.")
    if demand.register is None:
        notes.append("No register of withdrawals was asked: a copy from before a withdrawal does not know of it.")
    return tuple(notes)


def _outputs(folder: Path) -> Iterator[tuple[Path, Reader]]:
    """The path of everything that is a row or more, in order, each with its reader."""
    refused: list[OSError] = []
    for at, folders, files in os.walk(folder, onerror=refused.append):
        here = Path(at)
        sealed = any(f"{name}{suffix}" in files for name in (MANIFEST, VERDICT) for suffix in SUFFIXES)
        if sealed:
            yield here, _of_bundle
        for name in sorted(files):
            if not sealed and name.endswith(".json") and _is_evaluation(here / name):
                yield here / name, _of_evaluation
        hidden = sorted(name for name in folders if name.startswith("."))
        for name in hidden:
            if name.endswith((RUN, MAKING)) and not _is_made(here, name):
                yield here / name, _unfinished
        folders[:] = sorted(name for name in folders if name not in hidden and not (sealed and name == TO_HAND_ON))
    for error in refused:
        yield Path(error.filename), lambda path, name, page, demand: [IndexRow(name, NOT_SOUND, UNREADABLE)]


def _is_evaluation(path: Path) -> bool:
    """True for a file that goes by the name of an evaluation, or begins like one."""
    head = _head(path)
    return path.name == EVALUATION or (BEGIN.match(head) is not None and NOTICE.encode() in head)


def _is_made(parent: Path, hidden: str) -> bool:
    """True where an output of this name has appeared, and only its hidden folder is left."""
    return is_there(parent / _shown(hidden))


def _shown(hidden: str) -> str:
    """The output's name, as far as a hidden folder's name tells it.

    >>> _shown(".fair.unfinished")
    'fair'
    """
    return hidden.removeprefix(".").removesuffix(RUN).removesuffix(MAKING)


def _unfinished(path: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    return [IndexRow(_shown_in(name), UNFINISHED, AT_WORK)]


def _shown_in(name: str) -> str:
    parent, slash, last = name.rpartition("/")
    return f"{parent}{slash}{_shown(last)}"


def _of_evaluation(path: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    """The tables of an evaluation that lies by itself."""
    row = IndexRow(name, NOT_JUDGED, ALONE, links=Links(evaluation=_link(path, page)))
    try:
        evaluation = _read(path)
        lost = _lost(path, evaluation)
        return [IndexRow(name, NOT_SOUND, lost)] if lost else _measured_rows(row, evaluation, [])
    except UnderstudyError as error:
        return [IndexRow(name, NOT_SOUND, _sentence(str(error)))]


def _lost(path: Path, evaluation: Evaluation) -> str:
    """A sentence on an output that an evaluation is left of; empty where it may have lain by itself from the start.

    `understudy evaluate` writes one file. It has a run's identity, too, but no split, job or policy, and no ranking.
    """
    known = evaluation.provenance
    if known.split or known.job_sha256 or known.policy_sha256 or known.sweep or evaluation.ranking is not None:
        return _sentence(f"A job or a comparison made it, {GONE}")
    beside = next((name for name in (JUNIT, REPORT) if is_there(path.parent / name)), None)
    if path.name != EVALUATION or beside is None:
        return ""
    return _sentence(f"{beside} lies beside it, as in an output, {GONE}; keep one that never had them apart")


def _read(path: Path) -> Evaluation:
    """The evaluation in a plain file."""
    try:
        return evaluation_from(read_plain(path, LIMIT_BYTES).decode("utf-8"))
    except UnicodeDecodeError:
        raise EvaluationError(f"{path.name} is no text in UTF-8; evaluate again") from None


def _of_bundle(folder: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    """The tables of a sealed output; one row where it is not as it was sealed."""
    try:
        found = verify(folder, demand)
    except UnderstudyError:
        return [IndexRow(name, NOT_SOUND, NOT_SEALED)]
    faults = [problem.sentence for problem in found.problems if problem.kind not in ENDED]
    if found.manifest is None or faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return [IndexRow(name, NOT_SOUND, f"{faults[0].rstrip('.')}{more}.", notes=_told(found))]
    base = _base(name, folder, page, found, found.manifest)
    base = replace(base, sign_off=_sign_off(found, demand), notes=_told(found))
    if found.manifest.about.kind == "to-hand-on":
        return _ended([replace(base, reason=ONLY_TO_HAND_ON)], found, demand)
    try:
        judged = _judged(base, verdict_content(folder), found.manifest, demand)
    except (UnderstudyError, AttributeError, KeyError, TypeError, ValueError):
        return [replace(base, state=NOT_SOUND, reason=OTHER_VERDICTS)]
    try:
        return _ended(_measured_rows(base, _read(folder / EVALUATION), judged), found, demand)
    except UnderstudyError as error:  # of another version: its verdicts count all the same
        unread = [replace(row, reason=row.reason or f"No figures: {_sentence(str(error))}") for row in judged or [base]]
        return _ended(unread, found, demand)


def _base(name: str, folder: Path, page: Path, found: Verification, manifest: Manifest) -> IndexRow:
    """The row that all tables of an output have in common."""
    public = folder if manifest.about.kind == "to-hand-on" else folder / TO_HAND_ON
    links = (folder / REPORT, public / REPORT_TO_HAND_ON, folder / EVALUATION)
    return IndexRow(
        name,
        NOT_JUDGED,
        title=manifest.about.title,
        day=manifest.about.made_at[:10],
        links=Links(*(_link(path, page) if path.is_file() else "" for path in links)),
        is_sealed=True,
    )


def _told(found: Verification) -> tuple[str, ...]:
    """Notes of the verification, without those that the page has once for all."""
    return tuple(_sentence(note) for note in found.notes if note not in (NO_REGISTER, UNSIGNED))


def _sign_off(found: Verification, demand: Demand) -> str:
    """The sign-off in words: anybody can write one, so that it counts by a key that was named."""
    if found.sign_off is None:
        return ""
    if found.sign_off.signer is None:
        return "sign-off, unsigned"
    named = found.sign_off.signer in (demand.sign_off_keys or demand.keys)
    return SIGNED_OFF if named else "sign-off by an unknown key"


def _judged(base: IndexRow, verdicts: Mapping[str, Any], manifest: Manifest, demand: Demand) -> list[IndexRow]:
    """A row for each recorded verdict."""
    rows = []
    for one in verdicts["candidates"]:
        outcome, name = one["verdict"], one["candidate"]
        if outcome not in VERDICTS or manifest.about.verdicts.get(name) != outcome:
            raise ValueError(name)
        released = name == verdicts["release"]
        row = replace(
            base, state=outcome, table=name, reason=_reason(one), released=released,
            policy=f"{one['policy']} {one['version']}", audience=one["audience"],
            sign_off=base.sign_off if released else "",
        )  # fmt: skip
        if rests_on_expired_waiver(one, demand.today):
            row = _barred(row, EXPIRED, f"it was {outcome} by a waiver that has expired")
        if not released:  # the folder to hand on is the released table's
            row = replace(row, links=replace(row.links, to_hand_on=""))
        rows.append(row)
    return rows


def _reason(judged: Mapping[str, Any]) -> str:
    """The rule that decided, in the glossary's words, as a few words."""
    if judged["verdict"] == "PASS":
        return ""
    found = deciding(judged, judged["verdict"])
    if not found:
        broken = any(check["outcome"] == BROKEN for check in judged["checks"])
        return "A self-test did not come out" if broken else "No rule of the policy counts"
    rule = found[0]["rule"]
    subject = f" of {', '.join(rule['subject'])}" if rule["subject"] else ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{entry(rule['measure']).title}{subject}{more}"


def _measured_rows(base: IndexRow, evaluation: Evaluation, judged: Sequence[IndexRow]) -> list[IndexRow]:
    """Rows with what was measured: every judged table, then tables without a verdict."""
    of = {row.table: row for row in judged}
    known = evaluation.provenance
    day = (known.evaluated_at or "")[:10] or base.day
    base = replace(base, title=known.job or base.title, day=day, links=replace(base.links, to_hand_on=""), sign_off="")
    rows = []
    for candidate in evaluation.candidates:
        row = of.pop(candidate.name, replace(base, table=candidate.name))
        row = row if row.state == EXPIRED else _measured(row, evaluation, candidate)
        rows.append(replace(row, title=base.title, day=day))
    vendors = () if evaluation.ranking is None else evaluation.ranking.vendors
    left = {row.table for row in rows}
    missing = [replace(base, table=one.name, reason=_sentence(one.reason)) for one in vendors if one.name not in left]
    return [*rows, *of.values(), *missing]


def _measured(row: IndexRow, evaluation: Evaluation, candidate: Candidate) -> IndexRow:
    """The row of a table with its generator, its claim and its figures."""
    claims = Composition.of(evaluation).claims(candidate)
    counted = None if claims is None else claims.counted
    claimed = None
    if claims is not None and counted is not None and candidate.statement is not None:
        claimed = Claimed(counted.epsilon, counted.delta, standing_of(evaluation, candidate, claims))
    generator = "" if candidate.generator is None else candidate.generator.name
    if evaluation.ranking is not None:
        generator = candidate.name
    figures = {name: one for name in FIGURES if (one := candidate.find(name)) is not None}
    return replace(row, generator=generator, claimed=claimed, figures=figures, is_measured=True)


def _ended(rows: list[IndexRow], found: Verification, demand: Demand) -> list[IndexRow]:
    """The rows; of evidence that may not be relied on any more, they say that, and no verdict."""
    doubted = next(_unbelieved(found, demand), None)
    if doubted is not None:
        why = (
            f"a withdrawal in the register is {doubted.signed_by}, which is neither the key of {MANIFEST} nor one that "
            f"was named: {doubted.sentence}; ask whoever sealed the output, or name that key with --sign-off-key"
        )
        return [_barred(replace(row, notes=()), NOT_SOUND, why) for row in rows]
    for kind, state in ENDED.items():
        said = next((problem.sentence for problem in found.problems if problem.kind == kind), None)
        if said is not None:
            return [_barred(row, state, said) for row in rows]
    return rows


def _unbelieved(found: Verification, demand: Demand) -> Iterator[Withdrawal]:
    """Withdrawals in the register that count for nobody who was named: too many doubts do less harm than one missed."""
    for one in (found, found.public):
        if one is not None and one.withdrawal is None:
            yield from (demand.register or {}).get(one.sha256, ())


def _barred(row: IndexRow, state: str, why: str) -> IndexRow:
    """A row of evidence that may not be relied on any more: without figures, and with the reason in their place."""
    return replace(row, state=state, reason=_sentence(why), claimed=None, figures={}, is_measured=False, sign_off="")


def _with_batches(folder: Path, rows: Sequence[IndexRow]) -> list[IndexRow]:
    """The rows, with a note where a batch's summary says something else, and the jobs that left no output."""
    jobs: dict[str, IndexRow] = {}
    said: dict[str, str] = {}
    for at, folders, files in os.walk(folder):
        here = Path(at)
        prefix = "" if here == folder else f"{here.relative_to(folder).as_posix()}/"
        if OWN in folders:
            for path in sorted((here / OWN).glob("*.json")):
                name = f"{prefix}{path.stem}"
                jobs[name] = IndexRow(name, NO_OUTPUT, f"A batch began it, and no output is left; see {name}.log.")
        if SUMMARY_JSON in files and (here / SUMMARY_JSON).is_file():  # a pipe would be waited for
            for job, state, error in _summed_up(here / SUMMARY_JSON):
                name, said[f"{prefix}{job}"] = f"{prefix}{job}", state
                shown = state.upper() if _is_unanswered(state) else NO_OUTPUT
                jobs[name] = IndexRow(name, shown, _sentence(error) or "Its output is not there any more.")
        folders[:] = [name for name in folders if not name.startswith(".")]
    by_output: dict[str, list[IndexRow]] = {}
    for row in rows:
        by_output.setdefault(row.output, []).append(row)
    found = [row for name, row in jobs.items() if name not in by_output]
    for name, tables in by_output.items():
        found += _compared(tables, said[name]) if name in said else tables
    return found


def _summed_up(path: Path) -> Iterator[tuple[str, str, str]]:
    """The name, the state and the error of each job in the summary of a batch."""
    jobs = (read_content(path) or {}).get("jobs")
    for job in jobs if isinstance(jobs, list) else ():
        if isinstance(job, dict) and isinstance(job.get("job"), str) and isinstance(job.get("state"), str):
            error = job.get("error")
            yield job["job"], job["state"], error if isinstance(error, str) else ""


def _is_unanswered(state: str) -> bool:
    """True for a state of a batch's job without a verdict, exactly as a batch writes it.

    >>> _is_unanswered("killed by signal 9"), _is_unanswered("Pass")
    (True, False)
    """
    return state in UNANSWERED or re.fullmatch(rf"{KILLED} [0-9]{{1,3}}", state) is not None


def _compared(tables: Sequence[IndexRow], said: str) -> list[IndexRow]:
    """The rows of an output, with a note where the summary of its batch says something else of it."""
    first = next((row for row in tables if row.released), tables[0])
    if first.state in (UNFINISHED, NOT_JUDGED, *VERDICTS):
        recorded = first.state if first.released or first.state == UNFINISHED else NO_VERDICT
        agrees = said == recorded
    else:  # it may not be relied on, which says more than that its job was done
        agrees = said in FINISHED
    if agrees:
        return list(tables)
    known = said if said in FINISHED or _is_unanswered(said) else "something that no batch says"
    note = f"The summary of its batch, which is not sealed, says of this job: {known}."
    return [replace(row, notes=(*row.notes, note)) if row.released or not first.released else row for row in tables]


def _link(path: Path, page: Path) -> str:
    """A link from the page to a file; no name can be taken for a scheme or a host."""
    relative = os.path.relpath(path.absolute(), page.absolute().parent).replace(os.sep, "/")
    return quote(os.fsencode(relative))


def _sentence(text: str) -> str:
    """A sentence with its full stop; it may begin with a file's name, which has no capital.

    >>> _sentence("report.html was changed")
    'report.html was changed.'
    """
    said = text.strip().rstrip(".")
    return f"{said}." if said else ""

"""The outputs in a folder, read for an index: what each says of its tables, once it is certain that it is as sealed.

A verdict is the recorded one. It is read from an output whose files are all as they were sealed, and is not judged
again. Whatever is damaged, withdrawn, over, unfinished or failed is a row of its own that says so, and never a PASS.
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
from understudy.artifacts import EVALUATION, REPORT
from understudy.batch.jobs import OWN, SUMMARY_JSON
from understudy.batch.result import deciding, read_content, rests_on_expired_waiver
from understudy.bundle.documents import is_there
from understudy.bundle.files import read_plain
from understudy.bundle.manifest import MANIFEST, PUBLIC, Manifest
from understudy.bundle.verification import SUFFIXES, VERDICT, Demand, Verification, verdict_content, verify
from understudy.run.public_report import REPORT as PUBLIC_REPORT

FILE = "index.html"
HEAD_BYTES, LIMIT_BYTES = 4096, 256 << 20
"""Of a file, to see what it is; of an evaluation."""
BEGIN = re.compile(rb'\s*\{\s*"schema_version"')
ENDED = {"withdrawn": WITHDRAWN, "expired": EXPIRED}
"""Problems of evidence that is whole, and may not be relied on any more."""
AT_WORK = "It is at work, or was cut short: the same command goes on from there."
NOT_SEALED = f"It holds no {MANIFEST}, so that nobody can say whether it is as it was made."
PUBLIC_ONLY = "A public folder: its verdict is in the internal output that it was taken from."
ALONE = "No policy was applied."
UNREADABLE = "The system refuses to open it."
Reader = Callable[[Path, str, Path, Demand], list[IndexRow]]
"""The rows of one output: from its path, its name, the path of the page, and what must hold of a bundle."""
OTHER_VERDICTS = f"{VERDICT} and {MANIFEST} do not tell of the same verdicts."


def read_index(folder: Path, page: Path, demand: Demand, progress: Progress = quiet) -> Index:
    """Every output in a folder and below.

    Args:
        folder: to look into.
        page: its path; links start from there.
        demand: what must hold of a bundle.
        progress: told which output is read.

    Raises:
        JobError: there is no such folder, or no output in it.
    """
    if not folder.is_dir():
        raise JobError(f"there is no folder to index: path={str(folder)!r}; name one that holds outputs")
    found, rows = list(_outputs(folder)), []
    for done, (path, read) in enumerate(found):
        progress(path.name, done / len(found))
        name = path.relative_to(folder).as_posix()
        rows += read(path, folder.resolve().name if name == "." else name, page, demand)
    rows += _without_output(folder, rows)
    if not rows:
        raise JobError(
            f"no output is in folder={str(folder)!r}; name one that `understudy run`, `batch`, `try`, `compare` or "
            "`evaluate` wrote into"
        )
    rows.sort(key=lambda row: (row.output, not row.released))
    return Index(folder.resolve().name, tuple(rows), datetime.now(UTC), _notes(demand, rows, folder))


def check_page(page: Path) -> None:
    """Refuse a path for the page, before any work is done.

    Raises:
        OutputError: it cannot be written, holds something else than an index, or lies in a sealed output.
    """
    check_writable(page)
    for parent in page.absolute().parents:
        if is_there(parent / MANIFEST):
            raise OutputError(
                f"a sealed output takes no further file: --out {str(page)!r} lies in one; name a file elsewhere"
            )
    if page.is_symlink() or (page.exists() and MARK.encode() not in _head(page)):
        raise OutputError(f"an index replaces no other file: {str(page)!r} is none; name another")


def write_index(index: Index, page: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        OutputError: as in `check_page`.
    """
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
        folders[:] = sorted(name for name in folders if name not in hidden and not (sealed and name == PUBLIC))
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
        return _measured_rows(row, _read(path), [])
    except UnderstudyError as error:
        return [IndexRow(name, NOT_SOUND, _sentence(str(error)))]


def _read(path: Path) -> Evaluation:
    """The evaluation in a plain file.

    Raises:
        UnderstudyError: it cannot be read, or is damaged.
    """
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
        return [IndexRow(name, NOT_SOUND, f"{faults[0].rstrip('.')}{more}.")]
    base = _base(name, folder, page, found, found.manifest)
    if found.manifest.about.kind == "public":
        return _ended([replace(base, reason=PUBLIC_ONLY)], found)
    try:
        judged = _judged(base, verdict_content(folder), found.manifest, demand)
    except (UnderstudyError, AttributeError, KeyError, TypeError, ValueError):
        return [replace(base, state=NOT_SOUND, reason=OTHER_VERDICTS)]
    try:
        return _ended(_measured_rows(base, _read(folder / EVALUATION), judged), found)
    except UnderstudyError as error:  # of another version: its verdicts count all the same
        unread = [replace(row, reason=row.reason or f"No figures: {_sentence(str(error))}") for row in judged or [base]]
        return _ended(unread, found)


def _base(name: str, folder: Path, page: Path, found: Verification, manifest: Manifest) -> IndexRow:
    """The row that all tables of an output have in common."""
    public = folder if manifest.about.kind == "public" else folder / PUBLIC
    links = (folder / REPORT, public / PUBLIC_REPORT, folder / EVALUATION)
    return IndexRow(
        name,
        NOT_JUDGED,
        title=manifest.about.title,
        day=manifest.about.made_at[:10],
        links=Links(*(_link(path, page) if path.is_file() else "" for path in links)),
        signed_off=found.sign_off is not None,
    )


def _judged(base: IndexRow, verdicts: Mapping[str, Any], manifest: Manifest, demand: Demand) -> list[IndexRow]:
    """A row for each recorded verdict.

    Raises:
        ValueError: the manifest tells of another verdict; likewise where the file of verdicts is no such file.
    """
    rows = []
    for one in verdicts["candidates"]:
        outcome, name = one["verdict"], one["candidate"]
        if outcome not in VERDICTS or manifest.about.verdicts.get(name) != outcome:
            raise ValueError(name)
        released = name == verdicts["release"]
        row = replace(
            base, state=outcome, table=name, reason=_reason(one), released=released,
            policy=f"{one['policy']} {one['version']}", signed_off=released and base.signed_off,
        )  # fmt: skip
        if rests_on_expired_waiver(one, demand.today):
            row = _barred(row, EXPIRED, f"it was {outcome} by a waiver that has expired")
        if not released:  # the public folder is the released table's
            row = replace(row, links=replace(row.links, public=""))
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
    base = replace(base, title=known.job or base.title, day=day, links=replace(base.links, public=""))
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


def _ended(rows: list[IndexRow], found: Verification) -> list[IndexRow]:
    """The rows; of evidence that may not be relied on any more, they say that, and no verdict."""
    for kind, state in ENDED.items():
        said = next((problem.sentence for problem in found.problems if problem.kind == kind), None)
        if said is not None:
            return [_barred(row, state, said) for row in rows]
    return rows


def _barred(row: IndexRow, state: str, why: str) -> IndexRow:
    """A row of evidence that may not be relied on any more: without figures, and with the reason in their place."""
    return replace(row, state=state, reason=_sentence(why), claimed=None, figures={}, is_measured=False)


def _without_output(folder: Path, rows: Iterable[IndexRow]) -> list[IndexRow]:
    """Jobs of batches that left no output, with the reason of the summary, where there is one."""
    known, found = {row.output for row in rows}, []
    for at, folders, files in os.walk(folder):
        here = Path(at)
        jobs: dict[str, IndexRow] = {}
        prefix = "" if here == folder else f"{here.relative_to(folder).as_posix()}/"
        if OWN in folders:
            for path in sorted((here / OWN).glob("*.json")):
                name = f"{prefix}{path.stem}"
                jobs[name] = IndexRow(name, NO_OUTPUT, f"A batch began it, and no output is left; see {name}.log.")
        if SUMMARY_JSON in files:
            jobs |= {row.output: row for row in _summed_up(here / SUMMARY_JSON, prefix)}
        found += [row for name, row in jobs.items() if name not in known]
        folders[:] = [name for name in folders if not name.startswith(".")]
    return found


def _summed_up(path: Path, prefix: str) -> Iterator[IndexRow]:
    """The jobs in the summary of a batch."""
    content = read_content(path) or {}
    jobs = content.get("jobs")
    for job in jobs if isinstance(jobs, list) else ():
        if isinstance(job, dict) and isinstance(job.get("job"), str) and isinstance(job.get("state"), str):
            state = NO_OUTPUT if job["state"] in VERDICTS else job["state"].upper()
            reason = _sentence(job["error"]) if job.get("error") else "Its output is not there any more."
            yield IndexRow(f"{prefix}{job['job']}", state, reason)


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

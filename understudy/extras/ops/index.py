"""The outputs in a folder as one page: what each says of its tables, once it is certain that it is as sealed.

A verdict is the recorded one. It is read from an output whose files are all as they were sealed, and is not judged
again. Whatever is damaged, withdrawn, over, unfinished or failed is a row of its own that says so, and never a PASS.
A batch's summary and an evaluation that lies by itself are not sealed: neither of them gives a verdict.
Links to folders are not followed, and hidden folders are not looked into, but for unfinished work.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from evaluate.gate.checks import BROKEN
from evaluate.gate.claim import Composition
from evaluate.metrics import Metric
from evaluate.result import NOTICE, Candidate, Estimate, Evaluation, EvaluationError, Failure
from evaluate.result_io import evaluation_from
from reports.glossary import entry
from reports.html import environment, inlined
from reports.model_card.privacy import standing_of
from reports.model_card.schema import Standing
from synth.errors import JobError, OutputError, UnderstudyError
from synth.output import MAKING, RUN, check_writable, whole_file
from synth.progress import Progress, quiet
from understudy.artifacts import EVALUATION, REPORT
from understudy.batch.jobs import SUMMARY_JSON
from understudy.batch.result import deciding, read_content, rests_on_expired_waiver
from understudy.bundle.documents import is_there
from understudy.bundle.files import read_plain
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON, Manifest
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
from understudy.run.released_numbers import REPORT as REPORT_TO_HAND_ON

MARK = Markup('<meta name="generator" content="understudy index">')  # the line that tells this page from every other
FIGURES = (
    "utility.tstr.boosting", "joint.c2st.auc", "pairs.tvd.floor_share", "privacy.copies.people",
    "privacy.membership.auc",
)  # fmt: skip
"""Key figures that a row has room for: use, fidelity of rows and of pairs, copies, and the attack on membership."""
NOT_SOUND, WITHDRAWN, EXPIRED = "NOT SOUND", "WITHDRAWN", "EXPIRED"
UNFINISHED, NOT_JUDGED, NO_OUTPUT, SIGNED_OFF = "UNFINISHED", "NOT JUDGED", "NO OUTPUT", "signed off"
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")
LOOKS: Mapping[str, str] = {
    "PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open", NOT_SOUND: "fail", WITHDRAWN: "fail", EXPIRED: "warn",
    UNFINISHED: "warn", NO_OUTPUT: "warn", NOT_JUDGED: "none",
}  # fmt: skip
"""Every state of a row, in the order of the counts on top, with the look of its badge."""
ENDED = {"withdrawn": WITHDRAWN, "expired": EXPIRED}
"""Problems of evidence that is whole, and may not be relied on any more."""
HEAD_BYTES, LIMIT_BYTES = 4096, 256 << 20  # of a file, to see what it is; of an evaluation
BEGIN = re.compile(rb'\s*\{\s*"schema_version"')


class Claimed(NamedTuple):
    epsilon: float
    delta: float
    standing: Standing


class Links(NamedTuple):
    """Links of a row, relative to the page and safe in it; empty where nothing is there."""

    report: str = ""
    to_hand_on: str = ""
    evaluation: str = ""


NO_LINKS = Links()


@dataclass(frozen=True)
class IndexRow:
    """One candidate table of an output; of an output that tells of no table, the output."""

    output: str
    state: str
    reason: str = ""
    table: str = ""
    title: str = ""
    released: bool = False
    sign_off: str = ""
    day: str = ""
    generator: str = ""
    policy: str = ""
    claimed: Claimed | None = None
    figures: Mapping[str, Estimate | Failure] = field(default_factory=dict)
    is_measured: bool = False
    links: Links = NO_LINKS
    is_sealed: bool = False
    notes: tuple[str, ...] = ()
    audience: str = ""

    def __post_init__(self) -> None:
        if self.state in VERDICTS and not (self.table and self.policy and self.is_sealed):
            raise ValueError(f"a verdict is about a table under a policy, and is sealed: output={self.output!r}")

    @property
    def is_broken(self) -> bool:
        return self.state not in (*VERDICTS, NOT_JUDGED)


Reader = Callable[[Path, str, Path, Demand], list[IndexRow]]
"""The rows of one output: from its path, its name, the path of the page, and what must hold of a bundle."""


@dataclass(frozen=True)
class Index:
    folder: str
    rows: tuple[IndexRow, ...]
    made_at: datetime
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        counts = Counter(row.state for row in self.rows)
        return {state: counts[state] for state in LOOKS if counts[state] or state in VERDICTS}

    @property
    def n_outputs(self) -> int:
        return len({row.output for row in self.rows})

    @property
    def n_tables(self) -> int:
        return sum(bool(row.table) for row in self.rows)

    @property
    def columns(self) -> tuple[tuple[str, Metric], ...]:
        """The key figures that any row has."""
        return tuple((name, entry(name)) for name in FIGURES if any(name in row.figures for row in self.rows))

    def choices(self, attribute: str) -> Sequence[str]:
        """Every value of a row's attribute that a reader can choose."""
        return sorted({str(getattr(row, attribute)) for row in self.rows} - {""})


def make_page(folder: Path, page: Path) -> None:
    """The page of a folder's outputs, with nothing asked of their keys."""
    write_index(read_index(folder, page, Demand()), page)


def read_index(folder: Path, page: Path, demand: Demand, progress: Progress = quiet) -> Index:
    """Every output in a folder and below."""
    if not folder.is_dir():
        raise JobError(f"there is no folder to index: path={str(folder)!r}; name one that holds outputs")
    outputs, rows = list(_outputs(folder)), list[IndexRow]()
    for done, (path, read) in enumerate(outputs):
        progress(path.name, done / len(outputs))
        name = path.relative_to(folder).as_posix()
        rows += read(path, folder.resolve().name if name == "." else name, page, demand)
    left = {row.output for row in rows}
    rows += [row for row in _failed_jobs(folder) if row.output not in left]
    if not rows:
        raise JobError(
            f"no output is in folder={str(folder)!r}; name one that `understudy run`, `batch`, `try`, `compare` or "
            "`evaluate` wrote into"
        )
    notes = []
    if not demand.keys and any(row.is_measured for row in rows):
        notes.append("No key was asked for: whoever changes an output on purpose can seal it anew.")
    if demand.register is None:
        notes.append("No register of withdrawals was asked: a copy from before a withdrawal does not know of it.")
    rows.sort(key=lambda row: (row.output, not row.released))
    return Index(folder.resolve().name, tuple(rows), datetime.now(UTC), tuple(notes))


def check_page(page: Path) -> None:
    """Refuse a path for the page, before any work is done."""
    check_writable(page)
    if any(is_there(parent / MANIFEST) for parent in page.absolute().parents):
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


def render_index(index: Index) -> str:
    """The page as text; the same index gives the same text."""
    here = Path(__file__).parent
    page = environment().from_string((here / "index.html.j2").read_text(encoding="utf-8"))
    style, script = inlined("report.css", str(here / "index.css")), inlined("report.js", str(here / "index.js"))
    return page.render(index=index, style=style, script=script, mark=MARK, looks=LOOKS, signed_off=SIGNED_OFF)


def _head(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe would be waited for
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _outputs(folder: Path) -> Iterator[tuple[Path, Reader]]:
    """The path of everything that is a row or more, in order, each with its reader."""
    for at, folders, files in os.walk(folder):
        here = Path(at)
        sealed = any(f"{name}{suffix}" in files for name in (MANIFEST, VERDICT) for suffix in SUFFIXES)
        if sealed:
            yield here, _of_bundle
        for name in sorted(files):
            if not sealed and name.endswith(".json") and _is_evaluation(here / name):
                yield here / name, _of_evaluation
        hidden = sorted(name for name in folders if name.startswith("."))
        for name in hidden:
            if name.endswith((RUN, MAKING)) and not is_there(here / _shown(name)):
                yield here / name, _unfinished
        folders[:] = sorted(name for name in folders if name not in hidden and not (sealed and name == TO_HAND_ON))


def _unfinished(path: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    shown = Path(name).with_name(_shown(path.name)).as_posix()
    return [IndexRow(shown, UNFINISHED, "It is at work, or was cut short: the same command goes on from there.")]


def _is_evaluation(path: Path) -> bool:
    """True for a file that goes by the name of an evaluation, or begins like one."""
    head = _head(path)
    return path.name == EVALUATION or (BEGIN.match(head) is not None and NOTICE.encode() in head)


def _shown(hidden: str) -> str:
    """The output's name, as far as a hidden folder's name tells it.

    >>> _shown(".fair.unfinished")
    'fair'
    """
    return hidden.removeprefix(".").removesuffix(RUN).removesuffix(MAKING)


def _failed_jobs(folder: Path) -> Iterator[IndexRow]:
    """The jobs that left no output, as the summary of their batch has them."""
    for path in sorted(folder.rglob(SUMMARY_JSON)):
        jobs = (read_content(path) or {}).get("jobs") if path.is_file() else None  # a pipe would be waited for
        for job in jobs if isinstance(jobs, list) else ():
            if isinstance(job, dict) and isinstance(job.get("job"), str):
                name = (path.parent / job["job"]).relative_to(folder).as_posix()
                why = "; ".join(str(job[key]) for key in ("state", "error") if job.get(key))
                yield IndexRow(
                    name, NO_OUTPUT, _sentence(f"The summary of its batch, which is not sealed, says: {why}")
                )


def _of_evaluation(path: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    """The tables of an evaluation that lies by itself."""
    why = f"It lies by itself: no {MANIFEST} vouches for it, and no verdict is recorded with it."
    row = IndexRow(name, NOT_JUDGED, why, links=Links(evaluation=_link(path, page)))
    try:
        return _measured_rows(row, _read(path), [])
    except UnderstudyError as error:
        return [IndexRow(name, NOT_SOUND, _sentence(str(error)))]


def _read(path: Path) -> Evaluation:
    try:
        return evaluation_from(read_plain(path, LIMIT_BYTES).decode("utf-8"))
    except UnicodeDecodeError:
        raise EvaluationError(f"{path.name} is no text in UTF-8; evaluate again") from None


def _of_bundle(folder: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    """The tables of a sealed output; one row where it is not as it was sealed."""
    try:
        found = verify(folder, demand)
    except UnderstudyError:
        why = f"It holds no {MANIFEST}, so that nobody can say whether it is as it was made."
        return [IndexRow(name, NOT_SOUND, why)]
    # Notes that the page has once for all are not repeated.
    notes = tuple(_sentence(note) for note in found.notes if note not in (NO_REGISTER, UNSIGNED))
    faults = [problem.sentence for problem in found.problems if problem.kind not in ENDED]
    if found.manifest is None or faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return [IndexRow(name, NOT_SOUND, f"{faults[0].rstrip('.')}{more}.", notes=notes)]
    about = found.manifest.about
    public = folder if about.kind == "to-hand-on" else folder / TO_HAND_ON
    files = (folder / REPORT, public / REPORT_TO_HAND_ON, folder / EVALUATION)
    links = Links(*(_link(path, page) if path.is_file() else "" for path in files))
    base = IndexRow(
        name, NOT_JUDGED, title=about.title, day=about.made_at[:10], links=links, is_sealed=True,
        sign_off=_sign_off(found, demand), notes=notes,
    )  # fmt: skip
    if about.kind == "to-hand-on":
        why = "A folder to hand on: its verdict is in the internal output that it was taken from."
        return _ended([replace(base, reason=why)], found, demand)
    try:
        judged = _judged(base, verdict_content(folder), found.manifest, demand)
    except (UnderstudyError, AttributeError, KeyError, TypeError, ValueError):
        why = f"{VERDICT} and {MANIFEST} do not tell of the same verdicts."
        return [replace(base, state=NOT_SOUND, reason=why)]
    try:
        return _ended(_measured_rows(base, _read(folder / EVALUATION), judged), found, demand)
    except UnderstudyError as error:  # of another version: its verdicts count all the same
        unread = [replace(row, reason=row.reason or f"No figures: {_sentence(str(error))}") for row in judged or [base]]
        return _ended(unread, found, demand)


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
            row = replace(row, links=row.links._replace(to_hand_on=""))
        rows.append(row)
    return rows


def _reason(judged: Mapping[str, Any]) -> str:
    """The rule that decided, in the glossary's words, as a few words."""
    if judged["verdict"] == "PASS":
        return ""
    findings = deciding(judged, judged["verdict"])
    if not findings:
        broken = any(check["outcome"] == BROKEN for check in judged["checks"])
        return "A self-test did not come out" if broken else "No rule of the policy counts"
    rule = findings[0]["rule"]
    subject = f" of {', '.join(rule['subject'])}" if rule["subject"] else ""
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{entry(rule['measure']).title}{subject}{more}"


def _measured_rows(base: IndexRow, evaluation: Evaluation, judged: Sequence[IndexRow]) -> list[IndexRow]:
    """Rows with what was measured: every judged table, then tables without a verdict."""
    left, known = {row.table: row for row in judged}, evaluation.provenance
    day = (known.evaluated_at or "")[:10] or base.day
    base = replace(base, title=known.job or base.title, day=day, links=base.links._replace(to_hand_on=""), sign_off="")
    rows = []
    for candidate in evaluation.candidates:
        row = left.pop(candidate.name, replace(base, table=candidate.name))
        row = row if row.state == EXPIRED else _measured(row, evaluation, candidate)
        rows.append(replace(row, title=base.title, day=day))
    vendors = () if evaluation.ranking is None else evaluation.ranking.vendors
    measured = {row.table for row in rows}
    missing = [replace(base, table=v.name, reason=_sentence(v.reason)) for v in vendors if v.name not in measured]
    return [*rows, *left.values(), *missing]


def _measured(row: IndexRow, evaluation: Evaluation, candidate: Candidate) -> IndexRow:
    """The row of a table with its generator, its claim and its figures."""
    claims, claimed = Composition.of(evaluation).claims(candidate), None
    if claims is not None and candidate.statement is not None:
        standing = standing_of(evaluation, candidate, claims)
        claimed = Claimed(claims.counted.epsilon, claims.counted.delta, standing)
    generator = "" if candidate.generator is None else candidate.generator.name
    if evaluation.ranking is not None:
        generator = candidate.name
    figures = {name: one for name in FIGURES if (one := candidate.find(name)) is not None}
    return replace(row, generator=generator, claimed=claimed, figures=figures, is_measured=True)


def _ended(rows: list[IndexRow], found: Verification, demand: Demand) -> list[IndexRow]:
    """The rows; of evidence that may not be relied on any more, they say that, and no verdict."""
    # Withdrawals in the register that count for nobody who was named: too many doubts do less harm than one missed.
    asked = (one for one in (found, found.public) if one is not None and one.withdrawal is None)
    doubted = next((w for one in asked for w in (demand.register or {}).get(one.sha256, ())), None)
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


def _barred(row: IndexRow, state: str, why: str) -> IndexRow:
    """A row of evidence that may not be relied on any more: without figures, and with the reason in their place."""
    return replace(row, state=state, reason=_sentence(why), claimed=None, figures={}, is_measured=False, sign_off="")


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

"""The outputs in a folder as one page: what each says of its tables, once it is certain that it is as sealed.

A verdict is the recorded one. It is read from an output whose files are all as they were sealed, and is not judged
again. Whatever is damaged, withdrawn or over is a row of its own that says so, and never a PASS. Neither links to
folders nor hidden folders are followed.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from evaluate.gate.checks import BROKEN
from evaluate.gate.claim import Composition
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from reports.glossary import entry
from reports.html import environment, inlined
from reports.model_card.privacy import standing_of
from synth.errors import JobError, OutputError, UnderstudyError
from synth.output import check_writable, whole_file
from synth.progress import Progress, quiet
from understudy.artifacts import EVALUATION, REPORT
from understudy.batch.result import deciding, rests_on_expired_waiver
from understudy.bundle.documents import is_there
from understudy.bundle.files import read_plain
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON, Manifest
from understudy.bundle.verification import NO_REGISTER, SUFFIXES, UNSIGNED, VERDICT, Demand, Verification, verify
from understudy.bundle.verification import verdict_content as read_verdicts
from understudy.run.released_numbers import REPORT as REPORT_TO_HAND_ON

MARK = Markup('<meta name="generator" content="understudy index">')  # the line that tells this page from every other
FIGURES = (
    "utility.tstr.boosting", "joint.c2st.auc", "pairs.tvd.floor_share", "privacy.copies.people",
    "privacy.membership.auc",
)  # fmt: skip
"""Key figures that a row has room for: use, fidelity of rows and of pairs, copies, and the attack on membership."""
NOT_SOUND, WITHDRAWN, EXPIRED, NOT_JUDGED = "NOT SOUND", "WITHDRAWN", "EXPIRED", "NOT JUDGED"
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")
LOOKS = {NOT_SOUND: "fail", WITHDRAWN: "fail", EXPIRED: "warn", NOT_JUDGED: "none"}
"""Every other state of a row, with the look of its badge."""
LIMIT_BYTES = 256 << 20  # of an evaluation


class Claimed(NamedTuple):
    epsilon: float
    delta: float
    standing: str


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
    audience: str = ""
    claimed: Claimed | None = None
    figures: Mapping[str, Estimate | Failure] = field(default_factory=dict)
    is_measured: bool = False
    notes: tuple[str, ...] = ()
    report: str = ""  # links, relative to the page and safe in it; empty where nothing is there
    to_hand_on: str = ""
    evaluation: str = ""

    def __post_init__(self) -> None:
        if self.state in VERDICTS and not (self.table and self.policy):
            raise ValueError(f"a verdict is about a table under a policy: output={self.output!r}")


@dataclass(frozen=True)
class Index:
    folder: str
    rows: tuple[IndexRow, ...]
    made_at: datetime
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        counts = Counter(row.state for row in self.rows)
        return {state: counts[state] for state in (*VERDICTS, *LOOKS) if counts[state] or state in VERDICTS}

    @property
    def n_outputs(self) -> int:
        return len({row.output for row in self.rows})

    @property
    def n_tables(self) -> int:
        return sum(bool(row.table) for row in self.rows)


def make_page(folder: Path, page: Path) -> None:
    """The page of a folder's outputs, with nothing asked of their keys."""
    write_index(read_index(folder, page, Demand()), page)


def read_index(folder: Path, page: Path, demand: Demand, progress: Progress = quiet) -> Index:
    """Every output in a folder and below."""
    if not folder.is_dir():
        raise JobError(f"there is no folder to index: path={str(folder)!r}; name one that holds outputs")
    outputs, rows = list(_outputs(folder)), list[IndexRow]()
    for done, path in enumerate(outputs):
        progress(path.name, done / len(outputs))
        name = folder.resolve().name if path == folder else path.relative_to(folder).as_posix()
        rows += _of_bundle(path, name, page, demand)
    if not rows:
        raise JobError(
            f"no output is in folder={str(folder)!r}; name one that `understudy run`, `batch`, `try` or `compare` made"
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
        raise OutputError(f"a sealed output takes no further file: --out {str(page)!r} lies in one; name another path")
    is_other = page.is_symlink() or (page.exists() and not page.is_file())
    if is_other or (page.exists() and MARK.encode() not in page.read_bytes()[:4096]):
        raise OutputError(f"an index replaces no other file: {str(page)!r} is none; name another")


def write_index(index: Index, page: Path) -> None:
    """Write the page, whole or not at all."""
    check_page(page)
    text = render_index(index)
    with whole_file(page) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def render_index(index: Index) -> str:
    """The page as text; the same index gives the same text."""
    here, rows = Path(__file__).parent, index.rows
    return environment().from_string((here / "index.html.j2").read_text(encoding="utf-8")).render(
        index=index,
        columns=[(name, entry(name)) for name in FIGURES if any(name in row.figures for row in rows)],
        policies=sorted({row.policy for row in rows} - {""}),
        generators=sorted({row.generator for row in rows} - {""}),
        style=inlined("report.css", str(here / "index.css")),
        script=inlined("report.js", str(here / "index.js")),
        mark=MARK,
        looks=LOOKS,
    )  # fmt: skip


def _outputs(folder: Path) -> Iterator[Path]:
    """The folder of each sealed output."""
    for at, folders, files in os.walk(folder):
        here = Path(at)
        sealed = any(f"{name}{suffix}" in files for name in (MANIFEST, VERDICT) for suffix in SUFFIXES)
        if sealed:
            yield here
        folders[:] = sorted(n for n in folders if not n.startswith(".") and not (sealed and n == TO_HAND_ON))


def _of_bundle(folder: Path, name: str, page: Path, demand: Demand) -> list[IndexRow]:
    """The tables of a sealed output; one row where it is not as it was sealed."""
    try:
        found = verify(folder, demand)
    except UnderstudyError:
        why = f"It holds no {MANIFEST}, so that nobody can say whether it is as it was made."
        return [IndexRow(name, NOT_SOUND, why)]
    # Notes that the page has once for all are not repeated.
    notes = tuple(_sentence(note) for note in found.notes if note not in (NO_REGISTER, UNSIGNED))
    faults = [problem.sentence for problem in found.problems if problem.kind not in ("withdrawn", "expired")]
    if found.manifest is None or faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return [IndexRow(name, NOT_SOUND, f"{faults[0].rstrip('.')}{more}.", notes=notes)]
    about = found.manifest.about
    public = folder if about.kind == "to-hand-on" else folder / TO_HAND_ON
    files = (folder / REPORT, public / REPORT_TO_HAND_ON, folder / EVALUATION)
    report, to_hand_on, evaluation = (_link(path, page) if path.is_file() else "" for path in files)
    base = IndexRow(
        name, NOT_JUDGED, title=about.title, day=about.made_at[:10], notes=notes, report=report,
        to_hand_on=to_hand_on, evaluation=evaluation, sign_off=_sign_off(found, demand),
    )  # fmt: skip
    if about.kind == "to-hand-on":
        why = "A folder to hand on: its verdict is in the internal output that it was taken from."
        return _ended([replace(base, reason=why)], found, demand)
    try:
        judged = _judged(base, read_verdicts(folder), found.manifest, demand)
    except (UnderstudyError, AttributeError, KeyError, TypeError, ValueError):
        return [replace(base, state=NOT_SOUND, reason=f"{VERDICT} and {MANIFEST} do not tell of the same verdicts.")]
    try:
        read = evaluation_from(read_plain(folder / EVALUATION, LIMIT_BYTES).decode("utf-8"))
        rows = _measured_rows(base, read, judged)
    except (UnderstudyError, UnicodeDecodeError) as error:  # of another version: its verdicts count all the same
        why = f"No figures: {_sentence(str(error))}"
        rows = [replace(row, reason=row.reason or why) for row in judged or [base]]
    return _ended(rows, found, demand)


def _sign_off(found: Verification, demand: Demand) -> str:
    """The sign-off in words: anybody can write one, so that it counts by a key that was named."""
    if found.sign_off is None:
        return ""
    if found.sign_off.signer is None:
        return "sign-off, unsigned"
    named = found.sign_off.signer in (demand.sign_off_keys or demand.keys)
    return "signed off" if named else "sign-off by an unknown key"


def _judged(base: IndexRow, verdicts: Mapping[str, Any], manifest: Manifest, demand: Demand) -> list[IndexRow]:
    """A row for each recorded verdict."""
    rows = []
    for one in verdicts["candidates"]:
        outcome, name = one["verdict"], one["candidate"]
        if outcome not in VERDICTS or manifest.about.verdicts.get(name) != outcome:
            raise ValueError(name)
        row = replace(
            base, state=outcome, table=name, reason=_reason(one), released=name == verdicts["release"],
            policy=f"{one['policy']} {one['version']}", audience=one["audience"],
        )  # fmt: skip
        if rests_on_expired_waiver(one, demand.today):
            row = _barred(row, EXPIRED, f"it was {outcome} by a waiver that has expired")
        if not row.released:  # the folder to hand on is the released table's, and so is the sign-off
            row = replace(row, to_hand_on="", sign_off="")
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
    """Rows with what was measured: every measured table, then tables with a verdict alone."""
    left, known = {row.table: row for row in judged}, evaluation.provenance
    title, day = known.job or base.title, (known.evaluated_at or "")[:10] or base.day
    rows = []
    for candidate in evaluation.candidates:
        row = left.pop(candidate.name, replace(base, table=candidate.name, to_hand_on="", sign_off=""))
        row = row if row.state == EXPIRED else _measured(row, evaluation, candidate)
        rows.append(replace(row, title=title, day=day))
    return [*rows, *left.values()]


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
    for kind, state in (("withdrawn", WITHDRAWN), ("expired", EXPIRED)):
        for problem in found.problems:
            if problem.kind == kind:
                return [_barred(row, state, problem.sentence) for row in rows]
    return rows


def _barred(row: IndexRow, state: str, why: str) -> IndexRow:
    """A row of evidence that may not be relied on any more: without figures, and with the reason in their place."""
    return replace(row, state=state, reason=_sentence(why), claimed=None, figures={}, is_measured=False, sign_off="")


def _link(path: Path, page: Path) -> str:
    """A link from the page to a file; no name can be taken for a scheme or a host."""
    relative = os.path.relpath(path.absolute(), page.absolute().parent).replace(os.sep, "/")
    return quote(os.fsencode(relative))


def _sentence(text: str) -> str:
    """A sentence with its full stop; it may begin with a file's name, which has no capital."""
    said = text.strip().rstrip(".")
    return f"{said}." if said else ""

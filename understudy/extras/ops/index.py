"""The outputs in a folder as one page: what each says of its tables, once it is certain that it is as sealed.

A verdict is the recorded one. It is read from an output whose files are all as they were sealed, and is not judged
again. Whatever is damaged, withdrawn or over is a row of its own that says so, and never a PASS. Neither links to
folders nor hidden folders are followed.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from evaluate.gate.claim import claims_of
from evaluate.result import Candidate, Evaluation
from evaluate.result_io import evaluation_from
from reports.glossary import entry
from reports.guarantee import standing_of
from reports.html import environment, inlined, page_style
from synth.errors import JobError, OutputError, UnderstudyError
from synth.output import check_writable, whole_file
from synth.progress import Progress, quiet
from understudy.batch.jobs import reason_of, rests_on_expired_waiver
from understudy.bundle.evidence import EVALUATION, PUBLIC_REPORT, REPORT
from understudy.bundle.manifest import MANIFEST, TO_HAND_ON
from understudy.bundle.signing import is_there, read_plain
from understudy.bundle.verification import NO_REGISTER, SUFFIXES, UNSIGNED, VERDICT, Demand, Verification, verify
from understudy.bundle.verification import verdict_content as read_verdicts

MARK = Markup('<meta name="generator" content="understudy index">')  # the line that tells this page from every other
FIGURES = (
    "utility.tstr.boosting", "joint.c2st.auc", "pairs.dependence.floor_share", "privacy.copies.people",
    "privacy.membership.auc",
)  # fmt: skip
NOT_SOUND, WITHDRAWN, EXPIRED, NOT_JUDGED = "NOT SOUND", "WITHDRAWN", "EXPIRED", "NOT JUDGED"
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")
LOOKS = {NOT_SOUND: "fail", WITHDRAWN: "fail", EXPIRED: "warn", NOT_JUDGED: "none"}  # badges of all other states
LIMIT_BYTES = 256 << 20  # of an evaluation
Row = dict[str, Any]  # one candidate table of an output; of an output that tells of no table, the output
EMPTY: Row = {
    **dict.fromkeys(("reason", "table", "title", "day", "generator", "policy", "audience"), ""),
    **dict.fromkeys(("sign_off", "report", "to_hand_on", "evaluation"), ""),
    **{"claimed": None, "figures": {}, "notes": (), "released": False, "is_measured": False},
}


def make_page(folder: Path, page: Path, demand: Demand | None = None, progress: Progress = quiet) -> list[Row]:
    """Write the page of every output in a folder and below, whole or not at all; its rows."""
    check_page(page)
    demand = demand or Demand()
    rows = read_rows(folder, page, demand, progress)
    text = render_page(rows, folder.resolve().name, demand)
    with whole_file(page) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return rows


def read_rows(folder: Path, page: Path, demand: Demand, progress: Progress = quiet) -> list[Row]:
    rows = list[Row]()
    for path in _outputs(folder):
        progress(path.name, None)
        name = folder.resolve().name if path == folder else path.relative_to(folder).as_posix()
        rows += _of_bundle(path, name, page, demand)
    if not rows:
        raise JobError(
            f"no output is in folder={str(folder)!r}; name one that `understudy run`, `batch`, `try` or `compare` made"
        )
    return sorted(rows, key=lambda row: (row["output"], not row["released"]))


def check_page(page: Path) -> None:
    """Refuse a path for the page, before any work is done."""
    check_writable(page)
    if any(is_there(parent / MANIFEST) for parent in page.absolute().parents):
        raise OutputError(f"a sealed output takes no further file: --out {str(page)!r} lies in one; name another path")
    is_other = page.is_symlink() or (page.exists() and not page.is_file())
    if is_other or (page.exists() and MARK.encode() not in page.read_bytes()[:4096]):
        raise OutputError(f"an index replaces no other file: {str(page)!r} is none; name another")


def counted(rows: Sequence[Row]) -> dict[str, int]:
    counts = Counter(row["state"] for row in rows)
    return {state: counts[state] for state in (*VERDICTS, *LOOKS) if counts[state] or state in VERDICTS}


def render_page(rows: Sequence[Row], folder: str, demand: Demand) -> str:
    here = Path(__file__).parent
    template = environment().from_string((here / "index.html.j2").read_text(encoding="utf-8"))
    columns = [(name, entry(name)) for name in FIGURES if any(name in row["figures"] for row in rows)]
    return template.render(
        rows=rows, folder=folder, counts=counted(rows), demand=demand, made_at=datetime.now(UTC), columns=columns,
        style=page_style(str(here / "index.css")), script=inlined("report.js", str(here / "index.js")),
        mark=MARK, looks=LOOKS,
    )  # fmt: skip


def _outputs(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        sealed = any(f"{name}{suffix}" in files for name in (MANIFEST, VERDICT) for suffix in SUFFIXES)
        if sealed:
            yield Path(at)
        # What lies in a sealed output belongs to it.
        folders[:] = [] if sealed else sorted(name for name in folders if not name.startswith("."))


def _of_bundle(folder: Path, name: str, page: Path, demand: Demand) -> list[Row]:
    """The tables of a sealed output; one row where it may not be relied on."""
    base: Row = {**EMPTY, "output": name, "state": NOT_JUDGED}
    try:
        verified = verify(folder, demand)
    except UnderstudyError:
        why = f"It holds no {MANIFEST}, so that nobody can say whether it is as it was made."
        return [{**base, "state": NOT_SOUND, "reason": why}]
    # Notes that the page has once for all are not repeated.
    base["notes"] = tuple(note for note in verified.notes if note not in (NO_REGISTER, UNSIGNED))
    against = _against(verified, demand)
    if verified.manifest is None or against:
        state, why = min(against, key=lambda each: each[0] != NOT_SOUND)
        return [{**base, "state": state, "reason": why}]
    about = verified.manifest.about
    public = folder if about.kind == "to-hand-on" else folder / TO_HAND_ON
    base |= {"title": about.title, "day": about.made_at[:10], "report": _link(folder / REPORT, page)}
    base |= {"to_hand_on": _link(public / PUBLIC_REPORT, page), "evaluation": _link(folder / EVALUATION, page)}
    if len(verified.sign_offs) == 2:  # anybody can write them, so that they count by keys that were named
        by_name = {each.signer for each in verified.sign_offs} <= (demand.sign_off_keys or demand.keys)
        base["sign_off"] = "signed off" if by_name else "sign-off by no key that was named"
    if about.kind == "to-hand-on":
        return [{**base, "reason": "A folder to hand on: its verdict is in the output that it was taken from."}]
    try:
        read = evaluation_from(read_plain(folder / EVALUATION, LIMIT_BYTES).decode("utf-8"))
        measured = {each.name: _measured(read, each) for each in read.candidates}
    except (UnderstudyError, UnicodeDecodeError) as error:  # of another version: its verdicts count all the same
        measured, base["reason"] = {}, f"No figures: {error}"
    try:
        content = read_verdicts(folder)
        # What was verified is the manifest: a file that was written since tells of no other verdict.
        if about.verdicts != {each["candidate"]: each["verdict"] for each in content["candidates"]}:
            raise ValueError
        return _rows(base, content, measured, demand)
    except (UnderstudyError, AttributeError, KeyError, TypeError, ValueError):
        return [{**base, "state": NOT_SOUND, "reason": f"{VERDICT} and {MANIFEST} do not tell of the same verdicts."}]


def _against(verified: Verification, demand: Demand) -> list[tuple[str, str]]:
    """What speaks against relying on an output: states with their sentences."""
    states = {"withdrawn": WITHDRAWN, "expired": EXPIRED}
    against = [(states.get(problem.kind, NOT_SOUND), problem.sentence) for problem in verified.problems]
    # Withdrawals in the register that count for nobody who was named: too many doubts do less harm than one missed.
    asked = (each for each in (verified, verified.public) if each is not None and each.withdrawal is None)
    for record in (record for each in asked for record in (demand.register or {}).get(each.sha256, ())):
        why = f"a withdrawal in the register is {record.signed_by}, a key that was not named: {record.sentence}"
        against.append((NOT_SOUND, f"{why}; ask whoever sealed the output, or name that key with --sign-off-key"))
    return against


def _measured(evaluation: Evaluation, candidate: Candidate) -> Row:
    claims, claimed = claims_of(evaluation, candidate), None
    if claims is not None and candidate.statement is not None:
        claimed = (claims.counted.epsilon, claims.counted.delta, standing_of(evaluation, candidate, claims))
    generator = "" if candidate.generator is None else candidate.generator.name
    day = evaluation.provenance.evaluated_at
    return {
        "generator": generator if evaluation.ranking is None else candidate.name,
        "claimed": claimed,
        "figures": {name: figure for name in FIGURES if (figure := candidate.find(name)) is not None},
        "is_measured": True,
        **({"day": day[:10]} if day else {}),
    }


def _rows(base: Row, content: Mapping[str, Any], measured: Mapping[str, Row], demand: Demand) -> list[Row]:
    judged, rows = {each["candidate"]: each for each in content["candidates"]}, list[Row]()
    for name in dict.fromkeys((*measured, *judged)):
        row = {**base, "table": name, "released": name == content["release"], **measured.get(name, {})}
        if not row["released"]:  # the folder to hand on is the released table's, and so is the sign-off
            row |= {"to_hand_on": "", "sign_off": ""}
        if (verdict := judged.get(name)) is not None:
            state = VERDICTS[VERDICTS.index(verdict["verdict"])]
            reason = reason_of({"verdict": state, "release": name, "candidates": [verdict]}) or row["reason"]
            row |= {"state": state, "reason": reason, "policy": f"{verdict['policy']} {verdict['version']}"}
            row["audience"] = verdict["audience"]
            if rests_on_expired_waiver(verdict, demand.today):
                row |= {"state": EXPIRED, "reason": f"It was {state} by a waiver that has expired."}
                row |= {"is_measured": False, "sign_off": ""}
        rows.append(row)
    return rows or [base]


def _link(path: Path, page: Path) -> str:
    """A link from the page to a file, empty where there is none; no name can be taken for a scheme or a host."""
    if not path.is_file():
        return ""
    relative = os.path.relpath(path.absolute(), page.absolute().parent).replace(os.sep, "/")
    return quote(os.fsencode(relative))

"""CSV files that are safe in a spreadsheet: a cell that would be run as a formula is shown as text.

A sweep is three such files: every number of every point, the means over seeds, and whether any may be released.
Internal: all of them hold numbers computed from real rows. Each line says so itself, since lines get copied.
"""

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluate.result import Estimate, Evaluation, Failure
from evaluate.text import loss
from reports.sections.sweep import SweepPoint, average, by_setting, mean_of, sweep_of, sweep_points
from synth.output import whole_file

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of cells that some spreadsheet runs instead of showing them: the last four are full-width forms.

Source: OWASP, "CSV Injection"."""


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with whole_file(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [safe(column) for column in columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows({safe(column): safe(row[column]) for column in columns} for row in rows)


def safe(value: Any) -> Any:
    """A cell that every spreadsheet shows as text: what would be run as a formula gets an apostrophe before it.

    >>> safe("=HYPERLINK(1)"), safe("  @x"), safe(-1.5), safe("acme")
    ("'=HYPERLINK(1)", "'  @x", -1.5, 'acme')
    """
    if not isinstance(value, str):
        return value
    # Not all text is UTF-8: what is not is shown by its code.
    shown = value.replace("\0", "").encode("utf-8", "backslashreplace").decode("utf-8")
    return f"'{shown}" if _begins(shown) else shown


def runs(text: str) -> bool:
    """True where some spreadsheet would run a cell: it begins like a formula, and is no number.

    >>> runs("=HYPERLINK(1)"), runs("@SUM(A1)"), runs("-1.5"), runs("-"), runs("acme")
    (True, True, False, False, False)
    """
    if not _begins(text) or len(text.strip()) < 2:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _begins(text: str) -> bool:
    return text.startswith(FORMULA) or text.lstrip().startswith(FORMULA)


POINTS_FILE, SUMMARY_FILE = "sweep.csv", "sweep_summary.csv"
UNPAID_FILE, PAID_FILE = "NOT_RELEASABLE.txt", "COMPOSED_STATEMENT.txt"
INTERNAL, NOT_RELEASABLE = "internal: reads real rows", "internal: reads real rows; not releasable"
POINT_COLUMNS = (
    "point", "generator", "epsilon", "seed", "claimed_epsilon", "delta",
    "measure", "subject", "direction", "value", "low", "high", "reference", "floor", "n", "failure", "notice",
)  # fmt: skip
SUMMARY_COLUMNS = (
    "generator", "epsilon", "measure", "subject", "direction",
    "mean", "low", "high", "sd", "n_seeds", "reference", "floor", "notice",
)  # fmt: skip

PAID = """
The ledger has reserved the sum. Whichever of their tables or models is released, and
however many, this is the guarantee to state: whoever picks one of them has looked at all.
The statement in each model is of its own fit alone.
{uncovered}
Picking by numbers that were measured on real rows is outside any guarantee.
"""
UNCOVERED = """
The sweep has {n} more, without epsilon: tables and models of these have no formal guarantee,
and the one above does not cover them.
"""
UNPAID = """
No ledger pays for them, so nothing of this sweep may be released: its tables and models
were not kept, and every verdict is FAIL. To release one of its points, run the sweep
under a ledger, which reserves the sum of all.
"""

Line = Mapping[str, object]


def write_sweep(evaluation: Evaluation, folder: Path) -> None:
    """The files of a sweep: `sweep.csv`, `sweep_summary.csv` and a text about its release.

    Args:
        evaluation: *Sensitive*: of a sweep.
        folder: where to write them; files that are there are replaced.

    Raises:
        OutputError: the folder cannot be written.
    """
    sweep, points = sweep_of(evaluation), sweep_points(evaluation)
    if sweep is None:
        return
    notice = INTERNAL if sweep.releasable else NOT_RELEASABLE
    for name, columns, lines in (
        (POINTS_FILE, POINT_COLUMNS, _point_lines(points)), (SUMMARY_FILE, SUMMARY_COLUMNS, _summary_lines(points))
    ):  # fmt: skip
        write_csv(folder / name, columns, ({**dict.fromkeys(columns), **line, "notice": notice} for line in lines))
    if sweep.epsilon is None:
        return
    together = (
        f"The {sweep.n_fits} private fits of this sweep read one table. Together they come to\n"
        f"epsilon = {loss(sweep.epsilon)} at delta = {loss(sweep.delta)}.\n"
    )
    uncovered = UNCOVERED.format(n=sweep.n_uncovered) if sweep.n_uncovered else ""
    name, text = PAID_FILE, together + PAID.format(uncovered=uncovered)
    if not sweep.releasable:
        name, text = UNPAID_FILE, f"NOT RELEASABLE\n\n{together}{UNPAID}"
    with whole_file(folder / name) as beside:
        beside.write_text(text, encoding="utf-8")


def _point_lines(points: Iterable[SweepPoint]) -> Iterator[Line]:
    for point in points:
        claim = point.candidate.statement
        shared = {
            "point": point.candidate.name, "generator": point.generator, "epsilon": _epsilon(point.epsilon),
            "seed": point.seed, "claimed_epsilon": None if claim is None else claim.epsilon,
            "delta": None if claim is None else claim.delta,
        }  # fmt: skip
        answers: tuple[Estimate | Failure, ...] = (*point.candidate.estimates, *point.candidate.failures)
        for answer in answers:
            names = ("direction", "value", "low", "high", "reference", "floor", "n")
            line = {"measure": answer.measure, "subject": " & ".join(answer.subject)}
            if isinstance(answer, Failure):
                yield {**shared, **line, "failure": f"{answer.reason}: {answer.message}"}
            else:
                yield {**shared, **line, **{name: getattr(answer, name) for name in names}}


def _summary_lines(points: Sequence[SweepPoint]) -> Iterator[Line]:
    """One line for each number of each generator at each epsilon: its mean over seeds and Student's 95% interval."""
    for (generator, epsilon), group in by_setting(points).items():
        by_number = defaultdict(list)
        for estimate in (each for point in group for each in point.candidate.estimates):
            by_number[estimate.measure, estimate.subject].append(estimate)
        for (measure, subject), estimates in by_number.items():
            values = [each.value for each in estimates]
            mean = mean_of(values)
            yield {
                "generator": generator, "epsilon": _epsilon(epsilon), "measure": measure,
                "subject": " & ".join(subject), "direction": estimates[0].direction,
                "mean": mean.value, "low": mean.low, "high": mean.high,
                "sd": statistics.stdev(values) if len(values) > 1 else None, "n_seeds": len(values),
                "reference": average(each.reference for each in estimates),
                "floor": average(each.floor for each in estimates),
            }  # fmt: skip


def _epsilon(epsilon: float | None) -> float | str:
    return "none" if epsilon is None else epsilon

"""CSV files that are safe in a spreadsheet: what would be run as a formula is shown as text."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from synth.output import whole_file

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that some spreadsheet runs instead of showing it: the last four are full-width forms.

Source: OWASP, "CSV Injection"."""


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file, whole or not at all.

    Args:
        path: one that is there is replaced.
        columns: headings, in order.
        rows: a value for each column; none is an empty cell.

    Raises:
        OutputError: the place cannot be written; nothing was left there.
    """
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
    """Whether some spreadsheet would run a cell: it begins like a formula, and is no number.

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

"""The error tree of the project.

Every message is one sentence with the rule, ``name=value`` and the remedy, and never holds a cell value of a real
table. On the command line each of these errors, and one of the operating system, ends in exit code 2; any other
exception is an internal error, exit code 4.
"""

import difflib
from collections.abc import Iterable
from typing import NoReturn


class UnderstudyError(Exception):
    """Root of every error that the project raises on purpose."""


class BadInput(UnderstudyError, ValueError):
    """An input that cannot be used; nothing was computed and nothing was written."""


class SchemaError(BadInput):
    """A schema contradicts itself or cannot be read; no table was touched."""


class TableError(BadInput):
    """A table cannot be read or does not fit its schema; nothing was fitted or measured."""


class PlaceError(TableError):
    """A place of storage that gave out, which says nothing of the table; starting again may go well."""


class JobError(BadInput):
    """A job, a policy or an option cannot be used; nothing was run."""


class BudgetError(BadInput):
    """A privacy budget cannot be met or is not allowed; no noise was drawn."""


class LedgerError(BadInput):
    """A ledger cannot be used or refuses what is asked; nothing was recorded, no noise was drawn, no real row read."""


class ModelError(BadInput):
    """A saved model cannot be loaded, or this kind of model cannot be saved; nothing was written."""


class OutputError(BadInput):
    """A place cannot be written; nothing was left there."""


class TableNote(UserWarning):
    """How a file was read that says less than a table should; nothing stops for it, and it holds no cell value."""


class MissingExtra(UnderstudyError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


def raise_alone(error: Exception) -> NoReturn:
    """Raise an error without the one that led to it, whose text may be a cell or a password."""
    try:
        raise error from None
    finally:
        error.__context__ = None


def nearest(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest known one, else all of them.

    >>> nearest("epsilom", ["epsilon", "delta"])
    "did you mean 'epsilon'?"
    >>> nearest("x", ["epsilon", "delta"])
    'known are: delta, epsilon'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(names)}"

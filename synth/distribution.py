"""The distribution that these packages are installed from: its name on an index, its version, and its extras."""

from synth.errors import MissingExtra

NAME = "understudy-tables"  # another project has the name of the command on PyPI
VERSION = "0.1.0"
"""The version of the program. It stands here, so that no lookup of installed metadata can fail or find another's."""


def missing_extra(need: str, extra: str) -> MissingExtra:
    """The refusal of work that needs an extra that is not installed, for the caller to raise.

    >>> str(missing_extra("a PostgreSQL ledger", "postgres"))
    "a PostgreSQL ledger needs the extra `postgres`; pip install 'understudy-tables[postgres]'"
    """
    return MissingExtra(f"{need} needs the extra `{extra}`; pip install '{NAME}[{extra}]'")

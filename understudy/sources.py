"""Tables that come embedded in an installed package, found without importing it."""

import importlib.util
from pathlib import Path

from synth.errors import JobError, MissingExtra, nearest

_PACKAGES = {"statsmodels": "datasets"}
"""Which packages bring tables, and in which folder of theirs."""


def embedded_table(source: str) -> Path:
    """The file of a table that a package brings.

    Args:
        source: "package:name", such as "statsmodels:fair".

    Raises:
        JobError: no such package or table is known; nothing was read.
        MissingExtra: the package is not installed.
    """
    package, _, name = source.partition(":")
    if package not in _PACKAGES or not name:
        raise JobError(f"source={source!r} is not known; write one such as 'statsmodels:fair', or a path")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingExtra(
            f"source={source!r} needs {package}, which is not installed; install this project with its extra `demo` "
            "(`pip install '.[demo]'` in its checkout)"
        )
    home = Path(found.submodule_search_locations[0]) / _PACKAGES[package]
    tables = {path.stem: path for path in home.glob("*/*.csv") if path.stem == path.parent.name}
    if name not in tables:
        raise JobError(f"source={source!r}: {package} brings no table {name!r}; {nearest(name, tables)}")
    return tables[name]

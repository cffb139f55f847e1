"""Faults planted in the source of a function, for tables of mutants."""

import inspect
import sys
import textwrap
from typing import Any

import pytest


def plant(monkeypatch: pytest.MonkeyPatch, position: Any, name: str, old: str, new: str) -> None:
    """Put a function, method or property with a piece of its source replaced wherever the program has it by name."""
    there = inspect.getattr_static(position, name)
    function = there.fget if isinstance(there, property) else getattr(there, "__func__", there)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, (old, source)
    source = source.replace("@property\n", "").replace("@classmethod\n", "").replace(old, new)
    built: dict[str, Any] = {}
    exec(compile(source, function.__code__.co_filename, "exec"), function.__globals__, built)
    fault = built[function.__name__]
    fault = type(there)(fault) if isinstance(there, property | classmethod) else fault
    monkeypatch.setattr(position, name, fault)
    for module in list(sys.modules.values()):
        if inspect.ismodule(module) and vars(module).get(name) is there:
            monkeypatch.setattr(module, name, fault)

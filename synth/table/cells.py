"""Cells read one way or the other, with what is wrong with each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from synth.table.faults import Fault
from synth.table.given import Given

Faults = dict[Fault, np.ndarray]


@dataclass(frozen=True)
class Read:
    """Cells read as a kind.

    Attributes:
        values: canonical values of the cells, brought inside the bounds where asked; missing where unreadable.
        faults: for each kind of fault, which cells have it, boolean.
    """

    values: Any
    faults: Faults


def each(given: Given, parse: Callable[[Any], Any]) -> tuple[list[Any], Faults]:
    """Every cell parsed, none where missing or at fault, and the faults."""
    results = [None if absent else parse(cell) for cell, absent in zip(given.cells, given.missing, strict=True)]
    faults: Faults = {}
    for index, result in enumerate(results):
        if isinstance(result, Fault):
            faults.setdefault(result, np.zeros(len(results), dtype=bool))[index] = True
            results[index] = None
    return results, faults


def none(given: Given) -> np.ndarray:
    """No cell at all, as flags."""
    return np.zeros(len(given.cells), dtype=bool)

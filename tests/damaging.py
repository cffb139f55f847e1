"""Plain data damaged in one or a few places, as a disk, a tool or somebody does it: the same seed, the same damage."""

import copy
import random
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 10**6, 10**9, 2**40, 2**62, -(10**9), 10**400, 0.5, -0.5, 1e308, -1e308, 1e-320,
    float("nan"), float("inf"), "", "x", "\u202e", [], {}, [1], [[1]], ["a"], {"a": 1}, [None], [0] * 5,
)  # fmt: skip
FIRST = 5
"""Entries of a long list that are damaged apart from its last and middle ones."""
Path = tuple[Any, ...]


def damaged(content: Any, seed: int) -> Any:
    """A copy of plain data with one to three places replaced, removed, doubled or shuffled."""
    result, rng = copy.deepcopy(content), random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(_paths(result)))
        above = result
        for step in path[:-1]:
            above = above[step]
        _damage(above, path[-1], rng)
    return result


def _paths(content: Any, above: Path = ()) -> Iterator[Path]:
    if above:
        yield above
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _paths(value, (*above, key))
    elif isinstance(content, list):
        n = len(content)
        for path in range(n) if n <= FIRST else (0, 1, n // 2, n - 1):
            yield from _paths(content[path], (*above, path))


def _damage(above: Any, key: Any, rng: random.Random) -> None:
    value, how = above[key], rng.randrange(6)
    if how == 0:
        del above[key]
    elif how == 1 and isinstance(value, list) and value:
        value.append(value[0]) if rng.random() < 0.5 else value.pop()
    elif how == 2 and isinstance(value, list):
        rng.shuffle(value)
    elif how == 3 and isinstance(value, float):
        above[key] = value * rng.choice((-1, 2, 1e6, 1e-3))
    else:
        above[key] = copy.deepcopy(rng.choice(ODD))

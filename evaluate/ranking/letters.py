"""Groups of tables that cannot be told apart, each group a letter: two tables share one where nothing tells them apart.

Source: Piepho 2004, "An algorithm for a letter-based representation of all-pairwise comparisons", insert and absorb.
"""

from collections.abc import Iterable, Sequence


def letters(names: Sequence[str], apart: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each name: two names share a letter if and only if they are not told apart.

    Args:
        names: the best first, as the letters begin with them; no name twice.
        apart: pairs that are told apart, in either order.

    >>> letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(names)] if names else []
    for first, second in apart:
        split = [group - {name} for group in groups if {first, second} <= group for name in (first, second)]
        groups = _absorbed([group for group in groups if not {first, second} <= group] + split)
    place = {name: at for at, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(place[name] for name in group))
    return {name: "".join(_letter(at) for at, group in enumerate(groups) if name in group) for name in names}


def _absorbed(groups: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The groups without those that another one holds."""
    distinct = list(dict.fromkeys(groups))
    return [group for group in distinct if not any(group < other for other in distinct)]


def _letter(place: int) -> str:
    """Letters a to z, then a2 to z2, and so on.

    >>> _letter(0), _letter(27)
    ('a', 'b2')
    """
    turn, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")

"""Multiple testing: Holm-Bonferroni adjusted p-values, and letters for groups that no test tells apart.

Source: Holm 1979, "A simple sequentially rejective multiple test procedure"; Piepho 2004, "An algorithm for a
letter-based representation of all-pairwise comparisons", insert and absorb.
"""

from collections.abc import Iterable, Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given: at most 5 in 100 families have a false one below 0.05.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> [round(adjusted, 6) for adjusted in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p)), key=lambda position: p[position])
    adjusted, most = [1.0] * len(p), 0.0
    for rank, position in enumerate(order):
        most = max(most, min(1.0, (len(p) - rank) * p[position]))
        adjusted[position] = most
    return adjusted


def letters(names: Sequence[str], apart: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each name: two names share a letter if and only if they are not told apart.

    >>> letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(names)] if names else []
    for first, second in apart:
        split = [group - {name} for group in groups if {first, second} <= group for name in (first, second)]
        every = dict.fromkeys([group for group in groups if not {first, second} <= group] + split)
        groups = [group for group in every if not any(group < other for other in every)]
    position = {name: at for at, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(position[name] for name in group))
    return {name: "".join(_letter(at) for at, group in enumerate(groups) if name in group) for name in names}


def _letter(index: int) -> str:
    """Letters a to z, then a2 to z2, and so on.

    >>> _letter(0), _letter(27)
    ('a', 'b2')
    """
    turn, letter = divmod(index, 26)
    return chr(ord("a") + letter) + (str(turn + 1) if turn else "")

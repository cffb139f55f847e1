"""P-values that allow for how many comparisons were made, whatever depends on what."""

from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given: at most 5 in 100 families have a false one below 0.05.

    Args:
        p: of all comparisons that a reader looks at, each in [0, 1].

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    >>> [round(adjusted, 6) for adjusted in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p)), key=lambda place: p[place])
    adjusted, most = [1.0] * len(p), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = most
    return adjusted

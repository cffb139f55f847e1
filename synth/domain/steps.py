"""Steps that the values of a number keep, such as prices in fifties, told from exact or noisy shares."""

import math
from collections.abc import Mapping

from synth.schema.kinds.number import MOST_STEPS

BEYOND_CHANCE = 0.1  # least share of the values that are on a step and not by chance
EXPLAINED, ALWAYS = 0.02, 0.999
"""Least share of the values that a step explains beyond its neighbors, and the share from which on all are on it."""
SURE = 3.0  # standard errors of a noisy share by which a step stands out
FEWEST_STEPS = 10  # least number of different values that a step is told from


def usual_steps(largest: float) -> list[int]:
    """Steps that people prefer, ascending, up to the magnitude of the largest value, in counts of the precision."""
    power = math.floor(math.log10(max(largest, 1.0)))
    return sorted({5} | {mantissa * 10**k for k in range(power + 1) for mantissa in (10, 25, 50)})


def steps_of_shares(
    shares: Mapping[int, float], unit: float, error: float = 0.0
) -> tuple[tuple[float, float], ...]:  # fmt: skip
    """The steps that chance does not explain, by shares of values on multiples of each size and their error."""
    ladder = [(1, 1.0)]
    for size, share in shares.items():
        while size % ladder[-1][0] and share > ladder[-1][1]:
            ladder.pop()
        finer, of_finer = ladder[-1]
        if size % finer == 0 and share >= of_finer * finer / size + max(BEYOND_CHANCE, SURE * error):
            ladder.append((size, share if share < min(ALWAYS, 1 - error) else 1.0))
    # Of a precision of decimals, the quotient is the nearest float.
    coarsest = _telling(ladder)[:0:-1][:MOST_STEPS]
    exact = ((size * unit if unit >= 1 else size / round(1 / unit), share) for size, share in coarsest)
    return tuple((float(size), max(math.floor(100 * share) / 100, 0.01)) for size, share in exact)


def _telling(ladder: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Steps, finest first, without those that the ones around them explain."""
    step = 1
    while step < len(ladder) - 1:
        (finer, of_finer), (size, share), (coarser, of_coarser) = ladder[step - 1 : step + 2]
        by_chance = (finer / size - finer / coarser) / (1 - finer / coarser)
        if share < of_coarser + (of_finer - of_coarser) * by_chance + EXPLAINED:
            del ladder[step]
        else:
            step += 1
    return ladder

"""Whole numbers in a shuffled order that needs no memory: any stretch of it is known without the rest.

A number is split into two digits, and each in turn is moved round by a hash of the other: a Feistel network, whose
rounds can be undone, so that no two numbers come to the same. What falls outside is put through once more.

Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", method 3 and cycle walking. The order is as
good as random for names that mean nothing, and no secret.
"""

import math

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**62
"""Numbers that can be shuffled at most."""
ROUNDS = 8
Numbers = NDArray[np.uint64]


def permuted(places: Numbers, room: int, key: int) -> Numbers:
    """The numbers at some places of the numbers below `room`, shuffled; shape as `places`.

    Args:
        places: each below `room`.
        room: how many numbers there are, in [1, LARGEST].
        key: of the order, in [0, 2**64).

    >>> permuted(np.arange(10, dtype=np.uint64), 10, key=7).tolist()
    [7, 9, 0, 1, 6, 4, 5, 3, 8, 2]
    """
    high = math.isqrt(room - 1) + 1 if room > 1 else 1
    low = -(-room // high)
    keys = _mixed(np.arange(ROUNDS, dtype=np.uint64) + np.uint64(key))
    found = _walked(places, np.uint64(high), np.uint64(low), keys)
    outside = np.flatnonzero(found >= room)
    while len(outside):
        found[outside] = _walked(found[outside], np.uint64(high), np.uint64(low), keys)
        outside = outside[found[outside] >= room]
    return found


def _walked(numbers: Numbers, high: np.uint64, low: np.uint64, keys: Numbers) -> Numbers:
    """A permutation of the numbers below `high * low`."""
    left, right = np.divmod(numbers, low)
    for place in range(0, ROUNDS, 2):
        left = (left + _mixed(right + keys[place]) % high) % high
        right = (right + _mixed(left + keys[place + 1]) % low) % low
    return left * low + right


def _mixed(numbers: Numbers) -> Numbers:
    """A hash of 64 bits of each number. Source: Steele, Lea and Flood 2014, SplitMix64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))

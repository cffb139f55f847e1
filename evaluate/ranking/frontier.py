"""Tables that no other beats in both utility and privacy: whoever takes another one gives something away."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One table.

    Attributes:
        name: of the table.
        utility: higher is better.
        exposure: the unfavorable end of a privacy figure's interval; lower is better.
    """

    name: str
    utility: float
    exposure: float

    def beats(self, other: "Point") -> bool:
        """Whether it is at least as good in both and better in one."""
        no_worse = self.utility >= other.utility and self.exposure <= other.exposure
        return no_worse and (self.utility, self.exposure) != (other.utility, other.exposure)


def frontier(points: Sequence[Point]) -> tuple[str, ...]:
    """The names of the points that no other beats, in the order given.

    >>> frontier([Point("x", 0.9, 0.6), Point("y", 0.8, 0.5), Point("z", 0.7, 0.6)])
    ('x', 'y')
    """
    return tuple(one.name for one in points if not any(other.beats(one) for other in points))

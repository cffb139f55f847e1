"""Attribute inference by column: how often an attacker finds the value of a member, and of somebody else."""

from collections.abc import Sequence
from typing import Protocol

from markupsafe import Markup

from evaluate.text import alike, percent
from reports.charts import svg

WIDTH, LEFT, RIGHT, PITCH = 320.0, 8.0, 306.0, 36.0


class Rates(Protocol):
    """What the chart needs of one column: rates in [0, 1]."""

    @property
    def column(self) -> str:
        """Its name."""

    @property
    def members(self) -> float:
        """Success on members."""

    @property
    def controls(self) -> float:
        """Success on others."""

    @property
    def own(self) -> float | None:
        """Success on members by the attacker's own sample; none where there is no such number."""

    @property
    def advantage(self) -> tuple[float, float, float]:
        """Members less others, with its interval."""

    @property
    def alarms(self) -> bool:
        """Whether that lies above none."""


def inferred(columns: Sequence[Rates]) -> Markup:
    """The chart of some columns, in their order, all on an axis from none to all."""
    root = svg.canvas(
        WIDTH,
        len(columns) * PITCH + 22,
        f"How often the values of {len(columns)} columns are found, of members and others",
    )
    for i, one in enumerate(columns):
        y = i * PITCH + 28
        svg.words(root, "name", (LEFT, y - 12), one.column if len(one.column) <= MOST else f"{one.column[: MOST - 1]}…")
        svg.words(root, "tick num hot" if one.alarms else "tick num", (RIGHT, y - 12), _said(one.advantage), "end")
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        if one.own is not None:
            tick = svg.line(root, "mark", (_x(one.own), y - 6), (_x(one.own), y + 6))
            svg.hint(tick, f"by the attacker's own sample: {percent(one.own)}")
        svg.line(root, "stem", (_x(one.members), y), (_x(one.controls), y))
        others = svg.add(root, "circle", "dot hollow", cx=_x(one.controls), cy=y, r=4.5)
        svg.hint(others, f"others: {percent(one.controls)}")
        members = svg.add(root, "circle", "dot", cx=_x(one.members), cy=y, r=4.5)
        svg.hint(members, f"members: {percent(one.members)}")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        svg.words(root, "tick num", (_x(share), len(columns) * PITCH + 18), percent(share), anchor)
    return svg.rendered(root)


MOST = 24
"""Characters of a name that stand beside its number."""


def _x(share: float) -> float:
    return LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT)


def _said(advantage: tuple[float, float, float]) -> str:
    value, low, high = alike(*advantage)
    return f"{value} [{low}, {high}]"

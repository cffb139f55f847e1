"""How one vendor came out, and what all of them come to in a picture of utility against privacy, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluate.gate.finding import Finding
from evaluate.ranking.ranking import Point, frontier
from evaluate.result import Candidate, Estimate
from understudy.vendors.offers import Offered
from understudy.vendors.rules import name_of

Standing = Literal["ranked", "incomplete", "disqualified", "not evaluated"]
MOST_NAMED = 50
"""Extra columns that are named; of more only the number is told."""
EXPOSURE = "privacy.membership.auc"
UTILITIES = ("utility.tstr.boosting", "utility.tstr.linear")
"""What the picture shows as utility: the first that every table in it has."""


@dataclass(frozen=True)
class Vendor:
    """How one vendor came out.

    Attributes:
        name: of the vendor.
        file: name of the file that was delivered.
        standing: ranked; incomplete (it lacks columns, so it comes after all that lack none and is not compared with
            them); disqualified; or not evaluated.
        reason: why it is not ranked; empty where it is.
        offered: what is known of the table; none where it could not be read.
        n_rows: rows of it that were compared.
        claim: what the vendor claims, unverified.
        same_as: another vendor whose table holds the same rows; none where there is none.
        barred: findings that bar it from the ranking.
        open: findings that leave open whether they would.
        own: of them, those of the comparison's own rules.
    """

    name: str
    file: str
    standing: Standing
    reason: str = ""
    offered: Offered | None = None
    n_rows: int | None = None
    claim: Mapping[str, Any] | None = None
    same_as: str | None = None
    barred: Sequence[Finding] = ()
    open: Sequence[Finding] = ()
    own: Sequence[Finding] = field(default=(), repr=False)

    def content(self) -> dict[str, Any]:
        """The vendor as plain data."""
        offered, seen = self.offered, {id(finding) for finding in self.own}
        extra = () if offered is None else offered.extra
        return {
            "name": self.name,
            "file": self.file,
            "standing": self.standing,
            "reason": self.reason,
            "rows_offered": None if offered is None else offered.n_rows,
            "rows_compared": self.n_rows,
            "missing_columns": [] if offered is None else list(offered.lacking),
            "extra_columns": list(extra[:MOST_NAMED]),
            "n_extra_columns": len(extra),
            "formula_cells": None if offered is None else offered.n_formulas,
            "claim": None if self.claim is None else dict(self.claim),
            "same_as": self.same_as,
            "evidence": [{**f.to_dict(), "name": name_of(f.rule), "beyond_policy": id(f) in seen} for f in self.barred],
            "open": list(dict.fromkeys(name_of(f.rule) for f in self.open)),
        }


def picture(candidates: Sequence[Candidate], standings: Mapping[str, Standing]) -> dict[str, Any] | None:
    """Utility against the upper end of the membership attack's interval, as plain data; none without either.

    Args:
        candidates: every table that was measured.
        standings: of each by name; a table that is not ranked is on no frontier.
    """
    for utility in UTILITIES:
        found = [(c, c.find(utility), c.find(EXPOSURE)) for c in candidates]
        points = [
            (c.name, useful, exposed)
            for c, useful, exposed in found
            if isinstance(useful, Estimate) and isinstance(exposed, Estimate)
        ]
        if points:
            break
    else:
        return None
    ranked = [Point(name, of.value, _worst(by)) for name, of, by in points if standings[name] == "ranked"]
    best = frontier(ranked)
    shown = [
        {
            "name": name, "utility": of.value, "utility_low": of.low, "utility_high": of.high,
            "exposure": _worst(by), "exposure_value": by.value,
            "standing": standings[name], "best": name in best,
        }
        for name, of, by in points
    ]  # fmt: skip
    marks = points[0][1]
    return {
        "utility": utility, "exposure": EXPOSURE, "points": shown, "reference": marks.reference, "floor": marks.floor,
        "absent": [c.name for c in candidates if c.name not in {name for name, _, _ in points}],
    }  # fmt: skip


def _worst(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else estimate.high

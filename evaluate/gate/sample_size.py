"""What would settle a rule that is not settled: what its number counts, and whether this real table has so many.

A finding says how many would roughly decide (`evaluate.gate.finding`); how much of the real table that takes is another
matter. A holdout cannot be larger than the table that it is cut from, and some measures take no more rows than they do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evaluate.gate.finding import Finding, sampled
from evaluate.real_facts import RealFacts
from evaluate.result import Estimate
from evaluate.text import count

Growing = Literal["", "train", "holdout"]


@dataclass(frozen=True)
class Counted:
    """What the `n` of a number counts.

    Attributes:
        what: the counted things, as words.
        real: how many real rows each of them takes at least; 0 where synthetic rows alone are counted.
        most: of them that the measure takes, whatever the table holds; none: as many as there are.
        beside: the part of the real table whose rows are not counted, but have to grow as they do.
    """

    what: str
    real: int = 0
    most: int | None = None
    beside: Growing = ""

    def real_rows(self, n: int, n_needed: int, real: RealFacts) -> float:
        """Real rows that it takes at least; what has to grow beside them does so in proportion."""
        rows = {"": 0, "train": real.train_rows, "holdout": real.holdout_rows}[self.beside]
        return max(self.real * n_needed, float(rows) * n_needed / max(n, 1))


_SYNTHETIC = Counted("synthetic rows")
_COMPARED = Counted("rows of the holdout and as many synthetic ones", 1, 50_000)
_KEPT = Counted("synthetic rows, beside which the training rows have to grow alike", 0, 50_000, "train")
_COUNTS = Counted("synthetic rows, beside which the training rows have to grow alike", 0, None, "train")
_COPIED = Counted("synthetic rows, beside which the holdout has to grow alike", 0, None, "holdout")
_COPIED_PEOPLE = Counted("people who could be copied, beside whom the holdout has to grow alike", 1, None, "holdout")
_THREE = Counted("rows of each of three tables: training table, holdout and synthetic table", 2, 5_000)
_TEST = Counted("test rows, which are half of the holdout", 2, 20_000)
_PEOPLE = Counted("training rows and held-out rows, as many as the job\u2019s targets let attacks try", 1)
_MEMBERS = Counted("training rows that are attacked, beside which the holdout has to grow alike", 1, None, "holdout")
_ALONE = Counted("training and held-out rows that are alone with their combination", 1, None, "holdout")
_ATTEMPTS = Counted("attempts of the attack, not rows; the attack decides how many it makes")
_NOISY = Counted("rows as they were released; the interval is that of noise, and a larger epsilon narrows it too")

COUNTED: Mapping[str, Counted] = {
    "validity.": _SYNTHETIC,
    "columns.": _COMPARED,
    "columns.tail.": _KEPT,
    "columns.spikes.": _KEPT,
    "columns.lattice.": _KEPT,
    "columns.tvd.released": _NOISY,
    "pairs.": _COMPARED,
    "pairs.association.kept": _KEPT,
    "pairs.dependence.": _KEPT,
    "pairs.tvd.released": _NOISY,
    "triples.": _COMPARED,
    "joint.": _THREE,
    "utility.": _TEST,
    "utility.queries": _COMPARED,
    "utility.accuracy.released": _NOISY,
    "privacy.personal": _SYNTHETIC,
    "privacy.copies": _SYNTHETIC,
    "privacy.copies.people": _COPIED_PEOPLE,
    "privacy.copies.values": _COPIED_PEOPLE,
    "privacy.copies.parts": _COPIED_PEOPLE,
    "privacy.copies.near": _MEMBERS,
    "privacy.copies.excess": _COPIED,
    "privacy.copies.unique.excess": _COPIED,
    "privacy.multiset": _COUNTS,
    "privacy.membership.auc": _PEOPLE,
    "privacy.membership.tpr": _MEMBERS,
    "privacy.singling_out.": _ATTEMPTS,
    "privacy.linkability": _PEOPLE,
    "privacy.inference": _PEOPLE,
    "privacy.quasi_identifiers.": _ALONE,
}
"""What is counted, by how the names of numbers begin; the longest beginning counts."""

LARGER = "They come from samples of the tables: a larger sample_rows draws more."


def counted_in(measure: str) -> Counted | None:
    """What the `n` of a number counts; none where it has no interval that rows could narrow."""
    found = [beginning for beginning in COUNTED if measure.startswith(beginning)]
    return COUNTED[max(found, key=len)] if found else None


def deciding(finding: Finding, real: RealFacts) -> str:
    """What the rows are that would decide, and whether the real table has them; empty where no number of rows is named,
    and where the finding says so itself.

    Args:
        finding: of a rule.
        real: of the evaluation. *Sensitive*: so is the text.
    """
    counted = counted_in(finding.rule.measure)
    if finding.n_needed is None or finding.estimate is None or counted is None:
        return ""
    said = f"Counted are {counted.what}. {_had(counted, finding.estimate, finding.n_needed, real)}".strip()
    return "" if said in finding.reason else said


def _had(counted: Counted, estimate: Estimate, n_needed: int, real: RealFacts) -> str:
    """Whether there can be so many, as a sentence; empty where that is not known."""
    on_samples = sampled(estimate) != ""
    if counted.most is not None and n_needed > counted.most:
        return f"But the measure takes {count(counted.most)} of them at most: no larger split of this table can decide."
    if counted == _SYNTHETIC:
        return LARGER if on_samples else "Sampling more of them is enough."
    train, holdout = real.train_rows, real.holdout_rows
    if counted in (_ATTEMPTS, _NOISY):
        return ""
    if counted == _COMPARED and n_needed <= holdout:
        return LARGER if on_samples else "The holdout has so many: sampling more synthetic rows is enough."
    total = f"real table has {count(train + holdout)} rows in all"
    if counted.real_rows(estimate.n, n_needed, real) >= train + holdout:
        return f"But the {total}: no larger split of it can decide."
    return LARGER if on_samples else f"The {total}, so that another split of it can."

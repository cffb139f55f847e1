"""Sample sizes that would settle an INCONCLUSIVE rule, beside the rows that this real table has.

A finding says how many would roughly decide (`evaluate.gate.finding`); how much of the real table that takes is another
matter. A holdout cannot be larger than the table that it is cut from, and some measures take no more rows than they do.
"""

from evaluate.gate.finding import Finding, sampled
from evaluate.metrics import ATTEMPTS, CATALOG, COMPARED, NOISY, SYNTHETIC, Counted
from evaluate.real_facts import RealFacts
from evaluate.result import Estimate
from evaluate.text import count

LARGER = "They come from samples of the tables: a larger sample_rows draws more."


def deciding(finding: Finding, real: RealFacts) -> str:
    """What the rows are that would decide, and whether the real table has them; empty where no number of rows is named,
    and where the finding says so itself.

    Args:
        finding: of a rule.
        real: of the evaluation. *Sensitive*: so is the text.
    """
    counted = CATALOG[finding.rule.measure].counted
    if finding.n_needed is None or finding.estimate is None or counted is None:
        return ""
    said = f"Counted are {counted.what}. {_had(counted, finding.estimate, finding.n_needed, real)}".strip()
    return "" if said in finding.reason else said


def _had(counted: Counted, estimate: Estimate, n_needed: int, real: RealFacts) -> str:
    """A sentence on the possibility of so many rows; empty where that is not known."""
    on_samples = sampled(estimate) != ""
    if counted.most is not None and n_needed > counted.most:
        return f"But the measure takes {count(counted.most)} of them at most: no larger split of this table can decide."
    if counted == SYNTHETIC:
        return LARGER if on_samples else "Sampling more of them is enough."
    train, holdout = real.train_rows, real.holdout_rows
    if counted in (ATTEMPTS, NOISY):
        return ""
    if counted == COMPARED and n_needed <= holdout:
        return LARGER if on_samples else "The holdout has so many: sampling more synthetic rows is enough."
    total = f"real table has {count(train + holdout)} rows in all"
    if counted.real_rows(estimate.n, n_needed, real) >= train + holdout:
        return f"But the {total}: no larger split of it can decide."
    return LARGER if on_samples else f"The {total}, so that another split of it can."

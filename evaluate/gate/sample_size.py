"""Sample sizes that would settle an INCONCLUSIVE rule, beside the rows that this real table has.

A finding says how many would roughly decide (`evaluate.gate.finding`); how much of the real table that takes is another
matter. A holdout cannot be larger than the table that it is cut from, and some measures take no more rows than they do.
"""

import re
from dataclasses import replace

from evaluate.gate.finding import BOUNDED, Finding, sampled
from evaluate.metrics import ATTEMPTS, CATALOG, COMPARED, NOISY, SYNTHETIC, Counted
from evaluate.real_facts import RealFacts
from evaluate.result import Estimate
from evaluate.text import count

LARGER = "They come from samples of the tables: a larger sample_rows draws more."
_WOULD = re.compile("; about n = [^.]*")


def settled(finding: Finding, real: RealFacts) -> Finding:
    """The finding with the rows that would decide in its reason, or that this table cannot have them. `real`: of the
    evaluation. *Sensitive*: so is the finding.
    """
    more = deciding(finding, real)
    if not more:
        return finding
    if _lacking(finding, real):
        return replace(finding, reason=f"{_WOULD.sub('', finding.reason, count=1)} {more}", n_needed=None)
    return replace(finding, reason=f"{finding.reason} {more}")


def deciding(finding: Finding, real: RealFacts) -> str:
    """What the rows are that would decide, and whether the real table has them; empty where no number of rows is named,
    and where the finding says so itself. `real`: of the evaluation. *Sensitive*: so is the text.
    """
    counted = CATALOG[finding.rule.measure].counted
    if finding.n_needed is None or finding.estimate is None or counted is None:
        return ""
    lacking = _lacking(finding, real)
    if lacking:
        return (
            f"This table cannot decide it: about n = {finding.n_needed:,} would, instead of {finding.estimate.n:,}. "
            f"Counted are {counted.what}, and {lacking}. {_else(finding)}"
        )
    said = f"Counted are {counted.what}. {_had(counted, finding.estimate, finding.n_needed, real)}".strip()
    return "" if said in finding.reason else said


def _lacking(finding: Finding, real: RealFacts) -> str:
    """The reason why no larger split of the real table has so many; empty where one does, or nobody knows."""
    counted, n_needed = CATALOG[finding.rule.measure].counted, finding.n_needed
    if counted is None or finding.estimate is None or n_needed is None:
        return ""
    if counted.most is not None and n_needed > counted.most:
        return f"the measure takes {count(counted.most)} of them at most"
    n_rows = real.train_rows + real.holdout_rows
    if counted in (SYNTHETIC, ATTEMPTS, NOISY) or counted.real_rows(finding.estimate.n, n_needed, real) < n_rows:
        return ""
    return f"the real table has {count(n_rows)} rows in all"


def _else(finding: Finding) -> str:
    """What decides a rule without any more rows."""
    rule = BOUNDED.fullmatch(finding.rule.measure)
    if rule is not None and finding.rule.limit > (0.5 if rule["rate"] is None else float(rule["rate"])):
        return "A private fit with a small enough epsilon proves this rule; else an owner may waive it."
    return "An owner may waive it."


def _had(counted: Counted, estimate: Estimate, n_needed: int, real: RealFacts) -> str:
    """A sentence on where so many rows come from; empty where that is not known."""
    on_samples = sampled(estimate) != ""
    if counted == SYNTHETIC:
        return LARGER if on_samples else "Sampling more of them is enough."
    if counted in (ATTEMPTS, NOISY):
        return ""
    if counted == COMPARED and n_needed <= real.holdout_rows:
        return LARGER if on_samples else "The holdout has so many: sampling more synthetic rows is enough."
    n_rows = count(real.train_rows + real.holdout_rows)
    return LARGER if on_samples else f"The real table has {n_rows} rows in all, so that another split of it can."

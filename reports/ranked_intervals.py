"""How far chance moves each figure that vendors are ranked by, as measured of each table alone.

Letters of groups rest on differences between tables. Values that lie far apart may share one where the interval of
either is wide, so that a page shows both.
"""

from collections.abc import Mapping

from evaluate.ranking.figures import FIGURES
from evaluate.result import Estimate, Evaluation
from reports.glossary import entry


def intervals_of(evaluation: Evaluation) -> Mapping[tuple[str, str], Estimate]:
    """Estimates by title of the figure and name of the table; a number without an interval is not there."""
    if evaluation.ranking is None:
        return {}
    found = ((c.name, c.find(measure)) for c in evaluation.candidates for measure in FIGURES)
    return {
        (entry(one.measure).title, name): one
        for name, one in found
        if isinstance(one, Estimate) and one.low is not None and one.high is not None
    }

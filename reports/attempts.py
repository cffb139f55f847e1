"""How many evaluations of a real table were counted, as an evaluation says."""

from collections.abc import Mapping
from typing import Any

from evaluate.plain_data import mapping, whole


def evaluations_of(provenance: Mapping[str, Any], *, by_name: bool) -> int | None:
    """Evaluations that were run, this one included; none where nobody counted.

    Args:
        provenance: of an evaluation.
        by_name: count by the declared name of the dataset, as whatever is public has to: a count by the table's very
            rows would tell whether one of them changed.

    >>> evaluations_of({"attempts": {"evaluations": 2, "by_name": {"evaluations": 5}}}, by_name=True)
    5
    """
    counted = mapping(provenance.get("attempts"))
    return whole(mapping(counted.get("by_name") if by_name else counted).get("evaluations")) or None

"""A workload: the marginals that a model should get right, and how much each matters.

A user weighs columns; a mechanism that chooses or weighs marginals takes the workload that these weights make.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

from pydantic import Field

from synth.errors import JobError, nearest
from synth.marginals.factor import Clique, shape_of
from synth.schema import Schema

Weight = Annotated[float, Field(strict=True, gt=0, le=1000)]
"""Weight of the marginals with a column; 1 for a column that nobody names."""


@dataclass(frozen=True)
class Workload:
    """All marginals of one degree, those of some attributes mattering more.

    Attributes:
        weights: of the attributes, positive.
        degree: number of attributes of a marginal of the workload.

    DEVIATES: the paper weighs every marginal s of the workload by c_s and scores a clique r by w_r, the sum of c_s |r &
    s|. That is a sum over the attributes a of r of the total weight of the marginals that hold a. So the weights are
    given by attribute. With equal ones, w_r is the number of attributes, up to a factor, as in the paper.

    Source: McKenna et al. 2022 (2201.12677), section 4 (workload-aware scores, downward closure).

    >>> workload = Workload({"a": 1.0, "b": 1.0, "income": 2.0}, degree=2)
    >>> workload.weight(("a", "income")), len(list(workload.cliques({"a": 2, "b": 3, "income": 2}, max_cells=4)))
    (1.0, 4)
    """

    weights: Mapping[str, float]
    degree: int

    def __post_init__(self) -> None:
        if self.degree < 1 or not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("a workload has a degree of at least 1 and finite weights above 0")

    @property
    def heaviest(self) -> float:
        """The largest sum of weights that a clique can have."""
        return math.fsum(sorted(self.weights.values(), reverse=True)[: self.degree])

    def weight(self, clique: Clique) -> float:
        """Weight of a clique, in (0, 1]: the sensitivity of a score that it multiplies does not grow."""
        # Exact sums: in another order, rounding could take the heaviest clique above 1.
        return math.fsum(self.weights[name] for name in clique) / self.heaviest

    def cliques(self, domain: Mapping[str, int], max_cells: float) -> Iterator[Clique]:
        """The downward closure: every clique of up to `degree` attributes, single attributes first.

        Args:
            domain: number of codes of each attribute.
            max_cells: a clique with more cells is left out, unless it is a single attribute.
        """
        for order in range(1, self.degree + 1):
            for clique in combinations(domain, order):
                if order == 1 or math.prod(shape_of(domain, clique)) <= max_cells:
                    yield clique


def check_workload(workload: Mapping[str, float], schema: Schema) -> None:
    """Refuse weights of columns that no model holds.

    Raises:
        JobError: the workload names what is no modeled column of the schema.
    """
    for name in workload:
        if name not in schema.modeled:
            raise JobError(
                "a workload weighs single columns that the generator models: "
                f"column={name!r} is {_not_modeled(name, schema)}"
            )


def column_weights(workload: Mapping[str, float], focus: float, schema: Schema) -> dict[str, float]:
    """The weight of each modeled column: that of the workload, times 1 + `focus` by its role; public."""
    roles = {schema.target, *schema.sensitive}
    return {name: workload.get(name, 1.0) * (1.0 + (focus if name in roles else 0.0)) for name in schema.modeled}


def _not_modeled(name: str, schema: Schema) -> str:
    """The reason why a name is no modeled column, and the remedy."""
    if name in schema.equivalents:
        return f"computed from {schema.equivalents[name].determinant!r}; weigh that one"
    if name in schema.columns:
        return "dropped, computed or made anew; take it out of the workload"
    return f"not in the schema; {nearest(name, schema.modeled)}"

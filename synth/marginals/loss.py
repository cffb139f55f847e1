"""The loss: how far the beliefs on a junction tree are from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synth.marginals.beliefs import Beliefs
from synth.marginals.factor import Array, Clique
from synth.marginals.junction_tree import JunctionTree
from synth.marginals.measurement import Measurement
from synth.marginals.projections import Projections


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """How beliefs fit the measurements.

    Attributes:
        loss: half the sum of squared residuals in standard deviations.
        marginals: for each measurement the beliefs' counts of its cells.
        gradients: derivative of the loss by these counts.
    """

    loss: float
    marginals: list[Array]
    gradients: list[Array]


@dataclass(frozen=True, eq=False, repr=False)
class MarginalLoss:
    """Half the squared distance between counts and measurements, each cell in its own standard deviations.

    Attributes:
        tree: a junction tree; each measurement's clique lies within one of the tree's.
        measurements: one for each clique, attributes in the domain's order (as `merge` gives them).
        total: number of rows the beliefs are scaled to.

    Source: McKenna et al. 1901.09136, section 4 (the L2 loss).
    """

    tree: JunctionTree
    measurements: Sequence[Measurement]
    total: float

    def __call__(self, beliefs: Beliefs) -> Fit:
        """How the beliefs fit."""
        tables = {home: found.down(beliefs.marginals[home]) for home, found in self._projections.items()}
        loss, marginals, gradients = 0.0, [], []
        for measurement, home, precision in zip(self.measurements, self._homes, self._precisions, strict=True):
            table = tables[home][self._projections[home].index[measurement.clique]]
            marginal = table * self.total
            residual = np.asarray(marginal - measurement.values)
            gradient = residual * precision
            loss += 0.5 * float(np.vdot(residual, gradient))
            marginals.append(marginal)
            gradients.append(gradient)
        return Fit(loss, marginals, gradients)

    def spread(self, gradients: Sequence[Array]) -> dict[int, Array]:
        """The gradients added up over the tree's cliques that are their homes, by index of the clique."""
        parts: dict[int, dict[Clique, Array]] = {home: {} for home in self._projections}
        for measurement, home, gradient in zip(self.measurements, self._homes, gradients, strict=True):
            parts[home][measurement.clique] = gradient
        return {home: self._projections[home].up(part) for home, part in parts.items()}

    @cached_property
    def _homes(self) -> list[int]:
        homes = []
        for measurement in self.measurements:
            home = self.tree.home(measurement.clique)
            if home is None:
                raise ValueError(f"a measurement needs a clique that holds it: clique={measurement.clique}")
            homes.append(home)
        return homes

    @cached_property
    def _projections(self) -> dict[int, Projections]:
        """How the measured marginals come from the tables of the tree's cliques, by index of the clique."""
        held: dict[int, list[Clique]] = {}
        for measurement, home in zip(self.measurements, self._homes, strict=True):
            held.setdefault(home, []).append(measurement.clique)
        return {home: Projections.of(self.tree.domain, self.tree.cliques[home], found) for home, found in held.items()}

    @cached_property
    def _precisions(self) -> list[Array]:
        return [np.asarray(np.reciprocal(np.square(measurement.sigma))) for measurement in self.measurements]

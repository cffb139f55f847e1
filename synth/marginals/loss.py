"""The loss: how far the beliefs on a junction tree are from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synth.marginals.beliefs import Beliefs
from synth.marginals.factor import Array, axes_beside, broadcast_shape
from synth.marginals.junction_tree import JunctionTree
from synth.marginals.measurement import Measurement


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
        loss, marginals, gradients = 0.0, [], []
        for measurement, (home, axes, _), precision in zip(
            self.measurements, self._homes, self._precisions, strict=True
        ):
            marginal = np.add.reduce(beliefs.marginals[home], axis=axes) * self.total
            residual = np.asarray(marginal - measurement.values)
            gradient = residual * precision
            loss += 0.5 * float(np.vdot(residual, gradient))
            marginals.append(marginal)
            gradients.append(gradient)
        return Fit(loss, marginals, gradients)

    def spread(self, gradients: Sequence[Array]) -> dict[int, Array]:
        """The gradients added up over the tree's cliques that are their homes, by index of the clique."""
        spread: dict[int, Array] = {}
        for gradient, (home, _, shape) in zip(gradients, self._homes, strict=True):
            table = gradient.reshape(shape)
            spread[home] = spread[home] + table if home in spread else table
        return spread

    @cached_property
    def _homes(self) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        homes = []
        for measurement in self.measurements:
            home = self.tree.home(measurement.clique)
            if home is None:
                raise ValueError(f"a measurement needs a clique that holds it: clique={measurement.clique}")
            axes = axes_beside(self.tree.cliques[home], measurement.clique)
            shape = broadcast_shape(measurement.clique, measurement.values.shape, self.tree.cliques[home])
            homes.append((home, axes, shape))
        return homes

    @cached_property
    def _precisions(self) -> list[Array]:
        return [np.asarray(np.reciprocal(np.square(measurement.sigma))) for measurement in self.measurements]

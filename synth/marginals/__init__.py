"""From noisy counts to a distribution, and from the distribution to rows; knows neither tables nor privacy."""

from synth.marginals.distributions import LatentClasses, MarkovRandomField
from synth.marginals.estimation import estimate
from synth.marginals.factor import Clique, Factor, Measurement
from synth.marginals.junction_tree import JunctionTree, junction_tree
from synth.marginals.sampling import sample, sample_classes

__all__ = [
    "Clique",
    "Factor",
    "JunctionTree",
    "LatentClasses",
    "MarkovRandomField",
    "Measurement",
    "estimate",
    "junction_tree",
    "sample",
    "sample_classes",
]

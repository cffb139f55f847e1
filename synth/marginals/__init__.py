"""From noisy counts to a distribution, and from the distribution to rows; knows neither tables nor privacy."""

from synth.marginals.estimation import estimate
from synth.marginals.factor import Clique, Factor, Measurement
from synth.marginals.junction_tree import JunctionTree, junction_tree
from synth.marginals.latent_classes import LatentClasses
from synth.marginals.markov_random_field import MarkovRandomField
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

"""Sequential trees: every column of a table from those before it, by gradient boosting and CART."""

from synth.trees.forest import Growth
from synth.trees.sequential import SequentialTrees, fit_sequence

__all__ = ["Growth", "SequentialTrees", "fit_sequence"]

"""Columns to integer codes and back: the one discretizer of marginals, conditions and every marginal metric."""

from synth.domain.discretizer import Attribute, Discretizer
from synth.domain.grid import MAX_CELLS

__all__ = ["MAX_CELLS", "Attribute", "Discretizer"]

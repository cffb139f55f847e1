"""A distribution given evidence on single attributes: exact, and no harder to sample than without."""

from collections.abc import Mapping

import numpy as np

from synth.errors import ModelError
from synth.marginals.factor import Array, Factor
from synth.marginals.model import MarkovRandomField


def condition(model: MarkovRandomField, evidence: Mapping[str, Array]) -> MarkovRandomField:
    """The model given what is known of some attributes, one by one; exact.

    Evidence on one attribute is a factor of one, which joins no cliques: the tree stays as it was.

    Args:
        model: the distribution; its total is kept.
        evidence: for each attribute a weight of each of its codes, shape (size,), nonnegative: how much likelier the
            code makes what is known. Zero rules a code out, ones say nothing; only proportions matter.

    Raises:
        ValueError: evidence names no attribute of the model, or is not one weight for each of its codes.
        ModelError: the model has no mass where the evidence lies; there is no distribution to give.

    Source: Koller & Friedman 2009, Probabilistic Graphical Models, section 9.3.2 (evidence reduces factors).

    >>> model = MarkovRandomField({"a": 2, "b": 2}, (Factor(("a", "b"), np.log([[4.0, 2.0], [1.0, 3.0]])),), total=10)
    >>> condition(model, {"b": np.array([0.0, 1.0])}).marginal(("a",)).round(6).tolist()
    [4.0, 6.0]
    """
    if not evidence:
        return model
    known = [_factor(name, np.asarray(weights, dtype=np.float64), model) for name, weights in evidence.items()]
    conditioned = MarkovRandomField(model.domain, (*model.potentials, *known), model.total)
    if not conditioned.beliefs.marginals[0].sum() > 0:
        raise ModelError(
            f"a distribution has no mass where the evidence lies: attributes={sorted(evidence)}; ask for codes that "
            "go together"
        )
    return conditioned


def _factor(name: str, weights: Array, model: MarkovRandomField) -> Factor:
    if name not in model.domain:
        raise ValueError(f"evidence names attributes of the domain: attribute={name!r}")
    if weights.shape != (model.domain[name],) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"evidence is one finite weight of at least 0 for each code: attribute={name!r}, shape={weights.shape}, "
            f"codes={model.domain[name]}"
        )
    with np.errstate(divide="ignore"):
        return Factor((name,), np.log(weights))

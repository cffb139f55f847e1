"""A generator in scikit-learn's shape: parameters at first, then `fit`, then `sample`."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from synth.generators.fit import fit
from synth.generators.models.model import Model
from synth.progress import quiet
from synth.schema import Schema


class Synthesizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A generator of synthetic rows, as an estimator: `clone`, `get_params` and `set_params` work.

    Args:
        generator: the name of a generator.
        schema: what is public about the table; `None`: it is inferred, and not shown.
        n_units: as of `us.fit`.
        public: as of `us.fit`.
        seed: for everything but the noise of a private fit.
        parameters: of the generator, such as `epochs=50`.

    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.integers(18, 90, 200), "ill": rng.random(200) < 0.3})
    >>> Synthesizer("mst", n_bins=16).fit(frame).sample(3, seed=0).shape
    (3, 2)
    """

    def __init__(
        self,
        generator: str = "auto",
        *,
        schema: Schema | None = None,
        n_units: int | None = None,
        public: Mapping[str, Any] | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        self.generator = generator
        self.schema = schema
        self.n_units = n_units
        self.public = public
        self.seed = seed
        self.__dict__.update(parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its parameters by name, those of the generator among them."""
        return {name: value for name, value in vars(self).items() if not (name[0] == "_" or name[-1] == "_")}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; returns itself. One that the generator does not know is refused by `fit`."""
        self.__dict__.update(params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the generator to rows.

        Args:
            X: *Sensitive*. A frame of any library, or an array, whose columns are then called x0, x1, ...
            y: ignored; a target is a column of X.
        """
        is_array = isinstance(X, np.ndarray | list) or issparse(X)
        if is_array:
            X = check_array(X, dtype=None, ensure_all_finite="allow-nan")
            X = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
        self.model_: Model = fit(X, progress=quiet, **self.get_params())
        self.is_array_ = is_array
        self.feature_names_in_ = np.array(self.model_.schema.kept, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def sample(self, n_rows: int | None = None, **options: Any) -> Any:
        """Synthetic rows, as `sample` of a fitted model gives them; an array where it was fitted to one."""
        check_is_fitted(self)
        rows = self.model_.sample(n_rows, **options)
        return rows.to_numpy() if self.is_array_ else rows

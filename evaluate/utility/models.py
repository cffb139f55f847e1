"""The two models that utility is measured with, and what they predict for rows they have not seen."""

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from evaluate.utility.features import Features, Form
from synth.schema import Schema

FORMS: tuple[Form, ...] = ("linear", "boosting")
BOOSTING: dict[str, Any] = {
    "learning_rate": 0.05, "max_leaf_nodes": 15, "min_samples_leaf": 20, "early_stopping": False, "random_state": 0,
}  # fmt: skip
"""Smaller steps and trees than customary: on a thousand rows with a heavy tail the customary ones learn noise, and the
gap between two honest tables then says nothing."""


class Fitted(Protocol):
    """A model that has learned."""

    @property
    def converged(self) -> bool:
        """Whether its fit did."""

    @property
    def features(self) -> Features | None:
        """How rows become its matrix; none for a model that looks at none of their columns."""

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """Probabilities of the classes, shape (n, n_classes), or numbers, shape (n,)."""

    def predict_matrix(self, X: np.ndarray) -> np.ndarray:
        """The same for rows that are a matrix already."""


@dataclass(frozen=True)
class Constant:
    """A model that predicts the same for every row.

    Attributes:
        prediction: shape (n_classes,), or () for a number.
    """

    prediction: np.ndarray
    converged: bool = True
    features: Features | None = None

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """As `Fitted` says."""
        return self.predict_matrix(np.empty((len(frame), 0)))

    def predict_matrix(self, X: np.ndarray) -> np.ndarray:
        """As `Fitted` says."""
        return np.broadcast_to(self.prediction, (len(X), *self.prediction.shape)).copy()


@dataclass(frozen=True)
class Classifier:
    """Probabilities of classes; those that it has not seen have probability 0."""

    model: Any
    features: Features
    seen: np.ndarray
    n_classes: int
    converged: bool

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """As `Fitted` says."""
        return self.predict_matrix(self.features.apply(frame))

    def predict_matrix(self, X: np.ndarray) -> np.ndarray:
        """As `Fitted` says."""
        scores = np.zeros((len(X), self.n_classes))
        scores[:, self.seen] = _alone(self.model.predict_proba, X)
        return scores


@dataclass(frozen=True)
class Regressor:
    """Numbers, within the range of those that it has seen."""

    model: Any
    features: Features
    center: float
    scale: float
    limits: tuple[float, float]
    converged: bool

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """As `Fitted` says."""
        return self.predict_matrix(self.features.apply(frame))

    def predict_matrix(self, X: np.ndarray) -> np.ndarray:
        """As `Fitted` says."""
        return np.asarray(np.clip(_alone(self.model.predict, X) * self.scale + self.center, *self.limits))


def fit_classes(form: Form, rows: pd.DataFrame, classes: np.ndarray, schema: Schema, n_classes: int) -> Fitted:
    """A classifier that has learned the rows.

    Args:
        form: the model.
        rows: *Sensitive* where they are real. At least one row.
        classes: the class of each of them, in [0, n_classes).
        schema: names the target.
        n_classes: classes that never occur in `rows` get probability 0.
    """
    seen = np.unique(classes)
    shares = np.bincount(classes, minlength=n_classes) / len(classes)
    if len(seen) == 1:
        return Constant(shares)
    features = Features.fit(rows, schema, form)
    if not features.parts:
        return Constant(shares)
    model, converged = _fit(_classifier(form, features), features.apply(rows), classes)
    return Classifier(model, features, seen, n_classes, converged)


def fit_numbers(form: Form, rows: pd.DataFrame, numbers: np.ndarray, schema: Schema) -> Fitted:
    """A regressor that has learned the rows. Args are those of `fit_classes`, `numbers` being the target."""
    if len(np.unique(numbers)) == 1:
        return Constant(np.asarray(numbers[0]))
    features = Features.fit(rows, schema, form)
    center, scale = float(numbers.mean()), float(numbers.std())
    if not features.parts:
        return Constant(np.asarray(center))
    model, converged = _fit(_regressor(form, features), features.apply(rows), (numbers - center) / scale)
    return Regressor(model, features, center, scale, (float(numbers.min()), float(numbers.max())), converged)


def _classifier(form: Form, features: Features) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if form == "linear":
        return LogisticRegression(max_iter=2_000, tol=1e-3)
    return HistGradientBoostingClassifier(categorical_features=features.categories, **BOOSTING)


def _regressor(form: Form, features: Features) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    if form == "linear":
        return Ridge(alpha=1.0)
    return HistGradientBoostingRegressor(categorical_features=features.categories, **BOOSTING)


def _fit(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, bool]:
    """The model once it has learned, and whether it converged. Any other warning is passed on, but of many classes."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model = _alone(model.fit, X, y)
    others = [warning for warning in caught if not issubclass(warning.category, ConvergenceWarning)]
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return model, len(others) == len(caught)


def _alone(call: Any, *arguments: np.ndarray) -> Any:
    """A call in one thread: the same sums in the same order everywhere, and no threads that wait for each other."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return call(*arguments)

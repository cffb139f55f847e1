"""The two models that utility is measured with, and what they predict for rows they have not seen."""

import warnings
from typing import Any

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


def class_scores(
    form: Form, rows: pd.DataFrame, classes: np.ndarray, test: pd.DataFrame, schema: Schema, n_classes: int
) -> tuple[np.ndarray, bool]:
    """How likely each class is for the test rows, learned from `rows`.

    Args:
        form: the model.
        rows: *Sensitive* where they are real. At least one row.
        classes: the class of each of them, in [0, n_classes).
        test: *Sensitive*. Rows to predict.
        schema: names the target.
        n_classes: classes that never occur in `rows` get probability 0.

    Returns:
        Probabilities, shape (len(test), n_classes), and whether the fit converged.
    """
    scores, seen = np.zeros((len(test), n_classes)), np.unique(classes)
    if len(seen) == 1:
        scores[:, seen[0]] = 1.0
        return scores, True
    features = Features.fit(rows, schema, form)
    if not features.parts:
        return np.tile(np.bincount(classes, minlength=n_classes) / len(classes), (len(test), 1)), True
    X = features.apply(rows), features.apply(test)
    scores[:, seen], converged = _predicted(_classifier(form, features), "predict_proba", X, classes)
    return scores, converged


def number_scores(
    form: Form, rows: pd.DataFrame, numbers: np.ndarray, test: pd.DataFrame, schema: Schema
) -> tuple[np.ndarray, bool]:
    """The target predicted for the test rows, learned from `rows`, within the range of their targets.

    Args are those of `class_scores`, `numbers` being the target.

    Returns:
        Predictions, shape (len(test),), and whether the fit converged.
    """
    if len(np.unique(numbers)) == 1:
        return np.full(len(test), numbers[0]), True
    features = Features.fit(rows, schema, form)
    center, scale = numbers.mean(), numbers.std()
    if not features.parts:
        return np.full(len(test), center), True
    X = features.apply(rows), features.apply(test)
    predictions, converged = _predicted(_regressor(form, features), "predict", X, (numbers - center) / scale)
    return np.clip(predictions * scale + center, numbers.min(), numbers.max()), converged


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


def _predicted(model: Any, method: str, X: tuple[np.ndarray, np.ndarray], y: np.ndarray) -> tuple[np.ndarray, bool]:
    """What the model predicts for X[1] once it has learned X[0], and whether it converged.

    Any other warning is passed on.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # One thread: the same sums in the same order everywhere, and no threads that wait for each other on a busy machine.
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predictions = getattr(model.fit(X[0], y), method)(X[1])
    others = [warning for warning in caught if not issubclass(warning.category, ConvergenceWarning)]
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return np.asarray(predictions), len(others) == len(caught)

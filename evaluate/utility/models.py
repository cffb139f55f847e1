"""The two models that utility is measured with, and what they predict for rows they have not seen."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from evaluate.utility.features import Features, Form
from synth.schema import Schema

FORMS: tuple[Form, ...] = ("linear", "boosting")


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
    model, converged = _fitted(_classifier(form, features), features.apply(rows), classes)
    scores[:, seen] = model.predict_proba(features.apply(test))
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
    model, converged = _fitted(_regressor(form, features), features.apply(rows), (numbers - center) / scale)
    predictions = model.predict(features.apply(test)) * scale + center
    return np.clip(predictions, numbers.min(), numbers.max()), converged


def _classifier(form: Form, features: Features) -> Callable[[], Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if form == "linear":
        return lambda: LogisticRegression(max_iter=2_000, tol=1e-3)
    return lambda: HistGradientBoostingClassifier(
        categorical_features=features.categories, early_stopping=False, random_state=0
    )


def _regressor(form: Form, features: Features) -> Callable[[], Any]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    if form == "linear":
        return lambda: Ridge(alpha=1.0)
    return lambda: HistGradientBoostingRegressor(
        categorical_features=features.categories, early_stopping=False, random_state=0
    )


def _fitted(build: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> tuple[Any, bool]:
    """The fitted model and whether it converged; any other warning is passed on."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = build().fit(X, y)
    others = [warning for warning in caught if not issubclass(warning.category, ConvergenceWarning)]
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return model, len(others) == len(caught)

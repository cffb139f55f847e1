"""The two models of utility, linear and gradient boosting: their features, their fit, and their predictions."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from synth.schema import Schema, TaskKind
from synth.schema.kinds import LineColumn

Form = Literal["linear", "boosting"]
MAX_LEVELS: dict[Form, int] = {"linear": 30, "boosting": 250}
"""Levels of a category that a model tells apart, the most frequent ones; the others are one level."""
MAX_DEVIATIONS = 10.0
"""Standard deviations at which a linear model's numbers are cut off, so that one outlier does not carry it."""


def predictors(schema: Schema) -> tuple[str, ...]:
    """The columns that predict the target: all learned ones but the target itself and survey weights."""
    weights = [name for name in schema.learned if schema.columns[name].is_weight]
    return tuple(sorted(set(schema.learned) - {schema.target} - set(weights)))


def as_levels(series: pd.Series) -> pd.Series:
    """The same values as codes of levels: quick to count and to look up where it is done once for many fits."""
    return series if isinstance(series.dtype, pd.CategoricalDtype) else series.astype(object).astype("category")


@dataclass(frozen=True)
class Levels:
    """A column with categories: one column of zeros and ones for each level, or one of codes."""

    known: pd.Index  # *Sensitive*. As declared where they have an order, else the most frequent ones first
    is_ordered: bool = False

    @classmethod
    def fit(cls, series: pd.Series, form: Form) -> "Levels":
        """The most frequent levels of a column; among equally frequent ones the first in order."""
        counts = as_levels(series).value_counts(sort=False).sort_index()
        ranked = counts[counts > 0].sort_values(ascending=False, kind="stable").index[: MAX_LEVELS[form]]
        return cls(pd.Index(ranked.tolist(), dtype=object))

    def apply(self, series: pd.Series, form: Form) -> np.ndarray:
        """Coordinates of the values, shape (n, d), float64; boosting takes codes, NaN where missing."""
        levels = as_levels(series).cat
        codes = self.known.get_indexer(pd.Index(levels.categories.tolist(), dtype=object))
        codes = np.append(np.where(codes < 0, len(self.known), codes), len(self.known) + 1)  # missing is last, as -1 is
        codes = codes[levels.codes]
        if form == "boosting":
            return np.where(codes > len(self.known), np.nan, codes.astype(np.float64))[:, None]
        return np.eye(len(self.known) + 2)[codes]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or times: standardized with a flag for missing, or as it is."""

    column: LineColumn
    center: float
    scale: float

    @classmethod
    def fit(cls, series: pd.Series, column: LineColumn) -> "Numbers":
        """Mean and deviation of a column; 0 and 1 where it is missing throughout."""
        values = column.positions(series)
        values = values[~np.isnan(values)]
        deviation = float(values.std()) if len(values) else 0.0
        return cls(column, float(values.mean()) if len(values) else 0.0, deviation if deviation > 0 else 1.0)

    def apply(self, series: pd.Series, form: Form) -> np.ndarray:
        """Coordinates of the values, shape (n, d), float64; boosting takes NaN where missing."""
        values = (self.column.positions(series) - self.center) / self.scale
        if form == "boosting":
            return np.asarray(values[:, None])
        missing = np.isnan(values)
        cut = np.clip(np.where(missing, 0.0, values), -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return np.column_stack([cut, missing])


@dataclass(frozen=True)
class Features:
    form: Form
    parts: dict[str, Levels | Numbers]

    @classmethod
    def fit(cls, frame: pd.DataFrame, schema: Schema, form: Form) -> "Features":
        """Features fitted on the rows that a model learns from. `frame`: *Sensitive* where it is real."""
        parts: dict[str, Levels | Numbers] = {}
        for name in predictors(schema):
            column = schema.columns[name]
            if frame[name].nunique() + int(frame[name].hasnans) < 2:
                continue
            if form == "boosting" and column.is_ordered:
                parts[name] = Levels(pd.Index(column.categories, dtype=object), is_ordered=True)
            elif column.is_categorical:
                parts[name] = Levels.fit(frame[name], form)
            else:
                parts[name] = Numbers.fit(frame[name], column)  # type: ignore[arg-type]
        return cls(form, parts)

    def apply(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows as a matrix, shape (len(frame), d), float64."""
        return np.hstack([part.apply(frame[name], self.form) for name, part in self.parts.items()])

    @property
    def categories(self) -> np.ndarray:
        return np.array([isinstance(part, Levels) and not part.is_ordered for part in self.parts.values()])


FORMS: tuple[Form, ...] = ("linear", "boosting")
BOOSTING: dict[str, Any] = {
    "learning_rate": 0.1, "max_iter": 50, "max_leaf_nodes": 15, "min_samples_leaf": 20, "early_stopping": False,
    "random_state": 0,
}  # fmt: skip
"""Fewer and smaller trees than customary: on a thousand rows with a heavy tail the customary ones learn noise, and the
gap between two honest tables then says nothing."""


@dataclass(frozen=True)
class Fitted:
    predict: Callable[[pd.DataFrame], np.ndarray]
    """Probabilities of the classes, shape (n, n_classes), 0 of those that it has not seen; or numbers, shape (n,)."""
    converged: bool = True
    classifier: tuple[Any, Features, np.ndarray] | None = None  # scikit-learn's, inputs, known classes


def fit_classes(form: Form, rows: pd.DataFrame, classes: np.ndarray, schema: Schema, n_classes: int) -> Fitted:
    """A classifier that has learned the rows. `rows`: *Sensitive* where they are real. At least one row."""
    seen, features = np.unique(classes), Features.fit(rows, schema, form)
    if len(seen) == 1 or not features.parts:
        return _constant(np.bincount(classes, minlength=n_classes) / len(classes))
    model, converged = _fit("classification", features, rows, classes)

    def predict(frame: pd.DataFrame) -> np.ndarray:
        scores = np.zeros((len(frame), n_classes))
        scores[:, seen] = in_one_thread(model.predict_proba, features.apply(frame))
        return scores

    return Fitted(predict, converged, (model, features, seen))


def fit_numbers(form: Form, rows: pd.DataFrame, numbers: np.ndarray, schema: Schema) -> Fitted:
    """A regressor that has learned the rows. Args are those of `fit_classes`, `numbers` being the target."""
    features, center, scale = Features.fit(rows, schema, form), float(numbers.mean()), float(numbers.std())
    if len(np.unique(numbers)) == 1 or not features.parts:
        return _constant(np.asarray(numbers[0] if len(np.unique(numbers)) == 1 else center))
    model, converged = _fit("regression", features, rows, (numbers - center) / scale)
    limits = float(numbers.min()), float(numbers.max())

    def predict(frame: pd.DataFrame) -> np.ndarray:
        return np.asarray(np.clip(in_one_thread(model.predict, features.apply(frame)) * scale + center, *limits))

    return Fitted(predict, converged)


def _constant(prediction: np.ndarray) -> Fitted:
    return Fitted(lambda frame: np.broadcast_to(prediction, (len(frame), *prediction.shape)).copy())


def _fit(kind: TaskKind, features: Features, rows: pd.DataFrame, y: np.ndarray) -> tuple[Any, bool]:
    """The model once it has learned, and whether it converged. Any other warning is passed on, but of many classes."""
    from sklearn import linear_model
    from sklearn.exceptions import ConvergenceWarning

    if features.form == "boosting":
        model = booster(kind, features.categories, BOOSTING)
    elif kind == "classification":
        model = linear_model.LogisticRegression(max_iter=2_000, tol=1e-3)
    else:
        model = linear_model.Ridge(alpha=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model = in_one_thread(model.fit, features.apply(rows), y)
    others = [warning for warning in caught if not issubclass(warning.category, ConvergenceWarning)]
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return model, len(others) == len(caught)


def booster(kind: TaskKind, categories: np.ndarray, settings: Mapping[str, Any]) -> Any:
    """Gradient boosting that has learned nothing yet; `categories`: which columns hold codes, shape (d,)."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    model = HistGradientBoostingClassifier if kind == "classification" else HistGradientBoostingRegressor
    return model(categorical_features=categories, **settings)


def in_one_thread(call: Any, *arguments: Any) -> Any:
    """A call in one thread: the same sums in the same order everywhere, and no threads that wait for each other."""
    with _threads().limit(limits=1):
        return call(*arguments)


@cache
def _threads() -> Any:
    """The thread pools of all libraries, which take long to find."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


N_REPLICATES = 300
LEAST_R2 = -1.0  # R2 is cut off here: below it a model is merely useless, and a heavy tail could make it anything
_CELLS = 4_000_000
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Of predictions, the truth and weightings of shape (b, n): a score for each weighting, shape (b,)."""


def weightings(entities: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Bootstrap weights of the test rows, whole entities together, in blocks (b, n); the first row is all ones."""
    rng = np.random.default_rng([seed, 5])
    n_entities = int(entities.max()) + 1
    yield np.ones((1, len(entities)))
    size = max(1, _CELLS // len(entities))
    for start in range(0, N_REPLICATES, size):
        draws = rng.multinomial(n_entities, np.full(n_entities, 1.0 / n_entities), min(size, N_REPLICATES - start))
        yield draws[:, entities].astype(np.float64)


def halves(units: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows in two, whole units together; of one unit alone, all rows twice."""
    n_units = int(units.max()) + 1
    if n_units == 1:
        return np.ones(len(units), dtype=bool), np.ones(len(units), dtype=bool)
    first = np.zeros(n_units, dtype=bool)
    first[rng.permutation(n_units)[: n_units // 2]] = True
    return first[units], ~first[units]


def roc_auc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The area under the ROC curve for each weighting (b, n), ties split; (b,), NaN where a class has no weight."""
    ups, downs = weights[:, positive], weights[:, ~positive]
    negatives = scores[~positive]
    order = np.argsort(negatives)
    below = np.zeros((len(weights), len(negatives) + 1))
    np.cumsum(downs[:, order], axis=1, out=below[:, 1:])
    ends = (np.searchsorted(negatives[order], scores[positive], side) for side in ("left", "right"))
    # A negative of the same score counts by half.
    wins = sum(np.einsum("ij,ij->i", ups, below[:, end]) for end in ends) / 2
    pairs = ups.sum(axis=1) * below[:, -1]
    return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1.0), np.nan)


def macro_roc_auc(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean over classes of one class against the rest, over the classes that have weight; shape (b,)."""
    columns = [1] if scores.shape[1] == 2 else range(scores.shape[1])
    areas = np.array([roc_auc(scores[:, c], classes == c, weights) for c in columns])
    known = ~np.isnan(areas)
    total = np.where(known, areas, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def r2(predictions: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R2 for each weighting, not below `LEAST_R2`; shape (b,), NaN where the truth does not vary. `predictions`: shape
    (n,). `truth`: shape (n,). `weights`: shape (b, n).
    """
    scale = float(truth.std()) or 1.0
    truth, predictions = (truth - truth.mean()) / scale, (predictions - truth.mean()) / scale
    total = weights.sum(axis=1)
    spread = weights @ truth**2 - (weights @ truth) ** 2 / total
    errors = weights @ (truth - predictions) ** 2
    varies = spread > 1e-9 * total
    return np.where(varies, np.maximum(LEAST_R2, 1 - errors / np.where(varies, spread, 1.0)), np.nan)

"""How good a synthetic table is, in the few numbers that papers on marginals print.

The cells are the scorer's own and are made from the train part: a column with more than 12 distinct numbers, or days,
is cut at 20 quantiles (repeated edges merged), any other value is a cell, missing is a cell. Texts beside numbers are
cells of their own.
"""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

N_QUANTILES, FEW_VALUES, N_TRIPLES, N_DETECTION = 20, 12, 200, 10_000
MANY_TEXTS = 50
"""More distinct texts than this, all of which are days or times, are a line of days."""


@dataclass(frozen=True)
class Scores:
    """Figures of one synthetic table.

    Attributes:
        tv1: mean total variation of all one-way marginals.
        tv2: the same of all two-way marginals.
        tv3: the same of 200 seeded three-way marginals.
        c2st: cross-validated AUC of gradient boosting telling 10,000 synthetic from 10,000 train rows; 0.5 is best.
        tstr: AUC, or R2 of a number, on test rows of gradient boosting trained on synthetic rows.
        linear_tstr: the same of a logistic regression, or a linear one.
    """

    tv1: float
    tv2: float
    tv3: float
    c2st: float
    tstr: float
    linear_tstr: float


class Scorer:
    """Scores synthetic tables against one train and one test part.

    Args:
        train: real rows that generators saw, missing values as NaN or None.
        test: real rows that none saw.
        target: name of a column to predict; with few values, or with texts, as classes.
    """

    def __init__(self, train: pd.DataFrame, test: pd.DataFrame, target: str) -> None:
        self._train, self._test, self._target = train, test, target
        self._cells = {name: _Cells(train[name]) for name in train.columns}
        names, rng = list(train.columns), np.random.default_rng(0)
        triples = list(itertools.combinations(names, 3))
        chosen = rng.choice(len(triples), size=min(N_TRIPLES, len(triples)), replace=False)
        self._cliques: dict[int, list[tuple[str, ...]]] = {
            1: [(name,) for name in names],
            2: list(itertools.combinations(names, 2)),
            3: [triples[index] for index in sorted(chosen)],
        }
        self._codes = self._coded(train)

    def score(self, synthetic: pd.DataFrame) -> Scores:
        """Every figure of one table, whose columns are the train part's."""
        tv1, tv2, tv3 = (self.tv(synthetic, order) for order in (1, 2, 3))
        return Scores(tv1, tv2, tv3, self.c2st(synthetic), self.tstr(synthetic), self.linear_tstr(synthetic))

    def tv(self, synthetic: pd.DataFrame, order: int) -> float:
        """Mean total variation of the marginals of one order."""
        codes = self._coded(synthetic)
        return float(np.mean([self._distance(codes, clique) for clique in self._cliques[order]]))

    def worst_column(self, synthetic: pd.DataFrame, fresh: pd.DataFrame) -> float:
        """The largest total variation of one column from the train part's, less that of fresh real rows."""
        codes, of_fresh = self._coded(synthetic), self._coded(fresh)
        return max(self._distance(codes, each) - self._distance(of_fresh, each) for each in self._cliques[1])

    def c2st(self, synthetic: pd.DataFrame, real: pd.DataFrame | None = None) -> float:
        """Classifier two-sample test against train rows, or others."""
        real = self._train if real is None else real
        n = min(N_DETECTION, len(real), len(synthetic))
        both = pd.concat([real.sample(n, random_state=0), synthetic.sample(n, random_state=0)])
        is_real = np.repeat([1, 0], n)
        guessed = cross_val_predict(_boosting(), self._numbers(both), is_real, cv=3, method="predict_proba")
        return float(roc_auc_score(is_real, guessed[:, 1]))

    @property
    def is_class(self) -> bool:
        """True where the target is predicted as classes, not as a number: it has few values, or they are texts."""
        return not self._cells[self._target].is_line

    def tstr(self, synthetic: pd.DataFrame) -> float:
        """Train on synthetic, test on real: gradient boosting."""
        if self.is_class:
            return self._auc(_boosting(), synthetic, self._numbers)
        return self._r2(HistGradientBoostingRegressor(random_state=0), synthetic, self._numbers)

    def linear_tstr(self, synthetic: pd.DataFrame) -> float:
        """Train on synthetic, test on real: a linear model on one-hot categories and standardized numbers."""
        encoder, scaler = _OneHot(self._train.drop(columns=self._target)), StandardScaler(with_mean=False)
        if self.is_class:
            return self._auc(make_pipeline(scaler, LogisticRegression(max_iter=300)), synthetic, encoder.apply)
        return self._r2(make_pipeline(scaler, Ridge()), synthetic, encoder.apply)

    def _r2(self, model, synthetic, features) -> float:  # type: ignore[no-untyped-def]
        """The share of the target's variance on test rows that a regression on synthetic rows explains."""
        known = synthetic[synthetic[self._target].notna()]
        model.fit(features(known.drop(columns=self._target)), known[self._target].astype(np.float64))
        return float(r2_score(self._test[self._target], model.predict(features(self._test.drop(columns=self._target)))))

    def _auc(self, model, synthetic, features) -> float:  # type: ignore[no-untyped-def]
        """The area under the ROC curve; of more than two classes the mean over each against the rest."""
        classes = pd.Index(sorted(self._train[self._target].dropna().unique()))
        codes = classes.get_indexer(pd.Index(synthetic[self._target].array))
        known, truth = synthetic[codes >= 0], classes.get_indexer(pd.Index(self._test[self._target].array))
        if len(np.unique(codes[codes >= 0])) < 2:
            return 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a logistic regression that has not converged is still the same for all
            model.fit(features(known.drop(columns=self._target)), codes[codes >= 0])
        guessed = np.zeros((len(self._test), len(classes)))
        guessed[:, model.classes_] = model.predict_proba(features(self._test.drop(columns=self._target)))
        asked = [1] if len(classes) == 2 else np.unique(truth[truth >= 0])
        return float(np.mean([roc_auc_score(truth == value, guessed[:, value]) for value in asked]))

    def _numbers(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Features; a column that is missing in all rows is zero, since scikit-learn bins no such column."""
        numbers = {name: self._cells[name].numbers(frame[name]) for name in frame.columns}
        return pd.DataFrame({name: np.zeros(len(x)) if np.isnan(x).all() else x for name, x in numbers.items()})

    def _coded(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        return {name: cells.codes(frame[name]) for name, cells in self._cells.items()}

    def _distance(self, codes: dict[str, np.ndarray], clique: Sequence[str]) -> float:
        shape = tuple(self._cells[name].size for name in clique)
        shares = []
        for side in (self._codes, codes):
            cells = np.ravel_multi_index([side[name] for name in clique], shape)
            shares.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(cells))
        return float(np.abs(shares[0] - shares[1]).sum() / 2)


class _Cells:
    """One column's cells: quantiles of many numbers, distinct values of the rest; the last two are unknown, missing."""

    def __init__(self, train: pd.Series) -> None:
        present = train.dropna()
        self._is_time = present.dtype == object and present.nunique() > MANY_TEXTS and _times(present).notna().all()
        numbers = self._line(present)
        self._edges = None
        if np.unique(numbers[~np.isnan(numbers)]).size > FEW_VALUES:
            values = numbers[~np.isnan(numbers)]
            self._edges = np.unique(np.quantile(values, np.linspace(0, 1, N_QUANTILES + 1)))
            present = present[np.isnan(numbers)]
        self._values = pd.Index(sorted(present.unique()))
        self.n_bins = 0 if self._edges is None else len(self._edges) - 1
        self.size = self.n_bins + len(self._values) + 2

    def codes(self, series: pd.Series) -> np.ndarray:
        cells = self._values.get_indexer(pd.Index(series.array))
        cells = np.where(cells < 0, self.size - 2, self.n_bins + cells)
        if self._edges is not None:
            values = self._line(series)
            bins = np.clip(np.searchsorted(self._edges, values, side="right") - 1, 0, self.n_bins - 1)
            cells = np.where(np.isnan(values), cells, bins)
        return np.where(series.isna().to_numpy(), self.size - 1, cells)

    @property
    def is_line(self) -> bool:
        """True where many numbers, or days, are cut into bins."""
        return self._edges is not None

    def numbers(self, series: pd.Series) -> np.ndarray:
        """Numbers as they are, a text beside them below all, anything else as its cell; NaN where missing."""
        codes = self.codes(series).astype(np.float64)
        if self._edges is not None:
            values, least = self._line(series), self._edges[0]
            below = least - (1.0 + codes) * max(1.0, abs(least))
            codes = np.where(
                np.isnan(values) & (codes != self.size - 1), below, np.where(np.isnan(values), codes, values)
            )
        return np.where(series.isna().to_numpy(), np.nan, codes)

    def _line(self, series: pd.Series) -> np.ndarray:
        """Numbers, or days, as float64; NaN for anything else."""
        if self._is_time:
            return (_times(series) - pd.Timestamp(0, tz="UTC")).to_numpy() / np.timedelta64(1, "D")
        return pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _times(series: pd.Series) -> pd.Series:
    return pd.to_datetime(series.astype(str), errors="coerce", format="ISO8601", utc=True)


class _OneHot:
    """Features of a linear model: numbers with their gaps filled, categories one by one."""

    def __init__(self, train: pd.DataFrame) -> None:
        self._medians = train.select_dtypes("number").median()
        self._texts = [name for name in train.columns if name not in self._medians.index]
        self._encoder = OneHotEncoder(handle_unknown="ignore").fit(self._filled(train))

    def apply(self, frame: pd.DataFrame) -> sparse.csr_array:
        numbers = frame[list(self._medians.index)].astype(np.float64).fillna(self._medians).to_numpy()
        categories = self._encoder.transform(self._filled(frame))
        return sparse.hstack([sparse.csr_array(numbers), sparse.csr_array(categories)], format="csr")

    def _filled(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[self._texts].astype(object).where(frame[self._texts].notna(), "(missing)").astype(str)


def _boosting() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(random_state=0)

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.inspection import permutation_importance
from sklearn.metrics import r2_score

from evaluate.sampling import shuffle_columns
from evaluate.utility import importance, study
from evaluate.utility.models import predictors

from .conftest import reordered, schema_of


@pytest.fixture(scope="module", autouse=True)
def linear_only():
    """One form of model, so that tests are quick."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (study, importance):
            patch.setattr(module, "FORMS", ("linear",))
        yield


def test_importances_are_those_of_scikit_learn(make):
    tables = make(schema_of("amount"), n=400)
    made = study.study_of(tables)
    names = predictors(tables.schema)
    model, rows, truth = made.models["linear"].whole["trtr"], made.test.rows, made.test.truth
    repeats = 40
    orders = np.array(
        [[np.random.default_rng([r, c]).permutation(len(rows)) for c in range(len(names))] for r in range(repeats)]
    )
    found = importance.importances(model, made.task, (rows, truth), names, orders)
    estimator = SimpleNamespace(fit=lambda *_: None, predict=model.predict)

    def scoring(model, X, y):
        return r2_score(y, model.predict(X))

    theirs = permutation_importance(
        estimator, rows[list(names)], truth, scoring=scoring, n_repeats=repeats, random_state=0
    )
    error = theirs.importances_std / np.sqrt(repeats)
    assert (np.abs(found - theirs.importances_mean) <= 6 * error + 1e-3).all()


def test_agreement_is_spearmans_rank_correlation():
    first, second = np.random.default_rng(0).random((2, 8))
    assert importance.agreement(first, second) == pytest.approx(spearmanr(first, second)[0])
    assert importance.agreement(first, np.zeros(8)) == 0.0
    assert importance.agreement(first, -first) == 0.0


def test_the_training_table_agrees_with_itself_and_shuffled_columns_do_not(make):
    same = importance.measure(make(synthetic=lambda train: train)).estimates[0]
    assert same.value == same.low == same.high == 1.0
    other = importance.measure(make(n=1_000)).estimates[0]
    assert other.value > 0.5
    assert -1 <= other.low <= other.value <= other.high <= 1


def test_a_synthetic_table_whose_signal_is_elsewhere_disagrees(make):
    def moved(train):
        wrong = shuffle_columns(train, np.random.default_rng(2))
        return wrong.assign(y=np.where(wrong["sex"] & (wrong["hours"] > 10), "yes", "no"))

    assert importance.measure(make(synthetic=moved, n=1_000)).estimates[0].value < 0.3


def test_the_order_of_rows_and_columns_does_not_matter(make):
    tables = make()
    first, second = (importance.measure(t).estimates[0] for t in (tables, reordered(tables)))
    assert first.value == pytest.approx(second.value, abs=1e-9)


def test_the_figure_names_the_column_that_matters_most(make):
    figure = importance.measure(make(n=1_000)).figures["importance"][0]
    assert figure["columns"][0]["column"] == "x"
    assert figure["columns"][0]["real"] > 0.1


def test_without_a_target_nothing_is_measured(make):
    assert {f.message for f in importance.measure(make(schema_of(None))).failures} == {"the schema names no target"}

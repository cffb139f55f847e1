import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evaluate.privacy import membership
from evaluate.privacy.membership import Scores, true_positive_rate
from evaluate.result import Failure

AUC, STRICT, LOOSE = (f"privacy.membership.{name}" for name in ("auc", "tpr_at_0.001", "tpr_at_0.01"))


def by_name(measurement):
    return {one.measure: one for one in (*measurement.estimates, *measurement.failures)}


def test_independent_samples_raise_no_alarm_at_any_size_ratio(population, draw):
    for seed, sizes in enumerate([(2400, 600, 600, 1000), (1200, 1200, 1200, 1000), (600, 1200, 1200, 1000)]):
        found = by_name(membership.measure(draw(population, sizes, seed=seed + 7)))
        assert found[AUC].low <= 0.505
        assert found[LOOSE].low <= 0.011


def test_a_copy_of_the_training_table_is_recognized(draw, make):
    for name in ("all numeric", "mixed", "one column", "all categorical"):
        found = by_name(membership.measure(draw(make[name], (1000, 500, 500, 1000), seed=1, leak=1.0)))
        assert found[AUC].low > 0.95, name


def test_half_a_percent_of_verbatim_rows_is_detected(draw, make):
    found = by_name(membership.measure(draw(make["mixed"], (4000, 4000, 4000, 4000), seed=1, leak=0.005)))
    assert found[STRICT].value >= 0.005
    assert found[STRICT].low > 0.001


def test_twins_in_train_and_control_do_not_look_like_members(draw, make):
    found = by_name(membership.measure(draw(make["many duplicates"], (1000, 500, 500, 1000), seed=1, leak=1.0)))
    assert found[AUC].value == 0.5
    assert found[LOOSE].value == 0.0


def test_too_few_controls_are_not_measurable(draw, make):
    found = by_name(membership.measure(draw(make["mixed"], (400, 150, 150, 300), seed=1)))
    assert isinstance(found[STRICT], Failure) and "1000" in found[STRICT].message
    assert not isinstance(found[LOOSE], Failure)


def test_the_auc_is_that_of_scikit_learn(draw, make):
    tables = draw(make["mixed"], (500, 300, 300, 400), seed=2, leak=0.2)
    scores = membership.attack(tables)
    labels = np.r_[np.ones(len(scores.members)), np.zeros(len(scores.controls))]
    both = np.r_[scores.members, scores.controls]
    assert by_name(membership.measure(tables))[AUC].value == pytest.approx(roc_auc_score(labels, both))


def test_the_order_of_rows_and_columns_does_not_matter(draw, make, evaluate_frames):
    tables = draw(make["mixed"], (500, 300, 300, 400), seed=2, leak=0.1)
    rng = np.random.default_rng(0)
    names = rng.permutation(tables.train.columns)
    frames = (tables.train, tables.fresh, tables.control, tables.synthetic)
    moved = evaluate_frames(*(f.iloc[rng.permutation(len(f))][names] for f in frames), seed=tables.seed)
    first, second = (by_name(membership.measure(t)) for t in (tables, moved))
    assert first[AUC].value == pytest.approx(second[AUC].value, abs=1e-6)
    assert first[LOOSE].value == second[LOOSE].value


@pytest.mark.parametrize(("n_controls", "rate"), [(1000, 0.001), (1000, 0.01), (5000, 0.001)])
def test_the_interval_of_a_useless_attack_covers_the_false_positive_rate(n_controls, rate):
    rng, missed = np.random.default_rng(0), []
    for _ in range(400):
        scores = Scores(np.sort(rng.random(4000)), np.sort(rng.random(n_controls)))
        _, low, high = true_positive_rate(scores, rate)
        missed.append((low > rate, high < rate))
    assert (np.mean(missed, axis=0) <= 0.025 + 2 * (0.025 * 0.975 / 400) ** 0.5).all()


def test_ties_at_the_threshold_do_not_help_the_attacker():
    value, low, _ = true_positive_rate(Scores(np.ones(500), np.ones(500)), 0.01)
    assert (value, low) == (0.0, 0.0)


def test_the_curve_starts_at_the_smallest_rate_and_ends_at_one(draw, make):
    figure = membership.measure(draw(make["mixed"], (400, 150, 150, 300), seed=1)).figures["membership"]
    assert figure["fpr"][0] == 0.0 and figure["fpr"][-1] == figure["tpr"][-1] == 1.0
    assert np.all(np.diff(figure["tpr"]) >= 0) and len(figure["fpr"]) <= 300


@pytest.mark.slow
def test_no_leak_raises_no_alarm_over_many_seeds(draw, make):
    alarms = []
    for seed in range(40):
        found = by_name(membership.measure(draw(make["mixed"], (2000, 2000, 2000, 2000), seed=seed)))
        alarms.append([found[AUC].low > 0.5, found[STRICT].low > 0.001, found[LOOSE].low > 0.01])
    assert (np.mean(alarms, axis=0) <= 0.1).all()

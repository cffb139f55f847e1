"""Modes of numbers, and values that recur."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.neural.encoding import Encoded, ModalEncoding
from synth.neural.modes import EDGE, FEW_VALUES, LEAST_DEVIATION, WIDTH, Modes, fit_mixture
from synth.schema import Schema, build_schema
from synth.table import conform

HIGH = 1_000_000


def schema_of(**column: Any) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, HIGH], **column}}})


def fitted(values: Any, schema: Schema) -> ModalEncoding:
    frame = conform(pd.DataFrame({"x": values}), schema)
    return ModalEncoding.fit(frame, schema, np.random.default_rng(0))


def modes_of(encoding: ModalEncoding) -> Modes:
    (modes,) = encoding.columns
    assert isinstance(modes, Modes)
    return modes


def drawn(encoding: ModalEncoding, n: int, seed: int = 0, *, bells: bool = True) -> np.ndarray:
    """What a network might make: values of all bells, or of all modes."""
    rng, modes = np.random.default_rng(seed), modes_of(encoding)
    first = len(modes.atoms) if bells else 0
    codes = rng.integers(first, len(modes.atoms) + len(modes.means), (n, 1), dtype=encoding.layout.dtype)
    scalars = rng.normal(0, 1 / WIDTH, (n, 1)).clip(-1, 1).astype(np.float32)
    return encoding.invert(Encoded(codes, scalars), rng)["x"].to_numpy(dtype=np.float64)


def spread(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, HIGH + 1, n)


@pytest.mark.parametrize(
    ("column", "unit"),
    [({}, 1), ({"kind": "real", "decimals": 2, "bounds": [0, 1e4]}, 0.01), ({"kind": "real", "bounds": [0, 1]}, 1e-6)],
)
def test_every_spike_that_rows_hold_is_a_mode_that_comes_back_exactly(column: dict[str, Any], unit: float) -> None:
    frequent = [10_000 * unit, 10_001 * unit, 333_333 * unit]
    values = np.append(spread(4000) * unit, np.repeat(frequent, 40)).round(12)
    frequent = np.unique(values[-120:]).tolist()
    schema = schema_of(**column, spikes=[*frequent, 999_999.5 * unit] if column.get("bounds") == [0, 1] else frequent)
    encoding = fitted(values, schema)
    assert modes_of(encoding).atoms.tolist() == frequent
    rows = conform(pd.DataFrame({"x": values}), schema)
    back = encoding.invert(encoding.apply(rows), np.random.default_rng(2))
    assert back["x"][-120:].tolist() == rows["x"][-120:].tolist()
    # From the bells come neighbors of a spike, but never itself.
    others = drawn(encoding, 20_000)
    assert not np.isin(others, frequent).any() and len(np.unique(others)) > 1000


@pytest.mark.parametrize("shares", [(0.5, 0.8, 0.9), (0.2, 0.6, 1.0)])
def test_what_bells_make_is_on_every_step_as_often_as_its_share_says(shares: tuple[float, ...]) -> None:
    steps, spikes = (1000, 100, 50), [0, 50_000, 777_777]
    values = np.append(spread(5000), np.repeat(spikes, 100))
    encoding = fitted(values, schema_of(steps=list(steps), step_shares=list(shares), spikes=spikes))
    synthetic = drawn(encoding, 40_000)
    for step, share in zip(steps, shares, strict=True):
        assert np.mean(synthetic % step == 0) == pytest.approx(share, abs=0.012)
    assert synthetic.min() >= 0 and synthetic.max() <= HIGH and not np.isin(synthetic, spikes).any()


def test_frequent_values_that_nobody_declared_count_toward_the_shares_of_steps() -> None:
    rng = np.random.default_rng(0)
    coarse = np.where(rng.random(6000) < 0.5, 100, 1)
    values = spread(6000, seed=1) // coarse * coarse
    values[:1500] = 500_000
    share = float(np.mean(values % 100 == 0))
    modes = modes_of(fitted(values, schema_of(steps=[100], step_shares=[share])))
    assert modes.atoms.tolist() == [500_000]
    assert modes.step_shares[0] == pytest.approx(np.mean(values[1500:] % 100 == 0), abs=1e-9)
    assert modes.step_shares[0] < share - 0.1


def test_steps_make_no_spike_of_a_declared_one_nor_of_a_bound() -> None:
    """Half of what is near a spike would be rounded onto it: it goes to the multiple on the other side."""
    values = np.append(np.random.default_rng(0).normal(5000, 60, 4000).round(), np.repeat(5000, 400))
    encoding = fitted(values, schema_of(bounds=[4700, 5300], steps=[100], spikes=[5000]))
    synthetic = drawn(encoding, 4000)
    assert (synthetic % 100 == 0).all() and not (synthetic == 5000).any()
    assert synthetic.min() >= 4700 and synthetic.max() <= 5300
    low, high = np.mean(synthetic < 5000), np.mean(synthetic > 5000)
    assert low == pytest.approx(high, abs=0.1)


@pytest.mark.parametrize("n_values", [30, 77, 128])
def test_a_number_of_few_values_for_its_rows_is_exact(n_values: int) -> None:
    values = np.random.default_rng(0).integers(0, n_values, 4000) * 7_000
    encoding = fitted(values, schema_of())
    assert modes_of(encoding).atoms.tolist() == np.unique(values).tolist()
    assert np.isin(drawn(encoding, 4000, bells=False), values).all()


def test_values_of_single_rows_are_no_modes() -> None:
    values = np.append(np.repeat([0.0, 5.0], 30), spread(60))
    assert modes_of(fitted(values, schema_of())).atoms.tolist() == [0.0, 5.0]
    assert len(modes_of(fitted(spread(200), schema_of())).atoms) == 0


FINITE = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.lists(FINITE | st.just(np.nan) | st.integers(0, 3).map(float), min_size=1, max_size=80)
FALSE_ALARM_SE = 4.5
"""Standard errors; one in 150,000 sound draws lies beyond."""


def _fit(values: Any, log: bool = False, seed: int = 0) -> Modes:
    return Modes.fit(np.asarray(values, dtype=np.float64), log=log, rng=np.random.default_rng(seed))


def _two_bells(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, rng.normal(-10, 1, n), rng.normal(20, 3, n))


@settings(max_examples=60, deadline=None)
@given(values=COLUMNS, log=st.booleans())
def test_any_column_comes_back_finite_and_its_atoms_as_they_were(values: list[float], log: bool) -> None:
    column = np.array(values)
    modes = _fit(column, log)
    codes, scalars = modes.apply(column)
    assert ((codes >= 0) & (codes < modes.size)).all() and (np.abs(scalars) <= np.float32(EDGE)).all()
    back = modes.invert(codes, scalars)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(column))
    np.testing.assert_array_equal(back[codes < len(modes.atoms)], column[codes < len(modes.atoms)])
    assert not scalars[codes < len(modes.atoms)].any() and not scalars[np.isnan(column)].any()
    assert modes.missing == bool(np.isnan(column).any())


@settings(max_examples=40, deadline=None)
@given(codes=st.lists(st.integers(0, 3), min_size=1), scalar=st.floats(-5, 5, width=32), log=st.booleans())
def test_what_a_network_made_becomes_finite_numbers(codes: list[int], scalar: float, log: bool) -> None:
    modes = Modes(np.array([1e308]), np.array([-600.0, 9e2]), np.array([1e-50, 1e3]), np.array([0.5, 0.5]), True, log)
    back = modes.invert(np.array(codes), np.full(len(codes), scalar, np.float32))
    np.testing.assert_array_equal(np.isnan(back), np.array(codes) == 3)
    assert not np.isinf(back).any()


def test_responsibilities_are_those_of_a_mixture_of_the_same_parameters() -> None:
    from sklearn.mixture import GaussianMixture

    values = _two_bells(3_000)
    modes = _fit(values)
    mixture = GaussianMixture(len(modes.means))
    mixture.weights_, mixture.means_ = modes.weights, modes.means[:, None]
    mixture.precisions_cholesky_ = (1 / modes.deviations)[:, None, None]
    np.testing.assert_allclose(modes.responsibilities(values), mixture.predict_proba(values[:, None]), atol=1e-10)


def test_bells_are_drawn_by_their_responsibilities() -> None:
    modes = Modes(np.empty(0), np.array([-1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.5]), np.array([0.2, 0.5, 0.3]), False)
    n = 60_000
    for value in (-2.0, 0.4, 1.9):
        expected = modes.responsibilities(np.array([value]))[0]
        codes, scalars = modes.apply(np.full(n, value), np.random.default_rng(0))
        shares = np.bincount(codes, minlength=3) / n
        errors = np.sqrt(expected * (1 - expected) / n)
        assert (np.abs(shares - expected) <= FALSE_ALARM_SE * errors + 1e-12).all()
        np.testing.assert_allclose(scalars, ((value - modes.means) / (WIDTH * modes.deviations))[codes], rtol=1e-6)


def test_each_value_is_told_by_its_likeliest_bell_and_where_in_it_it_lies() -> None:
    modes = Modes(np.empty(0), np.array([-1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.5]), np.array([0.4, 0.3, 0.3]), False)
    # By weight times density: the widest bell has the tail on either side.
    values = np.array([-9.0, -1.2, 0.6, 1.9, 2.3, 6.0])
    codes, scalars = modes.apply(values)
    assert codes.tolist() == [1, 0, 1, 2, 2, 1]
    expected = (values - modes.means[codes]) / (WIDTH * modes.deviations[codes])
    np.testing.assert_allclose(scalars, expected.clip(-EDGE, EDGE), rtol=1e-6)


def test_the_bells_are_those_that_ctgan_finds() -> None:
    from rdt.transformers.numerical import ClusterBasedNormalizer

    values = _two_bells(4_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        normalizer = ClusterBasedNormalizer(max_clusters=10)
        normalizer.fit(pd.DataFrame({"x": values}), "x")
    mixture, kept = normalizer._bgm_transformer, normalizer.valid_component_indicator
    theirs = Bells(mixture.weights_[kept], mixture.means_[kept, 0], np.sqrt(mixture.covariances_[kept, 0, 0]))
    modes = _fit(values)
    ours = Bells(modes.weights, modes.means, modes.deviations)
    for weight, mean, deviation in ((0.3, -10, 1), (0.7, 20, 3)):
        mine, other = (_together(bells, mean, 4 * deviation) for bells in (ours, theirs))
        assert mine == pytest.approx(other, rel=0.03)
        # The prior widens a bell of few values: both have that.
        assert mine == pytest.approx((weight, mean, deviation), rel=0.3)


class Bells(NamedTuple):
    weights: np.ndarray
    means: np.ndarray
    deviations: np.ndarray


def _together(bells: Bells, center: float, reach: float) -> tuple[float, float, float]:
    """Weight, mean and deviation of all bells about a center: how many share it is chance."""
    near = np.abs(bells.means - center) < reach
    shares = bells.weights[near] / bells.weights[near].sum()
    mean = float(shares @ bells.means[near])
    variance = float(shares @ (bells.deviations[near] ** 2 + (bells.means[near] - mean) ** 2))
    return float(bells.weights[near].sum()), mean, variance**0.5


def test_frequent_values_and_those_that_few_others_stand_beside_are_atoms() -> None:
    rng = np.random.default_rng(1)
    modes = _fit(np.where(rng.random(6_000) < 0.9, 0.0, _two_bells(6_000)))
    assert modes.atoms.tolist() == [0.0] and modes.has_scalar and not modes.missing
    modes = _fit(np.append(rng.integers(0, FEW_VALUES, 100_000), [7_777, 8_888, np.nan]))  # however rare they are
    assert modes.atoms.tolist() == [*range(FEW_VALUES), 7_777, 8_888]
    assert modes.missing and not modes.has_scalar
    column = np.append(np.zeros(1_000_000), np.arange(1, 101))  # none of which a draw need show
    modes = _fit(column)
    codes, scalars = modes.apply(column)
    np.testing.assert_allclose(modes.invert(codes, scalars), column, atol=2)


def test_one_far_value_does_not_hide_the_others() -> None:
    values = np.append(np.random.default_rng(0).normal(100, 10, 4_999), 1e15)
    modes = _fit(values)
    codes, scalars = modes.apply(values)
    assert modes.log
    np.testing.assert_allclose(modes.invert(codes, scalars)[:-1], values[:-1], rtol=1e-5)
    # A bell that stretched over all of it would leave every scalar at the same place.
    assert scalars[:-1].std() > 0.05


@pytest.mark.parametrize("unit", [5e-324, 1e-60, 1e306])
def test_bells_are_found_at_any_magnitude(unit: float) -> None:
    values = unit * _two_bells(1_000)
    modes = _fit(values)
    codes, scalars = modes.apply(values)
    back = modes.invert(codes, scalars)
    assert np.isfinite(back).all()
    if 1e-40 < unit < 1e99:
        np.testing.assert_allclose(back / unit, values / unit, atol=0.01)


def test_no_value_has_no_bell_and_few_have_one() -> None:
    rng = np.random.default_rng(0)
    assert len(fit_mixture(np.empty(0), rng)[0]) == 0
    means, deviations, _ = fit_mixture(np.array([2.0, 2.0]), rng)
    assert means.tolist() == [2.0] and deviations.tolist() == [LEAST_DEVIATION]
    assert fit_mixture(np.array([1.0, 3.0]), rng)[0].tolist() == [2.0]


def test_a_value_is_looked_for_in_every_bell_that_reaches_it() -> None:
    modes = Modes(np.array([5.0]), np.array([0.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]), missing=True)
    between = modes.match(1.0)
    assert between.weights.tolist() == [0, 1, 1, 0] and between.scalars is not None
    np.testing.assert_allclose(between.scalars, [np.nan, 0.25, -0.5, np.nan])
    far = modes.match(6.0)
    assert far.weights.tolist() == [0, 0, 1, 0]
    assert modes.match(99.0).weights.tolist() == [0, 0, 0, 0]
    atom, missing = modes.match(5.0), modes.match(np.nan)
    assert atom.weights.tolist() == [1, 0, 0, 0] and missing.weights.tolist() == [0, 0, 0, 1]
    assert atom.scalars is not None and np.isnan(atom.scalars).all()


def test_a_bell_that_is_twice_as_wide_is_half_as_dense_about_a_value() -> None:
    modes = Modes(np.empty(0), np.array([0.0, 0.0]), np.array([2.0, 4.0]), np.array([0.5, 0.5]), missing=False)
    assert modes.match(1.0).weights.tolist() == [1.0, 0.5]
    assert modes.match(10.0).weights.tolist() == [0.0, 1.0]

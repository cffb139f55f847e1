"""`arn`: its fit on a chain of columns, and what it draws given some."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from synth.generators.models.autoregressive_model import AutoregressiveModel
from synth.generators.models.known_rows import GIVEN
from tests.synth.evidence import constant
from tests.synth.generators.chain import CHAIN, chain
from understudy.extras.arn.generator import Arn, ArnDistribution, RankLevels


@pytest.fixture(scope="module")
def fixed() -> AutoregressiveModel:
    return Arn(order="fixed", epochs=24).fit(chain(), CHAIN, seed=0)


@pytest.fixture(scope="module")
def any_order() -> AutoregressiveModel:
    return Arn(epochs=24).fit(chain(), CHAIN, seed=0)


@pytest.fixture(params=["fixed", "any_order"])
def model(request: pytest.FixtureRequest) -> AutoregressiveModel:
    fitted: AutoregressiveModel = request.getfixturevalue(request.param)
    return fitted


def distribution_of(model: AutoregressiveModel) -> ArnDistribution:
    assert isinstance(model.distribution, ArnDistribution)
    return model.distribution


@pytest.mark.parametrize("condition", [{"first": "c"}, {"amount": 25.0}, {"first": "a", "last": "z"}], ids=str)
def test_conditions_on_any_columns_are_met_in_any_order(
    any_order: AutoregressiveModel, condition: dict[str, Any]
) -> None:
    drawn = any_order.sample(4_000, seed=2, given=condition)
    assert drawn.attrs[GIVEN] in ("exact" if condition.keys() == {"first"} else "direct",)
    assert all((drawn[name] == value).all() for name, value in condition.items())
    real = chain(200_000, seed=2)
    near = {
        name: real[name].sub(25).abs() < 1 if name == "amount" else real[name] == v for name, v in condition.items()
    }
    real = real[np.logical_and.reduce(list(near.values()))]
    for name in {"first", "last"} - {*condition}:
        shares = [table[name].value_counts(normalize=True) for table in (drawn, real)]
        assert shares[0].sub(shares[1], fill_value=0).abs().sum() / 2 < 0.08


def test_a_fixed_order_weighs_rows_where_what_is_given_does_not_come_first(fixed: AutoregressiveModel) -> None:
    assert fixed.sample(100, seed=1, given={"first": "b"}).attrs[GIVEN] == "exact"
    drawn = fixed.sample(2_000, seed=1, given={"last": "y"})
    assert drawn.attrs[GIVEN] == "weights"
    assert (drawn["last"] == "y").all()
    real = chain(100_000, seed=3).query("last == 'y'")
    assert (drawn["first"] == "b").mean() == pytest.approx((real["first"] == "b").mean(), abs=0.05)


def test_evidence_is_kept(model: AutoregressiveModel) -> None:
    distribution = distribution_of(model)
    first, amount, last = distribution.discretizer.attributes
    cell = 40
    code, rank = int(amount.group[cell]), float(amount.middle_ranks[cell])
    together = np.ones((first.size, last.size), dtype=bool)
    together[0, 0] = False
    allowed = np.array([True, True, False, False, False])
    known = constant(distribution.discretizer, 2_000, {1: code}, {1: rank})
    evidence = replace(known, zeros=(((0,), allowed), ((0, 2), together)))
    drawn = distribution.draw(2_000, np.random.default_rng(0), evidence)
    assert (drawn.codes[:, 1] == code).all()
    assert (drawn.ranks[1] == rank).all()
    assert set(drawn.codes[:, 0]) <= {0, 1}
    assert not ((drawn.codes[:, 0] == 0) & (drawn.codes[:, 2] == 0)).any()


@pytest.mark.parametrize("n_levels", [1, 12])
def test_levels_of_ranks_keep_the_mass_of_cells(any_order: AutoregressiveModel, n_levels: int) -> None:
    distribution = distribution_of(any_order)
    attribute = distribution.discretizer.attributes[1]
    levels, rng = RankLevels(attribute, n_levels), np.random.default_rng(0)
    n = 200_000
    cells = rng.choice(attribute.n_cells, n, p=attribute.mass / attribute.mass.sum())
    codes, ranks = attribute.group[cells].astype(np.int32), attribute.middle_ranks[cells]
    expected = levels.of(codes, ranks)
    assert levels.is_open[codes, expected].all()
    drawn = levels.draw(codes, expected.astype(np.int32), rng)
    np.testing.assert_array_equal(levels.of(codes, drawn), expected)
    counts = [np.bincount(each, minlength=attribute.n_cells) for each in (cells, attribute.ranked(codes, drawn))]
    assert (np.abs(counts[0] - counts[1]) <= 6 * np.sqrt(counts[0] + 1)).all()

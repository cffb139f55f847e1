"""`arn`: its fit on a chain of columns, and what it draws given some."""

import numpy as np
import pytest

from synth.generators.models.fitted import AutoregressiveModel
from synth.generators.models.known_rows import GIVEN
from tests.synth.generators.chain import CHAIN, chain
from understudy.extras.arn.generator import Arn, ArnDistribution, RankLevels


@pytest.fixture(scope="module")
def fixed() -> AutoregressiveModel:
    return Arn(order="fixed", epochs=12).fit(chain(), CHAIN, seed=0)


def distribution_of(model: AutoregressiveModel) -> ArnDistribution:
    assert isinstance(model.distribution, ArnDistribution)
    return model.distribution


def test_a_fixed_order_weighs_rows_where_what_is_given_does_not_come_first(fixed: AutoregressiveModel) -> None:
    assert fixed.sample(100, seed=1, given={"first": "b"}).attrs[GIVEN] == "exact"
    drawn = fixed.sample(2_000, seed=1, given={"last": "y"})
    assert drawn.attrs[GIVEN] == "weights"
    assert (drawn["last"] == "y").all()
    real = chain(100_000, seed=3).query("last == 'y'")
    assert (drawn["first"] == "b").mean() == pytest.approx((real["first"] == "b").mean(), abs=0.05)


@pytest.mark.parametrize("n_levels", [1, 12])
def test_levels_of_ranks_keep_the_mass_of_cells(fixed: AutoregressiveModel, n_levels: int) -> None:
    distribution = distribution_of(fixed)
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

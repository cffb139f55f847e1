import pytest

from evaluate.privacy import distance


def by_name(measurement):
    return {estimate.measure: estimate for estimate in measurement.estimates}


@pytest.mark.statistical
def test_an_independent_sample_is_as_far_as_the_holdout(population, draw):
    found = by_name(distance.measure(draw(population, (1000, 600, 600, 600), seed=5)))
    dcr = found["privacy.dcr.median"]
    assert dcr.value == pytest.approx(dcr.reference, rel=0.35, abs=0.02)


def test_a_copy_is_at_no_distance(draw, make):
    found = by_name(distance.measure(draw(make["mixed"], (600, 300, 300, 600), seed=5, leak=1.0)))
    assert found["privacy.dcr.median"].value == found["privacy.nndr.median"].value == 0.0


def test_distances_only_describe(draw, make):
    estimates = distance.measure(draw(make["mixed"], (200, 100, 100, 150), seed=5)).estimates
    assert {estimate.direction for estimate in estimates} == {"none"}

"""One unit less, in two whole fits: every count of votes moves by no more than what is paid for."""

import pytest

pytest.importorskip("torch")

from tests.synth.generators.test_whole_fits_one_unit_less import one_unit_less_moves_what_is_paid_for
from understudy.extras.pate.generator import PateGan


@pytest.mark.slow  # two seconds each
@pytest.mark.parametrize("unit", ["row", "entity", "history"])
def test_one_unit_less_moves_every_answer_of_a_fit_by_what_is_paid_for(unit: str) -> None:
    generator = PateGan(epsilon=9.0, n_teachers=3, rounds=2, labels_per_round=4, generator_steps=1)
    one_unit_less_moves_what_is_paid_for(generator, unit)

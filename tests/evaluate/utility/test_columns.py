"""Every column as a target: what real rows teach of all columns, and what synthetic ones do."""

from dataclasses import replace

import numpy as np
import pytest

from evaluate.sampling import shuffle_columns
from evaluate.utility import columns
from evaluate.utility.columns import MEAN, WORST


def measured(tables):
    return {each.measure: each for each in columns.measure(tables).estimates}


@pytest.fixture(scope="module")
def fresh(make):
    return measured(make(n=1_000))


def test_a_fresh_sample_teaches_about_as_much_as_training_rows(fresh):
    assert fresh[MEAN].value == pytest.approx(1.0, abs=0.15)
    assert fresh[MEAN].value == pytest.approx(fresh[MEAN].reference, abs=0.15)
    assert fresh[WORST].value == pytest.approx(1.0, abs=0.15)


def test_training_rows_teach_what_training_rows_do(make):
    result = measured(make(n=600, synthetic=lambda train: train))
    assert result[MEAN].value == result[WORST].value == result[MEAN].low == result[MEAN].high == 1.0


def test_shuffled_columns_teach_nothing(make):
    result = measured(make(n=1_000, synthetic=lambda train: shuffle_columns(train, np.random.default_rng(5))))
    assert result[MEAN].high < 0.2 and result[WORST].high < 0.3
    assert result[MEAN].floor == result[WORST].floor == 0.0


def test_a_table_that_serves_for_the_target_alone_is_found(make):
    """Every relation but those with the target is gone; models of the target lose next to nothing by it."""

    def broken(train):
        return train.assign(group=train["group"].sample(frac=1, random_state=1).array)

    tied = make(n=1_000)
    sides = {side: frame.assign(hours=frame["group"].map({"p": 5, "q": 30, "r": 70}).fillna(50).astype("Int64"))
             for side in ("train", "fresh", "control", "synthetic") for frame in (getattr(tied, side),)}  # fmt: skip
    tied = replace(tied, **sides)
    result = measured(replace(tied, synthetic=broken(tied.train)))
    assert result[WORST].high < 0.3 < measured(tied)[WORST].value
    assert "the worst is 'group'" in result[WORST].note or "the worst is 'hours'" in result[WORST].note

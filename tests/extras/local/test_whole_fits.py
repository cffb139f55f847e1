"""One respondent less, in two whole fits: nothing else that reaches the randomization changes."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest

from tests.synth.generators.test_whole_fits_one_unit_less import Fit, one_unit_less_moves_what_is_paid_for
from understudy.extras.local import survey as surveys
from understudy.extras.local.generator import Local
from understudy.extras.local.survey import Survey


class Asked(Fit):
    """The units are what respondents would answer."""

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        true_codes = Survey.codes

        def answered(survey: Survey, frame: pd.DataFrame) -> Any:
            codes = true_codes(survey, frame)
            self.units = Counter(zip(*(codes[name].tolist() for name in sorted(codes)), strict=True))
            raise StopIteration

        patch.setattr(Survey, "codes", answered)


@pytest.mark.parametrize("unit", ["row", "entity", "history"])
def test_one_respondent_less_is_one_report_less(unit: str) -> None:
    one_unit_less_moves_what_is_paid_for(Local(epsilon=9.0), unit, asks=True, watched=Asked)


def test_a_fit_that_does_not_bound_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "bound_contributions", lambda rows, schema, **_: rows)
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(Local(epsilon=9.0), "entity", asks=True, watched=Asked)

"""The audit of a claim that covers texts: their steps are attacked, and a fit that does not clip is found out."""

import pytest
import torch

from evaluate.privacy.audit.white_box import audit
from synth.generators.registry import generator
from synth.neural import dp_sgd
from tests.text_tables import complaint_schema
from understudy.extras.text.wrapper import STEPS

pytestmark = pytest.mark.statistical
ASKED = {"epsilon": 4.0, "text": {"steps": 60}}


def test_the_steps_on_texts_are_attacked_and_a_sound_claim_holds() -> None:
    audited = audit(generator("independent", **ASKED), complaint_schema(600), n_fits=40)  # type: ignore[arg-type]
    assert STEPS in audited.covered
    assert audited.bound < audited.epsilon
    assert [check.fault for check in audited.checks if check.fault] == []
    assert audited.parts[0].what == STEPS
    assert "1.00 of the clipping bound" in audited.parts[0].ran_on


def test_texts_that_are_not_clipped_disprove_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_sgd, "clip_factors", lambda squared, _bound: torch.ones_like(squared))
    text = {"steps": 60, "max_grad_norm": 0.05}  # a bound that every gradient passes
    audited = audit(generator("independent", epsilon=4.0, text=text), complaint_schema(600), n_fits=5)
    assert audited.bound > audited.epsilon
    assert any(check.fault for check in audited.checks)

"""The power that an audit states is that with which it finds a planted fault: each held against simulated audits."""

from types import SimpleNamespace

import numpy as np
import pytest

from evaluate.privacy.audit.power import Residuals
from evaluate.privacy.audit.white_box import of_noise_in_steps
from synth.dp.accounting import epsilon_pld
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.schedule import Schedule

STEPS = SubsampledGaussianEvent("steps", noise_multiplier=1.0, sampling_rate=0.1, count=40)


@pytest.mark.parametrize(("sigma", "share"), [(20.0, 0.97), (20.0, 0.95), (1.0, 0.9), (0.7, 1.0)])
def test_the_power_of_the_size_of_noise_is_that_of_simulated_audits(sigma: float, share: float) -> None:
    rng, n_numbers, n, confidence = np.random.default_rng(7), 4_000, 400, 0.999
    points = np.arange(-200, 201)
    mass = np.exp(-(points.astype(float) ** 2) / (2 * (share * sigma) ** 2))
    drawn = rng.choice(points, size=(n, n_numbers), p=mass / mass.sum())
    shown, stated = 0, Residuals()
    for row in drawn:
        residuals = Residuals()
        residuals.add(row, sigma)
        shown += residuals.most(confidence) < 1
    stated.add(drawn[0], sigma)
    if share == 1.0:
        assert shown <= 4  # of 400 at 1 in 1,000
    else:
        assert shown / n > (0.9 if sigma < 3 else 0.2)


@pytest.mark.parametrize(
    ("noise_left", "sampled", "scale", "fault"),
    [
        (1.0, 0.1, 1.0, ""),
        (0.98, 0.1, 1.0, "noise of steps"),
        (1.0, 0.2, 1.0, "sample more"),
        (1.0, 0.1, 0.9, "noise of"),
    ],
)
def test_less_noise_or_larger_samples_of_steps_are_faults(
    noise_left: float, sampled: float, scale: float, fault: str
) -> None:
    residuals = Residuals()
    residuals.add(scale * np.random.default_rng(0).normal(0, 2.0, 50_000), 2.0, whole=False)
    run = SimpleNamespace(event=STEPS, noise_left=noise_left, most_sampled=sampled, residuals=residuals)
    result = of_noise_in_steps(Schedule((STEPS,), 1e-5), run, 0.9999)  # type: ignore[arg-type]
    assert (result.fault is None) == (fault == "")
    assert fault in (result.fault or "")
    assert (result.bound > epsilon_pld([STEPS], 1e-5)) == (fault != "")

"""Training by DP-SGD with one unit less, samples of everyone and its noise pinned: all sums move by the clipping bound.

What a step does after its noise shows as well: the two networks must be equal to the byte.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from synth.dp.mechanisms import Steps  # noqa: E402
from synth.generators import registry  # noqa: E402
from synth.generators.base import PrivateGenerator  # noqa: E402
from synth.neural import dp_sgd  # noqa: E402
from tests.synth.generators.test_whole_fits_one_unit_less import (  # noqa: E402
    Fit,
    one_unit_less_moves_what_is_paid_for,
)

SMALL = {
    "steps": 2,
    "sampling_rate": 0.1,
    "n_bins": 6,
    "epsilon": 9.0,
    "max_grad_norm": 1e-3,
}  # a bound that every gradient passes
NETWORKS: dict[str, dict[str, Any]] = {
    "tvae": {"d_latent": 2, "encoder_widths": (8,), "decoder_widths": (8,)},
    "ctgan": {"d_latent": 4, "generator_widths": (8,)},
}


class Trained(Fit):
    rounding = 1e-4  # of sums in single precision

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Nothing ends before the training."""


def network(name: str) -> PrivateGenerator:
    made = registry.generator(name, **SMALL, **NETWORKS[name])
    assert isinstance(made, PrivateGenerator)
    return made


@pytest.fixture(autouse=True)
def public_randomness_is_the_same(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Networks start alike, each row has the same draws of its own, and few rows are matched to released marginals."""
    monkeypatch.setattr("synth.neural.training.secrets.randbits", lambda n_bits: 1)
    monkeypatch.setattr("synth.neural.training.secrets.token_bytes", lambda n: np.random.default_rng(0).bytes(n))
    monkeypatch.setattr(torch, "seed", lambda: torch.manual_seed(0).initial_seed())
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 200)
    monkeypatch.setattr("synth.neural.sampling.N_MATCHING_ROUNDS", 3)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


# Two fits each, of which one takes a second.
@pytest.mark.parametrize("unit", ["row", pytest.param("entity", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_unit_less_moves_every_sum_by_the_bound_and_nothing_else(name: str, unit: str) -> None:
    one_unit_less_moves_what_is_paid_for(network(name), unit, watched=Trained, last=True)


_release = Steps.release


def _over_the_sample(self: Steps, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
    return _release(self, total, max_grad_norm) / (1.0 + np.abs(total).sum())


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "clipping off": (dp_sgd, "clip_factors", lambda squared, bound: torch.ones_like(squared)),
    "a sum counted twice": (Steps, "release", lambda self, total, bound: _release(self, 2 * total, bound)),
    "half the noise is asked for": (Steps, "release", lambda self, total, bound: _release(self, total, bound / 2)),
    "a division by what is exact": (Steps, "release", _over_the_sample),
}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[pytest.mark.slow] * (i % 2)) for i, fault in enumerate(FAULTS)]
)
def test_a_fault_in_a_step_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        one_unit_less_moves_what_is_paid_for(network("tvae"), "row", watched=Trained, last=True)

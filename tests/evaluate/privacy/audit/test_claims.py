"""Every private generator as it ships, audited at epsilon 1 and 3: sound as it is, found out with less noise."""

import numpy as np
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT
from evaluate.privacy.audit.white_box import audit
from synth.dp.mechanisms import SystemNoise
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.schema import build_schema

pytest.importorskip("torch")

GENERATORS = (
    "independent",
    "mst",
    "aim",
    "latent_class",
    "ctgan",
    "tvae",
    *(name for name in ("pategan",) if name in registry.names()),
)
SCHEMA = build_schema({"status": "declared", "n_units": 20_000, "columns": {"a": {"kind": "boolean"}}})
_gaussian, _floats = SystemNoise.gaussian, SystemNoise.floats


def claimed(name: str, epsilon: float) -> PrivateGenerator:
    built = registry.generator(name, epsilon=epsilon)
    assert isinstance(built, PrivateGenerator)
    return built


def weaken(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Leave only a share of all Gaussian noise."""

    def gaussian(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        return _gaussian(self, values, share * sigma) if share else values

    def floats(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
        return _floats(self, values, share * sigma)

    monkeypatch.setattr(SystemNoise, "gaussian", gaussian)
    monkeypatch.setattr(SystemNoise, "floats", floats)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("name", GENERATORS)
def test_the_bound_stays_below_the_claim(name: str, epsilon: float) -> None:
    result = audit(claimed(name, epsilon), SCHEMA, time_limit_s=None)
    assert result.verdict == NO_FAULT
    assert result.bound < result.epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.0), (3.0, 0.0), (3.0, 0.5)])
@pytest.mark.parametrize("name", GENERATORS)
def test_less_noise_exceeds_the_claim(
    name: str, epsilon: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    weaken(monkeypatch, share)
    result = audit(claimed(name, epsilon), SCHEMA, time_limit_s=None)
    assert result.verdict == EXCEEDS

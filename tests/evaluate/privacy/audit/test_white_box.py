"""The audit of the measurement log: it finds faults in the noise of every generator, and none where there is none."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evaluate.audit_result import EXCEEDS, NO_FAULT, OUTSIDE, TOO_WEAK, Audit, AuditError, in_ten
from evaluate.intervals import clopper_pearson
from evaluate.privacy.audit.bounds import gaussian_epsilon
from evaluate.privacy.audit.canaries import (
    N_CANARIES,
    CountTrials,
    GaussianRelease,
    MeasurementLog,
    StandIn,
    measurement_log,
)
from evaluate.privacy.audit.white_box import audit
from synth.domain.counts import SpooledTable
from synth.dp import budget, mechanisms
from synth.dp.accounting import epsilon_pld
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import private_fit
from synth.schema import Schema, build_schema
from tests.evaluations import conclude

EVENT = GaussianEvent("counts", 1.0)
MANY_FITS, MANY_CANARIES = 40, 96
"""Noise has no seed: with so many trials half the noise is missed far less often than once in a thousand audits."""
_release, _gaussian, _counted = mechanisms.release, SystemNoise.gaussian, SpooledTable._counted


def schema_of(k: int = 1) -> Schema:
    columns = {"a": {"kind": "boolean"}, "who": {"kind": "identifier", "bounds": [0, 999]}}
    of_entities = {"entity": "who", "max_rows_per_unit": k} if k > 1 else {}
    return build_schema({"status": "declared", "n_units": 1_000, "columns": columns, **of_entities})


def generator(name: str, epsilon: float | None = 3.0, **more: int) -> PrivateGenerator:
    built = registry.generator(name, epsilon=epsilon, **more)
    assert isinstance(built, PrivateGenerator)
    return built


def _half(self: SystemNoise, values: np.ndarray, sigma: float) -> np.ndarray:
    return _gaussian(self, values, sigma / 2)


def _twice(exact: np.ndarray, event: GaussianEvent, noise: Any) -> np.ndarray:
    return _release(2 * exact, event, noise)


def _without_root(exact: np.ndarray, event: GaussianEvent, noise: Any) -> np.ndarray:
    return _release(exact, replace(event, sigma=event.sigma / math.sqrt(event.count)), noise)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "half the noise": (SystemNoise, "gaussian", _half),
    "a unit that contributes twice": (budget, "release", _twice),
    "a dropped root of the number of columns": (budget, "release", _without_root),
    "no noise": (SystemNoise, "gaussian", lambda self, values, sigma: values),
}


def often(name: str, schema: Schema, monkeypatch: pytest.MonkeyPatch, share: float = 1.0) -> Audit:
    """Canaries in cells of their own are as good as one in as many fits; of single columns they cost less."""
    n_fits, like = int(share * MANY_FITS), StandIn.like
    if name == "independent":
        monkeypatch.setattr(StandIn, "like", lambda schema, **how: like(schema, MANY_CANARIES, **how))
    else:
        n_fits *= MANY_CANARIES // N_CANARIES
    return audit(generator(name), schema, n_fits=n_fits, time_limit_s=None)


def test_a_contribution_bound_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_fit, "bound_contributions", lambda rows, schema, in_order: rows)
    assert audit(generator("mst", n_iterations=1), schema_of(3), n_fits=2, time_limit_s=None).verdict == EXCEEDS


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "n_fits"), [(1.0, 1), (40.0, 160)])
def test_an_audit_whose_attack_would_miss_the_absence_of_all_noise_says_so(epsilon, n_fits, monkeypatch):
    result = audit(generator("independent", epsilon), schema_of(), n_fits=n_fits, time_limit_s=None)
    assert result.verdict == TOO_WEAK
    assert result.estimate.low is result.estimate.high is None
    assert "too weak" in (result.estimate.note or "")
    # The size of the noise needs no attack.
    monkeypatch.setattr(*FAULTS["no noise"])
    result = audit(generator("independent", epsilon), schema_of(), n_fits=n_fits, time_limit_s=None)
    assert result.verdict == EXCEEDS
    assert result.faults == ("the noise of counts is smaller than is asked for",)


@pytest.mark.statistical
@pytest.mark.parametrize("fault", ["half the noise", "a unit that contributes twice"])
def test_half_the_noise_is_found_where_the_attack_alone_would_miss_it(fault, monkeypatch):
    sound = audit(generator("independent", 0.1), schema_of(), n_fits=20, time_limit_s=None)
    assert sound.verdict == NO_FAULT
    assert sound.bound < 0.05
    assert sound.weakest is not None
    assert in_ten(sound.weakest) == 10
    assert sound.covered == ("one-way histograms of the columns",)
    assert sound.not_covered == OUTSIDE
    monkeypatch.setattr(*FAULTS[fault])
    result = audit(generator("independent", 0.1), schema_of(), n_fits=20, time_limit_s=None)
    assert result.verdict == EXCEEDS
    assert len(result.faults) == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("independent", "half the noise"),
        ("independent", "no noise"),
        pytest.param("independent", "a dropped root of the number of columns", marks=pytest.mark.slow),
        pytest.param("mst", "half the noise", marks=pytest.mark.slow),
    ],
)
def test_a_fault_in_the_noise_is_found(name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    # Without any noise no guess is wrong, and an eighth of the fits shows as much.
    result = often(name, schema_of(), monkeypatch, 1 / 8 if fault == "no noise" else 1.0)
    assert result.verdict == EXCEEDS
    assert result.estimate.value > 0
    assert result.bound > result.distribution_free


@pytest.mark.parametrize(
    ("name", "k"),
    [("independent", 1), *(pytest.param(name, 4, marks=pytest.mark.slow) for name in ("independent", "mst"))],
)
def test_the_code_as_it_is_raises_no_alarm(name: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    result = often(name, schema_of(k), monkeypatch)
    assert result.verdict == NO_FAULT
    # And it comes near enough to the claim to say something: about 2.1 with a standard error of 0.2, so that either end
    # lies more than four of them away.
    assert 1.2 < result.bound < 3.0
    assert f"{k} row" in result.ran_on


def test_rows_counted_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpooledTable, "_counted", lambda self, cliques: [2 * n for n in _counted(self, cliques)])
    stand_in, present = StandIn.like(schema_of()), np.arange(N_CANARIES) < 6
    built = generator("mst")
    schedule = built.schedule(stand_in.schema)
    assert schedule is not None
    log = measurement_log(built, schedule, stand_in, present)
    told = [stand_in.weights(release.exact.astype(float), present) for release in log.releases]
    assert [known[1] for known in told if known] == pytest.approx([1.0] * 5 + [2.0] * 4)
    trials = CountTrials()
    trials.add(stand_in, log, present)
    assert min(trials.least.values()) == pytest.approx(1 / 2)


def test_the_epsilon_of_a_gaussian_is_that_of_the_accountant() -> None:
    for sigma in (0.8, 2.0, 20.0):
        exact = epsilon_pld([GaussianEvent("means", sigma, whole=False)], 1e-6)
        assert gaussian_epsilon(1 / sigma, 1e-6) == pytest.approx(exact, rel=1e-3)
    assert gaussian_epsilon(-1.0, 1e-6) == gaussian_epsilon(0.0, 1e-6) == gaussian_epsilon(1e-9, 1e-6) == 0.0


def test_bounds_follow_from_the_upper_ends_of_both_rates() -> None:
    result = conclude((3.0, 1e-5), (10, 30), 1_000, 0.95, ran_on="paper")
    fpr, fnr = (clopper_pearson(k, 1_000)[1] for k in (10, 30))
    mu = float(stats.norm.ppf(1 - fpr) - stats.norm.ppf(fnr))
    assert result.bound == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert result.distribution_free == pytest.approx(math.log((1 - fnr - 1e-5) / fpr))
    assert result.verdict == EXCEEDS
    perfect = conclude((3.0, 1e-5), (0, 0), 20, 0.95, ran_on="paper")
    assert 0 < perfect.distribution_free < perfect.bound < math.inf
    assert conclude((3.0, 1e-5), (1_000, 1_000), 1_000, 0.95, ran_on="paper").bound == 0.0


def test_without_a_claim_there_is_nothing_to_audit() -> None:
    with pytest.raises(AuditError, match="epsilon=none"):
        audit(generator("mst", None), schema_of())


def test_a_fit_that_releases_no_counts_of_the_canaries_is_not_called_audited() -> None:
    stand_in, present = StandIn.like(schema_of()), np.arange(N_CANARIES) < 6
    log = MeasurementLog(10**6)
    for exact in (np.ones(N_CANARIES), np.arange(30.0), np.zeros(30)):
        log.releases.append(GaussianRelease(EVENT, exact, exact, 1.0))
    with pytest.raises(AuditError, match="canaries apart"):
        CountTrials().add(stand_in, log, present)


def test_pairs_of_every_weight_are_audited_where_their_noise_follows_from_it() -> None:
    columns = {name: {"kind": "boolean"} for name in "abcd"}
    schema = build_schema({"status": "declared", "n_units": 1_000, "target": "a", "columns": columns})
    weighed = registry.generator("latent_class", epsilon=1.0, rounds=3, workload={"b": 16.0})
    assert isinstance(weighed, PrivateGenerator)
    result, stated = audit(weighed, schema, n_fits=1), weighed.schedule(schema)
    assert stated is not None
    counted = [event.what for event in stated.events if isinstance(event, GaussianEvent)]
    assert list(result.covered) == counted
    assert [what for what in result.covered if "weight" in what] == [
        f"pairs of columns of weight {weight}" for weight in (1, 4, 16, 64)
    ]
    assert result.not_covered == (*(event.what for event in stated.events if event.what not in counted), *OUTSIDE)
    assert not any(check.fault for check in result.checks)

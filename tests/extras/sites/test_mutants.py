"""Faults of secure aggregation, each planted in turn, each beside the check that must catch it.

Every check passes on the code as it is. A mutant that survives its check means that the check guards nothing.
"""

import functools
import hashlib
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.extras.sites.protocol_run import LENGTH, Run, is_uniform, plan_of, run_of
from tests.synth.dp.test_mutants import in_a_fork
from understudy.extras.sites import secure_aggregation as protocol
from understudy.extras.sites.secure_aggregation import (
    SECRET_BYTES,
    AggregationError,
    AggregationPlan,
    SiteAggregation,
    Unmasking,
    UnmaskRequest,
    parsed,
    written,
)

pytest.importorskip("Crypto.Protocol.SecretSharing", reason="the extra `sites` is not installed")
N_SEEDS = 200_000  # of 32 bits, some would be alike in 99 of 100 sets, and are in this one
TRUE_STREAM, TRUE_PAIR = protocol.mask_stream, protocol.pair_mask


def sums_are_exact() -> None:
    for gone in ((), plan_of(5).sites[:2]):
        run = run_of(5, length=100, gone={"mask": gone})
        np.testing.assert_array_equal(run.total(), sum(run.vectors[site] for site in run.answered))


def a_late_vector_stays_masked() -> None:
    run = run_of(4, late=["site-0"])
    run.total()
    late, *others = run.plan.sites
    stripped = run.masked(late)
    for other in others:
        stripped = stripped - run.with_other(late, other, run.secret("mask_keys", late))
    assert is_uniform(stripped)


def vectors_stay_masked_after_a_sum() -> None:
    run = run_of(4)
    run.total()
    stripped = [run.without_own(site) for site in run.plan.sites]
    for size in range(1, 4):
        for some in itertools.combinations(stripped, size):
            assert is_uniform(np.sum(some, axis=0, dtype=np.uint64))


def sums_have_masks_of_their_own() -> None:
    runs = [run_of(3) for _ in range(2)]
    for run in runs:
        run.total()
    for site in runs[0].plan.sites:
        assert is_uniform(runs[1].masked(site)[:] - runs[0].masked(site))


def seeds_give_streams_of_their_own() -> None:
    seeds = np.random.default_rng(0).bytes(32 * N_SEEDS)
    streams = {protocol.mask_stream(seeds[i : i + 32], 1)[0] for i in range(0, len(seeds), 32)}
    assert len(streams) == N_SEEDS


def no_site_reveals_both_secrets_of_another() -> None:
    run = run_of(5, gone={"mask": ["site-4"], "unmask": plan_of(5).sites})
    with pytest.raises(AggregationError):
        run.total()
    for site in run.plan.sites[:4]:
        reply = parsed(run.plan, run.sites[site].unmask(run.sent["unmask", site]), Unmasking)
        assert (set(reply.seeds), set(reply.mask_keys)) == (set(run.plan.sites[:4]), {"site-4"})


def sites_take_masks_off_sums_of_enough_sites_alone() -> None:
    run = run_of(5)
    run.total()
    run.sites["site-0"]._answered = set()
    assert refused(run, run.plan.sites[:2])


def sites_take_masks_off_one_sum() -> None:
    run = run_of(5)
    run.total()
    assert refused(run, run.plan.sites[:4])


def refused(run: Run, answered: tuple[str, ...]) -> bool:
    try:
        run.sites["site-0"].unmask(written(UnmaskRequest(plan=run.plan.digest, answered=answered)))
    except AggregationError:
        return True
    return False


def sites_mask_one_vector() -> None:
    run = run_of(3)
    run.total()
    try:
        run.sites["site-0"].mask(np.ones(LENGTH, np.int64))
    except AggregationError:
        return
    raise AssertionError("a second vector was masked")


def no_two_sets_of_sites_can_each_reach_the_threshold() -> None:
    for n in range(3, 12):
        for threshold in range(1, n // 2 + 1):
            try:
                plan_of(n, threshold)
            except AggregationError:
                continue
            raise AssertionError(f"{threshold} of {n}")


def secrets_of_sites() -> list[str]:
    sites = [SiteAggregation(plan_of(3), "site-0") for _ in range(22)]
    secrets = [secret for site in sites for secret in (site._encryption_key, site._mask_key, site._seed)]
    return [secret.hex() for secret in (*secrets, *protocol.split_secret(bytes(32), plan_of(3)))]


def sites_that_were_one_process_share_no_secret() -> None:
    # Whatever a program remembers, a counter or a generator, is the same in both.
    first, other = (in_a_fork(secrets_of_sites) for _ in range(2))
    assert len({*first, *other}) == len(first) + len(other)


def secrets_have_256_bits() -> None:
    # Of 65 secrets some have each bit and some have not, but for one time in 2^56.
    drawn = b"".join(map(bytes.fromhex, secrets_of_sites()[:65]))
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8).reshape(65, 32), axis=1)
    assert (bits.any(0) & ~bits.all(0)).all()


# Mutants: a fault of masks is planted in sites and server alike, so that sums stay exact


def shares_by_a_fixed_polynomial(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(protocol, "split_secret", functools.cache(protocol.split_secret))
    protocol.split_secret(bytes(32), plan_of(3))


def repeated_secrets(plant: pytest.MonkeyPatch) -> None:
    """A site has the secrets of its first sum in each later one; plans of the test have the same name."""
    true_new, first = SiteAggregation.__init__, dict[str, dict[str, Any]]()

    def new(self: SiteAggregation, plan: AggregationPlan, site: str) -> None:
        true_new(self, plan, site)
        drawn = {name: getattr(self, name) for name in ("_encryption_key", "_mask_key", "_seed")}
        vars(self).update(first.setdefault(site, drawn))

    plant.setattr(SiteAggregation, "__init__", new)


def both_add_the_mask_of_a_pair(plant: pytest.MonkeyPatch) -> None:
    def added(plan: AggregationPlan, pair: tuple[str, str], *rest: Any) -> Any:
        return TRUE_PAIR(plan, tuple(sorted(pair, key=plan.place)), *rest)  # type: ignore[arg-type]

    plant.setattr(protocol, "pair_mask", added)


def seeds_of_32_bits(plant: pytest.MonkeyPatch) -> None:
    def folded(seed: bytes, length: int) -> Any:
        fold = np.bitwise_xor.reduce(np.frombuffer(seed, "<u4"))
        return TRUE_STREAM(int(fold).to_bytes(32, "little"), length)

    plant.setattr(protocol, "mask_stream", folded)


def both_secrets_revealed(plant: pytest.MonkeyPatch) -> None:
    def unmask(self: SiteAggregation, *_: Any) -> bytes:
        seeds = {site: pair[:SECRET_BYTES].hex() for site, pair in self._shares.items()}
        keys = {site: pair[SECRET_BYTES:].hex() for site, pair in self._shares.items()}
        return written(Unmasking(plan=self.plan.digest, seeds=seeds, mask_keys=keys))

    plant.setattr(SiteAggregation, "unmask", unmask)


def forgets(plant: pytest.MonkeyPatch, method: str) -> None:
    """A site is afterwards as it was before the call."""
    true_method = getattr(SiteAggregation, method)

    def call(self: SiteAggregation, *arguments: Any) -> Any:
        before = dict(vars(self))
        reply = true_method(self, *arguments)
        vars(self).update(before)
        return reply

    plant.setattr(SiteAggregation, method, call)


def vectors_forgotten(plant: pytest.MonkeyPatch) -> None:
    forgets(plant, "mask")
    plant.setattr(SiteAggregation, "_at", lambda self, stage: None)


def planted(owner: Any, name: str, fault: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda plant: plant.setattr(owner, name, fault)


_numbers, _rng = itertools.count(), np.random.default_rng()
MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "no own mask": (
        planted(protocol, "own_mask", lambda plan, site, seed, length: np.zeros(length, np.uint64)),
        a_late_vector_stays_masked,
    ),
    "no mask of a pair": (
        planted(protocol, "pair_mask", lambda plan, pair, secret, length: np.zeros(length, np.uint64)),
        vectors_stay_masked_after_a_sum,
    ),
    "repeated secrets": (repeated_secrets, sums_have_masks_of_their_own),
    "both add the mask of a pair": (both_add_the_mask_of_a_pair, sums_are_exact),
    "seeds of 32 bits": (seeds_of_32_bits, seeds_give_streams_of_their_own),
    "both secrets revealed": (both_secrets_revealed, no_site_reveals_both_secrets_of_another),
    "threshold unchecked": (
        planted(AggregationPlan, "check_enough", lambda self, sites, stage: None),
        sites_take_masks_off_sums_of_enough_sites_alone,
    ),
    "answers forgotten": (lambda plant: forgets(plant, "unmask"), sites_take_masks_off_one_sum),
    "vectors forgotten": (vectors_forgotten, sites_mask_one_vector),
    "any threshold": (
        planted(AggregationPlan, "__post_init__", lambda self: None), no_two_sets_of_sites_can_each_reach_the_threshold
    ),
    "counted secrets": (
        planted(protocol, "_random", lambda: hashlib.sha256(str(next(_numbers)).encode()).digest()),
        sites_that_were_one_process_share_no_secret,
    ),
    "secrets of a generator": (
        planted(protocol, "_random", lambda: _rng.bytes(32)), sites_that_were_one_process_share_no_secret
    ),
    "shares by a fixed polynomial": (shares_by_a_fixed_polynomial, sites_that_were_one_process_share_no_secret),
    "short secrets": (planted(protocol, "_random", lambda: bytes(24) + os.urandom(8)), secrets_have_256_bits),
}  # fmt: skip


@pytest.mark.parametrize("check", dict.fromkeys(check for _, check in MUTANTS.values()))
def test_each_check_passes_on_the_code_as_it_is(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(("mutant", "check"), MUTANTS.values(), ids=MUTANTS)
def test_each_mutant_fails_its_check(
    mutant: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check()

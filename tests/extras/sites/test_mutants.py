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

from tests.extras.sites.protocol_run import LENGTH, Run, collect, counts, is_uniform, plan_of, set_up, total
from tests.synth.dp.test_mutants import in_a_fork
from understudy.extras.sites import secure_aggregation, site_aggregation
from understudy.extras.sites.secure_aggregation import (
    Advertisement,
    AggregationError,
    AggregationPlan,
    Unmasking,
    UnmaskRequest,
    parsed,
    shared_secret,
    written,
)
from understudy.extras.sites.site_aggregation import SiteAggregation, SiteState

pytest.importorskip("Crypto.Protocol.SecretSharing", reason="the extra `sites` is not installed")
N_SEEDS = 350_000
"""Seeds of 32 bits would all differ once in a million tries, and 64 bits of their streams are alike as seldom."""
TRUE_STREAM, TRUE_OWN, TRUE_PAIR = (
    secure_aggregation.mask_stream,
    secure_aggregation.own_mask,
    secure_aggregation.pair_mask,
)


# Checks


def sums_are_exact() -> None:
    plan = plan_of(5)
    run = set_up(plan)
    for round_index, gone in enumerate(((), plan.sites[:2])):
        vectors = counts([site for site in plan.sites if site not in gone], 100)
        np.testing.assert_array_equal(total(run, vectors, round_index), sum(vectors.values()))


def a_late_vector_stays_masked() -> None:
    run = set_up(plan_of(3))
    late, *others = run.plan.sites
    vectors = counts(run.plan.sites)
    content = run.sites[late].mask(0, vectors.pop(late))
    total(run, vectors)
    run.received["mask", 0, late] = content
    stripped = run.masked(late)
    for other in others:
        keys = parsed(run.plan, run.received["advertise", 0, other], Advertisement)
        secret = shared_secret(run.mask_key(late), keys.mask_keys[0])
        stripped = stripped - secure_aggregation.pair_mask(run.plan, 0, (late, other), secret, LENGTH)
    assert is_uniform(stripped)


def vectors_stay_masked_after_a_sum() -> None:
    run = set_up(plan_of(4))
    total(run, counts(run.plan.sites))
    stripped = {
        site: run.masked(site) - secure_aggregation.own_mask(run.plan, 0, site, run.seed(site), LENGTH)
        for site in run.plan.sites
    }
    for size in range(1, 4):
        for some in itertools.combinations(stripped.values(), size):
            assert is_uniform(np.sum(some, axis=0, dtype=np.uint64))


def rounds_have_masks_of_their_own() -> None:
    run = set_up(plan_of(3))
    for round_index in range(2):
        collect(run, counts(run.plan.sites, seed=round_index), round_index)
    for site in run.plan.sites:
        assert is_uniform(run.masked(site, 1) - run.masked(site, 0))


def seeds_give_streams_of_their_own() -> None:
    seeds = os.urandom(32 * N_SEEDS)
    streams = {secure_aggregation.mask_stream(seeds[i : i + 32], 1)[0] for i in range(0, len(seeds), 32)}
    assert len(streams) == N_SEEDS


def no_site_reveals_both_secrets_of_another() -> None:
    run = set_up(plan_of(5))
    answered = run.plan.sites[:4]
    request = collect(run, counts(answered))
    for site in answered:
        reply = parsed(run.plan, run.sites[site].unmask(request), Unmasking)
        assert not reply.seeds.keys() & reply.mask_keys.keys()
        assert (set(reply.seeds), set(reply.mask_keys)) == (set(answered), {run.plan.sites[4]})


def sites_take_masks_off_sums_of_enough_sites_alone() -> None:
    run = set_up(plan_of(5))
    collect(run, counts(run.plan.sites))
    assert refused(run, run.plan.sites[:2])


def sites_take_masks_off_one_sum_a_round() -> None:
    run = set_up(plan_of(5))
    run.sites[run.plan.sites[0]].unmask(collect(run, counts(run.plan.sites)))
    assert refused(run, run.plan.sites[:4])


def refused(run: Run, answered: tuple[str, ...]) -> bool:
    request = written(UnmaskRequest(plan=run.plan.digest, round_index=0, answered=answered))
    try:
        run.sites[run.plan.sites[0]].unmask(request)
    except AggregationError:
        return True
    return False


def sites_mask_one_vector_a_round() -> None:
    run = set_up(plan_of(3))
    site = run.sites[run.plan.sites[0]]
    site.mask(0, np.zeros(3, np.int64))
    try:
        site.mask(0, np.ones(3, np.int64))
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


def secrets_of_a_site() -> list[str]:
    site = SiteAggregation(plan_of(3, n_rounds=32), "site-0")
    state = site._state
    shares = [share.hex() for share in secure_aggregation.split_secret(bytes(32), site.plan)]
    return [state.encryption_key, *state.mask_keys.values(), *state.seeds.values(), *shares]


def sites_that_were_one_process_share_no_secret() -> None:
    # Whatever a program remembers, a counter or a generator, is the same in both.
    one, other = (in_a_fork(secrets_of_a_site) for _ in range(2))
    assert len({*one, *other}) == len(one) + len(other)


def secrets_have_256_bits() -> None:
    # Of 65 secrets some have each bit and some have not, but for one time in 2^56.
    drawn = b"".join(map(bytes.fromhex, secrets_of_a_site()[:65]))
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8).reshape(65, 32), axis=1)
    assert (bits.any(0) & ~bits.all(0)).all()


# Mutants


def counted_secrets(plant: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    plant.setattr(site_aggregation, "_random", lambda: hashlib.sha256(str(next(numbers)).encode()).hexdigest())


def secrets_of_a_generator(plant: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng()
    plant.setattr(site_aggregation, "_random", lambda: rng.bytes(32).hex())


def shares_by_a_fixed_polynomial(plant: pytest.MonkeyPatch) -> None:
    true_split = secure_aggregation.split_secret
    plant.setattr(secure_aggregation, "split_secret", functools.cache(true_split))
    secure_aggregation.split_secret(bytes(32), plan_of(3, n_rounds=32))


def short_secrets(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(site_aggregation, "_random", lambda: bytes(24).hex() + os.urandom(8).hex())


def both_sides(plant: pytest.MonkeyPatch, name: str, fault: Callable[..., Any]) -> None:
    """A fault that sites and the server share, so that sums stay exact."""
    plant.setattr(secure_aggregation, name, fault)


def no_own_mask(plant: pytest.MonkeyPatch) -> None:
    both_sides(plant, "own_mask", lambda plan, round_index, site, seed, length: np.zeros(length, np.uint64))


def no_pair_mask(plant: pytest.MonkeyPatch) -> None:
    both_sides(plant, "pair_mask", lambda plan, round_index, pair, secret, length: np.zeros(length, np.uint64))


def repeated_secrets(plant: pytest.MonkeyPatch) -> None:
    """Each round has the secrets of the first, and the round is left out of what keys are derived for."""
    true_new = SiteAggregation._new

    def new(self: SiteAggregation) -> SiteState:
        state = true_new(self)
        rounds = range(self.plan.n_rounds)
        repeated = {"seeds": dict.fromkeys(rounds, state.seeds[0])}
        repeated["mask_keys"] = dict.fromkeys(rounds, state.mask_keys[0])
        return state.model_copy(update=repeated)

    plant.setattr(SiteAggregation, "_new", new)
    plant.setattr(SiteAggregation, "_check_keys", lambda self, keys, own: None)
    both_sides(plant, "own_mask", lambda plan, round_index, *rest: TRUE_OWN(plan, 0, *rest))
    both_sides(plant, "pair_mask", lambda plan, round_index, *rest: TRUE_PAIR(plan, 0, *rest))


def both_add_the_mask_of_a_pair(plant: pytest.MonkeyPatch) -> None:
    both_sides(
        plant,
        "pair_mask",
        lambda plan, round_index, pair, *rest: TRUE_PAIR(plan, round_index, tuple(sorted(pair, key=plan.place)), *rest),
    )


def seeds_of_32_bits(plant: pytest.MonkeyPatch) -> None:
    def folded(seed: bytes, length: int) -> Any:
        fold = np.bitwise_xor.reduce(np.frombuffer(seed, "<u4"))
        return TRUE_STREAM(int(fold).to_bytes(32, "little"), length)

    plant.setattr(secure_aggregation, "mask_stream", folded)


def both_secrets_revealed(plant: pytest.MonkeyPatch) -> None:
    def revealed(self: SiteAggregation, request: UnmaskRequest, pairs: dict[str, bytes]) -> Unmasking:
        return Unmasking(
            plan=self.plan.digest,
            round_index=request.round_index,
            seeds={site: pair[:32].hex() for site, pair in pairs.items()},
            mask_keys={site: pair[32:].hex() for site, pair in pairs.items()},
        )

    plant.setattr(SiteAggregation, "_revealed", revealed)


def threshold_unchecked(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(AggregationPlan, "check_enough", lambda self, sites, stage: None)


def answers_forgotten(plant: pytest.MonkeyPatch) -> None:
    true_go = SiteAggregation._go
    plant.setattr(SiteAggregation, "_go", lambda self, **changes: true_go(self, **(changes | {"unmasked": {}})))


def rounds_unchecked(plant: pytest.MonkeyPatch) -> None:
    """A round may be repeated, and its secrets are not forgotten."""
    plant.setattr(AggregationPlan, "check_round", lambda self, round_index, last: None)
    true_go = SiteAggregation._go

    def go(self: SiteAggregation, **changes: object) -> None:
        true_go(self, **{key: value for key, value in changes.items() if key not in ("seeds", "mask_keys")})

    plant.setattr(SiteAggregation, "_go", go)


def any_threshold(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(AggregationPlan, "__post_init__", lambda self: None)


MUTANTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]], ...] = (
    (no_own_mask, a_late_vector_stays_masked),
    (no_pair_mask, vectors_stay_masked_after_a_sum),
    (repeated_secrets, rounds_have_masks_of_their_own),
    (both_add_the_mask_of_a_pair, sums_are_exact),
    (seeds_of_32_bits, seeds_give_streams_of_their_own),
    (both_secrets_revealed, no_site_reveals_both_secrets_of_another),
    (threshold_unchecked, sites_take_masks_off_sums_of_enough_sites_alone),
    (answers_forgotten, sites_take_masks_off_one_sum_a_round),
    (rounds_unchecked, sites_mask_one_vector_a_round),
    (any_threshold, no_two_sets_of_sites_can_each_reach_the_threshold),
    (counted_secrets, sites_that_were_one_process_share_no_secret),
    (secrets_of_a_generator, sites_that_were_one_process_share_no_secret),
    (shares_by_a_fixed_polynomial, sites_that_were_one_process_share_no_secret),
    (short_secrets, secrets_have_256_bits),
)
SILENT = (no_own_mask, no_pair_mask, repeated_secrets, seeds_of_32_bits, counted_secrets, short_secrets)
"""Mutants whose sums are right: no sum would ever show them."""


@pytest.mark.parametrize("check", dict.fromkeys(check for _, check in MUTANTS))
def test_each_check_passes_on_the_code_as_it_is(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(("mutant", "check"), MUTANTS)
def test_each_mutant_fails_its_check(
    mutant: Callable[[pytest.MonkeyPatch], None], check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("mutant", SILENT)
def test_faults_of_masks_leave_sums_exact_so_only_the_checks_find_them(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    sums_are_exact()

import dataclasses
import itertools

import numpy as np
import pytest

from tests.extras.sites.protocol_run import (
    LENGTH,
    Run,
    collect,
    counts,
    is_uniform,
    left,
    plan_of,
    set_up,
    total,
)
from understudy.extras.sites.secure_aggregation import (
    Advertisement,
    AggregationError,
    AggregationPlan,
    KeyList,
    Masked,
    SealedShares,
    Unmasking,
    UnmaskRequest,
    joined_secret,
    own_mask,
    pair_mask,
    parsed,
    public_key,
    shared_secret,
    split_secret,
    written,
)
from understudy.extras.sites.server_aggregation import ServerAggregation
from understudy.extras.sites.site_aggregation import SiteAggregation

SecretSharing = pytest.importorskip("Crypto.Protocol.SecretSharing", reason="the extra `sites` is not installed")
HALVES = (slice(0, 16), slice(16, 32))


# Sums


@pytest.mark.parametrize("n", [3, 5, 10])
def test_sums_of_all_rounds_are_exact(n: int) -> None:
    run = set_up(plan_of(n, n_rounds=3))
    rng = np.random.default_rng(n)
    for round_index, length in enumerate((1, 7, 1000)):
        vectors = {site: rng.integers(-(2**58), 2**58, length) for site in run.plan.sites}
        np.testing.assert_array_equal(total(run, vectors, round_index), sum(vectors.values()))


def test_numbers_at_the_bounds_of_the_sum_are_exact() -> None:
    run = set_up(plan_of(3))
    first, second, third = run.plan.sites
    largest = 2**63 - 1
    vectors = {
        first: np.array([largest, -largest - 1, largest, -1]),
        second: np.array([0, 0, -largest, -1]),
        third: np.array([0, 0, -1, -1]),
    }
    np.testing.assert_array_equal(total(run, vectors), [largest, -largest - 1, -1, -3])


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("stage", ["advertise", "share", "receive", "mask", "unmask"])
def test_as_many_sites_as_the_plan_allows_drop_out_at_any_stage(n: int, stage: str) -> None:
    plan = plan_of(n)
    gone = plan.sites[1 : 1 + n - plan.threshold]
    run = set_up(plan, **{stage: gone})
    for round_index in range(plan.n_rounds):
        vectors = counts(plan.sites if stage == "unmask" else left(plan, gone), 50, round_index)
        result = total(run, vectors, round_index, silent=gone if stage == "unmask" else ())
        np.testing.assert_array_equal(result, sum(vectors.values()))
        assert run.server.answered == tuple(vectors)


def test_sites_drop_out_one_after_the_other() -> None:
    plan = plan_of(10, threshold=6)
    a, b, c, d, *rest = plan.sites
    run = set_up(plan, advertise=[a], share=[b])
    assert run.server.partners == (c, d, *rest)
    vectors = counts([d, *rest])
    np.testing.assert_array_equal(total(run, vectors, silent=[d]), sum(vectors.values()))


def test_a_site_that_missed_a_round_is_in_the_next() -> None:
    plan = plan_of(3)
    run = set_up(plan)
    assert total(run, counts(plan.sites[:2]), 0).size
    vectors = counts(plan.sites)
    np.testing.assert_array_equal(total(run, vectors, 1), sum(vectors.values()))
    wrong = UnmaskRequest(plan=plan.digest, round_index=0, answered=plan.sites)
    with pytest.raises(AggregationError, match="its own vector"):
        run.sites[plan.sites[2]].unmask(written(wrong))


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "unmask"])
def test_fewer_sites_than_the_threshold_get_no_sum(stage: str) -> None:
    plan = plan_of(5, threshold=3)
    few = plan.sites[2:]
    with pytest.raises(AggregationError, match="fewer sites than the threshold"):
        run = set_up(plan, **{stage: few[:-1] if stage in ("mask", "unmask") else few})
        if stage == "mask":
            collect(run, counts(plan.sites[:2]))
        total(run, counts(plan.sites), silent=few)


# The server's view


def test_each_vector_that_the_server_receives_is_uniform_and_so_is_the_sum_of_some() -> None:
    run = set_up(plan_of(5))
    vectors = counts(run.plan.sites)
    collect(run, vectors)
    for size in range(1, 6):  # before anything is revealed, the sum of all is uniform, too
        for some in itertools.combinations(run.plan.sites, size):
            assert is_uniform(np.sum([run.masked(site) for site in some], axis=0, dtype=np.uint64)), some
    assert not is_uniform(np.sum(list(vectors.values()), axis=0).astype(np.uint64))


def test_the_same_vectors_are_masked_otherwise_in_each_round_and_run() -> None:
    runs = [set_up(plan_of(3)) for _ in range(2)]
    vectors = counts(runs[0].plan.sites)
    for run, round_index in itertools.product(runs, range(2)):
        collect(run, vectors, round_index)
    for site in vectors:
        masked = [run.masked(site, round_index) for run, round_index in itertools.product(runs, range(2))]
        assert all(is_uniform(a - b) for a, b in itertools.combinations(masked, 2))


def test_no_message_holds_a_secret_of_a_site() -> None:
    plan = plan_of(3)
    run = set_up(plan)
    new = SiteAggregation(plan, plan.sites[0])
    state = new._state
    secret = [state.encryption_key, *state.seeds.values(), *state.mask_keys.values()]
    sent = [new.advertise()]
    others = {site: run.received["advertise", 0, site] for site in plan.sites[1:]}
    keys = {site: parsed(plan, content, Advertisement) for site, content in [*others.items(), (new.site, sent[0])]}
    sent.append(new.share(written(KeyList(plan=plan.digest, keys=keys))))
    assert not any(one.encode() in content for one in secret for content in sent)
    assert not any(one in repr(state) for one in secret)


def test_a_vector_that_comes_too_late_stays_masked() -> None:
    late, run = late_vector()
    left_over = run.masked(late)
    key = run.mask_key(late)
    for other in run.plan.sites[1:]:
        left_over = left_over - with_other(run, late, other, key)
    assert is_uniform(left_over)


def late_vector() -> tuple[str, Run]:
    """A round without the vector of the first site, which the server has when the round is over."""
    run = set_up(plan_of(4))
    late = run.plan.sites[0]
    vectors = counts(run.plan.sites)
    content = run.sites[late].mask(0, vectors.pop(late))
    total(run, vectors)
    run.received["mask", 0, late] = content
    return late, run


def with_other(run: Run, site: str, other: str, private: bytes, round_index: int = 0) -> Masked:
    """The mask that a site has with another, from its private key."""
    keys = parsed(run.plan, run.received["advertise", 0, other], Advertisement)
    secret = shared_secret(private, keys.mask_keys[round_index])
    return pair_mask(run.plan, round_index, (site, other), secret, LENGTH)


@pytest.mark.parametrize(("n", "threshold", "n_dropped"), [(5, 4, 1), (5, 5, 0), (10, 6, 4), (3, 3, 0)])
def test_colluding_sites_and_the_server_learn_the_sum_of_the_others_alone(
    n: int, threshold: int, n_dropped: int
) -> None:
    plan = plan_of(n, threshold, n_rounds=1)
    run = set_up(plan)
    colluders = plan.sites[: threshold - 2]
    dropped, honest = plan.sites[n - n_dropped :], plan.sites[len(colluders) : n - n_dropped]
    assert len(honest) == 2
    states = {site: run.sites[site]._state for site in colluders}
    vectors = counts(plan.sites[: n - n_dropped])
    total(run, vectors)

    keys = {site: bytes.fromhex(state.mask_keys[0]) for site, state in states.items()}
    keys |= {site: run.mask_key(site) for site in dropped}
    stripped = {}
    for site in honest:
        stripped[site] = run.masked(site) - own_mask(plan, 0, site, run.seed(site), LENGTH)
        for other, key in keys.items():
            stripped[site] = stripped[site] + with_other(run, other, site, key)
    assert all(is_uniform(numbers) for numbers in stripped.values())
    known = stripped[honest[0]] + stripped[honest[1]]
    np.testing.assert_array_equal(known.view(np.int64), vectors[honest[0]] + vectors[honest[1]])

    shamir = SecretSharing.Shamir
    for site in honest:  # and what they hold of a mask key does not give it
        held = [(plan.place(by) + 1, bytes.fromhex(state.shares[site])[32:64]) for by, state in states.items()]
        if held:
            joined = b"".join(shamir.combine([(at, share[half]) for at, share in held]) for half in HALVES)
            assert public_key(joined) != parsed(plan, run.received["advertise", 0, site], Advertisement).mask_keys[0]


def test_shares_below_the_threshold_are_uniform_whatever_the_secret_is() -> None:
    plan = plan_of(5, threshold=3)
    secret = bytes(32)
    splits = [split_secret(secret, plan) for _ in range(5_000)]
    for some in ((0, 1), (3, 4)):
        for step in (slice(0, 8), slice(24, 32)):
            pairs = [np.frombuffer(split[place][step], "<u8")[0] for split in splits for place in some]
            assert is_uniform(np.array(pairs, dtype=np.uint64))
    halves = [split[0][:16] == split[0][16:] for split in splits]
    assert not any(halves)  # equal halves of a secret have polynomials of their own


@pytest.mark.parametrize("n", [3, 5, 10])
def test_every_set_of_as_many_shares_as_the_threshold_gives_the_secret(n: int) -> None:
    plan = plan_of(n)
    secret = bytes(range(32))
    shares = dict(zip(plan.sites, split_secret(secret, plan), strict=True))
    for some in itertools.combinations(plan.sites, plan.threshold):
        assert joined_secret({site: shares[site] for site in some}, plan) == secret


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sites": ("a", "b"), "threshold": 2}, "two sites cannot be protected from each other.*n_sites=2"),
        ({"sites": ("a", "a", "b")}, "a name of its own"),
        ({"sites": ("a", "", "b")}, "a name of its own"),
        ({"sites": ("a", "b", "c", "d"), "threshold": 2}, "above half.*threshold=2.*from 3 to 4"),
        ({"threshold": 4}, "above half.*threshold=4"),
    ],
)
def test_plans_without_protection_are_refused(changes: dict[str, object], message: str) -> None:
    plan = {"run_id": "run", "sites": ("a", "b", "c"), "threshold": 2, "n_rounds": 1}
    with pytest.raises(AggregationError, match=message):
        AggregationPlan(**(plan | changes))  # type: ignore[arg-type]


def test_a_site_takes_stages_once_and_in_order() -> None:
    plan = plan_of(3)
    site = SiteAggregation(plan, plan.sites[0])
    for early in (
        lambda: site.share(b""),
        lambda: site.receive(b""),
        lambda: site.mask(0, np.zeros(1, np.int64)),
        lambda: site.unmask(b""),
    ):
        with pytest.raises(AggregationError, match="stages of a run"):
            early()
    site.advertise()
    with pytest.raises(AggregationError, match="come once"):
        site.advertise()
    with pytest.raises(AggregationError, match="only sites of the plan"):
        SiteAggregation(plan, "stranger")


def test_the_server_refuses_vectors_of_another_length_or_round() -> None:
    run = set_up(plan_of(3))
    first, second, _ = run.plan.sites
    run.server.begin(1, 5)
    with pytest.raises(AggregationError, match="one public length"):
        run.server.take_masked(first, run.sites[first].mask(1, np.zeros(4, np.int64)))
    with pytest.raises(AggregationError, match="another plan or round"):
        run.server.take_masked(second, run.sites[second].mask(0, np.zeros(5, np.int64)))
    for round_index in (1, 0, 2):
        with pytest.raises(AggregationError, match="each round of a plan is taken once"):
            run.server.begin(round_index, 5)


def test_a_site_masks_one_vector_a_round() -> None:
    run = set_up(plan_of(3))
    site = run.sites[run.plan.sites[0]]
    for wrong in (np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(0, np.int64)):
        with pytest.raises(AggregationError, match="one axis of int64"):
            site.mask(0, wrong)  # type: ignore[arg-type]
    site.mask(0, np.zeros(3, np.int64))
    for round_index in (0, -1, 2):
        with pytest.raises(AggregationError, match="each round of a plan is taken once"):
            site.mask(round_index, np.ones(3, np.int64))


def test_a_site_takes_masks_off_one_set_of_sites_a_round() -> None:
    plan = plan_of(5, threshold=3)
    run = set_up(plan)
    request = collect(run, counts(plan.sites))
    site = run.sites[plan.sites[0]]

    def asked(answered: tuple[str, ...], round_index: int = 0) -> bytes:
        return written(UnmaskRequest(plan=plan.digest, round_index=round_index, answered=answered))

    with pytest.raises(AggregationError, match="fewer sites than the threshold"):
        site.unmask(asked(plan.sites[:2]))
    with pytest.raises(AggregationError, match="each once"):
        site.unmask(asked((*plan.sites[:3], plan.sites[0])))
    with pytest.raises(AggregationError, match="each once"):
        site.unmask(asked((*plan.sites[:3], "stranger")))
    with pytest.raises(AggregationError, match="its own vector"):
        site.unmask(asked(plan.sites[1:]))
    for round_index in (1, -1):
        with pytest.raises(AggregationError, match="its own vector"):
            site.unmask(asked(plan.sites, round_index))
    assert site.unmask(request) == site.unmask(request)
    with pytest.raises(AggregationError, match="one set of sites"):
        site.unmask(asked(plan.sites[:4]))


def test_a_run_of_another_plan_and_other_messages_are_refused() -> None:
    plan = plan_of(3)
    other = dataclasses.replace(plan, run_id="another")
    content = SiteAggregation(other, plan.sites[0]).advertise()
    server = ServerAggregation(plan)
    with pytest.raises(AggregationError, match="another plan"):
        server.take_advertisement(plan.sites[0], content)
    for damaged in (b"", b"{}", b"\xff", content[:-5], content.replace(b"advertisement", b"shares")):
        with pytest.raises(AggregationError, match="another form or stage"):
            server.take_advertisement(plan.sites[0], damaged)


def test_shares_that_were_changed_or_sealed_for_another_are_refused() -> None:
    plan = plan_of(3)
    run = set_up(plan, receive=plan.sites)
    first, second, third = plan.sites
    sealed = parsed(plan, run.server.shares_for(first), SealedShares).sealed
    others = parsed(plan, run.server.shares_for(second), SealedShares).sealed
    flipped = f"{int(sealed[second][-2:], 16) ^ 1:02x}"
    for wrong in (
        sealed | {second: sealed[second][:-2] + flipped},
        sealed | {second: sealed[third]},
        sealed | {third: others[third]},
        sealed | {second: "00"},
    ):
        with pytest.raises(AggregationError, match="sealed by their sender"):
            run.sites[first].receive(written(SealedShares(plan=plan.digest, sealed=wrong)))
    with pytest.raises(AggregationError, match="fewer sites"):
        run.sites[first].receive(written(SealedShares(plan=plan.digest, sealed={})))
    run.sites[first].receive(written(SealedShares(plan=plan.digest, sealed=sealed)))


def test_keys_that_are_repeated_missing_or_of_small_order_are_refused() -> None:
    plan = plan_of(3)
    sites = {site: SiteAggregation(plan, site) for site in plan.sites}
    keys = {site: parsed(plan, one.advertise(), Advertisement) for site, one in sites.items()}
    first, second, third = plan.sites
    repeated = keys[second].model_copy(update={"mask_keys": (keys[second].mask_keys[0],) * 2})
    short = keys[second].model_copy(update={"mask_keys": keys[second].mask_keys[:1]})
    weak = keys[second].model_copy(update={"encryption_key": "00" * 32})
    for changes, message in (
        ({second: repeated}, "no two keys are the same"),
        ({second: short}, "keys for each round"),
        ({second: weak}, "shares no secret"),
        ({first: keys[third], third: keys[first]}, "the keys of this site"),
    ):
        with pytest.raises(AggregationError, match=message):
            sites[first].share(written(KeyList(plan=plan.digest, keys=keys | changes)))


def test_a_wrong_share_is_noticed_in_place_of_a_wrong_sum() -> None:
    for kind, answering in (("seeds", 3), ("mask_keys", 2)):
        plan = plan_of(3)
        run = set_up(plan)
        vectors = counts(plan.sites[:answering])
        request = collect(run, vectors)
        for site in vectors:
            reply = parsed(plan, run.sites[site].unmask(request), Unmasking)
            wrong = dict.fromkeys(getattr(reply, kind), "ab" * 32)
            run.server.take_unmasking(site, written(reply.model_copy(update={kind: wrong})))
        with pytest.raises(AggregationError, match="a wrong one"):
            run.server.total()


def test_the_server_takes_one_share_of_each_site() -> None:
    plan = plan_of(3)
    run = set_up(plan)
    request = collect(run, counts(plan.sites[:2]))
    reply = parsed(plan, run.sites[plan.sites[0]].unmask(request), Unmasking)
    for wrong in (
        {"mask_keys": {}},
        {"seeds": reply.seeds | reply.mask_keys},
        {"mask_keys": reply.seeds | reply.mask_keys},
        {"round_index": 1},
    ):
        with pytest.raises(AggregationError, match="one share of each site"):
            run.server.take_unmasking(plan.sites[0], written(reply.model_copy(update=wrong)))
    run.server.take_unmasking(plan.sites[0], written(reply))

import numpy as np
import pytest

from tests.extras.sites.protocol_run import Run, is_uniform, plan_of, run_of
from understudy.extras.sites import secure_aggregation as protocol

SecretSharing = pytest.importorskip("Crypto.Protocol.SecretSharing", reason="the extra `sites` is not installed")
HALVES = (slice(0, 16), slice(16, 32))
FIRST, SECOND, THIRD = plan_of(3).sites


def test_sums_of_numbers_at_the_bounds_are_exact() -> None:
    plan, largest = plan_of(3), 2**63 - 1
    ends = dict.fromkeys(plan.sites, np.zeros(2, np.int64)) | {FIRST: np.array([largest, -largest - 1])}
    np.testing.assert_array_equal(Run(plan, ends).total(), [largest, -largest - 1])


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "unmask"])
def test_as_many_sites_as_the_plan_allows_drop_out_at_any_stage(stage: str) -> None:
    n = 5
    gone = plan_of(n).sites[1 : 1 + n - plan_of(n).threshold]
    run = run_of(n, length=50, gone={stage: gone})
    total = run.total()
    assert run.answered == tuple(site for site in run.plan.sites if stage == "unmask" or site not in gone)
    np.testing.assert_array_equal(total, sum(run.vectors[site] for site in run.answered))


@pytest.mark.parametrize("stage", ["advertise", "share", "mask", "unmask"])
def test_fewer_sites_than_the_threshold_get_no_sum(stage: str) -> None:
    with pytest.raises(protocol.AggregationError, match="fewer sites than the threshold"):
        run_of(5, 3, gone={stage: plan_of(5).sites[2:]}).total()


def test_no_message_holds_a_secret_of_a_site() -> None:
    run = run_of(3)
    secrets = [key for site in run.sites.values() for key in (site._encryption_key, site._mask_key, site._seed)]
    run.total()
    messages = [text for (stage, _), text in run.received.items() if stage != "mask"]
    assert len(messages) == 9 and not any(key.hex().encode() in text for key in secrets for text in messages)
    assert {site._seed + site._mask_key for site in run.sites.values()} == {b""}  # forgotten


@pytest.mark.parametrize(("n", "threshold", "n_dropped"), [(5, 4, 1), (5, 5, 0), (10, 6, 4)])
def test_colluding_sites_and_the_server_learn_the_sum_of_the_others_alone(
    n: int, threshold: int, n_dropped: int
) -> None:
    sites = plan_of(n).sites
    colluders, dropped = sites[: threshold - 2], sites[n - n_dropped :]
    honest = sites[len(colluders) : n - n_dropped]
    assert len(honest) == 2
    run = run_of(n, threshold, gone={"mask": dropped})
    keys = {site: run.sites[site]._mask_key for site in colluders}
    run.total()
    keys |= {site: run.secret("mask_keys", site) for site in dropped}
    stripped = {}
    for site in honest:
        stripped[site] = run.without_own(site)
        for other, key in keys.items():
            run.received.setdefault(("mask", other), run.received["mask", site])
            stripped[site] = stripped[site] + run.with_other(other, site, key)
    assert all(is_uniform(numbers) for numbers in stripped.values())
    known = stripped[honest[0]] + stripped[honest[1]]
    np.testing.assert_array_equal(known.view(np.int64), run.vectors[honest[0]] + run.vectors[honest[1]])
    for site in honest:  # and what they hold of a mask key does not give it
        shares = [(run.plan.place(by) + 1, run.sites[by]._shares[site][protocol.SECRET_BYTES :]) for by in colluders]
        if shares:
            combine = SecretSharing.Shamir.combine
            joined = b"".join(combine([(at, share[half]) for at, share in shares]) for half in HALVES)
            assert (
                protocol.public_key(joined)
                != protocol.parsed(run.plan, run.received["advertise", site], protocol.Advertisement).mask_key
            )


def test_a_site_takes_stages_once_and_in_order() -> None:
    site = protocol.SiteAggregation(plan_of(3), FIRST)
    vector = np.zeros(1, np.int64)
    early = [lambda: site.share(b""), lambda: site.receive(b""), lambda: site.mask(vector), lambda: site.unmask(b"")]
    for call in early:
        with pytest.raises(protocol.AggregationError, match="come once, in order"):
            call()
    site.advertise()
    run = run_of(3)
    run.total()
    for call in (site.advertise, run.sites[FIRST].advertise, lambda: run.sites[FIRST].mask(vector)):
        with pytest.raises(protocol.AggregationError, match="come once, in order"):
            call()
    with pytest.raises(protocol.AggregationError, match="only sites of the plan"):
        protocol.SiteAggregation(plan_of(3), "stranger")


def first_at(stage: str) -> tuple[Run, protocol.SiteAggregation, bytes]:
    """A run without the first of three sites from a stage on, and what the server sent it."""
    run = run_of(3, gone={stage: [FIRST]})
    run.total()
    return run, run.sites[FIRST], run.sent[stage, FIRST]


def test_keys_that_are_repeated_or_of_small_order_are_refused() -> None:
    run, site, message = first_at("share")
    keys = protocol.parsed(run.plan, message, protocol.KeyList).keys
    stranger = keys[SECOND].model_copy(update={"mask_key": "11" * 32, "encryption_key": "22" * 32})
    for changes, reason in (
        ({SECOND: keys[SECOND].model_copy(update={"mask_key": keys[THIRD].mask_key})}, "no two keys are the same"),
        ({SECOND: keys[SECOND].model_copy(update={"encryption_key": "00" * 32})}, "shares no secret"),
        ({FIRST: keys[THIRD], THIRD: keys[FIRST]}, "the keys of this site"),
        ({"stranger": stranger}, "only sites"),
    ):
        with pytest.raises(protocol.AggregationError, match=reason):
            site.share(protocol.written(protocol.KeyList(plan=run.plan.digest, keys=keys | changes)))


def test_shares_that_were_changed_or_sealed_for_another_are_refused() -> None:
    run, site, message = first_at("mask")
    sealed = protocol.parsed(run.plan, message, protocol.SealedShares).sealed
    flipped = sealed[SECOND][:-2] + f"{int(sealed[SECOND][-2:], 16) ^ 1:02x}"
    for wrong, reason in (
        ({**sealed, SECOND: flipped}, "sealed by their sender"),
        ({**sealed, SECOND: sealed[THIRD]}, "sealed by their sender"),
        ({**sealed, FIRST: sealed[SECOND]}, "shares come from other sites"),
    ):
        with pytest.raises(protocol.AggregationError, match=reason):
            site.receive(protocol.written(protocol.SealedShares(plan=run.plan.digest, sealed=wrong)))
    site.receive(message)


def test_messages_of_another_plan_or_form_are_those_of_a_site_that_dropped_out() -> None:
    other = protocol.SiteAggregation(plan_of(3, run_id="another"), FIRST).advertise()
    with pytest.raises(protocol.AggregationError, match="another plan"):
        protocol.parsed(plan_of(3), other, protocol.Advertisement)
    for damaged in (b"", b"{}", b"\xff", other[:-5], other.replace(b"commitment", b"seed"), other):
        run = run_of(3, change=lambda stage, site, reply, damaged=damaged: damaged if site == FIRST else reply)  # type: ignore[misc]
        np.testing.assert_array_equal(run.total(), run.vectors[SECOND] + run.vectors[THIRD])


@pytest.mark.parametrize("kind", ["seeds", "mask_keys"])
def test_a_wrong_share_is_noticed_in_place_of_a_wrong_sum(kind: str) -> None:
    def lying(stage: str, site: str, reply: bytes) -> bytes:
        if (stage, site) != ("unmask", FIRST):
            return reply
        message = protocol.parsed(plan_of(3), reply, protocol.Unmasking)
        return protocol.written(message.model_copy(update={kind: dict.fromkeys(getattr(message, kind), "ab" * 32)}))

    with pytest.raises(protocol.AggregationError, match="a wrong one"):
        run_of(3, gone={"mask": [THIRD]}, change=lying).total()

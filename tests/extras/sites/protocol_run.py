"""A run of secure aggregation in one process, with sites that drop out where a test says so."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from understudy.extras.sites import secure_aggregation as protocol
from understudy.extras.sites.secure_aggregation import AggregationPlan, Masked, Unmasking, Vector, parsed, parsed_vector
from understudy.extras.sites.server_aggregation import ServerAggregation
from understudy.extras.sites.site_aggregation import SiteAggregation

LENGTH = 4096
CHANCE = 1e-9
"""Where a check of uniform bytes alarms by chance."""


@dataclass
class Run:
    """A run after its set-up; `received` holds all that came to the server, by stage and site."""

    plan: AggregationPlan
    sites: dict[str, SiteAggregation]
    server: ServerAggregation
    received: dict[tuple[str, int, str], bytes] = field(default_factory=dict)

    def masked(self, site: str, round_index: int = 0) -> Masked:
        content = self.received["mask", round_index, site]
        return parsed_vector(self.plan, round_index, (len(content) - 40) // 8, content)

    def seed(self, site: str, round_index: int = 0) -> bytes:
        return protocol.joined_secret(self.revealed("seeds", site, round_index), self.plan)

    def mask_key(self, site: str, round_index: int = 0) -> bytes:
        return protocol.joined_secret(self.revealed("mask_keys", site, round_index), self.plan)

    def revealed(self, kind: str, site: str, round_index: int) -> dict[str, bytes]:
        replies = {
            by: parsed(self.plan, content, Unmasking)
            for (stage, index, by), content in self.received.items()
            if (stage, index) == ("unmask", round_index)
        }
        return {by: bytes.fromhex(getattr(reply, kind)[site]) for by, reply in replies.items()}


def plan_of(n: int, threshold: int | None = None, n_rounds: int = 2) -> AggregationPlan:
    return AggregationPlan("run", tuple(f"site-{i}" for i in range(n)), threshold or n // 2 + 1, n_rounds)


def set_up(plan: AggregationPlan, **dropped: Collection[str]) -> Run:
    """A run whose set-up is done; `dropped` names, by stage, the sites whose messages of it and later are lost."""
    run = Run(plan, {site: SiteAggregation(plan, site) for site in plan.sites}, ServerAggregation(plan))
    gone = set(dropped.get("advertise", ()))
    for site in left(plan, gone):
        run.received["advertise", 0, site] = run.sites[site].advertise()
        run.server.take_advertisement(site, run.received["advertise", 0, site])
    keys = run.server.keys()
    gone |= set(dropped.get("share", ()))
    for site in left(plan, gone):
        run.received["share", 0, site] = run.sites[site].share(keys)
        run.server.take_shares(site, run.received["share", 0, site])
    gone |= set(dropped.get("receive", ()))
    for site in left(plan, gone):
        run.sites[site].receive(run.server.shares_for(site))
    return run


def collect(run: Run, vectors: dict[str, Vector], round_index: int = 0) -> bytes:
    """Stage 3 with the sites that have a vector; the server's request."""
    run.server.begin(round_index, len(next(iter(vectors.values()))))
    for site, vector in vectors.items():
        run.received["mask", round_index, site] = run.sites[site].mask(round_index, vector)
        run.server.take_masked(site, run.received["mask", round_index, site])
    return run.server.unmask_request()


def total(run: Run, vectors: dict[str, Vector], round_index: int = 0, silent: Collection[str] = ()) -> Vector:
    """One round; sites that are `silent` answer no more once their vectors came."""
    request = collect(run, vectors, round_index)
    for site in vectors.keys() - set(silent):
        run.received["unmask", round_index, site] = run.sites[site].unmask(request)
        run.server.take_unmasking(site, run.received["unmask", round_index, site])
    return run.server.total()


def left(plan: AggregationPlan, gone: Collection[str]) -> list[str]:
    return [site for site in plan.sites if site not in gone]


def counts(sites: Iterable[str], length: int = LENGTH, seed: int = 0) -> dict[str, Vector]:
    """Small noisy counts, some below zero."""
    rng = np.random.default_rng(seed)
    return {site: rng.integers(-20, 1000, length) for site in sites}


def is_uniform(numbers: Masked) -> bool:
    """Pearson's chi-square test of the bytes of numbers, in each of their eight places."""
    places = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    p_values = [stats.chisquare(np.bincount(place, minlength=256)).pvalue for place in places.T]
    return bool(min(p_values) > CHANCE)

"""One sum by secure aggregation in this process, with sites that drop out or lie where a test says so."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from understudy.extras.sites import secure_aggregation as protocol

LENGTH = 4096
CHANCE = 1e-9  # where a check of uniform bytes alarms by chance
STAGES = ("advertise", "share", "mask", "unmask")


@dataclass
class Run:
    """A sum of vectors. `gone`: by stage, sites whose messages from it on are lost; `late`: whose vectors come late.

    `received` and `sent` hold all that came to the server, and all that it sent, by stage and site.
    """

    plan: protocol.AggregationPlan
    vectors: dict[str, protocol.Vector]
    gone: Mapping[str, Collection[str]] = field(default_factory=dict)
    late: Collection[str] = ()
    change: Callable[[str, str, bytes], bytes] = lambda stage, site, reply: reply

    def __post_init__(self) -> None:
        self.sites = {site: protocol.SiteAggregation(self.plan, site) for site in self.plan.sites}
        self.received: dict[tuple[str, str], bytes] = {}
        self.sent: dict[tuple[str, str], bytes] = {}

    def total(self) -> protocol.Vector:
        length = len(next(iter(self.vectors.values())))
        total, self.answered = protocol.sum_of_sites(self.plan, length, self.ask)
        return total

    def ask(self, stage: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        gone = {site for before in STAGES[: STAGES.index(stage) + 1] for site in self.gone.get(before, ())}
        self.sent |= {(stage, site): message for site, message in messages.items()}
        replies = {site: self.reply(stage, site, messages[site]) for site in messages if site not in gone}
        self.received |= {(stage, site): reply for site, reply in replies.items()}
        return {site: reply for site, reply in replies.items() if stage != "mask" or site not in self.late}

    def reply(self, stage: str, site: str, message: bytes) -> bytes:
        party = self.sites[site]
        if stage == "mask":
            party.receive(message)
            return self.change(stage, site, party.mask(self.vectors[site]))
        return self.change(stage, site, party.advertise() if stage == "advertise" else getattr(party, stage)(message))

    def masked(self, site: str) -> protocol.Masked:
        content = self.received["mask", site]
        return protocol.parsed_vector(self.plan, (len(content) - 32) // 8, content)

    def secret(self, kind: str, site: str) -> bytes:
        """The seed or the mask key of a site, from what others revealed."""
        replies = {
            by: protocol.parsed(self.plan, text, protocol.Unmasking)
            for (at, by), text in self.received.items()
            if at == "unmask"
        }
        shares = {by: bytes.fromhex(getattr(reply, kind)[site]) for by, reply in replies.items()}
        return protocol.joined_secret(shares, self.plan)

    def without_own(self, site: str) -> protocol.Masked:
        """A vector without the mask that its site alone adds."""
        masked = self.masked(site)
        return masked - protocol.own_mask(self.plan, site, self.secret("seeds", site), len(masked))

    def with_other(self, site: str, other: str, private: bytes) -> protocol.Masked:
        keys = protocol.parsed(self.plan, self.received["advertise", other], protocol.Advertisement)
        secret = protocol.shared_secret(private, keys.mask_key)
        return protocol.pair_mask(self.plan, (site, other), secret, len(self.masked(site)))


def plan_of(n: int, threshold: int | None = None, run_id: str = "run") -> protocol.AggregationPlan:
    return protocol.AggregationPlan(run_id, tuple(f"site-{i}" for i in range(n)), threshold or n // 2 + 1)


def run_of(n: int, threshold: int | None = None, length: int = LENGTH, **more: object) -> Run:
    plan = plan_of(n, threshold)
    return Run(plan, counts(plan.sites, length), **more)  # type: ignore[arg-type]


def counts(sites: Iterable[str], length: int = LENGTH, seed: int = 0) -> dict[str, protocol.Vector]:
    rng = np.random.default_rng(seed)
    return {site: rng.integers(-20, 1000, length) for site in sites}


def is_uniform(numbers: protocol.Masked) -> bool:
    """Pearson's chi-square test of the bytes of numbers, in each of their eight places."""
    places = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    p_values = [stats.chisquare(np.bincount(column, minlength=256)).pvalue for column in places.T]
    return bool(min(p_values) > CHANCE)

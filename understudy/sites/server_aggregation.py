"""The server's part in secure aggregation: it passes keys and shares on, and takes the masks off a sum."""

from collections.abc import Collection
from typing import Literal

import numpy as np

from understudy.sites.secure_aggregation import (
    Advertisement,
    AggregationError,
    AggregationPlan,
    KeyList,
    Masked,
    SealedShares,
    Unmasking,
    UnmaskRequest,
    Vector,
    commitment,
    joined_secret,
    own_mask,
    pair_mask,
    parsed,
    parsed_vector,
    public_key,
    shared_secret,
    written,
)

Stage = Literal["advertise", "share", "idle", "mask", "unmask"]


class ServerAggregation:
    """The server's side of a run.

    A stage takes the replies of sites, one each, until the server closes it: by `keys`, `shares_for`, `unmask_request`
    and `total`. A site without a reply by then has dropped out of the stage; a later reply is refused.
    """

    def __init__(self, plan: AggregationPlan) -> None:
        self.plan = plan
        self._stage: Stage = "advertise"
        self._keys: dict[str, Advertisement] = {}
        self._sealed: dict[str, dict[str, str]] = {}
        self._round = -1
        self._length = 0
        self._masked: dict[str, Masked] = {}
        self._unmaskings: dict[str, Unmasking] = {}

    @property
    def answered(self) -> tuple[str, ...]:
        """The sites whose vectors are in the sum of this round, in the plan's order."""
        return tuple(site for site in self.plan.sites if site in self._masked)

    @property
    def partners(self) -> tuple[str, ...]:
        """The sites that finished the set-up, in the plan's order: who can be in a sum."""
        return tuple(site for site in self.plan.sites if site in self._sealed)

    @property
    def _dropped(self) -> set[str]:
        """Sites that others share masks with, and whose vectors did not come."""
        return self._sealed.keys() - self._masked.keys()

    def take_advertisement(self, site: str, content: bytes) -> None:
        """Stage 1: the keys of a site."""
        self._expect("advertise", site, self.plan.sites, self._keys)
        keys = parsed(self.plan, content, Advertisement)
        if {len(keys.mask_keys), len(keys.commitments)} != {self.plan.n_rounds}:
            raise AggregationError(
                f"each site has keys for each round: site={site!r}, n_rounds={self.plan.n_rounds}; send them again"
            )
        self._keys[site] = keys

    def keys(self) -> bytes:
        """End of stage 1: the keys of all sites, for each of them."""
        if self._stage == "advertise":
            self.plan.check_enough(len(self._keys), "advertise")
            self._stage = "share"
        return written(KeyList(plan=self.plan.digest, keys=self._keys))

    def take_shares(self, site: str, content: bytes) -> None:
        """Stage 2: the shares that a site sealed for the others."""
        self._expect("share", site, self._keys, self._sealed)
        sealed = parsed(self.plan, content, SealedShares).sealed
        if sealed.keys() != self._keys.keys() - {site}:
            raise AggregationError(f"a site seals shares for each other site: site={site!r}; send them again")
        self._sealed[site] = sealed

    def shares_for(self, site: str) -> bytes:
        """End of stage 2: the shares that others sealed for one site."""
        if self._stage == "share":
            self.plan.check_enough(len(self._sealed), "share")
            self._stage = "idle"
        self._expect("idle", site, self._sealed)
        sealed = {sender: shares[site] for sender, shares in self._sealed.items() if sender != site}
        return written(SealedShares(plan=self.plan.digest, sealed=sealed))

    def begin(self, round_index: int, length: int) -> None:
        """Open a round; one that has no sum yet is given up."""
        if self._stage in ("advertise", "share"):
            raise AggregationError(f"the set-up comes before the rounds: next={self._stage!r}; finish it")
        self.plan.check_round(round_index, self._round)
        if length < 1:
            raise AggregationError(f"a vector has one number or more: length={length}; correct it")
        self._round, self._length, self._stage = round_index, length, "mask"
        self._masked, self._unmaskings = {}, {}

    def take_masked(self, site: str, content: bytes) -> None:
        """Stage 3: the masked vector of a site."""
        self._expect("mask", site, self._sealed, self._masked)
        self._masked[site] = parsed_vector(self.plan, self._round, self._length, content)

    def unmask_request(self) -> bytes:
        """End of stage 3: the sites that answered, for each of them."""
        if self._stage == "mask":
            self.plan.check_enough(len(self._masked), "mask")
            self._stage = "unmask"
        self._at("unmask")
        return written(UnmaskRequest(plan=self.plan.digest, round_index=self._round, answered=self.answered))

    def take_unmasking(self, site: str, content: bytes) -> None:
        """Stage 4: the shares that a site reveals."""
        self._expect("unmask", site, self._masked, self._unmaskings)
        reply = parsed(self.plan, content, Unmasking)
        revealed = (set(reply.seeds), set(reply.mask_keys))
        if reply.round_index != self._round or revealed != (set(self._masked), self._dropped):
            raise AggregationError(
                "a site reveals one share of each site: of the seed if it answered, of the mask key if it did not: "
                f"site={site!r}, round_index={self._round}; go on without this site"
            )
        self._unmaskings[site] = reply

    def total(self) -> Vector:
        """End of a round: the sum of the vectors of all that answered."""
        self._at("unmask")
        self.plan.check_enough(len(self._unmaskings), "unmask")
        total: Masked = np.sum(list(self._masked.values()), axis=0, dtype=np.uint64)
        for site in self.answered:
            seed = joined_secret({by: bytes.fromhex(r.seeds[site]) for by, r in self._unmaskings.items()}, self.plan)
            self._check_secret(site, commitment(self.plan, site, self._round, seed), self._keys[site].commitments)
            total -= own_mask(self.plan, self._round, site, seed, self._length)
        for site in self._dropped:
            key = joined_secret({by: bytes.fromhex(r.mask_keys[site]) for by, r in self._unmaskings.items()}, self.plan)
            self._check_secret(site, public_key(key), self._keys[site].mask_keys)
            for other in self._masked:
                # What the site would have added is what the other's mask lacks.
                secret = shared_secret(key, self._keys[other].mask_keys[self._round])
                total += pair_mask(self.plan, self._round, (site, other), secret, self._length)
        self._stage = "idle"
        return np.asarray(total.view(np.int64))

    def _check_secret(self, site: str, public: str, advertised: tuple[str, ...]) -> None:
        if public != advertised[self._round]:
            raise AggregationError(
                "shares of a secret give what its site advertised, so a site shared or revealed a wrong one: "
                f"secret_of={site!r}, round_index={self._round}, revealed_by={sorted(self._unmaskings)}; "
                "take the sum in another round, without a site that is at fault"
            )

    def _at(self, stage: Stage) -> None:
        if self._stage != stage:
            raise AggregationError(
                f"the stages of a round come in order: stage={stage!r}, now={self._stage!r}; take the stage of now"
            )

    def _expect(self, stage: Stage, site: str, known: Collection[str], replies: Collection[str] = ()) -> None:
        """Refuse what is of another stage, from a site that is not in it, or a second reply."""
        self._at(stage)
        if site not in known:
            raise AggregationError(
                f"only sites that were in all stages before take part: site={site!r}, stage={stage!r}, "
                f"sites={list(known)}; go on without it"
            )
        if site in replies:
            raise AggregationError(f"each site replies once: site={site!r}, stage={stage!r}; keep its first reply")

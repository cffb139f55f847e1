"""The server's part in secure aggregation: it passes keys and shares on, and takes the masks off a sum."""

import numpy as np

from understudy.extras.sites import secure_aggregation as protocol
from understudy.extras.sites.secure_aggregation import AggregationError, AggregationPlan, Masked, Vector


class ServerAggregation:
    """The server's side of a run.

    A stage takes the replies of sites, one each, until its end: `keys`, `shares_for`, `unmask_request` and `total`. A
    site without a reply by then has dropped out. The server takes the stages in order; it is the sites that insist.
    """

    def __init__(self, plan: AggregationPlan) -> None:
        self.plan = plan
        self._keys: dict[str, protocol.Advertisement] = {}
        self._sealed: dict[str, dict[str, str]] = {}
        self._round, self._length = -1, 0
        self._masked: dict[str, Masked] = {}
        self._unmaskings: dict[str, protocol.Unmasking] = {}

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
        self.plan.place(site)
        keys = protocol.parsed(self.plan, content, protocol.Advertisement)
        if {len(keys.mask_keys), len(keys.commitments)} != {self.plan.n_rounds}:
            raise AggregationError(f"each site has keys for each round: site={site!r}, n_rounds={self.plan.n_rounds}")
        self._keys[site] = keys

    def keys(self) -> bytes:
        """End of stage 1: the keys of all sites, for each of them."""
        self.plan.check_enough(len(self._keys), "advertise")
        return protocol.written(protocol.KeyList(plan=self.plan.digest, keys=self._keys))

    def take_shares(self, site: str, content: bytes) -> None:
        """Stage 2: the shares that a site sealed for the others."""
        sealed = protocol.parsed(self.plan, content, protocol.SealedShares).sealed
        if site not in self._keys or sealed.keys() != self._keys.keys() - {site}:
            raise AggregationError(f"a site seals shares for each other site: site={site!r}")
        self._sealed[site] = sealed

    def shares_for(self, site: str) -> bytes:
        """End of stage 2: the shares that others sealed for one site."""
        self.plan.check_enough(len(self._sealed), "share")
        sealed = {sender: shares[site] for sender, shares in self._sealed.items() if sender != site}
        return protocol.written(protocol.SealedShares(plan=self.plan.digest, sealed=sealed))

    def begin(self, round_index: int, length: int) -> None:
        """Open a round; one that has no sum yet is given up."""
        self.plan.check_round(round_index, self._round)
        self._round, self._length = round_index, length
        self._masked, self._unmaskings = {}, {}

    def take_masked(self, site: str, content: bytes) -> None:
        """Stage 3: the masked vector of a site."""
        self._masked[site] = protocol.parsed_vector(self.plan, self._round, self._length, content)

    def unmask_request(self) -> bytes:
        """End of stage 3: the sites that answered, for each of them."""
        self.plan.check_enough(len(self._masked), "mask")
        asked = {"plan": self.plan.digest, "round_index": self._round, "answered": self.answered}
        return protocol.written(protocol.UnmaskRequest.model_validate(asked))

    def take_unmasking(self, site: str, content: bytes) -> None:
        """Stage 4: the shares that a site reveals."""
        reply = protocol.parsed(self.plan, content, protocol.Unmasking)
        revealed = (set(reply.seeds), set(reply.mask_keys))
        if reply.round_index != self._round or revealed != (set(self._masked), self._dropped):
            raise AggregationError(
                "a site reveals one share of each site: of the seed if it answered, of the mask key if it did not: "
                f"site={site!r}, round_index={self._round}; go on without this site"
            )
        self._unmaskings[site] = reply

    def total(self) -> Vector:
        """End of a round: the sum of the vectors of all that answered."""
        self.plan.check_enough(len(self._unmaskings), "unmask")
        plan, number, replies = self.plan, self._round, self._unmaskings
        total: Masked = np.sum(list(self._masked.values()), axis=0, dtype=np.uint64)
        for site in self.answered:
            seed = protocol.joined_secret({by: bytes.fromhex(r.seeds[site]) for by, r in replies.items()}, plan)
            self._check_secret(site, protocol.commitment(plan, site, number, seed), self._keys[site].commitments)
            total -= protocol.own_mask(plan, number, site, seed, self._length)
        for site in self._dropped:
            key = protocol.joined_secret({by: bytes.fromhex(r.mask_keys[site]) for by, r in replies.items()}, plan)
            self._check_secret(site, protocol.public_key(key), self._keys[site].mask_keys)
            for other in self._masked:
                # What the site would have added is what the other's mask lacks.
                secret = protocol.shared_secret(key, self._keys[other].mask_keys[number])
                total += protocol.pair_mask(plan, number, (site, other), secret, self._length)
        return np.asarray(total.view(np.int64))

    def _check_secret(self, site: str, public: str, advertised: tuple[str, ...]) -> None:
        if public != advertised[self._round]:
            raise AggregationError(
                "shares of a secret give what its site advertised, so a site shared or revealed a wrong one: "
                f"secret_of={site!r}, revealed_by={sorted(self._unmaskings)}; take another round without that site"
            )

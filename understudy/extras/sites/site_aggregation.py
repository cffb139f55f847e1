"""A site's part in secure aggregation: it masks vectors, and reveals shares of others' secrets.

A site reveals nothing that takes off more than the masks of one sum. It masks one vector a round, and takes off masks
for one set of sites a round. Its own secrets of a round are forgotten once its vector is masked.
"""

import os
import secrets
from collections.abc import Mapping
from typing import Literal

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from pydantic import Field

from synth.validation import Frozen
from understudy.extras.sites import secure_aggregation as protocol
from understudy.extras.sites.secure_aggregation import SECRET_BYTES, AggregationError, AggregationPlan, Hex, Key, Vector

_NONCE_BYTES = 12
Stage = Literal["advertise", "share", "receive", "rounds"]


class SiteState(Frozen):
    """All that a site remembers between two messages. *Sensitive*: private keys, seeds and shares.

    Keys and seeds of masks go by round, without rounds that are masked. Shares are those of each site that sent some,
    and its own: for each round, one of the seed and one of the mask key.
    """

    stage: Stage = "advertise"
    encryption_key: Key = Field(repr=False)
    mask_keys: dict[int, Key] = Field(repr=False)
    seeds: dict[int, Key] = Field(repr=False)
    keys: dict[str, protocol.Advertisement] = Field(default_factory=dict)
    shares: dict[str, Hex] = Field(default_factory=dict, repr=False)
    masked: tuple[int, ...] = ()
    unmasked: dict[int, tuple[str, ...]] = Field(default_factory=dict)


class SiteAggregation:
    """One site's side of a run."""

    def __init__(self, plan: AggregationPlan, site: str) -> None:
        plan.place(site)
        self.plan, self.site = plan, site
        self._state = self._new()

    def _new(self) -> SiteState:
        drawn = [{i: _random() for i in range(self.plan.n_rounds)} for _ in range(2)]
        return SiteState(encryption_key=_random(), mask_keys=drawn[0], seeds=drawn[1])

    def advertise(self) -> bytes:
        """Stage 1: public keys of the site, and commitments."""
        state = self._at("advertise")
        keys = protocol.Advertisement(
            plan=self.plan.digest,
            encryption_key=protocol.public_key(bytes.fromhex(state.encryption_key)),
            mask_keys=tuple(protocol.public_key(bytes.fromhex(key)) for key in state.mask_keys.values()),
            commitments=tuple(
                protocol.commitment(self.plan, self.site, i, bytes.fromhex(seed)) for i, seed in state.seeds.items()
            ),
        )
        self._go(stage="share", keys={self.site: keys})
        return protocol.written(keys)

    def share(self, content: bytes) -> bytes:
        """Stage 2: shares of the secrets of each round, sealed for each other site."""
        state = self._at("share")
        keys = protocol.parsed(self.plan, content, protocol.KeyList).keys
        self._check_keys(keys, state.keys[self.site])
        shares: dict[str, bytes] = dict.fromkeys(keys, b"")
        for i in range(self.plan.n_rounds):
            for secret in (state.seeds[i], state.mask_keys[i]):
                split = protocol.split_secret(bytes.fromhex(secret), self.plan)
                shares = {site: so_far + split[self.plan.place(site)] for site, so_far in shares.items()}
        own = shares.pop(self.site).hex()
        sealed = {site: self._seal(site, keys[site], content).hex() for site, content in shares.items()}
        self._go(stage="receive", keys=keys, shares={self.site: own})
        return protocol.written(protocol.SealedShares(plan=self.plan.digest, sealed=sealed))

    def _check_keys(self, keys: Mapping[str, protocol.Advertisement], own: protocol.Advertisement) -> None:
        self.plan.check_enough(len(keys), "share")
        if keys.get(self.site) != own:
            raise AggregationError(f"the keys of this site are among those of all, as it sent them: {self.site!r}")
        for site, advertised in keys.items():
            n_keys = {len(advertised.mask_keys), len(advertised.commitments)}
            if n_keys != {self.plan.n_rounds} or advertised.plan != self.plan.digest:
                raise AggregationError(
                    f"each site has keys for each round: site={site!r}, n_rounds={self.plan.n_rounds}"
                )
        every = [key for one in keys.values() for key in (one.encryption_key, *one.mask_keys)]
        if len(set(every)) < len(every):
            raise AggregationError(f"no two keys are the same: run_id={self.plan.run_id!r}")

    def receive(self, content: bytes) -> None:
        """End of the set-up: the shares that other sites sealed for this one; masks are shared with those sites."""
        state = self._at("receive")
        sealed = protocol.parsed(self.plan, content, protocol.SealedShares).sealed
        self.plan.check_enough(len(sealed) + 1, "receive")
        if self.site in sealed or not sealed.keys() <= state.keys.keys():
            raise AggregationError(f"shares come from other sites that advertised keys: site={self.site!r}")
        opened = {site: self._open(site, bytes.fromhex(shares)).hex() for site, shares in sealed.items()}
        self._go(stage="rounds", shares=state.shares | opened)

    def check_mask(self, round_index: int) -> None:
        """Refuse a round that `mask` would refuse."""
        self.plan.check_round(round_index, max(self._at("rounds").masked, default=-1))

    def mask(self, round_index: int, vector: Vector) -> bytes:
        """Stage 3: a *sensitive* vector under masks, which are uniform whatever it holds."""
        self.check_mask(round_index)
        state = self._state
        if vector.dtype != np.int64 or vector.ndim != 1 or not vector.size:
            raise AggregationError(f"a vector has one axis of int64: dtype={vector.dtype}, shape={vector.shape}")
        seed, private = bytes.fromhex(state.seeds[round_index]), bytes.fromhex(state.mask_keys[round_index])
        masked = vector.astype(np.uint64) + protocol.own_mask(self.plan, round_index, self.site, seed, vector.size)
        for other in state.shares.keys() - {self.site}:
            secret = protocol.shared_secret(private, state.keys[other].mask_keys[round_index])
            masked += protocol.pair_mask(self.plan, round_index, (self.site, other), secret, vector.size)
        spent = range(round_index + 1)
        self._go(
            masked=(*state.masked, round_index),
            seeds={i: seed for i, seed in state.seeds.items() if i not in spent},
            mask_keys={i: key for i, key in state.mask_keys.items() if i not in spent},
        )
        return protocol.written_vector(self.plan, round_index, masked)

    def check_unmask(self, content: bytes) -> protocol.UnmaskRequest:
        """The request of stage 4, where `unmask` would answer it; nothing is revealed."""
        state, request = self._at("rounds"), protocol.parsed(self.plan, content, protocol.UnmaskRequest)
        answered = set(request.answered)
        self.plan.check_enough(len(answered), "unmask")
        if len(answered) < len(request.answered) or not answered <= state.shares.keys():
            raise AggregationError(
                f"a sum is over sites that share masks with this one, each once: answered={list(request.answered)}"
            )
        if self.site not in answered or request.round_index not in state.masked:
            raise AggregationError(
                "a site takes masks off a sum that its own vector is in: "
                f"site={self.site!r}, round_index={request.round_index}; ask the sites that answered"
            )
        before = state.unmasked.get(request.round_index, request.answered)
        if set(before) != answered:
            raise AggregationError(
                "masks of one round are taken off for one set of sites, for two sums would show their difference: "
                f"round_index={request.round_index}, before={list(before)}; begin a new round"
            )
        return request

    def unmask(self, content: bytes) -> bytes:
        """Stage 4: of each site one share, of its seed if it answered, of its mask key if it did not.

        The same request may be answered again, with the same shares.
        """
        request = self.check_unmask(content)
        state = self._state
        shares = {site: bytes.fromhex(content) for site, content in state.shares.items()}
        of_round = slice(2 * SECRET_BYTES * request.round_index, 2 * SECRET_BYTES * (request.round_index + 1))
        pairs = {site: content[of_round] for site, content in shares.items()}
        self._go(unmasked=state.unmasked | {request.round_index: request.answered})
        return protocol.written(self._revealed(request, pairs))

    def _revealed(self, request: protocol.UnmaskRequest, pairs: Mapping[str, bytes]) -> protocol.Unmasking:
        """Never both shares of one site and round: together they take all masks off its vector."""
        return protocol.Unmasking(
            plan=self.plan.digest,
            round_index=request.round_index,
            seeds={site: pairs[site][:SECRET_BYTES].hex() for site in request.answered},
            mask_keys={site: pair[SECRET_BYTES:].hex() for site, pair in pairs.items() if site not in request.answered},
        )

    def _seal(self, receiver: str, keys: protocol.Advertisement, shares: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        purpose = protocol.context(self.plan.digest, "shares", self.site, receiver)
        return nonce + self._cipher(keys, purpose).encrypt(nonce, shares, purpose)

    def _open(self, sender: str, sealed: bytes) -> bytes:
        purpose = protocol.context(self.plan.digest, "shares", sender, self.site)
        cipher = self._cipher(self._state.keys[sender], purpose)
        try:
            shares = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose)
        except (InvalidTag, ValueError):
            shares = b""
        if len(shares) != 2 * SECRET_BYTES * self.plan.n_rounds:
            raise AggregationError(
                f"shares are sealed by their sender for their receiver, for each round: sender={sender!r}"
            )
        return shares

    def _cipher(self, other: protocol.Advertisement, purpose: bytes) -> ChaCha20Poly1305:
        secret = protocol.shared_secret(bytes.fromhex(self._state.encryption_key), other.encryption_key)
        return ChaCha20Poly1305(protocol.derived(secret, purpose))

    def _at(self, stage: Stage) -> SiteState:
        if self._state.stage != stage:
            raise AggregationError(
                f"the stages of a run come once, in order: stage={stage!r}, next={self._state.stage!r}"
            )
        return self._state

    def _go(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)


def _random() -> str:
    """A secret from the system's randomness, in hexadecimal; also a private key of X25519."""
    return secrets.token_hex(SECRET_BYTES)

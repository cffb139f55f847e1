"""Secure aggregation: a server learns the sum of the sites' vectors, and nothing else about any of them.

::

    stage            a site sends to the server       and gets from it
    1 advertise      keys, a commitment               the keys of all
    2 share          sealed shares of its secrets     those that others sealed for it
    3 mask           its vector under masks           who answered
    4 unmask         one share of each site

Vectors hold int64 numbers and are summed modulo 2^64 (negative ones in two's complement): the sum is exact where its
size is below 2^63. A site adds one mask of its own, and one for each other site, which that site takes off, so that
these cancel. For a site that answered, t sites reveal shares of the seed of its own mask. For one that did not, they
reveal shares of its mask key, from which its masks with the others follow. No site reveals both, so a vector that comes
late stays masked. Each sum has a plan, keys and seeds of its own.

The server follows the protocol, keeps all that it receives, and T sites may tell it all they know. A sum covers at
least t sites: with T <= t - 2 every sum covers two others, and their sum is all that is learned. Two sites cannot be
protected from each other, so there are three or more. A threshold t above n / 2 keeps the server from asking two halves
of the sites for the two secrets of one; with T colluding sites, it has to be above (n + T) / 2, as jobs see to. Up to
n - t sites may drop out at any stage.

Out of scope is whoever departs from the protocol: a server that replaces keys, say. Commitments show a wrong share, so
no wrong sum is given. There are no range proofs: nobody can tell whether a vector is true. The length of a vector, and
who answered, are public. Nothing protects the sum itself: sites add the noise of a release before they mask.

Source: K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, Figure 4,
for an honest but curious server.

DEVIATES: keys are not signed, and the server is trusted to pass them on. Seeds of masks have commitments. Vectors are
numbers modulo 2^64.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field, ValidationError

from synth.errors import BadInput
from synth.extras import missing_extra
from synth.validation import Frozen

SECRET_BYTES = 32  # of a key, a seed of a mask, and a share of either
_HALVES = (slice(0, 16), slice(16, 32))  # of a secret: the library's scheme of Shamir shares numbers of 128 bits
_NONCE_BYTES = 12
_PROTOCOL = "understudy secure aggregation 2"

Vector = npt.NDArray[np.int64]
Masked = npt.NDArray[np.uint64]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$")]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
R = TypeVar("R")
Ask = Callable[[str, Mapping[str, bytes]], Mapping[str, bytes]]
"""Sends a stage's messages to sites, and gives their replies by site; who has dropped out has none."""


class AggregationError(BadInput):
    """Secure aggregation refuses a plan, a message or a request; nothing was revealed and nothing was summed."""


@dataclass(frozen=True)
class AggregationPlan:
    run_id: str
    sites: tuple[str, ...]
    threshold: int

    def __post_init__(self) -> None:
        n = len(set(self.sites))
        if n < 3 or n < len(self.sites):
            raise AggregationError(f"two sites cannot be protected from each other: sites={list(self.sites)}")
        if not n < 2 * self.threshold <= 2 * n:
            raise AggregationError(f"a threshold is above half of the sites: threshold={self.threshold}, n_sites={n}")

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(context(self.run_id, self.sites, self.threshold)).hexdigest()

    def place(self, site: str) -> int:
        if site not in self.sites:
            raise AggregationError(f"only sites of the plan take part: site={site!r}; known are {list(self.sites)}")
        return self.sites.index(site)

    def check_enough(self, sites: int, stage: str) -> None:
        if sites < self.threshold:
            raise AggregationError(f"fewer sites than the threshold={self.threshold}: stage={stage!r}, sites={sites}")


class Message(Frozen):
    plan: Key


class Advertisement(Message):
    encryption_key: Key
    mask_key: Key
    commitment: Key  # to the seed of the site's own mask


class KeyList(Message):
    keys: dict[str, Advertisement]


class SealedShares(Message):
    sealed: dict[str, Hex]  # by receiver, where a site sends it; by sender, where the server passes it on


class UnmaskRequest(Message):
    answered: tuple[str, ...]


class Unmasking(Message):
    seeds: dict[str, Key]  # a share of that of each site that answered
    mask_keys: dict[str, Key]  # a share of that of each that did not


M = TypeVar("M", bound=Message)


def written(message: Message) -> bytes:
    return message.model_dump_json().encode("ascii")


def parsed(plan: AggregationPlan, content: bytes, model: type[M]) -> M:
    try:
        message = model.model_validate_json(content, strict=True)
    except ValidationError:
        # What is in it may be secret, so it is not shown.
        raise AggregationError(f"a message of another form or stage came: expected={model.__name__!r}") from None
    if message.plan != plan.digest:
        raise AggregationError(f"a message belongs to another plan: run_id={plan.run_id!r}")
    return message


def parsed_vector(plan: AggregationPlan, length: int, content: bytes) -> Masked:
    """A masked vector, which comes as the plan's digest and little-endian numbers of 8 bytes."""
    head = bytes.fromhex(plan.digest)
    if content[: len(head)] != head or len(content) != len(head) + 8 * length:
        raise AggregationError(f"a vector is of another plan, or not of the public length={length}")
    return np.frombuffer(content, "<u8", offset=len(head)).astype(np.uint64)


def context(*parts: Any) -> bytes:
    """The purpose of a derived key or a commitment, in bytes that no other parts give."""
    return json.dumps([_PROTOCOL, *parts]).encode("ascii")


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes by HKDF with SHA-256.

    >>> derived(bytes([0x0B]) * 22, b"").hex()  # RFC 5869, appendix A.3
    '8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d'

    Source: H. Krawczyk and P. Eronen, "HMAC-based extract-and-expand key derivation function (HKDF)", RFC 5869, 2010.
    """
    return HKDF(SHA256(), SECRET_BYTES, salt=None, info=purpose).derive(secret)


def shared_secret(private: bytes, public: str) -> bytes:
    try:
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        return X25519PrivateKey.from_private_bytes(private).exchange(key)
    except ValueError:
        raise AggregationError(f"a public key shares no secret: key={public!r}") from None


def public_key(private: bytes) -> str:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def commitment(plan: AggregationPlan, site: str, seed: bytes) -> str:
    """A commitment to the seed of a site's own mask; 256 random bits cannot be guessed from it."""
    return hashlib.sha256(context(plan.digest, "seed", site) + seed).hexdigest()


def own_mask(plan: AggregationPlan, site: str, seed: bytes, length: int) -> Masked:
    """The mask that one site adds and all take off together, from its random seed."""
    return mask_stream(derived(seed, context(plan.digest, "own mask", site)), length)


def pair_mask(plan: AggregationPlan, pair: tuple[str, str], secret: bytes, length: int) -> Masked:
    """The mask of a pair as its first site adds it: the negative of that of its second site."""
    first, second = sorted(pair, key=plan.place)
    mask = mask_stream(derived(secret, context(plan.digest, "pair mask", first, second)), length)
    return mask if pair[0] == first else np.negative(mask)


def mask_stream(seed: bytes, length: int) -> Masked:
    """Uniform numbers modulo 2^64: the key stream of ChaCha20.

    Source: Y. Nir and A. Langley, "ChaCha20 and Poly1305 for IETF protocols", RFC 8439, 2018.

    >>> mask_stream(bytes(32), 2).tobytes().hex()  # RFC 8439, appendix A.1, test vector 1
    '76b8e0ada0f13d90405d6ae55386bd28'
    """
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8").astype(np.uint64)


def split_secret(secret: bytes, plan: AggregationPlan) -> tuple[bytes, ...]:
    """Shares of a secret, one for each site in the plan's order: the threshold recovers it, fewer know nothing of it.

    Each half of the secret is shared by a random polynomial of its own over GF(2^128), from the system's randomness.

    Source: A. Shamir, "How to share a secret", Communications of the ACM 22(11), 1979.
    """
    halves = [dict(_shamir().split(plan.threshold, len(plan.sites), secret[half])) for half in _HALVES]
    return tuple(halves[0][rank] + halves[1][rank] for rank in range(1, len(plan.sites) + 1))


def joined_secret(shares: Mapping[str, bytes], plan: AggregationPlan) -> bytes:
    """The secret of 32 bytes from shares by site, of which the first that the threshold asks for are taken."""
    plan.check_enough(len(shares), "unmask")
    taken = [(plan.place(site) + 1, share) for site, share in shares.items()][: plan.threshold]
    return b"".join(_shamir().combine([(rank, share[half]) for rank, share in taken]) for half in _HALVES)


def _shamir() -> Any:
    try:
        from Crypto.Protocol.SecretSharing import Shamir
    except ModuleNotFoundError:
        raise missing_extra("secure aggregation", "sites") from None
    return Shamir


def _random() -> bytes:
    """A secret from the system's randomness; also a private key of X25519."""
    return os.urandom(SECRET_BYTES)


class SiteAggregation:
    """One site's side of one sum. *Sensitive*: private keys, seed and shares.

    It masks one vector, and takes off masks for one set of sites: it reveals nothing that takes off more than the masks
    of one sum.
    """

    def __init__(self, plan: AggregationPlan, site: str) -> None:
        plan.place(site)
        self.plan, self.site, self._stage = plan, site, "advertise"
        self._encryption_key, self._mask_key, self._seed = _random(), _random(), _random()
        self._keys: Mapping[str, Advertisement] = {}
        # By site, its own among them: a share of the seed, and one of the mask key.
        self._shares: dict[str, bytes] = {}
        self._answered: set[str] = set()

    def advertise(self) -> bytes:
        """Stage 1: public keys of the site, and a commitment."""
        self._at("advertise")
        public = {"encryption_key": public_key(self._encryption_key), "mask_key": public_key(self._mask_key)}
        committed = commitment(self.plan, self.site, self._seed)
        keys = Advertisement(plan=self.plan.digest, commitment=committed, **public)
        self._keys, self._stage = {self.site: keys}, "share"
        return written(keys)

    def share(self, content: bytes) -> bytes:
        """Stage 2: shares of both secrets, sealed for each other site."""
        self._at("share")
        keys = parsed(self.plan, content, KeyList).keys
        self.plan.check_enough(len(keys), "share")
        if keys.get(self.site) != self._keys[self.site]:
            raise AggregationError(f"the keys of this site are among those of all, as it sent them: {self.site!r}")
        public = [key for each in keys.values() for key in (each.encryption_key, each.mask_key)]
        if len(set(public)) < len(public):
            raise AggregationError(f"no two keys are the same: run_id={self.plan.run_id!r}")
        seeds, mask_keys = (split_secret(secret, self.plan) for secret in (self._seed, self._mask_key))
        shares = {site: seeds[self.plan.place(site)] + mask_keys[self.plan.place(site)] for site in keys}
        self._keys, self._shares = keys, {self.site: shares.pop(self.site)}
        sealed = {}
        for site, pair in shares.items():
            nonce = os.urandom(_NONCE_BYTES)
            cipher, purpose = self._cipher(site, self.site, site)
            sealed[site] = (nonce + cipher.encrypt(nonce, pair, purpose)).hex()
        self._stage = "receive"
        return written(SealedShares(plan=self.plan.digest, sealed=sealed))

    def receive(self, content: bytes) -> None:
        """The shares that other sites sealed for this one; masks are shared with those sites."""
        self._at("receive")
        sealed = parsed(self.plan, content, SealedShares).sealed
        self.plan.check_enough(len(sealed) + 1, "receive")
        if self.site in sealed or not sealed.keys() <= self._keys.keys():
            raise AggregationError(f"shares come from other sites that advertised keys: site={self.site!r}")
        opened = {}
        for site, text in sealed.items():
            shares, (cipher, purpose) = bytes.fromhex(text), self._cipher(site, site, self.site)
            try:
                opened[site] = cipher.decrypt(shares[:_NONCE_BYTES], shares[_NONCE_BYTES:], purpose)
            except (InvalidTag, ValueError):
                opened[site] = b""
            if len(opened[site]) != 2 * SECRET_BYTES:
                raise AggregationError(f"shares are sealed by their sender for their receiver: sender={site!r}")
        self._shares, self._stage = self._shares | opened, "mask"

    def mask(self, vector: Vector) -> bytes:
        """Stage 3: a *sensitive* vector under masks, which are uniform whatever it holds."""
        self._at("mask")
        if vector.dtype != np.int64 or vector.ndim != 1 or not vector.size:
            raise AggregationError(f"a vector has one axis of int64: dtype={vector.dtype}, shape={vector.shape}")
        masked = vector.astype(np.uint64) + own_mask(self.plan, self.site, self._seed, vector.size)
        for other in self._shares.keys() - {self.site}:
            secret = shared_secret(self._mask_key, self._keys[other].mask_key)
            masked += pair_mask(self.plan, (self.site, other), secret, vector.size)
        self._stage, self._seed, self._mask_key = "unmask", b"", b""
        return bytes.fromhex(self.plan.digest) + masked.astype("<u8").tobytes()

    def unmask(self, content: bytes, record: Callable[[tuple[str, ...]], None] = lambda _: None) -> bytes:
        """Stage 4: of each site one share, of its seed if it answered, of its mask key if it did not; never both.

        `record` is told who is in the sum before anything is revealed. The same request has the same answer.
        """
        self._at("unmask")
        request = parsed(self.plan, content, UnmaskRequest)
        answered = set(request.answered)
        self.plan.check_enough(len(answered), "unmask")
        if len(answered) < len(request.answered) or not answered <= self._shares.keys() or self.site not in answered:
            raise AggregationError("a sum is of sites that share masks, each once, and has the site's own vector in it")
        if self._answered not in (set(), answered):  # two sums would show their difference
            raise AggregationError(f"masks are taken off for one set of sites: before={sorted(self._answered)}")
        record(tuple(sorted(answered)))
        self._answered = answered
        seeds = {site: shares[:SECRET_BYTES].hex() for site, shares in self._shares.items() if site in answered}
        others = {site: shares[SECRET_BYTES:].hex() for site, shares in self._shares.items() if site not in answered}
        return written(Unmasking(plan=self.plan.digest, seeds=seeds, mask_keys=others))

    def _cipher(self, other: str, sender: str, receiver: str) -> tuple[ChaCha20Poly1305, bytes]:
        """The cipher of shares between this site and another, and what it seals them for."""
        purpose = context(self.plan.digest, "shares", sender, receiver)
        secret = shared_secret(self._encryption_key, self._keys[other].encryption_key)
        return ChaCha20Poly1305(derived(secret, purpose)), purpose

    def _at(self, stage: str) -> None:
        if self._stage != stage:
            raise AggregationError(f"the stages of a sum come once, in order: stage={stage!r}, next={self._stage!r}")


def sum_of_sites(plan: AggregationPlan, length: int, ask: Ask) -> tuple[Vector, tuple[str, ...]]:
    """The server's side of one sum: it passes keys and shares on, and takes the masks off; who is in the sum.

    A site without a reply to a stage has dropped out, and one whose reply makes no sense, too. The server takes the
    stages in order; it is the sites that insist.
    """

    def taken(stage: str, messages: Mapping[str, bytes], read: Callable[[str, bytes], R]) -> dict[str, R]:
        replies = {}
        for site, reply in sorted(ask(stage, messages).items()):
            with suppress(AggregationError):
                replies[site] = read(site, reply)
        plan.check_enough(len(replies), stage)
        return replies

    def shares(site: str, reply: bytes) -> dict[str, str]:
        sealed = parsed(plan, reply, SealedShares).sealed
        if sealed.keys() != keys.keys() - {site}:
            raise AggregationError(f"a site seals shares for each other site: site={site!r}")
        return sealed

    def revealed(site: str, reply: bytes) -> Unmasking:
        shares = parsed(plan, reply, Unmasking)
        if shares.seeds.keys() != vectors.keys() or shares.mask_keys.keys() != sealed.keys() - vectors.keys():
            raise AggregationError(f"a site reveals one share of each site, as it answered or not: site={site!r}")
        return shares

    keys = taken("advertise", dict.fromkeys(plan.sites, b""), lambda _, reply: parsed(plan, reply, Advertisement))
    every_key = written(KeyList(plan=plan.digest, keys=keys))
    sealed = taken("share", dict.fromkeys(keys, every_key), shares)
    passed_on = {to: {by: each[to] for by, each in sealed.items() if by != to} for to in sealed}
    messages = {to: written(SealedShares(plan=plan.digest, sealed=each)) for to, each in passed_on.items()}
    vectors = taken("mask", messages, lambda _, reply: parsed_vector(plan, length, reply))
    answered = tuple(vectors)
    request = written(UnmaskRequest(plan=plan.digest, answered=answered))
    unmaskings = taken("unmask", dict.fromkeys(answered, request), revealed)
    return _unmasked(plan, keys, vectors, unmaskings), answered


def _unmasked(
    plan: AggregationPlan, keys: Mapping[str, Advertisement], vectors: Mapping[str, Masked],
    unmaskings: Mapping[str, Unmasking],
) -> Vector:  # fmt: skip
    def secret(site: str, kind: str) -> bytes:
        return joined_secret({by: bytes.fromhex(getattr(shown, kind)[site]) for by, shown in unmaskings.items()}, plan)

    def check(site: str, public: str, advertised: str) -> None:
        if public != advertised:
            raise AggregationError(f"a site shared or revealed a wrong one of the shares of site={site!r}")

    total: Masked = np.sum(list(vectors.values()), axis=0, dtype=np.uint64)
    length = len(total)
    for site in vectors:
        seed = secret(site, "seeds")
        check(site, commitment(plan, site, seed), keys[site].commitment)
        total -= own_mask(plan, site, seed, length)
    for site in next(iter(unmaskings.values())).mask_keys:  # of those that dropped out
        key = secret(site, "mask_keys")
        check(site, public_key(key), keys[site].mask_key)
        for other in vectors:  # what the site would have added is what the other's mask lacks
            total += pair_mask(plan, (site, other), shared_secret(key, keys[other].mask_key), length)
    return np.asarray(total.view(np.int64))

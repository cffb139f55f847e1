"""Secure aggregation: a server learns the sum of the sites' vectors, and nothing else about any of them.

::

    set-up, once a run     site                         server                        site
      1 advertise          keys, commitments     ->     keys()                 ->
      2 share              a sealed share for           shares_for(site)       ->     receive
                           each other site       ->
    round, n_rounds times
      3 mask               vector + masks        ->
      4 unmask                                          unmask_request()       ->
                           one share of each     ->     total()

Vectors hold int64 numbers and are summed modulo 2^64. Negative numbers are in two's complement, so the sum is exact
where its size is below 2^63. A site adds one mask of its own, and one mask for each other site, which that site takes
off. The masks of pairs cancel in the sum. For a site that answered, t sites reveal shares of the seed of its own mask.
For a site that did not, they reveal shares of its mask key, from which its masks with the others follow. No site
reveals both for one round, so a vector that comes late stays masked.

The server follows the protocol, and is curious: it keeps all that it receives, and T sites may tell it all they know.
A sum covers at least t sites. So with T <= t - 2 every sum covers at least two others, and their sum is all that is
learned. Two sites cannot be protected from each other: each takes its own vector off the sum. So there are three or
more. A threshold t above n / 2 keeps the server from asking two halves of the sites for the two secrets of one site.
With T colluding sites, it would have to be above (n + T) / 2 for that. Up to n - t sites may drop out at any stage.

Out of scope is a server, or a site, that departs from the protocol: a server that replaces keys, say. Commitments show
a wrong share, so a wrong sum is not given. Nobody can tell whether a site's vector is true: there are no range proofs.
The length of a vector, and who answered, are public. Nothing protects the sum itself: the noise of a private release is
added by the sites, before they mask.

Source: K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, Figure 4,
for an honest but curious server.

DEVIATES: keys are not signed, and the server is trusted to pass them on. Keys and shares of all rounds are sent once,
at the set-up, with secrets of their own for each round. Seeds of masks have commitments. Vectors are numbers modulo
2^64.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field, ValidationError

from synth.distribution import missing_extra
from synth.errors import BadInput
from synth.validation import Frozen

SECRET_BYTES = 32
"""Of a key, a seed of a mask, and a share of either."""
_BLOCK_BYTES = 16
"""Shamir's scheme of the library shares numbers of this width."""
_PROTOCOL = "understudy secure aggregation 1"

Vector = npt.NDArray[np.int64]
Masked = npt.NDArray[np.uint64]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$")]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="32 bytes in hexadecimal.")]


class AggregationError(BadInput):
    """Secure aggregation refuses a plan, a message or a request; nothing was revealed and nothing was summed."""


@dataclass(frozen=True)
class AggregationPlan:
    """The public facts of a run, which each site and the server have before it begins."""

    run_id: str
    sites: tuple[str, ...]
    threshold: int
    n_rounds: int

    def __post_init__(self) -> None:
        n = len(self.sites)
        if len(set(self.sites)) < n or not all(self.sites):
            raise AggregationError(f"each site has a name of its own: sites={list(self.sites)}; rename one")
        if n < 3:
            raise AggregationError(
                "two sites cannot be protected from each other, since each takes its own vector off the sum: "
                f"n_sites={n}; take three or more"
            )
        if not n < 2 * self.threshold <= 2 * n:
            raise AggregationError(
                "a threshold is above half of the sites, and at most all of them: "
                f"threshold={self.threshold}, n_sites={n}; choose from {n // 2 + 1} to {n}"
            )
        if self.n_rounds < 1:
            raise AggregationError(f"a run has one round or more: n_rounds={self.n_rounds}; correct the plan")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan, which every message and every derived key depends on."""
        content = [self.run_id, self.sites, self.threshold, self.n_rounds]
        return hashlib.sha256(json.dumps([_PROTOCOL, content]).encode()).hexdigest()

    def place(self, site: str) -> int:
        """The place of a site in the order of all, from 0."""
        if site not in self.sites:
            raise AggregationError(f"only sites of the plan take part: site={site!r}; known are {list(self.sites)}")
        return self.sites.index(site)

    def check_enough(self, sites: int, stage: str) -> None:
        """Refuse to go on with fewer sites than the threshold."""
        if sites < self.threshold:
            raise AggregationError(
                f"fewer sites than the threshold are left, so there is no sum: stage={stage!r}, sites={sites}, "
                f"threshold={self.threshold}; begin a new run, or wait for more sites"
            )

    def check_round(self, round_index: int, last: int) -> None:
        """Refuse a round that the plan has not, or that is not later than the last."""
        if not last < round_index < self.n_rounds:
            raise AggregationError(
                "each round of a plan is taken once, in order, for a second vector under the same masks shows the "
                f"difference: round_index={round_index}, last={last}, n_rounds={self.n_rounds}; take a later round"
            )


class Message(Frozen):
    """A message of the protocol, in JSON; it belongs to one plan."""

    plan: Key


class Advertisement(Message):
    """Stage 1, from a site: its public keys, and commitments to the seeds of its own masks, by round."""

    message: Literal["advertisement"] = "advertisement"
    encryption_key: Key
    mask_keys: tuple[Key, ...]
    commitments: tuple[Key, ...]


class KeyList(Message):
    """Stage 1, from the server: the advertisements of all sites that sent one."""

    message: Literal["keys"] = "keys"
    keys: dict[str, Advertisement]


class SealedShares(Message):
    """Stage 2: by receiver, where a site sends it; by sender, where the server passes it on."""

    message: Literal["shares"] = "shares"
    sealed: dict[str, Hex]


class UnmaskRequest(Message):
    """Stage 4, from the server: the sites whose vectors are summed."""

    message: Literal["unmask"] = "unmask"
    round_index: int
    answered: tuple[str, ...]


class Unmasking(Message):
    """Stage 4, from a site: a share of the seed of each site that answered, of the mask key of each that did not."""

    message: Literal["unmasking"] = "unmasking"
    round_index: int
    seeds: dict[str, Key]
    mask_keys: dict[str, Key]


M = TypeVar("M", bound=Frozen)


def written(message: Frozen) -> bytes:
    """The bytes of a message."""
    return message.model_dump_json().encode("ascii")


def parsed(plan: AggregationPlan, content: bytes, model: type[M]) -> M:
    """A message from its bytes."""
    try:
        message = model.model_validate_json(content, strict=True)
    except ValidationError:
        # What is in it may be secret, so it is not shown.
        raise AggregationError(
            f"a message of another form or stage came: expected={model.__name__!r}; send that of this stage"
        ) from None
    if isinstance(message, Message) and message.plan != plan.digest:
        raise AggregationError(
            f"a message belongs to another plan: run_id={plan.run_id!r}; give all sites and the server the same plan"
        )
    return message


def written_vector(plan: AggregationPlan, round_index: int, masked: Masked) -> bytes:
    """A masked vector as bytes: the plan's digest, the round, and little-endian numbers of 8 bytes."""
    return _vector_head(plan, round_index) + masked.astype("<u8").tobytes()


def parsed_vector(plan: AggregationPlan, round_index: int, length: int, content: bytes) -> Masked:
    """A masked vector from its bytes."""
    head = _vector_head(plan, round_index)
    if content[: len(head)] != head:
        raise AggregationError(f"a vector belongs to another plan or round: round_index={round_index}; send that of it")
    if len(content) != len(head) + 8 * length:
        raise AggregationError(
            f"the vectors of a round have one public length: length={length}, n_bytes={len(content) - len(head)}; "
            "send 8 bytes for each number"
        )
    return np.frombuffer(content, "<u8", offset=len(head)).astype(np.uint64)


def _vector_head(plan: AggregationPlan, round_index: int) -> bytes:
    return bytes.fromhex(plan.digest) + round_index.to_bytes(8, "little")


def context(*parts: Any) -> bytes:
    """The purpose of a derived key or a commitment, in bytes that no other parts give."""
    return json.dumps([_PROTOCOL, *parts]).encode("ascii")


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes by HKDF with SHA-256.

    Args:
        secret: *Sensitive*. A shared secret or a seed.

    >>> derived(bytes([0x0B]) * 22, b"").hex()  # RFC 5869, appendix A.3
    '8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d'

    Source: H. Krawczyk and P. Eronen, "HMAC-based extract-and-expand key derivation function (HKDF)", RFC 5869, 2010.
    """
    return HKDF(SHA256(), SECRET_BYTES, salt=None, info=purpose).derive(secret)


def shared_secret(private: bytes, public: str) -> bytes:
    """The secret that two key pairs share, by X25519."""
    try:
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        return X25519PrivateKey.from_private_bytes(private).exchange(key)
    except ValueError:
        raise AggregationError(f"a public key shares no secret: key={public!r}; make a new one at its site") from None


def public_key(private: bytes) -> str:
    """The public key of a private X25519 key, in hexadecimal."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def commitment(plan: AggregationPlan, site: str, round_index: int, seed: bytes) -> str:
    """A commitment to the seed of a site's own mask; 256 random bits cannot be guessed from it."""
    return hashlib.sha256(context(plan.digest, "seed", site, round_index) + seed).hexdigest()


def own_mask(plan: AggregationPlan, round_index: int, site: str, seed: bytes, length: int) -> Masked:
    """The mask that one site adds and all take off together.

    Args:
        seed: *Sensitive*. Random bytes of this site and round.
    """
    return mask_stream(derived(seed, context(plan.digest, "own mask", round_index, site)), length)


def pair_mask(plan: AggregationPlan, round_index: int, pair: tuple[str, str], secret: bytes, length: int) -> Masked:
    """The mask of a pair as its first site adds it: the negative of that of its second site.

    Args:
        secret: *Sensitive*. Shared by the two mask keys of this round.
    """
    first, second = sorted(pair, key=plan.place)
    mask = mask_stream(derived(secret, context(plan.digest, "pair mask", round_index, first, second)), length)
    return mask if pair[0] == first else np.negative(mask)


def mask_stream(seed: bytes, length: int) -> Masked:
    """Uniform numbers modulo 2^64: the key stream of ChaCha20.

    Args:
        seed: *Sensitive*. 32 bytes, used for this stream alone.

    Source: Y. Nir and A. Langley, "ChaCha20 and Poly1305 for IETF protocols", RFC 8439, 2018.

    >>> mask_stream(bytes(32), 2).tobytes().hex()  # RFC 8439, appendix A.1, test vector 1
    '76b8e0ada0f13d90405d6ae55386bd28'
    """
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8").astype(np.uint64)


def split_secret(secret: bytes, plan: AggregationPlan) -> tuple[bytes, ...]:
    """Shares of a secret, one for each site in the plan's order: the threshold recovers it, fewer know nothing of it.

    Each half of the secret is shared by a random polynomial of its own over GF(2^128), from the system's randomness.

    Args:
        secret: *Sensitive*. 32 bytes.

    Source: A. Shamir, "How to share a secret", Communications of the ACM 22(11), 1979.
    """
    shamir = _shamir()
    blocks = (secret[:_BLOCK_BYTES], secret[_BLOCK_BYTES:])
    halves = [dict(shamir.split(plan.threshold, len(plan.sites), block)) for block in blocks]
    return tuple(halves[0][place] + halves[1][place] for place in range(1, len(plan.sites) + 1))


def joined_secret(shares: Mapping[str, bytes], plan: AggregationPlan) -> bytes:
    """The secret of 32 bytes from shares by site, of which the first that the threshold asks for are taken."""
    plan.check_enough(len(shares), "unmask")
    shamir = _shamir()
    taken = [(plan.place(site) + 1, share) for site, share in shares.items()][: plan.threshold]
    halves = (slice(None, _BLOCK_BYTES), slice(_BLOCK_BYTES, None))
    return b"".join(shamir.combine([(place, share[half]) for place, share in taken]) for half in halves)


def _shamir() -> Any:
    try:
        from Crypto.Protocol.SecretSharing import Shamir
    except ModuleNotFoundError:
        raise missing_extra("secure aggregation", "sites") from None
    return Shamir

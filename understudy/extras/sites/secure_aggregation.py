"""Secure aggregation: a server learns the sum of the sites' vectors, and nothing else about any of them.

::

    set-up, once a run     1 advertise   keys, commitments  ->  keys()            ->
                           2 share       a sealed share of  ->  shares_for(site)  ->  receive
    round, n_rounds times  3 mask        vector + masks     ->
                           4 unmask      unmask_request()   ->  one share of each ->  total()

Vectors hold int64 numbers and are summed modulo 2^64 (negative ones in two's complement): the sum is exact where its
size is below 2^63. A site adds one mask of its own, and one for each other site, which that site takes off, so that
these cancel. For a site that answered, t sites reveal shares of the seed of its own mask. For one that did not, they
reveal shares of its mask key, from which its masks with the others follow. No site reveals both for one round, so a
vector that comes late stays masked.

The server follows the protocol, keeps all that it receives, and T sites may tell it all they know. A sum covers at
least t sites: with T <= t - 2 every sum covers two others, and their sum is all that is learned. Two sites cannot be
protected from each other, so there are three or more. A threshold t above n / 2 keeps the server from asking two halves
of the sites for the two secrets of one; with T colluding sites, it would have to be above (n + T) / 2. Up to n - t
sites may drop out at any stage.

Out of scope is whoever departs from the protocol: a server that replaces keys, say. Commitments show a wrong share, so
no wrong sum is given. There are no range proofs: nobody can tell whether a vector is true. The length of a vector, and
who answered, are public. Nothing protects the sum itself: sites add the noise of a release before they mask.

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
_HALVES = (slice(0, 16), slice(16, 32))
"""Of a secret: the library's scheme of Shamir shares numbers of 128 bits."""
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
            raise AggregationError(f"two sites cannot be protected from each other: n_sites={n}; take three or more")
        if not n < 2 * self.threshold <= 2 * n:
            raise AggregationError(
                f"a threshold is above half of the sites: threshold={self.threshold}, n_sites={n}; choose from "
                f"{n // 2 + 1} to {n}"
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan, which every message and every derived key depends on."""
        content = [self.run_id, self.sites, self.threshold, self.n_rounds]
        return hashlib.sha256(json.dumps([_PROTOCOL, content]).encode()).hexdigest()

    def place(self, site: str) -> int:
        if site not in self.sites:
            raise AggregationError(f"only sites of the plan take part: site={site!r}; known are {list(self.sites)}")
        return self.sites.index(site)

    def check_enough(self, sites: int, stage: str) -> None:
        """Refuse to go on with fewer sites than the threshold."""
        if sites < self.threshold:
            raise AggregationError(
                f"fewer sites than the threshold are left: stage={stage!r}, sites={sites}, threshold={self.threshold}"
            )

    def check_round(self, round_index: int, last: int) -> None:
        """Refuse a round that the plan has not, or that is not later than the last."""
        if not last < round_index < self.n_rounds:
            # A second vector under the same masks would show the difference.
            raise AggregationError(
                f"each round of a plan is taken once, in order: round_index={round_index}, last={last}"
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


def written_vector(plan: AggregationPlan, round_index: int, masked: Masked) -> bytes:
    """A masked vector as bytes: the plan's digest, the round, and little-endian numbers of 8 bytes."""
    return _vector_head(plan, round_index) + masked.astype("<u8").tobytes()


def parsed_vector(plan: AggregationPlan, round_index: int, length: int, content: bytes) -> Masked:
    head = _vector_head(plan, round_index)
    if content[: len(head)] != head:
        raise AggregationError(f"a vector belongs to another plan or round: round_index={round_index}; send that of it")
    if len(content) != len(head) + 8 * length:
        raise AggregationError(f"the vectors of a round have one public length: length={length}")
    return np.frombuffer(content, "<u8", offset=len(head)).astype(np.uint64)


def _vector_head(plan: AggregationPlan, round_index: int) -> bytes:
    return bytes.fromhex(plan.digest) + round_index.to_bytes(8, "little")


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
    """The secret that two key pairs share, by X25519."""
    try:
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        return X25519PrivateKey.from_private_bytes(private).exchange(key)
    except ValueError:
        raise AggregationError(f"a public key shares no secret: key={public!r}; make a new one at its site") from None


def public_key(private: bytes) -> str:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def commitment(plan: AggregationPlan, site: str, round_index: int, seed: bytes) -> str:
    """A commitment to the seed of a site's own mask; 256 random bits cannot be guessed from it."""
    return hashlib.sha256(context(plan.digest, "seed", site, round_index) + seed).hexdigest()


def own_mask(plan: AggregationPlan, round_index: int, site: str, seed: bytes, length: int) -> Masked:
    """The mask that one site adds and all take off together, from its random seed of this round."""
    return mask_stream(derived(seed, context(plan.digest, "own mask", round_index, site)), length)


def pair_mask(plan: AggregationPlan, round_index: int, pair: tuple[str, str], secret: bytes, length: int) -> Masked:
    """The mask of a pair as its first site adds it: the negative of that of its second site."""
    first, second = sorted(pair, key=plan.place)
    mask = mask_stream(derived(secret, context(plan.digest, "pair mask", round_index, first, second)), length)
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
    return tuple(halves[0][place] + halves[1][place] for place in range(1, len(plan.sites) + 1))


def joined_secret(shares: Mapping[str, bytes], plan: AggregationPlan) -> bytes:
    """The secret of 32 bytes from shares by site, of which the first that the threshold asks for are taken."""
    plan.check_enough(len(shares), "unmask")
    taken = [(plan.place(site) + 1, share) for site, share in shares.items()][: plan.threshold]
    return b"".join(_shamir().combine([(place, share[half]) for place, share in taken]) for half in _HALVES)


def _shamir() -> Any:
    try:
        from Crypto.Protocol.SecretSharing import Shamir
    except ModuleNotFoundError:
        raise missing_extra("secure aggregation", "sites") from None
    return Shamir

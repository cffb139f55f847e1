"""What must hold of a bundle for whoever relies on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from understudy.bundle.withdrawal import Withdrawal


def today() -> date:
    """The day it is, in UTC, as manifests count."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Demand:
    """What must hold of a bundle beyond that nothing was changed.

    Attributes:
        keys: fingerprints, of which one must sign the manifest; none: any may.
        sign_off_keys: fingerprints, of which one must sign the sign-off where there is one; none: one of `keys`.
        signed_off: whether a sign-off must be there.
        register: withdrawals by the digest of the manifest; none: no register was asked.
        today: the day on which it is to be relied on.
    """

    keys: frozenset[str] = frozenset()
    signed_off: bool = False
    register: Mapping[str, Withdrawal] | None = None
    today: date = field(default_factory=today)
    sign_off_keys: frozenset[str] = frozenset()

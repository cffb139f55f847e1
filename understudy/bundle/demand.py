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
        keys: fingerprints, of which one must sign the manifest; none: any may, and any may withdraw it.
        sign_off_keys: fingerprints, of which one must sign the sign-off where there is one; none: one of `keys`.
        signed_off: whether a sign-off must be there.
        register: withdrawals by the digest of the manifest, whoever signed them; none: no register was asked.
        today: the day on which it is to be relied on.
    """

    keys: frozenset[str] = frozenset()
    signed_off: bool = False
    register: Mapping[str, tuple[Withdrawal, ...]] | None = None
    today: date = field(default_factory=today)
    sign_off_keys: frozenset[str] = frozenset()

    def believes(self, signer: str | None, sealed_by: str | None) -> bool:
        """Whether a withdrawal counts.

        Anybody can write one. Where a key is named, it has to be by the key that sealed the bundle, or by one that was
        named. Where none is, nobody can say who anybody is, and to heed one withdrawal too many does less harm than to
        overlook one.

        Args:
            signer: fingerprint of the key whose signature of the withdrawal is intact; none: nobody signed it.
            sealed_by: fingerprint of the key that the manifest names; none: nobody signed it.
        """
        return not self.keys or (signer is not None and signer in {sealed_by, *self.keys, *self.sign_off_keys})

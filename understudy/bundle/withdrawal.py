"""What a withdrawal says: a bundle is not to be relied on any more, for good."""

from typing import Literal

from pydantic import Field

from understudy.bundle.manifest import Later, Moment
from understudy.bundle.sign_off import Person


class Withdrawal(Later):
    """A withdrawal of one bundle, known by the digest of its manifest."""

    kind: Literal["withdrawal"] = "withdrawal"
    withdrawal_version: Literal[1] = 1
    withdrawn_at: Moment
    by: Person
    reason: str = Field(min_length=1, max_length=2000)

    @property
    def sentence(self) -> str:
        """Who withdrew it, when and why."""
        return f"withdrawn at {self.withdrawn_at} by {self.by.name!r}, {self.by.role!r}: {self.reason!r}"

    @property
    def signed_by(self) -> str:
        """Whose key signed it, in words."""
        return "not signed" if self.signer is None else f"signed by {self.signer}"

"""What a sign-off says: two people, in their roles, answer until a date for the release of one table."""

from datetime import date
from typing import Literal

from pydantic import Field

from synth.validation import Frozen
from understudy.bundle.manifest import Later, Moment, Rules


class Person(Frozen):
    """Somebody who answers for something."""

    name: str = Field(min_length=1, max_length=200)
    role: str = Field(min_length=1, max_length=200)


class Accepted(Frozen):
    """A waiver in force: a rule that the table does not keep, for which somebody answers."""

    measure: str
    subject: tuple[str, ...] = ()
    owner: str
    reason: str
    until: date = Field(description="The last day on which it counts.")


class SignOff(Later):
    """A sign-off of one bundle, as it was sealed."""

    kind: Literal["sign-off"] = "sign-off"
    sign_off_version: Literal[1] = 1
    signed_at: Moment
    by: Person
    second: Person
    expires: date | None = Field(default=None, description="The last day on which it counts.")
    release: str = Field(description="The candidate whose table may be released.")
    verdict: Literal["PASS"] = "PASS"
    policy: Rules = Field(description="What it was judged by; its `audience` says for whom it is signed off.")
    waivers: tuple[Accepted, ...] = ()

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires

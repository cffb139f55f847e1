"""A claim as it is quoted: what it is of, why, and whether an audit disproves a part of it."""

from dataclasses import dataclass
from typing import Literal

from reports.text import count, loss

Of = Literal["fit", "published", "sweep", "run", "sum"]


@dataclass(frozen=True)
class Claim:
    """What some releases of one real table come to together.

    Attributes:
        of: "fit": this one alone; "published": the table with the numbers about it, and with its sweep; "sweep": all
            private fits of it; "run": all that the run drew; "sum": likewise, added up where no run composed it.
        epsilon: of all of them.
        delta: of all of them.
        n_releases: how many they are; published numbers are one.
        private: whether all noise was drawn from a secure source.
        disputed: of how many of them an audit disproves what they claim alone.
    """

    of: Of
    epsilon: float
    delta: float
    n_releases: int = 1
    private: bool = True
    disputed: int = 0

    @property
    def what(self) -> str:
        """The releases in words, such as a table's row names them."""
        return {
            "fit": "this fit alone",
            "published": "the table and the numbers published about it"
            + (f", with {_all(self.n_releases - 1)} private fits of its sweep" if self.n_releases > 2 else ""),
            "sweep": f"all private fits of the sweep that the table is from, {count(self.n_releases)} in number",
            "run": f"{_all(self.n_releases)} private releases that its run drew",
            "sum": f"{_all(self.n_releases)} private releases of this evaluation, added up",
        }[self.of]

    @property
    def why(self) -> str:
        """Why the table counts with them; nothing for the fit alone."""
        unnamed = "No job named it for release before anything was drawn, and"
        return {
            "fit": "",
            "published": "Whoever has the table and the numbers has both.",
            "sweep": "Whoever picks one of several fits has looked at all.",
            "run": f"{unnamed} whoever picks one of several has looked at all.",
            "sum": f"{unnamed} whoever picks one of several has looked at all.",
        }[self.of]

    @property
    def doubt(self) -> str:
        """That it rests on what an audit disproves; nothing where it does not."""
        if not self.disputed:
            return ""
        if self.n_releases == 1:
            return "DISPUTED: an audit disproves it."
        what = (
            "one of these releases claims" if self.disputed == 1 else f"{count(self.disputed)} of these releases claim"
        )
        return f"DISPUTED: an audit disproves what {what} alone, so that this number must not be relied on either."


@dataclass(frozen=True)
class Claims:
    """What one table claims.

    Attributes:
        alone: its fit's own claim.
        counted: what the table is judged and quoted by; `alone` where nothing counts with it.
        drawn: all that its run drew, where that is more than what counts; none otherwise.
    """

    alone: Claim
    counted: Claim
    drawn: Claim | None

    @property
    def all(self) -> tuple[Claim, ...]:
        """From the fit alone to all that was drawn, each once."""
        rest = () if self.drawn is None else (self.drawn,)
        return (self.alone, *(() if self.counted == self.alone else (self.counted,)), *rest)

    @property
    def reading(self) -> str:
        """Why the table is judged by another claim than its fit's own; nothing where it is not."""
        if self.counted == self.alone:
            return ""
        return (
            f"Epsilon {loss(self.counted.epsilon)} at delta {loss(self.counted.delta)} is that of {self.counted.what}; "
            f"this fit alone claims {loss(self.alone.epsilon)} at delta {loss(self.alone.delta)}. {self.counted.why} "
            f"{self.counted.doubt}"
        ).rstrip()

    @property
    def price_of_choice(self) -> str:
        """What choosing among all that was drawn would come to; nothing where nothing else was drawn."""
        if self.drawn is None:
            return ""
        beside = "Others were measured beside it" if self.drawn.of == "sum" else "The job drew more, which stays inside"
        return (
            f"{beside}: {self.drawn.what} come to epsilon {loss(self.drawn.epsilon)} at delta "
            f"{loss(self.drawn.delta)}. That is the claim where the best of them was chosen. {self.drawn.doubt}"
        ).rstrip()


def _all(n: int) -> str:
    """A number of things as all of them."""
    return "both" if n == 2 else f"all {count(n)}"

"""The privacy statement: what was promised about a release, and what it cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class EventRecord:
    """One line of the books: what was read, by which mechanism, at what cost.

    Attributes:
        what: what was read, in words ("one-way marginals of 15 columns").
        mechanism: which mechanism released it ("discrete Gaussian").
        noise: the mechanism's public parameter, such as ``{"sigma": 36.2, "sensitivity": 1.0}``.
        count: how many times.
        rho: its zCDP cost in total, to compare lines by.
    """

    what: str
    mechanism: str
    noise: Mapping[str, float]
    count: int
    rho: float


@dataclass(frozen=True)
class PrivacyStatement:
    """What a private generator promises. A generator without one gives **no formal guarantee**.

    Attributes:
        epsilon: the claim, by the PLD accountant.
        delta: the claim's delta.
        relation: neighboring relation; "zero-out": one unit is replaced by nothing, its slot kept.
        unit: "row", or the entity column's name.
        n_units: the declared number of units; public.
        max_rows_per_unit: rows of one unit that were used at most.
        accountant: which accountant made the claim.
        epsilon_rdp: the same events by the RDP accountant; at least `epsilon`.
        events: the books.
        versions: library versions that drew the noise and kept the books.
        ledger: the ledger entry, or the words that there is none.
        caveats: what the guarantee does not cover, each one sentence.
        private: False when a test injected the randomness: such a model must not be released.
    """

    epsilon: float
    delta: float
    unit: str
    n_units: int
    accountant: str
    epsilon_rdp: float
    events: tuple[EventRecord, ...]
    max_rows_per_unit: int = 1
    relation: str = "zero-out"
    versions: Mapping[str, str] = field(default_factory=dict)
    ledger: str = "none: this fit was made outside a ledger, so nothing adds it to other releases of the same table"
    caveats: tuple[str, ...] = ()
    private: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The statement as plain data."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "PrivacyStatement":
        """A statement from plain data."""
        events = tuple(EventRecord(**event) for event in content["events"])
        return PrivacyStatement(**{**content, "events": events, "caveats": tuple(content["caveats"])})

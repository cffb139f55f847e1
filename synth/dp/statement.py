"""The privacy statement: what was promised about a release, and what it cost."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import ROUND_CEILING, Decimal
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge, Le

from synth import extras
from synth.progress import html_table

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CLOSED = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
"""Rules of reading these back: no other key, and no number that is a text or a truth value."""
LARGEST = 1e300  # no privacy loss is larger; an integer may be, and fits no float
RELATION = "zero-out or add/remove"
"""The relation of statements: both have the same figures, since nothing uses the number of rows."""
REPLACE = "replace-one"
"""The relation of local statements: a report protects its respondent's answers, whatever they are."""
RELATIONS: Mapping[str, str] = {
    RELATION: "One unit is blanked out and its slot kept (zero-out), or it is really added or removed, while n_units "
    "stays as declared: the figures are the same",
    "zero-out": "One unit is blanked out and its slot kept; what holds where it is really removed is not stated",
    REPLACE: "The answers of one respondent are replaced by any others; that a report was sent is not hidden",
}
"""Neighboring relations in words."""
CURATOR, LOCAL = "curator", "local"
_TRUST: Mapping[str, str] = {
    CURATOR: "One curator holds all rows and adds the noise: whoever is in the table trusts the curator",
    LOCAL: "Each respondent randomizes their own answers, and only the result leaves them: nobody else need be trusted",
}
ROUNDING = 1e-9  # by what share two sums of the same losses may differ
Size = Annotated[float, Ge(0), Le(LARGEST)]  # a cost, or the size of some noise
Count = Annotated[int, Ge(1), Le(10**15)]
_NOISE: Mapping[str, tuple[str, ...]] = {
    "Gaussian": ("sigma", "sensitivity"),
    "Poisson-subsampled Gaussian": ("noise_multiplier", "sampling_rate"),
}
"""Parameters that readers of a statement rely on, by mechanism."""


@dataclass(frozen=True)
class EventRecord:
    """One line of the books: what was read, by which mechanism, at what cost."""

    __pydantic_config__: ClassVar = CLOSED

    what: str
    """The read, in words ("one-way marginals of 15 columns")."""
    mechanism: str
    """Its name ("Gaussian")."""
    noise: Mapping[str, bool | Annotated[int, Ge(0)] | Size]
    """The mechanism's public parameters, such as ``{"sigma": 36.2, "sensitivity": 1, "whole": True}``."""
    count: Count
    """Number of releases."""
    rho: Size | None
    """Its zCDP cost in total, to compare lines by; `None` where it has none worth stating."""
    delta: Size = 0.0
    """Of its own, in total: bounds the probability that a value is named which one unit alone holds."""

    def __post_init__(self) -> None:
        if not all(self.noise.get(name, 0) > 0 for name in _NOISE.get(self.mechanism, ())):
            raise ValueError("noise of this mechanism has a size")


IN_LEDGER = (
    "A ledger counts more than the epsilon that a release claims alone (PLD): it adds up releases by Renyi "
    "divergences (RDP), which also holds where one is made in sight of another."
)
"""Stands wherever both numbers do."""


@dataclass(frozen=True)
class LedgerNote:
    """A ledger's record of a release, and the state of the dataset after it."""

    __pydantic_config__: ClassVar = CLOSED

    dataset: str
    """The declared name of the table, all its versions, extracts and splits."""
    unit: str
    """Of privacy, for which the total holds."""
    reservation: str | None
    """The token under which the release was reserved; `None` in public, since it stays inside."""
    entry: str | None
    """Hash of the ledger's entry; `understudy ledger show --holds` finds it. Likewise."""
    epsilon: Size
    """Of this release alone in the ledger, by Renyi curves, at `total_delta`."""
    spent_epsilon: Size
    """Of all releases when this one was reserved, itself included."""
    total_epsilon: Size
    """Their limit."""
    total_delta: Size
    """The delta of all of them."""


@dataclass(frozen=True)
class PrivacyStatement:
    """The guarantee of a private generator. A generator without one gives **no formal guarantee**."""

    __pydantic_config__: ClassVar = CLOSED

    epsilon: float
    """The claim, by the PLD accountant."""
    delta: float
    """The claim's delta, the deltas of mechanisms included."""
    unit: str
    """"row", or the entity column's name."""
    n_units: Count
    """The declared number of units; public."""
    accountant: str
    """Of the claim."""
    epsilon_rdp: float
    """The same events by the RDP accountant; at least `epsilon`."""
    events: tuple[EventRecord, ...]
    """The books."""
    max_rows_per_unit: Count = 1
    """Rows of one unit that were used at most."""
    relation: str = RELATION
    """Neighboring relation, one of `RELATIONS`; older statements claim less."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Library versions that drew the noise and kept the books."""
    ledger: LedgerNote | None = None
    """The place of this release in a ledger; `None`: it was made outside a ledger, so that nothing adds it to other
    releases of the same table.
    """
    caveats: tuple[str, ...] = ()
    """Limits of the guarantee, each one sentence."""
    private: bool = True
    """False when a test injected the randomness: such a model must not be released."""
    trust: str = CURATOR
    """Whom one must trust, one of `trust_words`; a local claim is pure, of every report by itself."""

    def __post_init__(self) -> None:
        if not (is_claim("epsilon", self.epsilon) and is_claim("delta", self.delta)):
            raise ValueError("epsilon lies above 0, and delta in [0, 1)")
        if not self.epsilon * (1 - ROUNDING) <= self.epsilon_rdp <= LARGEST:
            raise ValueError("the RDP accountant claims no less than the PLD accountant")
        if self.trust not in trust_words():
            raise ValueError("a statement says whom one must trust")
        if (self.trust == LOCAL) != (self.relation == REPLACE) or (self.trust == LOCAL and self.delta != 0):
            raise ValueError("a local statement replaces one respondent's answers, and its delta is 0")

    def __repr__(self) -> str:
        """The statement in one line, without its events."""
        void = "" if self.private else "VOID, "
        claim = f"epsilon={self.epsilon!r}, delta={self.delta!r}, unit={self.unit!r}, n_units={self.n_units!r}"
        return f"<PrivacyStatement {void}{claim}, {len(self.events)} events>"

    def _repr_html_(self) -> str:
        """The statement as a table of its events, for a notebook, and whom one must trust."""
        rows = (
            (
                event.what,
                event.mechanism,
                f"{event.count:,}",
                ", ".join(f"{key} {value:g}" for key, value in event.noise.items() if not isinstance(value, bool)),
            )
            for event in self.events
        )
        notes = (f"{trust_words()[self.trust]}.", *self.caveats)
        caveats = "".join(f"<li>{escape(note)}</li>" for note in notes)
        table = html_table(guarantee_words(self), ("read", "mechanism", "times", "noise"), rows)
        return f"{table}<ul>{caveats}</ul>"

    def to_dict(self) -> dict[str, Any]:
        """The statement as plain data."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "PrivacyStatement":
        """A statement from plain data, as `to_dict` gives it."""
        if set(content) != {field_.name for field_ in fields(PrivacyStatement)}:
            raise ValueError("a privacy statement has every key, and no other")
        return _reader().validate_json(json.dumps(content, allow_nan=False))


def trust_words() -> Mapping[str, str]:
    """Whom one must trust, in words, by what statements say; extras have others."""
    return {**_TRUST, **extras.load("trust")}


@cache
def _reader() -> "TypeAdapter[PrivacyStatement]":
    from pydantic import TypeAdapter

    return TypeAdapter(PrivacyStatement)


def is_claim(name: str, value: object) -> bool:
    """True if a fit with noise can claim a privacy loss.

    >>> is_claim("epsilon", 0.5), is_claim("epsilon", 0), is_claim("epsilon", True), is_claim("delta", 0.0)
    (True, False, False, True)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= LARGEST if name == "epsilon" else value == 0 or 1 / LARGEST <= value < 1


NO_GUARANTEE = "no formal guarantee"


def guarantee_words(statement: PrivacyStatement | None) -> str:
    """The guarantee of a fit in a few words."""
    if statement is None:
        return NO_GUARANTEE
    void = "" if statement.private else "VOID: "
    kind = "" if statement.trust == CURATOR else f", {statement.trust}"
    return f"{void}epsilon {_up(statement.epsilon)}, delta {_up(statement.delta)}, unit {statement.unit!r}{kind}"


def _up(loss: float) -> str:
    """A privacy loss in three digits, rounded up, so that it is never understated.

    >>> _up(0.9987), _up(1.0001), _up(1e-6)
    ('0.999', '1.01', '1e-06')
    """
    if not 0 < loss < math.inf:
        return str(loss)
    exact = Decimal(f"{loss:.15g}")
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)):.3g}"

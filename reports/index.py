"""The index of many outputs as one HTML page: a row for each table, with its recorded verdict, epsilon and key figures.

The rows are plain facts that the application has read. Nothing is judged here. Like the report, the page reads whole
without script, and is internal.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evaluate.gate.finding import Outcome
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from reports.glossary import entry
from reports.html import environment, inlined
from reports.model_card.schema import Standing

FIGURES = (
    "utility.tstr.boosting", "joint.c2st.auc", "pairs.tvd.floor_share", "privacy.copies.people",
    "privacy.membership.auc",
)  # fmt: skip
"""Key figures that a row has room for: use, fidelity of rows and of pairs, copies, and the attack on membership."""
REFERENCED = "utility."  # Begins names of figures that say nothing without that of real rows beside them
GENERATOR = "understudy index"
MARK = f'<meta name="generator" content="{GENERATOR}">'  # The line that tells this page from every other

NOT_SOUND, WITHDRAWN, EXPIRED = "NOT SOUND", "WITHDRAWN", "EXPIRED"
SIGNED_OFF = "signed off"  # The sign-off of a row whose key was asked for
UNFINISHED, NOT_JUDGED, NO_OUTPUT = "UNFINISHED", "NOT JUDGED", "NO OUTPUT"
VERDICTS: tuple[Outcome, ...] = ("PASS", "FAIL", "INCONCLUSIVE")
STATES: Mapping[str, str] = {
    "PASS": "pass", "FAIL": "fail", "INCONCLUSIVE": "open", NOT_SOUND: "fail", WITHDRAWN: "fail", EXPIRED: "warn",
    UNFINISHED: "warn", NO_OUTPUT: "warn", NOT_JUDGED: "none",
}  # fmt: skip
"""Every state of a row, with the look of its badge; the order is that of the counts on top."""


@dataclass(frozen=True)
class Claimed:
    epsilon: float
    delta: float
    standing: Standing


@dataclass(frozen=True)
class Links:
    """Links of a row, relative to the page and safe in it; empty where nothing is there."""

    report: str = ""
    to_hand_on: str = ""
    evaluation: str = ""


@dataclass(frozen=True)
class IndexRow:
    """One candidate table of an output; of an output that tells of no table, the output."""

    output: str
    state: str
    reason: str = ""
    table: str = ""
    title: str = ""
    released: bool = False
    sign_off: str = ""
    day: str = ""
    generator: str = ""
    policy: str = ""
    claimed: Claimed | None = None
    figures: Mapping[str, Estimate | Failure] = field(default_factory=dict)
    is_measured: bool = False
    links: Links = field(default_factory=Links)
    is_sealed: bool = False
    notes: tuple[str, ...] = ()
    audience: str = ""

    def __post_init__(self) -> None:
        if self.state in VERDICTS and not (self.table and self.policy and self.is_sealed):
            raise ValueError(f"a verdict is about a table under a policy, and is sealed: output={self.output!r}")

    @property
    def look(self) -> str:
        """The look of its badge; states of a batch, such as a timeout, look like no output."""
        return STATES.get(self.state, STATES[NO_OUTPUT])

    @property
    def is_broken(self) -> bool:
        return self.state not in VERDICTS and self.state != NOT_JUDGED


@dataclass(frozen=True)
class Index:
    folder: str
    rows: tuple[IndexRow, ...]
    made_at: datetime
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        found = Counter(row.state for row in self.rows)
        order = [*STATES, *sorted(found.keys() - STATES.keys())]
        return {state: found[state] for state in order if found[state] or state in VERDICTS}

    @property
    def n_outputs(self) -> int:
        return len({row.output for row in self.rows})

    @property
    def n_tables(self) -> int:
        return sum(bool(row.table) for row in self.rows)

    @property
    def columns(self) -> tuple[tuple[str, Metric], ...]:
        """The key figures that any row has."""
        return tuple((name, entry(name)) for name in FIGURES if any(name in row.figures for row in self.rows))

    def choices(self, attribute: str) -> Sequence[str]:
        """Every value of a row's attribute that a reader can choose."""
        return sorted({str(getattr(row, attribute)) for row in self.rows} - {""})


def render_index(index: Index) -> str:
    """The page as text; the same index gives the same text."""
    page = environment().get_template("index.html.j2")
    return page.render(
        index=index,
        style=inlined("report.css", "index.css"),
        script=inlined("report.js", "index.js"),
        generator=GENERATOR,
        referenced=REFERENCED,
        signed_off=SIGNED_OFF,
    )

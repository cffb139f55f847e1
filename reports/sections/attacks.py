"""Attacks on one synthetic table: one line for each, the worst on top, and the figures that they drew.

`evaluation.json` may come from anyone: what is not a number there is not shown, and what is not as it should be is left
out of every figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluate.metrics import CATALOG
from evaluate.plain_data import mapping, mappings, texts
from evaluate.result import Candidate, Estimate, Failure
from evaluate.text import amount, finite
from reports.glossary import entry

Interval = tuple[float, float, float]
WAYS = {
    "nearest": "nearest row", "margin": "nearest row beside the next ones", "density": "density of rows (DOMIAS)",
    "linkage": "agreement in rare values", "fragments": "values shared with one row", "classifier": "classifier",
}  # fmt: skip
"""Membership attacks in plain words."""
RATES = ("auc", "tpr_at_0.01", "tpr_at_0.001")
AT_RATES = ("privacy.membership.tpr_at_0.001", "privacy.membership.tpr_at_0.01")
"""Measures that say how many members a test of "in or out" finds at a rate of false alarms."""


@dataclass(frozen=True)
class Way:
    """One way to attack membership: AUC and true positive rates, and whether the headline is from it."""

    name: str
    chosen: bool
    numbers: tuple[Interval | None, ...]


@dataclass(frozen=True)
class Reached:
    """The success of a test of "in or out" at a rate of false alarms; all numbers are shares."""

    measure: str
    false_alarms: float
    value: Interval


@dataclass(frozen=True)
class LinkedColumns:
    """Columns of two sources, and how often two parts of a person's record are linked."""

    columns: str
    others: str
    members: float | None
    controls: float | None
    advantage: Interval


@dataclass(frozen=True)
class Inferred:
    """Attribute inference, or reconstruction, of one column; rates in [0, 1], none where a figure holds no number."""

    column: str
    members: float
    controls: float
    own: float | None
    usual: float | None
    advantage: Interval
    rare: Interval | None = None
    quasi: Interval | None = None

    @property
    def alarms(self) -> bool:
        """True where its interval lies above no advantage."""
        return self.advantage[1] > 0


def interval(found: object) -> Interval | None:
    """Three numbers of a file as a value with its interval; none where they are not three numbers.

    >>> interval([0.5, 0.4, 0.6]), interval("0.5")
    ((0.5, 0.4, 0.6), None)
    """
    if not isinstance(found, list | tuple) or len(found) != 3:
        return None
    numbers = [finite(number, default=float("nan")) for number in found]
    return None if any(number != number for number in numbers) else (numbers[0], numbers[1], numbers[2])


def figure(candidate: Candidate, name: str) -> Mapping[str, Any]:
    """A figure that is a mapping; an empty one where it is none."""
    return mapping(candidate.figures.get(name))


def ways(candidate: Candidate) -> tuple[Way, ...]:
    membership = figure(candidate, "membership")
    picked = set(texts(membership.get("chosen")))
    return tuple(
        Way(WAYS.get(name, name), name in picked, tuple(interval(one.get(key)) for key in RATES))
        for one in mappings(membership.get("attacks"))
        for name in [str(one.get("name", ""))]
    )


def reached(candidate: Candidate) -> tuple[Reached, ...]:
    found = ((measure, candidate.find(measure)) for measure in AT_RATES)
    return tuple(
        Reached(measure, float(measure.rpartition("_at_")[2]), (one.value, one.low, one.high))
        for measure, one in found
        if isinstance(one, Estimate) and one.low is not None and one.high is not None
    )


def splits(candidate: Candidate) -> tuple[LinkedColumns, ...]:
    drawn = mappings(candidate.figures.get("linkability"))
    whole = {name for one in drawn for side in ("columns", "others") for name in texts(one.get(side))}
    found = []
    for one in drawn:
        members, controls, advantage = (interval(one.get(key)) for key in ("attack", "control", "advantage"))
        if advantage is not None:
            rates = members[0] if members else None, controls[0] if controls else None
            columns, others = texts(one.get("columns")), texts(one.get("others"))
            rest = "all others" if {*columns, *others} == whole else ", ".join(others)
            found.append(LinkedColumns(", ".join(columns), rest, *rates, advantage))
    return tuple(sorted(found, key=lambda split: -split.advantage[1]))


def success(drawn: object) -> tuple[float | None, float | None, float | None]:
    """Success on members, on others, and without a synthetic row; none where a figure holds no such rate."""
    if not isinstance(drawn, Mapping):
        return None, None, None
    attack, control = (interval(drawn.get(name)) for name in ("attack", "control"))
    baseline = amount(drawn.get("baseline"), 1.0)
    return attack[0] if attack else None, control[0] if control else None, baseline


def inferences(found: object) -> Iterator[Inferred]:
    """Attribute inference, entry by entry; one without its rates is left out."""
    for one in mappings(found):
        (members, controls, own), advantage = success(one), interval(one.get("advantage"))
        if members is None or controls is None or advantage is None:
            continue
        usual = amount(one.get("majority"), 1.0)
        rare, quasi = (_beside(one.get(name)) for name in ("rare", "quasi_identifiers"))
        yield Inferred(str(one.get("column", "")), members, controls, own, usual, advantage, rare, quasi)


def _beside(found: object) -> Interval | None:
    return interval(found.get("advantage")) if isinstance(found, Mapping) else None


Word = Literal["alarm", "no alarm", "not measured"]

MOST_COLUMNS = 20  # Columns that the chart of attribute inference shows, the worst ones


@dataclass(frozen=True)
class AttackLine:
    measure: str
    title: str
    subject: str
    scale: str
    word: Word
    value: Interval | None = None
    chance: float = 0.0
    members: float | None = None
    controls: float | None = None
    baseline: float | None = None
    detectable: float | None = None
    note: str = ""

    @property
    def above_chance(self) -> float:
        """The lower end above chance, as a share of the way to a perfect attack."""
        return -1.0 if self.value is None else (self.value[1] - self.chance) / max(1.0 - self.chance, 1e-9)


@dataclass(frozen=True)
class AttackNote:
    lines: tuple[AttackLine, ...]
    columns: tuple[Inferred, ...]
    reconstructed: tuple[Inferred, ...]

    @property
    def alarms(self) -> tuple[AttackLine, ...]:
        return tuple(line for line in self.lines if line.word == "alarm")

    @property
    def n_measured(self) -> int:
        return sum(line.word != "not measured" for line in self.lines)

    @property
    def sentence(self) -> str:
        measured = [line for line in self.lines if line.word != "not measured"]
        if not measured:
            return "No attack gave a result, so that nothing speaks against a leak."
        missing = len(self.lines) - len(measured)
        tail = f" {missing} gave no result." if missing else ""
        if not self.alarms:
            return f"None of {len(measured)} attacks raises an alarm.{tail}"
        count = (
            f"{len(self.alarms)} of {len(measured)} attacks {'raise' if len(self.alarms) > 1 else 'raises'} an alarm"
        )
        return f"{count}, first of all: {self.alarms[0].title}.{tail}"


def attack_note(candidate: Candidate) -> AttackNote:
    tried = [name for name, metric in CATALOG.items() if metric.attack == "always" and _has(candidate, name)]
    asked = [name for name, metric in CATALOG.items() if metric.attack == "on request" and _ran(candidate, name)]
    lines = [_line(candidate, name) for name in (*tried, *asked)]
    found, told = figure(candidate, "inference"), candidate.figures.get("reconstruction")
    return AttackNote(
        lines=tuple(sorted(lines, key=lambda line: -line.above_chance)),
        columns=tuple(sorted(inferences(found.get("columns")), key=lambda one: (-one.advantage[1], -one.advantage[0]))),
        reconstructed=tuple(inferences(told)),
    )


def _has(candidate: Candidate, measure: str) -> bool:
    """True unless an attack is on histories or on free text, and the table has none."""
    metric = CATALOG[measure]
    return not metric.needs or candidate.find(measure) is not None


def _ran(candidate: Candidate, measure: str) -> bool:
    names = (measure, CATALOG[measure].by)
    return _worst(candidate, measure) is not None or any(f.measure in names for f in candidate.failures)


def _worst(candidate: Candidate, measure: str) -> Estimate | None:
    """The estimate of a measure; of several subjects, the one that stands out most."""
    found = [e for e in candidate.estimates if e.measure == measure]
    return max(found, key=lambda e: (e.value if e.low is None else e.low, e.value), default=None)


def _line(candidate: Candidate, measure: str) -> AttackLine:
    found = _worst(candidate, measure)
    title, scale = entry(measure).title, _scale(measure)
    if found is None:
        return AttackLine(measure, title, "", scale, "not measured", note=_why(candidate, measure))
    chance = found.reference or 0.0
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    word: Word = "alarm" if low > chance else "no alarm"
    subject, members, controls, baseline = _rates(candidate, found)
    return AttackLine(
        measure, title, subject, scale, word, (found.value, low, high), chance, members, controls, baseline,
        found.detectable, found.note,
    )  # fmt: skip


def _scale(measure: str) -> str:
    if measure.endswith(".auc"):
        return "AUC"
    return "share found" if ".tpr_at_" in measure else "advantage"


def _why(candidate: Candidate, measure: str) -> str:
    """The reason for a missing number: its own failure, else that of its measure."""
    names = (measure, CATALOG[measure].by)
    failures = [f for name in names for f in candidate.failures if f.measure == name]
    return _said(failures[0]) if failures else "it was not run"


def _said(failure: Failure) -> str:
    return failure.message if failure.reason == "skipped" else f"{failure.reason}: {failure.message}"


def _rates(candidate: Candidate, found: Estimate) -> tuple[str, float | None, float | None, float | None]:
    """The subject, and success on members, on controls, and without a synthetic row."""
    subject, family = ", ".join(found.subject), found.measure.split(".")[1]
    if ".tpr_at_" in found.measure:
        return subject, found.value, found.reference, None
    if family == "singling_out":
        return subject, *success(figure(candidate, "singling_out").get(found.measure.rpartition(".")[2]))
    if family == "linkability":
        drawn = _of_value(mappings(candidate.figures.get("linkability")), found)
        return _shortly(texts(drawn.get("columns"))), *success(drawn)
    if family in ("inference", "reconstruction"):
        of = figure(candidate, "inference").get("columns") if family == "inference" else candidate.figures.get(family)
        drawn = _of_value(mappings(of), found)
        return str(drawn.get("column", subject)), *success(drawn)
    return subject, None, None, None


def _shortly(names: Sequence[str], most: int = 2) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _of_value(drawn: Sequence[Mapping[str, Any]], found: Estimate) -> Mapping[str, Any]:
    """The entry that an estimate is about: it has the same advantage with the same lower end."""
    for one in drawn:
        advantage = interval(one.get("advantage"))
        if advantage is not None and advantage[:2] == (found.value, found.low):
            return one
    return {}

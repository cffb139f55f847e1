"""Attacks on one synthetic table: one line for each, the worst on top, and the figures that they drew.

No other part of `evaluation.json` is read entry by entry: what is not as it should be there is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Estimate, Failure
from evaluate.text import amount, finite, mapping, mappings, texts
from reports.glossary import entry

Interval = tuple[float, float, float]
Word = Literal["alarm", "no alarm", "not measured"]
WAYS = {
    "nearest": "nearest row", "margin": "nearest row beside the next ones", "density": "density of rows (DOMIAS)",
    "linkage": "agreement in rare values", "fragments": "values shared with one row", "classifier": "classifier",
}  # fmt: skip
"""Membership attacks in plain words."""
RATES = ("auc", "tpr_at_0.01", "tpr_at_0.001")
MOST_COLUMNS = 20  # Columns that the chart of attribute inference shows, the worst ones


@dataclass(frozen=True)
class Rates:
    """How often one attack succeeds on members and on others, in [0, 1]: of a column, or of two sources to link.

    `own` is success on members by the attacker's own sample, `usual` by the most frequent value.
    """

    column: str
    members: float
    controls: float
    own: float | None
    advantage: Interval
    usual: float | None = None
    rare: Interval | None = None
    quasi: Interval | None = None
    others: str = ""

    @property
    def alarms(self) -> bool:
        """True where its interval lies above no advantage."""
        return self.advantage[1] > 0


@dataclass(frozen=True)
class AttackLine:
    measure: str
    title: str
    scale: str
    word: Word
    value: Interval | None = None
    chance: float = 0.0
    rates: Rates | None = None
    detectable: float | None = None
    note: str = ""

    @property
    def above_chance(self) -> float:
        """The lower end above chance, as a share of the way to a perfect attack."""
        return -1.0 if self.value is None else (self.value[1] - self.chance) / max(1.0 - self.chance, 1e-9)


@dataclass(frozen=True)
class AttackNote:
    lines: tuple[AttackLine, ...]
    columns: tuple[Rates, ...]
    reconstructed: tuple[Rates, ...]

    @property
    def measured(self) -> tuple[AttackLine, ...]:
        return tuple(line for line in self.lines if line.value is not None)

    @property
    def alarms(self) -> tuple[AttackLine, ...]:
        return tuple(line for line in self.lines if line.word == "alarm")

    @property
    def sentence(self) -> str:
        n, alarms = len(self.measured), self.alarms
        if not n:
            return "No attack gave a result, so that nothing speaks against a leak."
        tail = f" {len(self.lines) - n} gave no result." if len(self.lines) > n else ""
        if not alarms:
            return f"None of {n} attacks raises an alarm.{tail}"
        raised = f"{len(alarms)} of {n} attacks {'raise' if len(alarms) > 1 else 'raises'} an alarm"
        return f"{raised}, first of all: {alarms[0].title}.{tail}"


def attack_note(candidate: Candidate) -> AttackNote:
    lines = [_line(candidate, name) for name, metric in CATALOG.items() if metric.attack and _tried(candidate, name)]
    columns = _rates(mapping(candidate.figures.get("inference")).get("columns"))
    return AttackNote(
        lines=tuple(sorted(lines, key=lambda line: -line.above_chance)),
        columns=tuple(sorted(columns, key=lambda rates: (-rates.advantage[1], -rates.advantage[0]))),
        reconstructed=tuple(_rates(candidate.figures.get("reconstruction"))),
    )


def _tried(candidate: Candidate, measure: str) -> bool:
    """True of what runs always, unless the table has no histories or texts, and of what was asked for."""
    metric = CATALOG[measure]
    if metric.attack == "always":
        return not metric.needs or candidate.find(measure) is not None
    return _worst(candidate, measure) is not None or _failure(candidate, measure) is not None


def _worst(candidate: Candidate, measure: str) -> Estimate | None:
    """The estimate of a measure; of several subjects, the one that stands out most."""
    measured = [e for e in candidate.estimates if e.measure == measure]
    return max(measured, key=lambda e: (e.value if e.low is None else e.low, e.value), default=None)


def _failure(candidate: Candidate, measure: str) -> Failure | None:
    """The reason for a missing number: its own failure, else that of its measure."""
    names = (measure, CATALOG[measure].by)
    return next((f for name in names for f in candidate.failures if f.measure == name), None)


def _line(candidate: Candidate, measure: str) -> AttackLine:
    estimate, title = _worst(candidate, measure), entry(measure).title
    scale = "AUC" if measure.endswith(".auc") else "share found" if ".tpr_at_" in measure else "advantage"
    if estimate is None:
        failure = _failure(candidate, measure)
        why = "it was not run" if failure is None else failure.message
        why = why if failure is None or failure.reason == "skipped" else f"{failure.reason}: {why}"
        return AttackLine(measure, title, scale, "not measured", note=why)
    chance = estimate.reference or 0.0
    low, high = (estimate.value if end is None else end for end in (estimate.low, estimate.high))
    return AttackLine(
        measure, title, scale, "alarm" if low > chance else "no alarm", (estimate.value, low, high), chance,
        _rates_of(candidate, estimate), estimate.detectable, estimate.note,
    )  # fmt: skip


def _rates_of(candidate: Candidate, estimate: Estimate) -> Rates | None:
    """Success on members and others behind an estimate: the entry of the same advantage with the same lower end."""
    family, end = estimate.measure.split(".")[1], estimate.measure.rpartition(".")[2]
    figure = candidate.figures.get(family)
    if family == "singling_out":
        return next(_rates([mapping(figure).get(end)]), None)
    entries = figure if family != "inference" else mapping(figure).get("columns")
    rates = splits(candidate) if family == "linkability" else _rates(entries)
    return next((each for each in rates if each.advantage[:2] == (estimate.value, estimate.low)), None)


def splits(candidate: Candidate) -> tuple[Rates, ...]:
    """Each way to deal the columns to two sources, and how often the two parts of a person's record are linked."""
    entries = mappings(candidate.figures.get("linkability"))
    whole = {name for entry in entries for side in ("columns", "others") for name in texts(entry.get(side))}
    return tuple(sorted(_rates(entries, whole), key=lambda split: -split.advantage[1]))


def _rates(entries: object, whole: set[str] | None = None) -> Iterator[Rates]:
    """Entry by entry; one without its rates is left out."""
    for each in mappings(entries):
        attack, control, advantage = (interval(each.get(name)) for name in ("attack", "control", "advantage"))
        if attack is None or control is None or advantage is None:
            continue
        columns, others = texts(each.get("columns")), texts(each.get("others"))
        yield Rates(
            column=str(each.get("column", ", ".join(columns))),
            members=attack[0],
            controls=control[0],
            own=amount(each.get("baseline"), 1.0),
            advantage=advantage,
            usual=amount(each.get("majority"), 1.0),
            rare=interval(mapping(each.get("rare")).get("advantage")),
            quasi=interval(mapping(each.get("quasi_identifiers")).get("advantage")),
            others="all others" if {*columns, *others} == whole else ", ".join(others),
        )


def interval(numbers: object) -> Interval | None:
    """Three numbers of a file as a value with its interval; none where they are not three numbers.

    >>> interval([0.5, 0.4, 0.6]), interval("0.5")
    ((0.5, 0.4, 0.6), None)
    """
    if not isinstance(numbers, list | tuple) or len(numbers) != 3:
        return None
    value, low, high = (finite(number, default=float("nan")) for number in numbers)
    return (value, low, high) if value + low + high == value + low + high else None


def ways(candidate: Candidate) -> list[dict[str, Any]]:
    """Each way to attack membership: AUC and true positive rates, and whether the headline is from it."""
    membership = mapping(candidate.figures.get("membership"))
    chosen = set(texts(membership.get("chosen")))
    attacks = [(str(each.get("name", "")), each) for each in mappings(membership.get("attacks"))]
    return [
        {"name": WAYS.get(name, name), "chosen": name in chosen, "numbers": [interval(each.get(key)) for key in RATES]}
        for name, each in attacks
    ]


def reached(candidate: Candidate) -> list[tuple[str, float, Interval]]:
    """The success of the membership attack: measure, rate of false alarms, and share of members found."""
    estimates = [candidate.find(f"privacy.membership.tpr_at_{rate}") for rate in ("0.001", "0.01")]
    return [
        (each.measure, float(each.measure.rpartition("_at_")[2]), (each.value, each.low, each.high))
        for each in estimates
        if isinstance(each, Estimate) and each.low is not None and each.high is not None
    ]

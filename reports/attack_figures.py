"""What attacks drew, read from a file that may hold anything: what is not as it should be is left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluate.plain_data import mapping, mappings, texts
from evaluate.result import Candidate, Estimate
from evaluate.text import amount, finite

Interval = tuple[float, float, float]
WAYS = {
    "nearest": "nearest row", "margin": "nearest row beside the next ones", "density": "density of rows (DOMIAS)",
    "linkage": "agreement in rare values", "fragments": "values shared with one row", "classifier": "classifier",
}  # fmt: skip
"""Membership attacks in plain words."""
RATES = ("auc", "tpr_at_0.01", "tpr_at_0.001")
AT_RATES = (
    "privacy.membership.tpr_at_0.001", "privacy.membership.tpr_at_0.01", "privacy.shadow.tpr_at_0.01",
    "privacy.vulnerable.isolated.tpr_at_0.01", "privacy.vulnerable.rare.tpr_at_0.01",
)  # fmt: skip
"""Measures that say how many members a test of "in or out" finds at a rate of false alarms."""


@dataclass(frozen=True)
class Way:
    """One way to attack membership: AUC and true positive rates, and whether the headline is from it."""

    name: str
    chosen: bool
    numbers: tuple[Interval | None, ...]


@dataclass(frozen=True)
class Reached:
    """What a test of "in or out" reached at a rate of false alarms; all numbers are shares."""

    measure: str
    false_alarms: float
    value: Interval


@dataclass(frozen=True)
class Exposed:
    """People whom the membership attack is tried on apart."""

    group: str
    n: float | None
    auc: Interval


@dataclass(frozen=True)
class Split:
    """Columns of two sources, and how often two parts of a person's record are linked."""

    columns: str
    others: str
    members: float | None
    controls: float | None
    advantage: Interval


@dataclass(frozen=True)
class Crowd:
    """People who share their quasi-identifiers with as many others: how many, and the share that is matched."""

    size: str
    train: float
    matched: float | None
    control: float
    control_matched: float | None


@dataclass(frozen=True)
class Inferred:
    """Attribute inference of one column, or by a model; rates in [0, 1], none where a figure holds no number.

    Attributes:
        column: the secret.
        members: success on training rows.
        controls: success on other rows.
        own: success on training rows with the attacker's own sample in the place of the synthetic table.
        usual: success of guessing the most frequent value.
        advantage: with the interval that allows for all columns.
        rare: advantage on the rarest values, likewise; none where there are too few.
        quasi: advantage of an attacker who knows the quasi-identifiers only, likewise.
    """

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
        """Whether its interval lies above none."""
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
    """Every membership attack that was tried."""
    membership = figure(candidate, "membership")
    picked = set(texts(membership.get("chosen")))
    return tuple(
        Way(WAYS.get(name, name), name in picked, tuple(interval(one.get(key)) for key in RATES))
        for one in mappings(membership.get("attacks"))
        for name in [str(one.get("name", ""))]
    )


def reached(candidate: Candidate) -> tuple[Reached, ...]:
    """What tests of membership reached, by rate of false alarms."""
    found = ((measure, candidate.find(measure)) for measure in AT_RATES)
    return tuple(
        Reached(measure, float(measure.rpartition("_at_")[2]), (one.value, one.low, one.high))
        for measure, one in found
        if isinstance(one, Estimate) and one.low is not None and one.high is not None
    )


def exposed(candidate: Candidate) -> tuple[Exposed, ...]:
    """The most exposed people and the groups of sensitive columns."""
    return tuple(
        Exposed(str(one.get("group", "")), amount(one.get("n"), 1e15), auc)
        for one in mappings(candidate.figures.get("vulnerable"))
        if (auc := interval(one.get("auc"))) is not None
    )


def splits(candidate: Candidate) -> tuple[Split, ...]:
    """Every split of the columns that linkability was tried with, the worst first."""
    drawn = mappings(candidate.figures.get("linkability"))
    whole = {name for one in drawn for side in ("columns", "others") for name in texts(one.get(side))}
    found = []
    for one in drawn:
        members, controls, advantage = (interval(one.get(key)) for key in ("attack", "control", "advantage"))
        if advantage is not None:
            rates = members[0] if members else None, controls[0] if controls else None
            columns, others = texts(one.get("columns")), texts(one.get("others"))
            rest = "all others" if {*columns, *others} == whole else ", ".join(others)
            found.append(Split(", ".join(columns), rest, *rates, advantage))
    return tuple(sorted(found, key=lambda split: -split.advantage[1]))


def crowds(candidate: Candidate) -> tuple[str, tuple[Crowd, ...]]:
    """The quasi-identifiers, and people by how many share their combination."""
    drawn = figure(candidate, "quasi_identifiers")
    found = []
    for one in mappings(drawn.get("classes")):
        counts = [amount(one.get(key), 1e15) for key in ("train", "train_matched", "control", "control_matched")]
        train, matched, control, others = (count or 0.0 for count in counts)
        shares = matched / train if train else None, others / control if control else None
        found.append(Crowd(str(one.get("k", "")), train, shares[0], control, shares[1]))
    return ", ".join(texts(drawn.get("columns"))), tuple(found)


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

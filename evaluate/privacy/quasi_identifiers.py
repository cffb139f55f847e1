"""Quasi-identifiers: people who are alone with theirs, and whose combination stands in the synthetic table.

The attacker knows a target's quasi-identifiers (an age, a sex, a place) and that the target was in the training table.
They look the combination up in the synthetic table, and win where it stands there: of somebody who is the only one with
it, the rest of that row may be the truth. A synthetic table also holds combinations that real people have by chance,
and the more of them, the fewer columns there are. So the same is counted of control rows.

People who share a combination are an equivalence class (`EquivalenceClasses`). Whether somebody is alone depends on the
number of people they are among. A training row is compared with all training rows but itself, and a control row with as
many: all training rows but one. What is left is whether the row was seen. It does not show what else of the row is
right, which is for attribute inference to say.

All training rows and all synthetic rows are counted, whether they are at hand or not, by keys of the combinations
alone. Control rows are those at hand, each among all training rows: a sample of people, not of the class they are in.

Training rows that are alone are the combinations that occur once, and control rows that are alone are drawn from the
mass of what never occurs; luck that makes one larger makes the other smaller. The variance of their difference is that
of a rate over the combinations that occur once, and twice as much for each that occurs twice (Robbins 1968). The mass
of what never occurs may lie in few combinations, which several control rows then share: these count as one.

Source: Sweeney 2002, "k-anonymity: a model for protecting privacy"; Good 1953, "The population frequencies of species
and the estimation of population parameters"; Robbins 1968, "Estimating the total probability of the unobserved outcomes
of an experiment", for the variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.all_rows import RowHashes, one_of_each
from evaluate.intervals import Rate, design_effect_of_units, newcombe, wilson
from evaluate.metrics import ALONE, Metric
from evaluate.privacy.experiment import detectable_advantage
from evaluate.result import Estimate, Failure
from evaluate.sampling import Side, one_per_entity, side_seed
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema

METRICS = (
    Metric("privacy.quasi_identifiers.excess", "lower", "Matched quasi-identifiers beyond chance",
           "Share of people, alone with their quasi-identifiers, whose combination stands in the synthetic table, "
           "minus that of people who were not used.", counted=ALONE, attack="always",
           criteria=("singling out", "identifiability")),
)  # fmt: skip


@dataclass(frozen=True)
class EquivalenceClasses:
    """Equivalence classes of quasi-identifiers, and their people in the synthetic table. *Sensitive*."""

    # people with one combination, among as many as there are training rows, each one of those who are looked at
    # included; shape (k,).
    sizes: np.ndarray
    people: np.ndarray  # how many of those who are looked at have it, shape (k,)
    matched: np.ndarray  # whether a synthetic row has it, shape (k,), boolean

    @classmethod
    def of(cls, keys: np.ndarray, n_others: np.ndarray, matched: np.ndarray) -> "EquivalenceClasses":
        """People by the keys of their combinations, with how many others have the same, and whether it is matched."""
        _, first, people = np.unique(keys, return_index=True, return_counts=True)
        return cls(n_others[first] + 1, people, matched[first])

    def of_size(self, least: int, most: int) -> "EquivalenceClasses":
        found = (self.sizes >= least) & (self.sizes <= most)
        return EquivalenceClasses(self.sizes[found], self.people[found], self.matched[found])

    def __len__(self) -> int:
        return int(self.people.sum())

    @property
    def n_matched(self) -> int:
        return int(self.people[self.matched].sum())

    @property
    def rate(self) -> Rate:
        """Their share, with its interval: people who share a combination are matched together."""
        return wilson(self.n_matched / len(self), self.n_independent)

    @property
    def n_independent(self) -> float:
        return len(self) / design_effect_of_units(self.people, self.people * self.matched, np.ones(len(self.people)))


def equivalence_classes(tables: Tables, columns: Sequence[str]) -> tuple[EquivalenceClasses, EquivalenceClasses]:
    """Of training and of control rows, each among as many others; one row of each entity. `tables`: *Sensitive*."""
    train = tables.kept_of_real.once(
        ("combinations", *columns), lambda: _combinations(tables, "train", columns)[_training_people(tables)]
    )
    # Control rows beyond as many as there are training rows would tell more of few combinations, not of more.
    control = RowHashes.of([tables.control.iloc[control_people(tables)[: len(train)]]], _alone(tables, columns)).keys
    synthetic = np.unique(_combinations(tables, "synthetic", columns))
    return (
        EquivalenceClasses.of(train, _times(train, train) - 1, np.isin(train, synthetic)),
        EquivalenceClasses.of(control, _times(control, train[:-1]), np.isin(control, synthetic)),
    )


def _alone(tables: Tables, columns: Sequence[str]) -> Schema:
    """The schema of some learned columns alone: keys of its rows are keys of their combinations."""
    kept = {name: column for name, column in tables.schema.columns.items() if name in columns}
    return tables.schema.model_copy(update={"columns": kept, "entity": None, "target": None})


def _combinations(tables: Tables, side: Side, columns: Sequence[str]) -> np.ndarray:
    """The keys of all rows' combinations, shape (n,)."""
    parts = tables.whole[side].rows.chunks() if side in tables.whole else [getattr(tables, side)]
    return RowHashes.of(parts, _alone(tables, columns)).keys


def _training_people(tables: Tables) -> np.ndarray:
    if "train" in tables.whole:
        return one_of_each(tables.hashes("train"), side_seed(tables.seed, "train"))
    return one_per_entity(tables.order("train"), tables.train, tables.schema)


def control_people(tables: Tables) -> np.ndarray:
    order = tables.drawn(tables.control)
    return one_per_entity(order, tables.control, tables.schema)


def _times(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Counts of each key among others, shape (len(keys),)."""
    ranked = np.sort(among)
    return np.asarray(ranked.searchsorted(keys, "right") - ranked.searchsorted(keys, "left"))


EXCESS = "privacy.quasi_identifiers.excess"
CLASSES = (("1", 1, 1), ("2-4", 2, 4), ("5+", 5, 2**62))
"""Names of the classes of k-anonymity, with the fewest and the most people who share a combination."""


def measure(tables: Tables) -> MetricResult:
    """How many more people alone with their quasi-identifiers are matched than of others: the estimate
    `privacy.quasi_identifiers.excess`.
    """
    columns = sorted(set(tables.schema.quasi_identifiers) & set(tables.schema.learned))
    if not columns:
        return _skipped("the schema names no quasi-identifiers that are learned; name them to have this counted")
    train, control = equivalence_classes(tables, columns)
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    if not len(alone) or not len(reference):
        return _skipped("nobody is alone with their quasi-identifiers, among the training rows or the control rows")
    value, low, high = excess_of(train, control)
    listed = ", ".join(repr(name) for name in columns)
    estimate = Estimate(
        EXCESS, value, len(alone) + len(reference), "lower", low=low, high=high, reference=0.0,
        note=f"share of people alone with their {listed} whose combination stands in the synthetic table, less that of "
        "people who were not used for training",
        detectable=detectable_excess(train, control),
    )  # fmt: skip
    return MetricResult(
        (estimate,), figures={"quasi_identifiers": {"columns": columns, "classes": _classes(train, control)}}
    )


def _skipped(message: str) -> MetricResult:
    return MetricResult(failures=(Failure(EXCESS, "skipped", message),))


def excess_of(train: EquivalenceClasses, control: EquivalenceClasses) -> Rate:
    """Excess of matched unique people of train over those of control, with the interval."""
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    members = wilson(alone.rate[0], len(alone) / dependence(train, control))
    return newcombe(members, reference.rate)


def detectable_excess(train: EquivalenceClasses, control: EquivalenceClasses) -> float:
    """The excess that would have been told from none in 80 of 100 repetitions."""
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    return detectable_advantage(reference.rate[0], len(alone) / dependence(train, control), reference.n_independent)


def dependence(train: EquivalenceClasses, control: EquivalenceClasses) -> float:
    """Design effect of combinations that occur once, since others occur twice by the same luck."""
    alone, pairs = train.of_size(1, 1), train.of_size(2, 2)
    others = control.of_size(1, 1)
    share = (alone.n_matched + others.n_matched) / (len(alone) + len(others))
    spread = share * (1 - share)
    if not len(pairs):
        return 1.0
    # Both people of a pair are counted, which makes the sum twice that over combinations.
    matched = pairs.rate[0]
    of_pairs = (matched * (1 - share) ** 2 + (1 - matched) * share**2) / spread if spread else 1.0
    return 1.0 + of_pairs * len(pairs) / len(alone)


def _classes(train: EquivalenceClasses, control: EquivalenceClasses) -> list[dict[str, Any]]:
    """Of each class of k-anonymity, how many people there are on either side and how many of them are matched."""
    found = []
    for name, least, most in CLASSES:
        ours, theirs = train.of_size(least, most), control.of_size(least, most)
        counts = {"train": len(ours), "train_matched": ours.n_matched}
        found.append({"k": name, **counts, "control": len(theirs), "control_matched": theirs.n_matched})
    return found

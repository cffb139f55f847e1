"""People who are alone with their quasi-identifiers, and whose combination of these stands in the synthetic table.

The attacker knows a target's quasi-identifiers (an age, a sex, a place) and that the target was in the training table.
They look the combination up in the synthetic table, and win where it stands there: of somebody who is the only one with
it, the rest of that row may be the truth. A synthetic table also holds combinations that real people have by chance,
and the more of them, the fewer columns there are. So the same is counted of control rows.

Whether somebody is alone depends on the number of people they are among. A training row is compared with all training
rows but itself, and a control row with as many: all training rows but one. What is left is whether the row was seen.
It does not show what else of the row is right, which is for attribute inference to say.

Training rows that are alone are the combinations that occur once, and control rows that are alone are drawn from the
mass of what never occurs; luck that makes one larger makes the other smaller. The variance of their difference is that
of a rate over the combinations that occur once, and twice as much for each that occurs twice (Robbins 1968). The mass
of what never occurs may lie in few combinations, which several control rows then share: these count as one.

Source: Sweeney 2002, "k-anonymity: a model for protecting privacy"; Good 1953, "The population frequencies of species
and the estimation of population parameters"; Robbins 1968, "Estimating the total probability of the unobserved
outcomes of an experiment", for the variance.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.intervals import Rate, clustered, design_effect, newcombe, wilson
from evaluate.privacy.experiment import detectable_advantage
from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.tables import Measurement, Tables
from synth.split import row_keys

SHARE, EXCESS = "privacy.quasi_identifiers", "privacy.quasi_identifiers.excess"
CLASSES = (("1", 1, 1), ("2-4", 2, 4), ("5+", 5, 2**62))
"""Names of the classes of k-anonymity, with the fewest and the most people who share a combination."""


@dataclass(frozen=True)
class Crowds:
    """How many people share the quasi-identifiers of each person, and who stands in the synthetic table. *Sensitive*.

    Attributes:
        combinations: of quasi-identifiers, as codes from 0, shape (n,).
        sizes: people with the same combination, oneself included, among as many as there are training rows; shape (n,).
        matched: whether a synthetic row has the combination, shape (n,), boolean.
    """

    combinations: np.ndarray
    sizes: np.ndarray
    matched: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, n_others: np.ndarray, synthetic: np.ndarray) -> "Crowds":
        """People by the keys of their combinations, with how many others have the same."""
        codes = np.unique(keys, return_inverse=True)[1]
        return cls(codes.astype(np.int64), n_others + 1, np.isin(keys, synthetic))

    def of_size(self, least: int, most: int) -> "Crowds":
        """The people who are in a crowd of that size."""
        found = (self.sizes >= least) & (self.sizes <= most)
        codes = np.unique(self.combinations[found], return_inverse=True)[1]
        return Crowds(codes.astype(np.int64), self.sizes[found], self.matched[found])

    def __len__(self) -> int:
        return len(self.matched)


def measure(tables: Tables) -> Measurement:
    """The share of people alone with their quasi-identifiers who are matched, and its excess over that of others.

    Estimates: `privacy.quasi_identifiers`, `privacy.quasi_identifiers.excess`.
    """
    columns = sorted(set(tables.schema.quasi_identifiers) & set(tables.schema.learned))
    if not columns:
        return _skipped("the schema names no quasi-identifiers that are learned; name them to have this counted")
    train, control = crowds(tables, columns)
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    if not len(alone) or not len(reference):
        return _skipped("nobody is alone with their quasi-identifiers, among the training rows or the control rows")
    share, against = (clustered(people.matched, people.combinations) for people in (alone, reference))
    excess = excess_of(train, control)
    listed = ", ".join(repr(name) for name in columns)
    return Measurement(
        (
            Estimate(
                SHARE, share[0], len(alone), "lower", low=share[1], high=share[2], reference=against[0],
                note=f"share of people alone with their {listed} whose combination stands in the synthetic table",
            ),
            Estimate(
                EXCESS, excess[0], len(alone) + len(reference), "lower", low=excess[1], high=excess[2], reference=0.0,
                note="the same share, less that of people who were not used for training",
                detectable=detectable_excess(train, control),
            ),
        ),
        figures={"quasi_identifiers": {"columns": columns, "classes": _classes(train, control)}},
    )  # fmt: skip


def _skipped(message: str) -> Measurement:
    return Measurement(failures=tuple(Failure(name, "skipped", message) for name in (SHARE, EXCESS)))


def crowds(tables: Tables, columns: list[str]) -> tuple[Crowds, Crowds]:
    """Of training and of control rows, each among as many others; one row of each entity.

    Args:
        tables: *Sensitive*.
        columns: quasi-identifiers, at least one.
    """
    order = drawn_order(learned_keys(tables.control, tables.schema), tables.seed)
    people = (
        tables.train.iloc[one_per_entity(tables.order("train"), tables.train, tables.schema)],
        tables.control.iloc[one_per_entity(order, tables.control, tables.schema)],
    )
    # Control rows beyond as many as there are training rows would tell more of few combinations, not of more.
    train, control = (row_keys(frame.head(len(people[0])), columns) for frame in people)
    synthetic = np.unique(row_keys(tables.synthetic, columns))
    return (
        Crowds.of(train, _times(train, train) - 1, synthetic),
        Crowds.of(control, _times(control, train[:-1]), synthetic),
    )


def _times(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """How often each key occurs among others, shape (len(keys),)."""
    ranked = np.sort(among)
    return np.asarray(ranked.searchsorted(keys, "right") - ranked.searchsorted(keys, "left"))


def excess_of(train: Crowds, control: Crowds) -> Rate:
    """How many more of the people alone in train are matched than of those alone in control, with the interval.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    members = wilson(float(alone.matched.mean()), len(alone) / dependence(train, control))
    return newcombe(members, clustered(reference.matched, reference.combinations))


def detectable_excess(train: Crowds, control: Crowds) -> float:
    """The excess that would have been told from none in 80 of 100 repetitions.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    n_reference = len(reference) / design_effect(reference.matched, reference.combinations)
    share = float(reference.matched.mean())
    return detectable_advantage(share, len(alone) / dependence(train, control), n_reference)


def dependence(train: Crowds, control: Crowds) -> float:
    """How many combinations that occur once tell as much as one, since others occur twice by the same luck.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
    alone, pairs = train.of_size(1, 1), train.of_size(2, 2)
    share = float(np.concatenate([alone.matched, control.of_size(1, 1).matched]).mean())
    spread = share * (1 - share)
    if not len(pairs):
        return 1.0
    # Both people of a pair are counted, which makes the sum twice that over combinations.
    of_pairs = float(((pairs.matched - share) ** 2).mean()) / spread if spread else 1.0
    return 1.0 + of_pairs * len(pairs) / len(alone)


def _classes(train: Crowds, control: Crowds) -> list[dict[str, Any]]:
    """Of each class of k-anonymity, how many people there are on either side and how many of them are matched."""
    found = []
    for name, least, most in CLASSES:
        ours, theirs = train.of_size(least, most), control.of_size(least, most)
        counts = {"train": len(ours), "train_matched": int(ours.matched.sum())}
        found.append({"k": name, **counts, "control": len(theirs), "control_matched": int(theirs.matched.sum())})
    return found

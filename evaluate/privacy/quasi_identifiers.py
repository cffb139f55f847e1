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

from collections.abc import Sequence
from typing import Any

from evaluate.intervals import Rate, newcombe, wilson
from evaluate.privacy.crowds import Crowds, crowds
from evaluate.privacy.experiment import detectable_advantage
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

SHARE, EXCESS = "privacy.quasi_identifiers", "privacy.quasi_identifiers.excess"
CLASSES = (("1", 1, 1), ("2-4", 2, 4), ("5+", 5, 2**62))
"""Names of the classes of k-anonymity, with the fewest and the most people who share a combination."""


def measure(tables: Tables) -> Measurement:
    """The share of people alone with their quasi-identifiers who are matched, and its excess over that of others.

    Estimates: `privacy.quasi_identifiers`, `privacy.quasi_identifiers.excess`.

    Of tables that stay where they are stored, all training rows are counted there.
    """
    columns = sorted(set(tables.schema.quasi_identifiers) & set(tables.schema.learned))
    if not columns:
        return _skipped("the schema names no quasi-identifiers that are learned; name them to have this counted")
    train, control = _crowds(tables, columns)
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    if not len(alone) or not len(reference):
        return _skipped("nobody is alone with their quasi-identifiers, among the training rows or the control rows")
    share, against = alone.rate, reference.rate
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


def _crowds(tables: Tables, columns: Sequence[str]) -> tuple[Crowds, Crowds]:
    if tables.stored is None:
        return crowds(tables, columns)
    from evaluate.privacy import stored_crowds

    return stored_crowds.crowds(tables, tables.stored, columns)


def _skipped(message: str) -> Measurement:
    return Measurement(failures=tuple(Failure(name, "skipped", message) for name in (SHARE, EXCESS)))


def excess_of(train: Crowds, control: Crowds) -> Rate:
    """How many more of the people alone in train are matched than of those alone in control, with the interval.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    members = wilson(alone.rate[0], len(alone) / dependence(train, control))
    return newcombe(members, reference.rate)


def detectable_excess(train: Crowds, control: Crowds) -> float:
    """The excess that would have been told from none in 80 of 100 repetitions.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
    alone, reference = train.of_size(1, 1), control.of_size(1, 1)
    return detectable_advantage(reference.rate[0], len(alone) / dependence(train, control), reference.n_independent)


def dependence(train: Crowds, control: Crowds) -> float:
    """How many combinations that occur once tell as much as one, since others occur twice by the same luck.

    Args:
        train: at least one of them alone.
        control: at least one of them alone.
    """
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


def _classes(train: Crowds, control: Crowds) -> list[dict[str, Any]]:
    """Of each class of k-anonymity, how many people there are on either side and how many of them are matched."""
    found = []
    for name, least, most in CLASSES:
        ours, theirs = train.of_size(least, most), control.of_size(least, most)
        counts = {"train": len(ours), "train_matched": ours.n_matched}
        found.append({"k": name, **counts, "control": len(theirs), "control_matched": theirs.n_matched})
    return found

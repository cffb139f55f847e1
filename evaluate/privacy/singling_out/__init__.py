"""Singling out: is there a description in the synthetic table that fits exactly one person of the real one?

The attacker sees the synthetic table only. They want a predicate on its columns, such as "over 80 and in the north",
that is true of exactly one person, which is what the European guidelines on anonymization call singling out. They win
with a predicate where it holds of exactly one of n people. Some win by chance: a rare combination of values is rare
among people who were never seen by a generator. So the same predicates are tried on as many people of the control rows,
and only what training rows give beyond these is a leak.

Success depends on n, so that the training rows are cut into blocks of as many rows as there are control rows, and every
predicate is tried on every block. What it gains over control rows is added up over the blocks: one that was made from a
training row fits in the block of that row only, and a copy comes near 1 however many rows train has for each control
row. Attempts are not independent: several predicates may hold of one outlying person. The interval counts how many
attempts single out the same person, and takes so many for one.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459,
section 5.1; Cohen & Nissim 2020, "Towards formalizing the GDPR's notion of singling out".
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evaluate.privacy.experiment import Experiment
from evaluate.privacy.singling_out.predicates import (
    Coded,
    Predicates,
    are_numbers,
    coded,
    guesses,
    multivariate,
    univariate,
)
from evaluate.result import Estimate, Failure
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.sides import Side
from evaluate.tables import Measurement, Tables

UNIVARIATE, MULTIVARIATE = "privacy.singling_out.univariate", "privacy.singling_out.multivariate"
N_PREDICATES = 2_000
MIN_PREDICATES = 10
MAX_BATCHES = 5
"""Batches of `N_PREDICATES` that are drawn until as many have been found."""
N_GUESSES = 500
_STREAM = 0x51
"""Tells this module's random numbers from those of others with the same seed."""


@dataclass(frozen=True)
class Attempts:
    """What came of some predicates on one table.

    Attributes:
        hits: which predicates held of exactly one row of each block, shape (n_predicates, n_blocks), boolean.
        singled_out: *Sensitive*. That row's position, for each hit.
    """

    hits: np.ndarray
    singled_out: np.ndarray


def measure(tables: Tables) -> Measurement:
    """Advantages of predicates on one column and on several, on training rows over control rows.

    Estimates: `privacy.singling_out.univariate`, `privacy.singling_out.multivariate`.
    """
    if not tables.schema.learned:
        message = "no column is learned, so that there is nothing to describe anybody by"
        return Measurement(failures=tuple(Failure(name, "skipped", message) for name in (UNIVARIATE, MULTIVARIATE)))
    attack = _Attack.on(tables)
    rng = np.random.default_rng([tables.seed, _STREAM])
    found = {
        UNIVARIATE: univariate(attack.synthetic, attack.numbers, rng, N_PREDICATES),
        MULTIVARIATE: attack.several_columns(rng),
    }
    estimates, failures, figures = [], [], {}
    for name, predicates in found.items():
        if len(predicates) < MIN_PREDICATES:
            failures.append(Failure(name, "skipped", _too_few(name, attack)))
            continue
        experiment = attack.experiment(predicates, 1 if name == UNIVARIATE else len(attack.numbers), rng)
        estimates.append(_added_up(experiment.estimate(name, note=_NOTES[name]), attack.n_blocks))
        figures[name.rpartition(".")[2]] = experiment.figure()
    return Measurement(tuple(estimates), tuple(failures), {"singling_out": figures} if figures else {})


_NOTES = {
    UNIVARIATE: "how much more often a value that is alone in the synthetic table is true of exactly one training row "
    "than of exactly one of as many other rows, added up over all training rows",
    MULTIVARIATE: "how much more often a combination of values that one synthetic row has is true of exactly one "
    "training row than of exactly one of as many other rows, added up over all training rows",
}


def _added_up(mean: Estimate, n_blocks: int) -> Estimate:
    """The advantage over all blocks of training rows; at most one person in every attempt."""
    assert mean.low is not None
    assert mean.high is not None
    assert mean.detectable is not None
    value, low, high, detectable = (
        float(np.clip(n_blocks * part, -1.0, 1.0)) for part in (mean.value, mean.low, mean.high, mean.detectable)
    )
    return replace(mean, value=value, low=low, high=high, detectable=detectable)


def _too_few(name: str, attack: "_Attack") -> str:
    if name == MULTIVARIATE and len(attack.numbers) < 2:
        return "a combination of values takes two columns, and only one is learned"
    what = "value" if name == UNIVARIATE else "combination of values"
    return f"hardly any {what} is alone in the synthetic table, so that there is nothing to single anybody out by"


@dataclass(frozen=True)
class _Attack:
    """The synthetic rows and the people of either side, in seeded order; *Sensitive*.

    Attributes:
        synthetic: one row of each entity, like all others.
        train: members.
        control: people who were not used for training.
        numbers: which columns are numbers.
    """

    synthetic: Coded
    train: Coded
    control: Coded
    numbers: np.ndarray

    @classmethod
    def on(cls, tables: Tables) -> "_Attack":
        schema = tables.schema
        synthetic = _people(tables, "synthetic")
        order = drawn_order(learned_keys(tables.control, schema), tables.seed)
        control = tables.control.iloc[one_per_entity(order, tables.control, schema)]
        frames = (synthetic, _people(tables, "train"), control)
        made, train, others = (coded(frame, synthetic, schema) for frame in frames)
        return cls(made, train, others, are_numbers(schema))

    @property
    def n_blocks(self) -> int:
        """How many times as many members as controls there are, as whole blocks of rows."""
        return max(1, int(self.train.codes.shape[1] // self.control.codes.shape[1]))

    def several_columns(self, rng: np.random.Generator) -> Predicates:
        """Predicates on several columns that hold of exactly one synthetic row, each once."""
        n = self.synthetic.codes.shape[1]
        found = Predicates.none(len(self.numbers))
        for batch in range(MAX_BATCHES if len(self.numbers) > 1 else 0):
            records = (np.arange(N_PREDICATES) + batch * N_PREDICATES) % n
            tried = multivariate(self.synthetic, records, self.numbers, rng)
            alone = [len(rows) == 1 for rows in self.synthetic.matching(tried)]
            found = found.joined(tried.take(np.flatnonzero(alone)))
            if len(found) >= N_PREDICATES:
                break
        return found.take(np.arange(min(N_PREDICATES, len(found))))

    def experiment(self, predicates: Predicates, n_columns: int, rng: np.random.Generator) -> Experiment:
        """What came of the predicates, beside guesses on as many columns."""
        n = min(self.train.codes.shape[1], self.control.codes.shape[1])
        train, control = (attempts(rows, predicates, n) for rows in (self.train, self.control))
        guessed = attempts(self.train, guesses(self.synthetic, self.numbers, n_columns, N_GUESSES, rng), n)
        return Experiment(
            train.hits.ravel(), control.hits.ravel(), float(guessed.hits.mean()), dependence(train, control)
        )


def _people(tables: Tables, side: Side) -> pd.DataFrame:
    """One row of each entity of a table, in seeded order."""
    frame: pd.DataFrame = getattr(tables, side)
    return frame.iloc[one_per_entity(tables.order(side), frame, tables.schema)]


def attempts(rows: Coded, predicates: Predicates, n: int) -> Attempts:
    """What comes of some predicates on each block of n rows; what is left over after the last block is not used.

    Args:
        rows: *Sensitive*. In seeded order.
        predicates: to try.
        n: rows of a block.
    """
    n_blocks = rows.codes.shape[1] // n
    hits = np.zeros((len(predicates), n_blocks), dtype=bool)
    singled_out = [np.zeros(0, dtype=np.int64)]
    for i, matching in enumerate(rows.matching(predicates)):
        used = matching[matching < n * n_blocks]
        hits[i] = np.bincount(used // n, minlength=n_blocks) == 1
        singled_out.append(used[hits[i, used // n]])
    return Attempts(hits, np.concatenate(singled_out))


def dependence(*sides: Attempts) -> float:
    """How many attempts tell as much as one independent one, since several may single out the same person.

    Successes come in bundles, one for each person: the variance of their sum is that of a compound Poisson count, the
    sum of squares of the bundles' sizes.
    """
    sizes = np.concatenate([np.unique(side.singled_out, return_counts=True)[1] for side in sides])
    return float((sizes**2).sum() / sizes.sum()) if len(sizes) else 1.0

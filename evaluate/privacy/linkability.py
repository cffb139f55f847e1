"""Linkability: does the synthetic table tell which records of two sources belong to the same person?

The attacker holds two extracts of the same people, with different columns, and looks up the nearest synthetic row by
each. They win where it is the same one. With more rows than one, members and others alike are linked by rows that have
nothing to do with them. How the columns fall into two is drawn at random a few times, and taken from the schema: its
quasi-identifiers, and the columns of its `parties`.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459,
section 5.2.
"""

from itertools import combinations

import numpy as np

from evaluate.metrics import PEOPLE, Metric
from evaluate.neighbors import gower_nearest, space_of
from evaluate.privacy.attribute_inference import Attacked
from evaluate.privacy.experiment import Experiment, largest, not_measured, too_few
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema

METRICS = (
    Metric("privacy.linkability", "lower", "Linking two sources", "How much more often two parts of one person's "
           "record lead to the same synthetic row, of members over others.", counted=PEOPLE, key=True, attack="always",
           criteria=("linkability",)),
)  # fmt: skip

WORST = "privacy.linkability"
N_SAMPLED = 3  # Splits that are drawn
MOST_NAMED = 4  # Columns that a note names
_STREAM = 0x11  # Tells this module's random numbers from those of others with the same seed


ColumnSplit = tuple[tuple[str, ...], ...]  # The columns of the smaller side, and the others


def measure(tables: Tables) -> MetricResult:
    """The advantage with the split of the columns that stands out most: the estimate `privacy.linkability`."""
    attacked, splits = Attacked.of(tables), splits_of(tables.schema, tables.seed)
    n_members, why = len(attacked.members), too_few(len(attacked.members), len(attacked.controls))
    if not splits:
        why = "two sources need a column each, and the table has fewer than two columns that are learned"
    if why:
        return not_measured(why, WORST)
    space = space_of(tables)
    targets = space.train.take(attacked.members).joined(space.control.take(attacked.controls))
    pool = space.synthetic.take(attacked.pool)
    n, tried, drawn = len(splits), [], []
    for split in splits:
        # Whose two parts lead to one synthetic row; two rows drawn at random are the same one time in len(pool).
        rows = [gower_nearest(targets, pool, columns)[:, 0] for columns in split]
        linked = rows[0] == rows[1]
        tried.append(Experiment(linked[:n_members], linked[n_members:], 1 / len(pool)))
        drawn.append({"columns": list(split[0]), "others": list(split[1]), **tried[-1].figure(n)})

    def note(worst: int) -> str:
        columns = splits[worst][0]
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        sampled = "; the attacker looks at a sample of the synthetic rows" if len(pool) < len(tables.synthetic) else ""
        return (
            f"by {', '.join(map(repr, columns[:MOST_NAMED]))}{more} against the others, which stands out most of {n} "
            f"splits: the two parts of {tried[worst].words} are linked{sampled}"
        )

    return MetricResult((largest(WORST, tried, note),), figures={"linkability": drawn})


def splits_of(schema: Schema, seed: int) -> list[ColumnSplit]:
    """Every split that is tried, each once: random halves of the learned columns, then those that the schema names."""
    learned, rng = sorted(schema.learned), np.random.default_rng([seed, _STREAM])
    orders = [[learned[i] for i in rng.permutation(len(learned))] for _ in range(N_SAMPLED)]
    pairs = [(set(names[: len(names) // 2]), set(names[len(names) // 2 :])) for names in orders]
    known = set(schema.quasi_identifiers) & set(learned)
    parties = combinations([set(columns) & set(learned) for columns in schema.parties], 2)
    pairs += [(known, set(learned) - known), *(pair for pair in parties if not pair[0] & pair[1])]
    splits = (sorted((tuple(sorted(side)) for side in pair), key=lambda side: (len(side), side)) for pair in pairs)
    return [split for split in dict.fromkeys(map(tuple, splits)) if split[0]]

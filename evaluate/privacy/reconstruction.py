"""Reconstruction: what does the synthetic table tell of a record to somebody who knows its quasi-identifiers?

A random forest that learned from the synthetic rows guesses all other columns. A right guess counts one over the number
of real rows that have the value: whoever always names the usual one gains next to nothing. One forest serves all
columns: a tree is grown on a few random projections of the unknown ones, down to single rows, and each row of a leaf
votes with its values, a vote counting by how rare the value is in the synthetic table, which is the best that the
attacker can do for this score.

Source: the reconstruction score of NIST's Collaborative Research Cycle and its winners' attack, arXiv:2606.08372.
DEVIATES: numbers are guessed by thirty-seconds of their ranks, and of a column of many categories all but the commonest
63 are one; values that fewer than one in a hundred have weigh as if so many had them; one forest serves all columns.
"""

import numpy as np
from scipy import sparse

from evaluate.metrics import PEOPLE, Metric
from evaluate.neighbors import SpaceRows, space_of
from evaluate.privacy.attribute_inference import Attacked, secrets_among
from evaluate.privacy.experiment import Experiment, largest, not_measured, too_few
from evaluate.privacy.membership_attacks import cells_of
from evaluate.result import Failure
from evaluate.tables import MetricResult, Tables

METRICS = (
    Metric("privacy.reconstruction", "lower", "Reconstructing a record", "How much more of a member's record than of "
           "another person's a forest guesses from the quasi-identifiers, rare values counting more; the worst column.",
           counted=PEOPLE, attack="always", criteria=("inference",), may_lack=True),
)  # fmt: skip

NAME = "privacy.reconstruction"
N_TREES = 20
N_PROJECTIONS = 8  # Of the unknown columns: splits that tell these apart tell most columns apart
LEAST_SHARE = 0.01
"""Share of real rows below which a value weighs no more: a handful of people would decide, and the interval say so."""
MAX_LEARNED = 20_000  # Synthetic rows that the forest learns from at most


def measure(tables: Tables) -> MetricResult:
    """The advantage in the column where it stands out most: the estimate `privacy.reconstruction`."""
    known = sorted(set(tables.schema.quasi_identifiers) & set(tables.schema.learned))
    attacked = Attacked.of(tables)
    unknown = [name for name in secrets_among(tables) if name not in known]
    if not known or not unknown:
        message = "the schema names no quasi-identifiers, or no column that varies beside them; name them"
        return MetricResult(failures=(Failure(NAME, "not applicable", message),))
    if why := too_few(len(attacked.members), len(attacked.controls)):
        return not_measured(why, NAME)
    space, n_members = space_of(tables), len(attacked.members)
    targets = space.train.take(attacked.members).joined(space.control.take(attacked.controls))
    pools = space.synthetic.take(attacked.pool[:MAX_LEARNED]), space.fresh.take(attacked.own[:MAX_LEARNED])
    real = space.train.joined(space.fresh).joined(space.control)
    cells = {name: cells_of([part.columns[name] for part in (*pools, targets, real)]) for name in unknown}
    guessed, alone = (
        guesses(pool, targets, known, {name: codes[i] for name, codes in cells.items()}, tables.seed)
        for i, pool in enumerate(pools)
    )
    tried, drawn = [], []
    for name, (_, _, truth, of_real) in cells.items():
        counts = np.bincount(of_real, minlength=int(truth.max()) + 1)
        weights = 1 / np.maximum(counts, LEAST_SHARE * len(of_real))[truth]
        # A share of weights is a mean of so many hits as they leave independent (Kish 1965).
        dependence = float((weights**2).mean() / weights.mean() ** 2)
        parts = slice(n_members), slice(n_members, None)
        weighed = [weights[part] / weights[part].mean() for part in parts]
        hits, control_hits = (
            (guessed[name] == truth)[part] * weight for part, weight in zip(parts, weighed, strict=True)
        )
        baseline = float(((alone[name] == truth)[parts[0]] * weighed[0]).mean())
        tried.append(Experiment(hits, control_hits, min(baseline, 1.0), dependence))
        drawn.append({"column": name, **tried[-1].figure(len(unknown))})
    worst = largest(NAME, tried, lambda worst: (
        f"{unknown[worst]!r} stands out most of {len(unknown)} columns, guessed from {', '.join(map(repr, known))}; "
        "rare values count as much as common ones"
    ))  # fmt: skip
    return MetricResult((worst,), figures={"reconstruction": drawn})


def guesses(
    pool: SpaceRows, targets: SpaceRows, known: list[str], cells: dict[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The value of each unknown column that a forest guesses of each target. `cells`: those of the pool's rows."""
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng([seed, 0x2C])
    projected = sum(rng.standard_normal((int(codes.max()) + 1, N_PROJECTIONS))[codes] for codes in cells.values())
    features = [np.column_stack([part.columns[name] for name in known]).astype(np.float32) for part in (pool, targets)]
    forest = RandomForestRegressor(N_TREES, max_features=-(-2 * len(known) // 3), random_state=seed % 2**32)
    leaves, of_targets = forest.fit(features[0], projected).apply(features[0]), forest.apply(features[1])
    shares = [1 / np.bincount(codes)[codes] for codes in leaves.T]
    guessed = {}
    for name, codes in cells.items():
        counts = np.bincount(codes)
        votes = sparse.csr_matrix((len(targets), len(counts)))
        for share, leaf, of_target in zip(shares, leaves.T, of_targets.T, strict=True):
            by_leaf = sparse.csr_matrix((share / counts[codes], (leaf, codes)), shape=(leaves.max() + 1, len(counts)))
            votes += by_leaf[of_target]
        guessed[name] = np.asarray(votes.argmax(axis=1)).ravel()
    return guessed

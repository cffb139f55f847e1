"""Where synthetic rows lie among training rows: in the typical part, all over it, and not on single ones.

Rows are points of `evaluate.neighbors`: ranks among the training rows (spread as two fair coins), one coordinate per
category, one for missing. Of each table equally many are compared with as many training rows; a copy of these scores
best, better than a fresh sample: whether rows are copies is what privacy measures say.

Source: Alaa et al. 2022, "How Faithful is your Synthetic Data?", arXiv:2102.08921 (alpha-precision, beta-recall,
authenticity); Naeem et al. 2020, arXiv:2002.09797 (density, coverage).
"""

import numpy as np
from scipy import special

from evaluate.fidelity.joint_samples import MIN_UNITS, JointSamples, joint_samples
from evaluate.fidelity.joint_support import FIGURES, Cloud, authentic, cloud, figures
from evaluate.intervals import HALVES, LEVEL, N_GROUPS, half_samples, replicate_groups, wilson
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

NAMES = (*(f"joint.{name}{end}" for name in FIGURES for end in ("", ".gap")), "joint.authenticity")
_PARTS = np.array([np.random.default_rng([7, part]).permutation(N_GROUPS) < 10 for part in range(24)])
_BOUNDS = {"density": (0.0, np.inf)}
_NOTES = {
    "alpha_precision": "Integrated over alpha: 1 where every ball about the training rows' center holds its share.",
    "beta_recall": "Integrated over beta: 1 where every ball of synthetic rows reaches its share of training rows.",
    "density": "Synthetic rows per training row in balls to the 5th neighbor; above 1 they crowd together.",
    "coverage": "Share of training rows with a synthetic row no further than their 5th neighbor.",
}


def measure(tables: Tables) -> Measurement:
    """Alpha-precision, beta-recall, density, coverage, how far each is below a fresh sample's, and authenticity."""
    samples = joint_samples(tables)
    if samples.n_units < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    if samples.train.points.shape[1] == 0:
        why = "all rows of all tables are equal, so there is no distance between them"
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    train = samples.train.points
    own = cloud(train, train)
    others = [cloud(train, side.points) for side in (samples.synthetic, samples.fresh, samples.shuffled)]
    found = replicates(own, others, samples)
    estimates = [e for i, name in enumerate(FIGURES) for e in _estimates(name, found[:, :, i], samples.n)]
    return Measurement((*estimates, _authenticity(own, others, samples)))


def replicates(own: Cloud, others: list[Cloud], samples: JointSamples) -> np.ndarray:
    """The figures of synthetic, fresh and shuffled rows.

    On all rows, then on 15 half-samples and their complements, then on parts of 10 of the 16 groups; shape (3, 55, 4).
    """
    kept = np.concatenate([replicate_groups(N_GROUPS)[: HALVES.stop] > 0, _PARTS])
    found = np.empty((3, len(kept), len(FIGURES)))
    for i, (other, side) in enumerate(zip(others, (samples.synthetic, samples.fresh, samples.shuffled), strict=True)):
        # No interval is given for shuffled rows, whose parts then need not be counted.
        for j, groups in enumerate(kept if i < 2 else kept[:1]):
            found[i, j] = figures(own, other, groups[samples.train.groups], groups[side.groups])
    return found


def _estimates(name: str, found: np.ndarray, n: int) -> list[Estimate]:
    """The figure, and how far it is below that of a fresh sample; `found` has shape (3, 55)."""
    low, high = _interval(name, found[0], _BOUNDS.get(name, (0.0, 1.0)))
    plain = Estimate(
        f"joint.{name}", float(found[0, 0]), n, "higher", low=low, high=high,
        reference=float(found[1, 0]), floor=float(found[2, 0]), note=_NOTES[name],
    )  # fmt: skip
    gaps = found[1] - found[0]
    low, high = _interval(name, gaps, (-np.inf, np.inf))
    gap = Estimate(
        f"joint.{name}.gap", float(gaps[0]), n, "lower", low=low, high=high, reference=0.0,
        floor=float(found[1, 0] - found[2, 0]), note="What a fresh real sample scores, minus what these rows score.",
    )  # fmt: skip
    return [plain, gap]


def _interval(name: str, found: np.ndarray, bounds: tuple[float, float]) -> tuple[float, float]:
    """By half-samples; coverage, which varies less among halves, by larger parts.

    Source: Shao and Wu 1989, "A general theory for jackknife variance estimation" (the delete-d jackknife).
    """
    if name != "coverage":
        return half_samples(found[0], found[HALVES], bounds=bounds)
    n_kept = int(_PARTS[0].sum())
    error = float(np.sqrt(n_kept / (N_GROUPS - n_kept) * found[HALVES.stop :].var(ddof=1)))
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * error
    return max(found[0] - half, bounds[0]), min(found[0] + half, bounds[1])


def _authenticity(own: Cloud, others: list[Cloud], samples: JointSamples) -> Estimate:
    """The share of rows that are no nearer to a training row than that is to its own neighbor."""
    value, reference, floor = (float(authentic(own, other).mean()) for other in others)
    # Half of the rows: the training rows are a sample too, and of the same size.
    _, low, high = wilson(value, samples.n_units / 2)
    return Estimate(
        "joint.authenticity", value, samples.n, "none", low=low, high=high, reference=reference, floor=floor,
        note="Share of rows further from the nearest training row than that is from its neighbor; ties count half.",
    )  # fmt: skip

"""What private neural peers really spend: their own record of what they did to real rows, accounted anew."""

from collections.abc import Mapping
from typing import Any

from benchmarks.adult_table import DELTA, Adult
from benchmarks.neural_fits import scored
from benchmarks.neural_point import Point
from benchmarks.peer import run_peer

PRIVATE_PEERS = ("smartnoise.dpctgan", "mostly.argn")
REMARKS: Mapping[str, str] = {
    "smartnoise.dpctgan": (
        "promises epsilon and has none: the exact frequency of every category steers its training and stays in its "
        "sampler. `steps only` is what its noisy steps on real rows cost if a batch were a Poisson sample, `a row "
        "twice` what they cost with rows drawn with replacement, as they are. It reads its account before each epoch, "
        "so that it stops only once the budget is passed; it charges its steps on fakes too, and so tells more."
    ),
    "mostly.argn": (
        "counts its Poisson steps right, but picks the weights it keeps, its learning rate and its end by the exact "
        "loss on a fifth of the real rows, outside the account, and takes from the table which codes there are. Its "
        "value protection (off here: codes are public) releases categories whose count with Laplace noise is 5 or "
        "more, and calls that pure epsilon-DP: at its default, on 15 columns, a category of one row gets out with "
        "probability 0.39. Weights that pass the budget in the first epoch are kept. `steps only` is what its noisy "
        "steps cost the rows it trained on; training ends after 20 minutes."
    ),
}
"""Read in their source: smartnoise-synth 1.0.8 with opacus 0.14.0, mostlyai-engine 2.7.3 with opacus 1.6.0."""


MOST_TIMES = 7
"""A row is in a batch as often with a probability far below delta."""


def peer_point(point: Point, adult: Adult) -> dict[str, Any]:
    """One fit of a private peer in its own environment, scored, with what its steps really cost."""
    assert point.epsilon is not None
    privacy = {"epsilon": point.epsilon, "delta": DELTA}
    run = run_peer(point.generator, adult.train, adult.binned, privacy, point.seed, point.limit_s)
    if run.synthetic is None:
        return {"failure": run.failure}
    told = {name: value for name, value in run.facts.items() if name not in run.times}
    scores = {**told, **real_epsilon(run.facts), **scored(adult, run.synthetic)}
    return {**run.times, "scores": scores, "versions": run.versions}


def real_epsilon(facts: Mapping[str, float]) -> dict[str, float]:
    """Epsilon of the noisy steps on real rows, by privacy loss distributions, at the benchmark's delta.

    Args:
        facts: `noise_multiplier`, `steps` and either `sampling_rate` of Poisson sampling or `batch_size` and `n_rows`
            of batches drawn with replacement.

    Returns:
        `steps_epsilon`, and where rows are drawn with replacement `repeats_epsilon` too: a row may be there several
        times, and moves the sum as often. One row is added or removed; a peer that also replaces it may lose more.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
    from scipy.stats import binom

    repeats = "sampling_rate" not in facts
    rate = facts["batch_size"] / facts["n_rows"] if repeats else facts["sampling_rate"]
    samplings = {"steps_epsilon": [1 - rate, rate]}
    if repeats:
        shares = [float(binom.pmf(n, int(facts["batch_size"]), 1 / facts["n_rows"])) for n in range(MOST_TIMES)]
        samplings["repeats_epsilon"] = [*shares, max(0.0, 1 - sum(shares))]
    result = {}
    for name, shares_of_times in samplings.items():
        step = from_mixture_gaussian_mechanism(
            facts["noise_multiplier"],
            [float(times) for times in range(len(shares_of_times))],
            shares_of_times,
            value_discretization_interval=2e-4,
        )
        result[name] = float(step.self_compose(int(facts["steps"])).get_epsilon_for_delta(DELTA))
    return result

"""The shadow-model attack, in a run and outside one: only where somebody asks, since it fits many models."""

from collections.abc import Callable
from dataclasses import replace

from evaluate.engine import isolated
from evaluate.result import Candidate
from evaluate.tables import Measurement, Tables
from synth.errors import ModelError
from synth.generators.base import Generator, Model
from synth.generators.marginal_model import MarginalModel
from synth.generators.neural_model import NeuralModel
from synth.generators.registry import generator
from synth.progress import Progress

MEASURE = "privacy.shadow"


def shadow_candidate(
    candidate: Candidate, attack: Callable[[], Measurement], time_limit_s: float | None
) -> Candidate:  # fmt: skip
    """The candidate with what shadow models came to, or with the reason why they came to nothing.

    Args:
        candidate: whose table is attacked.
        attack: as `shadow_attack` makes it.
        time_limit_s: wall seconds; none: no limit.
    """
    found, seconds = isolated(MEASURE, attack, time_limit_s)
    return replace(
        candidate,
        estimates=(*candidate.estimates, *found.estimates),
        failures=(*candidate.failures, *found.failures),
        seconds={**candidate.seconds, MEASURE: round(seconds, 3)},
    )


def shadow_attack(
    tables: Callable[[], Tables], chosen: Generator, n_models: int, progress: Progress
) -> Callable[[], Measurement]:
    """The attack, not yet begun.

    Args:
        tables: *Sensitive*. Gives the real rows and the synthetic table.
        chosen: the generator that made it, with its parameters.
        n_models: shadow models to fit.
        progress: told the share done.
    """

    def attack() -> Measurement:
        from evaluate.privacy.shadow import measure

        return measure(tables(), chosen, n_models, progress)

    return attack


def specification_of(model: Model) -> Generator:
    """The generator and the parameters that a model was fitted by.

    Raises:
        ModelError: the model does not hold them.
        JobError: they are none of the generator's.
    """
    parameters = model.parameters if isinstance(model, MarginalModel | NeuralModel) else None
    if parameters is None:
        raise ModelError("shadow models are fitted by a model's parameters, and this one holds none; fit it again")
    return generator(model.name, **parameters)

"""Attacks that fit many models, only where somebody asks: shadow models, and a black-box audit."""

from collections.abc import Callable
from dataclasses import replace

from evaluate.engine import isolated
from evaluate.result import Candidate
from evaluate.tables import Measurement, Tables
from synth.errors import ModelError
from synth.generators.base import Generator, Model
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.models.neural_model import NeuralModel
from synth.generators.registry import generator
from synth.progress import Progress
from synth.schema import Schema

SHADOW, BLACK_BOX = "privacy.shadow", "privacy.black_box"


def attacked(
    candidate: Candidate, measure: str, attack: Callable[[], Measurement], time_limit_s: float | None = None
) -> Candidate:
    """The candidate with what an attack came to, or with the reason why it came to nothing.

    Args:
        candidate: whose table is attacked.
        measure: `SHADOW` or `BLACK_BOX`.
        attack: as `shadow_attack` or `black_box_audit` makes it.
        time_limit_s: wall seconds; none: no limit.
    """
    found, seconds = isolated(measure, attack, time_limit_s)
    return replace(
        candidate,
        estimates=(*candidate.estimates, *found.estimates),
        failures=(*candidate.failures, *found.failures),
        seconds={**candidate.seconds, measure: round(seconds, 3)},
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
        from evaluate.privacy.shadow_models import measure

        return measure(tables(), chosen, n_models, progress)

    return attack


def black_box_audit(
    chosen: Generator, schema: Schema, n_fits: int, *, seed: int, time_limit_s: float | None, progress: Progress
) -> Callable[[], Measurement]:
    """The audit of a generator by its tables alone, on a public stand-in, not yet begun. No real row is read.

    Args:
        chosen: with an epsilon or without.
        schema: gives the columns, the unit, k and n_units.
        n_fits: how often it is fitted.
        seed: of all draws but private noise.
        time_limit_s: wall seconds after which no further fit is begun; none: no limit.
        progress: told the share done.
    """

    def audit() -> Measurement:
        from evaluate.privacy.audit.black_box import Trials, black_box
        from evaluate.privacy.audit.neighboring_tables import Worlds

        worlds, trials = Worlds.stand_in(schema, seed=seed), Trials(n_fits, time_limit_s=time_limit_s, seed=seed)
        return Measurement((black_box(chosen, worlds, trials, progress=progress).estimate,))

    return audit


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

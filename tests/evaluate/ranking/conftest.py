"""Tables of one population, and of populations that are off by a little."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.ranking.figures import ReplicatedFigures
from evaluate.tables import Real
from evaluate.utility import models, study
from synth import infer_schema
from synth.schema import Schema

Draw = Callable[[np.random.Generator, int, float], pd.DataFrame]


def drawn(rng: np.random.Generator, n: int, off: float = 0.0) -> pd.DataFrame:
    """Rows of one population; `off` loosens what ties its columns."""
    age = rng.integers(18, 91, n)
    income = np.clip(20 + age * (1 - off) + rng.normal(0, 15, n), 0, 200).round(1)
    town = np.where(income > 90, "north", np.where(income > 60, "south", "east"))
    ill = rng.random(n) < (age - 10) / 100 * (1 - off) + off / 2
    letter = rng.choice(list("abcdef"), n, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
    return pd.DataFrame({"age": age, "income": income, "town": town, "ill": ill, "letter": letter})


@pytest.fixture(scope="session")
def population() -> Draw:
    return drawn


@pytest.fixture(scope="session")
def schema() -> Schema:
    return infer_schema(drawn(np.random.default_rng(99), 20_000), target="ill")


@pytest.fixture(scope="session")
def world(schema: Schema) -> Callable[[int, int, int], Real]:
    def make(seed: int, n_train: int, n_holdout: int) -> Real:
        rng = np.random.default_rng([seed, 0])
        train, holdout = drawn(rng, n_train), drawn(rng, n_holdout)
        return Real.prepare(train, holdout, schema, seed=seed, outside="clamp")

    return make


@pytest.fixture(scope="session")
def figures_of(world: Callable[[int, int, int], Real]) -> dict[str, ReplicatedFigures]:
    """Two fresh real samples, and one that is clearly worse."""
    real, result = world(3, 400, 300), {}
    with pytest.MonkeyPatch.context() as patch:
        # How often tables are split in halves says how wide an interval is, which these tests do not look at.
        patch.setattr(study, "N_SPLITS", {"linear": (2, 2), "boosting": (2, 2)})
        patch.setitem(models.BOOSTING, "max_iter", 20)
        for name, seed, off in (("one", 1, 0.0), ("other", 2, 0.0), ("worse", 3, 0.9)):
            tables = real.beside(drawn(np.random.default_rng(seed), 400, off))
            result[name] = ReplicatedFigures.of(tables)
            tables.kept.clear()
    return result

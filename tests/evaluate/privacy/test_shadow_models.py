"""Shadow models: they name the members of a table that repeats its rows, and nobody where nothing leaks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.privacy import shadow_models
from evaluate.privacy.shadow_models import AUC, Targets, likelihood_ratios, measure
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from synth.dp.statement import PrivacyStatement
from synth.generators.base import Generator
from synth.generators.marginal_generator import Independent
from synth.progress import Progress, quiet
from synth.schema import Schema, build_schema

Draw = Callable[..., Tables]


@dataclass(frozen=True)
class Repeated:
    """A model that draws its training rows."""

    rows: pd.DataFrame
    schema: Schema
    name: str = "memorizing"
    statement: PrivacyStatement | None = None

    @property
    def default_rows(self) -> int:
        return len(self.rows)

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Mapping[str, Any] | None = None,
        progress: Progress = quiet,
    ) -> pd.DataFrame:
        drawn = np.random.default_rng(seed).integers(0, len(self.rows), n_rows or len(self.rows))
        return self.rows[list(self.schema.kept)].iloc[drawn].reset_index(drop=True)

    def save(self, path: Path) -> None:
        raise AssertionError("what an attack fits is never saved")


class Memorizing(Generator):
    """Repeats its rows, and promises nothing."""

    name: ClassVar[str] = "memorizing"

    def fit(self, train: pd.DataFrame, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> Repeated:
        return Repeated(train, schema)


def found(measurement: MetricResult) -> Estimate:
    return next(estimate for estimate in measurement.estimates if estimate.measure == AUC)


def made_by(generator: Generator, tables: Tables) -> Tables:
    """The evaluation of what a generator makes of the training table."""
    synthetic = generator.fit(tables.train, tables.declared, seed=1).sample(len(tables.synthetic), seed=1)
    return replace(tables, synthetic=synthetic)


@pytest.mark.parametrize("kind", ["mixed", "all numeric"])
def test_a_generator_that_repeats_its_rows_is_found(kind: str, draw: Draw, make: Any) -> None:
    tables = made_by(Memorizing(), draw(make[kind], (200, 150, 150, 200), seed=1))
    area = found(measure(tables, Memorizing(), 8))
    # Of rows drawn with replacement 63% are in the table: a perfect attacker has an area of 0.816.
    assert area.low > 0.7
    assert (area.direction, area.reference) == ("lower", 0.5)
    assert 0.5 < area.detectable < 0.7


def test_a_private_generator_shows_nothing(draw: Draw, make: Any) -> None:
    tables = draw(make["many duplicates"], (120, 100, 100, 120), seed=2)
    declared = build_schema({**tables.declared.model_dump(), "status": "declared", "n_units": 1_000})
    private = Independent(epsilon=1.0)
    tables = made_by(private, replace(tables, declared=declared))
    area = found(measure(tables, private, 4))
    # An area of chance has a standard error of 0.039; its noise has no seed, so that four of them are allowed.
    assert abs(area.value - 0.5) < 4 * 0.039


def test_every_target_is_in_half_of_the_shadow_tables_and_the_attackers_rows_in_all(draw, make, monkeypatch):
    tables = draw(make["all numeric"], (40, 30, 20, 40), seed=0)
    fitted: list[pd.DataFrame] = []
    fit = Memorizing.fit

    def watched(self: Memorizing, train: pd.DataFrame, *rest: Any, **more: Any) -> Any:
        fitted.append(train)
        return fit(self, train, *rest, **more)

    monkeypatch.setattr(Memorizing, "fit", watched)
    shadow_models.attack(tables, Targets.of(tables), Memorizing(), 6)
    keys = [set(map(tuple, train.fillna(-9.0).to_numpy())) for train in fitted]
    assert len(keys) == 6
    for side, times in ((tables.fresh, 6), (tables.train, 3), (tables.control, 3)):
        for row in map(tuple, side.fillna(-9.0).to_numpy()):
            assert sum(row in key for key in keys) == times


def test_likelihood_ratios_are_those_of_normal_densities() -> None:
    rng = np.random.default_rng(0)
    shadows, inside = rng.standard_normal((2, 80, 1)), np.tile(np.arange(80) % 2 == 0, (2, 1))
    observed = rng.standard_normal((2, 1))
    ratios = likelihood_ratios(shadows, inside, observed)
    for target in range(2):
        sides = [shadows[target, inside[target] == side, 0] for side in (True, False)]
        logs = [stats.norm.logpdf(observed[target, 0], side.mean(), side.std()) for side in sides]
        assert ratios[target] == pytest.approx(logs[0] - logs[1])

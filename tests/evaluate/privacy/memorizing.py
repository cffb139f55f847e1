"""A generator that repeats its rows: what attacks on refits have to find."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from synth.dp.statement import PrivacyStatement
from synth.generators.base import Generator
from synth.progress import Progress, quiet
from synth.schema import Schema


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

"""A generator that somebody else's package brings: each column drawn on its own from the real values, all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from synth.generators.base import Generator
from synth.generators.models.model import save_model
from synth.schema import Schema
from synth.table import conform


@dataclass(frozen=True)
class Shuffled:
    """The real rows, as codes of a list of values for each column."""

    schema: Schema
    values: Mapping[str, list[Any]]
    codes: Mapping[str, np.ndarray]
    name: str = "shuffle"
    statement: None = None

    @property
    def default_rows(self) -> int:
        return len(next(iter(self.codes.values())))

    def sample(self, n_rows: int | None = None, *, seed: int | None = None, **_: Any) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        n = self.default_rows if n_rows is None else n_rows
        columns = {
            name: pd.Series([self.values[name][code] for code in rng.choice(codes, n)], dtype=object).infer_objects()
            for name, codes in self.codes.items()
        }
        return pd.DataFrame(columns)

    def save(self, path: Any) -> None:
        content = {"generator": self.name, "values": {name: list(each) for name, each in self.values.items()}}
        save_model(path, content, dict(self.codes), self.schema, None)

    @classmethod
    def load(cls, content: Mapping[str, Any], arrays: Mapping[str, Any], schema: Schema, _statement: Any) -> Self:
        return cls(schema, content["values"], arrays)


class Shuffle(Generator):
    """Columns on their own."""

    name: ClassVar[str] = "shuffle"

    @classmethod
    def model_class(cls) -> type[Shuffled]:
        return Shuffled

    def fit(self, train: pd.DataFrame, schema: Schema, **_: Any) -> Any:
        canonical = conform(train, schema)
        coded = {name: pd.factorize(canonical[name]) for name in sorted(schema.learned)}
        return Shuffled(
            schema,
            {
                name: [each.item() if hasattr(each, "item") else each for each in values]
                for name, (_, values) in coded.items()
            },
            {name: codes.astype(np.int64) for name, (codes, _) in coded.items()},
        )


class Boastful(Shuffle):
    """It takes an epsilon, and keeps none."""

    name: ClassVar[str] = "boastful"
    private: ClassVar[bool] = True

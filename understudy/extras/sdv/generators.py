"""SDV's synthesizers behind our protocol. The only file that imports `sdv`, `ctgan` or `torch` for them.

They learn from real rows without any noise: **no formal guarantee**. A table goes in as numbers and as one token for
each category, so that no name of a category can confuse them. It comes back with the schema's kinds, precision and
bounds.
"""

import importlib.util
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from synth.distribution import missing_extra
from synth.domain.discretizer import Attribute, Discretizer
from synth.errors import JobError, ModelError, TableError
from synth.generators.base import Generator
from synth.generators.fitting.private_fit import as_it_is
from synth.generators.models.table_model import TableModel
from synth.progress import Progress, quiet
from synth.schema import Schema

TABLE = "table"
UNSAVED = "SDV's models are pickles, which run code when loaded; name it in a job, which samples from it at once"


@dataclass(frozen=True, repr=False)
class SdvModel(TableModel):
    """A fitted synthesizer of SDV."""

    name: str
    schema: Schema
    default_rows: int
    synthesizer: Any
    constants: dict[str, float]
    entity_shares: tuple[float, ...] | None
    statement: None = None

    @property
    def discretizer(self) -> Discretizer:  # type: ignore[override]
        return Discretizer.by_schema(self.schema.counted)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Refused: SDV rejects rows until enough hold a value, and knows no rare ones."""
        raise JobError(
            f"generator={self.name!r} samples without conditions only: given={sorted(map(str, known))}; fit `trees` "
            "or `aim` for rows that hold given values"
        )

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """The modeled columns of some rows, in canonical form."""
        sampled = pd.DataFrame(index=range(n_rows))
        if self.synthesizer is not None:
            state = int(rng.integers(2**31))
            with _seeded(state):
                self.synthesizer.reset_sampling()
                # SDV samples from one fixed seed; its only way to another is the method it calls itself.
                self.synthesizer._set_random_state(state)
                sampled = self.synthesizer.sample(n_rows)[TABLE]
        made = {a.name: self._column(a, sampled, rng) for a in self.discretizer.attributes}
        return pd.DataFrame(made, index=pd.RangeIndex(n_rows))

    def _column(self, attribute: Attribute, sampled: pd.DataFrame, rng: np.random.Generator) -> pd.Series:
        name, column = attribute.name, attribute.column
        if name in self.constants:
            values = np.full(len(sampled), self.constants[name])
        else:
            token = _token(self.schema.counted, name)
            values = pd.to_numeric(sampled[token]).to_numpy(dtype=np.float64, na_value=np.nan)
        if attribute.edges is None:
            return attribute.values(values.astype(np.int64), rng)
        filled = np.where(np.isnan(values), np.mean(column.ends), values)
        counts = filled if column.unit is None else np.round(filled / column.unit).astype(np.int64)
        series: pd.Series = column.values(counts, np.isnan(values) & column.missing)
        return series

    def save(self, path: Path | str) -> None:
        """Refused: SDV saves a pickle, and a pickle runs code when it is loaded."""
        raise ModelError(f"generator={self.name!r} cannot be saved: {UNSAVED}")


class _Sdv(Generator):
    unsaved: ClassVar[str | None] = UNSAVED
    theirs: ClassVar[str]  # the name of SDV's class, which takes the fields here as options

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if any(importlib.util.find_spec(module) is None for module in ("sdv", "torch")):
            raise missing_extra("a generator of SDV's", "sdv")

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> SdvModel:
        """A model of the table, without a formal guarantee. `train`: *Sensitive*."""
        self.check(schema)
        table, schema = as_it_is(train, schema)
        rows = table.rows.frame()
        if len(rows) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        progress(f"fitting {self.name}", None)
        encoded, constants = _encode(rows, schema)
        synthesizer = self._fitted(encoded, seed) if len(encoded.columns) else None
        shares = None
        if schema.entity is not None:
            sizes = np.bincount(rows.groupby(schema.entity, sort=False).size().to_numpy())[1:]
            shares = tuple((sizes / sizes.sum()).tolist())
        return SdvModel(self.name, schema, len(rows), synthesizer, constants, shares)

    def _fitted(self, encoded: pd.DataFrame, seed: int) -> Any:
        from sdv import single_table
        from sdv.metadata import Metadata

        kinds = {name: "numerical" if column.dtype == np.float64 else "categorical" for name, column in encoded.items()}
        tables = {TABLE: {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}}
        own = type(self).model_fields.keys() - Generator.model_fields.keys()
        options = {"enable_gpu" if name == "gpu" else name: getattr(self, name) for name in own}
        with _seeded(seed):
            metadata = Metadata.load_from_dict({"tables": tables, "relationships": [], "METADATA_SPEC_VERSION": "V2"})
            synthesizer = getattr(single_table, self.theirs)(metadata, **options)
            synthesizer.fit({TABLE: encoded})
        return synthesizer


class GaussianCopula(_Sdv):
    """SDV's Gaussian copula: marginal distributions and their correlations."""

    name: ClassVar[str] = "sdv.gaussian_copula"
    theirs: ClassVar[str] = "GaussianCopulaSynthesizer"
    default_distribution: str = Field(default="beta", description="One of SDV's marginal distributions.")


class _Neural(_Sdv):
    epochs: int = Field(default=300, ge=1)
    batch_size: int = Field(default=500, ge=10, multiple_of=10)
    gpu: bool = Field(default=True, description="Use a GPU where there is one.")


class SdvCtgan(_Neural):
    """SDV's CTGAN: a conditional generative adversarial network."""

    name: ClassVar[str] = "sdv.ctgan"
    theirs: ClassVar[str] = "CTGANSynthesizer"
    pac: int = Field(default=10, ge=1)


class SdvTvae(_Neural):
    """SDV's TVAE: a variational autoencoder."""

    name: ClassVar[str] = "sdv.tvae"
    theirs: ClassVar[str] = "TVAESynthesizer"


def _token(schema: Schema, name: str) -> str:
    """A plain name for a column, which no character of the real one can confuse."""
    return f"c{schema.learned.index(name)}"


def _encode(rows: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, dict[str, float]]:
    """Numbers for numbers and times, texts for cells; columns that never vary apart."""
    encoded: dict[str, Any] = {}
    constants: dict[str, float] = {}
    for attribute in Discretizer.by_schema(schema).attributes:
        series, numeric = rows[attribute.name], attribute.edges is not None
        # A missing category is a cell of its own: TVAE loses missing values of text columns otherwise.
        values = attribute.column.positions(series) if numeric else attribute.cells(series)
        distinct = np.unique(values)  # NaN is one of them
        if len(distinct) == 1:
            constants[attribute.name] = float(distinct[0])
        else:
            encoded[_token(schema, attribute.name)] = values if numeric else pd.Series(values).map(str)
    return pd.DataFrame(encoded, index=pd.RangeIndex(len(rows))), constants


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """SDV draws from global state: seed it within, and put back what was there."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        # SDV warns of what the adapter decides (constant columns, saving metadata); none of it is a failure.
        with warnings.catch_warnings(record=True):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])

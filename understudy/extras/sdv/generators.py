"""SDV's synthesizers behind our protocol: without noise, so that there is **no formal guarantee**.

A table goes in as numbers and as one token for each category, so that no name of a category can confuse them. It comes
back with the schema's kinds, precision and bounds.
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

from synth.domain.discretizer import Discretizer
from synth.errors import JobError, ModelError, TableError
from synth.extras import missing_extra
from synth.generators.base import Generator
from synth.generators.fitting.private_fit import as_it_is
from synth.generators.models.model import TableModel
from synth.progress import Progress, quiet
from synth.schema import Schema

TABLE = "table"
UNSAVED = "SDV's models are pickles, which run code when loaded; name it in a job, which samples from it at once"


@dataclass(frozen=True, repr=False)
class SdvModel(TableModel):
    """A fitted synthesizer of SDV, which is `None` where every column is constant."""

    name: str
    schema: Schema
    default_rows: int
    synthesizer: Any
    constants: dict[str, float]
    entity_shares: tuple[float, ...] | None
    discretizer: Discretizer
    statement: None = None

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        # SDV rejects rows until enough hold a value, and knows no rare ones.
        raise JobError(f"generator={self.name!r} samples without conditions only: given={list(known)}; fit `trees`")

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        sampled = pd.DataFrame(index=range(n_rows))
        if self.synthesizer is not None:
            state = int(rng.integers(2**31))
            with _seeded(state):
                self.synthesizer.reset_sampling()
                # SDV samples from one fixed seed; its only way to another is the method it calls itself.
                self.synthesizer._set_random_state(state)
                sampled = self.synthesizer.sample(n_rows)[TABLE]
        drawn: dict[str, Any] = {}
        for token, attribute in _by_token(self.discretizer):
            if token in sampled:
                values = pd.to_numeric(sampled[token]).to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values = np.full(n_rows, self.constants[token])
            is_listed = attribute.edges is None
            drawn[attribute.name] = attribute.values(values.astype(int), rng) if is_listed else attribute.placed(values)
        return pd.DataFrame(drawn, index=pd.RangeIndex(n_rows))

    def save(self, path: Path | str) -> None:
        raise ModelError(f"generator={self.name!r} cannot be saved: {UNSAVED}")


class _Sdv(Generator):
    unsaved: ClassVar[str | None] = UNSAVED
    theirs: ClassVar[str]  # the name of SDV's class, which takes the fields here as options

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if any(importlib.util.find_spec(module) is None for module in ("sdv", "torch")):
            raise missing_extra("a generator of SDV's", "sdv")

    def fit_rows(self, train: Any, schema: Schema, *, seed: int = 0, progress: Progress = quiet) -> SdvModel:
        self.check(schema)
        from sdv import single_table
        from sdv.metadata import Metadata

        table, schema = as_it_is(train, schema)
        rows = table.rows.frame()
        if len(rows) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        progress(f"fitting {self.name}", None)
        encoded: dict[str, Any] = {}
        constants: dict[str, float] = {}
        discretizer = Discretizer.by_schema(schema)
        for token, attribute in _by_token(discretizer):
            series, numeric = rows[attribute.name], attribute.edges is not None
            # A missing category is a cell of its own: TVAE loses missing values of text columns otherwise.
            values = attribute.column.positions(series) if numeric else attribute.cells(series)
            if len(distinct := np.unique(values)) == 1:  # NaN is one of them
                constants[token] = float(distinct[0])
            else:
                encoded[token] = values if numeric else pd.Series(values).map(str)
        synthesizer = None
        if encoded:
            kinds = {k: {"sdtype": "numerical" if x.dtype == np.float64 else "categorical"} for k, x in encoded.items()}
            own = type(self).model_fields.keys() - Generator.model_fields.keys()
            options = {"enable_gpu" if name == "gpu" else name: getattr(self, name) for name in own}
            with _seeded(seed):
                tables = {"tables": {TABLE: {"columns": kinds}}, "relationships": [], "METADATA_SPEC_VERSION": "V2"}
                metadata = Metadata.load_from_dict(tables)
                synthesizer = getattr(single_table, self.theirs)(metadata, **options)
                synthesizer.fit({TABLE: pd.DataFrame(encoded, index=pd.RangeIndex(len(rows)))})
        sizes = None if schema.entity is None else table.rows_per_entity()
        shares = None if sizes is None else tuple((sizes / sizes.sum()).tolist())
        return SdvModel(self.name, schema, len(rows), synthesizer, constants, shares, discretizer)


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


def _by_token(discretizer: Discretizer) -> Iterator[tuple[str, Any]]:
    """The attributes, each with a plain name, which no character of the real one can confuse."""
    return ((f"c{position}", attribute) for position, attribute in enumerate(discretizer.attributes))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """SDV draws from global state: seed it within, and put back what was there."""
    import torch

    before = random.getstate(), np.random.get_state()
    # SDV warns of what the adapter decides (constant columns, saving metadata); none of it is a failure.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(record=True):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])

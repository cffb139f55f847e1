"""Our generators in the shape of SDV's synthesizers: what a notebook for SDV calls works with one import changed.

SDV need not be installed. Metadata says of which kinds columns are; all else is read off the table at the fit, so that
there is **no formal guarantee**. Nothing of these classes is pickled: `save` writes a folder.
"""

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd

from evaluate.text import listed
from synth.errors import JobError, ModelError, SchemaError, TableError
from synth.generators.fit import fit
from synth.generators.models.model import Model
from synth.generators.registry import generator, load_model
from synth.infer import infer_schema
from synth.schema import Schema
from understudy.extras.sdv.metadata import from_sdv, read_metadata, table_of

SHAPE = "sdv.json"  # beside a saved model: what it was made with
RENAMED = {
    "embedding_dim": "d_latent", "generator_dim": "generator_widths", "discriminator_dim": "critic_widths",
    "compress_dims": "encoder_widths", "decompress_dims": "decoder_widths",
}  # fmt: skip
KEPT_ANYWAY = ("enforce_min_max_values", "enforce_rounding")
WITHOUT_EFFECT = (  # parameters of SDV's that have no counterpart here
    "locales", "numerical_distributions", "default_distribution", "generator_lr", "generator_decay",
    "discriminator_lr", "discriminator_decay", "discriminator_steps", "log_frequency", "l2scale", "loss_factor",
)  # fmt: skip


class SingleTableSynthesizer:
    """A generator of ours behind the methods of SDV's synthesizers.

    Tables go in and come out by name where SDV 2 has it so, `{"patients": frame}`, and as frames where SDV 1 has.

    Args:
        metadata: SDV's `Metadata`, its content as a dict, or the path of its JSON file.
        generator: a name, as of `us.fit`.
        seed: of the fit.
        parameters: of the generator, or SDV's for the same thing; of SDV's others a warning tells.

    >>> metadata = {"columns": {"age": {"sdtype": "numerical"}, "ill": {"sdtype": "boolean"}}}
    >>> frame = pd.DataFrame({"age": range(20, 80), "ill": [True, False] * 30})
    >>> synthesizer = SingleTableSynthesizer(metadata)
    >>> synthesizer.fit(frame)
    >>> synthesizer.sample(num_rows=5).shape
    (5, 2)
    """

    usual: ClassVar[str] = "auto"

    def __init__(self, metadata: Any, generator: str | None = None, *, seed: int = 0, **parameters: Any) -> None:
        content = read_metadata(metadata) if isinstance(metadata, str | Path) else metadata
        self._metadata = content.to_dict() if hasattr(content, "to_dict") else content
        self._kinds = {name: column.kind for name, column in from_sdv(self._metadata)[0].columns.items()}
        self._given, self._seed = dict(parameters), seed
        self._generator = generator or self.usual
        self._parameters = _translated(self._generator, parameters)
        self._model: Model | None = None
        self._table: str | None = None
        self._n_samples = 0

    def get_parameters(self) -> dict[str, Any]:
        return dict(self._given)

    def get_metadata(self) -> Any:
        return self._metadata

    def fit(self, data: Any) -> None:
        """Fit the generator. `data`: *Sensitive*. A frame, or a dict that names the only one."""
        self._table, frame = None, data
        if isinstance(data, Mapping):
            if len(data) != 1:
                raise TableError(f"a single table has one name, and data has {len(data)}; pass one table")
            ((self._table, frame),) = data.items()
        self._model = fit(frame, self._schema(frame), self._generator, seed=self._seed, **self._parameters)
        self.reset_sampling()

    def sample(self, num_rows: int, **batches: Any) -> Any:
        """Synthetic rows, others at each call. `batches`: SDV's options; those of its batches change nothing here."""
        return self._named(self._fitted.sample(num_rows, seed=self._next_seed()), **batches)

    def sample_from_conditions(self, conditions: Iterable[Any], **batches: Any) -> Any:
        """Rows for each of SDV's `Condition` or `DataFrameCondition`, one below the other."""
        tables = []
        for each in conditions:
            known = each.get_dataframe() if hasattr(each, "get_dataframe") else each.get_column_values()
            n_rows = None if hasattr(each, "get_dataframe") else each.get_num_rows()
            tables.append(self._fitted.sample(n_rows, given=known, seed=self._next_seed()))
        if not tables:
            raise JobError("conditions=[] ask for no rows; pass one at least")
        rows, schema = pd.concat(tables, ignore_index=True), self._fitted.schema
        ids = [name for name in schema.kept if schema.columns[name].is_identifier and name != schema.entity]
        if len(tables) > 1 and ids:  # those of each table begin anew
            fresh = self._fitted.sample(len(rows), seed=self._next_seed())
            rows = rows.assign(**{name: fresh[name] for name in ids})
        return self._named(rows, **batches)

    def sample_remaining_columns(self, known_columns: Any, **batches: Any) -> Any:
        """A row for each of the known ones, with the columns that these lack."""
        return self._named(self._fitted.sample(given=known_columns, seed=self._next_seed()), **batches)

    def reset_sampling(self) -> None:
        """Begin again with the rows of the first call of `sample`."""
        self._n_samples = 0

    def save(self, filepath: Path | str) -> None:
        """Write a new folder of safetensors and JSON, which runs nothing when it is loaded."""
        self._fitted.save(filepath)
        shape = {
            "metadata": self._metadata, "generator": self._generator, "seed": self._seed, "table": self._table,
            "parameters": self._given,
        }  # fmt: skip
        (Path(filepath) / SHAPE).write_text(json.dumps(shape, default=str), encoding="utf-8")

    @classmethod
    def load(cls, filepath: Path | str) -> Self:
        """A synthesizer that `save` wrote."""
        model = load_model(filepath)
        try:
            shape = json.loads((Path(filepath) / SHAPE).read_text(encoding="utf-8"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what was told when it was made
                loaded = cls(shape["metadata"], shape["generator"], seed=shape["seed"], **shape["parameters"])
            loaded._table = shape["table"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"the model in {str(filepath)!r} was saved by another class ({type(error).__name__}); use `us.load`"
            ) from None
        loaded._model = model
        return loaded

    @property
    def _fitted(self) -> Model:
        if self._model is None:
            raise ModelError("the synthesizer was not fitted; call fit(data) first")
        return self._model

    def _next_seed(self) -> int:
        self._n_samples += 1
        return self._n_samples

    def _named(
        self, rows: Any, *, max_tries_per_batch: Any = None, batch_size: Any = None, output_file_path: Any = None
    ) -> Any:  # fmt: skip
        if output_file_path is not None:
            rows.to_csv(output_file_path, index=False)
        return rows if self._table is None else {self._table: rows}

    def _schema(self, frame: Any) -> Schema:
        told = table_of(self._metadata)
        units: dict[str, Any] = {"entity": told.keys[0], "order": told.sequence_index}
        units |= {"propose_entity": False, "propose_order": False}
        proposed = infer_schema(frame, **units)
        lacking = [name for name in self._kinds if name not in proposed.columns]
        if lacking:
            raise SchemaError(f"the table lacks columns of the metadata: {listed(lacking)}; detect the metadata anew")
        kinds = {}
        for name, column in proposed.columns.items():
            kind = self._kinds.get(name)
            if kind == "categorical" and column.is_number:
                kinds[name] = kind
            elif kind in ("integer", "real") and column.is_categorical and column.holds_whole_numbers:
                kinds[name] = "integer"
        return infer_schema(frame, kinds=kinds, **units) if kinds else proposed


class GaussianCopulaSynthesizer(SingleTableSynthesizer):
    """In place of SDV's: fitted is `auto`, which is `trees`, unless another generator is named."""


class CTGANSynthesizer(SingleTableSynthesizer):
    """In place of SDV's: our CTGAN."""

    usual = "ctgan"


class TVAESynthesizer(SingleTableSynthesizer):
    """In place of SDV's: our TVAE."""

    usual = "tvae"


load_synthesizer = SingleTableSynthesizer.load


def _translated(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    for key in KEPT_ANYWAY:
        if parameters.get(key, True) is not True:
            raise JobError(f"{key}={parameters[key]!r}: bounds and decimals are always kept here; leave it out")
    unused = [key for key in parameters if key in WITHOUT_EFFECT and parameters[key] not in (None, False)]
    if unused:
        warnings.warn(f"SDV's {listed(unused)} have no counterpart here and change nothing", stacklevel=3)
    ours = {
        RENAMED.get(key, key): value
        for key, value in parameters.items()
        if key not in (*WITHOUT_EFFECT, *KEPT_ANYWAY, "verbose", "enable_gpu", "cuda")
    }
    if "epsilon" in ours:
        raise JobError("SDV's metadata declares nothing public, which epsilon needs; use `us.fit(real, epsilon=...)`")
    if parameters.get("enable_gpu", parameters.get("cuda", True)) is False and name in ("ctgan", "tvae"):
        ours["device"] = "cpu"
    generator(name, **ours)  # refused now, not after the table was read
    return ours

"""What every fitted model promises, and how it shows itself."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.domain import plain_arrays
from synth.dp.statement import PrivacyStatement, guarantee_words
from synth.errors import ModelError, SchemaError
from synth.notebook import html_table
from synth.output import whole_folder
from synth.parsing import NotPlain, plain_json
from synth.progress import Progress, quiet
from synth.schema import Schema, build_schema


class Model(Protocol):
    """A fitted generator. It holds no real row."""

    @property
    def name(self) -> str:
        """Name of the generator in the registry."""

    @property
    def schema(self) -> Schema:
        """The schema it was fitted under."""

    @property
    def statement(self) -> PrivacyStatement | None:
        """Its guarantee; `None`: **no formal guarantee**."""

    @property
    def default_rows(self) -> int:
        """The rows that `sample` gives unless told: public for a private fit."""

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Any = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table with the real table's columns, order, dtypes, precision and bounds.

        Args:
            n_rows: number of rows; `None`: `default_rows`.
            seed: the same seed gives the same table; `None` draws a fresh one.
            given: the value that every row holds in some columns (`None`: missing), or a table of such columns: then
                the sample has one row for each of its rows, in their order.
            balance: for one column the share of rows with each value; `None`: the same for each of its categories.
            progress: told what is being done.
            part: of the table that the rows are for, where it is written piece by piece; `None`: they are all of it.

        Raises:
            JobError: the model cannot give such rows, or so few; nothing was drawn.
        """

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder of safetensors and JSON, whole or not at all."""


class ModelDisplay:
    """The display of a fitted model in a notebook; a mixin for models."""

    def __repr__(self: Model) -> str:
        n_columns, rows = len(self.schema.kept), f"{self.default_rows:,} rows"
        return f"<Model {self.name!r} of {n_columns} columns and {rows}: {guarantee_words(self.statement)}>"

    def _repr_html_(self: Model) -> str:
        rows = [("columns", f"{len(self.schema.kept):,}"), ("rows that a sample has", f"{self.default_rows:,}")]
        rows.append(("guarantee", guarantee_words(self.statement)))
        return html_table(f"Model {self.name!r}", ("", ""), rows)


from synth.table.frames import Back


class FramedModel(ModelDisplay):
    """Any model; only `sample` differs."""

    def __init__(self, model: Model, back: Back) -> None:
        self._model, self._back = model, back

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_":  # not yet there, while it is unpickled
            raise AttributeError(name)
        return getattr(self._model, name)

    def sample(self, n_rows: int | None = None, **options: Any) -> Any:
        """A synthetic table, as of the model."""
        return self._back(self._model.sample(n_rows, **options))


FORMAT = 1
DESCRIPTION, ARRAYS = "model.json", "arrays.safetensors"
MOST_BYTES = {DESCRIPTION: 2**28, ARRAYS: 2**32 + 2**26}
"""Of the two files: a larger one is refused before it is read. Tables of a distribution may have 4,096 MB."""
MOST_ROWS = 10**10  # rows that a model gives unless told, at most


def save_model(
    path: Path | str, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema,
    statement: PrivacyStatement | None,
) -> None:  # fmt: skip
    """Write a model as a new folder, whole or not at all."""
    from safetensors.numpy import save

    if statement is not None and not statement.private:
        raise ModelError("a model whose noise was injected promises nothing and is not saved; fit it without `noise`")
    described = {
        "format": FORMAT,
        **content,
        "schema": schema.model_dump(mode="json"),
        "statement": None if statement is None else statement.to_dict(),
    }
    files = {
        DESCRIPTION: json.dumps(described, indent=1, allow_nan=False).encode("utf-8"),
        ARRAYS: save({name: np.ascontiguousarray(array) for name, array in arrays.items()}),
    }
    for name, whole in files.items():
        if len(whole) > MOST_BYTES[name]:
            raise ModelError(f"the model is too large to be saved: {name} has {len(whole)} bytes; fit a smaller one")
    with whole_folder(Path(path)) as folder:
        for name, whole in files.items():
            (folder / name).write_bytes(whole)


def load_content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Schema, PrivacyStatement | None]:
    """The content, arrays, schema and statement that `save_model` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not (path / DESCRIPTION).is_file() or not (path / ARRAYS).is_file():
        raise ModelError(
            f"a model is a folder with {DESCRIPTION} and {ARRAYS}: {str(path)!r} is none; name a saved model"
        )
    for name, most in MOST_BYTES.items():
        if (path / name).stat().st_size > most:
            raise ModelError(f"the model in {str(path)!r} is damaged ({name} is too large); fit it again")
    try:
        content = plain_json((path / DESCRIPTION).read_bytes())
        if content["format"] != FORMAT:
            raise ModelError(
                f"this version loads models of format={FORMAT}, not {str(content['format'])[:20]!r}; upgrade understudy"
            )
        schema = build_schema(content.pop("schema"))
        if schema.measured or schema.spikes_measured:
            raise ValueError("a model knows the domain of each column")
        stated = content.pop("statement")
        statement = None if stated is None else PrivacyStatement.from_dict(stated)
        return content, load_file(path / ARRAYS), schema, statement
    except NotPlain as fault:
        raise ModelError(f"the model in {str(path)!r} is damaged ({fault}); fit it again") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, SafetensorError, OSError) as error:
        if isinstance(error, ModelError | SchemaError):
            raise
        raise ModelError(f"the model in {str(path)!r} is damaged ({type(error).__name__}); fit it again") from None


WRAPPER, BASE = "wrapper", "base"  # keys of a model around another: its wrapper's name, and the content of the other


def save_around(
    path: Path | str, wrapper: str, base: Any, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
    schema: Schema, statement: PrivacyStatement | None,
) -> None:  # fmt: skip
    """Write a model around another one, whose arrays stand beside its own."""
    with tempfile.TemporaryDirectory() as folder:
        base.save(Path(folder) / BASE)
        inner, of_base, base_schema, _ = load_content(Path(folder) / BASE)
    inner = {**inner, "schema": base_schema.model_dump(mode="json")}
    arrays = {**arrays, **{f"{BASE}.{name}": array for name, array in of_base.items()}}
    save_model(path, {WRAPPER: wrapper, wrapper: content, BASE: inner}, arrays, schema, statement)


def default_rows_of(content: Mapping[str, Any]) -> int:
    """The rows that a model gives unless told."""
    return plain_arrays.count(content, "default_rows", MOST_ROWS)


def entity_shares_of(content: Mapping[str, Any], schema: Schema) -> tuple[float, ...] | None:
    """The share of entities with 1, 2, ..., k rows; `None` where the unit is a row."""
    if content["entity_shares"] is None:
        return None
    shares = plain_arrays.reals(content, "entity_shares")
    fits = len(shares) > 0 and shares.min() >= 0 and 0 < shares.sum() < np.inf
    if schema.entity is None or not fits:
        raise ValueError("shares of entities are not below zero, and there are entities")
    return tuple(shares.tolist())

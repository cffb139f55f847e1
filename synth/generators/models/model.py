"""Fitted models: what each promises, what those of one distribution over rows share, and how they are saved.

A saved model is a folder of `model.json` and `arrays.safetensors`; loading one never runs code.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer, plain_arrays
from synth.dp.statement import PrivacyStatement, guarantee_words
from synth.errors import JobError, ModelError
from synth.generators.models.constraints import draw_lawful, with_dependents
from synth.generators.models.given import GIVEN, WAYS, Balance, KnownRows, fill_in, read_given
from synth.generators.models.postprocess import finish, rows_wanted
from synth.identifiers import Part
from synth.output import whole_folder
from synth.progress import Progress, html_table, quiet
from synth.schema import Schema, build_schema
from synth.table.table import Back
from synth.validation import plain_json

Content = Mapping[str, Any]  # of a saved model
Arrays = Mapping[str, NDArray[Any]]


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
        balance: Balance | None = None,
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

    @property
    def promise(self: Any) -> str:
        return guarantee_words(self.statement)

    def __repr__(self: Any) -> str:
        n_columns, rows = len(self.schema.kept), f"{self.default_rows:,} rows"
        return f"<Model {self.name!r} of {n_columns} columns and {rows}: {self.promise}>"

    def _repr_html_(self: Any) -> str:
        rows = [("columns", f"{len(self.schema.kept):,}"), ("rows that a sample has", f"{self.default_rows:,}")]
        rows.append(("guarantee", self.promise))
        return html_table(f"Model {self.name!r}", ("", ""), rows)


class FramedModel(ModelDisplay):
    """A model whose samples are frames of the kind that it was fitted on."""

    def __init__(self, model: Model, back: Back) -> None:
        self._model, self._back = model, back

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_":  # not yet there, while it is unpickled
            raise AttributeError(name)
        return getattr(self._model, name)

    def sample(self, n_rows: int | None = None, **options: Any) -> Any:
        return self._back(self._model.sample(n_rows, **options))


FORMAT = 1
DESCRIPTION, ARRAYS = "model.json", "arrays.safetensors"
MOST_BYTES = {DESCRIPTION: 2**28, ARRAYS: 2**32 + 2**26}
"""Of the two files: a larger one is refused before it is read. Tables of a distribution may have 4,096 MB."""
MOST_ROWS = 10**10  # rows that a model gives unless told, at most


def save_model(
    path: Path | str, content: Content, arrays: Arrays, schema: Schema, statement: PrivacyStatement | None
) -> None:
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
    """The content, arrays, schema and statement that `save_model` wrote; errors of any kind where it is damaged."""
    from safetensors.numpy import load_file

    if not (path / DESCRIPTION).is_file() or not (path / ARRAYS).is_file():
        raise ModelError(
            f"a model is a folder with {DESCRIPTION} and {ARRAYS}: {str(path)!r} is none; name a saved model"
        )
    for name, most in MOST_BYTES.items():
        if (path / name).stat().st_size > most:
            raise ModelError(f"the model in {str(path)!r} is damaged ({name} is too large); fit it again")
    content = plain_json((path / DESCRIPTION).read_bytes())
    if content["format"] != FORMAT:
        raise ModelError(
            f"this version loads models of format={FORMAT}, not {str(content['format'])[:20]!r}; upgrade understudy"
        )
    schema, stated = build_schema(content.pop("schema")), content.pop("statement")
    if schema.measured or schema.spikes_measured:
        raise ValueError("a model knows the domain of each column")
    statement = None if stated is None else PrivacyStatement.from_dict(stated)
    return content, load_file(path / ARRAYS), schema, statement


WRAPPER, BASE = "wrapper", "base"  # keys of a model around another: its wrapper's name, and the content of the other


def save_around(
    path: Path | str, wrapper: str, base: Any, content: Content, arrays: Arrays, schema: Schema, statement: Any
) -> None:
    """Write a model around another one, whose arrays stand beside its own."""
    with tempfile.TemporaryDirectory() as folder:
        base.save(Path(folder) / BASE)
        inner, of_base, base_schema, _ = load_content(Path(folder) / BASE)
    inner = {**inner, "schema": base_schema.model_dump(mode="json")}
    arrays = {**arrays, **{f"{BASE}.{name}": array for name, array in of_base.items()}}
    save_model(path, {WRAPPER: wrapper, wrapper: content, BASE: inner}, arrays, schema, statement)


def default_rows_of(content: Content) -> int:
    return plain_arrays.count(content, "default_rows", MOST_ROWS)


def entity_shares_of(content: Content, schema: Schema) -> tuple[float, ...] | None:
    """The share of entities with 1, 2, ..., k rows; `None` where the unit is a row."""
    if content["entity_shares"] is None:
        return None
    shares = plain_arrays.reals(content, "entity_shares")
    fits = len(shares) > 0 and shares.min() >= 0 and 0 < shares.sum() < np.inf
    if schema.entity is None or not fits:
        raise ValueError("shares of entities are not below zero, and there are entities")
    return tuple(shares.tolist())


class TableModel(ModelDisplay):
    """A base of models whose rows are drawn independently of each other: it asks for `drawn`, `drawn_given` and `way`.
    `entity_shares`: share of entities with 1, 2, ..., k rows, shape (k,); `None` where the unit is a row.
    """

    name: str
    schema: Schema
    discretizer: Discretizer
    statement: PrivacyStatement | None
    default_rows: int
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any] | None

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Any = None,
        balance: Balance | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table, as `Model` has it; free of charge, as often as wanted."""
        rng = np.random.default_rng(seed)
        progress("sampling", None)
        if is_table := given is not None and not isinstance(given, Mapping):
            given = read_given(given, self.schema)
            if n_rows not in (None, len(given)):
                raise JobError(
                    f"rows={n_rows}, and given has {len(given):,} rows, each of which has one; leave rows out"
                )
            if len(given) == 0:
                return self.sample(1, seed=seed).iloc[:0]
            n_rows = len(given)
        learned = self.learned_rows(rows_wanted(n_rows, self.default_rows), rng, given, balance, part)
        names = tuple(map(str, given)) if is_table else None
        return finish(learned, self.schema, self.entity_shares, rng, part, names)

    def learned_rows(
        self, n_rows: int, rng: np.random.Generator, given: Any = None, balance: Balance | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Canonical rows of the learned columns that keep the constraints; conditions and errors as of `sample`."""
        if not (balance or (given is not None and len(given))):
            return draw_lawful(lambda n: with_dependents(self.drawn(n, rng), self.schema), n_rows, self.schema, part)
        known = KnownRows.given(given, balance, n_rows, self, rng)
        learned = known.drawn(self, rng, part)
        learned.attrs[GIVEN] = self.way(known.counted) if len(known.counted.columns) else WAYS[0]
        return learned

    def impute(self, frame: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """The rows of a table with missing cells drawn given the cells that are there.

        Free of any budget, as often as wanted. A filled cell is made from the model and the other cells of its row, and
        can repeat what these determine: it is as sensitive as the row, and no guarantee of the model covers it.
        `frame`: *Sensitive*. Rows with all columns of the schema; any may have missing cells. Not changed.
        """
        return fill_in(frame, self, seed)

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted."""
        raise NotImplementedError

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted, drawn given the columns that are known of each, which stay as they are."""
        raise NotImplementedError

    def way(self, known: pd.DataFrame) -> str:
        """How rows are drawn given such columns: one of `WAYS`."""
        raise NotImplementedError

    def save(self, path: Path | str) -> None:
        content, arrays = self.taken_apart()
        save_model(path, content, arrays, self.schema, self.statement)

    def taken_apart(self) -> tuple[Content, Arrays]:
        """Plain data and arrays, for `load`."""
        description, arrays = self._described()
        facts = {"generator": self.name, "default_rows": self.default_rows, "entity_shares": self.entity_shares}
        parameters = None if self.parameters is None else dict(self.parameters)
        return {**facts, "parameters": parameters, **description}, arrays

    def _described(self) -> tuple[Content, Arrays]:
        """Its own part of plain data and arrays."""
        raise NotImplementedError


def facts_of(content: Content, schema: Schema) -> dict[str, Any]:
    """The facts that `TableModel.taken_apart` told beside a model's own part."""
    if not isinstance(content["parameters"], dict | None):
        raise TypeError("parameters are a mapping")
    return {
        "name": content["generator"],
        "schema": schema,
        "default_rows": default_rows_of(content),
        "entity_shares": entity_shares_of(content, schema),
        "parameters": content["parameters"],
    }

"""Models on disk: a folder of `model.json` and `arrays.safetensors`. Loading one never runs code."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from synth.domain import plain_arrays
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError, SchemaError
from synth.output import whole_folder
from synth.schema import Schema, build_schema
from synth.validation import NotPlain, plain_json

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

"""Models on disk: a folder of `model.json` and `arrays.safetensors`. Loading one never runs code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError, SchemaError
from synth.output import whole_folder
from synth.schema import Schema, build_schema

FORMAT = 1
DESCRIPTION, ARRAYS = "model.json", "arrays.safetensors"


def save_model(
    path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema,
    statement: PrivacyStatement | None,
) -> None:  # fmt: skip
    """Write a model as a new folder, whole or not at all.

    Args:
        path: the folder; must not exist.
        content: the generator's name under "generator", and plain data of its own.
        arrays: float or integer arrays of its own.
        schema: what it was fitted under.
        statement: what it promises.

    Raises:
        ModelError: its noise was injected, so that its statement is void; nothing was written.
    """
    from safetensors.numpy import save

    if statement is not None and not statement.private:
        raise ModelError("a model whose noise was injected promises nothing and is not saved; fit it without `noise`")
    described = {
        "format": FORMAT,
        **content,
        "schema": schema.model_dump(mode="json"),
        "statement": None if statement is None else statement.to_dict(),
    }
    with whole_folder(path) as folder:
        (folder / DESCRIPTION).write_text(json.dumps(described, indent=1, allow_nan=False), encoding="utf-8")
        (folder / ARRAYS).write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Schema, PrivacyStatement | None]:
    """What `save_model` wrote: content, arrays, schema, statement.

    Raises:
        ModelError: the folder holds no model, a damaged one, or a newer version's; nothing was loaded.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not (path / DESCRIPTION).is_file() or not (path / ARRAYS).is_file():
        raise ModelError(
            f"a model is a folder with {DESCRIPTION} and {ARRAYS}: {str(path)!r} is none; name a saved model"
        )
    try:
        content = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ModelError(
                f"this version loads models of format={FORMAT}, not {content['format']!r}; upgrade understudy"
            )
        schema = build_schema(content.pop("schema"))
        stated = content.pop("statement")
        statement = None if stated is None else PrivacyStatement.from_dict(stated)
        return content, load_file(path / ARRAYS), schema, statement
    except (ValueError, KeyError, TypeError, SafetensorError, OSError) as error:
        if isinstance(error, ModelError | SchemaError):
            raise
        raise ModelError(f"the model in {str(path)!r} is damaged ({type(error).__name__}); fit it again") from None

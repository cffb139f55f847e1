"""Synthetic tables, and the evidence for releasing one.

>>> import numpy as np, pandas as pd, understudy as us
>>> rng = np.random.default_rng(0)
>>> age = rng.integers(18, 90, 600)
>>> real = pd.DataFrame({"age": age, "ill": rng.random(600) < age / 120})
>>> train, holdout = us.split(real, seed=0)
>>> synthetic = us.fit(train).sample(seed=0)
>>> us.evaluate(train, synthetic, holdout=holdout, measures="validity")
<Evaluation of 'synthetic' beside 396 training rows>

Beneath are `synth` (schemas, generators), `evaluate` (numbers, policies) and `reports`, whose names serve alike. An
extra is reached by its name, such as `us.sdv`.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluate.engine import evaluate
    from evaluate.gate.verdict import judge
    from synth.declare import declare_schema
    from synth.generators.fit import fit
    from synth.generators.registry import generator
    from synth.generators.registry import load_model as load
    from synth.infer import infer_schema
    from synth.schema_file import read_schema
    from understudy.python_api import Comparison, compare, split
    from understudy.synthesizer import Synthesizer

__all__ = [
    "Comparison", "Synthesizer", "compare", "declare_schema", "evaluate", "fit", "generator", "infer_schema", "judge",
    "load", "read_schema", "split",
]  # fmt: skip
_HOMES = {
    "Comparison": "understudy.python_api", "Synthesizer": "understudy.synthesizer",
    "compare": "understudy.python_api", "declare_schema": "synth", "evaluate": "evaluate", "fit": "synth",
    "generator": "synth", "infer_schema": "synth", "judge": "evaluate", "load": "synth", "read_schema": "synth",
    "split": "understudy.python_api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names and the extras, imported when first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), "load_model" if name == "load" else name)
    from synth import extras as registry  # `extras` here is the folder

    if name in registry.entries("public name"):
        return registry.load("public name")[name]
    if name.isidentifier() and not name.startswith("_") and find_spec(f"understudy.extras.{name}"):
        return importlib.import_module(f"understudy.extras.{name}")
    from synth.errors import nearest

    raise AttributeError(f"module 'understudy' has no attribute {name!r}; {nearest(name, __all__)}")


def __dir__() -> list[str]:
    return list(__all__)

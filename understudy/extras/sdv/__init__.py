"""SDV beside ours: its synthesizers as generators, ours in the shape of its, and its metadata to a schema and back."""

import importlib
from typing import Any

BRINGS = {
    "generator": {
        "sdv.gaussian_copula": "understudy.extras.sdv.generators:GaussianCopula",
        "sdv.ctgan": "understudy.extras.sdv.generators:SdvCtgan",
        "sdv.tvae": "understudy.extras.sdv.generators:SdvTvae",
    },
    "library": {"sdv": "sdv", "ctgan": "ctgan"},
    "schema command": {"convert": "understudy.extras.sdv.commands:add_to"},
}

_SHAPED = (
    "SingleTableSynthesizer", "GaussianCopulaSynthesizer", "CTGANSynthesizer", "TVAESynthesizer", "load_synthesizer",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """What has SDV's shape, imported when first used."""
    if name not in _SHAPED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.single_table"), name)

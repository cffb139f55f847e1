"""A model whose samples are frames of the kind that it was fitted on."""

from typing import Any

from synth.generators.models.model import Model, ModelDisplay
from synth.table.table import Back


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

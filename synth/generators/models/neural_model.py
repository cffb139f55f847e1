"""The model behind `ctgan` and `tvae`: a trained network, and how its rows become a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.distribution import missing_extra
from synth.dp.statement import PrivacyStatement
from synth.generators.base import ModelDisplay
from synth.generators.models.conditions import ConditionMixture, Conditions
from synth.generators.models.constraints import draw_lawful, with_dependents
from synth.generators.models.model_folder import default_rows_of, entity_shares_of, save_model
from synth.generators.models.postprocess import finish, rows_wanted
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.transforms.encoding import BinnedEncoding, Match
from synth.transforms.mode_encoding import ModalEncoding

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork, TvaeNetwork

ENCODINGS: Mapping[str, type[BinnedEncoding | ModalEncoding]] = {"binned": BinnedEncoding, "modal": ModalEncoding}


@dataclass(frozen=True, eq=False, repr=False)
class NeuralModel(ModelDisplay):
    """A network's weights, the encoding it was trained on, and the schema: no row of the real table.
    `entity_shares`: share of entities with 1, 2, ..., k rows, shape (k,); `None` where the unit is a row.
    """

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    encoding: BinnedEncoding | ModalEncoding
    network: "CtganNetwork | TvaeNetwork"
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any]

    def sample(
        self,
        n_rows: int | None = None,
        *,
        seed: int | None = None,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        progress: Progress = quiet,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """A synthetic table, as `synth.generators.base.Model` has it; free of charge, as often as wanted.

        Columns that are not given are drawn from the network's rows that are likely to hold the given values.
        """
        require_torch()
        import torch

        from synth.neural.sampling import draw
        from synth.neural.training import seeded

        wanted = rows_wanted(n_rows, self.default_rows)
        mixture = ConditionMixture.of(given, balance, self.encoding.discretizer, self.schema)
        matches = {id(each): self._match(each) for each in mixture.conditions}
        rng = np.random.default_rng(seed)
        progress("sampling", None)

        def rows(n: int, conditions: Conditions) -> pd.DataFrame:
            drawn = conditions.fixed(self.encoding.invert(draw(self.network, n, matches[id(conditions)]), rng))
            return conditions.fixed(with_dependents(drawn, self.schema))

        with seeded(int(rng.integers(2**63)), torch.device("cpu")):
            learned = draw_lawful(lambda n: mixture.draw(n, rng, rows), wanted, self.schema, part)
        return finish(learned, self.schema, self.entity_shares, rng, part)

    def _match(self, conditions: Conditions) -> dict[int, Match]:
        columns = [span.column for span in self.encoding.layout.spans]
        asked = conditions.values  # noqa: PD011
        return {columns.index(name): self.encoding.match(name, value) for name, value in asked.items()}

    def save(self, path: Path | str) -> None:
        """Write the model as a new folder, whole or not at all."""
        from synth.neural.sampling import to_arrays

        kind = next(name for name, cls in ENCODINGS.items() if isinstance(self.encoding, cls))
        content = {
            "generator": self.name,
            "default_rows": self.default_rows,
            "encoding": {"kind": kind, "columns": self.encoding.to_plain()},
            "entity_shares": self.entity_shares,
            "parameters": dict(self.parameters),
        }
        save_model(path, content, to_arrays(self.network), self.schema, self.statement)

    @classmethod
    def load(
        cls,
        content: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        schema: Schema,
        statement: PrivacyStatement | None,
    ) -> Self:
        require_torch()
        from synth.neural.sampling import from_arrays

        parameters, described = content["parameters"], content["encoding"]
        if not isinstance(parameters, dict):
            raise TypeError
        encoding = ENCODINGS[described["kind"]].from_plain(described["columns"], schema)
        return cls(
            name=content["generator"],
            schema=schema,
            statement=statement,
            default_rows=default_rows_of(content),
            encoding=encoding,
            network=from_arrays(arrays, encoding.layout),
            entity_shares=entity_shares_of(content, schema),
            parameters=parameters,
        )


def require_torch() -> None:
    """Refuse work that needs PyTorch where it is not installed."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise missing_extra("a generator on PyTorch", "neural")

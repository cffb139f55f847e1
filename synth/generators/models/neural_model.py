"""The model behind `ctgan` and `tvae`: a trained network, and how its rows become a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.chunks import Part
from synth.distribution import missing_extra
from synth.dp.statement import PrivacyStatement
from synth.generators.models.conditions import ConditionMixture, Conditions
from synth.generators.models.table_model import TableModel, facts_of
from synth.schema import Schema
from synth.transforms.encoding import BinnedEncoding, Match
from synth.transforms.mode_encoding import ModalEncoding

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork, TvaeNetwork

ENCODINGS: Mapping[str, type[BinnedEncoding | ModalEncoding]] = {"binned": BinnedEncoding, "modal": ModalEncoding}


@dataclass(frozen=True, eq=False, repr=False)
class NeuralModel(TableModel):
    """A network's weights, the encoding it was trained on, and the schema: no row of the real table."""

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    encoding: BinnedEncoding | ModalEncoding
    network: "CtganNetwork | TvaeNetwork"
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any]

    def learned_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Columns that are not given are drawn from the network's rows that are likely to hold the given values."""
        require_torch()
        import torch

        from synth.neural.sampling import draw
        from synth.neural.training import seeded

        mixture = ConditionMixture.of(given, balance, self.encoding.discretizer, self.schema)
        matches = {id(each): self._match(each) for each in mixture.conditions}

        def rows(n: int, conditions: Conditions) -> pd.DataFrame:
            return self.encoding.invert(draw(self.network, n, matches[id(conditions)]), rng)

        with seeded(int(rng.integers(2**63)), torch.device("cpu")):
            return mixture.lawful_rows(n_rows, rng, rows, part)

    def _match(self, conditions: Conditions) -> dict[int, Match]:
        columns = [span.column for span in self.encoding.layout.spans]
        asked = conditions.values  # noqa: PD011
        return {columns.index(name): self.encoding.match(name, value) for name, value in asked.items()}

    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        from synth.neural.sampling import to_arrays

        kind = next(name for name, cls in ENCODINGS.items() if isinstance(self.encoding, cls))
        return {"encoding": {"kind": kind, "columns": self.encoding.to_plain()}}, to_arrays(self.network)

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

        described = content["encoding"]
        encoding = ENCODINGS[described["kind"]].from_plain(described["columns"], schema)
        network = from_arrays(arrays, encoding.layout)
        return cls(**facts_of(content, schema), statement=statement, encoding=encoding, network=network)


def require_torch() -> None:
    """Refuse work that needs PyTorch where it is not installed."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise missing_extra("a generator on PyTorch", "neural")

"""The model behind `ctgan` and `tvae`: a trained network, and how its rows become a table."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.dp.statement import PrivacyStatement
from synth.extras import missing_extra
from synth.generators.models.known_rows import Candidates, accept_by_weight
from synth.generators.models.table_model import TableModel, facts_of
from synth.marginals.conditional_sampling import row_groups
from synth.schema import Schema
from synth.transforms.encoding import BinnedEncoding
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

    @property
    def discretizer(self) -> Discretizer:  # type: ignore[override]
        return self.encoding.discretizer

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted."""
        require_torch()
        from synth.neural.sampling import draw

        with self._seeded(rng):
            return self.encoding.invert(draw(self.network, n_rows), rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows as they are counted, chosen by how likely what the network draws holds what is known."""
        require_torch()
        from synth.neural.sampling import RowMatch, candidates, settle

        numbers = {str(name): pd.factorize(known[name], use_na_sentinel=False)[0] for name in known}
        matches = {}
        for name, which in numbers.items():
            firsts = np.unique(which, return_index=True)[1]
            matches[self.discretizer.columns.index(name)] = RowMatch.of(
                [self.encoding.match(name, known[name].iloc[[first]].reset_index(drop=True)) for first in firsts], which
            )

        def drawn(rows: np.ndarray) -> Candidates:
            asked = {span: each.taken(rows) for span, each in matches.items()}
            raw, log_weights = candidates(self.network, asked, len(rows))
            return log_weights, lambda chosen: self.encoding.invert(settle(self.network, raw, chosen), rng)

        with self._seeded(rng):
            frame = accept_by_weight(row_groups(numbers, len(known)), drawn, rng)
        return frame.assign(**{str(name): known[name] for name in known})

    def way(self, known: pd.DataFrame) -> str:
        return "weights"

    def _seeded(self, rng: np.random.Generator) -> AbstractContextManager[None]:
        import torch

        from synth.neural.training import seeded

        return seeded(int(rng.integers(2**63)), torch.device("cpu"))

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

"""The autoregressive network without epsilon: codes and ranks, each from those before it, in one order or in any.

A number or time whose codes have several cells is two columns of the network. The level of its rank within the code
comes directly after the code. With any order, conditions on whatever columns are exact, and cells are imputed.

Source: Tiwald et al. 2025 (2501.12012) for the task; `network` for the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer, plain_arrays
from synth.domain.discretizer import Array, Attribute, CodedRows, Codes, Evidence, Flags
from synth.generators.models.fitted import AutoregressiveModel, require_torch
from synth.generators.trees import AutoregressiveGenerator, LearnedRows
from synth.progress import Progress
from synth.schema import Schema

if TYPE_CHECKING:
    from understudy.extras.arn.network import AutoregressiveNetwork

N_LEVELS = 8  # levels of the ranks within a code
MOST_LEVELS = 1_000  # levels that a saved model may have


class Arn(AutoregressiveGenerator):
    """An autoregressive network on codes and ranks; it takes no epsilon.

    In any order, it samples on conditions exactly and imputes. In a fixed one, it takes half the time, and tables
    are as close to the real one or a little closer.
    """

    name: ClassVar[str] = "arn"
    order: Literal["fixed", "any"] = Field(
        default="any", description="any: columns are drawn given any others; fixed: faster."
    )
    epochs: int | None = Field(
        default=None, ge=1, le=100_000, description="Passes over the rows; left out: by the order and the rows."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: the GPU where there is one.")
    n_threads: int = Field(default=1, ge=1, le=1024, description="Threads of the processor that a fit takes.")

    @classmethod
    def model_class(cls) -> type["ArnModel"]:
        return ArnModel

    def check(self, schema: Schema) -> None:
        super().check(schema)
        require_torch()
        if self.device == "cuda":
            from synth.neural.training import device_of

            device_of(self.device)

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress) -> "ArnDistribution":
        import torch

        from synth.neural.training import device_of
        from understudy.extras.arn.network import ArnSpec, fit_network

        layout = NetworkColumns(learned.discretizer, learned.order, N_LEVELS)
        codes = layout.of_rows(learned.rows)
        spec = ArnSpec.for_rows(len(codes), self.order, self.epochs, n_units=float(learned.weights.sum()))
        before = torch.get_num_threads()
        torch.set_num_threads(self.n_threads)
        try:
            device = device_of(self.device)
            network = fit_network(codes, layout.sizes, layout.leaders, spec, device, seed, progress)
        finally:
            torch.set_num_threads(before)
        return ArnDistribution(layout, network)


@dataclass(frozen=True, eq=False)
class RankLevels:
    """Ranks within the codes of a number or time, in levels: each cell is in the level of its middle."""

    attribute: Attribute
    n_levels: int

    def of(self, codes: Codes, ranks: Array) -> NDArray[np.int64]:
        levels: NDArray[np.int64] = self._level_of_cell[self.attribute.ranked(codes, ranks)]
        return levels

    def draw(self, codes: Codes, levels: Codes, rng: np.random.Generator) -> Array:
        low, high = self._ends
        low, high = low[codes, levels], high[codes, levels]
        return low + rng.random(len(codes)) * (high - low)

    @cached_property
    def is_open(self) -> Flags:
        """The levels of each code that have a cell; shape (size, n_levels)."""
        low, high = self._ends
        return low < high

    @cached_property
    def _level_of_cell(self) -> NDArray[np.int64]:
        """Cells without mass have the level of the nearest cell of their code that has some."""
        middles, is_held = self.attribute.middle_ranks, self.attribute.rank_widths > 0
        levels: NDArray[np.int64] = np.minimum((middles * self.n_levels).astype(np.int64), self.n_levels - 1)
        for cell in np.flatnonzero(~is_held).tolist():
            beside = np.flatnonzero(is_held & (self.attribute.group == self.attribute.group[cell]))
            levels[cell] = levels[beside[np.abs(middles[beside] - middles[cell]).argmin()]]
        return levels

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """The least and the greatest rank of each level of each code; shape (size, n_levels) each."""
        low, high = np.ones((self.attribute.size, self.n_levels)), np.zeros((self.attribute.size, self.n_levels))
        at = self.attribute.group, self._level_of_cell
        np.minimum.at(low, at, self.attribute.rank_intervals[:, 0])
        np.maximum.at(high, at, self.attribute.rank_intervals[:, 1])
        return low, high


@dataclass(frozen=True, eq=False)
class NetworkColumns:
    """Columns of a network: the code of each attribute, and directly after it the level of its rank, if it has any."""

    discretizer: Discretizer
    places: tuple[int, ...]
    n_levels: int

    @cached_property
    def levels(self) -> Mapping[int, RankLevels]:
        """By position, of the attributes that have ranks."""
        attributes = enumerate(self.discretizer.attributes)
        return {position: RankLevels(each, self.n_levels) for position, each in attributes if each.is_refined}

    @cached_property
    def columns(self) -> tuple[tuple[int, bool], ...]:
        """Of each column, the position of its attribute, and whether it holds ranks."""
        candidates = ((position, holds) for position in self.places for holds in (False, True))
        return tuple((position, holds) for position, holds in candidates if not holds or position in self.levels)

    @cached_property
    def leader(self) -> Mapping[int, int]:
        """The column that holds the codes of the attribute at a position."""
        return {position: column for column, (position, holds) in enumerate(self.columns) if not holds}

    @property
    def sizes(self) -> tuple[int, ...]:
        sizes = [each.size for each in self.discretizer.attributes]
        return tuple(self.n_levels if holds else sizes[position] for position, holds in self.columns)

    @property
    def leaders(self) -> tuple[int | None, ...]:
        return tuple(self.leader[position] if holds else None for position, holds in self.columns)

    def of_rows(self, rows: CodedRows) -> Codes:
        drawn = np.zeros((len(rows.codes), len(self.columns)), dtype=np.int32)
        for column, (position, holds) in enumerate(self.columns):
            codes = rows.codes[:, position]
            if not holds:
                drawn[:, column] = codes
            elif position in rows.ranks:  # rows of which only the first columns are known have none in the others
                drawn[:, column] = self.levels[position].of(codes, rows.ranks[position])
        return drawn

    def codes_of(self, drawn: Codes) -> Codes:
        return drawn[:, [self.leader[position] for position in range(len(self.places))]]


@dataclass(frozen=True, eq=False)
class ArnDistribution:
    layout: NetworkColumns
    network: "AutoregressiveNetwork"

    @property
    def discretizer(self) -> Discretizer:
        return self.layout.discretizer

    @property
    def order(self) -> tuple[int, ...]:
        return self.layout.places

    @property
    def in_any_order(self) -> bool:
        return self.network.order == "any"

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        return self._drawn(n_rows, rng, Evidence() if evidence is None else evidence, weigh=True)

    def draw_directly(self, n_rows: int, rng: np.random.Generator, evidence: Evidence) -> CodedRows:
        """Rows by the network's own conditionals given some columns, in any order; they weigh nothing.

        It has learned these less well than those by place: rows are further from the model's own joint distribution.
        """
        return self._drawn(n_rows, rng, evidence, weigh=False)

    def _drawn(self, n_rows: int, rng: np.random.Generator, evidence: Evidence, *, weigh: bool) -> CodedRows:
        import torch

        from understudy.extras.arn.network import draw

        columns, places, discretizer = self.layout.columns, evidence.places, self.discretizer
        codes = np.zeros((n_rows, len(columns)), dtype=np.int32)
        ranked: frozenset[int] = frozenset()
        if evidence.rows is not None:
            codes, ranked = self.layout.of_rows(evidence.rows), places & evidence.rows.ranks.keys()
        known = np.array([position in (ranked if holds else places) for position, holds in columns])
        allowed = {}
        for position in set(self.order) - places:  # the codes that a drawn value may have
            attribute = discretizer.attributes[position]
            codes_of = np.arange(attribute.size)
            allowed[self.layout.leader[position]] = np.isin(codes_of, attribute.impossible, invert=True)

        def mask(column: int, drawn: Codes) -> Flags | None:
            position, holds = columns[column]
            if holds:
                return self.layout.levels[position].is_open[drawn[:, self.layout.leader[position]]]
            if not evidence.zeros:
                return None
            codes = self.layout.codes_of(drawn)
            flags = evidence.open_codes(position, codes, np.flatnonzero((codes >= 0).all(0)).tolist())
            return None if flags is None else np.broadcast_to(flags, (len(drawn), flags.shape[-1]))

        # A child of the generator, for PyTorch, whose own one is left as it is.
        seed = torch.Generator().manual_seed(int(rng.integers(2**63)))
        drawn, log_weights = draw(self.network, codes, known, seed, allowed=allowed, mask=mask, weigh=weigh)
        codes, levels = np.asfortranarray(self.layout.codes_of(drawn)), self.layout.levels
        ranks = {
            position: levels[position].draw(codes[:, position], drawn[:, column], rng)
            for column, (position, holds) in enumerate(columns)
            if holds
        }
        for position in ranked:
            ranks[position][:] = evidence.rows.ranks[position]  # type: ignore[union-attr]
        return CodedRows(codes, ranks, log_weights)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        from understudy.extras.arn.network import to_arrays

        layout = {"places": list(self.layout.places), "n_levels": self.layout.n_levels}
        return {"order": self.network.order, **layout}, to_arrays(self.network)


class ArnModel(AutoregressiveModel):
    @classmethod
    def restored(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> ArnDistribution:
        require_torch()
        from understudy.extras.arn.network import from_arrays

        places = tuple(plain_arrays.whole_numbers(content, "places").tolist())
        if sorted(places) != list(range(len(discretizer.attributes))):
            raise ValueError("the order is not one of the columns")
        layout = NetworkColumns(discretizer, places, plain_arrays.count(content, "n_levels", MOST_LEVELS))
        return ArnDistribution(layout, from_arrays(arrays, layout.sizes, layout.leaders, content["order"]))

"""The three kinds of fitted models: of marginals, of columns learned in turn, and of a network."""

import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.copula import FITTED_ROWS, Copula
from synth.domain.counts import MARK, fine
from synth.domain.discretizer import Attribute, CodedRows, Evidence
from synth.dp.statement import PrivacyStatement
from synth.extras import missing_extra
from synth.generators.models.constraints import structural_zeros
from synth.generators.models.given import Candidates, accept_by_weight
from synth.generators.models.model import Arrays, Content, TableModel, facts_of
from synth.marginals import LatentClasses, MarkovRandomField, sample, sample_classes
from synth.marginals.distributions import CLASS_SHARES
from synth.marginals.factor import CELLS_A_MB
from synth.marginals.sampling import row_groups, sample_given
from synth.neural.encoding import BinnedEncoding, ModalEncoding
from synth.schema import Schema

if TYPE_CHECKING:
    from synth.neural.sampling import CtganNetwork, TvaeNetwork


LARGEST_MB = 4096.0  # the largest size of a model's tables, whatever its parameters say


@dataclass(frozen=True, repr=False)
class MarginalModel(TableModel):
    """Released marginals, the distribution they make, and the schema: nothing else of the real table."""

    name: str
    schema: Schema
    statement: PrivacyStatement | None
    default_rows: int
    discretizer: Discretizer
    distribution: MarkovRandomField | LatentClasses
    entity_shares: tuple[float, ...] | None = None
    parameters: Mapping[str, Any] | None = None

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        return self._decoded(_sampled(self.distribution, n_rows, rng), rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        attributes = self.discretizer.attributes
        codes = {a.name: a.codes(known[a.name]) for a in attributes if a.name in known}
        if isinstance(self.distribution, LatentClasses):
            return self._decoded(sample_classes(self.distribution, len(known), rng, codes), rng, known)
        for name, groups in self._coarse_codes.items():
            if fine(name) in codes:
                codes[name] = groups[codes[fine(name)]]
        drawn = {**sample_given(self.distribution, codes, rng), **codes}
        return self._decoded(np.column_stack([drawn[a.name] for a in attributes]), rng, known)

    def way(self, known: pd.DataFrame) -> str:
        return "exact"

    def _decoded(self, codes: np.ndarray, rng: np.random.Generator, known: pd.DataFrame | None = None) -> pd.DataFrame:
        return self.discretizer.decode(codes[:, : len(self.discretizer.attributes)], rng, self._copula, known)

    @cached_property
    def _coarse_codes(self) -> dict[str, np.ndarray]:
        """For each coarse attribute the coarse code of every code of its column."""
        coarse = {}
        for factor in self.distribution.potentials if isinstance(self.distribution, MarkovRandomField) else ():
            name = factor.attributes[-1]
            if name.endswith(MARK) and factor.attributes == (fine(name), name):
                coarse[name] = factor.log_values.argmax(axis=1).astype(np.int32)
        return coarse

    @cached_property
    def _copula(self) -> Copula | None:
        """Of numbers within their codes, fitted to codes that the distribution gives."""
        rng = np.random.default_rng(0)
        return Copula.fitted(self.discretizer, _sampled(self.distribution, FITTED_ROWS, rng), rng)

    def _described(self) -> tuple[Content, Arrays]:
        description, arrays = self.distribution.to_arrays()
        return {"discretizer": self.discretizer.to_plain(), "distribution": description}, dict(arrays)

    @classmethod
    def load(cls, content: Content, arrays: Arrays, schema: Schema, statement: PrivacyStatement | None) -> Self:
        facts, discretizer = facts_of(content, schema), Discretizer.from_plain(content["discretizer"], schema)
        distribution = _distribution(content["distribution"], arrays, facts["parameters"])
        sizes = discretizer.sizes
        coarse = {name: size for name, size in distribution.domain.items() if name not in sizes}
        if list(distribution.domain.items()) != [*sizes.items(), *coarse.items()] or any(
            not name.endswith(MARK) or size > sizes.get(fine(name), 0) for name, size in coarse.items()
        ):
            raise ValueError("the distribution is not over the codes of the discretizer")
        if isinstance(distribution, LatentClasses) and coarse:
            raise ValueError("a latent class model is over fine codes alone")
        return cls(**facts, statement=statement, discretizer=discretizer, distribution=distribution)


def _sampled(distribution: MarkovRandomField | LatentClasses, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    draw: Any = sample_classes if isinstance(distribution, LatentClasses) else sample
    codes: np.ndarray = draw(distribution, n_rows, rng)
    return codes


def _distribution(
    description: Content, arrays: Arrays, parameters: Mapping[str, Any] | None
) -> MarkovRandomField | LatentClasses:
    """The distribution that was taken apart, as its arrays tell its kind."""
    if CLASS_SHARES in arrays:
        return LatentClasses.from_arrays(description, arrays)
    field = MarkovRandomField.from_arrays(description, arrays)
    # Beside what its tables have themselves, a fit gives its junction tree so many cells at most.
    named = min(float((parameters or {}).get("max_model_mb", LARGEST_MB)), LARGEST_MB)
    least = sum(factor.log_values.size for factor in field.potentials) + sum(field.domain.values())
    if field.tree.n_cells > least + named * CELLS_A_MB:
        raise ValueError("the cliques make a larger model than any fit does")
    return field


FEWEST_MEMBERS = 15  # rows of a category below which nothing is learned of it


def is_too_rare(attribute: Attribute, code: int) -> bool:
    """True of a code that several categories share, or that too few rows have for anything to be learned of it."""
    mass = attribute.mass[attribute.group == code]
    return bool(np.count_nonzero(mass) > 1 or mass.sum() < FEWEST_MEMBERS)


class Autoregression(Protocol):
    """A distribution over codes, and ranks within them, column by column."""

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the columns in the order in which they are drawn."""

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        """Rows; those of given columns have what is given, and weigh how likely the others make it."""

    def to_arrays(self) -> tuple[Content, Arrays]:
        """Plain data and arrays."""


@dataclass(frozen=True, eq=False, repr=False)
class AutoregressiveModel(TableModel):
    """A distribution over codes and ranks, what these stand for, and the schema: **no formal guarantee**.
    `allowed_pairs`: pairs of columns, and which of their codes go together; shape (size, size) each.
    """

    name: str
    schema: Schema
    default_rows: int
    discretizer: Discretizer
    distribution: Autoregression
    entity_shares: tuple[float, ...] | None
    parameters: Mapping[str, Any]
    allowed_pairs: Mapping[tuple[str, str], NDArray[np.bool_]] = field(default_factory=dict)
    statement: None = None

    def drawn(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        return self.distribution.draw(n_rows, rng, Evidence(zeros=self._zeros)).decoded(self.discretizer, rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Exact where known columns come first; else by a network of any order; else the columns before them are drawn,
        and rows are chosen by how likely these make what is known.
        """
        evidence = self._evidence(known)
        if evidence.is_leading(self.distribution.order):
            return self._decoded(self.distribution.draw(len(known), rng, evidence), known, rng)
        if self._is_direct:
            directly: Any = self.distribution
            return self._decoded(directly.draw_directly(len(known), rng, evidence), known, rng)

        def candidates(rows: np.ndarray) -> Candidates:
            coded = self.distribution.draw(len(rows), rng, evidence.taken(rows))
            return coded.log_weights, lambda at: self._decoded(coded.taken(at), known.iloc[rows[at]], rng)

        attributes = [each for each in self.discretizer.attributes if each.name in known]
        cells = {each.name: each.cells(known[each.name]) for each in attributes}
        return accept_by_weight(row_groups(cells, len(known)), candidates, rng)

    def way(self, known: pd.DataFrame) -> str:
        attributes = [each for each in self.discretizer.attributes if each.name in known and each.edges is None]
        if any(is_too_rare(each, code) for each in attributes for code in np.unique(each.codes(known[each.name]))):
            return "merged"
        is_leading = self._evidence(known).is_leading(self.distribution.order)
        return "exact" if is_leading else "direct" if self._is_direct else "weights"

    @property
    def _is_direct(self) -> bool:
        """True of a distribution that has learned each column from any others, and has `draw_directly`."""
        return bool(getattr(self.distribution, "in_any_order", False))

    def _evidence(self, known: pd.DataFrame) -> Evidence:
        places = frozenset(at for at, each in enumerate(self.discretizer.attributes) if each.name in known)
        return Evidence(CodedRows.encoded(self.discretizer, known), places, self._zeros)

    def _decoded(self, coded: CodedRows, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        drawn = coded.decoded(self.discretizer, rng, known.columns)
        return drawn.assign(**{str(name): known[name].array for name in known})[list(self.discretizer.columns)]

    @cached_property
    def _zeros(self) -> tuple[tuple[tuple[int, ...], NDArray[np.bool_]], ...]:
        """Codes that go together by no constraint, or in no row though many were to be expected."""
        index = self.discretizer.columns.index
        zeros = structural_zeros(self.schema, self.discretizer)
        return (
            *((tuple(map(index, zero.attributes)), np.isfinite(zero.log_values)) for zero in zeros),
            *((tuple(map(index, pair)), together) for pair, together in self.allowed_pairs.items()),
        )

    def _described(self) -> tuple[Content, Arrays]:
        description, arrays = self.distribution.to_arrays()
        pairs = enumerate(self.allowed_pairs.values())
        content = {
            "discretizer": self.discretizer.to_plain(),
            "distribution": description,
            "allowed_pairs": [list(pair) for pair in self.allowed_pairs],
        }
        return content, {**arrays, **{f"allowed_pairs.{at}": flags.astype(np.uint8) for at, flags in pairs}}

    @classmethod
    def restored(cls, content: Content, arrays: Arrays, discretizer: Discretizer) -> Autoregression:
        """The distribution that its own `to_arrays` took apart. A generator's model says which this is."""
        raise NotImplementedError

    @classmethod
    def load(cls, content: Content, arrays: Arrays, schema: Schema, statement: Any) -> Self:
        if statement is not None:
            raise ValueError("such a model promises nothing")
        discretizer = Discretizer.from_plain(content["discretizer"], schema)
        pairs, sizes = content["allowed_pairs"], discretizer.sizes
        allowed = {(first, second): arrays[f"allowed_pairs.{at}"] != 0 for at, (first, second) in enumerate(pairs)}
        if any(flags.shape != (sizes[first], sizes[second]) for (first, second), flags in allowed.items()):
            raise ValueError("a pair of columns has a flag for each pair of codes")
        others = {name: each for name, each in arrays.items() if not name.startswith("allowed_pairs.")}
        distribution = cls.restored(content["distribution"], others, discretizer)
        return cls(
            **facts_of(content, schema), discretizer=discretizer, distribution=distribution, allowed_pairs=allowed
        )


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
        require_torch()
        from synth.neural.sampling import draw

        with self._seeded(rng):
            return self.encoding.invert(draw(self.network, n_rows), rng)

    def drawn_given(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Rows are chosen by how likely what the network draws holds what is known."""
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

    def _described(self) -> tuple[Content, Arrays]:
        from synth.neural.sampling import to_arrays

        kind = next(name for name, cls in ENCODINGS.items() if isinstance(self.encoding, cls))
        return {"encoding": {"kind": kind, "columns": self.encoding.to_plain()}}, to_arrays(self.network)

    @classmethod
    def load(cls, content: Content, arrays: Arrays, schema: Schema, statement: PrivacyStatement | None) -> Self:
        require_torch()
        from synth.neural.sampling import from_arrays

        described = content["encoding"]
        encoding = ENCODINGS[described["kind"]].from_plain(described["columns"], schema)
        network = from_arrays(arrays, encoding.layout)
        return cls(**facts_of(content, schema), statement=statement, encoding=encoding, network=network)


def require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise missing_extra("a generator on PyTorch", "neural")

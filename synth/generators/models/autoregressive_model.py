"""The model behind `trees` and `arn`: a distribution over rows of codes and ranks, drawn column by column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.chunks import Part
from synth.domain import Discretizer
from synth.domain.coded_rows import CodedRows, Evidence
from synth.domain.discretizer import Attribute
from synth.errors import JobError
from synth.generators.models.conditions import GIVEN, WAYS, ConditionMixture, Conditions
from synth.generators.models.constraints import structural_zeros
from synth.generators.models.imputation import Imputation
from synth.generators.models.table_model import TableModel, facts_of
from synth.marginals import Factor
from synth.schema import Schema

PILOT_ROWS = 10_000  # candidates whose weights say how many of them are accepted
MOST_AT_ONCE = 200_000  # candidates that are in memory at a time
FEWEST_MEMBERS = 15  # rows of a category below which nothing is learned of it
MOST_CANDIDATES, FEWER_CANDIDATES = 200, 25
"""Candidates that are drawn for a row at most, on average; fewer where the model can be asked directly instead."""


def is_too_rare(attribute: Attribute, code: int) -> bool:
    """True of a code that several categories share, or that too few rows have for anything to be learned of it."""
    mass = attribute.mass[attribute.group == code]
    return bool(np.count_nonzero(mass) > 1 or mass.sum() < FEWEST_MEMBERS)


class Autoregression(Protocol):
    """A distribution over codes, and ranks within them, column by column."""

    @property
    def order(self) -> tuple[int, ...]:
        """Places of the columns in the order in which they are drawn."""

    def draw(self, n_rows: int, rng: np.random.Generator, evidence: Evidence | None = None) -> CodedRows:
        """Rows; those of given columns have what is given, and weigh how likely the others make it."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays."""


@runtime_checkable
class Imputing(Autoregression, Protocol):
    """A distribution that may have learned each column from any others."""

    @property
    def in_any_order(self) -> bool:
        """True if it has."""

    def draw_directly(self, n_rows: int, rng: np.random.Generator, evidence: Evidence) -> CodedRows:
        """Rows by its conditionals given some columns, which are less exact than its joint distribution."""

    def impute(self, rows: CodedRows, is_open: Mapping[int, NDArray[np.bool_]], rng: np.random.Generator) -> CodedRows:
        """Rows with the columns of `is_open` drawn among codes that are open, given all other cells.
        `is_open`: by place, shape (n, size); a known cell has its own code alone.
        """


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

    def learned_rows(
        self,
        n_rows: int,
        rng: np.random.Generator,
        given: Mapping[str, Any] | None = None,
        balance: Mapping[str, Mapping[Any, float] | None] | None = None,
        part: Part | None = None,
    ) -> pd.DataFrame:
        """Rows on conditions; ``attrs["given"]`` says how they were come by.

        Conditions are exact where every column before the given ones is given, too. Else rows are drawn with these
        columns as given, and accepted by how likely the columns before make that. Where too few would be, a network of
        any order draws them by its conditionals given these columns, which are less exact. Other models draw accepted
        rows again by those weights, so that rows repeat. A rare category shares its code with others, and rows
        that are to hold it are like those of all of them.
        """
        mixture = ConditionMixture.of(given, balance, self.discretizer, self.schema)
        zeros = self._zeros
        known = {id(each): self._evidence(each, zeros) for each in mixture.conditions}
        ways: set[str] = set()

        def draw(n: int, conditions: Conditions) -> pd.DataFrame:
            coded, way = self._accepted(n, known[id(conditions)], conditions, rng)
            ways.add("merged" if self._is_merged(conditions) else way)
            ways.update(("rejection",) if conditions.wanted else ())
            return coded.decoded(self.discretizer, rng)

        learned = mixture.lawful_rows(n_rows, rng, draw, part)
        if mixture.is_asked:
            learned.attrs[GIVEN] = max(ways, key=WAYS.index)
        return learned

    def drawn_after(self, known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Canonical columns of rows, drawn given those that are known of each row; shape (n, n_drawn)."""
        rows = CodedRows.encoded(self.discretizer, known)
        evidence = replace(self._unconditional, rows=rows, n_given=known.shape[1])
        return self.distribution.draw(len(known), rng, evidence).decoded(self.discretizer, rng, known.columns)

    @cached_property
    def _unconditional(self) -> Evidence:
        """Evidence of structural zeros alone."""
        return self._evidence(Conditions({}, {}), self._zeros)

    @cached_property
    def _zeros(self) -> tuple[Factor, ...]:
        """Codes that go together by no constraint, or in no row though many were to be expected."""
        allowed_pairs = (
            Factor(pair, np.where(together, 0.0, -np.inf)) for pair, together in self.allowed_pairs.items()
        )
        return (*structural_zeros(self.schema, self.discretizer), *allowed_pairs)

    def _is_merged(self, conditions: Conditions) -> bool:
        """True where a category that is asked for shares its code with others, or is too rare to be learned: rows are
        then those of all of them.
        """
        attributes = {attribute.name: attribute for attribute in self.discretizer.attributes}
        asked = ((attributes[name], value) for name, value in conditions.values.items())  # noqa: PD011
        return any(is_too_rare(one, one.codes(value)[0]) for one, value in asked if one.edges is None)

    def _evidence(self, conditions: Conditions, zeros: Sequence[Factor]) -> Evidence:
        """Evidence on codes and ranks, by conditions and structural zeros."""
        places = {attribute.name: place for place, attribute in enumerate(self.discretizer.attributes)}
        ruled = conditions.ruled_out(zeros if conditions.evidence else ())
        if any(not np.any(weights) for weights in ruled.values()):
            raise JobError(conditions.no_rows)
        codes, intervals = {}, {}
        for name, value in conditions.values.items():  # noqa: PD011
            attribute = self.discretizer.attributes[places[name]]
            cell = int(attribute.cells(value)[0])
            codes[places[name]] = int(attribute.group[cell])
            low, high = attribute.rank_intervals[cell].tolist()
            if attribute.is_refined and low < high:  # a cell that no row is in says no more than its code
                intervals[places[name]] = (low, high)
        allowed = {places[name]: weights > 0 for name, weights in ruled.items() if places[name] not in codes}
        together = tuple((tuple(places[n] for n in zero.attributes), np.isfinite(zero.log_values)) for zero in zeros)
        return Evidence(codes, intervals, allowed, together)

    def _accepted(
        self, n: int, evidence: Evidence, conditions: Conditions, rng: np.random.Generator
    ) -> tuple[CodedRows, str]:
        """Rows on conditions, and how they were come by: one of `WAYS`, merged ones aside."""
        distribution = self.distribution
        if evidence.is_leading(distribution.order):
            return distribution.draw(n, rng, evidence), "exact"
        direct = distribution if isinstance(distribution, Imputing) and distribution.in_any_order else None
        most = (MOST_CANDIDATES if direct is None else FEWER_CANDIDATES) * max(n, PILOT_ROWS // 10)
        drawn = pilot = distribution.draw(PILOT_ROWS, rng, evidence)
        bound, n_drawn = float(pilot.log_weights.max()), 0
        if not np.isfinite(bound):
            raise JobError(conditions.no_rows)
        accepted = pilot.taken(np.zeros(0, dtype=np.intp))
        while True:
            if (highest := float(drawn.log_weights.max())) > bound:  # fewer of those before would have been accepted
                kept = np.flatnonzero(rng.random(len(accepted.codes)) < np.exp(bound - highest))
                accepted, bound = accepted.taken(kept), highest
            chances = np.exp(drawn.log_weights - bound)
            kept = np.flatnonzero(rng.random(len(chances)) < chances)
            accepted = CodedRows.joined([accepted, drawn.taken(kept)])
            n_drawn += len(chances)
            if len(accepted.codes) >= n:
                return accepted.taken(np.arange(n)), "rejection"
            needed = (n - len(accepted.codes)) * (n_drawn + 1) / (len(accepted.codes) + 1)
            if direct is not None and n_drawn + needed > most:
                return direct.draw_directly(n, rng, evidence), "direct"
            if n_drawn >= most:
                shares = np.exp(pilot.log_weights - pilot.log_weights.max())
                again = rng.choice(len(shares), n, p=shares / shares.sum())
                return pilot.taken(again), "weights"
            drawn = distribution.draw(int(min(1.1 * needed + 100, MOST_AT_ONCE)), rng, evidence)

    def impute(self, frame: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """The rows of a table with missing cells drawn from their distribution given the cells that are there.

        `Imputation.filled` says which cells stay missing. A filled cell is made from the model and the other cells of
        its row, and can repeat what these determine. So it is as sensitive as the row.
        `frame`: *Sensitive*. Rows with all columns of the schema; any may have missing cells. Not changed.
        """
        distribution, rng = self.distribution, np.random.default_rng(seed)
        if not isinstance(distribution, Imputing) or not distribution.in_any_order:
            raise JobError(
                f"generator={self.name!r} draws columns in one order and cannot fill in missing cells; fit arn with "
                'order="any", or latent_class'
            )

        def fill(known: CodedRows, is_open: Mapping[int, np.ndarray]) -> pd.DataFrame:
            return distribution.impute(known, is_open, rng).decoded(self.discretizer, rng)

        return Imputation(self.schema, self.discretizer, fill).filled(frame)

    def _described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        description, arrays = self.distribution.to_arrays()
        pairs = enumerate(self.allowed_pairs.values())
        content = {
            "discretizer": self.discretizer.to_plain(),
            "distribution": description,
            "allowed_pairs": [list(pair) for pair in self.allowed_pairs],
        }
        return content, {**arrays, **{f"allowed_pairs.{at}": flags.astype(np.uint8) for at, flags in pairs}}

    @classmethod
    def restored(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> Autoregression:
        """The distribution that its own `to_arrays` took apart. A generator's model says which this is."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], schema: Schema, statement: Any
    ) -> Self:
        if statement is not None:
            raise ValueError("such a model promises nothing")
        discretizer = Discretizer.from_plain(content["discretizer"], schema)
        allowed_pairs = _allowed_pairs(content.get("allowed_pairs", []), arrays, discretizer.sizes)
        others = {name: each for name, each in arrays.items() if not name.startswith("allowed_pairs.")}
        distribution = cls.restored(content["distribution"], others, discretizer)
        return cls(
            **facts_of(content, schema), discretizer=discretizer, distribution=distribution, allowed_pairs=allowed_pairs
        )


def _allowed_pairs(
    pairs: Sequence[Sequence[str]], arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """The pairs of columns, and which of their codes go together, as `taken_apart` gave them."""
    made = {}
    for at, (one, other) in enumerate(pairs):
        flags = arrays[f"allowed_pairs.{at}"] != 0
        if flags.shape != (sizes[one], sizes[other]) or not flags.any(axis=1).all():
            raise ValueError("a pair of columns has a flag for each pair of codes")
        made[one, other] = flags
    return made

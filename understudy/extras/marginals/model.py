"""A model of rows from published tables alone: estimated as `mst` does once it has measured, and checked by residuals.

**The check.** True counts of a table are the marginal of some distribution. So what a fit to all tables leaves of each
is noise, less what the fit could take up. How much that is depends on how tables overlap and on how many cells are
empty, and follows from the model: noise as declared is put on its own marginals, and fitted again. Squares of residuals
over those of such fits are about 1 where all is as declared, by an F distribution. But a fit has fewer empty cells than
the truth, and so leaves less: of tables that are all empty .34 of the variance in place of .5. So a ratio counts for
more noise only beyond `LEAST_MORE`, and over `USUAL`.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError
from scipy.stats import f

from synth.domain.counts import fine
from synth.dp.statement import NO_GUARANTEE, PrivacyStatement
from synth.errors import JobError, SchemaError, TableError, TableNote
from synth.generators.models.constraints import affordable, structural_zeros
from synth.generators.models.fitted import MarginalModel
from synth.generators.models.model import MOST_ROWS, Arrays, Content
from synth.marginals import MarkovRandomField, estimate, junction_tree
from synth.marginals.factor import CELLS_A_MB
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.validation import Frozen, sentence
from understudy.extras.marginals.tables import Array, Cells, Publication, PublishedTable, publication_of

N_AGAIN = 8  # fits to noise as declared
FALSE_ALARMS = 0.02  # of fits all of whose tables are as declared, at most
LEAST_MORE, USUAL = 1.6, 1.2
FEWEST = 2.0  # cells that a fit leaves of a table, for the table to be told anything of
TOGETHER = "all with noise"
OFF = 5.0  # standard deviations by which the sum of a table may be off; and half of one for each cell, if cut at zero


class Publisher(Frozen):
    """Who published the tables, and what they claim. It is quoted, and nothing here vouches for it."""

    name: str = Field(min_length=1, max_length=200)
    epsilon: float | None = Field(default=None, gt=0)
    delta: float | None = Field(default=None, ge=0, lt=1)
    rho: float | None = Field(default=None, gt=0)
    unit: str | None = Field(default=None, max_length=200, description="What the claim protects, in their words.")

    @property
    def words(self) -> str:
        numbers = {key: getattr(self, key) for key in ("epsilon", "delta", "rho")}
        stated = [f"{key} {value:g}" for key, value in numbers.items() if value is not None]
        return f"{self.name!r} claims {', '.join(stated)}" + ("" if self.unit is None else f", unit {self.unit!r}")

    @property
    def claims(self) -> bool:
        return self.epsilon is not None or self.rho is not None


class Residuals(Frozen):
    """What a fit leaves of one table, or of all. `noise`: over what is declared; `None`: too little is left."""

    table: str
    columns: tuple[str, ...] = ()
    mechanism: str = ""
    scale: float | None = None
    cells: int
    left: float = Field(description="Cells whose noise the fit leaves, of those that there are.")
    noise: float | None
    verdict: Literal["as declared", "more", "less", "cannot be told"]

    def words(self, most: str) -> str:
        """What is wrong with it. `most`: the table that is off most."""
        which, declared = f"table={self.table!r} differs", f"it declares ({self.mechanism}, scale={self.scale})"
        if self.table == TOGETHER:
            which, declared = f"the tables differ, most of all table={most!r},", "they declare"
        if self.mechanism == "none":
            return f"{which} from what all tables say together: its counts are not exact, or of other rows; correct it"
        measured = f"{which} from what all tables say together by {self.noise:.2g} times the noise that {declared}: "
        if self.verdict == "more":
            return f"{measured}a scale is too small, or other rows are counted; correct it, or leave the table out"
        return f"{measured}a scale is too large, or noise was taken out again, and the model trusts it too little"


class Origin(Frozen):
    """Where a model comes from: who published what, and how well it fits."""

    publisher: Publisher | None
    n: float
    tables: tuple[Residuals, ...]

    @property
    def guarantee(self) -> str:
        """Whose guarantee it is, in words. The fit reads published numbers alone, and costs nothing."""
        if self.publisher is None or not self.publisher.claims:
            return NO_GUARANTEE
        exact = [each.table for each in self.tables if each.mechanism == "none"]
        beside = f"; without noise, so that no such claim covers them: {', '.join(exact)}" if exact else ""
        return f"{NO_GUARANTEE} of its own; quoted and not checked: {self.publisher.words}{beside}"


@dataclass(frozen=True, repr=False)
class PublishedModel(MarginalModel):
    """A model of published tables. `statement` is `None`: it adds nothing to what its publisher claims."""

    origin: Origin = field(kw_only=True)

    @property
    def promise(self) -> str:
        return self.origin.guarantee

    def _described(self) -> tuple[Content, Arrays]:
        content, arrays = super()._described()
        return {**content, "origin": self.origin.model_dump(mode="json")}, arrays

    @classmethod
    def load(cls, content: Content, arrays: Arrays, schema: Schema, statement: PrivacyStatement | None) -> Self:
        if statement is not None:
            raise ValueError("such a model promises nothing itself")
        origin = Origin.model_validate(content["origin"])
        base = MarginalModel.load(content, arrays, schema, None)
        return cls(**{name: getattr(base, name) for name in MarginalModel.__dataclass_fields__}, origin=origin)


def from_marginals(
    tables: Mapping[str, Mapping[str, Any] | PublishedTable],
    schema: Schema,
    *,
    n: int | None = None,
    publisher: Mapping[str, Any] | Publisher | None = None,
    seed: int = 0,
    max_model_mb: float = 64.0,
    progress: Progress = quiet,
) -> PublishedModel:
    """A model from tables that others have published, with noise or without. No real table is read.

    Args:
        tables: by name, what each is: `cells`, a frame with a column for each attribute and one, `value`, of counts, or
            a path, or an array over `columns`; its `mechanism` ("discrete gaussian", "gaussian", "laplace",
            "geometric" or "none") and `scale`; `groups` of categories. One without columns is a total.
        schema: declared; it has every column of the tables, and each of its learned columns is in one.
        n: the number of rows, where it is public; `None`: estimated.
        publisher: `name`, and what they claim (`epsilon`, `delta`, `rho`, `unit`), which is quoted and not checked.
        seed: of the noise that the check compares residuals with.
        max_model_mb: size of the model's tables at most.
        progress: told what is being done.

    Raises:
        BadInput: a table cannot be used, or contradicts the others by more than its noise; nothing was fitted.

    >>> from synth import declare_schema
    >>> from synth.schema import build_schema
    >>> yes = {"kind": "boolean"}
    >>> schema = build_schema({"status": "declared", "columns": {"ill": yes, "smokes": yes}})
    >>> both = {"cells": [[61, 18], [9, 12]], "columns": ["ill", "smokes"], "mechanism": "none"}
    >>> from_marginals({"both": both}, schema).sample(seed=0).value_counts().tolist()
    [61, 18, 12, 9]
    """
    published, source = _tables(tables), _validated(publisher, Publisher) if publisher is not None else None
    _check(published, schema, source, n, seed, max_model_mb)
    progress("reading tables", None)
    most = max_model_mb * CELLS_A_MB
    known = publication_of(published, schema, most)
    total = float(n) if n is not None else _total(known.tables, [each.counts for each in known.tables])
    if total > MOST_ROWS:
        raise TableError(f"the tables are of {total:.3g} rows, and a model has {MOST_ROWS:.0e} at most; correct them")
    _check_sums(known.tables, n, total)
    zeros = (*known.zeros, *affordable(structural_zeros(schema, known.discretizer), known.discretizer.sizes, most / 2))
    size = junction_tree(
        known.domain, [*(each.clique for each in known.tables), *(zero.attributes for zero in zeros)]
    ).n_cells
    if size > most:
        raise JobError(
            f"the tables together make a model of {size / CELLS_A_MB:,.0f} MB, and max_model_mb={max_model_mb:g}: they "
            "have many columns, or overlap in large loops; leave some out, or merge their cells"
        )
    fit = partial(estimate, known.domain, zeros=zeros)
    progress("estimating the distribution", None)
    fitted = fit([each.measurement(known.domain) for each in known.tables], total=total)
    progress("checking residuals", None)
    checked = _checked(known, fitted, fit, n, seed)
    if off := [each for each in checked if each.verdict in ("more", "less")]:
        message = off[0].words(next(each.table for each in checked if each.table != TOGETHER))
        if off[0].verdict == "more":
            raise TableError(message)
        warnings.warn(message, TableNote, stacklevel=2)
    origin = Origin(publisher=source, n=total, tables=tuple(checked))
    shares = None if schema.entity is None else (1.0,)
    parameters = {"max_model_mb": max_model_mb}
    return PublishedModel(
        "marginals", schema, None, max(round(total), 1), known.discretizer, fitted, shares, parameters, origin=origin
    )


def _tables(tables: Any) -> dict[str, PublishedTable]:
    if not isinstance(tables, Mapping) or not tables or not all(isinstance(name, str) and name for name in tables):
        raise TableError("tables are told by their names; write {'age by sex': {...}}, one at least")
    return {name: _validated(table, PublishedTable, f"table={name!r}: ") for name, table in tables.items()}


def _validated(content: Any, kind: Any, where: str = "publisher: ") -> Any:
    if isinstance(content, kind):
        return content
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise TableError(f"{where}{sentence(error, kind)}") from None


def _check(
    tables: Mapping[str, PublishedTable], schema: Any, publisher: Publisher | None, n: Any, seed: Any, max_model_mb: Any
) -> None:
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"the schema is a {type(schema).__name__}; pass one that `read_schema` or `build_schema` made"
        )
    for name, value, least in (("n", n, 1), ("seed", seed, 0)):
        if value is not None and not (
            isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= MOST_ROWS
        ):
            raise TableError(f"{name}={value!r} must be a whole number from {least} to {MOST_ROWS:.0e}")
    if not 0 < max_model_mb < math.inf:
        raise JobError(f"max_model_mb={max_model_mb!r} must be a positive number")
    if schema.status != "declared":
        raise SchemaError(
            f"status={schema.status!r} of the schema, and published tables need one that is declared; declare it"
        )
    if schema.counted is not schema or schema.spikes_measured:
        raise SchemaError(
            "published tables count columns as they are; leave `modeled` and `measure_spikes` out of the schema"
        )
    if schema.measured:
        raise SchemaError(
            f"columns={', '.join(schema.measured)} are to be measured, and published tables are of what is declared; "
            "declare their bounds or categories"
        )
    if publisher is not None and publisher.claims and all(table.mechanism == "none" for table in tables.values()):
        raise TableError(
            f"publisher {publisher.name!r} claims a loss, and no table has noise: nothing would keep it; correct one "
            "of the two"
        )


def _check_sums(tables: Sequence[Cells], n: int | None, total: float) -> None:
    """Each table counts all rows: sums that differ by more than their noise are of other rows, or `n` is wrong."""
    for each in tables:
        room = each.table.sigma * (OFF * math.sqrt(each.counts.size) + each.counts.size / 2)
        if abs(float(each.counts.sum()) - total) > room + 1:
            other = f"n={n:,}" if n is not None else f"all tables together, {total:,.0f}"
            raise TableError(
                f"table={each.name!r} sums to {each.counts.sum():,.0f}, and {other}: its noise does not explain it; "
                "correct n, the scale or the table, or leave the table out"
            )


def _total(tables: Sequence[Cells], counts: Sequence[Array]) -> float:
    """The number of rows: the sums of all tables averaged by their precision."""
    sums = [float(each.sum()) for each in counts]
    precisions = [1 / (each.counts.size * each.table.sigma**2) for each in tables]
    return max(float(np.average(sums, weights=precisions)), 1.0)


def _checked(known: Publication, fitted: MarkovRandomField, fit: Any, n: int | None, seed: int) -> list[Residuals]:
    """The residuals of each table and of all, those that are off most first."""
    rng = np.random.default_rng(seed)
    exact = [each.of_marginal(fitted.marginal(each.clique)) for each in known.tables]
    ours = _squares(known, [each.counts for each in known.tables], fitted)
    again = []
    for _ in range(N_AGAIN):
        counts = [true + each.table.noise(true.shape, rng) for each, true in zip(known.tables, exact, strict=True)]
        noisy = [
            replace(each, counts=own).measurement(known.domain) for each, own in zip(known.tables, counts, strict=True)
        ]
        total = float(n) if n is not None else _total(known.tables, counts)
        again.append(_squares(known, counts, fit(noisy, total=total)))
    left, told = np.mean(again, axis=0), np.mean(again, axis=0) >= FEWEST
    spread = [each.table.spread for each in known.tables]
    dof = left / np.array([*spread, max(spread)])
    ratio = ours / np.maximum(left, 1e-12)
    more = np.where(ratio > LEAST_MORE, f.sf(ratio / USUAL, dof, N_AGAIN * dof), 1.0)
    less = f.cdf(ratio, dof, N_AGAIN * dof)
    less[[i for i, each in enumerate(known.tables) if each.table.scale is None]] = 1.0  # exact counts may well agree
    p = np.where(told, np.minimum(more, less), 1.0)
    stated: list[dict[str, Any]] = [
        {"table": each.name, "columns": tuple(map(fine, each.clique)), "mechanism": each.table.mechanism,
         "scale": each.table.scale, "cells": each.counts.size}
        for each in known.tables
    ]  # fmt: skip
    stated.append({"table": TOGETHER, "cells": sum(each["cells"] for each in stated if each["scale"])})
    is_off = 2 * len(p) * p < FALSE_ALARMS
    off = np.where(is_off, np.where(more < less, "more", "less"), np.where(told, "as declared", "cannot be told"))
    noise = [float(each) if known else None for each, known in zip(np.sqrt(ratio), told, strict=True)]
    return [
        Residuals(**stated[i], left=float(left[i]), noise=noise[i], verdict=str(off[i]))
        for i in np.argsort(p, kind="stable")
    ]


def _squares(known: Publication, counts: Sequence[Array], fitted: MarkovRandomField) -> Array:
    """The sum of squared residuals of each table, in its declared standard deviations, and that of all with noise."""
    pairs = zip(known.tables, counts, strict=True)
    gaps = ((own - each.of_marginal(fitted.marginal(each.clique))) / each.table.sigma for each, own in pairs)
    squares = [float(np.square(gap).sum()) for gap in gaps]
    noisy = (square for each, square in zip(known.tables, squares, strict=True) if each.table.scale)
    return np.array([*squares, sum(noisy)])

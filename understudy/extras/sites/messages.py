"""Messages between the server and its sites: a line of JSON, then bytes.

A request names what is to be done. A query is a part of one: which counts are asked for, and which event pays.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from synth.domain import Discretizer
from synth.domain.counts import Coarsening, Counts, fine
from synth.domain.discretizer import MISSING, OTHER
from synth.errors import BadInput
from synth.generators.fitting.training_data import TrainingTable
from synth.output import whole_file
from synth.schema import Schema
from synth.validation import Frozen

MOST_CELLS, MOST_COLUMNS = 50_000_000, 3
"""Numbers of one answer at most (400 MB), and columns of one marginal."""


class SitesError(BadInput):
    """A request, a reply or a run of several sites is refused; no noise was drawn for it, and no sum was shown."""


def pack(content: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message: its content as one line of JSON, then its body.

    >>> unpack(pack({"task": "share"}, b"keys"))
    ({'task': 'share'}, b'keys')
    """
    return json.dumps(dict(content), separators=(",", ":")).encode() + b"\n" + body


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, body = message.partition(b"\n")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise SitesError("a message of several sites begins with a line of JSON, and this one does not; send it again")
    return content, body


class CountQuery(Frozen):
    """Counts that are asked for together, and the event that pays for them.

    The server sends the codes, which follow from what was released before. A count of any codes has the same
    sensitivity, so that a site need not trust them.
    """

    number: Annotated[int, Field(ge=0, strict=True, description="Place among all queries of the run.")]
    event: Annotated[int, Field(ge=0, strict=True, description="Place of the event in the schedule.")]
    kind: Literal["sizes", "cells", "cliques"]
    discretizer: dict[str, Any] | None = None
    groups: dict[str, list[int]] | None = None
    cliques: tuple[tuple[str, ...], ...] = ()

    task: ClassVar[str] = "mask"

    def counts(self, rows: TrainingTable, schema: Schema) -> list[NDArray[np.int64]]:
        """The exact counts at a site, of its rows with contributions bounded. *Sensitive*."""
        if self.kind == "sizes":
            return [rows.rows_per_entity()]
        if self.kind == "cells":
            return list(rows.cell_counts(Discretizer.by_schema(schema).attributes))
        return list(self._table(rows, schema).each(self.cliques))

    def _table(self, rows: TrainingTable, schema: Schema) -> Counts:
        try:
            discretizer = Discretizer.from_plain(self.discretizer or {}, schema)
            groups = {name: np.asarray(group, dtype=np.int64) for name, group in (self.groups or {}).items()}
            are_codes = all(_is_grouping(group, discretizer.sizes[name]) for name, group in groups.items())
            coarsening = Coarsening(groups)
            domain = coarsening.domain(discretizer.sizes)
            n_cells = sum(math.prod(domain[name] for name in clique) for clique in self.cliques)
        except (ValueError, TypeError, KeyError, OverflowError):
            are_codes, n_cells = False, 0
        n_columns = [(len({fine(name) for name in clique}), len(clique)) for clique in self.cliques]
        if not are_codes or not 0 < n_cells <= MOST_CELLS or any(not 1 <= a == b <= MOST_COLUMNS for a, b in n_columns):
            raise SitesError(
                "a query is refused, since its codes are not those of the schema's columns, or its marginals are not "
                f"of 1 to {MOST_COLUMNS} different columns and {MOST_CELLS:,} cells in all; correct the server"
            )
        return rows.coded(discretizer).coarse(coarsening)


Q = TypeVar("Q", bound=Frozen)


def read_query(content: Any, model: type[Q]) -> Q:
    try:
        return model.model_validate(content)
    except ValidationError:
        raise SitesError(
            "a query does not have the keys of one, or values of other types; correct the server"
        ) from None


def write_arrays(path: Path | None, **arrays: NDArray[Any]) -> None:
    """Write arrays to a file, whole and flushed to the disk; nothing where there is no file."""
    if path is not None:
        with whole_file(path) as beside, beside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())


def _is_grouping(group: NDArray[np.int64], size: int) -> bool:
    """True of a group for every code, from zero on without gaps, `other` and `missing` alone."""
    if group.shape != (size,) or group.min() != 0:
        return False
    last = int(group.max())
    whole = len(np.unique(group)) == last + 1 and group[OTHER] == last - 1 and group[MISSING] == last
    return bool(whole and (group == last).sum() == 1)

"""Messages between the server and its sites: a line of JSON, then bytes.

A request names what is to be done. A query is a part of one: which counts are asked for, and which event pays.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from synth.domain import Discretizer
from synth.domain.counts import Coarsening, Counts, fine
from synth.domain.discretizer import MISSING, OTHER
from synth.errors import BadInput
from synth.generators.fitting.training_data import TrainingTable
from synth.schema import Schema
from synth.validation import Frozen

Task = Literal["hello", "advertise", "share", "receive", "mask", "unmask", "train", "deliver", "done"]
"""A task that a site is given."""
MOST_CELLS = 50_000_000
"""Numbers of one answer at most: 400 MB."""
MOST_COLUMNS = 3
"""Columns of one marginal at most."""


class SitesError(BadInput):
    """A request, a reply or a run of several sites is refused; no noise was drawn for it, and no sum was shown."""


def pack(content: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message: its content as one line of JSON, then its body.

    >>> unpack(pack({"task": "share"}, b"keys"))
    ({'task': 'share'}, b'keys')
    """
    return json.dumps(dict(content), separators=(",", ":")).encode() + b"\n" + body


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    """The content and the body of a message."""
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

    @property
    def task(self) -> str:
        """A task that a site is given."""
        return "mask"

    def counts(self, rows: TrainingTable, schema: Schema) -> list[NDArray[np.int64]]:
        """The exact counts at a site. *Sensitive*.

        Args:
            rows: *Sensitive*. Of the site, contributions bounded.
        """
        if self.kind == "sizes":
            return [rows.rows_per_entity()]
        if self.kind == "cells":
            return list(rows.cell_counts(Discretizer.by_schema(schema).attributes))
        return list(self._table(rows, schema).each(self.cliques))

    def _table(self, rows: TrainingTable, schema: Schema) -> Counts:
        try:
            discretizer = Discretizer.from_plain(self.discretizer or {}, schema)
            groups = {name: np.asarray(group, dtype=np.int64) for name, group in (self.groups or {}).items()}
        except (ValueError, TypeError, KeyError, OverflowError):
            raise _refused("its codes are not those of the schema's columns") from None
        sizes = discretizer.sizes
        for name, group in groups.items():
            if name not in sizes or not _is_grouping(group, sizes[name]):
                raise _refused("its coarse codes are no grouping of a column's codes")
        coarsening = Coarsening(groups)
        domain = coarsening.domain(sizes)
        if not self.cliques:
            raise _refused("it asks for no marginal")
        for clique in self.cliques:
            columns = [fine(name) for name in clique]
            if (
                not 1 <= len(clique) <= MOST_COLUMNS
                or len(set(columns)) < len(columns)
                or not set(clique) <= set(domain)
            ):
                raise _refused(f"a marginal has 1 to {MOST_COLUMNS} different columns of the table")
        if sum(math.prod(domain[name] for name in clique) for clique in self.cliques) > MOST_CELLS:
            raise _refused(f"it asks for more than {MOST_CELLS:,} counts at once")
        return rows.coded(discretizer).coarse(coarsening)


def read_query(content: Any) -> CountQuery:
    """A query from plain data."""
    try:
        return CountQuery.model_validate(content)
    except ValidationError:
        raise _refused("it does not have the keys of a query, or values of other types") from None


def flat(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All counts in one vector, shape (n,)."""
    return np.concatenate([each.ravel() for each in counts]) if counts else np.zeros(0, dtype=np.int64)


def _is_grouping(group: NDArray[np.int64], size: int) -> bool:
    """True of a group for every code, from zero on without gaps, `other` and `missing` alone."""
    if group.shape != (size,) or group.min() != 0:
        return False
    last = int(group.max())
    whole = len(np.unique(group)) == last + 1 and group[OTHER] == last - 1 and group[MISSING] == last
    return bool(whole and (group == last).sum() == 1)


def _refused(reason: str) -> SitesError:
    return SitesError(f"a query is refused, since {reason}; correct the server")

"""A vendor's submission: its table as delivered, read within limits, and cut to the rows that all are compared on."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from evaluate.result import EvaluationError
from evaluate.sampling import MIN_TRAIN_ROWS, drawn_order, entity_codes
from reports.exports.csv import runs
from synth.errors import TableError
from synth.schema import Schema, build_schema
from synth.split import row_keys
from synth.table import conform
from synth.table.limits import SizeLimits
from understudy.hashed_table import read_digested

LEAST_SHARE = 0.1
"""Of the rows of train: a table with fewer is not compared, as it would cut all others down to its size."""


@dataclass(frozen=True)
class DeliveredTable:
    """The facts of a delivered table before it is measured.

    Attributes:
        name: of the vendor.
        path: the file.
        sha256: of the file.
        content: a digest of its rows, the same in another order, with other extra columns or in another format.
        n_rows: rows that were delivered.
        lacking: columns that the schema keeps and the table has not.
        extra: columns that the schema does not know.
        schema: with the columns that are lacking dropped.
        n_formulas: cells, headings among them, that a spreadsheet would run instead of showing them.
    """

    name: str
    path: Path
    sha256: str
    content: str
    n_rows: int
    lacking: tuple[str, ...]
    extra: tuple[str, ...]
    schema: Schema
    n_formulas: int = 0

    def read(self, limits: SizeLimits) -> pd.DataFrame:
        """The table as it was delivered.

        Raises:
            TableError: it is not the one that was looked at.
        """
        return read_digested(self.path, limits, self.sha256).frame


def look_at(name: str, path: Path, schema: Schema, limits: SizeLimits) -> DeliveredTable:
    """The facts of a file that a vendor delivered.

    Args:
        name: of the vendor.
        path: the file.
        schema: of the real table.
        limits: beyond which the file is not read.

    Raises:
        TableError: the file is no table, is too large, or has none of the schema's columns.
        SchemaError: no schema can be made of the columns that are there.
    """
    read = read_digested(path, limits)
    frame = read.frame
    lacking = tuple(column for column in schema.kept if column not in frame.columns)
    extra = tuple(str(column) for column in frame.columns if column not in schema.columns)
    if not set(schema.learned) - set(lacking):
        raise TableError(
            f"a table needs columns of the schema: path={str(path)!r} has none that is learned; rename its"
        )
    part = without(schema, lacking)
    rows = conform(frame, part, outside="clamp", part=True)
    content = hashlib.sha256(np.sort(row_keys(rows, sorted(part.kept))).astype("<u8").tobytes())
    content.update("\0".join(sorted(part.kept)).encode("utf-8", "surrogatepass"))
    return DeliveredTable(
        name, path, read.sha256, content.hexdigest(), len(frame), lacking, extra, part, formulas(frame, schema)
    )  # fmt: skip


def formulas(frame: pd.DataFrame, schema: Schema) -> int:
    """The number of cells, headings included, that a spreadsheet would run, without those that the schema lists.

    Args:
        frame: as it was delivered.
        schema: of the real table.
    """
    n = sum(runs(name) for name in map(str, frame.columns) if name not in schema.columns)
    for place, name in enumerate(frame.columns):
        cells = frame.iloc[:, place]
        if pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells):
            continue
        listed = set(map(str, getattr(schema.columns.get(str(name)), "categories", ())))
        counts = cells.map(str, na_action="ignore").value_counts()
        n += sum(int(count) for text, count in counts.items() if runs(str(text)) and text not in listed)
    return n


def without(schema: Schema, lacking: tuple[str, ...]) -> Schema:
    """The schema with some columns dropped, and out of every role and constraint.

    Raises:
        SchemaError: nothing consistent is left.
    """
    if not lacking:
        return schema
    content, gone = schema.model_dump(), set(lacking)
    for name in gone:
        content["columns"][name]["drop"] = True
    for role in ("sensitive", "quasi_identifiers", "constant_in_entity"):
        content[role] = tuple(name for name in content[role] if name not in gone)
    parties = (tuple(name for name in held if name not in gone) for held in content["parties"])
    content["parties"] = tuple(held for held in parties if held)
    content["target"] = None if schema.target in gone else schema.target
    if schema.entity in gone:
        content.update(entity=None, max_rows_per_unit=1, constant_in_entity=())
    rules = zip(schema.constraints, content["constraints"], strict=True)
    content["constraints"] = tuple(plain for rule, plain in rules if not gone & set(rule.columns))
    return build_schema(content)


def compared_rows(offers: list[DeliveredTable], n_train: int, asked: int | None) -> tuple[int, dict[str, str]]:
    """The number of rows compared of each table, and the reasons against tables that are too small, by name.

    Args:
        offers: tables that could be read.
        n_train: rows of train.
        asked: rows that were asked for; `None`: as many as the smallest table has.

    Raises:
        EvaluationError: more rows are asked for than train has, or fewer than attacks need; nothing was measured.
    """
    if asked is not None and not MIN_TRAIN_ROWS <= asked <= n_train:
        raise EvaluationError(f"rows={asked} is fewer than {MIN_TRAIN_ROWS} or more than train has; name another")
    least = asked if asked is not None else max(MIN_TRAIN_ROWS, int(np.ceil(LEAST_SHARE * n_train)))
    whose = f"the {asked:,} that were asked for" if asked is not None else f"{LEAST_SHARE:.0%} of what train has"
    few = {
        offer.name: f"it has {offer.n_rows:,} rows, fewer than {whose}; ask the vendor for more"
        for offer in offers
        if offer.n_rows < least
    }
    if asked is not None:
        return asked, few
    return min([n_train, *(offer.n_rows for offer in offers if offer.name not in few)]), few


def sampled(frame: pd.DataFrame, schema: Schema, n: int, seed: int) -> pd.DataFrame:
    """A seeded sample of a delivered table that depends on what its rows hold alone; whole entities, but for the last.

    Args:
        frame: as it was delivered.
        schema: of the columns that it has.
        n: rows to draw; all of them, in their order, where there are no more.
        seed: the same for all vendors.
    """
    if len(frame) <= n:
        return frame
    rows = conform(frame, schema, outside="clamp", part=True)
    order = drawn_order(row_keys(rows, sorted(schema.learned)), seed)
    if schema.entity is not None:
        codes = pd.factorize(entity_codes(rows, schema)[order])[0]
        order = order[np.argsort(codes, kind="stable")]
    return frame.iloc[np.sort(order[:n])].reset_index(drop=True)

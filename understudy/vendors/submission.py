"""A vendor's submission: what is asked for, what is claimed, and the table as delivered, read within limits."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from evaluate.options import EvaluationOptions
from evaluate.result import EvaluationError
from evaluate.sampling import MIN_TRAIN_ROWS, entity_codes
from reports.exports import runs
from synth.errors import JobError, TableError, nearest
from synth.row_hash import drawn_order
from synth.schema import Schema, build_schema
from synth.split import row_keys
from synth.table import conform
from synth.table.text_files import SizeLimits
from synth.table.translating import translate
from synth.validation import Frozen, read_toml, sentence
from understudy.data import read_digested

LEAST_SHARE = 0.1
"""Of the rows of train: a table with fewer is not compared, as it would cut all others down to its size."""


@dataclass(frozen=True)
class Asked:
    """Tables to compare beside one real table."""

    train: str | Path = field(repr=False)
    holdout: str | Path = field(repr=False)
    schema: Path
    tables: tuple[Path, ...]
    policy: str = "internal"
    labels: tuple[str, ...] | None = None
    claims: Path | None = None
    rows: int | None = None
    options: EvaluationOptions = field(default_factory=EvaluationOptions)

    def named(self) -> dict[str, Path]:
        if not self.tables:
            raise JobError("a comparison needs tables, and none is named; name the files that vendors delivered")
        names = self.labels if self.labels is not None else names_of(self.tables)
        if len(names) != len(self.tables):
            raise JobError(
                f"labels={len(names)} name tables={len(self.tables)}; give one label for each table, in order"
            )
        for name, n in Counter(name.casefold() for name in names).items():
            if n > 1 or not name.strip():
                raise JobError(f"label={name!r} does not name one table; give each table one of its own by --labels")
            if self.labels is not None and not (name.isprintable() and not {"/", "\\"} & set(name)):
                raise JobError(f"label={name!r} holds a slash or a character that does not print; choose another")
        for path in self.tables:
            # Be it a link that leads nowhere or what nobody may read: that is the vendor's fault.
            if "\0" in str(path) or not os.path.lexists(path):
                raise JobError(f"there is no table at path={str(path)!r}; check the name")
        return dict(zip(names, self.tables, strict=True))


def names_of(paths: Sequence[Path]) -> tuple[str, ...]:
    """A name for each file: without its ending, with its folder's name before it where two files share theirs.

    >>> names_of([Path("acme/table.csv"), Path("beta/table.csv.gz"), Path("gamma.parquet")])
    ('acme-table', 'beta-table', 'gamma')
    """
    stems = [re.sub(r"(?i)(?<=.)\.(csv|parquet|csv\.gz|parquet\.gz|gz)$", "", shown_name(path)) for path in paths]
    shared = {stem for stem, n in Counter(stem.casefold() for stem in stems).items() if n > 1}
    return tuple(
        f"{path.absolute().parent.name}-{stem}" if stem.casefold() in shared else stem
        for path, stem in zip(paths, stems, strict=True)
    )


def shown_name(path: Path) -> str:
    """The name of a file as text that prints, whatever bytes it is made of.

    >>> shown_name(Path(f"a{chr(0)}b.csv"))
    'a_b.csv'
    """
    return "".join(character if character.isprintable() else "_" for character in path.name)


class VendorClaim(Frozen):
    epsilon: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    delta: float | None = Field(default=None, ge=0, le=1)
    mechanism: str | None = Field(default=None, max_length=200)
    unit: str | None = Field(default=None, max_length=200, description="What one person's data is taken to be.")
    says: str | None = Field(default=None, max_length=2_000, description="Anything else, in the vendor's own words.")


def read_claims(path: Path, names: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The claims of vendors by name; what is not claimed is left out."""
    claims = {}
    for name, content in read_toml(path, "claims", JobError).items():
        if name not in names:
            raise JobError(f"the claims name vendor={name!r}, which is not here; {nearest(name, names)}")
        try:
            claims[name] = VendorClaim.model_validate(content).model_dump(exclude_none=True)
        except ValidationError as error:
            raise JobError(f"the claims of {name!r} cannot be used: {sentence(error, VendorClaim)}") from None
    return claims


@dataclass(frozen=True)
class DeliveredTable:
    name: str
    path: Path
    sha256: str
    content: str
    n_rows: int
    lacking: tuple[str, ...]
    extra: tuple[str, ...]
    schema: Schema
    n_formulas: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)

    def read(self, limits: SizeLimits) -> pd.DataFrame:
        return read_digested(self.path, limits, self.sha256)[0].rename(columns=self.renamed)


def other_spellings(names: Iterable[Any], schema: Schema) -> dict[str, str]:
    """By delivered name the lacking column that is meant: the same but for case, blanks, dots, dashes and underscores.
    Those between digits, and all but the first of several before one, are a part of a name ("dose 1.0", "lag_-1").

    >>> schema = build_schema({"status": "declared", "columns": {"hours.per.week": {"kind": "boolean"}}})
    >>> other_spellings(["Hours_per_week"], schema), other_spellings(["hours_per_week", "hours per week"], schema)
    ({'Hours_per_week': 'hours.per.week'}, {})
    """
    spelled: dict[str, tuple[list[str], list[str]]] = {}
    delivered = {str(name) for name in names}
    for name in sorted((delivered - {*schema.columns}) | ({*schema.kept} - delivered)):
        key = re.sub(r"[\s._-](?!\d)|(?<=[^\d\s._-])[\s._-](?=\d)", "", name).casefold() or name
        spelled.setdefault(key, ([], []))[name in schema.kept].append(name)
    return {theirs[0]: ours[0] for theirs, ours in spelled.values() if len(theirs) == len(ours) == 1}


def look_at(name: str, path: Path, schema: Schema, limits: SizeLimits) -> DeliveredTable:
    frame, sha256 = read_digested(path, limits)
    renamed = other_spellings(frame.columns, schema)
    frame = frame.rename(columns=renamed)
    lacking = tuple(column for column in schema.kept if column not in frame.columns)
    extra = tuple(str(column) for column in frame.columns if column not in schema.kept)
    if not set(schema.learned) - set(lacking):
        raise TableError(
            f"a table needs columns of the schema: path={str(path)!r} has none that is learned; rename its"
        )
    part = without(schema, lacking)
    rows = conform(translate(frame, part)[0], part, outside="clamp", part=True)
    content = hashlib.sha256(np.sort(row_keys(rows, sorted(part.kept))).astype("<u8").tobytes())
    content.update("\0".join(sorted(part.kept)).encode("utf-8", "surrogatepass"))
    n_formulas = formulas(frame, schema) + sum(map(runs, renamed))  # headings as delivered
    return DeliveredTable(
        name, path, sha256, content.hexdigest(), len(frame), lacking, extra, part, n_formulas, renamed
    )  # fmt: skip


def formulas(frame: pd.DataFrame, schema: Schema) -> int:
    """The number of cells, headings included, that a spreadsheet would run, without those that the schema lists."""
    n = sum(runs(name) for name in map(str, frame.columns) if name not in schema.columns)
    for position, name in enumerate(frame.columns):
        cells = frame.iloc[:, position]
        if pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells):
            continue
        listed = set(map(str, getattr(schema.columns.get(str(name)), "categories", ())))
        counts = cells.map(str, na_action="ignore").value_counts()
        n += sum(int(count) for text, count in counts.items() if runs(str(text)) and text not in listed)
    return n


def without(schema: Schema, lacking: tuple[str, ...]) -> Schema:
    """The schema with some columns dropped, and out of every role and constraint."""
    if not lacking:
        return schema
    content, gone = schema.model_dump(), set(lacking)
    for name in gone:
        content["columns"][name]["drop"] = True
    for role in ("sensitive", "quasi_identifiers", "constant_in_entity", "nondecreasing_in_entity"):
        content[role] = tuple(name for name in content[role] if name not in gone)
    parties = (tuple(name for name in party if name not in gone) for party in content["parties"])
    content["parties"] = tuple(party for party in parties if party)
    content["target"] = None if schema.target in gone else schema.target
    if schema.entity in gone:
        content.update(entity=None, max_rows_per_unit=1, constant_in_entity=())
    if gone & {schema.entity, schema.order}:
        content.update(order=None, nondecreasing_in_entity=())
    rules = zip(schema.constraints, content["constraints"], strict=True)
    content["constraints"] = tuple(plain for rule, plain in rules if not gone & set(rule.columns))
    return build_schema(content)


def compared_rows(offers: list[DeliveredTable], n_train: int, asked: int | None) -> tuple[int, dict[str, str]]:
    """The number of rows compared of each table, and the reasons against tables that are too small, by name."""
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
    """A seeded sample of a delivered table by what its rows hold alone; whole entities, but for the last."""
    if len(frame) <= n:
        return frame
    rows = conform(frame, schema, outside="clamp", part=True)
    order = drawn_order(row_keys(rows, sorted(schema.learned)), seed)
    if schema.entity is not None:
        codes = pd.factorize(entity_codes(rows, schema)[order])[0]
        order = order[np.argsort(codes, kind="stable")]
    return frame.iloc[np.sort(order[:n])].reset_index(drop=True)

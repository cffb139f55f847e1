"""The request for a comparison, and what vendors claim of their tables, which nobody has verified."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from evaluate.tables import N_TARGETS
from synth.errors import JobError, nearest
from synth.schema import Kind
from synth.table.conforming import Outside
from synth.validation import Frozen, read_toml, sentence


@dataclass(frozen=True)
class Asked:
    """Tables to compare beside one real table.

    Attributes:
        train: file of the real rows that every vendor was given.
        holdout: file of the real rows that none was given.
        schema: file of the schema.
        tables: files that vendors delivered.
        policy: a shipped policy's name, or a TOML file.
        labels: names of the vendors, in the order of tables; `None`: by the names of their files.
        claims: a TOML file of what vendors claim; `None` where there is none.
        seed: of every draw, the same for all.
        rows: of each table that are compared; `None`: as many as the smallest has, and as train has at most.
        measures: which to take; `None`: all.
        time_limit_s: seconds for each measure of each table; `None`: no limit.
        target: the column that models predict; `None`: the schema's.
        n_targets: rows of either side that attacks are tried on at most; `None`: every one.
        task: of the models that predict the target; `None`: the schema's, or by the target.
        outside: what to do with values of the real tables that do not fit the schema.
    """

    train: Path
    holdout: Path
    schema: Path
    tables: tuple[Path, ...]
    policy: str = "internal"
    labels: tuple[str, ...] | None = None
    claims: Path | None = None
    seed: int = 0
    rows: int | None = None
    measures: tuple[str, ...] | None = None
    time_limit_s: float | None = None
    target: str | None = None
    n_targets: int | None = N_TARGETS
    task: Kind | None = None
    outside: Outside = "refuse"

    def named(self) -> dict[str, Path]:
        """The tables by the names of their vendors.

        Raises:
            JobError: the names are not as many as the tables, or not different, or a path leads to nothing. That is a
                slip of whoever asks, and no fault of a vendor's file. Nothing was read.
        """
        if not self.tables:
            raise JobError("a comparison needs tables, and none is named; name the files that vendors delivered")
        names = self.labels if self.labels is not None else names_of(self.tables)
        if len(names) != len(self.tables):
            raise JobError(
                f"labels={len(names)} name tables={len(self.tables)}; give one label for each table, in order"
            )
        for name, n in Counter(name.casefold() for name in names).items():
            if n > 1 or not name.strip():
                raise JobError(f"label={name!r} does not name one table; give each table a label of its own")
            if self.labels is not None and not (name.isprintable() and not {"/", "\\"} & set(name)):
                raise JobError(f"label={name!r} holds a slash or a character that does not print; choose another")
        for path in self.tables:
            if not _is_there(path):
                raise JobError(f"there is no table at path={str(path)!r}; check the name")
        return dict(zip(names, self.tables, strict=True))


def _is_there(path: Path) -> bool:
    """True where anything goes by a path, be it a link that leads nowhere or what nobody may read."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL character
        return False


def names_of(paths: Sequence[Path]) -> tuple[str, ...]:
    """A name for each file: without its ending, with its folder's name before it where two files share theirs.

    >>> names_of([Path("acme/table.csv"), Path("beta/table.csv.gz"), Path("gamma.parquet")])
    ('acme-table', 'beta-table', 'gamma')
    """
    stems = [_stem(path) for path in paths]
    shared = {stem for stem, n in Counter(stem.casefold() for stem in stems).items() if n > 1}
    named = [
        f"{path.absolute().parent.name}-{stem}" if stem.casefold() in shared else stem
        for path, stem in zip(paths, stems, strict=True)
    ]
    seen: Counter[str] = Counter()
    numbered = []
    for name in named:
        seen[name.casefold()] += 1
        numbered.append(name if seen[name.casefold()] == 1 else f"{name}-{seen[name.casefold()]}")
    return tuple(numbered)


def shown_name(path: Path) -> str:
    """The name of a file as text that prints, whatever bytes it is made of.

    >>> shown_name(Path(f"a{chr(0)}b.csv"))
    'a_b.csv'
    """
    return "".join(character if character.isprintable() else "_" for character in path.name)


def _stem(path: Path) -> str:
    stem = shown_name(path)
    for ending in (".gz", ".csv", ".parquet"):
        stem = stem[: -len(ending)] if stem.lower().endswith(ending) and len(stem) > len(ending) else stem
    return stem


class VendorClaim(Frozen):
    """A vendor's claim about a table's privacy."""

    epsilon: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    delta: float | None = Field(default=None, ge=0, le=1)
    mechanism: str | None = Field(default=None, max_length=200)
    unit: str | None = Field(default=None, max_length=200, description="What one person's data is taken to be.")
    says: str | None = Field(default=None, max_length=2_000, description="Anything else, in the vendor's own words.")


def read_claims(path: Path, names: Mapping[str, Any]) -> dict[str, VendorClaim]:
    """The claims of vendors by name; what is not claimed is left out.

    Args:
        path: a TOML file with a table for each vendor.
        names: of all vendors.

    Raises:
        JobError: it cannot be read, names no vendor that is here, or holds something that is no claim.
    """
    found = {}
    for name, content in read_toml(path, "claims", JobError).items():
        if name not in names:
            raise JobError(f"the claims name vendor={name!r}, which is not here; {nearest(name, names)}")
        try:
            found[name] = VendorClaim.model_validate(content)
        except ValidationError as error:
            raise JobError(f"the claims of {name!r} cannot be used: {sentence(error, VendorClaim)}") from None
    return found

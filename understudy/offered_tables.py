"""The tables of an offer, in memory or where they are stored, with what identifies them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.tables import N_ROWS, N_TARGETS, Real
from synth.errors import JobError
from synth.schema import Schema
from synth.table import conform, read_table
from synth.table.limits import Limits
from understudy import provenance
from understudy.digested import check_same, read_digested
from understudy.real_rows import check_reached, opened
from understudy.real_table import Engine, RealTable, find_table

if TYPE_CHECKING:
    import pandas as pd

    from synth.stored import StoredTable


@dataclass(frozen=True)
class Given:
    """Where the tables of an offer are.

    Attributes:
        train: the real rows that the generator saw.
        holdout: the real rows that it did not see.
        synthetic: the tables to judge, by the names that they go by.
    """

    train: RealTable
    holdout: RealTable
    synthetic: Mapping[str, RealTable]

    @classmethod
    def of(cls, train: str, holdout: str, synthetic: tuple[str, ...], engine: Engine | None) -> "Given":
        """The tables that texts name: all of them are read where they are stored, if one is.

        Raises:
            TableError: there is no such table.
            JobError: a folder or a database is to be read into memory, or two synthetic tables share a name.
        """
        given = (train, holdout, *synthetic)
        found = [find_table(one, engine=engine) for one in given]
        if any(one.stored for one in found):
            found = [find_table(one, engine="stored") for one in given]
        names = {_name_of(one): one for one in found[2:]}
        if len(names) < len(synthetic):
            raise JobError("two synthetic tables have the same file name, and each goes by its own; rename one")
        return cls(found[0], found[1], names)

    @property
    def stored(self) -> bool:
        """Whether they stay where they are stored."""
        return self.train.stored


@dataclass(frozen=True)
class Laid:
    """The tables of an offer as measures take them.

    Attributes:
        real: *Sensitive*. The real side.
        synthetic: by name, as they were given.
        sha256: of the synthetic tables that are files, by the name that evidence gives them.
        prints: keyed fingerprints of the real rows.
    """

    real: Real
    synthetic: "Mapping[str, pd.DataFrame | StoredTable]"
    sha256: Mapping[str, str]
    prints: Mapping[str, str]


@contextmanager
def laid_out(
    given: Given, schema: Schema, *, seed: int, n_targets: int | None = N_TARGETS, n_rows: int | None = N_ROWS
) -> Iterator[Laid]:
    """The tables of an offer, as long as the block lasts.

    Raises:
        TableError: one cannot be read or does not fit the schema, or a synthetic file changed meanwhile.
    """
    key = provenance.fingerprint_key(provenance.key_path())
    terms: dict[str, Any] = {"seed": seed, "n_targets": n_targets, "n_rows": n_rows}
    if given.stored:
        with _where_stored(given, schema, key, terms) as laid:
            yield laid
        return
    train, holdout = (conform(read_table(one.file), schema, part=True) for one in (given.train, given.holdout))
    # As they were given, violations and all: how many rows are valid is one of the measures.
    read = {name: read_digested(one.file, Limits.beside(train)) for name, one in given.synthetic.items()}
    yield Laid(
        Real.prepare(train, holdout, schema, **terms),
        {name: table.frame for name, table in read.items()},
        {f"synthetic/{table.path.name}": table.sha256 for table in read.values()},
        provenance.fingerprints(train, holdout, schema, key),
    )


@contextmanager
def _where_stored(given: Given, schema: Schema, key: bytes, terms: Mapping[str, Any]) -> Iterator[Laid]:
    n_engines = 2 + len(given.synthetic)
    files = {name: Path(one.address) for name, one in given.synthetic.items() if not one.is_database}
    before = {name: provenance.sha256(path) for name, path in files.items()}
    with ExitStack() as until_the_end:

        def reached(table: RealTable) -> "StoredTable":
            return until_the_end.enter_context(opened(table.shared(n_engines)))

        train, holdout = reached(given.train), reached(given.holdout)
        yield Laid(
            Real.prepare_stored(train, holdout, schema, **terms),
            {name: reached(one) for name, one in given.synthetic.items()},
            {f"synthetic/{files[name].name}": sha256 for name, sha256 in before.items()},
            provenance.fingerprints(train, holdout, schema, key),
        )
        for side in (train, holdout):
            check_reached(side)
    for name, path in files.items():
        check_same(path, before[name])


def _name_of(table: RealTable) -> str:
    """What a synthetic table goes by: its file's or folder's name, or the table's name in its database.

    >>> _name_of(find_table("postgresql://host/database#offers.first"))
    'offers.first'
    """
    if table.is_database:
        return table.shown.rpartition("#")[2]
    path = Path(table.address)
    return path.name if path.is_dir() else path.name.removesuffix(".gz").removesuffix(path.suffix).removesuffix(".csv")

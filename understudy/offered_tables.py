"""The tables of an offer, in memory or where they are stored, with what identifies them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.tables import N_ROWS, N_TARGETS, SAMPLE_ROWS, Real
from synth.errors import JobError
from synth.schema import Schema
from synth.table import conform, read_table
from synth.table.conforming import Outside
from synth.table.limits import Limits
from understudy import provenance
from understudy.digested import changed, check_same, read_digested
from understudy.real_rows import check_reached, opened
from understudy.real_table import Engine, RealTable, find_table

if TYPE_CHECKING:
    import pandas as pd

    from synth.stored import StoredTable

CLAMPED = (
    "values of the real tables outside the schema were clamped, as --clamp asks; every number is about these tables as "
    "they were clamped"
)
"""Warning where real tables were clamped."""


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
    def of(
        cls, train: str, holdout: str, synthetic: tuple[str, ...], engine: Engine | None, *,
        memory_mb: int | None = None, threads: int | None = None,
    ) -> "Given":  # fmt: skip
        """The tables that texts name: all of them are read where they are stored, if one is.

        Raises:
            TableError: there is no such table.
            JobError: a folder or a database is to be read into memory, two synthetic tables share a name, or an engine
                is told what it may take that is not used.
        """
        given = (train, holdout, *synthetic)
        if any(find_table(one, engine=engine).stored for one in given):
            engine = "stored"
        found = [find_table(one, engine=engine, memory_mb=memory_mb, threads=threads) for one in given]
        names = {_name_of(one): one for one in found[2:]}
        if len(names) < len(synthetic):
            raise JobError("two synthetic tables have the same file name, and each goes by its own; rename one")
        return cls(found[0], found[1], names)

    @property
    def stored(self) -> bool:
        """Whether they stay where they are stored."""
        return self.train.stored


@dataclass(frozen=True)
class Draws:
    """How rows are drawn.

    Attributes:
        seed: of every draw.
        n_targets: rows of either side that attacks are tried on at most; none: every one.
        n_rows: rows of each table that marginal fidelity compares at most; none: all.
        sample_rows: rows of either real side that are drawn at most where tables stay stored.
        outside: what to do with values of the real tables that do not fit the schema.
    """

    seed: int
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    sample_rows: int = SAMPLE_ROWS
    outside: Outside = "refuse"

    @property
    def terms(self) -> dict[str, Any]:
        """As measures of tables in memory take them."""
        return {"seed": self.seed, "n_targets": self.n_targets, "n_rows": self.n_rows, "outside": self.outside}


@dataclass(frozen=True)
class Laid:
    """The tables of an offer as measures take them.

    Attributes:
        real: *Sensitive*. The real side.
        synthetic: by name, as they were given.
        sha256: of the synthetic tables that are files, by the name that evidence gives them.
        prints: keyed fingerprints of the real rows, and of synthetic ones in a database.
    """

    real: Real
    synthetic: "Mapping[str, pd.DataFrame | StoredTable]"
    sha256: Mapping[str, str]
    prints: Mapping[str, str]


@contextmanager
def laid_out(given: Given, schema: Schema, draws: Draws) -> Iterator[Laid]:
    """The tables of an offer, as long as the block lasts.

    Raises:
        TableError: one cannot be read or does not fit the schema, or a synthetic table changed meanwhile.
    """
    key = provenance.fingerprint_key(provenance.key_path())
    if given.stored:
        with _where_stored(given, schema, key, draws) as laid:
            yield laid
        return
    train, holdout = (
        conform(read_table(one.file), schema, outside=draws.outside, part=True) for one in (given.train, given.holdout)
    )
    # As they were given, violations and all: how many rows are valid is one of the measures.
    read = {name: read_digested(one.file, Limits.beside(train)) for name, one in given.synthetic.items()}
    yield Laid(
        Real.prepare(train, holdout, schema, **draws.terms),
        {name: table.frame for name, table in read.items()},
        {f"synthetic/{table.path.name}": table.sha256 for table in read.values()},
        provenance.fingerprints(train, holdout, schema, key),
    )


@contextmanager
def _where_stored(given: Given, schema: Schema, key: bytes, draws: Draws) -> Iterator[Laid]:
    # One for each table at most, and where both real sides are in databases one where tables may meet.
    n_engines = 2 + len(given.synthetic) + (given.train.is_database and given.holdout.is_database)
    files = {name: Path(one.address) for name, one in given.synthetic.items() if not one.is_database}
    before = {name: provenance.sha256(path) for name, path in files.items()}
    with ExitStack() as until_the_end:

        def reached(table: RealTable) -> "StoredTable":
            return until_the_end.enter_context(opened(table.shared(n_engines)))

        train, holdout = reached(given.train), reached(given.holdout)
        synthetic = {name: reached(one) for name, one in given.synthetic.items()}
        # Rows in a database are in no file: their content names them.
        rows = {name: table for name, table in synthetic.items() if name not in files}
        prints = {name: provenance.fingerprint(table, schema, key) for name, table in rows.items()}
        yield Laid(
            Real.prepare_stored(train, holdout, schema, sample_rows=draws.sample_rows, **draws.terms),
            synthetic,
            {f"synthetic/{files[name].name}": sha256 for name, sha256 in before.items()},
            {
                **provenance.fingerprints(train, holdout, schema, key),
                **{f"synthetic/{name}": found for name, found in prints.items()},
            },
        )
        for side in (train, holdout):
            check_reached(side)
        for name, table in rows.items():
            if provenance.fingerprint(table, schema, key) != prints[name]:
                raise changed(given.synthetic[name].shown)
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

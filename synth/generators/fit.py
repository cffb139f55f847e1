"""`synth.fit`: from a table alone, or with what is public about it, to a fitted model."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synth.declare import assertions, declare_schema, measurable, unconfirmed
from synth.dp.budget import Budget
from synth.errors import BudgetError, JobError, SchemaError, nearest
from synth.generators.base import Generator, PrivateGenerator, cautions, compose, fit_model
from synth.generators.models.model import FramedModel, Model
from synth.generators.outlook import doubt
from synth.generators.registry import generator as specification
from synth.generators.registry import names
from synth.infer import infer_schema
from synth.progress import Progress, quiet, show, shown
from synth.schema import Schema, build_schema
from synth.schema.kinds.number import INT64, exactly_up_to
from synth.table import Table
from synth.table.rows import Rows
from synth.table.table import as_they_are


def fit(
    real: Any,
    schema: Schema | Generator | str | None = None,
    generator: Generator | str | None = None,
    *,
    n_units: int | None = None,
    public: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **parameters: Any,
) -> Model:
    """A fitted generator: `fit(real)`, `fit(real, "trees")`, `fit(real, schema)` or `fit(real, schema, "trees")`.

    Args:
        real: *Sensitive*. Rows to learn from: a frame of pandas, polars, Arrow, DuckDB, Ibis, Spark or Dask, a dict of
            columns, the path of a file or a folder, or the address of a table in a database. `synth.split_table` keeps
            a holdout apart first; before a fit with `epsilon` with `private=True`, since another split makes every
            row's side depend on all others, and the guarantee then holds for these rows but not for the table that they
            were split from. Samples are frames of the same kind.
        schema: what is public about them; declared, where `epsilon` is set. Left out, it is inferred and shown, on
            standard error or in the notebook; the model has it as `schema`. A generator may stand here in its place.
        generator: its name, or what `synth.generator` gives; left out: `auto`, the one that public facts choose.
        n_units: with `epsilon` and without a schema: the units there may be at most, a public number.
        public: likewise: limits that everybody may know, a range or a list of categories by column, such as
            `{"age": (0, 120), "sex": ["f", "m"]}`. All other limits of what is learned are measured under the budget.
            Whoever gives both asserts all that a call without them lists: kinds, dtypes, decimals, which columns may
            be missing and how cells are written are read off the rows exactly, and epsilon does not cover them.
        seed: for everything but the noise of a private fit.
        progress: told what is being done; `None`: a bar in a notebook, nothing elsewhere; `synth.quiet`: nothing, nor
            is an inferred schema shown.
        parameters: of the generator, such as `epsilon=1.0`.

    Raises:
        BadInput: a parameter, the schema or the table cannot be used; nothing was fitted.
    """
    if isinstance(schema, str | Generator):
        if generator is not None:
            raise JobError(
                f"schema={schema!r} stands where a schema belongs; write fit(real, schema, generator), read a schema "
                "file by `synth.read_schema`, and give parameters by their names"
            )
        schema, generator = None, schema
    _check(real, schema, generator, seed)
    if isinstance(generator, Generator) and parameters:
        more = min(parameters)
        raise JobError(f"{generator.name!r} has its parameters, and {more!r} is one more; give all in one place")
    chosen = generator if isinstance(generator, Generator) else specification(generator or "auto", **parameters)
    table = real if isinstance(real, Rows) else Table.of(real)
    if schema is not None and (n_units, public) != (None, None):
        raise JobError("a schema says n_units and what is public; leave n_units and public out, or the schema")
    if not chosen.promises and (n_units, public) != (None, None):
        raise JobError("n_units and public are what a private fit asserts, and there is no epsilon; set one")
    if schema is None and chosen.promises:
        schema, asserted = _declared(Table.of(table), n_units, public)
        # Before the fit, and also where all else is quiet: nothing counts as asserted that was not shown.
        show("\n".join(["By n_units and public you assert, and epsilon does not cover:", *asserted]))
    elif schema is None:
        schema = infer_schema(table)
        if progress is not quiet:
            show(schema)
    chosen = compose(chosen, schema)
    schedule = chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None
    for sentence in filter(None, (*cautions(chosen, schema), doubt(chosen, schema, schedule))):
        warnings.warn(sentence, stacklevel=2)
    paid = {} if schedule is None else {"budget": Budget(schedule)}  # so that noise is calibrated once
    with shown(progress) as tell:
        model = fit_model(chosen, table, schema, seed=seed, progress=tell, **paid)
    return model if isinstance(table, Rows) or table.back is as_they_are else FramedModel(model, table.back)


def _check(real: Any, schema: Any, generator: Any, seed: Any) -> None:
    """Refuse what is plainly something else."""
    if isinstance(real, Schema | Generator) or (isinstance(real, str) and real in names()):
        kind, meant = ("generator's name", repr(real)) if isinstance(real, str) else (type(real).__name__, "...")
        raise JobError(f"real is a {kind}, and the table comes first: fit(real, {meant})")
    if isinstance(generator, str | Path) and str(generator).endswith(".toml"):
        raise JobError(f"{generator!r} is a file; read a schema by `synth.read_schema`")
    for name, value, kinds, remedy in (
        ("schema", schema, Schema, "pass what synth.infer_schema or read_schema gives, or leave it out"),
        ("generator", generator, Generator | str, "pass a name, such as 'trees', or what synth.generator gives"),
    ):
        if not isinstance(value, kinds | None):
            raise JobError(f"{name} is a {type(value).__name__}; {remedy}")
    check_seed(seed)


def check_seed(seed: Any) -> None:
    if type(seed) is not int or seed < 0:
        is_shown = isinstance(seed, int | float | str)  # no cell of a table
        words = f"seed={seed!r} must be" if is_shown else f"seed is a {type(seed).__name__}; give"
        raise JobError(f"{words} a whole number from 0")


def _declared(table: Table, n_units: int | None, public: Mapping[str, Any] | None) -> tuple[Schema, list[str]]:
    """A schema that the caller declares by `n_units` and `public`, and what is asserted by it, line by line.

    Limits that these do not name are measured. Kinds, and forms of cells and identifiers, are read off the table, and
    are among the lines. `table`: *Sensitive*.
    """
    if not isinstance(public, Mapping | None):
        raise SchemaError(f"public is a {type(public).__name__}; write limits by column, as {{'age': (0, 120)}}")
    limits = dict(public or {})
    for name in limits:
        if name not in table.names:
            raise SchemaError(f"public={name!r} is not a column; {nearest(name, table.names)}")
    listed = {name: "categorical" for name, values in limits.items() if isinstance(values, list)}
    # Constraints and models that are proposed list values of the table, which nobody asserts.
    proposed = infer_schema(table, constraints=False, propose_order=False, kinds=listed)
    if proposed.entity is not None:
        raise BudgetError(
            f"column={proposed.entity!r} seems to name units of several rows each, and a person has to say how many of "
            "these a private fit may use; correct what `synth.infer_schema` proposes, and declare it by "
            "`synth.declare_schema`"
        )
    # Whether values may be missing stays as it was read off, and is shown: were it allowed everywhere, noise on the
    # counts of missing cells would empty cells, many of a small table, in columns where none is.
    columns = {name: _without_ends(column, n_units) for name, column in proposed.columns.items()}
    for name, values in limits.items():
        column = proposed.columns[name]
        if column.drop or column.domain != ("categories" if isinstance(values, list) else "bounds"):
            raise SchemaError(
                f"public={name!r} is of kind {column.kind}: a number or a time has a range, as (0, 120), categories "
                "are a list, and nothing else has limits; correct it"
            )
        columns[name] = {**column.to_measure(), "measure": False, "whole_numbers": False, column.domain: values}
        if not column.is_categorical:
            del columns[name]["whole_numbers"]
    proposed = build_schema({**dict(proposed), "columns": columns})
    measure = [name for name in measurable(proposed) if name not in limits]
    declared = declare_schema(proposed, n_units=n_units, measure=measure)
    read_off = [(name, words) for name, words in unconfirmed(proposed, declared) if name not in limits]
    asserted = [f"  {subject}: {words}" for subject, words in (*assertions(declared), *read_off)]
    if n_units is None or public is None:
        lacking = " and ".join(
            f"{name}=None" for name, value in (("n_units", n_units), ("public", public)) if value is None
        )
        error = BudgetError(
            f"a private fit needs a declared schema, and takes nothing for public that nobody asserts: {lacking}; "
            "write fit(..., n_units=NUMBER, public={COLUMN: LIMITS}), with public={} where no limits are public, by "
            "which you assert what is listed below; or pass what `synth.declare_schema` gives"
        )
        for line in asserted:
            error.add_note(line)
        raise error
    return declared, asserted


def _without_ends(column: Any, n_units: int | None) -> dict[str, Any]:
    """The fields of a column; of whole numbers that name rows the length stays, not the least and greatest, and of
    personal data not whether two rows hold the same.
    """
    content = dict(column)
    if column.is_personal:
        content["unique"] = False
    if column.is_identifier and column.bounds is not None:
        room = 10 * n_units if isinstance(n_units, int) else 0  # to draw as many anew
        n_digits = max(len(str(abs(number))) for number in (*column.bounds, room))
        most = int(min(INT64[1], exactly_up_to(column.dtype or "int64"), 10**n_digits - 1))
        content["bounds"] = (-most if column.bounds[0] < 0 else 0, most)
    return content

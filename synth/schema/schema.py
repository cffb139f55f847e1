"""The schema of a table, its public facts: columns, kinds, bounds, categories, keys and the privacy unit.

An *inferred* schema was proposed from the data by `synth.infer_schema`, so nothing in it may be assumed public. Of a
*declared* one, somebody asserts that all of it is public. Private fits accept declared schemas only.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from synth.constraints import Constraint, Dependency, Formula, Inequality, Steps, Unique, check, equivalents
from synth.constraints.kinds import dependencies, in_order
from synth.errors import SchemaError, nearest
from synth.progress import html_table, text_table
from synth.schema.kinds import KINDS, AnyColumn, Column
from synth.schema.kinds.base import TaskKind
from synth.schema.residual_schema import MissingPair, check_modeled, counted, modeled_in
from synth.validation import Frozen, is_plain, refuse, require_plain, sentence

MOST_LEVELS = 8  # categories of a column that are shown; the rest is counted
FORMAT = 1  # version of the schema file; a newer one is refused


class Schema(Frozen):
    """The public facts about one table. Constructing a schema checks it; nothing inconsistent exists."""

    format: Literal[1] = 1
    status: Literal["inferred", "declared"] = Field(
        description="Read off a table, or declared public by somebody: a private fit takes no other."
    )
    dataset: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="Name under which a ledger keeps the budget of all versions and extracts of the table.",
    )
    n_units: int | None = Field(default=None, ge=1, description="Slots for units of privacy: public, never counted.")
    max_rows_per_unit: int = Field(default=1, ge=1, description="Rows of one entity that a private fit uses at most.")
    target: str | None = Field(default=None, description="Column that a model would predict.")
    task: TaskKind | None = Field(
        default=None, description="How models predict the target; left out: by its kind and how many values it has."
    )
    sensitive: tuple[str, ...] = Field(default=(), description="Columns that an attacker wants to learn of somebody.")
    quasi_identifiers: tuple[str, ...] = Field(default=(), description="Columns that an attacker may know of somebody.")
    parties: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Sets of columns that different parties hold of the same people."
    )
    entity: str | None = Field(default=None, description="Identifier column that names the unit of privacy.")
    constant_in_entity: tuple[str, ...] = Field(
        default=(), description="Columns that hold one value in all rows of an entity, as a public fact."
    )
    order: str | None = Field(
        default=None,
        description="Column by which rows of an entity follow each other: a date, a time, a number or an identifier.",
    )
    nondecreasing_in_entity: tuple[str, ...] = Field(
        default=(), description="Numbers and times that never fall from one row of an entity to the next."
    )
    missing_values: tuple[str, ...] = Field(default=("",), description="Texts that stand for a missing value in CSV.")
    columns: dict[str, Column]
    constraints: tuple[Constraint, ...] = Field(default=(), description="What holds in every row, as public facts.")
    _missing_pairs: tuple[MissingPair, ...] = PrivateAttr(default=())

    def __repr__(self) -> str:
        """The schema in one line; printed, it says one for each column."""
        units = "" if self.n_units is None else f", {self.n_units:,} units"
        target = "" if self.target is None else f", target {self.target!r}"
        n = len(self.constraints)
        constraints = f", {n} constraint{'s' * (n > 1)}" if n else ""
        return f"<Schema {self.status}: {len(self.kept)} columns{units}{target}{constraints}>"

    def __str__(self) -> str:
        """The schema with a line for each column."""
        rows = ((*cells, ", ".join(filter(None, notes))) for *cells, notes in self._rows())
        return f"{repr(self).strip('<>')}\n{text_table(rows)}"

    def _repr_html_(self) -> str:
        """The schema as a table of its columns, for a notebook."""
        rows = ((*cells, *notes) for *cells, notes in self._rows())
        return html_table(repr(self).strip("<>"), ("column", "kind", "domain", "missing", "role"), rows)

    def _rows(self) -> Iterator[tuple[str, str, str, tuple[str, str]]]:
        """Each column with its kind, its domain in words, and whether it may be missing and its role."""
        roles = {self.target: "target", self.entity: "unit of privacy", self.order: "order"}
        roles |= {name: "sensitive" for name in self.sensitive if name not in roles}
        for name, column in self.columns.items():
            words = "left out" if column.drop else "measured" if column.is_measured else column.domain_words
            levels = getattr(column, "categories", ())
            if levels and not (column.drop or column.is_measured):
                shown = ", ".join(map(str, levels[:MOST_LEVELS]))
                words = shown if len(levels) <= MOST_LEVELS else f"{words}: {shown}, ..."
            yield name, column.kind, words, ("may be missing" if column.missing else "", roles.get(name, ""))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        require_plain("missing_values", self.missing_values)
        refuse(self._column_rules())
        refuse(self._role_rules())
        check(self.constraints, self.columns)
        refuse(self._history_rules())
        refuse(self._key_rules())
        check_modeled(self)
        return self

    def _column_rules(self) -> Iterator[tuple[object, str]]:
        """What is broken, and the sentence on it; each is asked where all before it are kept."""
        yield (
            self.dataset is not None and (not self.dataset.isprintable() or self.dataset != self.dataset.strip()),
            "dataset holds characters that do not print, or spaces at its ends; leave them out",
        )
        yield not self.columns, "a schema needs at least one column"
        yield "" in self.columns, "a column name is empty; name every column"
        for name, column in self.columns.items():
            yield (
                not is_plain(name),
                f"a column name holds no NUL character and no half of a surrogate pair: column={name!r} does; rename "
                "it",
            )
            for other in getattr(column, "rises_with", None) or ():
                is_learned = other in self.columns and self.columns[other].is_learned
                yield not is_learned, f"column={name!r} rises with {other!r}, which is no learned column; take it out"
            yield (
                not {"", *self.missing_values}.isdisjoint(column.spellings),
                f"column={name!r} lists a text that stands for a missing value (the empty one, or one of "
                "missing_values); set missing = true for the column and take the text off its list",
            )
        for source, names in self.written.items():
            parts = [part for name in names if (part := self.columns[name].part) is not None]
            forms, places = {part.form for part in parts}, sorted(part.place for part in parts)
            is_whole = len(parts) == len(names) and len(forms) == 1 and places == [*range(min(forms).count("{}"))]
            yield (
                parts and not is_whole,
                f"columns={list(names)} are parts of column={source!r}, which has one form, and one of them for each "
                "{} of it; correct part in the schema, or drop all of them",
            )

    def _role_rules(self) -> Iterator[tuple[object, str]]:
        roles = [("target", self.target), ("entity", self.entity), ("order", self.order)]
        for role in ("sensitive", "quasi_identifiers", "constant_in_entity", "nondecreasing_in_entity"):
            roles += [(role, name) for name in getattr(self, role)]
        roles += [("parties", name) for names in self.parties for name in names]
        yield not all(self.parties), "a set in parties is empty; name the columns that the party holds, or leave it out"
        for role, name in roles:
            if name is not None and name not in self.columns:
                raise ValueError(f"{role}={name!r} is not a column; {nearest(name, self.columns)}")
            dropped = name is not None and self.columns[name].drop
            yield dropped, f"{role}={name!r} is dropped; keep the column or choose another"
        if self.entity is None:
            for key in ("max_rows_per_unit", "constant_in_entity", "order", "nondecreasing_in_entity"):
                is_set = getattr(self, key) != type(self).model_fields[key].default
                yield is_set, f"{key} needs an entity; name the entity column or leave it out"
        else:
            entity = self.columns[self.entity]
            yield not entity.is_identifier, f"entity={self.entity!r} must be of kind identifier"
            yield entity.missing, f"entity={self.entity!r} may not be missing; give every row its entity"
        for name in self.constant_in_entity:
            yield (
                name not in self.learned and not self.columns[name].is_personal,
                f"constant_in_entity={name!r} is an identifier or text; choose columns that are learned or personal",
            )
        yield (
            self.target is not None and self.target not in self.learned,
            f"target={self.target!r} is an identifier, personal or text; choose a column that is learned",
        )
        if self.task is None:
            return
        if self.target is None:
            raise ValueError(f"task={self.task!r} needs a target; name the column that a model would predict")
        target, is_regression = self.columns[self.target], self.task == "regression"
        yield (
            self.task not in target.tasks,
            f"task={self.task!r} needs {'numbers or times' if is_regression else 'classes'}: target={self.target!r} is "
            f"of kind {target.kind}; leave task out, or declare the column as "
            f"{'integer or real' if is_regression else 'categorical'}",
        )

    def _history_rules(self) -> Iterator[tuple[object, str]]:
        """Of the order of an entity's rows, and the columns that never fall in it."""
        yield (
            self.nondecreasing_in_entity and self.order is None,
            "nondecreasing_in_entity needs an order; name the column by which rows follow each other",
        )
        growing = [("nondecreasing_in_entity", name) for name in self.nondecreasing_in_entity]
        for role, name in growing if self.order is None else [("order", self.order), *growing]:
            column, what = self.columns[name], f"{role}={name!r}"
            orders_alone = role == "order" and column.is_identifier and name != self.entity
            yield (
                not orders_alone and (name not in self.modeled or not column.is_quantity),
                f"{what} has no values that follow each other: it is of kind {column.kind}, or computed; name a date, "
                "a time or a number",
            )
            yield column.missing, f"{what} may not be missing; fill it in, or name another column"
            yield (
                name in self.constant_in_entity,
                f"{what} is in constant_in_entity, too; take it out of one of the two",
            )
        yield (
            self.order in self.nondecreasing_in_entity,
            f"order={self.order!r} never falls by itself; take it out of nondecreasing_in_entity",
        )

    def _key_rules(self) -> Iterator[tuple[object, str]]:
        """Of constraints, what rests on the status, the order and the entity."""
        with_entity = 0
        for position, key in enumerate(self.constraints):
            where = f"constraints.{position}"
            yield (
                key.proposed is not None and self.status == "declared",
                f"{where} is a proposal, and a declared schema holds none; take its key proposed out, which asserts "
                "the constraint, or the constraint as a whole",
            )
            yield (
                isinstance(key, Steps) and self.order is None,
                f"{where}: steps are from row to row, and the schema names no order; name it",
            )
            if not isinstance(key, Unique):
                continue
            for name in key.columns:
                yield (
                    self.columns[name].is_identifier and name != self.entity,
                    f"{where}: column={name!r} is of kind identifier, which never repeats by itself; take it out of "
                    "the key",
                )
            yield (
                key.columns == (self.entity,),
                f"{where}: an entity may have several rows, so that column={self.entity!r} repeats; name the columns "
                "that tell its rows apart, too",
            )
            with_entity += self.entity in key.columns
            yield (
                with_entity > 1,
                f"{where} is a second key with entity={self.entity!r}, and rows are dealt to entities for one key; "
                "keep one",
            )

    @property
    def unit(self) -> str:
        """The unit of privacy, as statements and ledgers name it: "row", or the entity column's name."""
        return "row" if self.entity is None else self.entity

    @property
    def growing(self) -> tuple[str, ...]:
        """Names of the modeled columns that never fall within an entity: the order, and those that go along with it."""
        named = {self.order, *self.nondecreasing_in_entity}
        return tuple(name for name in self.modeled if name in named)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the columns that a synthetic table has, in order."""
        return tuple(name for name, column in self.columns.items() if not column.drop)

    @property
    def written(self) -> dict[str, tuple[str, ...]]:
        """The columns that the table has, in order, each with the kept ones whose values stand in its cells."""
        written = dict[str, tuple[str, ...]]()
        for name in self.kept:
            part = self.columns[name].part
            source = name if part is None else part.column
            written[source] = (*written.get(source, ()), name)
        return written

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the kept columns that generators learn: all but identifiers, personal data and text."""
        return tuple(name for name in self.kept if self.columns[name].is_learned)

    @property
    def unlearned(self) -> tuple[str, ...]:
        """Names of the columns that are left out, written anew or free text, but for the entity."""
        return tuple(name for name in self.columns if name not in self.learned and name != self.entity)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the kept columns of free text: a language model writes them, given the learned columns of a row."""
        return tuple(name for name in self.kept if self.columns[name].is_text)

    @property
    def counted(self) -> "Schema":
        """The schema of what is counted and learned: itself, unless a column is `modeled`.

        A modeled column is there as what is left of its formula, with columns beside it where that does not say all
        (`residual_schema`); columns that formulas compute are not there.
        """
        if not modeled_in(self):
            return self
        if "_counted" not in self.__dict__:
            self.__dict__["_counted"] = counted(self)
        known: Schema = self.__dict__["_counted"]
        return known

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied.__dict__.pop("_counted", None)  # it may be given other columns
        return copied

    @property
    def missing_pairs(self) -> tuple[MissingPair, ...]:
        """Pairs of counted columns of which one is missing as the other says, or is not."""
        return self._missing_pairs

    def with_missing_pairs(self, pairs: tuple[MissingPair, ...]) -> Self:
        changed = self.model_copy()
        changed._missing_pairs = tuple(pair for pair in pairs if {*pair.columns} <= self.columns.keys())
        return changed

    @property
    def worked_out(self) -> Mapping[str, Any]:
        """Formulas and what columns are modeled as, by the columns that they give, those first that others need."""
        named: dict[str, Any] = dict(modeled_in(self))
        named |= {each.column: each for each in self.constraints if isinstance(each, Formula)}
        return {name: named[name] for name in in_order({name: each.parents for name, each in named.items()})}

    @property
    def modeled(self) -> tuple[str, ...]:
        """Names of the learned columns that are not computed: what a generator counts and measures, in order."""
        computed = {constraint.column for constraint in self.constraints if isinstance(constraint, Formula)}
        computed |= self.equivalents.keys()
        return tuple(name for name in self.learned if name not in computed)

    @property
    def equivalents(self) -> Mapping[str, Dependency]:
        """For each column that another one determines and is determined by, that dependency: it is computed."""
        compared = [name for each in self.constraints if isinstance(each, Inequality) for name in each.columns]
        named = (self.target, *self.sensitive, self.order, *self.nondecreasing_in_entity, *compared)
        first = [name for name in named if name is not None]
        stated = [each for each in self.constraints if modeled_in(self).keys().isdisjoint(each.columns)]
        return equivalents(stated, self.columns, first, self.constant_in_entity)

    @property
    def dependencies(self) -> list[Dependency]:
        """Modeled columns that determine other modeled ones, each after those that determine it."""
        return dependencies(self.constraints, self.equivalents)

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the modeled columns whose bounds or categories are not declared but measured, in order."""
        return tuple(name for name in self.modeled if self.columns[name].is_measured)

    @property
    def spikes_measured(self) -> tuple[str, ...]:
        """Names of the modeled numbers whose frequent values are not declared but measured, in order."""
        return tuple(name for name in self.modeled if self.columns[name].measures_spikes)

    def refuse_unlearned(self) -> None:
        """Refuse free text that nothing learns: of a generator without a language model around it."""
        self.refuse_text()
        if self.texts:
            raise SchemaError(
                f"column={self.texts[0]!r} is free text to be learned, and the generator has no option text; set "
                'text = "lm", or drop = true for the column'
            )

    def refuse_text(self) -> None:
        """Refuse free text that is kept and not to be learned.
        Raises SchemaError: there is such a column; nothing was fitted.
        """
        for name in self.texts:
            if not self.columns[name].learn:
                raise SchemaError(
                    f"free text is learned where its column says so: column={name!r} is of kind text; set learn = true "
                    'for it, drop = true, or kind = "personal" and personal = "text" for placeholder sentences'
                )


def build_schema(content: Mapping[str, Any]) -> Schema:
    """A schema from plain data, as a schema file holds it.

    >>> build_schema({"status": "declared", "columns": {"age": {"kind": "integer", "bounds": [0, 120]}}}).learned
    ('age',)
    """
    version = content.get("format", FORMAT)
    if version != FORMAT:
        raise SchemaError(f"this version reads schemas of format={FORMAT}, not format={version!r}; upgrade understudy")
    try:
        return Schema.model_validate(dict(content))
    except ValidationError as error:
        raise SchemaError(sentence(error, Schema)) from None


def register(kind: type[AnyColumn]) -> None:
    """Add a column kind of your own, before schemas that name it are read."""
    KINDS[kind.model_fields["kind"].default] = kind
    Schema.model_rebuild(force=True)

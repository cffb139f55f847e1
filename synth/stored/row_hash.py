"""Row hashes of a stored table, as expressions of a database, and rows in a seeded order of these hashes.

They are those of `synth.row_hash`, so that equal rows have one hash in memory and in a database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from synth.row_hash import BASE, BETWEEN, DIGITS, MISSING, ContentSums, Ruler, draw_salt, is_spelled
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn
from synth.stored.connection import StorageLocation
from synth.stored.decode import Reader
from synth.stored.sql_functions import exactly, floor, half_even, md5

if TYPE_CHECKING:
    from synth.stored.table import StoredTable

KEY, TIE, TARGET, NAME = "understudy_key", "understudy_tie", "understudy_target", "understudy_name"
OF_TEXT = "understudy_text_"
"""First part of the names of columns that order rows by their texts."""
LAST = "g"
"""Comes after all hexadecimal digests."""
OWNER = "understudy_owner"
"""The column that holds a keyed digest of each row's entity, where contributions are bounded."""
_HEXADECIMALS, _WORD, _N_WORDS = "0123456789abcdef", 8, 4


def with_keys(table: "StoredTable", schema: Schema, also: Sequence[str] = ()) -> ir.Table:
    """The kept columns of a table beside each row's key, what tells rows of one key apart, and target.

    `understudy_tie` is there with entities, and alike for equal ones; so are, with free texts, `understudy_text_0` and
    further ones. `understudy_target` is there where the target has categories or is true or false, and alike for equal
    targets.

    Args:
        table: *Sensitive*. Where the rows are.
    """
    table.check(schema)
    digits: dict[str, Any] = {}
    more: dict[str, Any] = {} if schema.entity is None else {TIE: md5(table.text(schema.entity, schema))}
    for place, name in enumerate(schema.texts):
        more[f"{OF_TEXT}{place}"] = ibis.coalesce(md5(table.text(name, schema)), LAST)
    for name in sorted(schema.learned):
        column, found = schema.columns[name], _digits(table, name, schema)
        digits |= {f"understudy_{len(digits) + place}": digit for place, digit in enumerate(found)}
        if name == schema.target and column.is_categorical:
            more[TARGET] = ibis.coalesce(found[0], -1)
    read = table.place.apart(table.rows.select(*schema.kept, *also, **more, **digits))
    texts = [_spelled(read[name]) for name in digits]
    return read.select(*schema.kept, *also, *more, **{KEY: md5(_joined(texts)).substr(0, DIGITS)})


def content_sums(table: "StoredTable", schema: Schema) -> ContentSums:
    """The sums of the digests of all rows over `schema.kept`: those that `synth.row_hash.content_sums` gives.

    Args:
        table: *Sensitive*. Where the rows are.
    """
    table.check(schema)
    parts = _kept_parts(table, schema)
    read = table.place.apart(table.rows.select(**parts))
    digests = table.place.apart(read.select(digest=md5(_joined([_spelled(read[name]) for name in parts]))))
    words = {f"word_{place}": _word(digests["digest"], place) for place in range(_N_WORDS)}
    added = digests.select(**words)
    sums = [added[name].sum().cast("int64").fill_null(0).name(name) for name in words]
    found = table.place.fetch(added.agg([added.count().name("n_rows"), *sums]))
    n_rows, first, second, third, fourth = (int(column[0].as_py()) for column in found.columns)
    return ContentSums(n_rows, (first, second, third, fourth))


def with_row_names(table: "StoredTable", schema: Schema) -> ir.Table:
    """The kept columns of a table beside each row's name, `understudy_name`: those of `synth.row_hash.row_names`.

    Args:
        table: *Sensitive*. Where the rows are.
    """
    table.check(schema)
    parts = _kept_parts(table, schema)
    read = table.place.apart(table.rows.select(*schema.kept, **parts))
    texts = read.select(*schema.kept, **{NAME: _joined([_spelled(read[name]) for name in parts])})
    digest = md5(texts[NAME])
    # By the digest as well as by the text: a collation may take texts for one another, and somebody may find two texts
    # of one digest.
    turn = ibis.row_number().over(group_by=[digest, texts[NAME]])
    return texts.mutate(**{NAME: digest + ":" + turn.cast("string")})


def with_content(table: "StoredTable", schema: Schema, columns: Mapping[str, Any], name: str, key: str) -> ir.Table:
    """Columns of a table beside a digest of what each row holds in the kept ones, as it is read.

    Args:
        table: *Sensitive*. Where the rows are.
        columns: *Sensitive*. Expressions over its rows.
    """
    parts = _kept_parts(table, schema)
    read = table.place.apart(table.rows.select(**columns, **parts))
    return read.select(*columns, **{name: md5(ibis.literal(key) + _joined([_spelled(read[part]) for part in parts]))})


def _kept_parts(table: "StoredTable", schema: Schema) -> dict[str, Any]:
    """Expressions that stand for the cells of all kept columns, null where they are missing."""
    parts: dict[str, Any] = {}
    for name in sorted(schema.kept):
        spelled = is_spelled(schema.columns[name])
        found = [_text(table, name, schema)] if spelled else _digits(table, name, schema)
        parts |= {f"understudy_{len(parts) + place}": part for place, part in enumerate(found)}
    return parts


def _digits(table: "StoredTable", name: str, schema: Schema) -> list[Any]:
    """The whole numbers that stand for the cells, null where they are missing: one column, or three."""
    cells, column = table.rows[name], schema.columns[name]
    reader = Reader.of(table.place.backend, schema)
    if column.is_categorical:
        members = reader.members(cells, name, column)
        absent = (2 if column.is_boolean else len(column.categories)) + 1
        return [ibis.ifelse(members == absent, ibis.null("int64"), members.cast("int64"))]
    ruler, places = Ruler.of(column), reader.places(cells, name, column)  # type: ignore[arg-type]
    if ruler.n_digits == 1:
        # Places are whole already where steps are.
        return [(places if ruler.factor == 1.0 else half_even(places * exactly(ruler.factor))).cast("int64")]
    is_tiny = (places.abs() < exactly(ruler.least)) & (places != exactly(0.0))
    rest, digits = ibis.ifelse(is_tiny, exactly(0.0), places.abs()) * exactly(ruler.factor), []
    for _ in range(ruler.n_digits):
        digits.append(floor(rest))
        rest = (rest - digits[-1]) * exactly(BASE)
    first, *others = (ibis.ifelse(places < exactly(0.0), -digit, digit).cast("int64") for digit in digits)
    # DEVIATES: Spark and PostgreSQL may write such a place otherwise than memory does, but no two alike.
    return [ibis.ifelse(is_tiny, places.cast("string"), first.cast("string")), *others]


def _text(table: "StoredTable", name: str, schema: Schema) -> Any:
    """Cells that stand for themselves, each after its length."""
    column: Any = schema.columns[name]
    if isinstance(column, CategoricalColumn):
        reader = Reader.of(table.place.backend, schema)
        text = reader.unlisted(table.rows[name], name, column).cast("string")
    else:
        text = table.text(name, schema)
    return text.length().cast("string") + ":" + text


def _spelled(part: Any) -> Any:
    return ibis.coalesce(part.cast("string"), MISSING)


def _joined(texts: Sequence[Any]) -> Any:
    return ibis.literal(BETWEEN).join(texts) if texts else ibis.literal("")


def _word(digest: Any, place: int) -> Any:
    """One of the four 32-bit words of a digest, read digit by digit: backends have no other way in common."""
    places = [ibis.literal(_HEXADECIMALS).find(digest.substr(_WORD * place + i, 1)) for i in range(_WORD)]
    # As reals, which hold 32 bits everywhere: a place is of 32 bits in PostgreSQL, whatever Ibis says.
    total = places[0].cast("float64")
    for digit in places[1:]:
        total = total * exactly(16.0) + digit
    return total.cast("int64")


POSITION, UNIT = "understudy_position", "understudy_unit"
TICKET = "understudy_ticket"
_COUNT, _FIRST = "understudy_count", "understudy_first"


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows of a stored table in a seeded order, which depends on what they hold alone.

    Attributes:
        rows: *Sensitive*. The columns of `schema.kept` as they are stored; `understudy_position`, int64, 0 to n - 1;
            `understudy_unit`, int64, the entity of each row, or a number of its own, from 0 in the order of first
            appearance. They stand in no order of themselves.
    """

    place: StorageLocation
    rows: ir.Table = field(repr=False)
    n: int
    n_units: int


def draw_rows(
    table: "StoredTable", schema: Schema, *, seed: int, limit: int | None, also: Sequence[str] = ()
) -> DrawnRows:  # fmt: skip
    """The rows of a table in the order that `seed` gives, written down where that is ours to do.

    These are the rows, the order and the units that `evaluate.sampling.drawn_order` gives for the same table in memory.

    Args:
        table: *Sensitive*. Where the rows are.
    """
    keyed, names = with_keys(table, schema, also), [*schema.kept, *also]
    n_rows = len(table)
    if limit is not None and limit < n_rows:
        # Of all rows only keys are sorted: rows with a key that none of the first tickets has cannot be among these.
        first = ticketed(keyed.select(KEY), seed).order_by(TICKET, KEY, _COUNT).limit(limit)
        chosen = table.place.written(first.select(KEY).distinct())
        keyed = keyed.semi_join(chosen, KEY)
    found = ticketed(keyed, seed)
    placed = found.mutate(**{POSITION: ibis.row_number().over(order_by=[TICKET, KEY, _COUNT])})
    n = n_rows if limit is None else min(limit, n_rows)
    if n < n_rows:
        placed = placed.filter(placed[POSITION] < n)
    rows = table.place.written(_numbered(placed, names, schema))
    n_units = n if schema.entity is None else table.place.number(rows[UNIT].max().fill_null(-1)) + 1
    return DrawnRows(table.place, rows, n, n_units)


def whole_entities(table: "StoredTable", schema: Schema, *, seed: int, limit: int) -> "StoredTable":
    """All rows of entities that are drawn by their names, `limit` rows at most; one of more rows is passed over."""
    rows = table.rows.mutate(**{TIE: md5(table.text(str(schema.entity), schema))})
    sizes = rows.group_by(TIE).agg(**{_COUNT: rows.count()})
    sizes = sizes.filter(sizes[_COUNT] <= limit).mutate(**{TICKET: md5(ibis.literal(draw_salt(seed)) + sizes[TIE])})
    up_to = sizes[_COUNT].sum().over(order_by=[sizes[TICKET]], rows=(None, 0))
    drawn = sizes.mutate(**{_FIRST: up_to})
    chosen = table.place.written(drawn.filter(drawn[_FIRST] <= limit).select(TIE))
    return replace(table, rows=rows.semi_join(chosen, TIE).drop(TIE))


def ticketed(keyed: ir.Table, seed: int) -> ir.Table:
    """Each row with its count among equal ones, told apart by their entities and free texts, and its ticket.

    Args:
        keyed: *Sensitive*. As `with_keys` gives it.
    """
    ties = [ibis.coalesce(keyed[TIE], LAST)] if TIE in keyed.columns else []
    ties += [keyed[name] for name in keyed.columns if name.startswith(OF_TEXT)]
    order = {"order_by": ties} if ties else {}
    counted = keyed.mutate(**{_COUNT: ibis.row_number().over(group_by=keyed[KEY], **order)})
    text = ibis.literal(draw_salt(seed)) + counted[KEY] + ":" + counted[_COUNT].cast("string")
    return counted.mutate(**{TICKET: md5(text).substr(0, DIGITS)})


def _numbered(placed: ir.Table, names: Sequence[str], schema: Schema) -> ir.Table:
    """Named columns, positions, and units numbered by first appearance."""
    if schema.entity is None:
        return placed.select(*names, POSITION, **{UNIT: placed[POSITION]})
    first = placed[POSITION].min().over(group_by=placed[TIE])
    # A row without an entity is a unit of its own.
    firsts = placed.mutate(**{_FIRST: ibis.ifelse(placed[TIE].isnull(), placed[POSITION], first)})
    units = ibis.dense_rank().over(order_by=firsts[_FIRST])
    return firsts.select(*names, POSITION, **{UNIT: units})

"""`split`, which knows nothing of the table yet, and `compare`, for several synthetic tables of one real table.

What measures and draws pages is imported where it is used: a split shall not wait for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Any

from evaluate.text import listed
from synth.declare import declare_schema, measurable
from synth.errors import JobError
from synth.infer import infer_schema
from synth.progress import WIDTH, Progress, html_table, shown, text_table
from synth.schema import Schema
from synth.schema_file import write_schema
from synth.split import Split, split_table
from synth.table import Table
from understudy.quickstart import FEW_ROWS, FEW_SHARE, SHARE

if TYPE_CHECKING:
    import pandas as pd

    from evaluate.gate.verdict import Verdict
    from evaluate.result import Evaluation

HEADER = ("rank", "table", "group", "verdict", "standing")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Tables that were compared on the same terms. It reads real rows: internal.

    Attributes:
        evaluation: of every table that could be measured, with its ranking.
        verdicts: of the policy, one for each of these tables.
    """

    evaluation: "Evaluation"
    verdicts: "tuple[Verdict, ...]"

    def __repr__(self) -> str:
        """The order in one line; printed, it is a table."""
        ranked = listed([f"{vendor.name} ({vendor.letters})" for vendor in self._ranking.order.order]) or "no table"
        return f"<Comparison of {len(self._ranking.vendors)} tables: {ranked} ranked>"

    def __str__(self) -> str:
        """The order, then why a table is not in it, or behind."""
        notes = (fill(note, WIDTH, initial_indent="  ", subsequent_indent="    ") for note in self._notes())
        return "\n".join([text_table([HEADER, *self._rows()]), *notes])

    def _repr_html_(self) -> str:
        caption = "; ".join([repr(self).strip("<>"), *self._notes()])
        return html_table(caption, HEADER, self._rows())

    def to_frame(self) -> "pd.DataFrame":
        """A row for each table, the best first: its standing, and the figures that the order rests on."""
        import pandas as pd

        reasons = {vendor.name: vendor.reason for vendor in self._ranking.vendors}
        frame = pd.DataFrame(self._rows(), columns=list(HEADER))
        for figure in self._ranking.order.figures:
            frame[figure.figure] = frame["table"].map(figure.values).astype("float64")
        frame["reason"] = frame["table"].map(reasons)
        return frame.assign(rank=pd.to_numeric(frame["rank"]).astype("Int64"))

    def report(self, path: Path | str) -> Path:
        """Write the report of all tables as one HTML page; the path is returned."""
        from reports.html import write_html

        return write_html(self.evaluation, path, verdicts=self.verdicts, title="Comparison of tables")

    @property
    def _ranking(self) -> Any:
        return self.evaluation.ranking

    def _rows(self) -> list[tuple[str, ...]]:
        verdicts = {verdict.candidate: verdict.verdict for verdict in self.verdicts}
        ranked = {
            vendor.name: (str(vendor.place), vendor.name, vendor.letters, verdicts[vendor.name], "ranked")
            for vendor in self._ranking.order.order
        }
        others = (vendor for vendor in self._ranking.vendors if vendor.name not in ranked)
        return [
            *ranked.values(), *(("", other.name, "", verdicts.get(other.name, ""), other.standing) for other in others),
        ]  # fmt: skip

    def _notes(self) -> Iterator[str]:
        if len(self._ranking.order.order) > 1:
            yield "Tables that share a letter cannot be told apart."
        for vendor in self._ranking.vendors:
            first, *more = vendor.reason.split("; ")
            if first:
                yield f"{vendor.name}: {first}{f'; and {len(more)} more' if more else ''}"


def compare(
    synthetic: Mapping[str, Any],
    *,
    real: Any,
    holdout: Any,
    schema: Schema | None = None,
    policy: str = "internal",
    progress: Progress | None = None,
    **settings: Any,
) -> Comparison:
    """Synthetic tables compared: those that break a rule of a policy are set apart, the others are ranked.

    Args:
        synthetic: tables by name, each a frame of any library, or the path of a file.
        real: *Sensitive*. Real rows that their makers were given.
        holdout: *Sensitive*. Real rows that none of them was given.
        schema: of the real table; `None`: it is inferred from the real rows.
        policy: name of a shipped policy, or the path of one.
        progress: told what is being measured; `None`: a bar in a notebook, nothing elsewhere.
        settings: fields of `evaluate.EvaluationOptions`, such as `target="ill"` or `seed=1`.

    Raises:
        BadInput: an argument is not what it should be, or no table can be evaluated; nothing was compared.
    """
    from evaluate.engine import proposed_schema
    from evaluate.options import EvaluationOptions
    from evaluate.result import EvaluationError
    from understudy.vendors.comparison import compare as compare_files
    from understudy.vendors.submission import Asked

    if not isinstance(synthetic, Mapping) or not synthetic or not all(isinstance(name, str) for name in synthetic):
        raise EvaluationError(f"synthetic={type(synthetic).__name__} names no tables; write {{'acme': frame, ...}}")
    if schema is not None and not isinstance(schema, Schema):
        raise EvaluationError(f"schema is a {type(schema).__name__}; pass what synth.infer_schema or read_schema gives")
    for name, table in (("real", real), ("holdout", holdout)):
        if table is None:
            raise EvaluationError(f"{name}=None, and a comparison needs its rows; `us.split` keeps a holdout apart")
    options = EvaluationOptions.of(None, settings)
    with TemporaryDirectory(prefix="understudy-") as folder, shown(progress) as tell:
        files = Path(folder)
        if schema is None:
            schema = proposed_schema([real, holdout], options)
        write_schema(schema, files / "schema.toml")
        asked = Asked(
            _as_file(real, files / "real.parquet"),
            _as_file(holdout, files / "holdout.parquet"),
            files / "schema.toml",
            tuple(Path(_as_file(table, files / f"{i}.parquet")) for i, table in enumerate(synthetic.values())),
            policy,
            tuple(synthetic),
            options=options,
        )
        compared = compare_files(asked, tell)
    return Comparison(compared.evaluation, compared.verdicts)


def _as_file(table: Any, path: Path) -> Path | str:
    """The path of a table: that of a file, or one to which a frame is written. `table`: *Sensitive*."""
    if isinstance(table, str | Path):
        return table
    Table.of(table).frame().to_parquet(path, index=False)
    return path


def split(
    real: Any,
    schema: Schema | None = None,
    *,
    target: str | None = None,
    entity: str | None = None,
    holdout_share: float | None = None,
    **settings: Any,
) -> Split:
    """Train and holdout: `train, holdout = us.split(df)`. All rows of an entity are on one side.

    Args:
        real: *Sensitive*. A frame of any library, the path of a file or a folder, or the address of a table.
        schema: names the entity and the target; `None`: it is inferred, and a column that names patients or the like,
            several rows each, is taken for the entity.
        target: without a schema: the column that a model would predict; both sides get their share of its values.
        entity: without a schema: the column that names the unit.
        holdout_share: share of the units that is held out; `None`: a fifth, and a third of up to 20,000 rows, as
            fewer leave attacks undecided. Where the split is private, a fifth: the number of rows is not public.
        settings: of `synth.split_table`, such as `seed=0`, or `private=True` before a private fit.

    Raises:
        BadInput: the table does not fit the schema, or is too small; nothing was split.
    """
    if schema is None:
        schema = infer_schema(real, target=target, entity=entity, constraints=False)
        if settings.get("private"):  # a row is named by what it holds, never by bounds or a list that others are in
            schema = declare_schema(schema, measure=measurable(schema))
    elif not isinstance(schema, Schema):
        raise JobError(f"schema is a {type(schema).__name__}, and split(real, schema) takes the table first")
    elif target is not None or entity is not None:
        raise JobError("a schema names target and entity; leave them out, or the schema")
    if holdout_share is None:
        is_private, parts = settings.get("private"), Table.of(real).parts
        is_small = not is_private and sum(n for part in parts for _, n in part()) <= FEW_ROWS
        holdout_share = FEW_SHARE if is_small else SHARE
    return split_table(real, schema, holdout_share=holdout_share, **settings)

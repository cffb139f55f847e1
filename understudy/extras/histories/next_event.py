"""The next event: train on synthetic histories, test on held-out ones.

Models predict the target of the next row of an entity. They see the row before, the constants of the entity, and the
place in the history. They are those of `evaluate.utility.tstr`, trained on steps of synthetic histories (TSTR), and on
as many of training histories (TRTR). Others learn from fresh real histories, or from training rows dealt at random to
entities (the floor).
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from evaluate.estimate import NotMeasuredError
from evaluate.fidelity.samples import SYNTHETIC
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, SharedResults, Tables
from evaluate.utility.models import Form
from evaluate.utility.study import study_of
from evaluate.utility.tstr import gap_of, score_of, study_note
from synth.row_order import Histories, histories_of
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn
from understudy.extras.histories.fidelity import NO_ORDER, GroupedHistories, HistorySamples, varying
from understudy.extras.histories.layout import HistoryLayout

STEPS = Counted("rows of held-out histories that follow another one, half of the holdout", 2, 10_000)
GAP = "utility.next_event.gap"
METRICS = (
    Metric(GAP, "lower", "Next event, loss", "What gradient boosting loses on held-out histories by learning from "
           "synthetic ones how the target of the next row follows.", counted=STEPS, key=True, needs="order"),
)  # fmt: skip
NAME = "utility.next_event"
FORM: Form = "boosting"
MIN_STEPS = 40
MOST_STEPS = 10_000  # Steps that models learn from, or are tested on, at most: whole histories
MOST_ROWS = 10_000_000  # The largest place in a history


def measure(tables: Tables) -> MetricResult:
    """The loss, and the scores in its note; nothing but a reason where the schema names no order."""
    if tables.schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    score, gap = score_and_loss(tables)
    scores = f"{score.value:.3f} trained on synthetic histories, {score.reference:.3f} on real ones"
    return MetricResult((replace(gap, measure=GAP, note=f"{gap.note}; {scores}"),))


def score_and_loss(tables: Tables) -> tuple[Estimate, Estimate]:
    schema = tables.schema
    if schema.target is None:
        raise NotMeasuredError("the schema names no target")
    if schema.target in schema.constant_in_entity:
        raise NotMeasuredError(f"the target {schema.target!r} is constant in an entity, so that nothing of it follows")
    if schema.target not in varying(schema):
        raise NotMeasuredError(f"the target {schema.target!r} is the order, or computed from other columns")
    steps = step_tables(tables)
    if min(map(len, (steps.train, steps.fresh, steps.control, steps.synthetic))) < MIN_STEPS:
        raise NotMeasuredError(f"it needs at least {MIN_STEPS} rows that follow another one in each table")
    study = study_of(steps, forms=(FORM,))
    note = f"of the next row: {study_note(study, steps)}"
    return score_of(FORM, study, note), replace(gap_of(FORM, study), note=f"TRTR - TSTR: {note}")


def step_tables(tables: Tables) -> Tables:
    """The steps of all tables as an evaluation of their own, at most `MOST_STEPS` of each. `tables`: *Sensitive*. Of a
    schema with an order, and a target that may change.
    """
    schema, samples, kept = tables.schema, HistorySamples.of(tables), tables.kept_of_real

    def cut(histories: GroupedHistories) -> pd.DataFrame:
        return steps_of(histories.frame, histories.first_steps(MOST_STEPS).histories, schema)

    def real(side: str, frame: pd.DataFrame) -> pd.DataFrame:
        return kept.once(("steps", side), lambda: steps_of(frame, histories_of(frame, schema), schema))

    fresh, control = real("fresh", tables.fresh), real("control", tables.control)
    train = kept.once(("steps", "train"), lambda: cut(samples.train))
    dealt = kept.once(("steps", "dealt"), lambda: cut(samples.train.dealt(tables.seed)))
    of_steps, synthetic = step_schema(schema), cut(samples.others[SYNTHETIC])
    steps = Tables(of_steps, of_steps, train, fresh, control, dealt, tables.seed, synthetic=synthetic)
    # Models of real steps alone serve every synthetic table.
    object.__setattr__(steps, "kept_of_real", kept.once("next event", SharedResults))
    return steps


def step_schema(schema: Schema) -> Schema:
    """Of steps: the entity, its constants, the target, all that varies in the row before, and the place."""
    layout = HistoryLayout(schema, MOST_ROWS)
    # As values: what a column is modeled by may be no column of the steps.
    values = {name: column.model_copy(update={"modeled": None}) for name, column in schema.columns.items()}
    columns: dict[str, Any] = {
        str(name): values[str(name)] for name in (schema.entity, *layout.constant, schema.target)
    }
    columns |= {layout.before(name): values[name] for name in varying(schema)}
    columns[layout.place] = IntegerColumn(bounds=(1, MOST_ROWS))
    return Schema(
        status=schema.status, target=schema.target, task=schema.task, entity=schema.entity, columns=columns,
    )  # fmt: skip


def steps_of(frame: pd.DataFrame, histories: Histories, schema: Schema) -> pd.DataFrame:
    """Each row that follows another one, beside that row. `frame`: *Sensitive* where it is real."""
    layout = HistoryLayout(schema, MOST_ROWS)
    rows, earlier = (frame.iloc[at].reset_index(drop=True) for at in histories.pairs)
    columns: dict[str, Any] = {str(name): rows[name] for name in rows}
    columns |= {layout.before(name): earlier[name] for name in varying(schema)}
    columns[layout.place] = pd.Series(histories.places[histories.places > 1], dtype="Int64")
    return pd.DataFrame({name: columns[name] for name in step_schema(schema).columns}, copy=False)

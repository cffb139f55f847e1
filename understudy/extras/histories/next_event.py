"""The next event: train on synthetic histories, test on held-out ones.

Models predict the target of the next row of an entity. They see the row before, the constants of the entity, and the
place in the history. They are those of `evaluate.utility.tstr`, trained on steps of synthetic histories (TSTR), and on
as many of training histories (TRTR). Others learn from fresh real histories, or from training rows dealt at random to
entities (the floor).
"""

from dataclasses import replace

import pandas as pd

from evaluate.fidelity.samples import SYNTHETIC
from evaluate.metrics import Counted, Metric
from evaluate.result import Failure
from evaluate.tables import MetricResult, SharedResults, Tables
from evaluate.utility.models import Form
from evaluate.utility.study import study_of
from evaluate.utility.tstr import scored, study_note
from synth.row_order import histories_of
from understudy.extras.histories.samples import NO_ORDER, GroupedHistories, HistorySamples, StepLayout

STEPS = Counted("rows of held-out histories that follow another one, half of the holdout", 2, 10_000)
TSTR, GAP = "utility.next_event.tstr", "utility.next_event.gap"
METRICS = (
    Metric(TSTR, "higher", "Next event, trained on synthetic", "Score on held-out histories of gradient boosting that "
           "learned from synthetic histories how the target of the next row follows.", counted=STEPS, key=True,
           needs="order"),
    Metric(GAP, "lower", "Next event, loss", "What gradient boosting loses by learning from synthetic histories how "
           "the target of the next row follows.", counted=STEPS, needs="order"),
)  # fmt: skip
NAME = "utility.next_event"
FORM: Form = "boosting"
MIN_STEPS = 40
MOST_STEPS = 10_000  # Steps that models learn from, or are tested on, at most: whole histories


def measure(tables: Tables) -> MetricResult:
    """Score and loss; nothing but a reason where the schema names no order."""
    schema, why, study = tables.schema, "", None
    if schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    if schema.target is None:
        why = "the schema names no target"
    elif schema.target in schema.constant_in_entity:
        why = f"the target {schema.target!r} is constant in an entity, so that nothing of it follows"
    elif schema.target == schema.order or schema.target not in schema.modeled:
        why = f"the target {schema.target!r} is the order, or computed from other columns"
    else:
        steps = step_tables(tables)
        if min(map(len, (steps.train, steps.fresh, steps.control, steps.synthetic))) < MIN_STEPS:
            why = f"it needs at least {MIN_STEPS} rows that follow another one in each table"
        else:
            study = study_of(steps, forms=(FORM,))
    if study is None or isinstance(study, str):
        return MetricResult(failures=tuple(Failure(name, "skipped", study or why) for name in (TSTR, GAP)))
    score, gap = scored(FORM, study, f"of the next row: {study_note(study, steps)}")
    return MetricResult((replace(score, measure=TSTR), replace(gap, measure=GAP)))


def step_tables(tables: Tables) -> Tables:
    """The steps of all tables as an evaluation of their own, at most `MOST_STEPS` of each. `tables`: *Sensitive*. Of a
    schema with an order, and a target that may change.
    """
    layout = StepLayout.of(tables.schema, (str(tables.schema.target),), with_place=True)
    samples = HistorySamples.of(tables)

    def real(side: str, frame: pd.DataFrame) -> pd.DataFrame:
        return tables.kept_of_real.once(
            ("steps", side), lambda: layout.steps(frame, histories_of(frame, tables.schema))
        )

    def cut(histories: GroupedHistories) -> pd.DataFrame:
        return layout.steps(histories.frame, histories.first_steps(MOST_STEPS).histories)

    dealt = tables.kept_of_real.once(("steps", "dealt"), lambda: cut(samples.train.dealt(tables.seed)))
    train = tables.kept_of_real.once(("steps", "train"), lambda: cut(samples.train))
    steps = Tables(
        layout.schema, layout.schema, train, real("fresh", tables.fresh), real("control", tables.control),
        cut(samples.others[SYNTHETIC]), dealt, tables.seed,
    )  # fmt: skip
    # Models of real steps alone serve every synthetic table.
    object.__setattr__(steps, "kept_of_real", tables.kept_of_real.once("next event", SharedResults))
    return steps

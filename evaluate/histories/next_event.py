"""The next event: train on synthetic histories, test on held-out ones.

Models predict the target of the next row of an entity. They see the row before, the constants of the entity, and the
place in the history. They are those of `evaluate.utility.tstr`, trained on steps of synthetic histories (TSTR), and on
as many of training histories (TRTR). Others learn from fresh real histories, or from training rows dealt at random to
entities (the floor).
"""

from dataclasses import replace

import pandas as pd

from evaluate.fidelity.samples import SYNTHETIC
from evaluate.histories.samples import NO_ORDER, GroupedHistories, HistorySamples, StepLayout
from evaluate.metrics import Counted, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, SharedResults, Tables
from evaluate.utility.models import Form
from evaluate.utility.study import study_of
from evaluate.utility.tstr import scored, study_note
from synth.row_order import histories_of
from synth.schema import Schema

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
    """Score and loss; nothing but a reason where the schema names no order. Estimates: `utility.next_event.tstr`
    (reference TRTR), `utility.next_event.gap`.
    """
    schema = tables.schema
    if schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    why = _why_not(schema)
    steps = None if why else step_tables(tables)
    if steps is None or min(map(len, (steps.train, steps.fresh, steps.control, steps.synthetic))) < MIN_STEPS:
        why = why or f"it needs at least {MIN_STEPS} rows that follow another one in each table"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in (TSTR, GAP)))
    study = study_of(steps, forms=(FORM,))
    if isinstance(study, str):
        return MetricResult(failures=tuple(Failure(name, "skipped", study) for name in (TSTR, GAP)))
    score, gap = scored(FORM, study, f"of the next row: {study_note(study, steps)}")
    renamed: tuple[Estimate, ...] = (replace(score, measure=TSTR), replace(gap, measure=GAP))
    return MetricResult(renamed)


def _why_not(schema: Schema) -> str:
    """The reason why there is no next event to predict; empty where there is one."""
    target = schema.target
    if target is None:
        return "the schema names no target"
    if target in schema.constant_in_entity:
        return f"the target {target!r} is constant in an entity, so that nothing of it follows"
    if target == schema.order or target not in schema.modeled:
        return f"the target {target!r} is the order, or computed from other columns"
    return ""


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

    def cut(one: GroupedHistories) -> pd.DataFrame:
        return layout.steps(one.frame, one.first_steps(MOST_STEPS).histories)

    dealt = tables.kept_of_real.once(("steps", "dealt"), lambda: cut(samples.train.dealt(tables.seed)))
    train = tables.kept_of_real.once(("steps", "train"), lambda: cut(samples.train))
    synthetic = cut(samples.others[SYNTHETIC])
    made = Tables(
        layout.schema, layout.schema, train, real("fresh", tables.fresh), real("control", tables.control),
        synthetic, dealt, tables.seed,
    )  # fmt: skip
    # Models of real steps alone serve every synthetic table.
    object.__setattr__(made, "kept_of_real", tables.kept_of_real.once("next event", SharedResults))
    return made

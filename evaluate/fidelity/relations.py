"""Relations between columns that hold in all real rows, or nearly: whether they hold in the synthetic ones, too.

They are found in training rows by data alone, beside the constraints of the schema. What is left of a relation is shown
without a hundredth of the rows at either end, and without five at least, rounded to two digits: no row's own value.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.intervals import clustered, design_effect, newcombe, wilson
from evaluate.metrics import COMPARED, SYNTHETIC, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth.constraints import FixedCombinations, Formula, Inequality
from synth.constraints.expression import names, parse, written
from synth.constraints.kinds import operands_of
from synth.domain.relations import broken, compares_days, on_one_line
from synth.infer.relations import Relation, find_exact, left_of
from synth.schema import Schema

KEPT, LOST = "relations.kept", "relations.lost.worst"
METRICS = (
    Metric(KEPT, "higher", "Relation kept", "Share of synthetic rows that keep what holds between columns in all real "
           "rows, or nearly all.", counted=SYNTHETIC),
    Metric(LOST, "lower", "Worst relation lost", "Share of fresh real rows that keep a relation between columns minus "
           "that of synthetic rows, for the relation where this is most.", counted=COMPARED, key=True, may_lack=True),
)  # fmt: skip

MAX_SEARCHED = 10_000  # Training rows that relations are found in, at most
BEYOND, FEWEST = 0.01, 5  # Share and number of the rows at either end that what is left is shown without
UNITS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
_NONE = "no column is given by others in nearly all training rows, and the schema declares nothing between columns"
Law = Relation | Inequality | FixedCombinations


def exact_relations(tables: Tables) -> tuple[Relation, ...]:
    """What is found in training rows, once for all synthetic tables."""
    rows = tables.train.head(MAX_SEARCHED)
    return tables.kept_of_real.once("relations", lambda: find_exact(rows, tables.schema))


def left_of_rows(frames: Sequence[pd.DataFrame], tables: Tables) -> list[np.ndarray]:
    """What is left of each relation within a row, in the rows of all frames, one after the other; shape (n,) each."""
    within = [law for law in exact_relations(tables) if not any(names(parse(law.expression), before=True))]
    return [np.concatenate([left_of(frame, law, tables.schema) for frame in frames]) for law in within]


def measure(tables: Tables) -> MetricResult:
    """The share of rows that keep each relation, the worst loss of all, and the figure "relations"."""
    schema, sides = tables.schema, (tables.holdout, tables.synthetic, tables.shuffled)
    units = [entity_codes(frame, schema) for frame in sides]
    laws = _laws(tables)
    checked_laws = [(law, [_checked(frame, law, schema) for frame in sides]) for law in laws]
    checked_laws = [(law, checked) for law, checked in checked_laws if checked[0][0].any()]
    kept, lost, figures = [], [], list[dict[str, Any]]()
    for law, checked in checked_laws:
        # Of a table without a row that the relation says something of, none keeps it.
        judged = [known if known.any() else ~known for known, *_ in checked]
        flags = [kept[known] for (_, kept, _), known in zip(checked, judged, strict=True)]
        owners = [unit[known] for unit, known in zip(units, judged, strict=True)]
        real, synthetic, shuffled = (float(each.mean()) for each in flags)
        note = f"{_words(law)}: kept by {real:.1%} of held-out rows and {synthetic:.1%} of synthetic ones"
        _, low, high = clustered(flags[1], owners[1])
        n = len(flags[1])
        kept.append(Estimate(KEPT, synthetic, n, "higher", _columns(law), low, high, real, shuffled, f"{note}."))
        rates = [
            wilson(float(hits.mean()), len(hits) / design_effect(hits, unit), len(checked_laws))
            for hits, unit in zip(flags[:2], owners[:2], strict=True)
        ]
        value, low, high = newcombe(rates[0], rates[1])
        n = min(map(len, flags[:2]))
        lost.append(Estimate(LOST, value, n, "lower", (), low, high, 0.0, real - shuffled, f"The worst is {note}."))
        lefts = [left[known & np.isfinite(left)] for known, _, left in checked[:2]]
        figure = {"relation": _words(law), "kept": synthetic, "reference": real, "floor": shuffled}
        figures.append(figure | _spans(lefts, law, schema))
    if not checked_laws:
        silent = Failure(LOST, "skipped", "no held-out row has what a relation is about")
        return MetricResult(failures=(silent if laws else Failure(LOST, "not applicable", _NONE),))
    worst = max(lost, key=lambda each: (each.interval[0], each.value))
    worst = replace(worst, high=max(each.interval[1] for each in lost))
    figures.sort(key=lambda figure: figure["kept"] - figure["reference"])
    return MetricResult((worst, *kept), figures={"relations": figures})


def _laws(tables: Tables) -> list[Law]:
    """What was found, then what the schema declares, one for the same columns."""
    declared = [
        Relation(law.column, law.expression, law.unit, 1.0) if isinstance(law, Formula) else law
        for law in tables.schema.constraints
    ]
    laws = [*exact_relations(tables), *(law for law in declared if isinstance(law, Law))]
    return list({_columns(law): law for law in reversed(laws)}.values())[::-1]


def _columns(law: Law) -> tuple[str, ...]:
    if isinstance(law, Relation):
        return tuple(dict.fromkeys((law.column, *operands_of(parse(law.expression)))))
    return law.columns


def _words(law: Law) -> str:
    if not isinstance(law, Relation):
        return str(law)
    if law.usual is not None:
        return f"{written(law.column)} is what {law.expression} says"
    unit = f" in {law.unit}s" if law.unit else ""
    return f"{written(law.column)} = {law.expression}{unit}"


def _checked(frame: pd.DataFrame, law: Law, schema: Schema) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows a relation says something of, that keep it, and what is left of it (times in seconds); (n,) each."""
    if isinstance(law, Relation):
        left = left_of(frame, law, schema)
        shown = left if law.usual is None else np.full(len(left), np.nan)
        return np.isfinite(left), left == 0, shown
    known = np.asarray(frame[list(law.columns)].notna().to_numpy().all(axis=1))
    left = np.full(len(frame), np.nan)
    if isinstance(law, Inequality):
        by_day, sides = compares_days(law, schema.columns), []
        for name in law.columns:
            column: Any = schema.columns[name]
            values = column.ordinary(frame[name])
            sides.append(on_one_line(values, column, by_day=by_day) / 1e6 if column.is_time else values)
        left = sides[1] - sides[0]
    return known, np.asarray(known & ~broken(frame, law, schema.columns)), left


def _spans(lefts: Sequence[np.ndarray], law: Law, schema: Schema) -> dict[str, Any]:
    """What is left in real and in synthetic rows, as texts; none where either has too few numbers."""
    if min(map(len, lefts)) < 4 * FEWEST:
        return {"real": None, "synthetic": None}
    cuts = [max(BEYOND, FEWEST / len(left)) for left in lefts]
    ends = [np.quantile(left, (cut, 1 - cut)) for left, cut in zip(lefts, cuts, strict=True)]
    size, unit, steps = float(np.abs(ends[0]).max() or np.abs(ends[1]).max()), "", 1.0
    if schema.columns[_columns(law)[0]].is_time:
        unit, steps = next(((f" {name}", s) for name, s in UNITS.items() if size >= s), (" seconds", 1.0))
    texts = [[_rounded(end / steps) for end in pair] for pair in ends]
    return {
        name: f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
        for name, (low, high) in zip(("real", "synthetic"), texts, strict=True)
    }


def _rounded(value: float) -> str:
    r"""A number with two digits.

    >>> _rounded(663.7), _rounded(-0.01234), _rounded(0.0)
    ('660', '\u22120.012', '0')
    """
    return f"{float(f'{value:.2g}'):,.10g}".replace("-", "\u2212")

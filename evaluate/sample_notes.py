"""Notes on numbers that were measured on samples of larger tables, and upper ends raised by what was not searched.

If each leak rests on one synthetic row, a sample of a share s of the table shows a share s of the leak: the upper end
is raised to chance + (end - chance) / s. A leak that rests on several rows together shows even less of itself. The
upper end is 1 where a share of the rows says nothing of the leak: one person's data may stand in most synthetic rows
and that person not be in the sample (`Metric.sampled` "counted"), and a description that is alone in a sample need not
be alone in the table (`privacy.singling_out`).
"""

from dataclasses import replace

from evaluate.gate.finding import SAMPLED, UNSEARCHED
from evaluate.intervals import clopper_pearson
from evaluate.metrics import CATALOG
from evaluate.result import Estimate
from evaluate.sampling import Side
from evaluate.tables import MetricResult, Tables

ON_ALL_ROWS = ("validity", "privacy.copies")  # Measures that count all rows
_SINGLED_OUT, _PERSONAL = "privacy.singling_out", "privacy.personal"
_CHANCE = {".auc": 0.5, ".tpr_at_0.01": 0.01, ".tpr_at_0.001": 0.001}
"""The score of an attack without any success, by the end of its name; 0 for all others."""
_AMONG = {
    _SINGLED_OUT: "whoever is singled out is so among the people of the sample",
    "privacy.distance": "the nearest row is the nearest one of the sample",
}
"""Further notes on the sample, by measure."""


def on_samples(measure: str, result: MetricResult, tables: Tables) -> MetricResult:
    """A measure's result with a note on its samples; where these are all rows, nothing changes."""
    drawn = sampled_rows(tables)
    kept = (tables.schema.columns[name] for name in tables.schema.kept)
    # Without a column in which a real person's value could stand unlearned, nothing was looked for.
    finds_nothing = measure == _PERSONAL and not any(column.is_replaced for column in kept)
    if measure in ON_ALL_ROWS or not drawn or finds_nothing:
        return result
    noted = "; ".join(filter(None, (drawn, _AMONG.get(measure))))
    estimates = tuple(replace(each, note="; ".join(filter(None, (each.note, noted)))) for each in result.estimates)
    if measure.startswith("privacy."):
        estimates = tuple(_allowed(each, measure, tables) for each in estimates)
    return replace(result, estimates=estimates)


_NAMES: dict[Side, str] = {"train": "training", "holdout": "held-out", "synthetic": "synthetic"}


def sampled_rows(tables: Tables) -> str:
    """Of which tables only a sample was looked at, as a sentence; empty where of none."""
    whole = {side: tables.whole[side] for side in _NAMES if side in tables.whole}
    names = _NAMES if tables.held_out else {**_NAMES, "train": "real", "holdout": "other real"}
    cut = [f"{rows.n_sampled:,} of {len(rows):,} {names[side]}" for side, rows in whole.items()]
    return f"{SAMPLED}{', '.join(cut)} rows" if cut else ""


def _allowed(estimate: Estimate, measure: str, tables: Tables) -> Estimate:
    """The number with an upper end that allows for what was not searched."""
    if estimate.direction != "lower" or estimate.low is None or estimate.high is None:
        return estimate
    real_sides: tuple[Side, ...] = ("train", "holdout")
    sampled = CATALOG[estimate.measure].sampled if estimate.measure in CATALOG else ""
    synthetic, real = tables.share_at_hand("synthetic"), min(tables.share_at_hand(s) for s in real_sides)
    share = synthetic  # of a leak that a sample shows; 0 where it may show nothing
    if measure == _PERSONAL or sampled == "counted":
        share = 1.0 if real == 1.0 else 0.0  # a share of the synthetic rows is that of a sample of them
    elif measure == _SINGLED_OUT:
        share = real if synthetic == 1.0 else 0.0
    if sampled == "counted" and synthetic < 1.0:
        # As a sample, it has a sampling error; the rows that were found are in the table all the same.
        most = max(estimate.value, clopper_pearson(round(estimate.value * estimate.n), estimate.n)[1])
        estimate = replace(estimate, low=estimate.value * synthetic, high=most)
    if sampled == "copied" and min(synthetic, real) < 1.0:
        most = estimate.high or 0.0
        estimate = replace(estimate, high=max(most, clopper_pearson(most * estimate.n, estimate.n)[1]))
    if share == 1.0:
        return estimate
    chance = next((value for end, value in _CHANCE.items() if estimate.measure.endswith(end)), 0.0)
    high, detectable = (_of_all(end, chance, share) for end in (estimate.high, estimate.detectable))
    unseen = f"{1.0 - share:.1%} of the rows" if share else "of which it may hold anything"
    return replace(estimate, high=high, detectable=detectable, note=f"{estimate.note}; {UNSEARCHED} ({unseen})")


def _of_all(end: float | None, chance: float, share: float) -> float | None:
    """The value a whole table may show, of which a share shows this."""
    if end is None or not share:
        return None if end is None else 1.0
    return min(1.0, max(end, chance + (end - chance) / share))

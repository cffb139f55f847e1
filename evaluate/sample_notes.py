"""Notes on numbers that were measured on samples of larger tables, and upper ends raised by what was not searched.

If each leak rests on one synthetic row, a sample of a share s of the table shows a share s of the leak: the upper end
is raised to chance + (end - chance) / s. A leak that rests on several rows together shows even less of itself. The
upper end is 1 where a share of the rows says nothing of the leak: one person's data may stand in most synthetic rows
and that person not be in the sample (`Metric.sampled` "counted"), and a description that is alone in a sample need not
be alone in the table (`privacy.singling_out`).
"""

from dataclasses import replace

from evaluate.gate.undecided import SAMPLED, UNSEARCHED
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


def on_samples(measure: str, found: MetricResult, tables: Tables) -> MetricResult:
    """A measure's result with a note on its samples; where these are all rows, nothing changes."""
    said = sampled_rows(tables)
    kept = (tables.schema.columns[name] for name in tables.schema.kept)
    # Without a column in which a real person's value could stand unlearned, nothing was looked for.
    finds_nothing = measure == _PERSONAL and not any(column.is_replaced for column in kept)
    if measure in ON_ALL_ROWS or not said or finds_nothing:
        return found
    noted = "; ".join(filter(None, (said, _AMONG.get(measure))))
    estimates = tuple(replace(one, note="; ".join(filter(None, (one.note, noted)))) for one in found.estimates)
    if measure.startswith("privacy."):
        estimates = tuple(_allowed(one, measure, tables) for one in estimates)
    return replace(found, estimates=estimates)


_NAMES: dict[Side, str] = {"train": "training", "holdout": "held-out", "synthetic": "synthetic"}


def sampled_rows(tables: Tables) -> str:
    """Of which tables only a sample was looked at, as a sentence; empty where of none."""
    whole = {side: tables.whole[side] for side in _NAMES if side in tables.whole}
    names = _NAMES if tables.held_out else {**_NAMES, "train": "real", "holdout": "other real"}
    cut = [f"{rows.n_sampled:,} of {len(rows):,} {names[side]}" for side, rows in whole.items()]
    return f"{SAMPLED}{', '.join(cut)} rows" if cut else ""


def _allowed(one: Estimate, measure: str, tables: Tables) -> Estimate:
    """The number with an upper end that allows for what was not searched."""
    if one.direction != "lower" or one.low is None or one.high is None:
        return one
    real_sides: tuple[Side, ...] = ("train", "holdout")
    sampled = CATALOG[one.measure].sampled if one.measure in CATALOG else ""
    synthetic, real = tables.share_at_hand("synthetic"), min(tables.share_at_hand(s) for s in real_sides)
    share = synthetic  # of a leak that a sample shows; 0 where it may show nothing
    if measure == _PERSONAL or sampled == "counted":
        share = 1.0 if real == 1.0 else 0.0  # a share of the synthetic rows is that of a sample of them
    elif measure == _SINGLED_OUT:
        share = real if synthetic == 1.0 else 0.0
    if sampled == "counted" and synthetic < 1.0:
        # As a sample, it has a sampling error; the rows that were found are in the table all the same.
        most = max(one.value, clopper_pearson(round(one.value * one.n), one.n)[1])
        one = replace(one, low=one.value * synthetic, high=most)
    if sampled == "copied" and min(synthetic, real) < 1.0:
        one = replace(one, high=max(one.high or 0.0, clopper_pearson((one.high or 0.0) * one.n, one.n)[1]))
    if share == 1.0:
        return one
    chance = next((value for end, value in _CHANCE.items() if one.measure.endswith(end)), 0.0)
    high, detectable = (_of_all(end, chance, share) for end in (one.high, one.detectable))
    unseen = f"{1.0 - share:.1%} of the rows" if share else "of which it may hold anything"
    return replace(one, high=high, detectable=detectable, note=f"{one.note}; {UNSEARCHED} ({unseen})")


def _of_all(end: float | None, chance: float, share: float) -> float | None:
    """The value a whole table may show, of which a share shows this."""
    if end is None or not share:
        return None if end is None else 1.0
    return min(1.0, max(end, chance + (end - chance) / share))

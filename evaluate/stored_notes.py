"""What the numbers measured on samples of stored tables say of themselves, and what they cannot rule out.

An interval covers which rows were drawn as targets. It does not cover where an attack did not search: whoever holds the
whole synthetic table finds what a sample of it lacks. If each leak rests on one synthetic row, a sample of a share s of
the table shows a share s of the leak, so the upper end is raised to chance + (end - chance) / s. A leak that rests on
several rows together shows even less of itself; nothing that was not searched is ever taken for safe.
"""

from dataclasses import replace

from evaluate.intervals import clopper_pearson
from evaluate.result import Estimate
from evaluate.stored_tables import StoredTables
from evaluate.tables import Measurement

ON_ALL_ROWS = ("validity", "fidelity.columns", "fidelity.pairs", "fidelity.triples", "privacy.copies")
"""Measures that count where the tables are stored, and say of themselves on how many rows."""
_SEARCH_REAL = ("privacy.singling_out", "privacy.personal")
"""Attacks that look for real rows by what the synthetic table holds, so that it is real rows they may not find."""
_PERSONAL = "privacy.personal"
_CHANCE = {".auc": 0.5, ".tpr_at_0.01": 0.01, ".tpr_at_0.001": 0.001}
"""What an attack without any success scores, by the end of its name; 0 for all others."""


def on_samples(measure: str, found: Measurement, stored: StoredTables) -> Measurement:
    """What a measure found, with a note on the samples it rests on; where they are all rows, nothing changes.

    Args:
        measure: its name in the engine.
        found: on the samples.
        stored: the tables that they are samples of.
    """
    said = sampled_rows(stored)
    if measure in ON_ALL_ROWS or not said:
        return found
    real = min(stored.real.n_sampled[side] / n for side, n in stored.real.n_rows.items())
    share = real if measure in _SEARCH_REAL else stored.searched
    attacks = measure.startswith("privacy.")
    return replace(
        found, estimates=tuple(_stated(one, said, share if attacks else 1.0, stored) for one in found.estimates)
    )


def sampled_rows(stored: StoredTables) -> str:
    """Of which tables only a sample was looked at, as a sentence; empty where of none."""
    sides = [
        (stored.real.n_sampled["train"], stored.real.n_rows["train"], "training"),
        (stored.real.n_sampled["holdout"], stored.real.n_rows["holdout"], "held-out"),
        (stored.n_sampled, stored.n_offered, "synthetic"),
    ]
    cut = [f"{n:,} of {all_rows:,} {name}" for n, all_rows, name in sides if n < all_rows]
    return f"on seeded samples: {', '.join(cut)} rows" if cut else ""


def _stated(one: Estimate, said: str, share: float, stored: StoredTables) -> Estimate:
    note = "; ".join(part for part in (one.note, said) if part)
    if one.direction != "lower" or one.low is None or one.high is None:
        return replace(one, note=note)
    if one.measure == _PERSONAL and stored.searched < 1.0:
        # As a sample, it has a sampling error; the rows that were found are in the table all the same.
        one = replace(one, low=one.value * stored.searched, high=_beyond(one))
    elif one.measure == _PERSONAL and share < 1.0:
        one = replace(one, high=_beyond(one))
    if share == 1.0:
        return replace(one, note=note)
    chance = next((value for end, value in _CHANCE.items() if one.measure.endswith(end)), 0.0)
    high, detectable = (_of_all(end, chance, share) for end in (one.high, one.detectable))
    note = f"{note}; its upper end allows for what was not searched ({1.0 - share:.1%} of the rows)"
    return replace(one, high=high, detectable=detectable, note=note)


def _of_all(end: float | None, chance: float, share: float) -> float | None:
    """What a table may show as a whole, of which a share shows this."""
    return None if end is None else min(1.0, max(end, chance + (end - chance) / share))


def _beyond(one: Estimate) -> float:
    """The upper end of a share of rows of which a sample was looked at."""
    return max(one.value, clopper_pearson(round(one.value * one.n), one.n)[1])

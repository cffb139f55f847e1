"""The estimates of copied people and rows, from counts of hits and from shares among synthetic and fresh rows."""

import math

from evaluate.intervals import Rate, newcombe
from evaluate.privacy.coincidence import COMMON, FITTED, Coincidences
from evaluate.result import Estimate

MEASURES = ("privacy.copies", "privacy.copies.unique")


def shares(name: str, synthetic: Rate, fresh: Rate, n: int) -> list[Estimate]:
    """The share of synthetic rows among some training rows, and its excess over the same share of fresh rows.

    Args:
        name: of the measure.
        synthetic: the share among synthetic rows.
        fresh: the share among fresh rows.
        n: synthetic rows.
    """
    excess = newcombe(synthetic, fresh)
    among = "a training row that occurs once" if name.endswith("unique") else "a training row"
    return [
        Estimate(
            name, synthetic[0], n, "lower", low=synthetic[1], high=synthetic[2], reference=fresh[0],
            note=f"share of synthetic rows equal to {among} in every learned column",
        ),
        Estimate(
            f"{name}.excess", excess[0], n, "lower", low=excess[1], high=excess[2], reference=0.0,
            note=f"share of synthetic rows equal to {among}, less the same share of fresh real rows",
        ),
    ]  # fmt: skip


def people(found: Coincidences, n_people: int) -> Estimate:
    """People of train whose own row stands in the table beyond coincidence, as a share of those who could be copied.

    Args:
        found: people with a row that nobody else has, and those whose row is hit.
        n_people: of train, all of them.
    """
    # Where held-out people's rows are seldom met, chance repeats no rows that a model could fit.
    copied = found.copied(hit_ratio=FITTED if found.holdout > COMMON * found.n_holdout else 1.0)
    n = min(n_people, int(found.n_drawn))
    value, low, high = (number / n for number in copied)
    note = (
        "share of people whose row, which nobody else has, stands in the table beyond chance; about "
        f"{round(copied[0]):,} people, at least {math.ceil(copied[1]):,}"
    )
    return Estimate(
        "privacy.copies.people", value, n, "lower", low=low, high=min(high, 1.0), reference=0.0, note=note
    )  # fmt: skip

"""The estimates of copied rows, from their shares among synthetic and fresh rows."""

from evaluate.intervals import Rate, newcombe
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

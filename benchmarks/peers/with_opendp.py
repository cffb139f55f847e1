"""OpenDP's `opendp.extras.mbi` on one task: ``python with_opendp.py FOLDER``."""

import math
import sys
from fractions import Fraction
from pathlib import Path

import opendp.prelude as dp
import pandas as pd
import polars as pl
from exchange import Task, perform

dp.enable_features("contrib")


def fit(task: Task) -> dp.mbi.ContingencyTable:
    """A contingency table under pure zCDP, which is what its marginals take where all keys are public."""
    is_mst = task.mechanism == "mst"
    algorithm = dp.mbi.MST() if is_mst else dp.mbi.AIM(queries=3, max_size=task.model_mb)
    rho = usable_rho(task.rho, len(task.sizes) - 1, algorithm.measure_split) if is_mst else task.rho
    context = dp.Context.compositor(
        data=pl.from_pandas(task.train).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    keys = {name: list(range(size)) for name, size in task.sizes.items()}
    query = context.query(rho=rho).select(*task.sizes)
    return query.contingency_table(keys=keys, algorithm=algorithm).release()


def usable_rho(rho: float, n_choices: int, measure_split: float) -> float:
    """The cost lowered by parts in a billion until MST's choices add up to no more than their share.

    OpenDP 0.16 adds the costs of the choices rounded up, and refuses the release where rounding alone takes their sum
    past the share; this is its arithmetic.
    """
    for step in range(1000):
        lowered = rho * (1 - 1e-9 * step)
        rest = below(below(lowered - lowered * 0.5))
        share = below(below(rest - rest * measure_split))
        total = 0.0
        for _ in range(n_choices):
            total = sum_rounded_up(total, below(share / n_choices))
        if total <= share:
            return lowered
    raise ValueError("no cost nearby adds up")


def below(x: float) -> float:
    """The next smaller float."""
    return math.nextafter(x, -math.inf)


def sum_rounded_up(a: float, b: float) -> float:
    """The smallest float that is no less than the exact sum."""
    total = a + b
    return total if Fraction(total) >= Fraction(a) + Fraction(b) else math.nextafter(total, math.inf)


def sample(table: dp.mbi.ContingencyTable, task: Task) -> pd.DataFrame:
    """Codes; null where OpenDP's own code for unknown keys was drawn.

    Not by "round", the default: in mbi 1.1 it draws columns in the order of others that the model does not tie them to.
    """
    return table.synthesize(rows=len(task.train), method="sample").to_pandas()


if __name__ == "__main__":
    perform(Path(sys.argv[1]), ["opendp", "mbi", "jax", "polars"], fit, sample)

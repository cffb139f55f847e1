"""`dpmm` on one task: ``python with_dpmm.py FOLDER``."""

import sys
from pathlib import Path

import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.base.graphical import GraphicalGenerativeModel
from dpmm.models.mst import MSTGM
from exchange import Task, perform
from numpy.random import RandomState

MODELS = {"mst": MSTGM, "aim": AIMGM}


def fit(task: Task) -> GraphicalGenerativeModel:
    """A fitted model over the public codes, without dpmm's own binning."""
    model = MODELS[task.mechanism](epsilon=task.epsilon, delta=task.delta, max_model_size=task.model_mb, n_jobs=1)
    model.set_random_state(RandomState(task.seed))
    model.set_domain(dict(task.sizes))
    model.check_fit(task.train)
    model.fit(task.train)
    return model


def sample(model: GraphicalGenerativeModel, task: Task) -> pd.DataFrame:
    """Codes."""
    return model.generate(n_records=len(task.train))


if __name__ == "__main__":
    perform(Path(sys.argv[1]), ["dpmm", "torch"], fit, sample)

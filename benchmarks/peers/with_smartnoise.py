"""`smartnoise-synth` on one task: ``python with_smartnoise.py FOLDER``."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from exchange import Task, perform
from mbi import MarkovRandomField
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.transform import LabelTransformer, TableTransformer

# The default, "round", draws columns in mbi 1.1 in the order of others that the model does not tie them to.
MarkovRandomField.synthetic_data.__defaults__ = (None, "sample")


def fit(task: Task) -> MSTSynthesizer | AIMSynthesizer:
    """A fitted synthesizer; its labels are learned from the public domain and not from the table."""
    np.random.seed(task.seed)  # noqa: NPY002
    rows = max(task.sizes.values())
    public = pd.DataFrame({name: np.arange(rows) % size for name, size in task.sizes.items()})
    labels = TableTransformer([LabelTransformer(nullable=False) for _ in task.sizes])
    labels.fit(public)
    privacy = {"epsilon": task.epsilon, "delta": task.delta}
    if task.mechanism == "mst":
        synthesizer = MSTSynthesizer(**privacy)
    else:
        synthesizer = AIMSynthesizer(**privacy, max_model_size=task.model_mb)
    synthesizer.fit(task.train, transformer=labels)
    return synthesizer


def sample(synthesizer: MSTSynthesizer | AIMSynthesizer, task: Task) -> pd.DataFrame:
    """Codes."""
    return pd.DataFrame(synthesizer.sample(len(task.train)), columns=list(task.train.columns))


if __name__ == "__main__":
    perform(Path(sys.argv[1]), ["smartnoise-synth", "mbi", "jax"], fit, sample)

"""`smartnoise-synth` on one task: ``python with_smartnoise.py FOLDER``."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from exchange import Task, perform
from mbi import MarkovRandomField
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.pytorch.nn.dpctgan import DPCTGAN
from snsynth.transform import ChainTransformer, LabelTransformer, OneHotEncoder, TableTransformer

# The default, "round", draws columns in mbi 1.1 in the order of others that the model does not tie them to.
MarkovRandomField.synthetic_data.__defaults__ = (None, "sample")


def fit(task: Task) -> MSTSynthesizer | AIMSynthesizer | DPCTGAN:
    """A fitted synthesizer; its labels are learned from the public domain and not from the table."""
    np.random.seed(task.seed)  # noqa: NPY002
    rows = max(task.sizes.values())
    public = pd.DataFrame({name: np.arange(rows) % size for name, size in task.sizes.items()})
    private_gan = task.mechanism == "dpctgan"
    labels = TableTransformer([_one_hot() if private_gan else LabelTransformer(nullable=False) for _ in task.sizes])
    labels.fit(public)
    privacy = {"epsilon": task.epsilon, "delta": task.delta}
    if private_gan:
        gan = DPCTGAN(**privacy, verbose=False)
        gan.fit(task.train, transformer=labels)
        return gan
    if task.mechanism == "mst":
        synthesizer = MSTSynthesizer(**privacy)
    else:
        synthesizer = AIMSynthesizer(**privacy, max_model_size=task.model_mb)
    synthesizer.fit(task.train, transformer=labels)
    return synthesizer


def _one_hot() -> ChainTransformer:
    return ChainTransformer([LabelTransformer(nullable=False), OneHotEncoder()])


def sample(synthesizer: MSTSynthesizer | AIMSynthesizer | DPCTGAN, task: Task) -> pd.DataFrame:
    """Codes."""
    return pd.DataFrame(synthesizer.sample(len(task.train)), columns=list(task.train.columns))


def tell(synthesizer: MSTSynthesizer | AIMSynthesizer | DPCTGAN) -> dict[str, float]:
    """What a GAN did to real rows, and its own account: read before each epoch, and one epoch past the budget."""
    if not isinstance(synthesizer, DPCTGAN):
        return {}
    n_rows = len(synthesizer._data_sampler._data)
    stopped = synthesizer.epsilon_list[-1] > synthesizer.epsilon
    epochs = len(synthesizer.epsilon_list) - stopped
    return {
        "told_epsilon": synthesizer.epsilon_list[-1],
        "noise_multiplier": synthesizer.sigma,
        "batch_size": synthesizer._batch_size,
        "n_rows": n_rows,
        "epochs": epochs,
        # It also counts the step on fakes, which reads real rows only through their exact frequencies.
        "steps": epochs * max(n_rows // synthesizer._batch_size, 1),
    }


if __name__ == "__main__":
    perform(Path(sys.argv[1]), ["smartnoise-synth", "mbi", "jax", "torch", "opacus"], fit, sample, tell)

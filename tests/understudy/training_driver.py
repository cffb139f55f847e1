"""The driver of killed runs, where networks are trained: epochs, steps and checkpoints are moments too."""

import logging
from typing import Any

import driver
import numpy as np

from synth.dp import accounting
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import SystemNoise
from synth.neural import training
from synth.neural.training import CheckpointFolder

_install, _subsampled_rdp = driver.install, accounting._subsampled_rdp
KNOWN: dict[Any, Any] = {}


def subsampled_rdp(event: SubsampledGaussianEvent, orders: np.ndarray) -> np.ndarray:
    """Seconds each, and the same in each attempt."""
    key = (event.noise_multiplier, event.sampling_rate, event.count, orders.tobytes())
    if key not in KNOWN:
        KNOWN[key] = _subsampled_rdp(event, orders)
    return KNOWN[key]


def install(moments: driver.Moments) -> None:
    """The moments of every run, and those of training."""
    _install(moments)
    training.CHECKPOINT_S = 0.0
    training._epoch = moments.around("epoch", training._epoch)
    SystemNoise.floats = moments.around("step", SystemNoise.floats)
    CheckpointFolder.save = moments.around("checkpoint", CheckpointFolder.save)


if __name__ == "__main__":
    driver.install = install
    accounting._subsampled_rdp = subsampled_rdp
    logging.getLogger().addHandler(logging.NullHandler())  # as the command line does, for what is done before the forks
    driver.serve()

"""The driver of killed runs, where networks are trained: epochs, steps and checkpoints are moments too."""

import logging

import driver

from synth.dp.mechanisms import SystemNoise
from synth.neural import training
from synth.neural.training import CheckpointFolder

_install = driver.install


def install(moments: driver.Moments) -> None:
    """The moments of every run, and those of training."""
    _install(moments)
    training.CHECKPOINT_S = 0.0
    training._epoch = moments.around("epoch", training._epoch)
    SystemNoise.floats = moments.around("step", SystemNoise.floats)
    CheckpointFolder.save = moments.around("checkpoint", CheckpointFolder.save)


if __name__ == "__main__":
    driver.install = install
    logging.getLogger().addHandler(logging.NullHandler())  # as the command line does, for what is done before the forks
    driver.serve()

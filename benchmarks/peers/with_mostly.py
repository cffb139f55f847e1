"""`mostlyai-engine`'s TabularARGN with DP-SGD on one task: ``python with_mostly.py FOLDER``."""

import csv
import sys
from pathlib import Path

import pandas as pd
import torch
from exchange import Task, perform
from mostlyai.engine import TabularARGN
from mostlyai.engine._workspace import Workspace
from opacus.accountants import RDPAccountant

MAX_MINUTES = 20.0
"""Of training; it is told, and stops there with what it has."""


def fit(task: Task) -> TabularARGN:
    """A model over public codes, which leave its value protection nothing to protect; all else as it comes."""
    model = TabularARGN(
        max_training_time=MAX_MINUTES,
        value_protection=False,
        differential_privacy={"max_epsilon": task.epsilon, "delta": task.delta},
        tgt_encoding_types=dict.fromkeys(task.sizes, "TABULAR_CATEGORICAL"),
        random_state=task.seed,
    )
    return model.fit(task.train.astype(str))


def sample(model: TabularARGN, task: Task) -> pd.DataFrame:
    """Codes."""
    return model.sample(len(task.train))


def tell(model: TabularARGN) -> dict[str, float]:
    """What it did to the rows it trained on until the weights that it kept, by its accountant's own record."""
    workspace = Workspace(Path(model.workspace_path_))
    state = torch.load(workspace.model_dp_accountant_path, weights_only=True)
    ((noise_multiplier, sampling_rate, steps),) = state["history"]
    accountant = RDPAccountant()
    accountant.load_state_dict(state)
    with workspace.model_progress_messages_path.open() as lines:
        epochs = max(float(line["epoch"]) for line in csv.DictReader(lines))
    return {
        "told_epsilon": accountant.get_epsilon(model.differential_privacy["delta"]),
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "steps": steps,
        "n_rows": workspace.tgt_stats.read()["no_of_training_records"],
        "epochs": epochs,
    }


if __name__ == "__main__":
    perform(Path(sys.argv[1]), ["mostlyai-engine", "torch", "opacus"], fit, sample, tell)

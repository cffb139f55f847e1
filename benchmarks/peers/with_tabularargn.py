"""`mostlyai-engine`'s TabularARGN on a table as it is: ``python with_tabularargn.py FOLDER``.

All is as it comes but for three things. Columns are encoded by the schema's kinds. Training ends after a stated time.
Its value protection is off: bounds and categories are public to every fit of the benchmark.
Off, it is nearer to the real rows: on, it replaces rare values and cuts both ends of numbers.

With an epsilon, what `benchmarks.neural_peers` says of its account holds here, too. Besides, the quantiles and digits
by which it encodes numbers are those of the exact rows, outside of that account.
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from evaluated import measured, read_csv, read_task, write_result
from mostlyai.engine import TabularARGN

MAX_MINUTES = 10.0
"""Of training; it stops there with the best weights so far."""
CATEGORIES, TIMES = ("categorical", "boolean"), ("date", "datetime")
ENCODINGS = dict.fromkeys(CATEGORIES, "TABULAR_CATEGORICAL") | dict.fromkeys(TIMES, "TABULAR_DATETIME")
"""By kind; the rest are numbers."""


def main(folder: Path) -> None:
    """Fit and sample, measured together."""
    task = read_task(folder)
    kinds = {name: column["kind"] for name, column in task["columns"].items()}
    train = read_csv(folder / "train.csv", [name for name, kind in kinds.items() if kind in ENCODINGS])
    train = train.assign(**{name: pd.to_datetime(train[name]) for name, kind in kinds.items() if kind in TIMES})
    model = untrained(task, kinds)
    frames: list[pd.DataFrame] = []
    cost = measured(lambda: frames.append(model.fit(train).sample(len(train))))
    frames[0][list(train.columns)].to_csv(folder / "synthetic.csv", index=False)
    write_result(folder, cost, ["mostlyai-engine", "torch", "opacus"])


def untrained(task: dict[str, Any], kinds: dict[str, str]) -> TabularARGN:
    """The model, with DP-SGD where the task has an epsilon."""
    private = {"max_epsilon": task["epsilon"], "delta": task["delta"]} if "epsilon" in task else None
    return TabularARGN(
        max_training_time=MAX_MINUTES,
        value_protection=False,
        differential_privacy=private,
        tgt_encoding_types={name: ENCODINGS.get(kind, "TABULAR_NUMERIC_AUTO") for name, kind in kinds.items()},
        random_state=task["seed"],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Adversarial random forests by `arfpy` on a table as it is: ``python with_arf.py FOLDER``.

All is as it comes. It takes no missing values: one is a level of a category, and of a number a category beside it.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arfpy import arf
from evaluated import measured, read_csv, read_task, write_result

CATEGORIES, TIMES = ("categorical", "boolean"), ("date", "datetime")
MISSING = "(missing)"


def main(folder: Path) -> None:
    """Fit and sample, measured together."""
    task = read_task(folder)
    kinds = {name: column["kind"] for name, column in task["columns"].items()}
    train = read_csv(folder / "train.csv", [name for name, kind in kinds.items() if kind in (*CATEGORIES, *TIMES)])
    frames: list[pd.DataFrame] = []
    cost = measured(lambda: frames.append(_sampled(train, kinds, task)))
    frames[0].to_csv(folder / "synthetic.csv", index=False)
    write_result(folder, cost, ["arfpy", "scikit-learn", "pandas"])


def _sampled(train: pd.DataFrame, kinds: dict[str, str], task: dict[str, Any]) -> pd.DataFrame:
    np.random.seed(task["seed"])  # noqa: NPY002 - sampling takes no other source
    filled = {}
    for name, kind in kinds.items():
        column = train[name]
        if kind in CATEGORIES:
            filled[name] = column.fillna(MISSING).astype(object)
            continue
        numbers = pd.to_datetime(column).astype("datetime64[s]").astype("int64") if kind in TIMES else column
        numbers = numbers.astype(float).where(column.notna())
        if column.isna().any():
            filled[f"{name} {MISSING}"] = column.isna().map({True: "yes", False: "no"}).astype(object)
        filled[name] = numbers.fillna(numbers.median() if column.notna().any() else 0.0)
    model = arf.arf(x=pd.DataFrame(filled), verbose=False, random_state=task["seed"])
    model.forde()
    drawn = model.forge(n=len(train))
    frames = {}
    for name, kind in kinds.items():
        if kind in CATEGORIES:
            frames[name] = drawn[name].astype(object).where(drawn[name] != MISSING, None)
            continue
        numbers = drawn[name].astype(float)
        if kind in TIMES:
            numbers = pd.to_datetime(numbers.round().astype("int64"), unit="s")
        elif kind == "integer":
            numbers = numbers.round().astype("Int64")
        missing = drawn.get(f"{name} {MISSING}")
        frames[name] = numbers if missing is None else numbers.where(missing.to_numpy() != "yes")
    return pd.DataFrame(frames)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

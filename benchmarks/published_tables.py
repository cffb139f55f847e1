"""Tables of a public benchmark as its protocol reads and splits them.

Source: MinkaiXu/TabDiff (`process_dataset.py`, `data/Info`), which follows TabSyn (2310.09656).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MISSING = "nan"  # a missing category is one of its own
FIRST_SEED, TRAIN_SHARE, HALF = 1234, 0.9, 0.5


@dataclass(frozen=True)
class PublishedTable:
    """How the protocol reads a table.

    Attributes:
        file: name without its end, of CSV with a header unless `names` are given.
        numbers: positions of the numbers, beside the target.
        target: position.
        is_regression: True where the target is a number.
        n_train: rows of the train part where that comes first in the file; none: a seeded split.
        dropped: position of a column that counts rows.
        names: of the columns of a file without a header.
    """

    file: str
    numbers: tuple[int, ...]
    target: int
    is_regression: bool = False
    n_train: int | None = None
    dropped: int | None = None
    names: tuple[str, ...] = ()


MAGIC = ("fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist", "class")
TABLES = {
    "adult": PublishedTable("adult", (0, 2, 4, 10, 11, 12), 14, n_train=32_561),
    "default": PublishedTable("credit_default", (0, 4, *range(11, 23)), 23),
    "shoppers": PublishedTable("shoppers", tuple(range(10)), 17),
    "magic": PublishedTable("magic", tuple(range(10)), 10, names=MAGIC),
    "beijing": PublishedTable("beijing", (5, 6, 7, 9, 10, 11), 4, is_regression=True, dropped=0),
}


@dataclass(frozen=True)
class PublishedSplit:
    """A table in two parts, no row in both. *Sensitive* where the table is.

    Attributes:
        train, test: rows, with missing values as such.
        numbers: names of the numbers, the target among them where it is one.
        categories: names of the others.
        target: name.
        is_regression: True where the target is a number.
    """

    train: pd.DataFrame
    test: pd.DataFrame
    numbers: list[str]
    categories: list[str]
    target: str
    is_regression: bool

    def scored(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Columns as the protocol scores them: numbers in single precision, categories as texts."""
        numbers = {name: frame[name].astype(np.float32).astype(np.float64) for name in self.numbers}
        texts = {
            name: frame[name].astype(object).where(frame[name].notna(), MISSING).map(str) for name in self.categories
        }
        return pd.DataFrame({name: numbers.get(name, texts.get(name)) for name in self.train.columns})


def read_split(folder: Path, name: str, *, halves: bool = False) -> PublishedSplit:
    """A table of a folder, split as published; `halves`: 50/50, as for distances to train and to test.

    Raises:
        FileNotFoundError: the folder has no such file.
    """
    public = TABLES[name]
    paths = sorted(folder.rglob(f"{public.file}.*"))
    if not paths:
        raise FileNotFoundError(f"no file {public.file}.*: folder={str(folder)!r}")
    header: dict[str, Any] = {"header": None, "names": list(public.names)} if public.names else {}
    table = pd.read_csv(paths[0], keep_default_na=False, na_values=["", "NA", "?"], skipinitialspace=True, **header)
    if public.dropped is not None:
        table = table.drop(columns=table.columns[public.dropped]).dropna().reset_index(drop=True)
    names = list(table.columns)
    target, numbers = names[public.target], [names[at] for at in public.numbers]
    categories = [each for each in names if each not in (*numbers, target)]
    if public.n_train is not None and not halves:
        order, n_train = np.arange(len(table)), public.n_train
    else:
        n_train = int(len(table) * (HALF if halves else TRAIN_SHARE))
        order = _order(table, categories, n_train)
    train, test = (table.iloc[part].reset_index(drop=True) for part in (order[:n_train], order[n_train:]))
    (numbers if public.is_regression else categories).append(target)
    return PublishedSplit(train, test, numbers, categories, target, public.is_regression)


def _order(table: pd.DataFrame, categories: list[str], n_train: int) -> np.ndarray:
    """Shuffled rows, by the first seeds in turn after which train has all categories."""
    order, n_kinds = np.arange(len(table)), table[categories].nunique()
    for seed in range(FIRST_SEED, FIRST_SEED + 1000):
        np.random.RandomState(seed).shuffle(order)
        if (table[categories].iloc[order[:n_train]].nunique() == n_kinds).all():
            return order
    raise ValueError("no split has all categories in train; merge rare ones")

"""Canary sentences: secrets that are planted in training texts and looked for in synthetic ones.

A canary is a sentence of a fixed form with random digits. It is appended to texts of some training rows, as often as is
asked for. Afterwards it is looked for in two ways: whether its digits stand in a synthetic text (extraction), and how
much less loss the model has at the canary than at other sentences of the same form (exposure): log2 of how many there
are, less log2 of its rank by loss among `n_others` random ones. A model that never saw the canary gives a uniform rank,
and an exposure of 1 bit or less in half of all cases.

Source: Carlini et al. 2019, "The Secret Sharer", arXiv:1802.08232, sections 4.1 to 4.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.schema import Schema

FORM = "My reference is ###-##-####."
"""The sentence, a sign in place of each random digit."""
N_OTHERS = 999  # Other sentences of the form that a canary is ranked among


@dataclass(frozen=True)
class Canary:
    """A planted sentence, and the rows that hold it."""

    column: str
    sentence: str
    form: str
    rows: tuple[int, ...]

    @property
    def secret(self) -> str:
        """Its random digits.

        >>> Canary("note", "My code is 4-2.", "My code is #-#.", (0,)).secret
        '42'
        """
        return "".join(digit for sign, digit in zip(self.form, self.sentence, strict=True) if sign == "#")

    @property
    def n_possible(self) -> int:
        """How many sentences there are of its form."""
        return int(10 ** self.form.count("#"))


@dataclass(frozen=True)
class FoundCanaries:
    """Canaries that stand in synthetic texts, and how many would by chance."""

    whole: np.ndarray  # which canaries stand in a text with all of their sentence, shape (n_canaries,)
    secrets: np.ndarray  # which stand in it at least by their digits, whatever lies between them, shape (n_canaries,)
    by_chance: float

    @property
    def share(self) -> float:
        """Of those whose digits were found."""
        return float(self.secrets.mean())


def plant(
    train: pd.DataFrame, schema: Schema, n_canaries: int, n_repeats: int, seed: int, form: str = FORM
) -> tuple[pd.DataFrame, tuple[Canary, ...]]:
    """A training table with canaries in its first column of text, each in rows of its own. `train`: *Sensitive*. Left
    as it is.
    """
    name = schema.texts[0]
    column = schema.columns[name]
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.flatnonzero(train[name].notna().to_numpy()), (n_canaries, n_repeats), replace=False)
    sentences = _different(form, n_canaries, rng)
    texts = train[name].astype(object).copy()
    for sentence, places in zip(sentences, rows, strict=True):
        for row in places:
            # What lies beyond the length is not read: the canary is at the end of what is.
            texts.iloc[row] = f"{str(texts.iloc[row])[: column.length - len(form) - 1].rstrip()} {sentence}"
    canaries = tuple(
        Canary(name, sentence, form, tuple(sorted(map(int, places))))
        for sentence, places in zip(sentences, rows, strict=True)
    )
    return train.assign(**{name: texts}), canaries


def find_canaries(canaries: Sequence[Canary], synthetic: pd.DataFrame) -> FoundCanaries:
    texts = [text for text in synthetic[canaries[0].column].tolist() if isinstance(text, str)]
    joined = "\n".join(texts)
    digits = "\n".join("".join(filter(str.isdecimal, text)) for text in texts)
    return FoundCanaries(
        np.array([canary.sentence in joined for canary in canaries]),
        np.array([canary.secret in digits for canary in canaries]),
        sum(-np.expm1(len(texts) * np.log1p(-1 / canary.n_possible)) for canary in canaries),
    )  # fmt: skip


def exposures(
    canaries: Sequence[Canary],
    planted: pd.DataFrame,
    losses_of: Callable[[pd.DataFrame, str], np.ndarray],
    seed: int,
    n_others: int = N_OTHERS,
) -> np.ndarray:
    """The exposure of each canary in bits, up to log2(n_others + 1); shape (n_canaries,). `planted`: *Sensitive*. The
    table that holds them. A canary is ranked in the first row that holds it, with all else of the row and of its text
    as it is. Ties are broken at random, so that a model that knows nothing has a uniform rank.
    """
    rng, ranks = np.random.default_rng(seed), np.zeros(len(canaries))
    for index, canary in enumerate(canaries):
        row = planted.iloc[[canary.rows[0]]]
        text = str(row[canary.column].iloc[0])
        others = _different(canary.form, min(n_others, canary.n_possible - 1), rng, canary.sentence)
        rows = pd.concat([row] * (len(others) + 1), ignore_index=True)
        rows[canary.column] = [text, *(text.replace(canary.sentence, other) for other in others)]
        losses = np.asarray(losses_of(rows, canary.column), dtype=np.float64)
        rank = 1 + int((losses[1:] < losses[0]).sum())
        ties = int((losses[1:] == losses[0]).sum())
        ranks[index] = np.log2(len(losses)) - np.log2(rank + rng.integers(0, ties + 1))
    return ranks


def _different(form: str, n: int, rng: np.random.Generator, but: str = "") -> list[str]:
    """Different sentences of a form, in random order, without a certain one."""
    secrets: dict[str, None] = {}
    while len(secrets) < n:
        digits = iter(rng.integers(0, 10, form.count("#")).tolist())
        secrets.setdefault("".join(str(next(digits)) if sign == "#" else sign for sign in form))
        secrets.pop(but, None)
    return list(secrets)

"""Public texts for the benchmark of free text: of the same kind as the complaints, and of another kind."""

from pathlib import Path

import numpy as np

from tests.text_tables import TEXT, complaints

N_LIKE, N_UNLIKE = 800, 400
"""Texts of each file."""
SEED = 9_000
"""Of texts of the same kind: no table of the benchmark has it."""
_PARTS = (
    ("The museum opens at {hour} on weekdays.", "Our library lends {many} books a day.",
     "The garden was laid out in {year}.", "A ferry leaves for the island at {hour}.",
     "The tower is {many} meters high."),
    ("Children under {few} come in free of charge.", "Please leave coats and bags at the entrance.",
     "Dogs are welcome on a leash.", "Tours are given in {few} languages.", "There is a café beside the old gate."),
    ("It rained for {few} days in spring.", "In autumn the leaves of the beeches turn yellow.",
     "Jazz is played in the yard on Fridays.", "Quiet hours begin at {hour}.",
     "The exhibition on maps ends in winter."),
)  # fmt: skip


def like() -> list[str]:
    """Complaints of other people, without secrets: the best that public texts can be."""
    return [str(text) for text in complaints(N_LIKE, SEED)[TEXT]]


def unlike() -> list[str]:
    """Notices to visitors of a town, with which complaints have little but English in common."""
    rng = np.random.default_rng(SEED)
    return [_notice(rng) for _ in range(N_UNLIKE)]


def _notice(rng: np.random.Generator) -> str:
    words = {
        "hour": f"{rng.integers(7, 21)}:{rng.choice(('00', '15', '30', '45'))}",
        "many": rng.integers(20, 900), "few": rng.integers(3, 13), "year": rng.integers(1_650, 1_990),
    }  # fmt: skip
    return " ".join(str(rng.choice(sentences)) for sentences in _PARTS).format(**words)


def written(texts: list[str], path: Path) -> Path:
    """The file of these texts, one a line."""
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path

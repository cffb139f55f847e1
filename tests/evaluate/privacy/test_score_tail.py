"""The tail of held-out scores raises no alarm by chance."""

import numpy as np

from evaluate.privacy.score_tail import ScoreTail


def test_the_tail_allows_for_being_estimated() -> None:
    """Scores whose tail is exponential, or lighter: at most one alarm in a thousand tables, by chance."""
    alarms = 0
    for seed in range(400):
        scores = np.random.default_rng(seed).exponential(1.5, 3_000)
        alarms += int((2_000 * ScoreTail.of(scores[:1_000]).chance(scores[1_000:])).min() <= 1e-3)
    assert alarms <= 4

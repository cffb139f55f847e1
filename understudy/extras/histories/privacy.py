"""The attack on whole histories: people whose rows, several in their order, stand in one synthetic history.

The attacker knows the synthetic table, the complete history of every target, and a sample of other people's histories
(the fresh half of the holdout). They win with a synthetic history that shares more with the target than chance
explains, whole or with other rows around it. Two histories share rows that agree in every learned column but the order
and what is constant in an entity; where single rows tell little, several rows in a row are taken together. A shared
content counts once, by how few of the attacker's own rows hold it, in nats. The logarithm of how many pairs of rows
were tried is taken off. The score of a target is that of the best synthetic history, so that a copy of one history
stands out among any number of honest ones.

Scores of held-out people say what chance comes to with this synthetic table (`evaluate.privacy.score_tail`). A person
is copied where this leaves less than `CERTAIN` for all people of train together (Bonferroni). The scores are also a
membership attack, which looks at all rows of a target together.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.intervals import clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, Metric
from evaluate.privacy.coincidence import CERTAIN
from evaluate.privacy.exact import exact_of
from evaluate.privacy.membership_attacks import TargetNeighborhoods
from evaluate.privacy.score_tail import LEAST_CONTROLS, ScoreTail
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth.row_order import histories_of
from understudy.extras.histories.samples import NO_ORDER

NAME, COPIED = "privacy.histories", "privacy.histories.copied"
METRICS = (
    Metric(COPIED, "lower", "Histories copied", "Share of training people whose history stands in one synthetic "
           "history, whole or with other rows around it, beyond what chance explains.", counted=COPIED_PEOPLE, key=True,
           attack="always", criteria=("singling out", "linkability"), needs="order", ends=(0.0, 1.0)),
)  # fmt: skip
MOST_WIDE = 4  # Rows in a row that are taken together at most
MOST_HOLDERS = 50  # Synthetic histories that hold what is shared, at most: what more of them hold tells nobody apart
TELLING = 0.5  # Share of the attacker's own rows whose content at most `MOST_HOLDERS` synthetic histories hold
_BLOCK = 4_096  # Targets whose synthetic histories are looked up together
_SIDES = ("train", "fresh", "control", "synthetic")


@dataclass(frozen=True)
class HistoryContents:
    """Which histories hold which contents, each table of shape (n_histories, n_contents), zeros and ones. *Sensitive*.
    `width`: rows in a row that make a content, as many as it takes to tell histories apart.
    """

    width: int
    train: sparse.csr_matrix
    fresh: sparse.csr_matrix
    control: sparse.csr_matrix
    synthetic: sparse.csr_matrix

    @classmethod
    def of(cls, tables: Tables) -> "HistoryContents | None":
        """The contents of an evaluation, made once for the same tables; `None` where nothing tells histories apart."""
        return tables.kept.once("history contents", lambda: cls._made(tables))

    @classmethod
    def _made(cls, tables: Tables) -> "HistoryContents | None":
        exact, left_out = exact_of(tables), {tables.schema.order, *tables.schema.constant_in_entity}
        used = [i for i, name in enumerate(exact.names) if name not in left_out]
        if not used:
            return None
        histories = [histories_of(getattr(tables, side), tables.schema) for side in _SIDES]
        codes = [getattr(exact, side)[used][:, own.rows] for side, own in zip(_SIDES, histories, strict=True)]
        rows = _numbered(list(np.hstack(codes)))
        ends = np.cumsum([len(own.starts) for own in histories])
        starts = (0, *ends[:-1])
        owners = np.concatenate([own.owners + start for own, start in zip(histories, starts, strict=True)])
        for width in range(1, MOST_WIDE + 1):
            n = max(len(rows) - width + 1, 0)
            inside = owners[:n] == owners[width - 1 :]
            content = _numbered([rows[i : i + n][inside] for i in range(width)])
            cells = (np.ones(len(content)), (owners[:n][inside], content))
            held = sparse.csr_matrix(cells, shape=(ends[-1], int(content.max(initial=-1)) + 1))
            held.data[:] = 1.0
            contents = cls(width, *(held[start:end] for start, end in zip(starts, ends, strict=True)))
            own = contents.fresh.indices
            if len(own) and (contents.synthetic.getnnz(axis=0)[own] <= MOST_HOLDERS).mean() >= TELLING:
                return contents
        return None

    @property
    def information(self) -> np.ndarray:
        """The weight of each content in nats: how few of the attacker's own rows hold it; shape (n_contents,)."""
        return np.asarray(np.log((self.fresh.nnz + 1) / (self.fresh.getnnz(axis=0) + 1)))

    def scores(self, targets: sparse.csr_matrix) -> np.ndarray:
        """Of each target the score of the synthetic history that shares most with it, else 0; shape (n,)."""
        n_synthetic = self.synthetic.getnnz(axis=0)
        shared = np.flatnonzero((targets.getnnz(axis=0) > 0) & (n_synthetic > 0) & (n_synthetic <= MOST_HOLDERS))
        weighted = targets[:, shared] @ sparse.diags(self.information[shared])
        theirs, scores = self.synthetic[:, shared].T, np.zeros(targets.shape[0])
        sizes = (targets.getnnz(axis=1), self.synthetic.getnnz(axis=1))
        for start in range(0, len(scores), _BLOCK):
            both = (weighted[start : start + _BLOCK] @ theirs).tocoo()
            rows = both.row + start
            np.maximum.at(scores, rows, both.data - np.log(sizes[0][rows] * sizes[1][both.col]))
        return scores

    def own(self, targets: sparse.csr_matrix) -> np.ndarray:
        """Of each target the score of a whole copy of it; shape (n,)."""
        return np.asarray(targets @ self.information - 2 * np.log(np.maximum(targets.getnnz(axis=1), 1)))


def _numbered(lines: list[np.ndarray]) -> np.ndarray:
    """A number for every place, equal where all lines are; shape (n,)."""
    return pd.DataFrame(dict(enumerate(lines))).groupby(list(range(len(lines))), sort=False).ngroup().to_numpy()


def history_scores(tables: Tables) -> tuple[np.ndarray, np.ndarray, HistoryContents] | None:
    """Scores of training people and of control people, and what they rest on, made once for the same tables. `None`
    where the schema names no order, or nothing tells histories apart.
    """
    if tables.schema.order is None or (contents := HistoryContents.of(tables)) is None:
        return None
    return tables.kept.once(
        "history scores", lambda: (contents.scores(contents.train), contents.scores(contents.control), contents)
    )


def membership(
    tables: Tables, members: TargetNeighborhoods, controls: TargetNeighborhoods
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores of the whole histories of targets; 0 for a row without an entity, which has none."""
    scores = history_scores(tables)
    if scores is None:
        return None
    sides = []
    for frame, targets, of_side in ((tables.train, members, scores[0]), (tables.control, controls, scores[1])):
        numbers = pd.factorize(frame[tables.schema.entity])[0][targets.positions[targets.first]]
        sides.append(np.where(numbers < 0, 0.0, np.append(of_side, 0.0)[numbers]))
    return sides[0], sides[1]


def measure(tables: Tables) -> MetricResult:
    """The share of training people whose history was copied beyond chance. A history that chance explains gives nobody
    away, however it came into the table. So all people count, also those of whom not even a whole copy would be told
    from chance; the note says how many would.
    """
    if tables.schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    scores = history_scores(tables)
    if scores is None:
        k, n = 0, len(np.unique(entity_codes(tables.train, tables.schema)))
        note = "nobody: no row, and no few rows in a row, are rare enough to tell one history from another"
    else:
        members, controls, contents = scores
        if len(controls) < LEAST_CONTROLS:
            why = f"it needs at least {LEAST_CONTROLS} held-out people in either half"
            return MetricResult(failures=(Failure(COPIED, "skipped", why),))
        tail, n = ScoreTail.of(controls), len(members)
        certain = n * tail.chance(members) <= CERTAIN
        could = (n * tail.chance(contents.own(contents.train)) <= CERTAIN) | certain
        k = int(certain.sum())
        rows = "rows" if contents.width == 1 else f"{contents.width} rows in a row"
        note = (
            f"share of people whose history stands in one synthetic history beyond chance: {k:,} of {n:,}, by {rows} "
            f"that both hold; of {int(could.sum()):,} people a whole copy would have been told from chance"
        )
    high = clopper_pearson(k, n)[1]
    return MetricResult((Estimate(COPIED, k / n, n, "lower", low=k / n, high=high, reference=0.0, note=note),))

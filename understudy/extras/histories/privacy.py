"""The attack on whole histories: people whose rows, several in their order, stand in one synthetic history.

The attacker knows the synthetic table, the complete history of every target, and a sample of other people's histories
(the fresh half of the holdout). They win with a synthetic history that shares more with the target than chance
explains, whole or with other rows around it. Two histories share rows that agree in every learned column but the order
and what is constant in an entity. A copy that was changed a little hides from this, so that rows are looked at in more
ways: without some of the columns, and with numbers up to their quantile. Where single rows tell little, several rows in
a row are taken together. A shared content counts once, by how few of the attacker's own rows hold it, in nats. The
logarithm of how many pairs of rows were tried is taken off. The score of a target is that of the best look and
synthetic history, so that a copy of one history stands out among any number of honest ones.

Scores of held-out people say what chance comes to with this synthetic table (`ScoreTail`). A person
is copied where this leaves less than `CERTAIN` for all people of train together (Bonferroni). The scores are also a
membership attack, which looks at all rows of a target together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.intervals import clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, Metric
from evaluate.privacy.coincidence import CERTAIN, LEAST_CONTROLS, Exact, ScoreTail, exact_of
from evaluate.privacy.membership_attacks import TargetNeighborhoods
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth.row_order import Histories, histories_of
from understudy.extras.histories.fidelity import NO_ORDER

NAME, COPIED = "privacy.histories", "privacy.histories.copied"
METRICS = (
    Metric(COPIED, "lower", "Histories copied", "Share of training people whose history stands in one synthetic "
           "history, whole or with other rows around it, beyond what chance explains.", counted=COPIED_PEOPLE, key=True,
           attack="always", criteria=("singling out", "linkability"), needs="order", ends=(0.0, 1.0)),
)  # fmt: skip
MOST_WIDE = 4  # Rows in a row that are taken together at most
MOST_LEFT_OUT = 12  # Looks that leave out a column, or some where there are more
N_QUANTILES = (100, 20)  # Of the attacker's own rows, up to which numbers are told apart where copies are not exact
MOST_HOLDERS = 50  # Synthetic histories that hold what is shared, at most: what more of them hold tells nobody apart
TELLING = 0.5  # Share of the attacker's own rows whose content at most `MOST_HOLDERS` synthetic histories hold
_BLOCK = 4_096  # Targets whose synthetic histories are looked up together
_FACTORS = np.array([3**40, 5**27, 7**22, 11**18], dtype=np.uint64)  # odd: of hashes of rows in a row
# Of rows of all tables in the order of their histories, by some of what they hold: hashes; the nats of each row, were
# columns independent, by the attacker's own rows; and the nats of two being equal, likewise.
Look = tuple[np.ndarray, np.ndarray, float]
_SIDES = ("train", "fresh", "control", "synthetic")


@dataclass(frozen=True)
class HistoryContents:
    """Which histories hold which contents, zeros and ones, each table of shape (n_histories, n_contents)."""

    width: int  # rows in a row that make a content, as many as it takes to tell histories apart
    surprise: np.ndarray  # of each content in nats, were columns independent; shape (n_contents,)
    collision: float  # nats of two rows being equal, likewise
    train: sparse.csr_matrix
    fresh: sparse.csr_matrix
    control: sparse.csr_matrix
    synthetic: sparse.csr_matrix

    @classmethod
    def of(cls, tables: Tables) -> "list[HistoryContents]":
        histories = [histories_of(getattr(tables, side), tables.schema) for side in _SIDES]
        ends = np.cumsum([len(own.starts) for own in histories])
        starts, contents_by_look = (0, *ends[:-1]), []
        owners = np.concatenate([own.owners + start for own, start in zip(histories, starts, strict=True)])
        for hashes, surprise, collision in _looks(tables, histories):
            for width in range(1, min(MOST_WIDE, len(owners)) + 1):
                n = len(owners) - width + 1
                inside = owners[:n] == owners[width - 1 :]
                runs = [hashes[i : i + n][inside] * _FACTORS[i] for i in range(width)]
                content = pd.factorize(np.sum(runs, axis=0, dtype=np.uint64))[0]
                cells = (np.ones(len(content)), (owners[:n][inside], content))
                matrix = sparse.csr_matrix(cells, shape=(ends[-1], int(content.max(initial=-1)) + 1))
                matrix.data[:] = 1.0
                nats = np.full(matrix.shape[1], np.inf)
                np.minimum.at(nats, content, np.sum([surprise[i : i + n][inside] for i in range(width)], axis=0))
                sides = (matrix[start:end] for start, end in zip(starts, ends, strict=True))
                contents = cls(width, nats, collision, *sides)
                own = contents.fresh.indices
                if len(own) and (contents.synthetic.getnnz(axis=0)[own] <= MOST_HOLDERS).mean() >= TELLING:
                    contents_by_look.append(contents)
                    break
        return contents_by_look

    @cached_property
    def information(self) -> np.ndarray:
        """The weight of each content in nats, shape (n_contents,): how few of the attacker's own rows hold it. Where it
        is more, its surprise, as far as rows of two people are as seldom equal as those of independent columns.
        """
        fresh, others = self.fresh.getnnz(axis=0), self.control.getnnz(axis=0)
        seldom = np.log((float(fresh.sum()) * others.sum() + 1) / (float(fresh @ others) + 1))
        ratio = min(seldom / max(self.width * self.collision, 1e-9), 1.0)
        return np.asarray(np.maximum(np.log((fresh.sum() + 1) / (fresh + 1)), ratio * self.surprise))

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
        return np.asarray(targets @ self.information - 2 * np.log(np.maximum(targets.getnnz(axis=1), 1)))


def _looks(tables: Tables, histories: list[Histories]) -> Iterator[Look]:
    """By all columns that are compared; by all but some; by all, numbers and times up to their quantile."""
    exact, schema = exact_of(tables), tables.schema
    names = [name for name in exact.names if name != schema.order and name not in schema.constant_in_entity]
    columns = {name: _hashed(name, tables, exact, histories) for name in names}
    free = [name for name in names if name not in schema.nondecreasing_in_entity]
    parts = np.array_split(np.array(names, dtype=object), max(min(len(names), MOST_LEFT_OUT), 1))
    fewer = ([name for name in columns_of if name not in part] for columns_of in (names, free) for part in parts)
    kept = [names, free, *fewer]
    looks = [[columns[name][0] for name in among] for among in dict.fromkeys(map(tuple, kept))]
    for of_columns in (*looks, *([columns[name][-level] for name in free] for level in range(len(N_QUANTILES), 0, -1))):
        if of_columns:
            hashes, surprise, collisions = zip(*of_columns, strict=True)
            yield np.asarray(np.sum(hashes, axis=0, dtype=np.uint64)), np.sum(surprise, axis=0), sum(collisions)


def _hashed(name: str, tables: Tables, exact: Exact, histories: list[Histories]) -> list[Look]:
    """By the values of a column, and by its quantiles, coarser and coarser; those of a category are its values."""
    column, at = tables.schema.columns[name], exact.names.index(name)
    ways = [[getattr(exact, side)[at] for side in _SIDES]] * (1 + len(N_QUANTILES))
    if not column.is_categorical:
        lines = [column.positions(getattr(tables, side)[name]) for side in _SIDES]
        for level, n in enumerate(N_QUANTILES, 1):
            edges = np.nanquantile(lines[1], np.arange(1, n) / n) if np.isfinite(lines[1]).any() else np.zeros(0)
            ways[level] = [np.where(np.isnan(line), -1, np.searchsorted(edges, line)) for line in lines]
    looks, starts = [], np.concatenate([own.places == 1 for own in histories])
    for way in ways:
        codes = np.concatenate([part[own.rows] for part, own in zip(way, histories, strict=True)]) + 1
        size = codes.max(initial=0) + 1
        hashes = np.random.default_rng([at, 25]).integers(2**64, size=size, dtype=np.uint64)
        counts = np.bincount(way[1][histories[1].rows] + 1, minlength=size) + 1.0
        shares = counts / counts.sum()
        # What stays as in the row before, or grows, says nothing new of its person.
        is_new = starts | (np.diff(codes, prepend=-1) != 0)
        is_new &= name not in tables.schema.nondecreasing_in_entity
        collision = -float(np.log((shares**2).sum())) if is_new.any() else 0.0
        looks.append((hashes[codes], np.where(is_new, -np.log(shares)[codes], 0.0), collision))
    return looks


def history_scores(tables: Tables) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
    """By look, scores of training people, of control people, and of whole copies of training people; made once for the
    same tables. Nothing where the schema names no order, or nothing tells histories apart.
    """
    return tables.kept.once("history scores", lambda: tuple(
        (each.scores(each.train), each.scores(each.control), each.own(each.train))
        for each in (HistoryContents.of(tables) if tables.schema.order is not None else ())
    ))  # fmt: skip


def membership(
    tables: Tables, members: TargetNeighborhoods, controls: TargetNeighborhoods
) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores of the whole histories of targets; 0 for a row without an entity, which has none."""
    scores = history_scores(tables)
    if not scores:
        return None
    sides = []
    for frame, targets, of_side in ((tables.train, members, scores[0][0]), (tables.control, controls, scores[0][1])):
        numbers = pd.factorize(frame[tables.schema.entity])[0][targets.positions[targets.first]]
        sides.append(np.where(numbers < 0, 0.0, np.append(of_side, 0.0)[numbers]))
    return sides[0], sides[1]


def measure(tables: Tables) -> MetricResult:
    """The share of training people whose history was copied beyond chance.

    A history that chance explains gives nobody away, however it came into the table. So all people count, also those of
    whom not even a whole copy would be told from chance; the note says how many would.
    """
    if tables.schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    scores = history_scores(tables)
    if not scores:
        k, n = 0, len(np.unique(entity_codes(tables.train, tables.schema)))
        note = "nobody: no row, and no few rows in a row, are rare enough to tell one history from another"
    else:
        n, n_controls = len(scores[0][0]), len(scores[0][1])
        if n_controls < LEAST_CONTROLS:
            why = f"it needs at least {LEAST_CONTROLS} held-out people in either half"
            return MetricResult(failures=(Failure(COPIED, "skipped", why),))
        certain, could = np.zeros((2, n), dtype=bool)
        for members, controls, whole in scores:
            tail, level = ScoreTail.of(controls), CERTAIN / len(scores) / n
            certain |= tail.chance(members) <= level
            could |= tail.chance(whole) <= level
        k = int(certain.sum())
        note = (
            f"share of people whose history, or nearly so, stands in one synthetic history beyond chance: {k:,} of "
            f"{n:,}; of {int((could | certain).sum()):,} people a whole copy would have been told from chance"
        )
    high = clopper_pearson(k, n)[1]
    return MetricResult((Estimate(COPIED, k / n, n, "lower", low=k / n, high=high, reference=0.0, note=note),))

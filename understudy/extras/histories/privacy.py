"""Attacks on whole histories: copies of several rows, and singling out by two rows that follow each other.

The attacker knows the synthetic table, and the complete history of every target: its rows in their order. They also
have a sample of other people's histories (the fresh half of the holdout).

**Copied histories.** They want to say of a target that its history was put into one synthetic history, whole or with
other rows around it. They win with a synthetic history that shares more with the target than chance explains. Two
histories share rows that agree in every learned column but the order and what is constant in an entity. Where single
rows tell little, several rows in a row are taken together (`MOST_WIDE`). A shared content counts by how few of the
attacker's own rows hold it, in nats; each content counts once. The logarithm of how many pairs of rows were tried is
taken off. The score of a target is that of the best synthetic history. So a copy of one history stands out among any
number of honest ones, which no count of single rows would show.

Scores of held-out people say what chance comes to with this synthetic table, a concentrated one included
(`evaluate.privacy.score_tail`). A person is copied where this leaves less than `CERTAIN` for all people of train
together (Bonferroni). The scores are also a membership attack, which looks at all rows of a target together.

**Singling out by histories.** They want a description of two rows that follow each other, such as "a fever, and then
nothing". It has to be true of exactly one person (`evaluate.privacy.singling_out`). The same descriptions are tried on
held-out people. Only the excess of training people over these is a leak.

Source: Giomi et al. 2023, arXiv:2211.10459.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.intervals import clopper_pearson
from evaluate.metrics import ATTEMPTS, COPIED_PEOPLE, Metric
from evaluate.privacy.coincidence import CERTAIN
from evaluate.privacy.exact import exact_of
from evaluate.privacy.experiment import Experiment
from evaluate.privacy.membership_attacks import TargetNeighborhoods
from evaluate.privacy.score_tail import LEAST_CONTROLS, ScoreTail
from evaluate.privacy.singling_out import (
    MIN_PREDICATES,
    added_up,
    alone,
    are_numbers,
    attempts,
    coded,
    dependence,
    guesses,
)
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth.row_order import Histories, histories_of
from understudy.extras.histories.samples import NO_ORDER, StepLayout, varying

NAME, COPIED, SINGLED_OUT = "privacy.histories", "privacy.histories.copied", "privacy.histories.singling_out"
METRICS = (
    Metric(COPIED, "lower", "Histories copied", "Share of training people whose history stands in one synthetic "
           "history, whole or with other rows around it, beyond what chance explains.", counted=COPIED_PEOPLE, key=True,
           attack="always", criteria=("singling out", "linkability"), needs="order", ends=(0.0, 1.0)),
    Metric(SINGLED_OUT, "lower", "Singling out by what followed what", "How much more often a description of two rows "
           "in a row, which one synthetic history has, is true of exactly one training person than of one other.",
           counted=ATTEMPTS, attack="always", criteria=("singling out",), needs="order", ends=(-1.0, 1.0),
           sampled="alone"),
)  # fmt: skip
MOST_WIDE = 4  # Rows in a row that are taken together at most
MOST_HOLDERS = 50  # Synthetic histories that hold what is shared, at most: what more of them hold tells nobody apart
TELLING = 0.5  # Share of the attacker's own rows whose content at most `MOST_HOLDERS` synthetic histories hold
_BLOCK = 4_096  # Targets whose synthetic histories are looked up together
# An odd number near 2^64 over the golden ratio: its products spread each bit of a content over the higher ones, so that
# different contents hardly ever have equal hashes (Knuth, "The Art of Computer Programming", 6.4).
_MIXED = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Contents:
    """Contents of histories as numbers. *Sensitive* where the histories are real."""

    content: np.ndarray  # what each window of rows holds, shape (n,), equal for equal content
    owners: np.ndarray  # whose it is, from 0, shape (n,)
    n: int

    @classmethod
    def of(cls, rows: np.ndarray, histories: Histories, width: int) -> "Contents":
        """Contents of so many rows in a row, each once in a history. `rows`: the content of each row of the table,
        shape (n_rows,), uint64.
        """
        ordered, owners = rows[histories.rows], histories.owners
        n = max(len(ordered) - width + 1, 0)
        content = np.zeros(n, dtype=np.uint64)
        for i in range(width):
            content = (content ^ (content >> np.uint64(29))) * _MIXED + ordered[i : i + n]
        inside = owners[:n] == owners[width - 1 :]
        content, owners = content[inside], owners[:n][inside]
        order = np.lexsort((content, owners))
        content, owners = content[order], owners[order]
        first = np.ones(len(content), dtype=bool)
        first[1:] = (content[1:] != content[:-1]) | (owners[1:] != owners[:-1])
        return cls(content[first], owners[first], len(histories.starts))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Different contents of each history, shape (n,)."""
        return np.bincount(self.owners, minlength=self.n)

    def holders(self, content: np.ndarray) -> np.ndarray:
        """The number of histories that hold each content."""
        known, counts = np.unique(self.content, return_counts=True)
        if not len(known):
            return np.zeros(len(content), dtype=np.int64)
        positions = np.minimum(np.searchsorted(known, content), len(known) - 1)
        return np.where(known[positions] == content, counts[positions], 0)

    def incidence(self, shared: np.ndarray) -> sparse.csr_matrix:
        """Which history holds which of some contents, ascending; shape (n, n_shared)."""
        positions = np.minimum(np.searchsorted(shared, self.content), len(shared) - 1)
        there = shared[positions] == self.content
        cells = (np.ones(int(there.sum())), (self.owners[there], positions[there]))
        return sparse.csr_matrix(cells, shape=(self.n, len(shared)))


@dataclass(frozen=True)
class HistoryContents:
    """Contents of the four tables, windows as wide as it takes to tell histories apart. *Sensitive*."""

    train: Contents
    fresh: Contents
    control: Contents
    synthetic: Contents
    width: int

    @classmethod
    def of(cls, tables: Tables) -> "HistoryContents | None":
        """The contents of an evaluation, made once for the same tables; `None` where nothing tells histories apart."""
        return tables.kept.once("history contents", lambda: cls._made(tables))

    @classmethod
    def _made(cls, tables: Tables) -> "HistoryContents | None":
        schema, exact = tables.schema, exact_of(tables)
        used = [
            i for i, name in enumerate(exact.names) if name != schema.order and name not in schema.constant_in_entity
        ]
        if not used:
            return None
        factors = np.random.default_rng([tables.seed, 16]).integers(1, 2**63, len(used), dtype=np.uint64) | np.uint64(1)
        sides = {}
        for side in ("train", "fresh", "control", "synthetic"):
            codes, frame = getattr(exact, side), getattr(tables, side)
            rows = np.zeros(codes.shape[1], dtype=np.uint64)
            for i, factor in zip(used, factors, strict=True):
                rows = (rows ^ (rows >> np.uint64(29))) * _MIXED + (codes[i] + 2).astype(np.uint64) * factor
            sides[side] = (rows, histories_of(frame, schema))
        for width in range(1, MOST_WIDE + 1):
            contents = cls(**{side: Contents.of(*rows, width) for side, rows in sides.items()}, width=width)
            own = contents.fresh.content
            if len(own) and (contents.synthetic.holders(own) <= MOST_HOLDERS).mean() >= TELLING:
                return contents
        return None

    def information(self, content: np.ndarray) -> np.ndarray:
        """The weight of each content in nats: how few of the attacker's own rows hold it."""
        return np.asarray(np.log((len(self.fresh.content) + 1) / (self.fresh.holders(content) + 1)))

    def scores(self, targets: Contents) -> np.ndarray:
        """Of each target the score of the synthetic history that shares most with it, else 0; shape (n,)."""
        scores, synthetic = np.zeros(targets.n), self.synthetic
        shared = np.intersect1d(np.unique(synthetic.content), targets.content)
        shared = shared[synthetic.holders(shared) <= MOST_HOLDERS]
        if not len(shared):
            return scores
        weighted = targets.incidence(shared) @ sparse.diags(self.information(shared))
        theirs = synthetic.incidence(shared).T
        for start in range(0, targets.n, _BLOCK):
            both = (weighted[start : start + _BLOCK] @ theirs).tocoo()
            rows = both.row + start
            tried = np.log(targets.sizes[rows] * synthetic.sizes[both.col])
            np.maximum.at(scores, rows, both.data - tried)
        return scores

    def own(self, targets: Contents) -> np.ndarray:
        """Of each target the score of a whole copy of it; shape (n,)."""
        total = np.bincount(targets.owners, self.information(targets.content), minlength=targets.n)
        return np.asarray(total - 2 * np.log(np.maximum(targets.sizes, 1)))


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
    """People whose history was copied; nothing but a reason where the schema names no order."""
    if tables.schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    both = (_copied(tables), _singled_out(tables))
    return MetricResult(
        tuple(each for each in both if isinstance(each, Estimate)),
        tuple(each for each in both if isinstance(each, Failure)),
    )


def _copied(tables: Tables) -> Estimate | Failure:
    """The share of training people whose history was copied beyond chance. A history that chance explains gives nobody
    away, however it came into the table. So all people count, also those of whom not even a whole copy would be told
    from chance; the note says how many would.
    """
    scores = history_scores(tables)
    if scores is None:
        n = len(np.unique(entity_codes(tables.train, tables.schema)))
        why = "nobody: no row, and no few rows in a row, are rare enough to tell one history from another"
        return Estimate(COPIED, 0.0, n, "lower", low=0.0, high=clopper_pearson(0, n)[1], reference=0.0, note=why)
    members, controls, contents = scores
    if len(controls) < LEAST_CONTROLS:
        return Failure(COPIED, "skipped", f"it needs at least {LEAST_CONTROLS} held-out people in either half")
    tail, n = ScoreTail.of(controls), len(members)
    certain = n * tail.chance(members) <= CERTAIN
    could = (n * tail.chance(contents.own(contents.train)) <= CERTAIN) | certain
    k = int(certain.sum())
    rows = "rows" if contents.width == 1 else f"{contents.width} rows in a row"
    note = (
        f"share of people whose history stands in one synthetic history beyond chance: {k:,} of {n:,}, by {rows} that "
        f"both hold; of {int(could.sum()):,} people a whole copy would have been told from chance"
    )
    return Estimate(COPIED, k / n, n, "lower", low=k / n, high=clopper_pearson(k, n)[1], reference=0.0, note=note)


N_PREDICATES = 1_000  # Descriptions that are tried, at most
MOST_COLUMNS = 8  # Columns that a description is about, at most: with more, it fits nobody else, and copies alone
N_GUESSES = 200  # Descriptions by somebody who knows no synthetic row: the success that needs no leak
_STREAM = 0x52  # Tells this module's random numbers from those of others with the same seed


def _singled_out(tables: Tables) -> Estimate | Failure:
    """The advantage of descriptions of two rows in a row on training people over control people."""
    layout = StepLayout.of(tables.schema, varying(tables.schema))
    frames = {side: getattr(tables, side) for side in ("synthetic", "train", "control")}
    steps = {side: layout.steps(frame, histories_of(frame, tables.schema)) for side, frame in frames.items()}
    if not layout.now or min(map(len, steps.values())) < MIN_PREDICATES:
        return Failure(SINGLED_OUT, "skipped", "hardly any row follows another one, or nothing changes in an entity")
    rows, owners, n_people = {}, {}, {}
    for side, own in steps.items():
        numbers, people = pd.factorize(own[str(layout.schema.entity)])
        rows[side], n_people[side] = coded(own, steps["synthetic"], layout.schema), len(people)
        # People are numbered in a seeded random order.
        owners[side] = np.random.default_rng([tables.seed, _STREAM]).permutation(len(people))[numbers]
    rng, columns = np.random.default_rng([tables.seed, _STREAM]), are_numbers(layout.schema)
    most = min(MOST_COLUMNS, len(columns))
    order = rng.permutation(len(owners["synthetic"]))
    predicates = alone(rows["synthetic"], columns, rng, N_PREDICATES, most, order, owners["synthetic"])
    if len(predicates) < MIN_PREDICATES:
        why = "hardly any description of two rows in a row is true of one synthetic history alone"
        return Failure(SINGLED_OUT, "skipped", why)
    n = min(n_people["train"], n_people["control"])
    members, others = (attempts(rows[side], predicates, n, owners[side]) for side in ("train", "control"))
    guessed = guesses(rows["synthetic"], columns, most, N_GUESSES, rng)
    baseline = float(attempts(rows["train"], guessed, n, owners["train"]).hits.mean())
    experiment = Experiment(members.hits.ravel(), others.hits.ravel(), baseline, dependence(members, others))
    note = (
        "how much more often a description of two rows in a row, which one synthetic history has, is true of exactly "
        "one training person than of exactly one of as many others, added up over all training people"
    )
    return added_up(experiment.estimate(SINGLED_OUT, note=note), n_people["train"] // n)

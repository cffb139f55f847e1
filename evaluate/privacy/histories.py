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

Scores of held-out people say what chance comes to with this synthetic table, a concentrated one included. Such maxima
have an exponential tail (Karlin & Altschul 1990). One more score above a threshold, beside k held-out scores above it,
then follows a Pareto law whose exponent is k: that allows for the tail being estimated. A person is copied where this
leaves less than `CERTAIN` for all people of train together (Bonferroni).

**Singling out by histories.** They want a description of two rows that follow each other, such as "a fever, and then
nothing". It has to be true of exactly one person (`evaluate.privacy.singling_out`). The same descriptions are tried on
held-out people. Only the excess of training people over these is a leak.

Source: Karlin & Altschul 1990, "Methods for assessing the statistical significance of molecular sequence features";
Pickands 1975 on tails of maxima; Giomi et al. 2023, arXiv:2211.10459.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse

from evaluate.histories.samples import NO_ORDER, StepLayout, varying
from evaluate.intervals import clopper_pearson
from evaluate.metrics import ATTEMPTS, COPIED_PEOPLE, Metric
from evaluate.privacy.coincidence import CERTAIN
from evaluate.privacy.exact import exact_of
from evaluate.privacy.experiment import Experiment
from evaluate.privacy.singling_out import (
    MIN_PREDICATES,
    IndexedRows,
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
from synth.schema import Schema

METRICS = (
    Metric("privacy.histories.copied", "lower", "Histories copied", "Share of training people whose history stands in "
           "one synthetic history, whole or with other rows around it, beyond what chance explains.",
           counted=COPIED_PEOPLE, key=True, attack="always", criteria=("singling out", "linkability"),
           needs="order"),
    Metric("privacy.histories.singling_out", "lower", "Singling out by what followed what", "How much more often a "
           "description of two rows in a row, which one synthetic history has, is true of exactly one training person "
           "than of one other.", counted=ATTEMPTS, attack="always", criteria=("singling out",), needs="order"),
)  # fmt: skip

NAME, COPIED, SINGLED_OUT = "privacy.histories", "privacy.histories.copied", "privacy.histories.singling_out"
MOST_WIDE = 4  # Rows in a row that are taken together at most
MOST_HOLDERS = 50  # Synthetic histories that hold what is shared, at most: what more of them hold tells nobody apart
TELLING = 0.5  # Share of the attacker's own rows whose content at most `MOST_HOLDERS` synthetic histories hold
TAIL = 100  # Held-out scores that the tail is estimated by, at most: the highest
PRIOR_SCORES, PRIOR_SPREAD = 20, 2.0
"""Prior of the tail: so many scores, so many nats above the threshold. Independent rows come to one nat. Without a
prior a single row in common would be an alarm where no held-out one is."""
LEAST_CONTROLS = 40  # Held-out people that a tail takes


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

    def holders(self, of: np.ndarray) -> np.ndarray:
        known, counts = np.unique(self.content, return_counts=True)
        if not len(known):
            return np.zeros(len(of), dtype=np.int64)
        places = np.minimum(np.searchsorted(known, of), len(known) - 1)
        return np.where(known[places] == of, counts[places], 0)


# An odd number near 2^64 over the golden ratio: its products spread each bit of a content over the higher ones, so that
# different contents hardly ever have equal hashes (Knuth, "The Art of Computer Programming", 6.4).
_MIXED = np.uint64(0x9E3779B97F4A7C15)


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
            found = cls(**{side: Contents.of(*of, width) for side, of in sides.items()}, width=width)
            own = found.fresh.content
            if len(own) and (found.synthetic.holders(own) <= MOST_HOLDERS).mean() >= TELLING:
                return found
        return None

    def information(self, of: np.ndarray) -> np.ndarray:
        """The weight of each content in nats: how few of the attacker's own rows hold it."""
        return np.asarray(np.log((len(self.fresh.content) + 1) / (self.fresh.holders(of) + 1)))

    def scores(self, targets: Contents) -> np.ndarray:
        """Of each target the score of the synthetic history that shares most with it, else 0; shape (n,)."""
        found, of_synthetic = np.zeros(targets.n), self.synthetic
        known = np.unique(of_synthetic.content)
        shared = np.intersect1d(known, targets.content)
        shared = shared[of_synthetic.holders(shared) <= MOST_HOLDERS]
        if not len(shared):
            return found
        ours, theirs = (self._incidence(one, shared) for one in (targets, of_synthetic))
        weighted = ours @ sparse.diags(self.information(shared))
        for start in range(0, targets.n, _BLOCK):
            both = (weighted[start : start + _BLOCK] @ theirs.T).tocoo()
            rows = both.row + start
            tried = np.log(targets.sizes[rows] * of_synthetic.sizes[both.col])
            np.maximum.at(found, rows, both.data - tried)
        return found

    def own(self, targets: Contents) -> np.ndarray:
        """Of each target the score of a whole copy of it; shape (n,)."""
        total = np.bincount(targets.owners, self.information(targets.content), minlength=targets.n)
        return np.asarray(total - 2 * np.log(np.maximum(targets.sizes, 1)))

    @staticmethod
    def _incidence(of: Contents, shared: np.ndarray) -> sparse.csr_matrix:
        places = np.minimum(np.searchsorted(shared, of.content), len(shared) - 1)
        there = shared[places] == of.content
        cells = (np.ones(int(there.sum())), (of.owners[there], places[there]))
        return sparse.csr_matrix(cells, shape=(of.n, len(shared)))


_BLOCK = 4_096  # Targets whose synthetic histories are looked up together


@dataclass(frozen=True)
class ScoreTail:
    threshold: float
    excess: float
    k: int
    n: int
    prior_spread: float = PRIOR_SPREAD

    @classmethod
    def of(cls, scores: np.ndarray) -> "ScoreTail":
        """The tail of the `TAIL` highest scores; of those above 0, where these are fewer."""
        ranked = np.sort(scores)[::-1]
        threshold = float(ranked[TAIL]) if len(ranked) > TAIL else 0.0
        above = ranked[ranked > threshold]
        return cls(threshold, float((above - threshold).sum()), len(above), len(ranked))

    def chance(self, scores: np.ndarray) -> np.ndarray:
        """The probability of a score as high for somebody who was not copied. With k known exceedances whose sum is s,
        the next one is above x with probability (1 + x / s)^-k.
        """
        k, total = self.k + PRIOR_SCORES, self.excess + PRIOR_SCORES * self.prior_spread
        tail = (self.k + 1) / (self.n + 1) * (1.0 + np.maximum(scores - self.threshold, 0.0) / total) ** -k
        return np.where(scores > self.threshold, np.minimum(tail, 1.0), 1.0)


def history_scores(tables: Tables) -> tuple[np.ndarray, np.ndarray, HistoryContents] | None:
    """Scores of training people and of control people, and what they rest on, made once for the same tables. `None`
    where the schema names no order, or nothing tells histories apart.
    """
    if tables.schema.order is None:
        return None

    def score() -> tuple[np.ndarray, np.ndarray, HistoryContents] | None:
        contents = HistoryContents.of(tables)
        if contents is None:
            return None
        return contents.scores(contents.train), contents.scores(contents.control), contents

    return tables.kept.once("history scores", score)


def measure(tables: Tables) -> MetricResult:
    """People whose history was copied; nothing but a reason where the schema names no order. Estimates:
    `privacy.histories.copied`, `privacy.histories.singling_out`.
    """
    if tables.schema.order is None:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_ORDER),))
    both = (_copied(tables), _singled_out(tables))
    return MetricResult(
        tuple(one for one in both if isinstance(one, Estimate)), tuple(one for one in both if isinstance(one, Failure))
    )


def _copied(tables: Tables) -> Estimate | Failure:
    """The share of training people whose history was copied beyond chance. A history that chance explains gives nobody
    away, however it came into the table. So all people count, also those of whom not even a whole copy would be told
    from chance; the note says how many would.
    """
    found = history_scores(tables)
    if found is None:
        n = len(np.unique(entity_codes(tables.train, tables.schema)))
        why = "nobody: no row, and no few rows in a row, are rare enough to tell one history from another"
        return Estimate(COPIED, 0.0, n, "lower", low=0.0, high=clopper_pearson(0, n)[1], reference=0.0, note=why)
    members, controls, contents = found
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
    return Estimate(
        COPIED, k / n, n, "lower", low=k / n, high=clopper_pearson(k, n)[1], reference=0.0, note=note
    )  # fmt: skip


N_PREDICATES = 1_000  # Descriptions that are tried, at most
MOST_COLUMNS = 8  # Columns that a description is about, at most: with more, it fits nobody else, and copies alone
N_GUESSES = 200  # Descriptions by somebody who knows no synthetic row: the success that needs no leak
_STREAM = 0x52  # Tells this module's random numbers from those of others with the same seed


@dataclass(frozen=True)
class PeopleSteps:
    """Steps of one table, with whose they are; people are numbered in a seeded random order. *Sensitive* where real."""

    rows: IndexedRows
    owners: np.ndarray  # shape (n_steps,)
    n: int

    @classmethod
    def of(cls, steps: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, seed: int) -> "PeopleSteps":
        """The steps of a table. `steps`: *Sensitive* where they are real."""
        numbers, people = pd.factorize(steps[str(schema.entity)])
        turns = np.random.default_rng([seed, _STREAM]).permutation(len(people))
        return cls(coded(steps, synthetic, schema), turns[numbers], len(people))


def _singled_out(tables: Tables) -> Estimate | Failure:
    """The advantage of descriptions of two rows in a row on training people over control people."""
    layout = StepLayout.of(tables.schema, varying(tables.schema))
    frames = {side: getattr(tables, side) for side in ("synthetic", "train", "control")}
    steps = {side: layout.steps(of, histories_of(of, tables.schema)) for side, of in frames.items()}
    if not layout.now or min(map(len, steps.values())) < MIN_PREDICATES:
        return Failure(SINGLED_OUT, "skipped", "hardly any row follows another one, or nothing changes in an entity")
    synthetic, train, control = (
        PeopleSteps.of(steps[side], steps["synthetic"], layout.schema, tables.seed) for side in steps
    )
    rng, columns = np.random.default_rng([tables.seed, _STREAM]), are_numbers(layout.schema)
    most = min(MOST_COLUMNS, len(columns))
    order = rng.permutation(len(synthetic.owners))
    predicates = alone(synthetic.rows, columns, rng, N_PREDICATES, most, order, synthetic.owners)
    if len(predicates) < MIN_PREDICATES:
        why = "hardly any description of two rows in a row is true of one synthetic history alone"
        return Failure(SINGLED_OUT, "skipped", why)
    n = min(train.n, control.n)
    members, others = (attempts(one.rows, predicates, n, one.owners) for one in (train, control))
    guessed = guesses(synthetic.rows, columns, most, N_GUESSES, rng)
    baseline = float(attempts(train.rows, guessed, n, train.owners).hits.mean())
    experiment = Experiment(members.hits.ravel(), others.hits.ravel(), baseline, dependence(members, others))
    note = (
        "how much more often a description of two rows in a row, which one synthetic history has, is true of exactly "
        "one training person than of exactly one of as many others, added up over all training people"
    )
    return added_up(experiment.estimate(SINGLED_OUT, note=note), train.n // n)

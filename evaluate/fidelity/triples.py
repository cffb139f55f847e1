"""Three-way marginals: the total variation of every triple of columns, or of a sample of them.

Bins of the training table: as many as leave a cell of three numbers about five held-out rows.
"""

import itertools
import math
from typing import Any

import numpy as np

from evaluate.fidelity.encoded import EncodedSamples, total_variations
from evaluate.fidelity.estimates import worst
from evaluate.fidelity.pairs import N_WORST
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.metrics import COMPARED, Metric
from evaluate.result import Failure
from evaluate.tables import MetricResult, Tables

WORST = "triples.tvd.excess.worst"
METRICS = (
    Metric(WORST, "lower", "Worst triple",
           "The largest triple distance beyond that of a fresh real sample, and the columns it belongs to.",
           counted=COMPARED, key=True),
)  # fmt: skip

MAX_TRIPLES = 1_000  # More triples than this are sampled

Triple = tuple[int, int, int]


def measure(tables: Tables) -> MetricResult:
    """The worst triple, and the figure "triples"."""
    if len(tables.schema.learned) < 3:
        why = "the schema has fewer than three columns that are learned, so there is no triple"
        return MetricResult(failures=(Failure(WORST, "not applicable", why),))
    coded = EncodedSamples.of(tables, Samples.draw(tables), together=3)
    triples, share = _chosen(coded.columns, tables.seed)
    tvd = np.array([total_variations(counts) for counts in coded.each(triples)])
    names = [tuple(coded.columns[i] for i in triple) for triple in triples]
    order = np.argsort(tvd[:, FRESH, 0] - tvd[:, SYNTHETIC, 0], kind="stable")[:N_WORST]
    return MetricResult(
        (worst(WORST, tvd, coded.samples.n, names),), figures={"triples": _figure(names, tvd, order, share)}
    )


def _chosen(columns: tuple[str, ...], seed: int) -> tuple[list[Triple], float]:
    """The triples to measure, and their share among all; which ones does not depend on the order of columns."""
    by_name = sorted(range(len(columns)), key=lambda i: columns[i])
    n_triples = math.comb(len(columns), 3)
    if n_triples <= MAX_TRIPLES:
        return list(itertools.combinations(by_name, 3)), 1.0
    rng, chosen = np.random.default_rng([seed, 7]), set[Triple]()
    while len(chosen) < MAX_TRIPLES:
        a, b, c = sorted(rng.integers(len(columns), size=3).tolist())
        if a < b < c:
            chosen.add((by_name[a], by_name[b], by_name[c]))
    return sorted(chosen), MAX_TRIPLES / n_triples


def _figure(names: list[tuple[str, ...]], tvd: np.ndarray, order: np.ndarray, share: float) -> dict[str, Any]:
    rows = []
    for i in order:
        value, reference, floor = (float(tvd[i, side, 0]) for side in (SYNTHETIC, FRESH, SHUFFLED))
        rows.append({"columns": list(names[i]), "tvd": value, "reference": reference, "floor": floor})
    return {"worst": rows, "n_triples": len(names), "share": share}

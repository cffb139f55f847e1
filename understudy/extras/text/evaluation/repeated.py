"""Repeated sentences: runs of words of one person's training texts that stand in synthetic texts.

The attacker reads the synthetic texts and looks for sentences that a real person wrote. They win with a run of words
that one unit of the training table alone has: a number, a name, a turn of phrase with its neighbors.

Honest texts repeat runs, too: openings, phrases, amounts. Two rules tell what chance explains.

**One sentence.** A run costs as many nats as texts of all other real units say (`word_model`). A word that all texts
have costs next to nothing, each digit of a number up to 2.3. The score of a unit is its dearest run that stands in a
synthetic text and in texts of no other real unit. It is a copy where three things agree. Scores of held-out units,
which no generator saw, leave it no chance (`ScoreTail`). As many pairs of words as there are make it unlikely by the
prices themselves. And no training unit shares a run that is nearly as dear with a held-out one: what several people
wrote is nobody's secret. Texts of two units that are mostly the same do not count there.

**Many sentences.** Runs of `N_RUN` words that one real unit alone has stand in an honest table whichever side the unit
is on. Training units that are hit beyond what hits on held-out ones make likely are copies
(`evaluate.privacy.coincidence`).

A long public text (a disclaimer, say) that only one real unit quotes looks like a secret. The sentences are listed, so
that somebody can look, as they stand in the synthetic texts. They are real people's all the same: no public output
reads the figure "text_copies".

Source: Carlini et al. 2019, arXiv:1802.08232 (secrets that a language model repeats); Karlin & Altschul 1990 (the
exponential tail of the dearest common run).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluate.intervals import clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, SYNTHETIC, Metric
from evaluate.privacy.coincidence import CERTAIN, COMMON, FITTED, Alone
from evaluate.privacy.score_tail import LEAST_CONTROLS, ScoreTail
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from understudy.extras.text.evaluation.personal import personal_of
from understudy.extras.text.evaluation.tokens import NO_TEXTS, TextTokens, TokenSides, shared_windows, spans
from understudy.extras.text.evaluation.word_model import RunPrices

METRICS = (
    Metric("privacy.texts.copied", "lower", "Sentences copied", "Share of training people of whose texts a run of "
           "words that nobody else wrote stands in a synthetic text, beyond what chance explains.",
           counted=COPIED_PEOPLE, key=True, attack="always", criteria=("singling out", "linkability"), needs="texts",
           anchor="texts", ends=(0.0, 1.0), sampled="copied"),
    Metric("privacy.texts.personal", "lower", "Real personal data in texts", "Share of synthetic texts with an e-mail "
           "address, a long number or a full name of one training person, which chance does not repeat.",
           counted=SYNTHETIC, key=True, attack="always", criteria=("singling out", "linkability"), needs="texts",
           anchor="texts", ends=(0.0, 1.0), sampled="counted", never_waived="personal data of real people stand in "
           "texts, and nobody can answer for that; write the texts anew"),
)  # fmt: skip
NAME, COPIED, PERSONAL = "privacy.texts", *(metric.name for metric in METRICS)
N_RUN = 8  # Words of the runs that are counted together
N_TAIL = 50  # Held-out scores that the tail is estimated by, at most
SPREAD = 1.0  # Prior spread of these scores above their threshold, in nats: that of prices that are right
MOSTLY = 0.8  # Share of the words of a text from which on a run is the whole of it
MARGIN = 1.25
"""How much dearer a run is than what several people wrote. A phrase of theirs with its neighbors costs some more."""
N_RULES = 2  # Rules by which texts are copied: each may be wrong in half of `CERTAIN` of honest tables
MOST_SENTENCES, MOST_CHARACTERS = 20, 300  # Sentences of each column that are listed, and characters of each
_TRIED = 200  # Leaks that are looked up, the dearest first
_END = re.compile(r"(?<=[.!?])\s+|\n+")


def measure(tables: Tables) -> MetricResult:
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    sides = TokenSides.of(tables)
    if not len(sides.synthetic.ids) or not len(sides.train.ids):
        return MetricResult(failures=(Failure(NAME, "skipped", "the texts of train or of the table are all missing"),))
    copied, leaks = _copied(sides)
    personal, hits = personal_of(tables)
    found = [(column, row, at, at) for column, row, at in hits]
    figure = _listed(tables, sides, [*(_located(tables, sides, *leak) for leak in leaks[:_TRIED]), *found])
    if isinstance(copied, Failure):
        return MetricResult((personal,), (copied,), {"text_copies": figure})
    return MetricResult((copied, personal), (), {"text_copies": figure})


def _copied(sides: TokenSides) -> tuple[Estimate | Failure, list[tuple[int, int]]]:
    """The share of training units whose texts were copied, and the position and length of runs to be looked at."""
    real, members, controls = sides.real, np.unique(sides.train.units), np.unique(sides.control.units)
    if len(controls) < LEAST_CONTROLS:
        why = f"it needs at least {LEAST_CONTROLS} held-out rows or entities with a text in either half"
        return Failure(COPIED, "skipped", why), []
    nats, positions, lengths = dearest_runs(real, sides.synthetic, RunPrices.of(real, sides.words))
    scores, n, level = nats[members], len(members), CERTAIN / N_RULES
    by_tail = _tail(nats[sides.train.n_units + controls]).chance(scores)
    by_prices = float(len(sides.train.ids)) * len(sides.synthetic.ids) * np.exp(-scores)
    is_copied = (n * by_tail <= level) & (by_prices <= level)
    if is_copied.any():
        is_copied &= scores > MARGIN * _dearest_twin(sides)
    k, many = int(is_copied.sum()), _many(sides, real)
    value, low = (max(k, count) / n for count in many[:2])
    note = (
        f"share of people of whose texts a run of words that nobody else has is repeated beyond chance: {k:,} of {n:,} "
        f"by a run that chance does not make, and at least {int(np.ceil(many[1])):,} by runs of {N_RUN} words together"
    )
    # Where runs together show it and no single one is certain, the dearest are what somebody has to look at.
    units = members[is_copied if is_copied.any() or low == 0 else scores > 0]
    units = units[np.argsort(-nats[units], kind="stable")]
    high = max(clopper_pearson(k, n)[1], min(many[2] / n, 1.0))
    estimate = Estimate(COPIED, value, n, "lower", low=low, high=high, reference=0.0, note=note)
    return estimate, list(zip(positions[units].tolist(), lengths[units].tolist(), strict=True))


def dearest_runs(real: TextTokens, synthetic: TextTokens, prices: RunPrices) -> tuple[np.ndarray, ...]:
    """Of each unit the price, the position and the length of its dearest run that it shares with a synthetic text and
    with no other unit; each of shape (n_units,), 0 where there is none.
    """
    owners, nats = real.owners, np.zeros(real.n_units)
    positions, lengths = np.zeros((2, real.n_units), dtype=np.int64)
    for found in shared_windows(real, synthetic):
        at = found.ours[found.held_by_one(owners)]
        now = prices.nats(at, found.length)
        np.maximum.at(nats, owners[at], now)
        best = (now > 0) & (now == nats[owners[at]])
        positions[owners[at[best]]], lengths[owners[at[best]]] = at[best], found.length
    return nats, positions, lengths


def _dearest_twin(sides: TokenSides) -> float:
    """The price of the dearest run that a training unit shares with a held-out one, as if one had written it alone."""
    best, real = 0.0, sides.real
    prices, train, sizes = RunPrices.of(real, sides.words, without_pairs=True), sides.train, sides.train.sizes
    for found in shared_windows(train, sides.control.joined(sides.fresh)):
        part = found.ours[found.length <= MOSTLY * sizes[train.text[found.ours]]]
        best = max(best, float(prices.nats(part, found.length).max(initial=0.0)))
    return best


def _tail(scores: np.ndarray) -> ScoreTail:
    """The tail of the scores of held-out units: of the dearest of those that share a run at all, at most an eighth.
    Runs of templates cost about as much each, so that only the end of all their prices is exponential.
    """
    ranked = np.sort(scores)[::-1]
    k = min(N_TAIL, -(-int((ranked > 0).sum()) // 8))
    threshold = float(ranked[k]) if k < len(ranked) else 0.0
    above = ranked[ranked > threshold]
    return ScoreTail(threshold, float((above - threshold).sum()), len(above), len(ranked), SPREAD)


def _many(sides: TokenSides, real: TextTokens) -> tuple[float, float, float]:
    """Training units hit by runs of `N_RUN` words beyond those that held-out units make likely, with their interval."""
    positions, hashes = real.windows(N_RUN)
    owners = real.owners[positions]
    order = np.argsort(owners, kind="stable")
    alone = Alone.of(hashes[order], owners[order], owners[order] < sides.train.n_units)
    found = alone.coincidences(alone.hit_by(sides.synthetic.windows(N_RUN)[1]), sides.synthetic.n_rows)
    # `Alone` counts twins by the run, of which a text has many, so that they say nothing of units.
    units = type(found)(found.train, found.holdout, found.n_train, found.n_holdout)
    return units.copied(N_RULES, FITTED if found.holdout > COMMON * found.n_holdout else 1.0)


Place = tuple[int, int, int, int]
"""Column and row of a synthetic text, and the first and the last character of what is repeated in it."""


def _located(tables: Tables, sides: TokenSides, position: int, length: int) -> Place:
    """The first synthetic text that a run of training texts stands in."""
    texts, run = sides.synthetic, sides.train.ids[position : position + length]
    at = int(_positions(texts, run)[0])
    text = int(texts.text[at])
    column, row = int(texts.columns[text]), int(texts.rows[text])
    places, first = spans(str(tables.synthetic[tables.schema.texts[column]].iloc[row])), at - int(texts.starts[text])
    start, last = (places[min(word, len(places) - 1)] for word in (first, first + length - 1))
    return column, row, start[0], last[1] - 1


def _positions(texts: TextTokens, run: np.ndarray) -> np.ndarray:
    """Where a run of words begins in some texts."""
    at = np.flatnonzero(texts.ids[: len(texts.ids) - len(run) + 1] == run[0])
    for step, word in enumerate(run[1:], start=1):
        at = at[texts.ids[at + step] == word]
    return np.asarray(at[texts.ends[texts.text[at]] >= at + len(run)])


def _listed(tables: Tables, sides: TokenSides, places: Sequence[Place]) -> Mapping[str, Any]:
    """Sentences around what is repeated, by column, with how many rows hold just that."""
    columns: dict[int, dict[str, str]] = {}
    for column, row, start, last in places:
        whole = str(tables.synthetic[tables.schema.texts[column]].iloc[row])
        sentence, known = sentence_around(whole, start, last), columns.setdefault(column, {})
        if not any(sentence in other or other in sentence for other in known):
            known[sentence] = whole[start : last + 1] if start < last else sentence
    return {"columns": [
        {"column": tables.schema.texts[column], "sentences": [
            {"sentence": sentence[:MOST_CHARACTERS], "n_words": len(spans(sentence)),
             "synthetic_rows": _n_holding(tables.synthetic, tables, column, part),
             "train_rows": _n_holding(tables.train, tables, column, part)}
            for sentence, part in list(columns[column].items())[:MOST_SENTENCES]
        ]}
        for column in sorted(columns)
    ]}  # fmt: skip


def _n_holding(frame: Any, tables: Tables, column: int, part: str) -> int:
    folded = part.casefold()
    return sum(isinstance(text, str) and folded in text.casefold() for text in frame[tables.schema.texts[column]])


def sentence_around(text: str, start: int, last: int) -> str:
    """The sentences of a text in which some of its characters stand.

    >>> sentence_around("One. Call 555-0199 now! Three.", 10, 12)
    'Call 555-0199 now!'
    """
    begin = 0
    for end in _END.finditer(text):
        if end.start() > last:
            return text[begin : end.start()].strip()
        begin = end.end() if end.end() <= start else begin
    return text[begin:].strip()

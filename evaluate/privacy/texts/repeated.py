"""Repeated sentences: runs of words of one person's training texts that stand in synthetic texts.

The attacker reads the synthetic texts and looks for sentences that a real person wrote. They win with a run of words
that one unit of the training table alone has: a number, a name, a turn of phrase with its neighbors.

Honest texts repeat runs, too: openings, phrases, amounts. Two rules tell what chance explains.

**One sentence.** A run costs as many nats as texts of all other real units say (`evaluate.privacy.texts.word_model`).
A word that all texts have costs next to nothing, each digit of a number up to 2.3. The score of a unit is its dearest
run that stands in a synthetic text and in texts of no other real unit. It is a copy where three things agree. Scores of
held-out units, which no generator saw, leave it no chance (`evaluate.privacy.score_tail`). As many pairs of
words as there are make it unlikely by the prices themselves. And no two real units share a run that is nearly as dear:
what several people wrote is nobody's secret. Texts of two units that are mostly the same do not count there.

**Many sentences.** Runs of `N_RUN` words that one real unit alone has stand in an honest table whichever side the unit
is on. Training units that are hit beyond what hits on held-out ones make likely are copies
(`evaluate.privacy.coincidence`).

A long public text (a disclaimer, say) that only one real unit quotes looks like a secret. The sentences are listed, so
that somebody can look.

Source: Carlini et al. 2019, arXiv:1802.08232 (secrets that a language model repeats); Karlin & Altschul 1990 (the
exponential tail of the dearest common run); McCoy et al. 2023, arXiv:2111.09509 (runs beside those of real texts).
"""

from dataclasses import dataclass

import numpy as np

from evaluate.free_text.corpus import NO_TEXTS
from evaluate.intervals import LEVEL, clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, SYNTHETIC, Metric
from evaluate.privacy.coincidence import CERTAIN, COMMON, FITTED, Alone
from evaluate.privacy.score_tail import LEAST_CONTROLS, ScoreTail
from evaluate.privacy.texts.listed import Leak, listed
from evaluate.privacy.texts.personal_data import personal_of
from evaluate.privacy.texts.tokens import TextTokens, TokenSides, repeated_windows, shared_windows
from evaluate.privacy.texts.word_model import RunPrices
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

METRICS = (
    Metric("privacy.texts.copied", "lower", "Sentences copied", "Share of training people of whose texts a run of "
           "words that nobody else wrote stands in a synthetic text, beyond what chance explains.",
           counted=COPIED_PEOPLE, key=True, attack="always", criteria=("singling out", "linkability"),
           needs="texts", anchor="texts", sampled="copied"),
    Metric("privacy.texts.personal", "lower", "Real personal data in texts", "Share of synthetic texts with an e-mail "
           "address, a long number or a full name of one training person, which chance does not repeat.",
           counted=SYNTHETIC, key=True, attack="always", criteria=("singling out", "linkability"),
           needs="texts", anchor="texts", sampled="counted"),
    Metric("privacy.texts.longest", "none", "Longest repeated run of words", "Words in a row that a synthetic text "
           "shares with a training text, at most; mean over texts. The reference is that of as many held-out texts.",
           describes="honest texts share what everybody writes; name 'privacy.texts.copied'",
           needs="texts", anchor="texts"),
)  # fmt: skip

NAME, COPIED, PERSONAL, LONGEST = "privacy.texts", *(metric.name for metric in METRICS)
N_RUN = 8  # Words of the runs that are counted together
N_TAIL = 50  # Held-out scores that the tail is estimated by, at most
SPREAD = 1.0  # Prior spread of these scores above their threshold, in nats: that of prices that are right
N_LONGEST = 10_000  # Rows of each table whose longest runs are looked at, at most
MOSTLY = 0.8  # Share of the words of a text from which on a run is the whole of it
MARGIN = 1.25
"""How much dearer a run is than what several people wrote. A phrase of theirs with its neighbors costs some more."""
N_RULES = 2  # Rules by which texts are copied: each may be wrong in half of `CERTAIN` of honest tables


@dataclass(frozen=True)
class DearestRuns:
    """Of each unit the dearest run that it shares with the other table and with no other unit. *Sensitive*."""

    nats: np.ndarray  # what it costs; 0 of a unit that shares none, shape (n_units,)
    places: np.ndarray  # of its first word, shape (n_units,)
    lengths: np.ndarray  # in words, shape (n_units,)

    @classmethod
    def none(cls, n_units: int) -> "DearestRuns":
        """Of units that share nothing."""
        return cls(np.zeros(n_units), np.zeros(n_units, dtype=np.int64), np.zeros(n_units, dtype=np.int64))

    def learn(self, owners: np.ndarray, nats: np.ndarray, places: np.ndarray, length: int) -> None:
        np.maximum.at(self.nats, owners, nats)
        best = (nats > 0) & (nats == self.nats[owners])
        self.places[owners[best]], self.lengths[owners[best]] = places[best], length


@dataclass(frozen=True)
class RunSearch:
    """Runs of real texts that were looked for in synthetic ones. *Sensitive*."""

    real: TextTokens
    dearest: DearestRuns
    # words of the longest run of each synthetic text that stands in as many texts of train and of the holdout, shape
    # (2, n_texts).
    longest: np.ndarray

    @classmethod
    def of(cls, sides: TokenSides, prices: RunPrices, real: TextTokens) -> "RunSearch":
        n_train = sides.train.n_rows
        n = min(n_train, real.n_rows - n_train, N_LONGEST)
        cut = [real.rows < n, (real.rows >= n_train) & (real.rows < n_train + n)]
        synthetic, owners = sides.synthetic, real.owners
        longest = np.zeros((2, int((synthetic.rows < N_LONGEST).sum())), dtype=np.int64)
        looked_at = synthetic.rows[synthetic.text] < N_LONGEST
        numbers = np.cumsum(synthetic.rows < N_LONGEST) - 1
        dearest = DearestRuns.none(real.n_units)
        for found in shared_windows(real, synthetic):
            places = found.ours[found.held_by_one(owners)]
            dearest.learn(owners[places], prices.nats(places, found.length), places, found.length)
            for side in (0, 1):
                held = found.also_in(cut[side][real.text[found.ours]]) & looked_at[found.theirs]
                longest[side, numbers[synthetic.text[found.theirs[held]]]] = found.length
        return cls(real, dearest, longest)


def dearest_twin(sides: TokenSides) -> float:
    """The price of the dearest run that two real units or more share, as if one of them had written it alone. Runs that
    are most of their texts do not count: such texts are the same one, told twice.
    """
    best, real = 0.0, sides.train.joined(sides.control).joined(sides.fresh)
    prices = RunPrices.of(real, list(sides.vocabulary.numbers), without_pairs=True)
    for found in repeated_windows(real):
        part = found.length <= MOSTLY * found.longest
        best = max(best, float(prices.nats(found.places[part], found.length).max(initial=0.0)))
    return best


def measure(tables: Tables) -> MetricResult:
    """Sentences and personal data that synthetic texts repeat; nothing but a reason where there are no texts.
    Estimates: `privacy.texts.copied`, `privacy.texts.personal`, `privacy.texts.longest`. Figure: `text_copies`.
    """
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    sides = TokenSides.of(tables)
    if not len(sides.synthetic.ids) or not len(sides.train.ids):
        return MetricResult(failures=(Failure(NAME, "skipped", "the texts of train or of the table are all missing"),))
    real = sides.train.joined(sides.control).joined(sides.fresh)
    prices = RunPrices.of(real, list(sides.vocabulary.numbers))
    search = RunSearch.of(sides, prices, real)
    copied, certain = _copied(sides, search)
    personal = personal_of(tables)
    share, known = personal.share, personal.held_out
    found = [_longest(sides, search), Estimate(
        PERSONAL, share, personal.n, "lower", low=share, high=share, reference=known, note=personal.note
    )]  # fmt: skip
    leaks = [Leak(int(search.dearest.places[unit]), int(search.dearest.lengths[unit])) for unit in certain]
    figure = listed(tables, sides, leaks, personal.sentences)
    return MetricResult(
        (*((copied,) if isinstance(copied, Estimate) else ()), *found),
        (copied,) if isinstance(copied, Failure) else (),
        {"text_copies": figure},
    )


def _copied(sides: TokenSides, search: RunSearch) -> tuple[Estimate | Failure, np.ndarray]:
    """The share of training units whose texts were copied, and whose runs are to be looked at, the dearest first."""
    train, control = sides.train, sides.control
    members, controls = np.unique(train.units), np.unique(control.units)
    if len(controls) < LEAST_CONTROLS:
        why = f"it needs at least {LEAST_CONTROLS} held-out rows or entities with a text in either half"
        return Failure(COPIED, "skipped", why), np.zeros(0, dtype=np.int64)
    nats, n = search.dearest.nats, len(members)
    tail = _tail(nats[train.n_units + controls])
    scores, level = nats[members], CERTAIN / N_RULES
    by_model = float(len(train.ids)) * len(sides.synthetic.ids) * np.exp(-scores)
    is_copied = (n * tail.chance(scores) <= level) & (by_model <= level)
    if is_copied.any():
        is_copied &= scores > MARGIN * dearest_twin(sides)
    k, many = int(is_copied.sum()), _many(sides, search.real)
    value, low = (max(k, of) / n for of in many[:2])
    high = max(clopper_pearson(k, n)[1], min(many[2] / n, 1.0))
    note = (
        f"share of people of whose texts a run of words that nobody else has is repeated beyond chance: {k:,} of {n:,} "
        f"by a run that chance does not make, and at least {int(np.ceil(many[1])):,} by runs of {N_RUN} words together"
    )
    # Where runs together show it and no single one is certain, the dearest are what somebody has to look at.
    certain = members[is_copied if is_copied.any() or low == 0 else scores > 0]
    certain = certain[np.argsort(-nats[certain], kind="stable")]
    return Estimate(COPIED, value, n, "lower", low=low, high=high, reference=0.0, note=note), certain


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
    places, hashes = real.windows(N_RUN)
    owners = real.owners[places]
    order = np.argsort(owners, kind="stable")
    owners, hashes = owners[order], hashes[order]
    alone = Alone.of(hashes, owners, owners < sides.train.n_units)
    hit = alone.hit_by(sides.synthetic.windows(N_RUN)[1])
    found = alone.coincidences(hit, sides.synthetic.n_rows)
    # `Alone` counts twins by the run, of which a text has many, so that they say nothing of units.
    units = type(found)(found.train, found.holdout, found.n_train, found.n_holdout)
    return units.copied(N_RULES, FITTED if found.holdout > COMMON * found.n_holdout else 1.0)


def _longest(sides: TokenSides, search: RunSearch) -> Estimate:
    """The mean of the longest runs that synthetic texts share with training texts."""
    train, holdout = search.longest
    units = sides.synthetic.units[sides.synthetic.rows < N_LONGEST]
    sums = np.bincount(units, train - train.mean(), minlength=sides.synthetic.n_units)
    spread = float(np.sqrt((sums**2).sum())) / len(train)
    value, half = float(train.mean()), 1.96 * spread
    note = "words in a row that a synthetic text and a training text share at most, mean over synthetic texts"
    return Estimate(
        LONGEST, value, len(train), "none", low=max(value - half, 0.0), high=value + half,
        reference=float(holdout.mean()), note=f"{note}; interval of {LEVEL:.0%}",
    )  # fmt: skip

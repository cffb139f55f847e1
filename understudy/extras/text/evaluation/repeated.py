"""What synthetic texts repeat of one training person's: sentences, and personal data.

**Sentences.** Looked for is a run of words that one unit of the training table alone has. Honest texts repeat runs,
too, and two rules tell what chance explains.

* *One.* A run costs as many nats as texts of all other real units say (`word_model`). The score of a unit is its
  dearest run that stands in a synthetic text and in texts of no other real unit. It is a copy where scores of held-out
  units leave it no chance (`ScoreTail`), nor do the prices themselves, for as many pairs of words as there are, and no
  training unit shares a run that is nearly as dear with a held-out one.
* *Many.* Training units that are hit by runs of `N_RUN` words of theirs alone, beyond what hits on held-out units make
  likely (`privacy.coincidence`).

**Personal data.** Looked for are e-mail addresses, numbers of at least `LEAST_DIGITS` digits and full names that one
training unit alone has, in texts or in columns. Those of a kind count where there are more than chance explains: digits
and names as frequent as at their places in real values, and what two units share (`too_many`).

What is repeated is listed for somebody to look at: a public text that one unit alone quotes looks like a secret. These
are real people's sentences, so that no public output reads the figure "text_copies", and `show_rows` leaves it out.

Source: Carlini et al. 2019, arXiv:1802.08232; Karlin & Altschul 1990 (the tail of the dearest common run); Good 1953.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from evaluate.intervals import clopper_pearson
from evaluate.metrics import COPIED_PEOPLE, SYNTHETIC, Metric
from evaluate.privacy.coincidence import CERTAIN, LEAST_CONTROLS, Alone, Coincidences, ScoreTail
from evaluate.privacy.pii import N_PHONE, likeness, too_many
from evaluate.result import Estimate, Failure
from evaluate.result_io import Count, FigurePart
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth.personal import CARD_DIGITS, as_text
from synth.schema import Schema
from understudy.extras.text.evaluation import tokens
from understudy.extras.text.evaluation.tokens import NO_TEXTS, RunPrices, TextTokens, TokenSides

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
MARGIN = 1.25  # How much dearer a run is than what several people wrote: a phrase with its neighbors costs some more
N_RULES = 2  # Rules by which texts are copied: each may be wrong in half of `CERTAIN` of honest tables
LEAST_DIGITS = 7  # Digits of a number that may point to one person
MOST_SENTENCES, MOST_CHARACTERS = 20, 300  # Sentences of each column that are listed, and characters of each
_TRIED = 200  # Leaks that are looked up, the dearest first
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NUMBER = re.compile(r"\+?\(?\d(?:[ ()/.-]{0,2}\d){6,}")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_TOLD = ("email", "phone", "card_number", "account_number", "national_id", "iban")  # Columns that texts may tell of
_PLAIN = {"email": "e-mail addresses", "name": "full names"}

Texts = Sequence[tuple[str, int, str]]  # Synthetic ones, as `written` gives them
Place = tuple[int, int, int]  # Number of a synthetic text, and where what is repeated begins and ends in it
Value = tuple[str, str]  # Kind (`email`, `name`, or `number` with the count of its digits), and what is compared
Owners = dict[Value, set[tuple[bool, int]]]  # *Sensitive*. Whose a value is: whether of train, and the unit there


def measure(tables: Tables) -> MetricResult:
    if not tables.schema.texts:
        return MetricResult(failures=(Failure(NAME, "skipped", NO_TEXTS),))
    sides = TokenSides.of(tables)
    if not len(sides.synthetic.ids) or not len(sides.train.ids):
        return MetricResult(failures=(Failure(NAME, "skipped", "the texts of train or of the table are all missing"),))
    texts = list(tokens.written(tables.synthetic, tables.schema.texts))
    copied, leaks = _copied(sides, len(tables.synthetic))
    personal, hits = _personal(texts, tables)
    places = [*(_located(texts, sides, *leak) for leak in leaks[:_TRIED]), *hits]
    figure = {"text_copies": {"columns": _listed(texts, places, tables)}} if tables.show_rows else {}
    if isinstance(copied, Failure):
        return MetricResult((personal,), (copied,), figure)
    return MetricResult((copied, personal), (), figure)


def _copied(sides: TokenSides, n_drawn: int) -> tuple[Estimate | Failure, list[tuple[int, int]]]:
    """The share of training units whose texts were copied, and the position and length of runs to be looked at."""
    real, members, controls = sides.real, np.unique(sides.train.units), np.unique(sides.control.units)
    if len(controls) < LEAST_CONTROLS:
        why = f"it needs at least {LEAST_CONTROLS} held-out rows or entities with a text in either half"
        return Failure(COPIED, "skipped", why), []
    nats, positions, lengths = dearest_runs(real, sides.synthetic, RunPrices.of(real, sides.words))
    scores, n, level = nats[members], len(members), CERTAIN / N_RULES
    held_out = nats[sides.train.n_units + controls]
    # Runs of templates cost about as much each, so that only the end of all their prices is exponential.
    tail = ScoreTail.of(held_out, min(N_TAIL, -(-int((held_out > 0).sum()) // 8)), SPREAD)
    by_prices = float(len(sides.train.ids)) * len(sides.synthetic.ids) * np.exp(-scores)
    is_copied = (n * tail.chance(scores) <= level) & (by_prices <= level)
    if is_copied.any():
        is_copied &= scores > MARGIN * _dearest_twin(sides)
    k, many = int(is_copied.sum()), _many(sides, real, n_drawn)
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
    for length, shared, runs in tokens.shared_windows(real, synthetic):
        at = shared[tokens.held_by_one(runs, owners[shared])]
        now = prices.nats(at, length)
        np.maximum.at(nats, owners[at], now)
        best = (now > 0) & (now == nats[owners[at]])
        positions[owners[at[best]]], lengths[owners[at[best]]] = at[best], length
    return nats, positions, lengths


def _dearest_twin(sides: TokenSides) -> float:
    """The price of the dearest run that a training unit shares with a held-out one, as if one had written it alone."""
    prices, sizes = RunPrices.of(sides.real, sides.words, without_pairs=True), sides.train.sizes[sides.train.text]
    return max((
        float(prices.nats(at[length <= MOSTLY * sizes[at]], length).max(initial=0.0))
        for length, at, _ in tokens.shared_windows(sides.train, sides.control.joined(sides.fresh))
    ), default=0.0)  # fmt: skip


def _many(sides: TokenSides, real: TextTokens, n_drawn: int) -> tuple[float, float, float]:
    """Training units hit by runs of `N_RUN` words beyond those that held-out units make likely, with their interval."""
    positions, hashes = real.windows(N_RUN)
    owners = real.owners[positions]
    order = np.argsort(owners, kind="stable")
    alone = Alone.of(hashes[order], owners[order], owners[order] < sides.train.n_units)
    coincidences = alone.coincidences(alone.hit_by(sides.synthetic.windows(N_RUN)[1]), n_drawn)
    # `Alone` counts twins by the run, of which a text has many, so that they say nothing of units.
    units = Coincidences(coincidences.train, coincidences.holdout, coincidences.n_train, coincidences.n_holdout)
    return units.copied(N_RULES, units.hit_ratio)


def _located(texts: Texts, sides: TokenSides, position: int, length: int) -> Place:
    ours, run = sides.synthetic, sides.train.hashes(np.array([position]), length)
    begins = np.flatnonzero(ours.left >= length)
    at = begins[np.argmax(ours.hashes(begins, length) == run)]
    number = int(ours.text[at])
    first, spans = int(ours.sizes[number] - ours.left[at]), tokens.spans(texts[number][2])
    return number, spans[first][0], spans[first + length - 1][1]


def _personal(texts: Texts, tables: Tables) -> tuple[Estimate, list[Place]]:
    """The share of synthetic texts with personal data of training people beyond chance, and where each value stands
    the first time.
    """
    owners = tables.kept_of_real.once("personal values of texts", lambda: _owners(tables))
    alone = {value: next(iter(whose))[0] for value, whose in owners.items() if len(whose) == 1}
    ours = {value for value, in_train in alone.items() if in_train}
    names = [plain.split(" ") for kind, plain in owners if kind == "name"]
    parts = ({name[0] for name in names}, {name[-1] for name in names}, {len(name) for name in names})
    there = [
        (value, (number, *span))
        for number, (*_, text) in enumerate(texts)
        for value, span in (*values_in(text), *_names_in(text, *parts))
    ]
    counted = set()
    for kind in {kind for (kind, _), _ in there}:
        values = {value for value, _ in there if value[0] == kind}
        if too_many(len(values & ours), _by_chance(kind, len(values), owners, ours)):
            counted.add(kind)
    hits = [(value, where) for value, where in there if value in ours and value[0] in counted]
    held_out = {texts[number][1] for value, (number, *_) in there if alone.get(value) is False}
    n, n_hit = len({row for _, row, _ in texts}), len({texts[number][1] for _, (number, *_) in hits})
    note = f"{n_hit:,} of {n:,} texts repeat what one training person alone has, beyond chance"
    if hits:
        note += f": {', '.join(sorted({_PLAIN.get(kind, 'long numbers') for (kind, _), _ in hits}))}"
    share, reference = n_hit / n, len(held_out) / n
    estimate = Estimate(PERSONAL, share, n, "lower", low=share, high=share, reference=reference, note=note)
    return estimate, sorted(dict(reversed(hits)).values())


def _owners(tables: Tables) -> Owners:
    owners: Owners = defaultdict(set)
    for in_train, side in ((True, tables.train), (False, tables.holdout)):
        units = entity_codes(side, tables.schema)
        for row, value in _of_rows(side, tables.schema):
            owners[value].add((in_train, int(units[row])))
    return owners


def _by_chance(kind: str, n: int, owners: Owners, ours: set[Value]) -> float:
    """How many values of one training unit alone n different honest ones of a kind repeat."""
    known = {plain: len(whose) for (of_kind, plain), whose in owners.items() if of_kind == kind}
    alone, n_pairs, chance = [plain for of_kind, plain in ours if of_kind == kind], max(sum(known.values()), 1), 0.0
    if kind == "name":
        split = [value.split(" ") for value in known]
        first, last = Counter(name[0] for name in split), Counter(name[-1] for name in split)
        chance = sum(first[name[0]] * last[name[-1]] for name in map(str.split, alone)) / max(len(split), 1) ** 2
    elif kind.startswith("number"):
        counts = [Counter(digits) for digits in zip(*known, strict=True)]
        for value in alone:
            at_places = zip(value, counts, strict=True)
            chance += float(np.prod([(n_of[digit] + 1) / (len(known) + 10) for digit, n_of in at_places]))
    twins = sum(n_owners == 2 for n_owners in known.values())
    return n * (chance + 2 * twins / n_pairs * len(alone) / n_pairs)


def values_in(text: str) -> Iterator[tuple[Value, tuple[int, int]]]:
    """E-mail addresses and long numbers of a text, each with where it begins and ends.

    >>> [value for value, _ in values_in("Write to Ann@example.org or call +1 (617) 555-0143, not 555-014.")]
    [('email', 'annexampleorg'), ('number 10', '6175550143')]
    """
    for match in _EMAIL.finditer(text):
        yield ("email", likeness(match[0], "email")), match.span()
    for match in _NUMBER.finditer(text):
        digits = "".join(character for character in match[0] if character.isdecimal() and character.isascii())
        if len(digits) < CARD_DIGITS[0]:  # a telephone number, with the code of its country or without
            digits = digits[-N_PHONE:]
        if len(digits) >= LEAST_DIGITS:
            yield (f"number {len(digits)}", digits), match.span()


def _names_in(text: str, first: set[str], last: set[str], sizes: set[int]) -> Iterator[tuple[Value, tuple[int, int]]]:
    split = tokens.words(text) if first else []
    for at, word in enumerate(split):
        for size in sizes if word in first else ():
            if at + size <= len(split) and split[at + size - 1] in last:
                places = tokens.spans(text)
                yield ("name", " ".join(split[at : at + size])), (places[at][0], places[at + size - 1][1])


def _of_rows(side: pd.DataFrame, schema: Schema) -> Iterator[tuple[int, Value]]:
    """*Sensitive*. Personal values of all rows, of their texts and of their columns of personal data."""
    kept = {column.personal: name for name in schema.kept if (column := schema.columns[name]).is_personal}
    personal = (name for name in schema.kept if schema.columns[name].is_personal)
    for name in (*schema.texts, *(name for name in personal if schema.columns[name].personal in _TOLD)):
        for row, value in enumerate(side[name].tolist()):
            if not pd.isna(value):
                yield from ((row, personal_value) for personal_value, _ in values_in(as_text(value)))
    parts = ["name"] if "name" in kept else ["first_name", "last_name"]
    if all(part in kept for part in parts):
        for row, values in enumerate(zip(*(side[kept[part]].tolist() for part in parts), strict=True)):
            full = [] if any(map(pd.isna, values)) else tokens.words(" ".join(map(as_text, values)))
            if len(full) > 1:
                yield row, ("name", " ".join(full))


class CopiedTexts(FigurePart):
    """Sentences of training texts that synthetic texts repeat, with how many rows of either table hold it."""

    shows_rows: ClassVar[bool] = True

    class Column(FigurePart):
        class Sentence(FigurePart):
            sentence: str
            n_words: Count
            synthetic_rows: Count
            train_rows: Count

        column: str
        sentences: list[Sentence]

    columns: list[Column]


def _listed(texts: Texts, places: Sequence[Place], tables: Tables) -> list[dict[str, Any]]:
    columns: dict[str, dict[str, str]] = {}
    for number, start, end in places:
        name, _, text = texts[number]
        sentence, known = sentence_around(text, start, end), columns.setdefault(name, {})
        if not any(sentence in other or other in sentence for other in known):
            known[sentence] = text[start:end].casefold()

    def n_holding(frame: pd.DataFrame, name: str, part: str) -> int:
        return sum(part in text.casefold() for *_, text in tokens.written(frame, [name]))

    return [
        {"column": name, "sentences": [
            {"sentence": sentence[:MOST_CHARACTERS], "n_words": len(tokens.words(sentence)),
             "synthetic_rows": n_holding(tables.synthetic, name, part),
             "train_rows": n_holding(tables.train, name, part)}
            for sentence, part in list(columns[name].items())[:MOST_SENTENCES]
        ]}
        for name in tables.schema.texts if name in columns
    ]  # fmt: skip


def sentence_around(text: str, start: int, end: int) -> str:
    """The sentences of a text in which some of its characters stand.

    >>> sentence_around("One. Call 555-0199 now! Three.", 10, 13)
    'Call 555-0199 now!'
    """
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    return text[max(e for e in ends if e <= start) : min(e for e in ends if e >= end)].strip()

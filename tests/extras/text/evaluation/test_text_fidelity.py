"""Fidelity of free text: by hand, on spoiled texts, and under the policies that ship."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.gate.policy import shipped
from evaluate.result import Estimate
from evaluate.tables import Real, Tables
from tests.extras.text.evaluation import spoiled
from tests.extras.text.evaluation.spoiled import OPTIONAL, N, Spoil, measured, number, outcomes, real
from tests.text_tables import TEXT, complaints
from understudy.extras.text.evaluation.fidelity import (
    AGREEMENT,
    GATED,
    LENGTHS,
    MISSING,
    NAME,
    ORDER,
    REPEATED,
    WORDS,
    compared,
    distances_of_lengths,
    distances_of_words,
    tokens_of,
)
from understudy.extras.text.evaluation.tokens import words
from understudy.extras.text.evaluation.utility import NAME as UTILITY

BOTH = [NAME, UTILITY]


def shares(texts: pd.Series) -> Counter[str]:
    counts = Counter(word for text in texts for word in set(words(text)))
    return Counter({word: count / counts.total() for word, count in counts.items()})  # type: ignore[misc]


def test_distances_are_those_that_one_counts_by_hand() -> None:
    train, short = complaints(N, 0)[TEXT], spoiled.cut_short(complaints(N, 2))
    tokens, _ = tokens_of(compared(real().beside(short))[0], TEXT)
    first, second = shares(train), shares(short[TEXT])
    by_hand = sum(abs(first[word] - second[word]) for word in {*first, *second}) / 2
    assert distances_of_words(tokens)[0][0] == pytest.approx(by_hand, abs=1e-12)
    ours, theirs = (np.array([len(words(text)) for text in texts]) for texts in (train, short[TEXT]))
    by_hand = max(abs((ours <= at).mean() - (theirs <= at).mean()) for at in range(ours.max() + 1))
    assert distances_of_lengths(tokens)[0][0] == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (None, set()), (spoiled.dealt, {AGREEMENT}), (spoiled.words_dealt, {AGREEMENT, ORDER}),
        (spoiled.one_text, {AGREEMENT, REPEATED, WORDS, LENGTHS}),
        (spoiled.garbage, {AGREEMENT, ORDER, WORDS, LENGTHS}), (spoiled.twice, {REPEATED}),
        (spoiled.often_missing, {MISSING}), (spoiled.words_shuffled, {ORDER}),
    ],
)  # fmt: skip
def test_spoiled_texts_fail_the_rules_that_are_about_it_and_no_other(spoil: Spoil | None, broken: set[str]) -> None:
    for name in shipped():
        findings = outcomes(measured(NAME, spoil), name, NAME)
        assert len(findings) == 6
        assert broken or {*findings.values()} == {"PASS"}
        assert {rule for rule, outcome in findings.items() if outcome == "FAIL"} == broken, name


def reviews(n: int, seed: int) -> pd.DataFrame:
    """Texts of words by Zipf's law, three of which are of 150 that go with a good rating, or of 150 with a bad one."""
    rng = np.random.default_rng([seed, 3])
    chances = 1 / np.arange(1, 5_001)
    plain, table = rng.choice(5_000, (n, 20), p=chances / chances.sum()), complaints(n, seed)
    is_good = rng.random((n, 3)) < table["rating"].to_numpy()[:, None] / 6
    told = np.where(is_good, 9_000, 8_000) + rng.integers(0, 150, (n, 3))
    mixed = rng.permuted(np.hstack([plain, told]), axis=1)
    return table.assign(**{TEXT: [" ".join(f"w{word}".translate(LETTERS) for word in text) for text in mixed]})


LETTERS = str.maketrans("0123456789", "abcdefghij")


def test_texts_that_tell_of_their_row_by_rare_words_fail_where_they_are_dealt_to_other_rows() -> None:
    """As reviews do: no single word shows it, and a model of all of them does."""
    base = Real.prepare(reviews(1_000, 0), reviews(1_000, 1), OPTIONAL)
    fresh = reviews(1_000, 2)
    for table, expected in ((fresh, "PASS"), (spoiled.dealt(fresh), "FAIL")):
        candidate = measure_candidate("t", base.beside(table), measures=[NAME])
        assert {outcomes(candidate, name, NAME)[AGREEMENT] for name in shipped()} == {expected}


def test_what_is_lost_is_measured_by_its_square_between_landmarks_of_zero_and_one() -> None:
    assert number(measured(NAME, spoiled.dealt), AGREEMENT).value == pytest.approx(1.0, abs=0.15)
    assert number(measured(NAME, spoiled.half_dealt), AGREEMENT).value == pytest.approx(0.25, abs=0.08)
    assert number(measured(NAME, spoiled.garbage), ORDER).value == pytest.approx(1.0, abs=0.01)
    assert abs(number(measured(NAME, spoiled.one_text), ORDER).value) < 1.0  # one text throughout is in order
    for name in (AGREEMENT, ORDER):
        estimate = number(measured(NAME), name)
        assert estimate.reference == pytest.approx(0.0, abs=0.05)
        assert estimate.floor == pytest.approx(1.0, abs=0.3)  # noise of a small table


def test_texts_without_words_give_numbers_or_a_reason() -> None:
    parts = [complaints(80, seed).assign(**{TEXT: ["\U0001f600", " "] * 40}) for seed in range(3)]
    candidate = measure_candidate("t", Tables.prepare(*parts, OPTIONAL), measures=BOTH)
    assert {failure.reason for failure in candidate.failures} <= {"skipped"}
    assert isinstance(candidate.find(MISSING), Estimate)


def partly(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Three in ten texts dealt, two in ten with their words shuffled, one in ten a stock phrase, one in twenty gone."""
    texts, n = table[TEXT].to_numpy(dtype=object).copy(), len(table)
    ends = np.cumsum([0, int(0.3 * n), int(0.2 * n), int(0.1 * n), int(0.05 * n)])
    texts[: ends[1]] = rng.permutation(texts[: ends[1]])
    for row in range(ends[1], ends[2]):
        texts[row] = " ".join(rng.permutation(texts[row].split()))
    texts[ends[2] : ends[3]] = rng.choice(["I am not happy.", "Nobody calls me back.", "Please help."], int(0.1 * n))
    texts[ends[3] : ends[4]] = None
    return table.assign(**{TEXT: texts})


@pytest.mark.statistical
def test_intervals_hold_what_they_estimate() -> None:
    n = 40  # of so few less than this would show in 1 of 1,000 simulations at a coverage of 93%
    least = 0.93 - 3.1 * np.sqrt(0.93 * 0.07 / n)
    estimates: dict[str, list[Estimate]] = {name: [] for name in GATED}
    for seed in range(n):
        table = partly(complaints(300, 10 * seed + 2), np.random.default_rng([seed, 9]))
        tables = Tables.prepare(complaints(600, 10 * seed), complaints(600, 10 * seed + 1), table, OPTIONAL, seed=seed)
        now = measure_candidate("t", tables, measures=[NAME])
        for name in GATED:
            estimates[name].append(number(now, name))
    for name, each in estimates.items():
        mean = np.mean([estimate.value for estimate in each])
        assert np.mean([estimate.low <= mean <= estimate.high for estimate in each]) >= least, name

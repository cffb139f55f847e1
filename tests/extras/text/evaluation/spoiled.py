"""Tables of complaints that are spoiled in one way each, what measures of free text say of them, and verdicts."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from evaluate.engine import measure_candidate
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG
from evaluate.real_facts import RealFacts, Shift
from evaluate.result import Candidate, Estimate
from evaluate.tables import Real
from tests.text_tables import TEXT, complaint_schema, complaints

N = 400
Spoil = Callable[[pd.DataFrame], pd.DataFrame]
OPTIONAL = complaint_schema(missing=True)


@cache
def real() -> Real:
    return Real.prepare(complaints(N, 0), complaints(N, 1), OPTIONAL)


@cache
def measured(measure: str, spoil: Spoil | None = None) -> Candidate:
    honest = complaints(N, 2)
    return measure_candidate("t", real().beside(honest if spoil is None else spoil(honest)), measures=[measure])


def number(candidate: Candidate, name: str, *subject: str) -> Estimate:
    estimate = candidate.find(name, subject)
    assert isinstance(estimate, Estimate), estimate
    return estimate


def outcomes(candidate: Candidate, policy: str, measure: str, texts: tuple[str, ...] = (TEXT,)) -> dict[str, str]:
    shift = Shift(n_train=3_000, n_holdout=1_500, p_value=0.5, detectable=0.53)
    facts = RealFacts(3_000, 1_500, 0, 0.0, 5, shift=shift, texts=texts)
    verdict = judge_candidate(candidate, load_policy(policy), real=facts)
    return {f.rule.measure: f.outcome for f in verdict.findings if CATALOG[f.rule.measure].by == measure}


def dealt(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{TEXT: np.random.default_rng(1).permutation(table[TEXT].to_numpy(dtype=object))})


def half_dealt(table: pd.DataFrame) -> pd.DataFrame:
    """Half of the rows with the texts of others, whichever they are."""
    n = len(table) // 2
    return pd.concat([dealt(table.iloc[:n]), table.iloc[n:]], ignore_index=True)


def one_text(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{TEXT: table[TEXT].iloc[0]})


def twice(table: pd.DataFrame) -> pd.DataFrame:
    half = table.iloc[: len(table) // 2]
    return pd.concat([half, half], ignore_index=True)


def words_dealt(table: pd.DataFrame) -> pd.DataFrame:
    split = [text.split() for text in table[TEXT]]
    words = iter(np.random.default_rng(2).permutation([word for text in split for word in text]))
    return table.assign(**{TEXT: [" ".join(next(words) for _ in text) for text in split]})


def words_shuffled(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return table.assign(**{TEXT: [" ".join(rng.permutation(text.split())) for text in table[TEXT]]})


def garbage(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    texts = [" ".join("".join(rng.choice(list("abcdefgh"), 5)) for _ in text.split()) for text in table[TEXT]]
    return table.assign(**{TEXT: texts})


def cut_short(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{TEXT: [" ".join(text.split()[:10]) for text in table[TEXT]]})


def often_missing(table: pd.DataFrame) -> pd.DataFrame:
    gone = np.random.default_rng(4).random(len(table)) < 1 / 3
    return table.assign(**{TEXT: table[TEXT].mask(gone, None)})

"""Sentences and personal data in synthetic texts: one secret among thousands is found, and honest texts pass."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.figures import check_figures
from evaluate.gate.policy import load_policy, shipped
from evaluate.gate.verdict import judge_candidate
from evaluate.real_facts import Duplicates, RealFacts, Shift
from evaluate.result import Candidate, Estimate
from evaluate.tables import Real
from synth.schema import build_schema
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.evaluation.repeated import COPIED, NAME, PERSONAL

N, N_HELD_OUT, N_SECRETS = 3_000, 1_500, 3


def real(seed: int, n: int = N, n_held_out: int = N_HELD_OUT) -> tuple[Real, pd.DataFrame]:
    train = complaints(n, 10 * seed + 1, N_SECRETS)
    return Real.prepare(train, complaints(n_held_out, 10 * seed + 2), complaint_schema(), seed=seed), train


def measured(of: Real, table: pd.DataFrame) -> Candidate:
    return measure_candidate("t", of.beside(table), measures=[NAME])


@cache
def honest(seed: int) -> Candidate:
    return measured(real(seed)[0], complaints(N, 10 * seed + 3))


@cache
def leaking(seed: int, n_leaks: int) -> Candidate:
    """An honest table in which the first secret is repeated."""
    of, train = real(seed)
    table = complaints(N, 10 * seed + 3)
    for row in range(n_leaks):
        table.loc[100 + row, TEXT] += " " + secret(train[TEXT][0])
    return measured(of, table)


def secret(text: str) -> str:
    return text[text.index("Call ") :]


def number(of: Candidate, name: str) -> Estimate:
    found = of.find(name)
    assert isinstance(found, Estimate), found
    return found


def sentences(of: Candidate) -> list[str]:
    return [one["sentence"] for column in of.figures["text_copies"]["columns"] for one in column["sentences"]]


def outcomes(of: Candidate, policy: str, texts: tuple[str, ...] = (TEXT,)) -> dict[str, str]:
    shift = Shift(n_train=N, n_holdout=N_HELD_OUT, p_value=0.5, detectable=0.53)
    facts = RealFacts(N, N_HELD_OUT, Duplicates(0, 0.0), 0.0, 5, shift=shift, texts=texts)
    verdict = judge_candidate(of, load_policy(policy), real=facts)
    return {finding.rule.measure: finding.outcome for finding in verdict.findings}


@pytest.mark.parametrize("seed", range(2))
def test_another_draw_of_complaints_passes_every_policy(seed: int) -> None:
    assert number(honest(seed), COPIED).low == number(honest(seed), PERSONAL).high == 0.0
    assert sentences(honest(seed)) == []
    for policy in shipped():
        found = outcomes(honest(seed), policy)
        assert found[COPIED] == found[PERSONAL] == "PASS"


@pytest.mark.parametrize(("seed", "n_leaks"), [(0, 1), (1, 2)])
def test_one_secret_among_thousands_fails_every_policy_with_its_sentence(seed: int, n_leaks: int) -> None:
    found = leaking(seed, n_leaks)
    assert number(found, COPIED).low == pytest.approx(1 / N)
    assert number(found, PERSONAL).value == pytest.approx(n_leaks / N)
    assert len(sentences(found)) == 1
    assert secret(real(seed)[1][TEXT][0]) in sentences(found)[0]
    listed = found.figures["text_copies"]["columns"][0]["sentences"][0]
    assert (listed["synthetic_rows"], listed["train_rows"]) == (n_leaks, 1)
    check_figures(found.figures)
    for policy in shipped():
        judged = outcomes(found, policy)
        assert judged[COPIED] == judged[PERSONAL] == "FAIL"


def test_a_secret_in_prose_without_digits_is_a_copied_sentence() -> None:
    told = "My neighbor Walburga pawned grandmother's cello behind Lisbon's aquarium, weeping silently."
    train, table = complaints(N, 1), complaints(N, 3)
    train.loc[5, TEXT] += " " + told
    table.loc[77, TEXT] += " " + told
    found = measured(Real.prepare(train, complaints(N_HELD_OUT, 2), complaint_schema()), table)
    assert number(found, COPIED).low == pytest.approx(1 / N)
    assert number(found, PERSONAL).value == 0.0
    assert told in sentences(found)[0]


def test_a_copy_of_train_fails_though_its_sentences_are_everybodys() -> None:
    train = complaints(1_000, 1)
    found = measured(Real.prepare(train, complaints(600, 2), complaint_schema()), train)
    assert number(found, COPIED).low > 0.1
    assert {outcomes(found, policy)[COPIED] for policy in shipped()} == {"FAIL"}


def test_a_secret_that_a_held_out_text_has_too_is_no_leak() -> None:
    train, held_out, table = complaints(N, 1, N_SECRETS), complaints(N_HELD_OUT, 2), complaints(N, 3)
    held_out.loc[9, TEXT] += " " + secret(train[TEXT][0])
    table.loc[100, TEXT] += " " + secret(train[TEXT][0])
    found = measured(Real.prepare(train, held_out, complaint_schema()), table)
    assert number(found, COPIED).low == number(found, PERSONAL).value == 0.0
    assert sentences(found) == []


def test_a_number_that_every_text_has_may_be_repeated_by_chance() -> None:
    """Seven random digits in each text: one of 3,000 numbers is met again in every second honest table."""
    rng = np.random.default_rng(0)
    parts = (complaints(N, 1), complaints(N_HELD_OUT, 2), complaints(N, 3))
    tables = [frame.assign(**{TEXT: cases(len(frame), rng)}) for frame in parts]
    tables[2].loc[4, TEXT] = tables[0].loc[8, TEXT]
    found = measured(Real.prepare(tables[0], tables[1], complaint_schema()), tables[2])
    assert number(found, COPIED).low == number(found, PERSONAL).value == 0.0


def test_texts_of_one_person_are_one_unit() -> None:
    """A person who tells a secret in two rows has it alone; two people who tell it do not."""
    content = complaint_schema().model_dump()
    columns = {"person": {"kind": "identifier", "bounds": [0, 10**6]}, **content["columns"]}
    schema = build_schema({**content, "columns": columns, "entity": "person"})
    for n_people, share in ((1, 1), (2, 0)):
        train, held_out, table = complaints(N, 1, 1), complaints(N_HELD_OUT, 2), complaints(N, 3)
        train.loc[1, TEXT] += " " + secret(train[TEXT][0])
        table.loc[100, TEXT] += " " + secret(train[TEXT][0])
        owners = [np.arange(len(frame)) + 10**5 * at for at, frame in enumerate((train, held_out, table))]
        owners[0][1] = 0 if n_people == 1 else 1
        parts = (frame.assign(person=who) for frame, who in zip((train, held_out, table), owners, strict=True))
        train, held_out, table = parts
        found = measured(Real.prepare(train, held_out, schema), table)
        assert round(number(found, PERSONAL).value * N) == share


def test_missing_and_empty_texts_give_numbers_or_a_reason() -> None:
    parts = [complaints(300, seed).astype({TEXT: object}) for seed in range(3)]
    schema = complaint_schema(missing=True)
    for part in parts:
        part.loc[::3, TEXT] = None
        part.loc[1::7, TEXT] = "?"
    of = Real.prepare(parts[0], parts[1], schema)
    assert number(measured(of, parts[2]), COPIED).low == 0.0
    nothing = measured(of, parts[2].assign(**{TEXT: None}))
    assert not nothing.estimates
    assert {failure.reason for failure in nothing.failures} == {"skipped"}


def test_columns_that_are_told_of_in_texts_are_personal_data() -> None:
    """A full name, an address and an account of personal columns, in a text of nobody's."""
    rng = np.random.default_rng(3)
    content = complaint_schema().model_dump()
    columns = {
        "first": {"kind": "personal", "personal": "first_name"}, "last": {"kind": "personal", "personal": "last_name"},
        "mail": {"kind": "personal", "personal": "email"}, **content["columns"],
    }  # fmt: skip
    schema = build_schema({**content, "columns": columns})

    def people(n: int, seed: int) -> pd.DataFrame:
        first, last = (["".join(rng.choice(list("bcdfghklmnprst"), 4)) + end for _ in range(n)] for end in ("a", "son"))
        mails = [f"{a}.{b}.{i}@example.org" for i, (a, b) in enumerate(zip(first, last, strict=True))]
        return complaints(n, seed).assign(first=first, last=last, mail=mails)

    train, held_out, table = people(N, 1), people(N_HELD_OUT, 2), people(N, 3)
    of = Real.prepare(train, held_out, schema)
    table["mail"] = "nobody@example.org"
    assert number(measured(of, table), PERSONAL).value == 0.0
    table.loc[3, TEXT] += f" Ask for {train['mail'][7]}."
    assert number(measured(of, table), PERSONAL).value == pytest.approx(1 / N)
    table.loc[3, TEXT] = f"{train['first'][9].title()} {train['last'][9]} said so."
    assert number(measured(of, table), PERSONAL).value == pytest.approx(1 / N)


@pytest.mark.statistical
@pytest.mark.parametrize("n", [400, 1_500])
def test_honest_texts_raise_no_alarm_in_forty_tables(n: int) -> None:
    for seed in range(40):
        train, held_out, table = complaints(n, 3 * seed), complaints(n // 2, 3 * seed + 1), complaints(n, 3 * seed + 2)
        found = measured(Real.prepare(train, held_out, complaint_schema(), seed=seed), table)
        assert number(found, COPIED).low == number(found, PERSONAL).high == 0.0, seed


def natural(n: int, rng: np.random.Generator) -> list[str]:
    """Words by Zipf's law, thousands of which stand in one text alone."""
    chances = 1 / np.arange(1, 60_001) ** 1.05
    drawn = rng.choice(60_000, (n, 30), p=chances / chances.sum())
    letters = str.maketrans("0123456789", "qrstuvwxyz")
    return [" ".join(f"w{word}".translate(letters) for word in text) + "." for text in drawn]


def phrases(n: int, rng: np.random.Generator) -> list[str]:
    """Phrases of five rare words, each of which is met by Zipf's law."""
    chances = 1 / np.arange(1, 2_001)
    letters = str.maketrans("0123456789", "qrstuvwxyz")
    drawn = rng.choice(2_000, (n, 6), p=chances / chances.sum())
    return [" ".join(f"{p}a {p}b {p}c {p}d {p}e".translate(letters) for p in text) for text in drawn]


def cases(n: int, rng: np.random.Generator) -> list[str]:
    """A number of seven digits in each text: one in four honest tables repeats one."""
    return [f"My case number is {case} and I wait." for case in rng.integers(10**6, 10**7, n)]


@pytest.mark.statistical
@pytest.mark.parametrize(("texts", "most"), [(natural, 0), (cases, 0), (phrases, 2)])
def test_rare_words_numbers_and_phrases_of_everybody_raise_hardly_an_alarm(
    texts: Callable[[int, np.random.Generator], list[str]], most: int
) -> None:
    """Texts of nothing but rare phrases are the hardest: two of them in a row that nobody else has are dear."""
    schema, alarms = complaint_schema(length=1_000), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        parts = [complaints(n, int(rng.integers(10**9))).assign(**{TEXT: texts(n, rng)}) for n in (1_500, 750, 1_500)]
        found = measured(Real.prepare(parts[0], parts[1], schema, seed=seed), parts[2])
        alarms += number(found, COPIED).low > 0.0 or number(found, PERSONAL).high > 0.0
    assert alarms <= most


@pytest.mark.statistical
def test_one_secret_is_found_in_twenty_of_twenty_tables() -> None:
    for seed in range(20):
        train, table = complaints(N, 3 * seed, N_SECRETS), complaints(N, 3 * seed + 2)
        table.loc[0, TEXT] += " " + secret(train[TEXT][1])
        found = measured(Real.prepare(train, complaints(750, 3 * seed + 1), complaint_schema(), seed=seed), table)
        assert number(found, COPIED).low > 0.0, seed
        assert number(found, PERSONAL).low > 0.0, seed

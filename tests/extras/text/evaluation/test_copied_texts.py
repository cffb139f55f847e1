"""Sentences and personal data in synthetic texts: one secret among thousands is found, and honest texts pass."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.gate.policy import shipped
from evaluate.result import Candidate
from evaluate.result_io import check_figures
from evaluate.tables import Real
from synth.schema import Schema, build_schema
from tests.extras.text.evaluation.spoiled import number, outcomes
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.evaluation.repeated import COPIED, NAME, PERSONAL

N, N_HELD_OUT, N_SECRETS = 1_500, 750, 3


SCHEMA = complaint_schema()


def measured(train: pd.DataFrame, held_out: pd.DataFrame, table: pd.DataFrame, schema: Schema = SCHEMA) -> Candidate:
    return measure_candidate("t", Real.prepare(train, held_out, schema).beside(table), measures=[NAME])


def parts(seed: int, n_secrets: int = 0, n: int = N, n_held_out: int = N_HELD_OUT) -> list[pd.DataFrame]:
    """Train, with secrets, the holdout, and an honest table."""
    return [complaints(n, 3 * seed, n_secrets), complaints(n_held_out, 3 * seed + 1), complaints(n, 3 * seed + 2)]


def secret(train: pd.DataFrame, row: int = 0) -> str:
    return " " + train[TEXT][row][train[TEXT][row].index("Call ") :]


def is_clean(candidate: Candidate) -> bool:
    return number(candidate, COPIED).low == number(candidate, PERSONAL).high == 0.0


def sentences(candidate: Candidate) -> list[str]:
    return [each["sentence"] for column in candidate.figures["text_copies"]["columns"] for each in column["sentences"]]


@pytest.mark.parametrize("n_leaks", [0, 2])
def test_one_secret_among_thousands_fails_every_policy_with_its_sentence_and_honest_texts_pass(n_leaks: int) -> None:
    train, held_out, table = parts(0, N_SECRETS)
    for row in range(n_leaks):
        table.loc[100 + row, TEXT] += secret(train)
    candidate = measured(train, held_out, table)
    judged = {outcomes(candidate, policy, NAME)[name] for policy in shipped() for name in (COPIED, PERSONAL)}
    if not n_leaks:
        assert is_clean(candidate)
        assert sentences(candidate) == []
        assert judged == {"PASS"}
        return
    assert judged == {"FAIL"}
    assert number(candidate, COPIED).low == pytest.approx(1 / N)
    assert number(candidate, PERSONAL).value == pytest.approx(n_leaks / N)
    (listed,) = candidate.figures["text_copies"]["columns"][0]["sentences"]
    assert secret(train).strip() in listed["sentence"]
    assert (listed["synthetic_rows"], listed["train_rows"]) == (n_leaks, 1)
    check_figures(candidate.figures)
    hidden = Real.prepare(train, held_out, SCHEMA, show_rows=False).beside(table)
    assert not measure_candidate("t", hidden, measures=[NAME]).figures


def test_a_secret_in_prose_without_digits_is_a_copied_sentence() -> None:
    told = "My neighbor Walburga pawned grandmother's cello behind Lisbon's aquarium, weeping silently."
    train, held_out, table = parts(0)
    train.loc[5, TEXT] += " " + told
    table.loc[77, TEXT] += " " + told
    candidate = measured(train, held_out, table)
    assert number(candidate, COPIED).low == pytest.approx(1 / N)
    assert number(candidate, PERSONAL).value == 0.0
    assert told in sentences(candidate)[0]


def test_a_secret_that_a_held_out_text_has_too_is_no_leak() -> None:
    train, held_out, table = parts(0, N_SECRETS)
    held_out.loc[9, TEXT] += secret(train)
    table.loc[100, TEXT] += secret(train)
    candidate = measured(train, held_out, table)
    assert is_clean(candidate)
    assert sentences(candidate) == []


@pytest.mark.parametrize(("n_people", "share"), [(1, 1), (2, 0)])
def test_texts_of_one_person_are_one_unit(n_people: int, share: int) -> None:
    """A person who tells a secret in two rows has it alone; two people who tell it do not."""
    tables = parts(0, 1)
    for frame in tables[::2]:
        frame.loc[1, TEXT] += secret(tables[0])
    owners = [np.arange(len(frame)) + 10**5 * at for at, frame in enumerate(tables)]
    owners[0][1] = 0 if n_people == 1 else 1
    schema = with_columns(person={"kind": "identifier", "bounds": [0, 10**6]}, entity="person")
    candidate = measured(*(frame.assign(person=who) for frame, who in zip(tables, owners, strict=True)), schema=schema)
    assert round(number(candidate, PERSONAL).value * N) == share


def with_columns(entity: str | None = None, **columns: Any) -> Schema:
    content = SCHEMA.model_dump()
    return build_schema({**content, "columns": {**columns, **content["columns"]}, "entity": entity})


def test_columns_that_are_told_of_in_texts_are_personal_data() -> None:
    """A full name, an address and an account of personal columns, in a text of nobody's."""
    rng = np.random.default_rng(3)
    kinds = {"first": "first_name", "last": "last_name", "mail": "email"}
    schema = with_columns(**{name: {"kind": "personal", "personal": kind} for name, kind in kinds.items()})

    def people(frame: pd.DataFrame) -> pd.DataFrame:
        first, last = (
            ["".join(rng.choice(list("bcdfghklmnprst"), 4)) + end for _ in frame.index] for end in ("a", "son")
        )
        mails = [f"{a}.{b}.{i}@example.org" for i, (a, b) in enumerate(zip(first, last, strict=True))]
        return frame.assign(first=first, last=last, mail=mails)

    train, held_out, table = map(people, parts(0))
    table["mail"] = "nobody@example.org"
    assert number(measured(train, held_out, table, schema), PERSONAL).value == 0.0
    for told in (f"Ask for {train['mail'][7]}.", f"{train['first'][9].title()} {train['last'][9]} said so."):
        candidate = measured(train, held_out, table.assign(**{TEXT: [told, *table[TEXT][1:]]}), schema)
        assert number(candidate, PERSONAL).value == pytest.approx(1 / N)


@pytest.mark.statistical
def test_honest_texts_raise_no_alarm_in_forty_tables() -> None:
    n = 1_500
    assert [seed for seed in range(40) if not is_clean(measured(*parts(seed, 0, n, n // 2)))] == []


@pytest.mark.statistical
def test_one_secret_is_found_in_twenty_of_twenty_tables() -> None:
    for seed in range(20):
        train, held_out, table = parts(seed, N_SECRETS, 3_000, 750)
        table.loc[0, TEXT] += secret(train, 1)
        candidate = measured(train, held_out, table)
        assert number(candidate, COPIED).low > 0.0, seed
        assert number(candidate, PERSONAL).low > 0.0, seed

"""Real personal data in a synthetic table is found however it is written, and what chance gives is no alarm."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy import pii
from evaluate.result import Estimate
from evaluate.tables import Tables
from synth import identifiers
from synth.infer import infer_schema
from synth.personal import generate
from synth.schema import Schema, build_schema

N = 200
COLUMNS: dict[str, Any] = {
    "key": {"kind": "identifier", "template": "xxxxxxxx"},
    "short": {"kind": "identifier", "template": "P-###"},
    "name": {"kind": "personal", "personal": "name"},
    "first": {"kind": "personal", "personal": "first_name"},
    "mail": {"kind": "personal", "personal": "email", "missing": True},
    "tel": {"kind": "personal", "personal": "phone", "template": "+1 (###) ###-####"},
    "card": {"kind": "personal", "personal": "card_number"},
    "iban": {"kind": "personal", "personal": "iban", "locale": "de_DE"},
    "street": {"kind": "personal", "personal": "street"},
    "note": {"kind": "categorical", "categories": ["a", "b"], "measure": False},
}
SCHEMA = build_schema({"status": "declared", "columns": COLUMNS})


def made(n: int, seed: int, schema: Schema = SCHEMA) -> pd.DataFrame:
    """Rows as an honest generator writes them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for name, column in schema.columns.items():
        if column.is_identifier:
            columns[name] = identifiers.generate(column, n, rng)
        elif column.is_personal:
            columns[name] = generate(column, n, rng)
        else:
            columns[name] = rng.choice(["a", "b"], n)
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    rows = made(2 * N, seed=1)
    real_cards = [f"4916{i:011d}" for i in range(2 * N)]  # no real number begins as ours do
    return rows.assign(card=[number + _luhn(number) for number in real_cards])


def _luhn(number: str) -> str:
    from synth.personal import luhn_digits

    return str(int(luhn_digits(np.array([[int(c) for c in number]]))[0]))


def judged(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema = SCHEMA) -> dict[tuple[str, ...], Estimate]:
    tables = Tables.prepare(real.head(N), real.tail(N), synthetic, schema, seed=3)
    measurement = pii.measure(tables)
    return {(estimate.measure, *estimate.subject): estimate for estimate in measurement.estimates}


@pytest.fixture(scope="module")
def honest(real: pd.DataFrame) -> dict[tuple[str, ...], Estimate]:
    return judged(real, made(300, seed=2))


def test_an_honest_table_has_no_real_value_that_chance_does_not_repeat(honest: dict[Any, Estimate]) -> None:
    whole = honest[("privacy.personal",)]
    assert (whole.value, whole.low, whole.high, whole.reference, whole.floor) == (0.0, 0.0, 0.0, 0.0, 1.0)
    for name in ("'key'", "'mail'", "'tel'", "'card'", "'iban'"):
        assert name in whole.note
    for name in ("'short'", "'name'", "'first'"):
        assert name not in whole.note


WRITTEN: list[dict[str, Any]] = [
    {"mail": str.upper, "tel": lambda text: text.replace("+1 ", "001"), "card": " ".join, "key": str.upper,
     "iban": lambda text: f"{text[:4]} {text[4:].lower()}"},
    {"mail": lambda text: f" {text} ", "tel": lambda text: text[3:], "card": lambda text: f"{text}.0",
     "iban": lambda text: text.translate({ord("0") + i: 0xFF10 + i for i in range(10)})},
    {"mail": lambda text: text.replace("@", "+news@"), "tel": lambda text: f"{text} x12"},
]  # fmt: skip


@pytest.mark.parametrize("forms", WRITTEN, ids=["first forms", "second forms", "third forms"])
@pytest.mark.parametrize("side", ["train", "holdout"])
def test_one_real_value_of_a_column_is_found_however_it_is_written(real, forms, side):
    synthetic = made(300, seed=2)
    for row, (column, written) in enumerate(forms.items()):
        synthetic.loc[row, column] = written(real[column].iloc[row if side == "train" else -1 - row])
    result = judged(real, synthetic)
    assert result[("privacy.personal",)].value == pytest.approx(len(forms) / 300)
    assert result[("privacy.personal",)].low > 0
    for column in forms:
        assert result[("privacy.personal.column", column)].value == pytest.approx((side == "train") / 300), column


def test_a_real_mail_in_a_column_that_the_schema_does_not_know_is_found_and_said(real: pd.DataFrame) -> None:
    synthetic = made(300, seed=2).assign(remarks="none")
    synthetic.loc[[3, 7], "remarks"] = [f"see {real['mail'].iloc[0]}", real["mail"].iloc[1]]
    result = judged(real, synthetic)[("privacy.personal",)]
    assert result.value == pytest.approx(2 / 300)
    assert result.note.startswith("2 of 300 rows hold a value of 'mail' that is real")


def test_training_rows_told_in_a_text_are_found_and_rows_that_tell_of_themselves_are_not() -> None:
    rng = np.random.default_rng(5)

    def people(n: int) -> pd.DataFrame:
        town, day = rng.choice(["Bath", "New York"], n), pd.Timestamp("2020-01-01")
        rows = {"age": rng.integers(20, 60, n), "pay": rng.integers(1, 9, n), "town": town}
        return pd.DataFrame({**rows, "day": day + pd.to_timedelta(rng.integers(0, 9, n), unit="D")})

    def told(rows: pd.DataFrame) -> list[str]:
        return [f"{row}" for row in rows.to_dict("records")]

    train, holdout, synthetic = people(400), people(400), people(300)
    schema = infer_schema(train)
    for memo, share in ((told(train.head(300)), 1.0), (told(synthetic), 0.0)):
        tables = Tables.prepare(train, holdout, synthetic.assign(memo=memo), schema, seed=3)
        whole = pii.measure(tables).estimates[0]
        assert whole.value == pytest.approx(share, abs=0.1)


def test_real_values_amid_texts_are_found(real: pd.DataFrame) -> None:
    columns = {**COLUMNS, "note": {"kind": "personal", "personal": "text"}}
    synthetic = made(300, seed=2).assign(note="a")
    synthetic.loc[:2, "note"] = [
        f"as told (see {real[column].iloc[3]}, of 2020)." for column in ("mail", "card", "iban")
    ]
    schema = build_schema({"status": "declared", "columns": columns})
    assert judged(real, synthetic, schema)[("privacy.personal",)].value == pytest.approx(3 / 300)


def test_what_stands_for_no_value_is_no_leak_in_another_column(real: pd.DataFrame) -> None:
    cells = {"mail": "unknown", "card": "1", "iban": "none"}
    columns = {**COLUMNS, "note": {"kind": "categorical", "categories": [*cells.values()]}}
    rows, synthetic = (frame.assign(note=np.resize([*cells.values()], len(frame))) for frame in (real, made(300, 2)))
    rows.loc[0, [*cells]] = [*cells.values()]
    schema = build_schema({"status": "declared", "columns": columns})
    assert judged(rows, synthetic, schema)[("privacy.personal",)].value == 0


def test_a_table_full_of_real_numbers_alarms_where_one_alone_may_be_chance() -> None:
    columns = {
        "acc": {"kind": "personal", "personal": "account_number", "template": "#######"},
        "note": COLUMNS["note"],
    }
    schema = build_schema({"status": "declared", "columns": columns})
    real, honest = made(2 * N, 1, schema), made(300, 2, schema)
    each = honest.assign(acc=[real["acc"].iloc[0], *honest["acc"].iloc[1:]])
    assert judged(real, honest, schema)[("privacy.personal",)].value == 0
    assert judged(real, each, schema)[("privacy.personal",)].value == 0
    assert judged(real, real.head(N), schema)[("privacy.personal",)].value == 1


def test_a_name_with_its_street_is_found_though_either_may_be_chance(real: pd.DataFrame) -> None:
    synthetic = made(300, seed=2)
    synthetic.loc[0, ["name", "first", "street"]] = real.loc[5, ["name", "first", "street"]]
    synthetic.loc[1, "name"], synthetic.loc[2, "street"] = real.loc[6, "name"], real.loc[7, "street"]
    assert judged(real, synthetic)[("privacy.personal",)].value == pytest.approx(1 / 300)


@pytest.mark.parametrize("n", [60, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("leak", [0.0, 0.1])
def test_the_interval_of_a_columns_share_covers_its_expectation(n: int, leak: float) -> None:
    """Keys of which a third are taken; a share of synthetic ones is copied. 93 to 97 of 100, or more than 50 of 60.

    With a coverage of 95%, 50 of 60 or fewer happen once in 1,400.
    """
    columns = {"id": {"kind": "identifier", "template": "###"}, "note": COLUMNS["note"]}
    schema = build_schema({"status": "declared", "columns": columns})
    rng = np.random.default_rng(0)
    empty = pd.DataFrame({"id": ["000"] * 50, "note": "a"})
    base = Tables(schema, schema, empty, empty, empty, empty, 0, synthetic=empty)
    covered = 0
    for seed in range(n):
        train = identifiers.generate(schema.columns["id"], 333, rng)  # type: ignore[arg-type]
        values = identifiers.draw(schema.columns["id"], 400, rng)  # type: ignore[arg-type]
        copied = rng.random(400) < leak
        values[copied] = rng.choice(train, copied.sum())
        frames = (pd.DataFrame({"id": ids, "note": "a"}) for ids in (train, values))
        tables = replace(base, seed=seed, **dict(zip(("train", "synthetic"), frames, strict=True)))
        result = {estimate.measure: estimate for estimate in pii.measure(tables).estimates}
        low, high = result["privacy.personal.column"].low, result["privacy.personal.column"].high
        assert low is not None and high is not None
        covered += low <= 0.333 + leak * (1 - 0.333) <= high
    assert (0.93 <= covered / n <= 0.97) if n == 1_000 else covered > 50


def test_numbers_that_count_rows_are_nobody_s() -> None:
    ids = {"kind": "identifier", "bounds": (1000, 10**6), "rises_with": [], "consecutive": True}
    schema = build_schema({"status": "declared", "columns": {"id": ids, "note": COLUMNS["note"]}})
    rows = pd.DataFrame({"id": 1000 + np.arange(N), "note": "a"})
    tables = Tables.prepare(rows[: N // 2], rows[N // 2 :], rows, schema)
    assert {each.measure: each.value for each in pii.measure(tables).estimates}["privacy.personal"] == 0

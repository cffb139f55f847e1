"""Proposals for levels and codes, missing texts, and personal data."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from faker import Faker

from synth.errors import SchemaError, TableError
from synth.infer import infer_schema
from synth.infer.personal import named_personal
from synth.schema.kinds import CategoricalColumn, Column
from synth.table import conform, read_table, violations, write_table

N = 5_000
RNG = np.random.default_rng(7)


def proposed(values: Any, name: str = "x", **options: Any) -> Column:
    frame = pd.DataFrame({name: values})
    schema = infer_schema(frame, **options)
    assert violations(frame, schema) == []
    return schema.columns[name]


def kind_of(column: Column) -> str:
    if isinstance(column, CategoricalColumn):
        return "levels" if column.ordered else "codes"
    return column.kind


def drawn(values: Any, shares: Any) -> np.ndarray:
    shares = np.asarray(shares, dtype=float)
    return RNG.choice(np.asarray(values), N, p=shares / shares.sum())


def codes() -> np.ndarray:
    """Numbers of shops: some of a few hundred, each as frequent as it is."""
    known = np.sort(RNG.choice(np.arange(1, 700), 220, replace=False))
    return drawn(known, np.exp(RNG.normal(0, 1.5, 220)))


def charming() -> np.ndarray:
    """Prices just below round ones."""
    prices = np.arange(5, 400)
    return drawn(prices, np.exp(-prices / 100) * np.where(prices % 10 == 9, 20, np.where(prices % 5 == 0, 5, 1)))


def round_amounts() -> np.ndarray:
    sizes = np.arange(1, 80)
    return 10_000 * drawn(sizes, np.exp(-sizes / 15) * np.where(sizes % 5 == 0, 6, 1))


def in_use(values: np.ndarray) -> np.ndarray:
    """Amounts of which most are nothing."""
    return np.where(RNG.random(N) < 0.7, 0, values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (codes(), "codes"),
        (98_000 + codes(), "codes"),
        (round_amounts(), "integer"),
        (charming(), "integer"),
        (in_use(codes()), "integer"),
        (codes() - 350, "integer"),
        (RNG.poisson(50, N), "integer"),
        (np.rint(RNG.normal(170, 10, N) / 2.54) * 254 // 100, "integer"),  # centimeters that were inches
    ],
)
def test_codes_are_told_by_how_often_each_occurs(values: np.ndarray, kind: str) -> None:
    assert kind_of(proposed(values)) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("zip", "codes"), ("agent", "codes"), ("store_nbr", "codes"), ("loanType", "codes"), ("INDP", "codes"),
        ("sex", "codes"), ("rate_marriage", "integer"),
        ("price", "integer"), ("n_stores", "integer"), ("store_visits", "integer"), ("living_area", "integer"),
    ],
)  # fmt: skip
def test_names_help_to_tell_codes(name: str, kind: str) -> None:
    assert kind_of(proposed(RNG.integers(1, 100, N), name)) == kind
    assert kind_of(proposed(RNG.integers(1, 4, N), name)) == ("levels" if kind == "integer" else kind)


def test_what_is_computed_with_is_an_amount_however_few_values_it_has() -> None:
    price, qty = np.round(RNG.uniform(1, 90, N), 2), RNG.integers(1, 9, N)
    frame = pd.DataFrame({"price": price, "qty": qty, "paid": np.round(price * qty, 2), "grade": RNG.integers(1, 9, N)})
    schema = infer_schema(frame, constraints=True)
    assert {name: kind_of(schema.columns[name]) for name in ("qty", "grade")} == {"qty": "integer", "grade": "levels"}
    assert "'paid' is price * qty" in [str(constraint) for constraint in schema.constraints]


N_T = 400
RNG_T = np.random.default_rng(11)


def texts(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(list(map(str, cells)), dtype=object) for name, cells in columns.items()})


def sometimes(word: str, values: Any, share: float = 0.2) -> np.ndarray:
    return np.where(RNG_T.random(N_T) < share, word, np.asarray(values).astype(str))


@pytest.mark.parametrize("word", ["N", "?", "-", "unknown", "Not available"])
def test_a_word_among_numbers_stands_for_a_missing_one(word: str, tmp_path: Path) -> None:
    frame = texts(income=sometimes(word, RNG_T.integers(0, 90_000, N_T)), sex=RNG_T.integers(1, 3, N_T))
    schema = infer_schema(frame)
    assert schema.missing_values == (word,)
    assert (schema.columns["income"].kind, schema.columns["income"].missing) == ("integer", True)
    assert not schema.columns["sex"].missing
    assert violations(frame, schema) == []
    write_table(frame, tmp_path / "t.csv", schema)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), frame)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (sometimes("?", RNG_T.integers(1, 8, N_T)), "categorical"),
        (sometimes("?", np.round(RNG_T.normal(0, 1, N_T), 2)), "real"),
        (sometimes("?", pd.date_range("2020-01-01 08:30", periods=N_T).strftime("%Y-%m-%d %H:%M")), "datetime"),
    ],
)
def test_numbers_and_times_of_all_kinds_are_read_beside_it(cells: np.ndarray, kind: str) -> None:
    frame = texts(x=cells)
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].missing, schema.missing_values) == (kind, True, ("?",))
    assert violations(frame, schema) == []


def test_it_leaves_the_categories_of_other_columns_and_is_written_back_most_frequent_first(tmp_path: Path) -> None:
    frame = texts(
        income=sometimes("?", RNG_T.integers(0, 90_000, N_T), 0.1),
        rent=sometimes("", RNG_T.integers(0, 900, N_T), 0.6),
        job=sometimes("?", RNG_T.choice(["clerk", "farmer"], N_T)),
    )
    schema = infer_schema(frame)
    assert schema.missing_values == ("", "?")
    assert (schema.columns["job"].categories, schema.columns["job"].missing) == (("clerk", "farmer"), True)
    write_table(frame, tmp_path / "t.csv", schema)
    written = read_table(tmp_path / "t.csv")
    assert not (written == "?").any(axis=None)
    pd.testing.assert_frame_equal(conform(written, schema), conform(frame, schema))


def test_a_value_of_the_target_or_the_entity_is_none() -> None:
    income, sick = sometimes("N", RNG_T.integers(0, 90_000, N_T)), RNG_T.choice(["Y", "N"], N_T)
    assert infer_schema(texts(income=income, sick=sick)).missing_values == ("N",)
    schema = infer_schema(texts(income=income, sick=sick), target="sick")
    assert (schema.missing_values, schema.columns["sick"].categories) == (("",), ("N", "Y"))
    who = sometimes("unknown", [f"P-{i % 90}" for i in range(N_T)])
    frame = texts(who=who, income=sometimes("unknown", RNG_T.integers(0, 90_000, N_T)))
    assert infer_schema(frame, entity="who").missing_values == ("",)
    # A target of numbers is read like any other column.
    assert infer_schema(texts(income=income), target="income").missing_values == ("N",)


def test_a_user_says_further_texts_for_all_columns() -> None:
    frame = texts(
        x=sometimes("refused", RNG_T.integers(0, 90_000, N_T)), y=sometimes("refused", RNG_T.choice(["a", "b"], N_T))
    )
    assert infer_schema(frame).columns["x"].kind == "text"
    schema = infer_schema(frame, missing_values=["refused", "-9"])
    assert schema.missing_values == ("refused", "-9")
    assert (schema.columns["x"].kind, schema.columns["y"].categories) == ("integer", ("a", "b"))
    assert violations(frame, schema) == []
    with pytest.raises(SchemaError, match="must be a list of texts"):
        infer_schema(frame, missing_values="refused")
    with pytest.raises(TableError, match="is the target and has one value at most"):
        infer_schema(texts(x=RNG_T.choice(["a", "b"], N_T), y=range(N_T)), target="x", missing_values=["a"])


N_P = 120


def customers(locale: str, seed: int = 0) -> pd.DataFrame:
    fake = Faker(locale)
    fake.seed_instance(seed)
    makers = {
        "client": fake.name, "First Name": fake.first_name, "surname": fake.last_name, "contact": fake.email,
        "Telephone": fake.phone_number, "account": fake.iban, "payment": fake.credit_card_number,
        "address": fake.address, "note": lambda: fake.text(120),
    }  # fmt: skip
    ages = np.random.default_rng(seed).integers(18, 90, N_P)
    return pd.DataFrame(
        {name: [make() for _ in range(N_P)] for name, make in makers.items()} | {"age": ages.astype(str)}
    )


def test_a_table_of_customers_is_told_with_its_locale() -> None:
    table = customers("fr_FR")
    schema = infer_schema(table)
    told = {name: schema.columns[name] for name in table.columns[:-1]}
    assert all(column.is_personal for column in told.values())
    assert {name: column.personal for name, column in told.items()} == {
        "client": "name", "First Name": "first_name", "surname": "last_name", "contact": "email", "Telephone": "phone",
        "account": "iban", "payment": "card_number", "address": "address", "note": "text",
    }  # fmt: skip
    assert {column.locale for column in told.values()} == {"fr_FR"}
    assert schema.learned == ("age",)
    assert violations(table, schema) == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("e-mail", "email"), ("EMailAddress", "email"), ("cust_email_1", "email"), ("Patient Name", "name"),
        ("firstName", "first_name"), ("prénom", "first_name"), ("Nachname", "last_name"), ("mobile_no", "phone"),
        ("Telefon", "phone"), ("credit_card_number", "card_number"), ("IBAN", "iban"), ("zip", "postcode"),
        ("PLZ", "postcode"), ("Straße", "street"), ("address_line2", "address"), ("SSN", "national_id"),
        ("account_no", "account_number"), ("mileage", None), ("product_name", None), ("filename", None),
        ("number", None), ("report", None), ("capital", None), ("hours-per-week", None), ("accounting", None),
    ],
)  # fmt: skip
def test_names_of_columns_speak_in_some_languages(name: str, what: str | None) -> None:
    assert named_personal(name) == what


def column_of(name: str, values: list[Any]) -> Any:
    return infer_schema(pd.DataFrame({name: values, "other": range(len(values))})).columns[name]


def test_contents_must_agree_with_the_name() -> None:
    assert column_of("mobile", [True, False] * 30).kind == "boolean"
    assert column_of("phone", list(range(60))).kind != "personal"
    assert column_of("email", ["yes", "no"] * 30).kind == "categorical"
    assert column_of("name", ["ward a", "ward b"] * 30).kind == "categorical"
    assert column_of("name", [f"Chair {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(100)]).kind != "personal"
    assert column_of("city", ["Bonn", "Rome"] * 30).kind == "categorical"


def test_numbers_are_told_by_checksums_and_names_alone() -> None:
    fake = Faker("en_US")
    fake.seed_instance(0)
    cards = [int(fake.credit_card_number("visa16")) for _ in range(60)]
    card = column_of("c", cards)
    assert (card.kind, card.personal, card.dtype) == ("personal", "card_number", "int64")
    assert column_of("c", [card + 1 for card in cards]).kind != "personal"
    phone = column_of("phone", [5_125_550_100 + i for i in range(60)])
    assert (phone.personal, phone.template) == ("phone", "2##55501##")
    ssn = column_of("x", [f"{i:03d}-{i % 90 + 10}-{7 * i % 9000 + 1000}" for i in range(100, 160)])
    assert (ssn.personal, ssn.template) == ("national_id", None)


@pytest.mark.parametrize(
    ("name", "number"), [("iban", "DE00 3704 0044 0532 013{:03d}"), ("card_number", "4000-0000-0000-0{:03d}")]
)
def test_numbers_of_people_that_repeat_are_no_categories_whatever_their_check_digits(name: str, number: str) -> None:
    numbers = [number.format(i % 120) for i in range(600)]
    frame = pd.DataFrame({name: numbers, "amount": range(600)})
    column = infer_schema(frame, propose_entity=False).columns[name]
    assert (column.kind, column.personal) == ("personal", name)
    schema = infer_schema(frame)
    assert (schema.entity, schema.columns[name].kind) == (name, "identifier")
    assert infer_schema(frame, kinds={name: "personal"}).entity is None


def test_numbers_and_dates_that_look_a_little_like_it_are_none() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "amount": [f"{v:.2f}" for v in rng.normal(0, 1e6, 80)],
        "when": [f"{d:02d} Jan 2020" for d in rng.integers(1, 29, 80)],
        "stamp": [f"2020-01-{d:02d} 10:00:00" for d in rng.integers(1, 29, 80)],
        "big": [str(v) for v in rng.integers(10**15, 10**16, 80)],
        "code": [f"K{v:05d}" for v in range(80)], "host": [f"10.0.0.{v}" for v in range(80)],
    })  # fmt: skip
    kinds = {name: column.kind for name, column in infer_schema(table).columns.items()}
    assert "personal" not in kinds.values(), kinds


def test_the_target_and_the_entity_keep_their_roles_and_names_follow_the_entity() -> None:
    fake = Faker("en_US")
    fake.seed_instance(1)
    names = [fake.name() for _ in range(100)]
    table = pd.DataFrame({
        "patient_id": [f"P-{i // 2:03d}" for i in range(200)], "patient_name": [names[i // 2] for i in range(200)],
        "doctor_name": [names[i % 90] for i in range(200)], "visit": range(200),
    })  # fmt: skip
    schema = infer_schema(table)
    assert schema.entity == "patient_id"
    assert schema.constant_in_entity == ("patient_name",)
    assert infer_schema(table, entity="patient_name").columns["patient_name"].kind == "identifier"


def test_a_template_repeats_no_letter_of_a_real_value() -> None:
    passports = [f"{chr(0x410 + i % 30)}{chr(0x410 + i // 30)} {i:06d}" for i in range(N_P)]
    assert column_of("passport_no", passports).template == "AA ######"


@pytest.mark.parametrize(
    ("dtype", "first", "expected"),
    [("int32", 2 * 10**9, "int64"), ("int64", 9 * 10**18, "int64"), ("float64", 10**11, "float64")],
)
def test_a_dtype_is_proposed_that_holds_what_is_made_anew(dtype: str, first: int, expected: str) -> None:
    column = column_of("account_number", list(np.arange(first, first + 8 * N_P, 8, dtype=np.int64).astype(dtype)))
    assert (column.kind, column.dtype) == ("personal", expected)

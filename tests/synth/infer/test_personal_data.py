"""Personal data is told by names of columns, patterns and checksums; what is none is left as it was."""

import time
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from faker import Faker

from synth import infer_schema
from synth.columns import Personal, PersonalColumn
from synth.generators import registry
from synth.infer.personal import FORMS, WORDS, named_personal
from synth.schema import Schema
from synth.table import violations

N = 120


def personal(schema: Schema, name: str) -> PersonalColumn:
    column = schema.columns[name]
    assert isinstance(column, PersonalColumn), (name, column)
    return column


def customers(locale: str, seed: int = 0) -> pd.DataFrame:
    fake = Faker(locale)
    fake.seed_instance(seed)
    made = {
        "client": fake.name, "First Name": fake.first_name, "surname": fake.last_name, "contact": fake.email,
        "Telephone": fake.phone_number, "account": fake.iban, "payment": fake.credit_card_number,
        "address": fake.address, "note": lambda: fake.text(120),
    }  # fmt: skip
    ages = np.random.default_rng(seed).integers(18, 90, N)
    return pd.DataFrame({name: [make() for _ in range(N)] for name, make in made.items()} | {"age": ages.astype(str)})


@pytest.mark.parametrize("locale", ["en_GB", "de_DE", "fr_FR", "es_ES"])
def test_a_table_of_customers_is_told_with_its_locale(locale: str) -> None:
    table = customers(locale)
    schema = infer_schema(table)
    told = {name: personal(schema, name) for name in table.columns[:-1]}
    assert {name: column.personal for name, column in told.items()} == {
        "client": "name", "First Name": "first_name", "surname": "last_name", "contact": "email", "Telephone": "phone",
        "account": "iban", "payment": "card_number", "address": "address", "note": "text",
    }  # fmt: skip
    assert {column.locale for column in told.values()} == {locale}
    assert schema.learned == ("age",)
    assert violations(table, schema) == []
    synthetic = registry.generator("independent").fit(table, schema, seed=0).sample(50, seed=0)
    assert violations(synthetic, schema) == []
    assert not set(synthetic["contact"]) & set(table["contact"])


def test_the_usual_locale_is_taken_where_nothing_speaks_for_another() -> None:
    assert {personal(infer_schema(customers("en_US")), name).locale for name in ("client", "surname")} == {"en_US"}


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


def test_whatever_a_name_may_say_has_a_form_to_agree_with() -> None:
    assert set(FORMS) == set(WORDS) == set(get_args(Personal)) - {"text"}


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


def test_the_form_of_most_telephones_is_kept_in_the_range_for_fiction_where_there_is_one() -> None:
    american = column_of("tel", [f"+1 ({i:03d}) {i + 5:03d}-{3 * i:04d}" for i in range(200, 260)])
    assert american.template == "+1 (2##) 555-01##"
    german = column_of("tel", [f"+49 30 {i:06d}" for i in range(1000, 1060)])
    assert (german.locale, german.template) == ("de_DE", "+49 ## ######")


def test_numbers_and_dates_that_look_a_little_like_it_are_none() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "amount": [f"{v:.2f}" for v in rng.normal(0, 1e6, 80)],
            "when": [f"{d:02d} Jan 2020" for d in rng.integers(1, 29, 80)],
            "stamp": [f"2020-01-{d:02d} 10:00:00" for d in rng.integers(1, 29, 80)],
            "big": [str(v) for v in rng.integers(10**15, 10**16, 80)],
            "code": [f"K{v:05d}" for v in range(80)],
            "host": [f"10.0.0.{v}" for v in range(80)],
        }
    )
    kinds = {name: column.kind for name, column in infer_schema(table).columns.items()}
    assert "personal" not in kinds.values(), kinds


def test_the_target_and_the_entity_keep_their_roles_and_names_follow_the_entity() -> None:
    fake = Faker("en_US")
    fake.seed_instance(1)
    names = [fake.name() for _ in range(100)]
    table = pd.DataFrame(
        {
            "patient_id": [f"P-{i // 2:03d}" for i in range(200)],
            "patient_name": [names[i // 2] for i in range(200)],
            "doctor_name": [names[i % 90] for i in range(200)],
            "visit": range(200),
        }
    )
    schema = infer_schema(table)
    assert schema.entity == "patient_id"
    assert schema.constant_in_entity == ("patient_name",)
    assert infer_schema(table, entity="patient_name").columns["patient_name"].kind == "identifier"


def test_missing_values_leave_no_share_in_the_schema() -> None:
    mail = column_of("mail", ["a@b.org", None, "c@d.org"] * 20)
    assert (mail.missing, mail.missing_share) == (True, 0.0)
    assert column_of("mail", ["a@b.org", "c@d.org"] * 20).unique is False


def test_real_tables_without_personal_data_have_none(shared_table: Any) -> None:
    for name in ("adult.csv.gz", "insurance.csv.gz"):
        table = pd.read_csv(shared_table(name), dtype=str, keep_default_na=False, na_values=[""]).head(2_000)
        assert not [c for c in infer_schema(table).columns.values() if isinstance(c, PersonalColumn)]


def test_negative_numbers_and_fractions_are_no_personal_data() -> None:
    for values in ([-1000 - i for i in range(N)], [1000.5 + i for i in range(N)]):
        assert column_of("account_number", values).kind != "personal"
    mostly = column_of("account_number", [10_000 + i if i % 4 else -10_000 - i for i in range(N)])
    assert (mostly.personal, mostly.template) == ("account_number", "#####")


def test_a_template_repeats_no_letter_of_a_real_value() -> None:
    passports = [f"{chr(0x410 + i % 30)}{chr(0x410 + i // 30)} {i:06d}" for i in range(N)]
    assert column_of("passport_no", passports).template == "AA ######"


def test_long_runs_of_spaces_take_no_time() -> None:
    begun = time.perf_counter()
    column_of("phone", [f"1{i}{' ' * 9_000}z" for i in range(50)])
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    ("dtype", "first", "expected"),
    [
        ("int32", 2 * 10**9, "int64"),
        ("int16", 30_000, "int64"),
        ("int64", 9 * 10**18, "int64"),
        ("float32", 20_000_000, "int64"),
        ("float64", 10**11, "float64"),
    ],
)
def test_a_dtype_is_proposed_that_holds_what_is_made_anew(dtype: str, first: int, expected: str) -> None:
    column = column_of("account_number", list(np.arange(first, first + 8 * N, 8, dtype=np.int64).astype(dtype)))
    assert (column.kind, column.dtype) == ("personal", expected)

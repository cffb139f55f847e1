"""Proposals for levels and codes, missing texts, and personal data."""

import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from faker import Faker

from synth.errors import SchemaError, TableError
from synth.generators import registry
from synth.infer import infer_schema
from synth.infer.personal import FORMS, WORDS, named_personal
from synth.schema import Schema
from synth.schema.kinds import CategoricalColumn, Column, IntegerColumn, PersonalColumn
from synth.schema.kinds.personal import Personal
from synth.table import conform, present, read_table, violations, write_table

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


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (RNG.integers(0, 2, N), "levels"),
        (drawn(range(1, 14), [1, 2, 20, 80, 300, 900, 700, 400, 200, 90, 50, 20, 5]), "levels"),
        (RNG.integers(0, 24, N), "levels"),
        (drawn([12, 24, 36, 48, 60], [9, 5, 3, 2, 4]), "levels"),
        (np.minimum(RNG.poisson(0.3, N), 4), "levels"),
        (np.append(RNG.poisson(0.6, N - 3), [19, 21, 23]), "integer"),  # a long range, of which most is empty
        (np.append(RNG.integers(0, 6, N - 2), [6, 7]), "integer"),  # a tail: two rows beyond all others
        (RNG.integers(0, 25, N), "integer"),
        (RNG.integers(0, 5, 40), "integer"),  # too few rows to say
        (np.full(N, 3), "integer"),
    ],
)
def test_few_whole_numbers_that_repeat_are_levels_in_order(values: np.ndarray, kind: str) -> None:
    assert kind_of(proposed(values)) == kind


@pytest.mark.parametrize("n", [10, 500])
def test_a_target_of_no_and_yes_is_a_class_in_few_rows_too(n: int) -> None:
    assert kind_of(proposed(np.arange(n) % 2, target="x")) == "levels"


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


def terms() -> np.ndarray:
    months = np.arange(3, 85)
    return drawn(
        months, np.where(months % 12 == 0, 60, np.where(months % 6 == 0, 20, np.where(months % 3 == 0, 3, 0.2)))
    )


def in_use(values: np.ndarray) -> np.ndarray:
    """Amounts of which most are nothing."""
    return np.where(RNG.random(N) < 0.7, 0, values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (codes(), "codes"),
        (98_000 + codes(), "codes"),
        (10 * codes(), "codes"),
        (round_amounts(), "integer"),
        (terms(), "integer"),
        (charming(), "integer"),
        (in_use(codes()), "integer"),
        (codes() - 350, "integer"),
        (RNG.poisson(50, N), "integer"),
        (RNG.integers(1, 366, N), "integer"),
        (1_900 + RNG.integers(0, 120, N), "integer"),
        (np.rint(RNG.normal(170, 10, N) / 2.54) * 254 // 100, "integer"),  # centimeters that were inches
        (np.rint(np.exp(RNG.normal(6, 1, N))).astype(int), "integer"),
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


def test_a_price_stays_a_number_however_rough_it_is() -> None:
    assert kind_of(proposed(codes(), "unit_price")) == "integer"


def test_few_values_with_fractions_are_all_spikes() -> None:
    few = proposed(drawn([1457.2, 2195.3, 2447.1, 2872.7, 3683.9], [5, 4, 3, 2, 1]))
    assert few.spikes == (1457.2, 2195.3, 2447.1, 2872.7, 3683.9)
    once = proposed(np.append(drawn([1.0, 1.5, 2.0], [5, 4, 3]), 7.5))
    assert 7.5 not in once.spikes


def test_what_is_computed_with_is_an_amount_however_few_values_it_has() -> None:
    price, qty = np.round(RNG.uniform(1, 90, N), 2), RNG.integers(1, 9, N)
    frame = pd.DataFrame({"price": price, "qty": qty, "paid": np.round(price * qty, 2), "grade": RNG.integers(1, 9, N)})
    schema = infer_schema(frame, constraints=True)
    assert {name: kind_of(schema.columns[name]) for name in ("qty", "grade")} == {"qty": "integer", "grade": "levels"}
    assert "'paid' is price * qty" in [str(constraint) for constraint in schema.constraints]


TABLES: dict[str, dict[str, str]] = {
    "adult": {"education-num": "levels", "age": "integer", "hours-per-week": "integer", "capital-gain": "integer"},
    "airbnb_nyc": {"price": "integer", "minimum_nights": "integer", "availability_365": "integer"},
    "credit_default": {
        "LIMIT_BAL": "integer", "AGE": "integer", "SEX": "codes", "EDUCATION": "levels", "MARRIAGE": "codes",
        "PAY_0": "levels", "PAY_2": "levels", "PAY_AMT1": "integer", "default payment": "levels",
    },
    "diabetes_hospital": {
        "time_in_hospital": "levels", "num_lab_procedures": "integer", "number_inpatient": "integer",
        "discharge_disposition_id": "codes",
    },
    "german_credit": {"months_loan_duration": "integer", "amount": "integer", "installment_rate": "levels"},
    "hmeq": {"LOAN": "integer", "BAD": "levels", "DELINQ": "integer", "CLNO": "integer"},
    "hotel_bookings": {
        "agent": "codes", "company": "codes", "is_canceled": "levels", "adults": "integer", "lead_time": "integer",
        "arrival_date_year": "levels", "days_in_waiting_list": "integer", "previous_cancellations": "integer",
    },
    "insurance": {"age": "integer", "children": "levels"},
    "king_county_housing": {
        "zipcode": "codes", "grade": "levels", "bedrooms": "integer", "yr_built": "integer", "yr_renovated": "integer",
        "sqft_living": "integer", "sqft_basement": "integer", "price": "integer", "date": "date",
    },
    "nist_ma2019": {
        "INDP": "codes", "INDP_CAT": "codes", "MSP": "levels", "AGEP": "integer", "PINCP": "integer",
        "POVPIP": "integer", "PINCP_DECILE": "levels", "WGTP": "integer",
    },
}  # fmt: skip
SCALES = {
    "adult": {"age": "linear", "hours-per-week": "linear", "capital-gain": "log"},
    "credit_default": {"LIMIT_BAL": "linear", "BILL_AMT1": "log", "PAY_AMT1": "log"},
    "hmeq": {"LOAN": "log", "DEBTINC": "linear"},
    "king_county_housing": {"price": "log", "sqft_living": "log", "sqft_living15": "log", "lat": "linear"},
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_the_development_tables_are_what_they_are(shared_table: Any, name: str) -> None:
    frame = read_table(shared_table(f"{name}.csv.gz"))
    schema = infer_schema(frame)
    assert {n: kind_of(schema.columns[n]) for n in TABLES[name]} == TABLES[name]
    of_scale = SCALES.get(name, {})
    assert {n: getattr(schema.columns[n], "scale", None) for n in of_scale} == of_scale
    assert violations(frame, schema) == []


def test_a_whole_number_beside_a_missing_one_keeps_its_dtype() -> None:
    frame = pd.DataFrame({"x": pd.Series(RNG.integers(1, 9, N), dtype="float64").where(RNG.random(N) < 0.9)})
    column = infer_schema(frame).columns["x"]
    assert (kind_of(column), column.dtype, column.missing) == ("levels", "float64", True)
    assert isinstance(proposed(RNG.integers(1, 90, N)), IntegerColumn)


N_T = 400
RNG_T = np.random.default_rng(11)


def texts(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(list(map(str, cells)), dtype=object) for name, cells in columns.items()})


def sometimes(word: str, values: Any, share: float = 0.2) -> np.ndarray:
    return np.where(RNG_T.random(N_T) < share, word, np.asarray(values).astype(str))


@pytest.mark.parametrize(
    "word", ["N", "NA", "n/a", "?", "-", "--", ".", "unknown", "null", "None", "NaN", "missing", "Not available"]
)
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
        (sometimes("?", pd.date_range("2020-01-01", periods=N_T).strftime("%Y-%m-%d")), "date"),
        (sometimes("?", pd.date_range("2020-01-01", periods=N_T).strftime("%b %Y")), "date"),
        (sometimes("?", pd.date_range("2020-01-01 08:30", periods=N_T).strftime("%Y-%m-%d %H:%M")), "datetime"),
    ],
)
def test_numbers_and_times_of_all_kinds_are_read_beside_it(cells: np.ndarray, kind: str) -> None:
    frame = texts(x=cells)
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].missing, schema.missing_values) == (kind, True, ("?",))
    assert violations(frame, schema) == []


def test_among_texts_alone_a_word_is_a_category() -> None:
    frame = texts(
        test=RNG_T.choice(["None", "Norm", ">200"], N_T), code=sometimes("-", RNG_T.choice(["A1", "B2"], N_T))
    )
    schema = infer_schema(frame)
    assert schema.missing_values == ("",)
    assert schema.columns["test"].categories == (">200", "None", "Norm")
    assert schema.columns["code"].categories == ("-", "A1", "B2")


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


def test_two_words_in_one_column_both_stand_for_a_missing_value() -> None:
    frame = texts(x=sometimes("?", sometimes("NA", RNG_T.integers(0, 90_000, N_T), 0.4), 0.1))
    schema = infer_schema(frame)
    assert schema.missing_values == ("NA", "?")
    assert conform(frame, schema)["x"].isna().sum() == frame["x"].isin(["NA", "?"]).sum()


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


def test_numbers_that_pandas_could_not_read_are_told_beside_typed_columns() -> None:
    frame = pd.DataFrame(
        {"x": pd.Series(sometimes("N", RNG_T.integers(0, 90_000, N_T)), dtype=object), "y": RNG_T.random(N_T)}
    )
    schema = infer_schema(frame)
    assert (schema.columns["x"].kind, schema.columns["x"].dtype, schema.missing_values) == ("integer", "str", ("N",))
    shown = present(conform(frame, schema), schema)
    pd.testing.assert_series_equal(shown["x"], frame["x"].where(frame["x"] != "N", None))
    # Text without such a word is taken to be meant as text.
    assert infer_schema(frame.assign(x=["7", "8"] * (N_T // 2))).columns["x"].categories == ("7", "8")


@pytest.mark.parametrize("year", [2018, 2019])
def test_no_column_of_a_census_with_such_words_is_dropped(shared_table: Any, year: int) -> None:
    frame = read_table(shared_table(f"nist_ma{year}.csv.gz"))
    schema = infer_schema(frame)
    assert schema.missing_values == ("N",)
    assert schema.kept == tuple(frame.columns)
    missing = {name for name, column in schema.columns.items() if column.missing}
    assert missing == {name for name in frame if (frame[name] == "N").any()}
    assert violations(frame, schema) == []


def test_a_schema_that_lists_such_a_word_is_refused() -> None:
    content = {
        "status": "inferred",
        "missing_values": ["N"],
        "columns": {"x": {"kind": "categorical", "categories": ["N"]}},
    }
    with pytest.raises(ValueError, match="stands for a missing value"):
        Schema.model_validate(content)


N_P = 120


def personal(schema: Schema, name: str) -> PersonalColumn:
    column = schema.columns[name]
    assert column.is_personal, (name, column)
    return column


def customers(locale: str, seed: int = 0) -> pd.DataFrame:
    fake = Faker(locale)
    fake.seed_instance(seed)
    made = {
        "client": fake.name, "First Name": fake.first_name, "surname": fake.last_name, "contact": fake.email,
        "Telephone": fake.phone_number, "account": fake.iban, "payment": fake.credit_card_number,
        "address": fake.address, "note": lambda: fake.text(120),
    }  # fmt: skip
    ages = np.random.default_rng(seed).integers(18, 90, N_P)
    return pd.DataFrame({name: [make() for _ in range(N_P)] for name, make in made.items()} | {"age": ages.astype(str)})


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


@pytest.mark.parametrize(
    ("name", "number", "personal"),
    [
        ("iban_code", "DE00370400440532013{:03d}", "iban"),
        ("iban", "DE00 3704 0044 0532 013{:03d}", "iban"),
        ("card_number", "4000-0000-0000-0{:03d}", "card_number"),
    ],
)
def test_numbers_of_people_that_repeat_are_no_categories_whatever_their_check_digits(
    name: str, number: str, personal: str
) -> None:
    numbers = [number.format(i % 120) for i in range(600)]
    frame = pd.DataFrame({name: numbers, "amount": range(600)})
    column = infer_schema(frame, propose_entity=False).columns[name]
    assert (column.kind, column.personal) == ("personal", personal)
    schema = infer_schema(frame)
    assert (schema.entity, schema.columns[name].kind) == (name, "identifier")
    assert infer_schema(frame, kinds={name: "personal"}).entity is None


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
        assert not [c for c in infer_schema(table).columns.values() if c.is_personal]


def test_negative_numbers_and_fractions_are_no_personal_data() -> None:
    for values in ([-1000 - i for i in range(N_P)], [1000.5 + i for i in range(N_P)]):
        assert column_of("account_number", values).kind != "personal"
    mostly = column_of("account_number", [10_000 + i if i % 4 else -10_000 - i for i in range(N_P)])
    assert (mostly.personal, mostly.template) == ("account_number", "#####")


def test_a_template_repeats_no_letter_of_a_real_value() -> None:
    passports = [f"{chr(0x410 + i % 30)}{chr(0x410 + i // 30)} {i:06d}" for i in range(N_P)]
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
    column = column_of("account_number", list(np.arange(first, first + 8 * N_P, 8, dtype=np.int64).astype(dtype)))
    assert (column.kind, column.dtype) == ("personal", expected)

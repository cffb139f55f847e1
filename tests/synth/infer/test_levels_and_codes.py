"""Which whole numbers are amounts, few levels in order, or codes; and what few values and tails make of a column."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.columns import CategoricalColumn, Column, IntegerColumn
from synth.infer import infer_schema
from synth.table import read_table, violations

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

"""What is proposed of real tables: kinds, scales and rules, each read off once."""

from typing import Any

import pytest

from synth.infer import infer_schema
from synth.schema.kinds import Column
from synth.table import read_table, violations

AREAS = "'PUMA' and 'DENSITY' take one of 5 listed combinations"
TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "adult": (
        {
            "education-num": "levels", "age": "integer linear", "hours-per-week": "integer linear",
            "capital-gain": "integer log", "fnlwgt": "weight log", "workclass": "codes",
        },
        ["'education' and 'education-num' take one of 16 listed combinations"],
    ),
    # Reviews a month are of another unit than reviews, and 9% of shuffled rows would not tell a law from luck.
    "airbnb_nyc": (
        {
            "price": "integer log", "availability_365": "integer linear", "neighbourhood": "codes",
            "last_review": "date", "latitude": "real linear",
        },
        ["'neighbourhood' and 'neighbourhood_group' take one of 221 listed combinations"],
    ),
    "german_credit": ({"months_loan_duration": "integer linear", "installment_rate": "levels"}, []),
    "hmeq": ({"LOAN": "integer log", "BAD": "levels", "DEBTINC": "real linear"}, []),
    # People in a waiting list are 3%, and `days` is one unit and `time` any: 1% of shuffled rows would break it.
    "hotel_bookings": (
        {"agent": "codes", "is_canceled": "levels", "arrival_date_year": "levels", "lead_time": "integer log"},
        [
            "'arrival_date_week_number' is floor(date(arrival_date_year, arrival_date_month, "
            "arrival_date_day_of_month) + 4 / 7) - floor(date(arrival_date_year, 1, 1) + 4 / 7) + 1",
            "'reservation_status' and 'is_canceled' take one of 3 listed combinations",
        ],
    ),
    "insurance": ({"age": "integer linear", "children": "levels", "bmi": "real linear", "smoker": "codes"}, []),
    "king_county_housing": (
        {
            "zipcode": "codes", "grade": "levels", "yr_built": "integer linear", "sqft_living": "integer log",
            "price": "integer log", "date": "date",
        },
        ["'sqft_living' is sqft_above + sqft_basement"],
    ),
    # A code is not at most a weight, and three children in a family of eight are rare, not unlawful.
    "nist_ma2019": (
        {"INDP": "codes", "MSP": "levels", "AGEP": "integer linear", "PINCP_DECILE": "levels"},
        [AREAS, "'INDP' and 'INDP_CAT' take one of 232 listed combinations"],
    ),
}  # fmt: skip

LARGE = ("airbnb_nyc", "hotel_bookings")


def described(column: Column) -> str:
    if column.is_categorical:
        return "levels" if getattr(column, "ordered", False) else "codes"
    return " ".join([column.kind, getattr(column, "scale", "")]).strip()


# The larger ones take seconds each.
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LARGE)) for n in TABLES])
def test_columns_and_rules_of_the_development_tables_are_what_they_are(shared_table: Any, name: str) -> None:
    frame = read_table(shared_table(f"{name}.csv.gz"))
    schema = infer_schema(frame)
    kinds, rules = TABLES[name]
    assert {column: described(schema.columns[column]) for column in kinds} == kinds
    assert [str(constraint) for constraint in schema.constraints] == rules
    assert violations(frame, schema) == []
    assert not any(column.is_text or column.is_personal for column in schema.columns.values())
    if name.startswith("nist"):  # the N of a census: no column is dropped for it
        assert schema.missing_values == ("N",) and schema.kept == tuple(frame.columns)
        assert {n for n, column in schema.columns.items() if column.missing} == {
            n for n in frame if (frame[n] == "N").any()
        }
    if name == "king_county_housing":
        assert schema.columns["date"].format == "%Y%m%dT000000"


def test_a_table_with_an_entity_is_proposed_as_such(shared_table: Any) -> None:
    schema = infer_schema(read_table(shared_table("diabetes_hospital.csv.gz")).head(5_000), constraints=False)
    kinds = {n: described(schema.columns[n]) for n in ("encounter_id", "patient_nbr", "discharge_disposition_id")}
    assert kinds == {"encounter_id": "identifier", "patient_nbr": "identifier", "discharge_disposition_id": "codes"}
    assert schema.entity == "patient_nbr"

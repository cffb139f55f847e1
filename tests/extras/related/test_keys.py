"""Keys of related tables: what is proposed of them, and what is refused before anything is fitted."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.related_tables import RECORDS_KEYS, SHOP_KEYS, records, shop
from synth.errors import BadInput, SchemaError, TableError
from tests.extras.related.shops import KEYS
from tests.extras.related.shops import shop as small
from understudy.extras.related.infer import infer_keys
from understudy.extras.related.keys import Keys, check_kept, check_keys, positions, repeats
from understudy.extras.sdv.metadata import related_from_sdv


@pytest.mark.parametrize(("tables", "keys"), [(shop(80), SHOP_KEYS), (records(200), RECORDS_KEYS)])
def test_keys_that_names_types_and_containment_tell_are_those_of_the_schema(tables: Any, keys: Any) -> None:
    proposed = infer_keys(tables)
    for name, own in Keys.of(keys).tables.items():
        assert set(proposed.tables[name].primary) == set(own.primary), name
        assert set(proposed.tables[name].foreign) == set(own.foreign), name
        assert proposed.tables[name].number == own.number
    assert "product_id -> product" in str(infer_keys(shop(80)))


def test_a_number_that_happens_not_to_repeat_is_no_key_and_a_lookup_table_is_only_proposed() -> None:
    visits = pd.DataFrame({"patient": ["a", "b", "a"], "seconds": [1.25, 2.5, 3.75], "unit": ["x", "x", "y"]})
    keys = infer_keys({"units": pd.DataFrame({"unit": ["x", "y"], "beds": [3, 4]}), "visits": visits})
    assert keys.tables["visits"].primary == ()
    assert [str(key) for key in keys.tables["visits"].foreign] == ["unit -> units"]
    assert 'keep=["units"]' in str(keys)


IDS = pd.DataFrame({"id": range(1, 101), "born": [1900 + i % 80 for i in range(100)]})
DRAWN = np.random.default_rng(0).integers(1, 101, 300)


def _beside(**columns: Any) -> dict[str, pd.DataFrame]:
    return {"customers": IDS, "orders": pd.DataFrame({"order_id": range(300), **columns})}


@pytest.mark.parametrize(
    "name",
    ["customer", "customerId", "CUSTOMERID", "CustomerKey", "customer_fk", "fk_customer", "idCustomer", "cust_no",
     "o_custkey", "bill_to_customer_id", "customer_ref"],
)  # fmt: skip
def test_a_column_that_is_called_after_a_table_in_any_way_is_its_key(name: str) -> None:
    drawn = pd.Series(DRAWN, dtype="Int64").where(DRAWN > 9).astype(object)  # some are missing; numbers among objects
    for tables in (_beside(**{name: drawn}), {"tbl_customer" if k == "customers" else f"tbl_{k}": t
                                              for k, t in _beside(**{name: DRAWN}).items()}):  # fmt: skip
        orders = [keys for table, keys in infer_keys(tables).tables.items() if "orders" in table]
        assert [key.columns for key in orders[0].foreign] == [(name,)]


def test_numbers_that_are_by_chance_among_keys_and_dates_are_no_keys() -> None:
    names = ("quantity", "age", "score", "valid", "paid", "grid", "year", "custom", "customers", "n_customers")
    days = pd.date_range("2024-01-01", periods=100).strftime("%Y-%m-%d")
    tables = _beside(**dict.fromkeys(names, DRAWN), day=days[DRAWN - 1])
    keys = infer_keys({**tables, "weather": pd.DataFrame({"day": days, "rain": range(100)})})
    assert not list(keys.edges())
    assert keys.tables["weather"].primary == ()
    assert "is none" not in str(keys)
    # Numbers far from what one counts or measures are another thing, where they are called a key.
    far = {**_beside(rep_id=DRAWN + 70_000), "staff": pd.DataFrame({"id": range(70_000, 70_200)})}
    assert [str(key) for key in infer_keys(far).tables["orders"].foreign] == ["rep_id -> staff"]


def test_a_key_is_what_others_refer_to_rather_than_the_number_of_the_row() -> None:
    subject = np.random.default_rng(1).permutation(90_000)[:100]
    patients = pd.DataFrame({"ROW_ID": range(100), "SUBJECT_ID": subject, "AGE": range(100)})
    stays = pd.DataFrame({"ROW_ID": range(300), "SUBJECT_ID": subject[DRAWN - 1]})
    details = pd.DataFrame({"SUBJECT_ID": subject, "INSURANCE": "x"})
    keys = infer_keys({"patients": patients, "stays": stays, "vitals": details})
    assert keys.tables["patients"].primary == ("SUBJECT_ID",)
    assert [str(key) for key in keys.tables["stays"].foreign] == ["SUBJECT_ID -> patients"]
    assert [str(key) for key in keys.tables["vitals"].foreign] == ["SUBJECT_ID -> patients"]


def test_keys_of_several_columns_are_those_that_would_repeat_by_chance() -> None:
    courses = pd.DataFrame({"dept": np.repeat(["MA", "PH"], 20), "course_no": [*range(101, 121)] * 2, "hours": 4})
    taken = courses.sample(300, replace=True, random_state=0)[["dept", "course_no"]].reset_index(drop=True)
    keys = infer_keys({"courses": courses, "taken": taken.assign(mark=DRAWN % 5)})
    assert keys.tables["courses"].primary == ("dept", "course_no")
    assert [str(key) for key in keys.tables["taken"].foreign] == ["dept + course_no -> courses"]
    heads = pd.DataFrame({"customer_id": range(1, 90, 11), "since": range(9)})  # few, so that none repeats
    keys = infer_keys({"customers": IDS, "heads": heads})
    assert (keys.tables["heads"].primary, len(keys.tables["heads"].foreign)) == ((), 1)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (_beside(parent_order_id=DRAWN), "parent_order_id -> orders is none: rows of one table do not name each other"),
        (_beside(rep_id=DRAWN), "rep_id -> customers is none: all values are there, but the name does not say so"),
        (_beside(customer_id=DRAWN.astype(str)), "customer_id -> customers is none: one has numbers, the other texts"),
        (_beside(customer_id=DRAWN * 4 // 3), "customer_id -> customers is none: only 69.7%"),
        ({"a": pd.DataFrame({"a_id": range(9), "b_id": range(9)}), "b": pd.DataFrame({"b_id": range(20), "a_id": 1})},
         "closes a circle of tables"),
        ({"meters": pd.DataFrame({"level": [3, 90, 17]})}, "of 'level' no value repeats; is it the key?"),
        ({"a": IDS.iloc[:0], "b": pd.DataFrame({"a_id": [[1], [2]]})}, "no column or few name each row"),
    ],
)  # fmt: skip
def test_what_is_nearly_a_key_is_told(tables: Any, words: str) -> None:
    keys = infer_keys(tables)
    assert words in str(keys)
    assert not [key for _, key in keys.edges() if key.columns[0] in words.split(" ")]


def test_the_keys_of_sdv_s_metadata_are_those_of_the_tables() -> None:
    tables = {
        "customer": {"columns": {"id": {"sdtype": "id", "regex_format": "C[0-9]{5}"}}, "primary_key": "id"},
        "order": {"columns": {"no": {"sdtype": "id"}, "of": {"sdtype": "id"}, "sum": {"sdtype": "numerical"}},
                  "primary_key": "no"},
    }  # fmt: skip
    link = {"parent_table_name": "customer", "parent_primary_key": "id", "child_table_name": "order",
            "child_foreign_key": "of"}  # fmt: skip
    keys, schemas, lost = related_from_sdv({"METADATA_SPEC_VERSION": "V1", "tables": tables, "relationships": [link]})
    assert lost == ()  # a key of the tables needs no place in a schema
    assert str(Keys.of(keys).tables["order"].foreign[0]) == "of -> customer"
    assert schemas["customer"].columns["id"].template == "C#####"  # type: ignore[attr-defined]


def _changed(table: str, **columns: Any) -> dict[str, pd.DataFrame]:
    tables = small(30)
    return {**tables, table: tables[table].assign(**columns)}


@pytest.mark.parametrize(
    ("tables", "keys", "message"),
    [
        (_changed("customer", customer_id="K00001"), KEYS, "customer: the key customer_id names more than one row"),
        (_changed("customer", customer_id=None), KEYS, "customer: the key customer_id is missing"),
        (_changed("line", product_id="Z"), KEYS, "line: product_id -> product names rows that are not there"),
        (small(30), {**KEYS, "order": "nowhere"}, "order: key column='nowhere' is not there"),
        (small(30), {"customer": "customer_id"}, "tables and keys are of the same names"),
        (small(30), {**KEYS, "customer": {"primary": "customer_id", "foreign": {"age": "customer"}}}, "table itself"),
        (small(30), {**KEYS, "customer": {"primary": "customer_id", "foreign": {"age": "ticket"}}}, "in a circle"),
        (small(30), {**KEYS, "ticket": {"foreign": {"order_id": "line"}}}, "has 1 columns, and the key of line has 2"),
        (_changed("order", customer_id=7), KEYS, r"\(100.00% of its rows\); make both numbers, or both texts"),
        ({**small(30), "customer": small(30)["customer"].set_index("customer_id")}, KEYS, "pass frame.reset_index"),
        (small(30), {**KEYS, "customer": None}, "tables.customer=None: input should be a dict; write a dict"),
        (small(30), {**KEYS, "customer": ["age", "age"]}, "its primary key has a column twice"),
        (small(30), {**KEYS, "order": {**KEYS["order"], "most": True}}, "most=True: input should be a valid integer"),
        (small(30), {**KEYS, "ticket": {"foreign": [{"columns": [], "table": "line"}]}}, r"columns=\[\]"),
        (small(30), {**KEYS, "ticket": {"foreign": [{"columns": "about", "table": t} for t in ("order", "customer")]}},
         "one of several keys of the same columns"),
    ],
)  # fmt: skip
def test_keys_that_do_not_hold_are_refused_in_a_sentence_without_a_cell(tables: Any, keys: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        check_keys(tables, Keys.of(keys))
    assert isinstance(refused.value, SchemaError | TableError)
    assert "K000" not in str(refused.value)


@pytest.mark.parametrize("tables", [[IDS], IDS, None, {}, {"a": None}, {"a": IDS.set_axis(["x", "x"], axis=1)}])
def test_tables_without_names_or_with_a_name_twice_are_refused(tables: Any) -> None:
    with pytest.raises(TableError):
        infer_keys(tables)


@pytest.mark.parametrize("keep", [5, None, [1], [["product"]], ["products"], ["order"]])
def test_what_is_kept_is_a_list_of_tables_that_need_no_others(keep: Any) -> None:
    with pytest.raises(SchemaError, match=r"list of names|no table|keep both, or neither"):
        check_kept(Keys.of(KEYS), keep)


def test_orphans_are_dropped_with_all_below_them_or_kept_without_a_parent() -> None:
    tables = small(60)
    gone = tables["customer"]["customer_id"].iloc[:20]
    fewer = {**tables, "customer": tables["customer"].iloc[20:]}
    dropped = check_keys(fewer, Keys.of(KEYS), "drop")
    of_them = tables["order"]["order_id"][tables["order"]["customer_id"].isin(gone)]
    assert len(dropped.tables["order"]) == len(tables["order"]) - len(of_them)
    assert not dropped.tables["line"]["order_id"].isin(of_them).any()
    kept = check_keys(fewer, Keys.of(KEYS), "keep")
    key = Keys.of(KEYS).tables["order"].foreign[0]
    assert len(kept.tables["order"]) == len(tables["order"])
    assert int((kept.parents["order"][key] < 0).sum()) == len(of_them)
    assert np.isin(kept.parents["order"][key][kept.parents["order"][key] >= 0], np.arange(40)).all()


def test_whole_numbers_beyond_the_exact_floats_are_keys_of_their_own() -> None:
    parent = pd.DataFrame({"id": 2**60 + np.arange(3)})
    child = pd.DataFrame({"id": pd.array([2**60 + 2, None, 2**60], dtype="Int64")})
    assert positions(child, ["id"], parent, ["id"]).tolist() == [2, -1, 0]
    assert positions(child.assign(id=[1.0, np.nan, 0.0]), ["id"], pd.DataFrame({"id": [0, 1]}), ["id"]).tolist() == [
        1,
        -1,
        0,
    ]
    assert not repeats(parent, ["id"]).any()

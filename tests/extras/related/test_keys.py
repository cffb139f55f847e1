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
from understudy.extras.related.keys import Keys, check_keys, positions, repeats
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
    ],
)  # fmt: skip
def test_keys_that_do_not_hold_are_refused_in_a_sentence_without_a_cell(tables: Any, keys: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        check_keys(tables, Keys.of(keys))
    assert isinstance(refused.value, SchemaError | TableError)
    assert "K000" not in str(refused.value)


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

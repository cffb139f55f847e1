"""SDV's metadata: formats, translation both ways, and SDV's own reading of it."""

import copy
import json
import re
import tomllib
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth import identifiers
from synth.errors import SchemaError, UnderstudyError
from synth.identifiers import generate
from synth.schema import build_schema
from synth.schema.kinds import IdentifierColumn
from understudy.extras.related.keys import Keys
from understudy.extras.sdv.metadata import from_sdv, regex_of, related_from_sdv, template_of_regex, to_sdv

CONTENT: dict[str, Any] = {
    "status": "declared",
    "columns": {
        "visit": {"kind": "identifier", "template": "V-####"},
        "age": {"kind": "integer", "bounds": [0, 120]},
        "price": {"kind": "real", "bounds": [0.5, 99.5], "decimals": 2, "missing": True},
        "open": {"kind": "real", "measure": True},
        "grade": {"kind": "categorical", "categories": ["low", "high"], "ordered": True},
        "code": {"kind": "categorical", "categories": [1, 2, 3]},
        "town": {"kind": "categorical", "measure": True, "missing": True},
        "ill": {"kind": "boolean"},
        "born": {"kind": "date", "bounds": ["1950-01-01", "2000-12-31"], "format": "%d.%m.%Y"},
        "seen": {
            "kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2020-12-31T23:59:00"], "format": "%Y-%m-%d %H:%M",
            "precision": "min",
        },
        "mail": {"kind": "personal", "personal": "email"},
        "ssn": {"kind": "personal", "personal": "national_id"},
        "patient": {"kind": "identifier", "template": "AA##"},
        "note": {"kind": "text", "drop": True, "missing": True},
    },
    "entity": "patient",
    "order": "seen",
}  # fmt: skip


@pytest.fixture(scope="module")
def sdv() -> Any:
    pytest.importorskip("sdv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdv.metadata import Metadata
    return Metadata


def loaded(sdv: Any, metadata: dict[str, Any]) -> Any:
    """The metadata as SDV reads it, which also finds it valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what version 1 held, and of a table without a name
        read = sdv.load_from_dict(json.loads(json.dumps(metadata)))
        read.validate()
    return read


def rows(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    schema = build_schema(CONTENT)
    return pd.DataFrame({
        "visit": identifiers.generate(schema.columns["visit"], n, rng),  # type: ignore[arg-type]
        "age": rng.integers(0, 121, n),
        "price": np.where(rng.random(n) < 0.1, np.nan, rng.integers(50, 9950, n) / 100),
        "open": rng.normal(size=n).round(9),
        "grade": rng.choice(["low", "high"], n),
        "code": rng.integers(1, 4, n),
        "town": rng.choice(["North", "South", None], n),
        "ill": rng.random(n) < 0.5,
        "born": [f"{i % 28 + 1:02d}.03.{1950 + i % 50}" for i in range(n)],
        "seen": [f"2020-05-{i % 28 + 1:02d} 10:{i % 60:02d}" for i in range(n)],
        "mail": [f"user{i}@example.org" for i in range(n)],
        "ssn": [f"123-45-{6000 + i}" for i in range(n)],
        "patient": [f"AB{i // 3:02d}" for i in range(n)],
        "note": ["a note"] * n,
    })  # fmt: skip


def test_sdv_finds_a_table_that_fits_the_schema_to_fit_the_metadata(sdv: Any) -> None:
    metadata = loaded(sdv, to_sdv(build_schema(CONTENT), table="visits")[0])
    table = metadata.tables["visits"]
    assert (table.primary_key, table.sequence_key, table.sequence_index) == ("visit", "patient", "seen")
    assert list(table.columns) == [*CONTENT["columns"]]
    metadata.validate_data({"visits": rows()})
    with pytest.raises(Exception, match="Out of range values found for numerical column 'age'"):
        metadata.validate_data({"visits": rows().assign(age=121)})


def test_a_schema_comes_back_whole_from_version_2() -> None:
    schema = build_schema(CONTENT)
    back, lost = from_sdv(json.loads(json.dumps(to_sdv(schema)[0])))
    assert back.columns == schema.columns
    assert (back.entity, back.order) == ("patient", "seen")
    assert lost == ()


VERSION_1: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "visit",
    "sequence_key": "patient",
    "sequence_index": "born",
    "columns": {
        "visit": {"sdtype": "id", "regex_format": r"V-\d{4}"},
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "price": {"sdtype": "numerical", "computer_representation": "Float"},
        "grade": {"sdtype": "categorical", "order": ["low", "high"]},
        "town": {"sdtype": "categorical"},
        "ill": {"sdtype": "boolean"},
        "born": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y"},
        "mail": {"sdtype": "email", "pii": True},
        "patient": {"sdtype": "id", "regex_format": "[A-Z]{2}[0-9]{2}"},
    },
}


def test_metadata_of_version_1_is_read_and_what_it_does_not_hold_is_to_be_measured(sdv: Any) -> None:
    loaded(sdv, VERSION_1)
    tables = {"tables": {"t": {key: VERSION_1[key] for key in VERSION_1 if key[0].islower()}}}
    for metadata in (VERSION_1, {"METADATA_SPEC_VERSION": "V1", "relationships": [], **tables}):
        schema, lost = from_sdv(metadata)
        assert lost == ()
        kinds = [column.kind for column in schema.columns.values()]
        assert kinds == [
            "identifier", "integer", "real", "categorical", "categorical", "boolean", "date", "personal", "identifier",
        ]  # fmt: skip
        assert schema.columns["grade"].categories == ("low", "high")
        assert schema.measured == ("age", "price", "town", "born")
        assert (schema.entity, schema.order) == ("patient", "born")


@pytest.mark.parametrize(
    ("regex", "template"),
    [
        (r"P\-\d{4,4}", "P-####"),
        ("[A-Z]{2}[a-z]", "AAa"),
        ("^[0-9a-f]{8}-[0-9A-F]{4}$", "xxxxxxxx-XXXX"),
        ("Axa#", r"\A\x\a\#"),
        *[(regex, None) for regex in ("[A-Za-z]{5}", r"\w{3}", "[0-9]{2,4}", "a|b", "a.b", "", "[0-9", r"\x41")],
        (r"é{2} \d", "éé #"),
    ],
)
def test_an_expression_of_one_length_is_a_template(regex: str, template: str | None) -> None:
    assert template_of_regex(regex) == template
    if template is not None:
        identifier = generate(IdentifierColumn(template=template), 1, np.random.default_rng(0))[0]
        assert re.fullmatch(regex, identifier)


@given(
    st.text(alphabet="#AaxX\\P0-. []{}$^é", min_size=1, max_size=30).filter(
        lambda text: (len(text) - len(text.rstrip("\\"))) % 2 == 0
    )
)
def test_every_template_comes_back_with_the_same_identifiers(template: str) -> None:
    identifier = generate(IdentifierColumn(template=template), 1, np.random.default_rng(0))[0]
    assert re.fullmatch(regex_of(template), identifier)
    back = template_of_regex(regex_of(template))
    assert back is not None
    assert regex_of(back) == regex_of(template)


NUMBER = {"sdtype": "numerical", "computer_representation": "Int64"}


def single(**columns: Any) -> dict[str, Any]:
    return {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}


def several(*names: str) -> dict[str, Any]:
    tables = {name: {"columns": {"n": NUMBER}} for name in names}
    return {"METADATA_SPEC_VERSION": "MULTI_TABLE_V1", "tables": tables, "relationships": []}


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"METADATA_SPEC_VERSION": "V3", "tables": {}}, "METADATA_SPEC_VERSION='V3'"),
        ({**single(n=NUMBER), "primay_key": "n"}, "did you mean 'primary_key'"),
        (single(n={"sdtype": "numeric"}), "did you mean 'numerical'"),
        (single(n={"sdtype": "numerical", "range_min": "low", "range_max": 1}), "'low'"),
        (several("a", "b"), "several: 'a', 'b'"),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_translated_is_refused(metadata: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        from_sdv(metadata)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"sdtype": "numerical", "computer_representation": "Float"}, {"kind": "real", "measure": True}),
        ({"sdtype": "numerical", "decimal_places": 2, "range_min": 0, "range_max": 9}, {"bounds": (0.0, 9.0)}),
        ({"sdtype": "categorical", "order": ["b", "a"]}, {"categories": ("b", "a"), "ordered": True}),
        ({"sdtype": "categorical", "range_values": [1.0, 2]}, {"categories": (1, 2)}),
        ({"sdtype": "categorical", "range_values": [True, False]}, {"kind": "boolean"}),
        ({"sdtype": "datetime", "datetime_format": "%Y-%m-%d"}, {"kind": "date", "format": "%Y-%m-%d"}),
        ({"sdtype": "datetime", "datetime_format": "%H:%M %d %b %Y"}, {"kind": "datetime", "precision": "min"}),
        ({"sdtype": "datetime", "datetime_format": "%Y-%m-%dT%H:%M:%S%z"}, {"timezone": "mixed", "precision": "s"}),
        ({"sdtype": "unknown"}, {"kind": "text", "drop": True}),
        ({"sdtype": "phone_number", "pii": True}, {"kind": "personal", "personal": "phone"}),
        ({"sdtype": "vin", "pii": True}, {"kind": "text", "drop": True}),
    ],
)  # fmt: skip
def test_each_sdtype_has_its_kind(column: dict[str, Any], expected: dict[str, Any]) -> None:
    schema_column = from_sdv(single(it=column))[0].columns["it"]
    assert {key: getattr(schema_column, key) for key in expected} == expected


def test_a_schema_goes_to_sdv_and_back(workspace: Any) -> None:
    folder = workspace.folder
    ran = workspace.run("schema", "convert", folder / "schema.toml", "--table", "people", "--out", folder / "m.json")
    assert ran.exit_code == 0, ran.stderr
    assert "Lost: the metadata has no place for target" in ran.stdout + ran.stderr
    metadata = json.loads((folder / "m.json").read_text(encoding="utf-8"))
    assert metadata["METADATA_SPEC_VERSION"] == "V2"
    assert metadata["tables"]["people"]["columns"]["age"]["range_max"] == 90
    back = workspace.run("schema", "convert", folder / "m.json", "--out", folder / "back.toml", "--json")
    assert back.exit_code == 0, back.stderr
    assert back.json["lost"] == []
    content = tomllib.loads((folder / "back.toml").read_text(encoding="utf-8"))
    assert content["status"] == "inferred"
    assert content["columns"] == tomllib.loads((folder / "schema.toml").read_text(encoding="utf-8"))["columns"]
    for name, words in (("table.csv", "the metadata is no JSON"), ("nothing.json", "the metadata cannot be read")):
        ran = workspace.run("schema", "convert", folder / name, "--out", folder / "out")
        assert (ran.exit_code, words in " ".join(ran.stderr.split())) == (2, True)


def test_what_has_no_place_on_the_other_side_is_told() -> None:
    columns = {
        "k": {"sdtype": "id", "regex_format": "[0-9]{3}"}, "odd": {"sdtype": "id", "regex_format": "[A-Za-z]+"},
        "wide": {"sdtype": "categorical", "high_cardinality": True}, "ip": {"sdtype": "ipv4_address", "pii": True},
        "zoned": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d%z", "range_max": "2020-01-01+0000"},
    }  # fmt: skip
    schema, lost = from_sdv({**single(**columns), "sequence_key": "k", "sequence_index": "wide"})
    assert schema.order is None
    for words in (
        "sequence_index='wide' has no place", "column='odd' of sdtype='id' is left out", "high_cardinality='True'",
        "column='ip' of sdtype='ipv4_address' is left out", "column='zoned': range_max=",
    ):  # fmt: skip
        assert any(words in text for text in lost), words
    content = {**CONTENT, "dataset": "visits", "max_rows_per_unit": 3, "target": "age", "sensitive": ["grade"]}
    content["columns"] = {**CONTENT["columns"], "out": {"kind": "integer", "bounds": [0, 1], "drop": True}}
    content["constraints"] = [{"kind": "inequality", "low": "price", "high": "open"}]
    content["columns"] |= {"ill": {"kind": "boolean", "tokens": ["no", "yes"]}}
    metadata, lost = to_sdv(build_schema(content))
    for words in ("dataset", "max_rows_per_unit", "target", "sensitive", "constraints", "tokens of 'ill'"):
        assert any(words in text for text in lost), words
    out = metadata["tables"]["table"]["columns"]["out"]
    assert out == {"sdtype": "unknown", "pii": True, "range_is_nullable": False}  # which SDV never learns


ID = {"sdtype": "id"}
RELATED: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "V2",
    "tables": {
        "customer": {
            "columns": {
                "id": {"sdtype": "id", "regex_format": "[A-Za-z]{5}"}, "mail": {"sdtype": "email", "pii": True},
                "age": {"sdtype": "numerical", "decimal_places": 0, "range_min": 0, "range_max": 120},
                "born": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
                "grade": {"sdtype": "ordinal", "range_values": ["low", "high"]},
                "street": {"sdtype": "street_address", "pii": True}, "town": {"sdtype": "city", "pii": True},
            },
            "primary_key": ["id"], "alternate_keys": ["mail"],
            "column_relationships": [{"type": "address", "column_names": ["street", "town"]}],
        },
        "order": {"columns": {"no": ID, "year": ID, "by": ID, "at": {"sdtype": "numerical"}},
                  "primary_key": ["no", "year"], "sequence_key": "by", "sequence_index": "at"},
        "line": {"columns": {"its_no": ID, "its_year": ID, "n": {"sdtype": "numerical"}}, "primary_key": None},
    },
    "relationships": [
        {"parent_table_name": "customer", "parent_primary_key": "id", "child_table_name": "order",
         "child_foreign_key": "by"},
        {"parent_table_name": "order", "parent_primary_key": ["year", "no"], "child_table_name": "line",
         "child_foreign_key": ["its_year", "its_no"]},
    ],
}  # fmt: skip


def test_sdv_finds_the_related_tables_valid_and_their_keys_are_read_by_name(sdv: Any) -> None:
    loaded(sdv, RELATED)
    keys, schemas, lost = related_from_sdv(RELATED)
    assert keys["line"]["foreign"] == [{"columns": ["its_no", "its_year"], "table": "order"}]
    assert Keys.of(keys).order == ("customer", "order", "line")
    assert "order" not in schemas
    for words in (
        "customer: key column='id' is made anew in the form", "the relationship 'address' of",
        "order: key column='no' is of no kind that metadata tells; its schema is inferred",
    ):  # fmt: skip
        assert any(words in text for text in lost), words
    assert any("order: by -> customer has no place" in text for text in from_sdv(RELATED, table="order")[1])


def _changed(metadata: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(metadata)
    *above, last = path
    node = changed
    for step in above:
        node = node[step]
    node[last] = value
    return changed


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, below in steps:
        yield from _paths(below, (*path, step))


def test_metadata_with_anything_anywhere_is_read_or_refused_in_a_sentence() -> None:
    n_refused, paths = 0, list(_paths(RELATED))
    for path in paths:
        for value in (None, [], {}, "", 1, "x", [[]]):
            changed = _changed(RELATED, path, value)
            for read in (related_from_sdv, lambda m: from_sdv(m, table="order")):
                try:
                    read(changed)
                except UnderstudyError as error:
                    n_refused += 1
                    assert "\n" not in str(error), path
    assert n_refused > 5 * len(paths)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            ("relationships", 0, "parent_primary_key"),
            "mail",
            r"parent_primary_key=\['mail'\], and the primary key of cus",
        ),
        (("relationships", 0, "child_foreign_key"), "buy", "column='buy' is unknown; did you mean 'by'"),
        (("relationships", 0, "child_table_name"), "orders", "table='orders', which .* did you mean 'order'"),
        (("relationships", 1, "child_foreign_key"), ["its_year"], "and as many of line"),
        (("tables", "order", "primary_key"), ["no", "yaer"], "unknown column='yaer'; did you mean 'year'"),
        (("tables", "customer", "primary_key"), None, r"the primary key of customer is \[\]"),
    ],
)
def test_keys_that_relate_nothing_are_refused(path: tuple[Any, ...], value: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        related_from_sdv(_changed(RELATED, path, value))

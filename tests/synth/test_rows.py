"""Rows: splits, hashes, chunks, limits read off them, and identifiers."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.declare import declare_schema, unconfirmed
from synth.errors import SchemaError
from synth.generators.models.postprocess import SeenOnDisk
from synth.identifiers import LARGEST, Part, capacity, generate, permuted
from synth.infer import infer_schema
from synth.personal import generate as personal
from synth.row_hash import content_keys, content_sums, tickets
from synth.schema import Schema, build_schema
from synth.schema.kinds import IdentifierColumn, PersonalColumn
from synth.schema_file import read_schema, write_schema
from synth.split import halves, row_keys, split_table, twins
from synth.table import conform


@pytest.fixture
def visits() -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "patient": pd.array(np.sort(rng.integers(1000, 1500, 2000)), dtype="Int64"),
        "stay": pd.array(rng.integers(1, 15, 2000), dtype="Int64"),
    })  # fmt: skip
    columns = {"patient": {"kind": "identifier", "bounds": [0, 9999]}, "stay": {"kind": "integer", "bounds": [1, 14]}}
    content = {"status": "declared", "entity": "patient", "max_rows_per_unit": 5, "target": "stay", "columns": columns}
    return frame, build_schema(content)


@pytest.mark.parametrize("private", [True, False])
def test_an_entity_is_on_one_side_only(visits: tuple[pd.DataFrame, Schema], private: bool) -> None:
    frame, schema = visits
    sides = split_table(frame, schema, holdout_share=0.3, seed=1, private=private)
    assert not set(sides.train["patient"]) & set(sides.holdout["patient"])
    assert len(sides.train) + len(sides.holdout) == len(frame)
    assert 0.2 < len(sides.holdout) / len(frame) < 0.4
    train, holdout = sides
    assert train is sides.train and holdout is sides.holdout
    assert repr(sides) == f"<Split: {len(train):,} training rows and {len(holdout):,} held out>"
    first, second = halves(holdout, schema, seed=1)
    assert not set(first["patient"]) & set(second["patient"])


def test_a_split_that_is_not_private_keeps_the_shares_of_the_target(schema: Schema, frame: pd.DataFrame) -> None:
    sides = split_table(frame, schema, holdout_share=0.25, seed=3)
    whole = (frame["income"] == ">50K").mean()
    assert abs((sides.holdout["income"] == ">50K").mean() - whole) < 2 / len(sides.holdout)
    assert abs(len(sides.holdout) - 100) <= 2


def test_twins_across_the_sides_are_counted_by_content_not_by_identifier(schema: Schema, frame: pd.DataFrame) -> None:
    doubled = pd.concat([frame, frame.assign(id=[f"P-{i + 5000:04d}" for i in range(len(frame))])], ignore_index=True)
    sides = split_table(doubled, schema, holdout_share=0.5, seed=0)
    learned = list(schema.learned)
    merged = sides.holdout[learned].astype(str).merge(sides.train[learned].astype(str).drop_duplicates(), how="inner")
    assert twins(sides.holdout, sides.train, learned).sum() == len(merged) > 100


def test_a_missing_value_is_not_the_text_none_and_a_negative_zero_is_zero() -> None:
    texts = pd.DataFrame({"x": pd.Series(["None", None, "nan", "<NA>"], dtype=object)})
    assert len(set(row_keys(texts, ["x"]))) == 4
    assert twins(pd.DataFrame({"x": [-0.0, np.nan]}), pd.DataFrame({"x": [0.0, np.nan]}), ["x"]).all()


def test_rows_without_an_entity_follow_nobody_where_the_split_is_keyed(visits: tuple[pd.DataFrame, Schema]) -> None:
    frame, schema = visits
    frame = frame.copy()
    frame.loc[[3, 500, 1999], "patient"] = pd.NA
    marked = frame.assign(stay=pd.array(range(len(frame)), dtype="Int64"))
    schema = build_schema({**schema.model_dump(), "columns": {
        "patient": {"kind": "identifier", "bounds": [0, 9999]}, "stay": {"kind": "integer", "bounds": [0, 3000]},
    }})  # fmt: skip

    def held_out(table: pd.DataFrame) -> set[int]:
        return set(split_table(table, schema, seed=1, private=True).holdout["stay"]) & {3, 500, 1999}

    for last in marked["patient"].iloc[1990:1998].unique():
        others = marked[marked["patient"].ne(last).fillna(True)].reset_index(drop=True)
        assert held_out(others) == held_out(marked) == set()


def schema_of(**columns: object) -> Schema:
    return build_schema({"status": "declared", "columns": columns})


ANY = {
    "x": {"kind": "real", "bounds": [-1e15, 1e15], "missing": True},
    "word": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    "name": {"kind": "identifier", "template": "P####", "missing": True},
    "mail": {"kind": "personal", "personal": "email", "missing": True},
}


def table_to_hash(**changed: object) -> pd.DataFrame:
    rows = {"x": [0.5, np.nan, -3.0], "word": ["a", "b", None], "name": ["P1", "P2", None], "mail": ["m", None, "n"]}
    return conform(pd.DataFrame({**rows, **changed}), schema_of(**ANY), outside="clamp")


def test_floats_are_told_apart_to_the_last_digit() -> None:
    near = [x for start in (0.5, -1.0, 3.3, 12345.678, -9.9e14) for x in (start, float(np.nextafter(start, 2e15)))]
    frame = pd.DataFrame({"x": [*near, 0.0, -0.0, np.nan, np.nan]})
    keys = content_keys(frame, schema_of(x=ANY["x"]))
    assert len(set(keys[: len(near)].tolist())) == len(near)
    assert keys[-4] == keys[-3] and keys[-2] == keys[-1] != keys[-3]


def test_numbers_of_a_few_decimals_are_equal_whatever_noise_they_carry() -> None:
    column = {"kind": "real", "bounds": [0.0, 10.0], "decimals": 1}
    keys = content_keys(pd.DataFrame({"x": [0.1 + 0.2, 0.3, 0.4]}), schema_of(x=column))
    assert keys[0] == keys[1] != keys[2]


def test_whole_numbers_and_times_beyond_float64_have_the_keys_of_their_floats() -> None:
    columns = {"n": {"kind": "integer", "bounds": [-(2**63), 2**63 - 1]}}
    frame = pd.DataFrame({"n": pd.array([2**62, 2**62 + 4096, 2**63 - 1, -(2**63)], dtype="Int64")})
    assert len(np.unique(content_keys(frame, schema_of(**columns)))) == 4


def test_tickets_depend_on_seed_key_and_count_alone() -> None:
    keys = np.array([1, 1, 2], dtype=np.uint64)
    result = tickets(keys, np.array([0, 1, 0]), 7)
    assert len(set(result.tolist())) == 3
    assert tickets(keys[::-1], np.array([0, 1, 0]), 7).tolist() == [result[2], result[1], result[0]]
    assert tickets(keys, np.array([0, 1, 0]), 8).tolist() != result.tolist()


@pytest.mark.parametrize(
    "changed",
    [
 {"x": [0.5, np.nan, -3.0000000000000004]}, {"x": [0.5, 0.0, -3.0]}, {"word": ["b", "a", None]},
        {"name": ["P1", "P2 ", None]}, {"mail": ["M", None, "n"]}, {"name": ["P1|1:m", "P2", None]},
    ],
)  # fmt: skip
def test_sums_tell_any_changed_cell(changed: dict[str, object]) -> None:
    assert content_sums(table_to_hash(**changed), schema_of(**ANY)) != content_sums(table_to_hash(), schema_of(**ANY))


def test_sums_are_the_same_in_any_order_and_tell_repeated_rows() -> None:
    schema, rows = schema_of(**ANY), table_to_hash()
    turned = rows.iloc[::-1, ::-1].reset_index(drop=True)
    assert content_sums(turned, schema) == content_sums(rows, schema)
    assert content_sums(pd.concat([rows, rows.head(1)], ignore_index=True), schema) != content_sums(rows, schema)
    assert content_sums(rows.head(0), schema).n_rows == 0


SIZES = (5, 1, 7, 7)


def parts(folder: Path, sizes: tuple[int, ...] = SIZES, seed: int = 3) -> list[Part]:
    return [Part(seed, size, sum(sizes), SeenOnDisk(folder, index)) for index, size in enumerate(sizes)]


@pytest.mark.parametrize("room", [1, 2, 10, 97, 65_536])
@pytest.mark.parametrize("key", [0, 2**64 - 1])
def test_every_number_has_one_place(room: int, key: int) -> None:
    assert sorted(permuted(np.arange(room, dtype=np.uint64), room, key).tolist()) == list(range(room))


def test_the_largest_room_has_no_number_twice_or_outside() -> None:
    result = permuted(np.arange(100_000, dtype=np.uint64), LARGEST, 1)
    assert len(np.unique(result)) == 100_000
    assert result.max() < LARGEST
    assert abs(result.mean() / LARGEST - 0.5) < 5 / np.sqrt(12 * 100_000)


def test_parts_share_out_all_numbers_and_no_two_get_the_same(tmp_path: Path) -> None:
    result = [part.numbers("id", part.n_rows, 20) for part in parts(tmp_path)]
    assert sorted(int(number) for numbers in result if numbers is not None for number in numbers) == list(range(20))


def test_a_part_gets_what_those_before_have_left_whatever_its_rows(tmp_path: Path) -> None:
    first, two, three, four = parts(tmp_path)
    needed = (9, 0, 7, 3)
    taken = [part.numbers("id", n, 19) for part, n in zip((first, two, three, four), needed, strict=True)]
    assert sorted(int(number) for numbers in taken if numbers is not None for number in numbers) == list(range(19))
    assert four.numbers("id", 4, 19) is None
    assert four.numbers("id", 4, 20) is not None


@pytest.mark.parametrize(
    "column",
    [
        IdentifierColumn(template="#A"),
        IdentifierColumn(bounds=(-130, 129)),
        IdentifierColumn(bounds=(-(2**63), 2**63 - 1)),
        PersonalColumn(personal="phone", template="555-###", unique=True),
        PersonalColumn(personal="card_number", unique=True),
    ],
    ids=repr,
)
def test_names_of_all_parts_are_distinct(column: IdentifierColumn | PersonalColumn, tmp_path: Path) -> None:
    rng, make = np.random.default_rng(0), generate if column.is_identifier else personal
    values = [
        value
        for part in parts(tmp_path, (100, 60, 100))
        for value in make(column, part.n_rows, rng, part, "id").tolist()  # type: ignore[operator]
    ]
    assert len(set(values)) == len(values) == 260


def table_of_visits() -> pd.DataFrame:
    """Two visits of every patient, with a column of every kind that `infer` proposes limits for."""
    rng, n = np.random.default_rng(5), 300
    return pd.DataFrame(
        {
            "patient id": [f"P-{row // 2:04d}" for row in range(n)],
            "number": rng.permutation(n) + 1000,
            "age": rng.integers(18, 90, n),
            "pay": np.round(rng.random(n) * 999, 2),
            "town": rng.choice(["North", "South", "East"], n),
            "born": np.repeat(pd.date_range("1950-01-01", periods=n // 2, freq="40D"), 2),
            "seen": pd.date_range("2020-01-01T08:00:00", periods=n, freq="7h"),
            "ill": rng.random(n) < 0.3,
        }
    )


@pytest.fixture
def proposal(tmp_path: Path) -> Path:
    """The file of a proposed schema."""
    write_schema(infer_schema(table_of_visits()), tmp_path / "inferred.toml", read_off=True)
    return tmp_path / "inferred.toml"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_every_limit_is_told_and_none_of_its_values(proposal: Path) -> None:
    schema, result = read_schema(proposal), dict[str | None, str]()
    for name, text in unconfirmed(schema, declare_schema(schema)):
        result[name] = result.get(name, "") + text
    assert list(result) == ["patient id", "number", "age", "pay", "town", "born", "seen", None]
    assert result["number"] == (
        "the bounds of these identifiers may have been read off the table: each may be one unit's own"
    )
    assert "the template of these identifiers" in result["patient id"]
    assert "the categories" in result["town"]
    assert "max_rows_per_unit" in result[None]
    limits = [limit for column in schema.columns.values() for limit in getattr(column, "bounds", None) or ()]
    for value in ("P-", "North", *map(str, limits)):
        assert not [text for text in result.values() if value in text], value


@pytest.mark.parametrize("noted", ["read_off = true", "[read_off.columns]\nage = { lower = '452' }"])
def test_a_proposal_does_not_become_declared_by_its_status_alone(proposal: Path, noted: str) -> None:
    text = proposal.read_text(encoding="utf-8").replace("read_off = true\n", "")
    text = f"{noted}\n{text}" if "=" in noted.partition("\n")[0] else f"{text}\n{noted}\n"
    proposal.write_text(text, encoding="utf-8")
    assert read_schema(proposal).status == "inferred"
    change(proposal, 'status = "inferred"', 'status = "declared"')
    with pytest.raises(SchemaError, match='a declared schema holds none; leave status = "inferred"'):
        read_schema(proposal)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("template", "pattern"),
    [
        ("P-####", r"P-\d{4}"),
        ("AAaa##", r"[A-Z]{2}[a-z]{2}\d{2}"),
        (r"\A-\##", r"A-#\d"),
        ("xxxxxxxx-xxxx", r"[0-9a-f]{8}-[0-9a-f]{4}"),
        ("0##", r"0\d\d"),
    ],
)
def test_identifiers_follow_their_template_and_are_distinct(template: str, pattern: str) -> None:
    names = generate(IdentifierColumn(template=template), 9, RNG)
    assert all(re.fullmatch(pattern, text) for text in names)
    assert len(set(names)) == 9


def test_a_format_can_be_used_up_but_not_exceeded() -> None:
    for column in (IdentifierColumn(template="A#"), IdentifierColumn(bounds=(1, 260))):
        assert len(set(generate(column, 260, RNG))) == capacity(column) == 260
        with pytest.raises(SchemaError, match="room for 260"):
            generate(column, 261, RNG)

"""The split: whole entities on one side, and by hashes of names where something private is asked for."""

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError, TableError
from synth.schema import Schema, build_schema
from synth.split import halves, row_keys, split_table, twins


@pytest.fixture
def visits() -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "patient": pd.array(np.sort(rng.integers(1000, 1500, 2000)), dtype="Int64"),
        "stay": pd.array(rng.integers(1, 15, 2000), dtype="Int64"),
    })  # fmt: skip
    columns = {
        "patient": {"kind": "identifier", "bounds": [0, 9999]},
        "stay": {"kind": "integer", "bounds": [1, 14]},
    }
    content = {"status": "declared", "entity": "patient", "max_rows_per_unit": 5, "target": "stay", "columns": columns}
    return frame, build_schema(content)


@pytest.mark.parametrize("private", [True, False])
def test_an_entity_is_on_one_side_only(visits: tuple[pd.DataFrame, Schema], private: bool) -> None:
    frame, schema = visits
    sides = split_table(frame, schema, holdout_share=0.3, seed=1, private=private)
    assert not set(sides.train["patient"]) & set(sides.holdout["patient"])
    assert len(sides.train) + len(sides.holdout) == len(frame)
    assert 0.2 < len(sides.holdout) / len(frame) < 0.4
    first, second = halves(sides.holdout, schema, seed=1)
    assert not set(first["patient"]) & set(second["patient"])


def test_removing_one_entity_moves_no_other_where_the_split_is_keyed(visits: tuple[pd.DataFrame, Schema]) -> None:
    frame, schema = visits
    gone = frame["patient"].iloc[77]
    before = split_table(frame, schema, private=True).holdout
    after = split_table(frame[frame["patient"] != gone].reset_index(drop=True), schema, private=True).holdout
    assert set(before["patient"]) - {gone} == set(after["patient"]) - {gone}


def test_emptying_one_slot_moves_no_other_row_where_the_split_is_keyed(schema: Schema, frame: pd.DataFrame) -> None:
    changed = frame.copy()
    changed.loc[17, "age"] = 90
    before, after = (split_table(f, schema, private=True).holdout["id"].tolist() for f in (frame, changed))
    assert before == after


def test_a_split_that_is_not_private_keeps_the_shares_of_the_target(schema: Schema, frame: pd.DataFrame) -> None:
    sides = split_table(frame, schema, holdout_share=0.25, seed=3)
    whole = (frame["income"] == ">50K").mean()
    assert abs((sides.holdout["income"] == ">50K").mean() - whole) < 2 / len(sides.holdout)
    assert abs(len(sides.holdout) - 100) <= 2


def test_the_same_seed_gives_the_same_split_and_another_seed_another(schema: Schema, frame: pd.DataFrame) -> None:
    for private in (True, False):
        one, same, other = (
            split_table(frame, schema, seed=s, private=private).holdout["id"].tolist() for s in (4, 4, 5)
        )
        assert one == same
        assert one != other


def test_twins_across_the_sides_are_counted_by_content_not_by_identifier(schema: Schema, frame: pd.DataFrame) -> None:
    doubled = pd.concat([frame, frame.assign(id=[f"P-{i + 5000:04d}" for i in range(len(frame))])], ignore_index=True)
    sides = split_table(doubled, schema, holdout_share=0.5, seed=0)
    train, learned = sides.train[list(schema.learned)], list(schema.learned)
    merged = sides.holdout[learned].astype(str).merge(train.astype(str).drop_duplicates(), how="inner")
    assert sides.duplicates_across == len(merged) > 100


def test_a_missing_value_is_not_the_text_none_and_a_negative_zero_is_zero() -> None:
    texts = pd.DataFrame({"x": pd.Series(["None", None, "nan", "<NA>"], dtype=object)})
    assert len(set(row_keys(texts, ["x"]))) == 4
    assert twins(pd.DataFrame({"x": [-0.0, np.nan]}), pd.DataFrame({"x": [0.0, np.nan]}), ["x"]).all()


def test_too_small_a_table_and_an_impossible_share_are_refused(schema: Schema, frame: pd.DataFrame) -> None:
    with pytest.raises(TableError, match="at least 40 rows"):
        split_table(frame.head(60), schema)
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(JobError, match="between 0 and 1"):
            split_table(frame, schema, holdout_share=share)


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

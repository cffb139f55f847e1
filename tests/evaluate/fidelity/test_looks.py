"""Rows to look at: which are shown, what is masked, and that copies stand out on the map."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import evaluate
from evaluate.fidelity import looks
from evaluate.result_io import evaluation_from
from evaluate.tables import Tables
from synth.schema import build_schema

SCHEMA: dict[str, Any] = {
    "status": "declared", "entity": "who", "order": "visit",
    "columns": {
        "who": {"kind": "identifier", "template": "Q####"},
        "mail": {"kind": "personal", "personal": "email"},
        "note": {"kind": "text"},
        "visit": {"kind": "integer", "bounds": [1, 40]},
        "weight": {"kind": "real", "bounds": [0, 200], "decimals": 3, "missing": True},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
    },
}  # fmt: skip
HIDDEN = ("who", "mail", "note")


def visits(seed: int, n: int = 120, most: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n) + 1000 * seed, rng.integers(2, most + 1, n))
    rows = pd.DataFrame({"who": [f"Q{i:04d}" for i in who], "weight": rng.normal(70, 12, len(who)).round(3)})
    rows["visit"] = rows.groupby("who").cumcount() + 1
    rows["mail"], rows["note"] = rows["who"] + "@real.example", "seen by " + rows["who"]
    rows["ward"] = rng.choice(["a", "b", "c"], len(who))
    return rows.sample(frac=1, random_state=seed)


def shown(train: pd.DataFrame, synthetic: pd.DataFrame, schema: dict[str, Any] = SCHEMA, **how: Any) -> Any:
    figures = looks.measure(Tables.prepare(train, visits(2), synthetic, build_schema(schema), **how)).figures
    return figures.get("looks")


def real_rows(result: Any) -> pd.DataFrame:
    return pd.DataFrame({each["column"]: each["real"] for each in result["rows"]["columns"]})


@pytest.mark.parametrize("most", [3, 30])
def test_histories_are_whole_and_in_order_and_what_names_somebody_is_masked(most: int) -> None:
    train = visits(1, most=most)
    result = shown(train, visits(3))
    rows = real_rows(result)
    assert 5 <= len(rows) <= looks.N_ROWS
    assert [each["column"] for each in result["rows"]["columns"] if each["masked"]] == list(HIDDEN)
    assert all(rows[name].str.startswith(looks.MASKED).all() for name in HIDDEN)
    assert not any(text in str(result["rows"]) for name in HIDDEN for text in train[name])
    lengths = {tuple(history["weight"].astype(float)) for _, history in train.sort_values("visit").groupby("who")}
    for _, history in rows.groupby("who"):
        assert list(history["visit"].astype(int)) == list(range(1, len(history) + 1))
        assert any(whole[: len(history)] == tuple(history["weight"].astype(float)) for whole in lengths)
        assert len(history) == looks.N_ROWS or tuple(history["weight"].astype(float)) in lengths


def test_what_names_somebody_is_masked_where_a_copy_repeats_it() -> None:
    columns = {each["column"]: each for each in shown(visits(1), visits(1))["rows"]["columns"]}
    assert all(set(columns[name]["synthetic"]) == {looks.MASKED} for name in HIDDEN)
    assert looks.MASKED not in columns["weight"]["synthetic"]


def test_no_real_row_is_shown_where_none_is_asked_for_and_all_can_be_taken_out() -> None:
    assert shown(visits(1), visits(3), show_rows=False) is None
    result = evaluate(
        visits(1), visits(3), schema=build_schema(SCHEMA), measures=["fidelity.looks", "fidelity.columns"]
    )
    assert "near" not in result.candidates[0].figures["looks"]["map"]  # without a holdout nothing is near
    assert evaluation_from(result.to_json()) == result
    assert set(result.without_rows().candidates[0].figures) == {"columns"}

"""Rows come in the same seeded order in memory and where they are stored, and depend on nothing but what they hold."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.sampling import entity_codes, learned_keys, seeded_order
from synth.row_hash import content_keys
from synth.row_hash import content_sums as content_sums_held
from synth.schema import Schema, build_schema
from synth.stored.row_hash import KEY, POSITION, UNIT, content_sums, draw_rows, with_keys
from synth.table import conform
from tests.synth.stored.conftest import COLUMNS, every_kind


def with_row_ids() -> pd.DataFrame:
    """Rows of every kind, some of them twice, each with a number of its own that is not learned."""
    frame = every_kind()
    frame = pd.concat([frame, frame.head(200), frame.head(100)], ignore_index=True)
    return frame.assign(who=[f"P{i:04d}" for i in range(len(frame))])


def drawn(rows: Any, schema: Schema, **options: Any) -> pd.DataFrame:
    found = draw_rows(rows, schema, **options)
    frame = found.place.fetch(found.rows.order_by(POSITION)).to_pandas()
    assert frame[POSITION].tolist() == list(range(found.n))
    assert frame[UNIT].max() + 1 == found.n_units
    return frame


def test_every_row_has_the_key_that_it_has_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    there = both.stored.place.fetch(with_keys(both.stored, kinds).select("who", KEY)).to_pandas().set_index("who")[KEY]
    here = content_keys(conform(both.held, kinds, outside="clamp"), kinds)
    assert there.loc[both.held["who"]].tolist() == [f"{key:016x}" for key in here]


@pytest.mark.parametrize("limit", [None, 700])
def test_rows_come_in_the_order_that_they_have_in_memory(put: Any, kinds: Schema, limit: int | None) -> None:
    both = put(with_row_ids())
    held = conform(both.held, kinds, outside="clamp")
    there = drawn(both.stored, kinds, seed=5, limit=limit)
    order = seeded_order(held, kinds, 5)[:limit]
    # Equal rows are told apart by nothing, so that any of them may stand for another.
    keys = pd.Series(learned_keys(held, kinds), index=both.held["who"])
    assert keys.loc[there["who"]].tolist() == keys.iloc[order].tolist()
    assert there["who"].is_unique and there[UNIT].tolist() == there[POSITION].tolist()
    assert drawn(both.stored, kinds, seed=6, limit=limit)["who"].tolist() != there["who"].tolist()


@pytest.mark.parametrize("limit", [None, 300])
def test_entities_are_numbered_as_in_memory(put: Any, limit: int | None) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"who": rng.choice([f"P{i:04d}" for i in range(200)], 900), "x": rng.integers(0, 9, 900)})
    schema = build_schema(
        {
            "status": "declared", "entity": "who",
            "columns": {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}},
        }
    )  # fmt: skip
    both = put(frame)
    there, order = drawn(both.stored, schema, seed=2, limit=limit), seeded_order(frame, schema, 2)[:limit]
    assert there["who"].tolist() == frame["who"].iloc[order].tolist()
    assert there["x"].tolist() == frame["x"].iloc[order].tolist()
    assert there[UNIT].tolist() == pd.factorize(entity_codes(frame, schema)[order])[0].tolist()


def test_sums_of_all_rows_are_those_of_memory(put: Any) -> None:
    more: dict[str, Any] = {
        "mail": {"kind": "personal", "personal": "email", "missing": True},
        "seen_as": {"kind": "categorical", "measure": True, "missing": True},
        "grade": {"kind": "categorical", "measure": True, "whole_numbers": True},
        "length": {"kind": "real", "measure": True, "missing": True},
    }
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": {**COLUMNS, **more}})
    frame = with_row_ids()
    frame = frame.assign(mail=frame["word"], seen_as=frame["word"], grade=frame["level"], length=frame["real"])
    both = put(frame)
    here = content_sums_held(conform(both.held, schema, outside="clamp"), schema)
    there = content_sums(both.stored, schema)
    assert there == here
    fewer = replace(both.stored, rows=both.stored.rows.filter(both.stored.rows["who"] != "P0001"))
    assert content_sums(fewer, schema) != here

"""The audit of the split: a split by position is found out, and the project's own passes, whatever the unit is."""

from typing import Any

import pytest

from evaluate.audit_result import AuditCheck
from evaluate.privacy.audit.split import SPLIT, audit_split
from synth import split
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.schema import Schema, build_schema

SCHEDULE = Schedule((GaussianEvent("counts", sigma=10.0),), 1e-6)


def schema_of(unit: str) -> Schema:
    columns: dict[str, Any] = {"a": {"kind": "boolean"}}
    content: dict[str, Any] = {"status": "declared", "n_units": 1_000, "columns": columns}
    if unit != "row":
        columns["who"] = {"kind": "identifier", "bounds": [0, 10**6]}
    if unit == "entity":
        content |= {"entity": "who", "max_rows_per_unit": 4}
    return build_schema(content)


def found(unit: str) -> AuditCheck:
    check = audit_split(schema_of(unit), SCHEDULE)
    assert check.what == SPLIT
    return check


def test_a_split_by_the_content_of_rows_has_no_fault() -> None:
    # A row's side has to follow from what it holds: with the hash of its place, this fails.
    assert (found("row").fault, found("row").bound) == (None, 0.0)


@pytest.mark.parametrize("unit", ["identifier", "entity"])
def test_a_split_by_names_has_no_fault(unit: str) -> None:
    assert (found(unit).fault, found(unit).bound) == (None, 0.0)


def test_a_split_by_position_is_found_for_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "row_names", lambda frame, schema: map(str, range(len(frame))))
    assert "moves rows of others" in (found("row").fault or "")
    assert found("row").bound > 2 * SCHEDULE.epsilon
    for unit in ("identifier", "entity"):
        assert found(unit).fault is None


def _by_order(frame: Any, schema: Schema, share: float, seed: int) -> Any:
    return split._drawn(frame, schema.model_copy(update={"target": None}), share, seed)


@pytest.mark.parametrize("unit", ["row", "identifier", "entity"])
def test_a_split_that_is_drawn_in_order_is_found(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_keyed", _by_order)
    assert found(unit).bound > SCHEDULE.epsilon

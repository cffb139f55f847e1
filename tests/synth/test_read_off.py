"""Whoever declares a schema is told what of it may have been read off a table."""

from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from synth.declare import declare_schema, unconfirmed
from synth.errors import SchemaError
from synth.infer import infer_schema
from synth.schema import build_schema
from synth.schema_file import read_schema, schema_json, write_schema


def table() -> pd.DataFrame:
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
    write_schema(infer_schema(table()), tmp_path / "inferred.toml", read_off=True)
    return tmp_path / "inferred.toml"


def told(path: Path, **changes: Any) -> dict[str | None, str]:
    """What is told of a file when it is declared; of the table, all in one."""
    schema = read_schema(path)
    found: dict[str | None, str] = {}
    for name, text in unconfirmed(schema, declare_schema(schema, **changes)):
        found[name] = f"{found[name]}; {text}" if name in found else text
    return found


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_every_limit_is_told_and_none_of_its_values(proposal: Path) -> None:
    found = told(proposal)
    assert list(found) == ["patient id", "number", "age", "pay", "town", "born", "seen", None]
    assert found["number"] == (
        "the bounds of these identifiers may have been read off the table: each may be one unit's own"
    )
    assert "the template of these identifiers" in found["patient id"]
    assert "the categories" in found["town"]
    assert "max_rows_per_unit" in found[None]
    schema = read_schema(proposal)
    limits = [limit for column in schema.columns.values() for limit in getattr(column, "bounds", None) or ()]
    for value in ("P-", "North", *map(str, limits)):
        assert not [text for text in found.values() if value in text], value


def test_what_is_measured_or_dropped_asserts_no_limit(proposal: Path) -> None:
    assert not {"pay", "town"} & set(told(proposal, measure=["pay", "town"]))
    change(proposal, '[columns.number]\nkind = "identifier"', '[columns.number]\nkind = "identifier"\ndrop = true')
    assert "number" not in told(proposal)


@pytest.mark.parametrize("steps", [[], [100]])
def test_steps_are_told_beside_frequent_values_that_are_measured_and_these_are_not(steps: list[int]) -> None:
    pay = {"kind": "integer", "bounds": [0, 10**6], "steps": steps, "spikes": [0, 500]}
    schema = build_schema({"status": "inferred", "columns": {"pay": pay}})
    for declared, n_told in ((declare_schema(schema), 1), (declare_schema(schema, measure_spikes=["pay"]), len(steps))):
        found = [text for name, text in unconfirmed(schema, declared) if name == "pay"]
        assert sum("steps and frequent values" in text for text in found) == n_told


def test_a_proposed_constraint_is_told_until_its_key_is_taken_out(proposal: Path) -> None:
    low = {"kind": "inequality", "low": "age", "high": "pay", "proposed": "all 300 rows keep it"}
    schema = read_schema(proposal)
    proposed = build_schema({**dict(schema), "constraints": [low]})
    last = unconfirmed(proposed, declare_schema(proposed))[-1]
    assert last == (
        None, "`infer` proposed from the table that 'age' is at most 'pay', and nobody has confirmed that"
    )  # fmt: skip
    confirmed = build_schema({**dict(schema), "constraints": [{**low, "proposed": None}]})
    assert "proposed" not in str(unconfirmed(confirmed, declare_schema(confirmed)))


def test_what_is_the_same_in_all_rows_of_an_entity_is_told_like_a_limit() -> None:
    columns = {"id": {"kind": "identifier", "template": "##"}, "ill": {"kind": "boolean"}}
    entity = {"entity": "id", "max_rows_per_unit": 3, "constant_in_entity": ["ill"]}
    schema = build_schema({"status": "inferred", "columns": columns, **entity})
    found = [text for name, text in unconfirmed(schema, declare_schema(schema)) if name is None]
    assert len(found) == 2
    assert "constant_in_entity" in found[1]


def test_nothing_is_told_of_a_declared_schema_and_its_file_does_not_say_that_it_was_read_off(
    proposal: Path, tmp_path: Path
) -> None:
    declared = declare_schema(read_schema(proposal))
    assert unconfirmed(declared, declare_schema(declared)) == []
    write_schema(declared, tmp_path / "declared.toml")
    assert "read_off" not in (tmp_path / "declared.toml").read_text(encoding="utf-8")
    assert read_schema(tmp_path / "declared.toml") == declared


@pytest.mark.parametrize("noted", ["read_off = true", "[read_off.columns]\nage = { lower = '452' }"])
def test_a_proposal_does_not_become_declared_by_its_status_alone(proposal: Path, noted: str) -> None:
    text = proposal.read_text(encoding="utf-8").replace("read_off = true\n", "")
    text = f"{noted}\n{text}" if "=" in noted.partition("\n")[0] else f"{text}\n{noted}\n"
    proposal.write_text(text, encoding="utf-8")
    assert read_schema(proposal).status == "inferred"
    change(proposal, 'status = "inferred"', 'status = "declared"')
    with pytest.raises(SchemaError, match='a declared schema holds none; leave status = "inferred"'):
        read_schema(proposal)


def test_the_json_schema_knows_the_key() -> None:
    content = {"status": "inferred", "read_off": True, "columns": {"age": {"kind": "integer", "bounds": [0, 9]}}}
    jsonschema.Draft202012Validator(schema_json()).validate(content)

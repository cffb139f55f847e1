"""Column kinds: each answers for itself, nobody asks for its class, and one file adds another."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import jsonschema
import numpy as np
import pandas as pd
import pytest

import evaluate
import synth
from synth.schema import Schema, build_schema, register
from synth.schema.kinds import KINDS, AnyColumn
from synth.schema_file import read_schema, schema_json, write_schema
from synth.table import conform
from synth.table.conforming import present

ROOT = Path(__file__).parents[2]
_ASKS = re.compile(r"isinstance\((?:[^()]|\([^()]*\))*?\b[A-Z][a-z]+Column\b|case [A-Z][a-z]+Column\(")


def test_no_module_asks_for_the_class_of_a_column() -> None:
    sources = [path for name in ("synth", "evaluate", "reports", "understudy") for path in (ROOT / name).rglob("*.py")]
    outside = (path for path in sources if not path.is_relative_to(ROOT / "synth" / "schema"))
    asking = {str(path.relative_to(ROOT)): len(_ASKS.findall(path.read_text())) for path in outside}
    assert {name: n for name, n in asking.items() if n} == {}


def example(kind: type[AnyColumn]) -> Any:
    """A column of any kind that is registered: bounds of its own choice, else what its fields ask for."""
    content: dict[str, Any] = {"measure": True} if kind.domain == "bounds" else {}
    if kind.domain == "categories":
        content["categories"] = ("a", "b", "c")
    if kind.is_identifier:
        content["template"] = "P-####"
    needed = (name for name, field in kind.model_fields.items() if field.is_required() and name not in content)
    content |= {name: get_args(kind.model_fields[name].annotation)[0] for name in needed if name != "bounds"}
    column: Any = kind(**content)
    if not column.is_line:
        return column
    return column.model_copy(update={"bounds": column.between(0.0, 1_000 * (column.unit or 1)), "measure": False})


@pytest.fixture
def height() -> Iterator[ModuleType]:
    """The kind of somebody else, from its one file, registered."""
    spec = importlib.util.spec_from_file_location("understudy_height", ROOT / "tests/plugin/understudy_height.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    register(module.HeightColumn)
    yield module
    del KINDS["height"]
    Schema.model_rebuild(force=True)


@pytest.fixture(params=[*KINDS, "height"])
def column(request: pytest.FixtureRequest) -> Any:
    if request.param == "height":
        request.getfixturevalue("height")
    return example(KINDS[request.param])


def test_each_kind_belongs_to_one_family(column: Any) -> None:
    families = [column.is_categorical, column.is_number, column.is_time, column.is_replaced, column.is_text]
    assert sum(families) == 1
    assert column.is_line == (column.is_number or column.is_time)
    assert column.is_learned == bool(column.tasks) == (column.is_line or column.is_categorical)
    assert bool(column.levels) == column.is_categorical


def test_each_kind_comes_back_from_a_schema_file_that_editors_accept(column: Any, tmp_path: Path) -> None:
    content = {"status": "inferred", "columns": {"x": column.model_dump(mode="json", exclude_none=True)}}
    jsonschema.validate(content, schema_json())
    schema = build_schema(content)
    write_schema(schema, tmp_path / "schema.toml")
    assert read_schema(tmp_path / "schema.toml") == schema
    assert "x" in str(schema) and column.asserted() and all(map(all, column.read_off()))


def test_values_of_each_kind_are_shown_and_read_again(column: Any, tmp_path: Path) -> None:
    if not column.is_learned:
        pytest.skip("nothing of it is learned")
    rng = np.random.default_rng(0)
    if column.is_line:
        counts = rng.integers(0, 900, 50)
        values = column.values(counts if column.unit else counts.astype(float), np.zeros(50, dtype=bool))
        assert column.positions(values).tolist() == pytest.approx((counts * (column.unit or 1.0)).tolist())
        assert [column.position(end) for end in column.bounds] == list(column.ends)
        assert column.value_at(column.ends[0]) == column.bounds[0]
    else:
        values = pd.Series([column.levels[code] for code in rng.integers(0, len(column.levels), 50)])
        values = values.astype("boolean" if column.is_boolean else object)
    schema = Schema(status="inferred", columns={"x": column})
    shown, canonical = present(pd.DataFrame({"x": values}), schema), conform(pd.DataFrame({"x": values}), schema)
    pd.testing.assert_frame_equal(conform(shown, schema), canonical)
    synth.write_table(shown, tmp_path / "x.csv", schema)
    pd.testing.assert_frame_equal(conform(synth.read_table(tmp_path / "x.csv"), schema), canonical)


def test_a_kind_in_one_file_is_inferred_fitted_drawn_and_evaluated(height: ModuleType, tmp_path: Path) -> None:
    """It takes two fits, and so a second more than others."""
    write = height.HeightColumn(bounds=(0, 600)).write
    rng = np.random.default_rng(0)
    inches = rng.integers(5, 600, 400)
    frame = pd.DataFrame({"tall": [write(m) for m in inches], "long": np.where(inches > 300, "yes", "no")})
    schema = synth.infer_schema(frame)
    assert schema.columns["tall"].kind == "height"
    assert synth.infer_schema(frame, kinds={"tall": "height"}) == schema
    write_schema(schema, tmp_path / "schema.toml")
    assert read_schema(tmp_path / "schema.toml") == schema
    declared = synth.declare_schema(schema, n_units=400)
    model = synth.fit(frame, declared, "mst", epsilon=10.0, n_iterations=50)
    assert model.sample(5, seed=0)["tall"].str.fullmatch(r"(\d+ ft)?( ?\d+ in)?").all()
    drawn = synth.fit(frame, schema, "trees").sample(400, seed=0)
    evaluation = evaluate.evaluate(
        frame[:300], drawn, holdout=frame[300:], schema=schema, measures=["fidelity.columns", "validity"]
    )
    values = {estimate.measure: estimate.value for estimate in evaluation.candidates[0].estimates}
    assert values["validity.rows"] == 1.0 and values["columns.tvd.excess"] < 0.2

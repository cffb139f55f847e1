"""Four vendors of one real table: three of our generators, and one who slips in training rows."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from synth.declare import declare_schema
from synth.generators.registry import generator
from synth.infer import infer_schema
from synth.schema_file import write_schema
from synth.split import split_table
from synth.table import conform, read_table, write_table
from tests.understudy.vendors.conftest import MEASURES, run

ROWS = 6_000


@pytest.mark.slow
def test_on_adult_the_cheat_is_disqualified_and_the_generators_are_ranked(
    shared_table: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shared_table("adult.csv.gz")
    schema = declare_schema(infer_schema(read_table(path), target="income"), n_units=48_842)
    sides = split_table(conform(read_table(path), schema), schema, holdout_share=0.4, seed=1)
    write_schema(schema, tmp_path / "schema.toml")
    write_table(sides.train, tmp_path / "train.csv", schema)
    write_table(sides.holdout, tmp_path / "holdout.csv", schema)
    content = {}
    for label, parameters in (("independent", {}), ("mst", {"epsilon": 3.0}), ("sdv.gaussian_copula", {})):
        content[label] = generator(label, **parameters).fit(sides.train, schema, seed=1).sample(ROWS, seed=2)
        write_table(content[label], tmp_path / f"{label.removeprefix('sdv.')}.csv", schema)
    n = ROWS // 20
    cheat = pd.concat([content["mst"][n:], sides.train[:n]], ignore_index=True)
    write_table(cheat, tmp_path / "cheat.parquet", schema)
    tables = ["independent.csv", "mst.csv", "gaussian_copula.csv", "cheat.parquet"]
    chosen = [part for measure in (*MEASURES, "fidelity.pairs") for part in ("--measure", measure)]
    result = run(tmp_path, tables, *chosen)
    assert result.exit_code == 0, result.stderr
    assert result.vendor("cheat")["standing"] == "disqualified"
    assert any(each["measure"] == "privacy.copies.unique.excess" for each in result.vendor("cheat")["evidence"])
    order = {each["name"]: each for each in result.ranking["order"]}
    assert set(order) == {"independent", "mst", "gaussian_copula"}
    assert "mst" in order["independent"]["behind"]
    assert order["mst"]["place"] == 1

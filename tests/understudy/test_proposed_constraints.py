"""Proposed constraints on the command line."""

import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def ruled(workspace: Any) -> Any:
    """A table with a formula and an order among its columns."""
    rng = np.random.default_rng(0)
    low = rng.integers(0, 90, 300)
    rows = pd.DataFrame({"low": low, "more": rng.integers(0, 70, 300)})
    workspace.write_table(rows.assign(high=rows["low"] + rows["more"], top=low + rng.integers(0, 40, 300)), "ruled.csv")
    return workspace


def test_infer_proposes_constraints_with_reasons_and_declare_asserts_them(ruled: Any) -> None:
    ran = ruled.run("schema", "infer", ruled.folder / "ruled.csv", "--out", ruled.folder / "i.toml", "--json")
    assert ran.exit_code == 0, ran.stderr
    assert [told["constraint"] for told in ran.json["constraints"]] == [
        "'high' is low + more",
        "'low' is at most 'top'",
    ]
    assert all(told["because"] for told in ran.json["constraints"])
    content = tomllib.loads((ruled.folder / "i.toml").read_text(encoding="utf-8"))
    assert [constraint["kind"] for constraint in content["constraints"]] == ["formula", "inequality"]
    declared = ruled.run("schema", "declare", ruled.folder / "i.toml", "--out", ruled.folder / "d.toml")
    assert declared.exit_code == 0, declared.stderr
    assert "'low' is at most 'top'" in " ".join(declared.stdout.split())
    assert "proposed" not in (ruled.folder / "d.toml").read_text(encoding="utf-8")


def test_infer_says_what_it_proposes_and_leaves_it_out_on_demand(ruled: Any) -> None:
    ran = ruled.run("schema", "infer", ruled.folder / "ruled.csv", "--out", ruled.folder / "i.toml")
    assert "gives the column in every row" in " ".join(ran.stdout.split())
    ran = ruled.run(
        "schema", "infer", ruled.folder / "ruled.csv", "--no-constraints", "--force", "--out", ruled.folder / "i.toml"
    )
    assert ran.exit_code == 0, ran.stderr
    assert "constraints" not in (ruled.folder / "i.toml").read_text(encoding="utf-8")

"""`understudy schema` and `generators`: what is proposed, declared and chosen, and files that are not written over."""

import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

from synth.generators.auto import Auto
from synth.schema import build_schema
from tests.understudy.conftest import Ran, Workspace


def infer(workspace: Workspace, table: str, *options: object) -> tuple[Ran, dict[str, Any]]:
    """What `schema infer` says of a table, and the schema, which the table fits."""
    out = workspace.folder / "inferred.toml"
    ran = workspace.run("schema", "infer", workspace.folder / table, "--force", "--out", out, *options)
    assert ran.exit_code == 0, ran.stderr
    checked = workspace.run("schema", "check", workspace.folder / table, "--schema", out)
    assert checked.exit_code == 0, checked.stderr
    return ran, tomllib.loads(out.read_text(encoding="utf-8"))


def declare(workspace: Workspace, *options: object) -> tuple[Ran, dict[str, Any]]:
    out = workspace.folder / "declared.toml"
    ran = workspace.run("schema", "declare", workspace.folder / "inferred.toml", "--force", "--out", out, *options)
    assert ran.exit_code == 0, ran.stderr
    return ran, tomllib.loads(out.read_text(encoding="utf-8"))


@pytest.fixture
def visits(workspace: Workspace) -> Workspace:
    """A table of patients with several rows each, a visit number, an age that grows and a sex that does not."""
    lines = [f"P-{i:04d},{v},{20 + i % 50 + v},{'fm'[i % 2]},{'NA' if i % 9 == 0 else 'xyz'[i % 3]},{i % 60 + 1900}\n"
             for i in range(90) for v in range(1, 2 + i % 4)]  # fmt: skip
    text = "patient_id,visit,age,sex,ward=a,cohort\n" + "".join(lines)
    (workspace.folder / "visits.csv").write_text(text, encoding="utf-8")
    return workspace


def test_personal_data_and_constraints_are_proposed_and_said(workspace: Workspace) -> None:
    rows = "".join(f"client{i}@mail.org,{i % 7}\n" for i in range(50))
    (workspace.folder / "clients.csv").write_text(f"contact,visits\n{rows}", encoding="utf-8")
    ran, schema = infer(workspace, "clients.csv")
    assert "Personal data, written anew: no real value is kept, nor what it goes with: 'contact'." in ran.stdout
    assert schema["columns"]["contact"] == {"kind": "personal", "personal": "email", "unique": True}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"low": rng.integers(0, 90, 300), "more": rng.integers(0, 70, 300)})
    frame = frame.assign(high=frame["low"] + frame["more"], top=frame["low"] + rng.integers(0, 40, 300))
    workspace.write_table(frame, "ruled.csv")
    ran, schema = infer(workspace, "ruled.csv", "--json")
    proposed = [each["constraint"] for each in ran.json["constraints"] if each["because"]]
    assert proposed == ["'high' is low + more", "'low' is at most 'top'"]
    assert [constraint["kind"] for constraint in schema["constraints"]] == ["formula", "inequality"]
    _, declared = declare(workspace)
    assert not any("proposed" in constraint for constraint in declared["constraints"])
    assert "constraints" not in infer(workspace, "ruled.csv", "--no-constraints")[1]


def test_units_and_order_that_nobody_named_are_said_with_the_options_that_change_them(visits: Workspace) -> None:
    ran, schema = infer(visits, "visits.csv")
    (unit,) = [line for line in ran.stdout.splitlines() if line.startswith("Unit of privacy")]
    assert "one value of column 'patient_id', with at most 4 rows of it" in unit
    assert "--entity" in unit and "--no-entity" in unit
    assert "--no-order" in ran.stdout
    keys = ("order", "nondecreasing_in_entity")
    assert [schema[key] for key in keys] == ["visit", ["age"]]
    assert {"sex", "cohort"} <= {*schema["constant_in_entity"]}
    assert "order" not in infer(visits, "visits.csv", "--no-order")[1]
    ran, schema = infer(visits, "visits.csv", "--no-entity", "--json")
    assert (ran.json["entity"], "entity" in schema, schema["columns"]["patient_id"]["drop"]) == (None, False, True)
    infer(visits, "visits.csv")
    assert "order may have been read off the table" in declare(visits)[0].stderr
    ran, schema = declare(visits, "--order", "age", "--nondecreasing", "visit")
    assert "order may have been" not in ran.stderr
    assert [schema[key] for key in keys] == ["age", ["visit"]]


REFUSALS: dict[str, tuple[tuple[object, ...], str]] = {
    "two units": (("--entity", "patient_id", "--no-entity"), "leave out one"),
    "an order that is no column": (("--order", "vsit"), "order='vsit' is not a column"),
    "an order that orders nothing": (("--order", "cohort"), "most rows have the same value of order='cohort'"),
    "an unknown kind": (("--kind", "sex=category"), "did you mean 'categorical'?"),
    "a text that no file holds": (("--missing-value", "a\0b"), "NUL"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_options_of_infer_that_cannot_be_met_write_nothing(visits: Workspace, case: str) -> None:
    options, clause = REFUSALS[case]
    before = visits.listing()
    out = ("--out", visits.folder / "out.toml")
    ran = visits.run("schema", "infer", visits.folder / "visits.csv", *out, "--quiet", *options)
    assert (ran.exit_code, ran.stderr.count("\n"), clause in ran.stderr) == (2, 1, True), ran.stderr
    assert visits.listing() == before


def test_what_is_measured_is_not_asserted_and_all_else_is_warned_of(workspace: Workspace) -> None:
    infer(workspace, "table.csv")
    named = ("--measure", "town", "--measure", "age", "--measure-spikes", "age", "--measure-spikes", "income")
    ran, schema = declare(workspace, *named, "--dataset", "survey 2024", "--n-units", 900, "--json")
    assert (schema["dataset"], schema["n_units"], schema["status"]) == ("survey 2024", 900, "declared")
    columns = schema["columns"]
    assert columns["age"] == {"kind": "integer", "measure": True, "measure_spikes": True}
    assert columns["town"] == {"kind": "categorical", "measure": True}
    assert "bounds" in columns["income"] and columns["income"]["measure_spikes"]
    assert "North" not in ran.stdout
    ran, schema = declare(workspace, "--measure", "town")
    (warning,) = [line for line in ran.stderr.splitlines() if "the bounds may have been read off the table" in line]
    assert warning.endswith("(columns 'age', 'income').")
    limits = [str(limit) for name in ("age", "income") for limit in schema["columns"][name]["bounds"]]
    assert not [limit for limit in limits if limit in ran.stderr]
    columns = declare(workspace, "--measure-all")[1]["columns"]
    assert {name for name, column in columns.items() if column.get("measure")} == {"age", "income", "town"}
    assert not any({"bounds", "categories", "bins", "scale"} & set(column) for column in columns.values())


@pytest.mark.parametrize("command", ["infer", "declare"])
def test_a_file_that_exists_is_replaced_by_force_only(workspace: Workspace, command: str) -> None:
    infer(workspace, "table.csv")
    source, out = workspace.folder / ("table.csv" if command == "infer" else "inferred.toml"), workspace.folder / "mine"
    out.write_text("corrected by hand", encoding="utf-8")
    refused = workspace.run("schema", command, source, "--out", out)
    assert refused.exit_code == 2 and "exists; name another, or replace it with --force" in refused.stderr
    assert out.read_text(encoding="utf-8") == "corrected by hand"
    assert workspace.run("schema", command, source, "--out", out, "--force").exit_code == 0


def test_a_proposal_whose_status_alone_was_changed_is_no_declared_schema(workspace: Workspace) -> None:
    infer(workspace, "table.csv")
    path = workspace.folder / "inferred.toml"
    path.write_text(path.read_text().replace('status = "inferred"', 'status = "declared"'), encoding="utf-8")
    ran = workspace.run("schema", "check", workspace.folder / "table.csv", "--schema", path)
    assert ran.exit_code == 2 and "pass the file to `understudy schema declare`" in ran.stderr


def content(n_columns: int, n_units: int) -> dict[str, Any]:
    levels = [f"v{i}" for i in range(8)]
    columns = {f"c{i}": {"kind": "categorical", "categories": levels} for i in range(n_columns)}
    return {"status": "declared", "n_units": n_units, "columns": columns}


@pytest.mark.parametrize(
    ("schema", "epsilon", "name", "why"),
    [
        (content(1, 5_000), 1.0, "independent", "no pairs to measure"),
        (content(5, 50_000), 1.0, "aim", "of 5 columns a junction tree"),
        (content(10, 50_000), 1.0, "latent_class", "all 45 pairs are measured at once"),
        (content(10, 50_000), None, "trees", "nothing is promised"),
    ],
)
def test_the_reason_is_that_of_the_choice(
    workspace: Workspace, schema: dict[str, Any], epsilon: float | None, name: str, why: str
) -> None:
    path = workspace.folder / "other.toml"
    path.write_text(tomli_w.dumps(schema))
    budget = () if epsilon is None else ("--epsilon", epsilon)
    ran = workspace.run("generators", "--for", path, *budget, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["chosen"] == name == Auto(epsilon=epsilon).chosen(build_schema(schema)).name
    assert why in ran.json["reason"]
    assert f"auto: {name}: {ran.json['reason']}" in ran.stderr
    outlooks = [each["generator"] for each in ran.json["outlooks"]]
    assert outlooks == ([] if epsilon is None else ["independent", "mst", "aim", "latent_class"])

"""`understudy schema`: domains that nobody declares, the dataset's name, and files that are not written over."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.text_tables import complaints


def infer(workspace: Any) -> Path:
    out: Path = workspace.folder / "inferred.toml"
    ran = workspace.run("schema", "infer", workspace.folder / "table.csv", "--target", "ill", "--out", out)
    assert ran.exit_code == 0, ran.stderr
    return out


def declared(workspace: Any, *options: object) -> dict[str, Any]:
    """The schema that declaring with these options gives; the table fits it."""
    out = workspace.folder / "declared.toml"
    ran = workspace.run("schema", "declare", infer(workspace), "--out", out, *options)
    assert ran.exit_code == 0, ran.stderr
    checked = workspace.run("schema", "check", workspace.folder / "table.csv", "--schema", out)
    assert checked.exit_code == 0, checked.stderr
    return tomllib.loads(out.read_text(encoding="utf-8"))


def test_personal_data_is_proposed_as_such_and_said_to_be(workspace: Any) -> None:
    table, out = workspace.folder / "clients.csv", workspace.folder / "clients.toml"
    rows = "".join(f"client{i}@mail.org,{i % 7}\n" for i in range(50))
    table.write_text(f"contact,visits\n{rows}", encoding="utf-8")
    ran = workspace.run("schema", "infer", table, "--out", out)
    assert "personal (email, en_US)" in ran.stdout
    assert "Personal data, written anew: no real value is kept, nor what it goes with: 'contact'." in ran.stdout
    assert tomllib.loads(out.read_text(encoding="utf-8"))["columns"]["contact"] == {
        "kind": "personal", "personal": "email", "unique": True,
    }  # fmt: skip
    assert workspace.run("schema", "check", table, "--schema", out).exit_code == 0


def test_a_column_of_sentences_is_told_to_be_what_a_language_model_could_write(workspace: Any) -> None:
    table = workspace.folder / "complaints.csv"
    complaints(300, 0).to_csv(table, index=False)
    ran = workspace.run("schema", "infer", table, "--out", workspace.folder / "complaints.toml")
    assert ran.exit_code == 0, ran.stderr
    assert "Free text, in whose place random words stand: 'complaint'. To have texts" in ran.stdout


def visits(workspace: Any) -> Path:
    """A table of patients with several rows each."""
    rows = "".join(f"P-{i // 3:04d},{i % 7},{'NA' if i % 9 == 0 else 'xyz'[i % 3]}\n" for i in range(300))
    table: Path = workspace.folder / "visits.csv"
    table.write_text(f"patient_id,score=a,ward\n{rows}", encoding="utf-8")
    return table


def test_an_entity_that_nobody_named_is_said_with_its_rows_and_the_options_that_change_it(workspace: Any) -> None:
    table, out = visits(workspace), workspace.folder / "visits.toml"
    ran = workspace.run("schema", "infer", table, "--out", out)
    said = [line for line in ran.stdout.splitlines() if line.startswith("Unit of privacy")]
    assert len(said) == 1
    assert "one value of column 'patient_id', with at most 3 rows of it" in said[0]
    assert "--entity" in said[0] and "--no-entity" in said[0]
    named = workspace.run("schema", "infer", table, "--out", out, "--force", "--entity", "patient_id")
    assert "Unit of privacy" not in named.stdout
    told = workspace.run("--json", "schema", "infer", table, "--out", out, "--force").json
    assert (told["entity"], told["max_rows_per_unit"], told["missing_values"]) == ("patient_id", 3, [""])


def test_rows_are_the_units_where_somebody_says_so(workspace: Any) -> None:
    table, out = visits(workspace), workspace.folder / "visits.toml"
    ran = workspace.run("--json", "schema", "infer", table, "--out", out, "--no-entity")
    assert ran.json["entity"] is None
    assert "Unit of privacy" not in ran.stderr
    content = tomllib.loads(out.read_text(encoding="utf-8"))
    assert "entity" not in content
    assert content["columns"]["patient_id"]["drop"] is True
    assert workspace.run("schema", "check", table, "--schema", out).exit_code == 0


def histories(workspace: Any) -> Path:
    """A table of patients with a visit number, an age that grows and a sex that does not."""
    lines = [f"P-{i:04d},{v},{20 + i % 50 + v},{'fm'[i % 2]}\n" for i in range(90) for v in range(1, 2 + i % 4)]
    table: Path = workspace.folder / "histories.csv"
    table.write_text("patient_id,visit,age,sex\n" + "".join(lines), encoding="utf-8")
    return table


def test_the_order_of_rows_is_said_with_what_goes_along_with_it_and_the_options_that_change_it(workspace: Any) -> None:
    table, out = histories(workspace), workspace.folder / "histories.toml"
    ran = workspace.run("schema", "infer", table, "--out", out)
    [order] = [line for line in ran.stdout.splitlines() if line.startswith("Order of the rows of one 'patient_id'")]
    assert "by column 'visit'" in order and "--order" in order and "--no-order" in order
    assert "Never falls in that order: 'age'" in ran.stdout
    assert "Has one value in all of these rows: 'sex'" in ran.stdout
    content = tomllib.loads(out.read_text(encoding="utf-8"))
    keys = ("order", "nondecreasing_in_entity", "constant_in_entity")
    assert [content[key] for key in keys] == ["visit", ["age"], ["sex"]]
    told = workspace.run("--json", "schema", "infer", table, "--out", out, "--force", "--order", "age").json
    assert [told[key] for key in keys] == ["age", ["visit"], ["sex"]]
    assert workspace.run("schema", "check", table, "--schema", out).exit_code == 0
    ran = workspace.run("schema", "infer", table, "--out", out, "--force", "--no-order")
    assert "Order of the rows" not in ran.stdout
    assert "order" not in tomllib.loads(out.read_text(encoding="utf-8"))
    unordered = workspace.run("schema", "infer", visits(workspace), "--out", out, "--force")
    assert "Order of the rows of one 'patient_id': no column is convincing" in unordered.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--order", "visit", "--no-order"), "leave out one"),
        (("--order", "visit", "--no-entity"), "leave out one"),
        (("--order", "vsit"), "order='vsit' is not a column"),
        (("--order", "sex"), "order='sex' has no values that follow each other"),
        (("--order", "cohort"), "most rows have the same value of order='cohort'"),
        (("--order", "left"), "order='left' may not be missing"),
    ],
)
def test_an_order_that_orders_nothing_is_one_sentence_and_leaves_nothing(
    workspace: Any, options: tuple[str, ...], words: str
) -> None:
    table, out = histories(workspace), workspace.folder / "histories.toml"
    head, *lines = table.read_text(encoding="utf-8").splitlines()
    more = [f"{line},{int(line[2:6]) % 60 + 1900},{'' if i % 7 == 0 else i}\n" for i, line in enumerate(lines)]
    table.write_text(f"{head},cohort,left\n" + "".join(more), encoding="utf-8")
    ran = workspace.run("schema", "infer", table, "--out", out, *options)
    assert ran.exit_code == 2
    assert words in ran.stderr
    assert not out.exists()


def test_the_order_is_declared_on_the_command_line(workspace: Any) -> None:
    table, out = histories(workspace), workspace.folder / "histories.toml"
    workspace.run("schema", "infer", table, "--out", out)
    declare = ("schema", "declare", out, "--force", "--out", workspace.folder / "declared.toml")
    ran = workspace.run(*declare)
    assert "order may have been read off the table" in ran.stderr
    ran = workspace.run(*declare, "--order", "age", "--nondecreasing", "visit")
    assert ran.exit_code == 0
    assert "order may have been" not in ran.stderr
    content = tomllib.loads((workspace.folder / "declared.toml").read_text(encoding="utf-8"))
    assert (content["order"], content["nondecreasing_in_entity"]) == ("age", ["visit"])
    assert workspace.run(*declare, "--nondecreasing", "sex").exit_code == 2


def test_texts_for_missing_values_are_said_and_written(workspace: Any) -> None:
    table, out = visits(workspace), workspace.folder / "visits.toml"
    options = ("--missing-value", "NA", "--missing-value", "?")
    ran = workspace.run("schema", "infer", table, "--out", out, *options)
    assert "Texts that stand for a missing value: 'NA', '?'" in ran.stdout
    told = workspace.run("--json", "schema", "infer", table, "--out", out, "--force", *options).json
    assert told["missing_values"] == ["NA", "?"]
    content = tomllib.loads(out.read_text(encoding="utf-8"))
    assert content["missing_values"] == ["NA", "?"]
    assert content["columns"]["ward"] == {"kind": "categorical", "missing": True, "categories": ["x", "y", "z"]}
    assert workspace.run("schema", "check", table, "--schema", out).exit_code == 0


def test_a_kind_that_is_named_is_the_kind(workspace: Any) -> None:
    table, out = visits(workspace), workspace.folder / "visits.toml"
    ran = workspace.run("--json", "schema", "infer", table, "--out", out, "--kind", "score=a=categorical")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["columns"]["score=a"] == "categorical"
    assert workspace.run("schema", "check", table, "--schema", out).exit_code == 0


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--entity", "patient_id", "--no-entity"], "leave out one"),
        (["--kind", "ward"], "COLUMN=KIND"),
        (["--kind", "=categorical"], "COLUMN=KIND"),
        (["--kind", "ward=category"], "did you mean 'categorical'?"),
        (["--kind", "wards=categorical"], "did you mean 'ward'?"),
        (["--kind", "ward=categorical", "--kind", "ward=text"], "column='ward' twice"),
        (["--missing-value", "a\0b"], "NUL"),
    ],
)
def test_options_of_infer_that_cannot_be_met_write_nothing(workspace: Any, options: list[str], saying: str) -> None:
    table = visits(workspace)
    before = workspace.listing()
    ran = workspace.run("schema", "infer", table, "--out", workspace.folder / "visits.toml", *options)
    assert ran.exit_code == 2
    assert saying in ran.stderr
    assert ran.stderr.count("\n") == 1 + ran.stderr.startswith("infer ...")
    assert workspace.listing() == before


def test_named_columns_are_marked_to_be_measured_and_the_others_are_not(workspace: Any) -> None:
    content = declared(workspace, "--measure", "town", "--measure", "age", "--dataset", "survey 2024", "--n-units", 900)
    assert (content["dataset"], content["n_units"], content["status"]) == ("survey 2024", 900, "declared")
    assert content["columns"]["age"] == {"kind": "integer", "measure": True}
    assert content["columns"]["town"] == {"kind": "categorical", "measure": True}
    assert "bounds" in content["columns"]["income"]


def test_nothing_that_was_read_off_the_table_is_left_where_all_is_measured(workspace: Any) -> None:
    columns = declared(workspace, "--measure-all")["columns"]
    assert {name for name, column in columns.items() if column.get("measure")} == {"age", "income", "town"}
    assert not any({"bounds", "categories", "bins", "scale"} & set(column) for column in columns.values())


def test_frequent_values_to_be_measured_are_marked_and_not_listed(workspace: Any) -> None:
    asked = ("--measure-spikes", "age", "--measure-spikes", "income", "--measure", "age")
    columns = declared(workspace, *asked)["columns"]
    assert columns["age"] == {"kind": "integer", "measure": True, "measure_spikes": True}
    assert columns["income"]["measure_spikes"]
    assert "spikes" not in columns["income"]
    assert "bounds" in columns["income"]


def test_what_is_measured_is_said_not_to_be_asserted(workspace: Any) -> None:
    inferred, out = infer(workspace), workspace.folder / "declared.toml"
    ran = workspace.run("--json", "schema", "declare", inferred, "--out", out, "--measure", "town", "--dataset", "d")
    said = {line["column"]: line["public"] for line in ran.json["assertions"]}
    assert said["town"].startswith("categories are not asserted: a private fit measures them under its budget")
    assert "whole number from" in said["age"]
    assert "North" not in ran.stdout


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--measure", "agee"], "did you mean 'age'?"),
        (["--measure", "ill"], "kind boolean"),
        (["--dataset", ""], "dataset"),
        (["--dataset", "x" * 101], "100 characters"),
    ],
)
def test_options_that_cannot_be_met_write_nothing(workspace: Any, options: list[str], saying: str) -> None:
    inferred = infer(workspace)
    before = workspace.listing()
    ran = workspace.run("schema", "declare", inferred, "--out", workspace.folder / "declared.toml", *options)
    assert ran.exit_code == 2
    assert saying in ran.stderr
    assert workspace.listing() == before


@pytest.mark.parametrize("command", ["infer", "declare"])
def test_a_file_that_exists_is_replaced_by_force_only(workspace: Any, command: str) -> None:
    given = workspace.folder / "table.csv" if command == "infer" else infer(workspace)
    out = workspace.folder / "mine.toml"
    out.write_text("corrected by hand", encoding="utf-8")
    refused = workspace.run("schema", command, given, "--out", out)
    assert refused.exit_code == 2
    assert "exists; name another, or replace it with --force" in refused.stderr
    assert out.read_text(encoding="utf-8") == "corrected by hand"
    assert workspace.run("schema", command, given, "--out", out, "--force").exit_code == 0
    assert out.read_text(encoding="utf-8").startswith("format = 1")


def test_a_declared_schema_may_be_declared_onto_itself_by_force(workspace: Any) -> None:
    path = infer(workspace)
    assert workspace.run("schema", "declare", path, "--out", path, "--force", "--measure-all").exit_code == 0
    once = path.read_text(encoding="utf-8")
    assert workspace.run("schema", "declare", path, "--out", path, "--force", "--measure-all").exit_code == 0
    assert path.read_text(encoding="utf-8") == once


def test_every_limit_of_a_proposal_is_warned_of_and_nothing_of_its_value_is_in_the_warning(workspace: Any) -> None:
    inferred, out = infer(workspace), workspace.folder / "declared.toml"
    ran = workspace.run("schema", "declare", inferred, "--out", out, "--measure", "town")
    (warned,) = [line for line in ran.stderr.splitlines() if "the bounds may have been read off the table" in line]
    assert warned.endswith("(columns 'age', 'income').")
    assert len([line for line in ran.stderr.splitlines() if line.startswith("Warning: ")]) == 2
    assert "whoever declares what was read off the table says that it is public all the same" in ran.stderr
    columns = tomllib.loads(out.read_text())["columns"]
    limits = [str(limit) for name in ("age", "income") for limit in columns[name]["bounds"]]
    assert not [limit for limit in limits if limit in ran.stderr]
    assert "read_off" not in out.read_text(encoding="utf-8")


def test_what_is_asserted_is_one_line_for_each_column_however_long_and_without_padding(workspace: Any) -> None:
    long = "x" * 300
    path = workspace.write_schema(status="inferred")
    path.write_text(path.read_text().replace("North", long), encoding="utf-8")
    ran = workspace.run("schema", "declare", path, "--out", workspace.folder / "declared.toml")
    assert ran.exit_code == 0, ran.stderr
    lines = ran.stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("  column 'town': "))
    assert long in line
    assert line.endswith("not read off this table")
    assert [line for line in lines if line != line.rstrip()] == []
    columns = tomllib.loads(path.read_text())["columns"]
    assert len([line for line in lines if line.startswith("  column ")]) == len(columns)


def test_a_proposal_whose_status_alone_was_changed_is_no_declared_schema(workspace: Any) -> None:
    inferred = infer(workspace)
    inferred.write_text(inferred.read_text().replace('"inferred"', '"declared"'), encoding="utf-8")
    ran = workspace.run("schema", "check", workspace.folder / "table.csv", "--schema", inferred)
    assert ran.exit_code == 2
    assert "pass the file to `understudy schema declare`" in ran.stderr

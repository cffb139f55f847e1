"""Vendors' tables are compared on the same terms, cheats are barred with the evidence shown, the others are ranked."""

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reports.exports import safe
from synth.errors import JobError, TableError
from synth.schema import Schema, build_schema
from synth.table.text_files import SizeLimits
from tests.understudy.conftest import Workspace, run_command
from tests.understudy.vendors.conftest import HOSTILE, N_TRAIN, SCHEMA, Compared, people, run
from understudy.vendors.submission import (
    Asked,
    DeliveredTable,
    compared_rows,
    formulas,
    look_at,
    other_spellings,
    sampled,
    without,
)

OWN = "privacy.copies.unique.excess"


def page(market: Compared) -> str:
    return (market.out / "report.html").read_text(encoding="utf-8")


def lines(market: Compared) -> dict[str, dict[str, str]]:
    with (market.out / "comparison.csv").open(encoding="utf-8", newline="") as file:
        return {row["vendor"]: row for row in csv.DictReader(file)}


def test_who_returns_training_rows_or_has_seen_the_holdout_is_disqualified_with_the_evidence(market: Compared) -> None:
    cheat, diluted, leaked = (market.vendor(name) for name in ("cheat", "diluted", "leaked"))
    assert {vendor["standing"] for vendor in (cheat, diluted, leaked)} == {"disqualified"}
    (evidence,) = [each for each in cheat["evidence"] if each["measure"] == OWN]
    estimate = evidence["estimate"]
    assert estimate["value"] == pytest.approx(0.05, abs=0.012)  # of a hundred rows five
    assert evidence["limit"] < estimate["low"] < estimate["high"]
    assert "is a training row, beyond what a fresh real sample" in page(market)
    # They cannot be hidden among ten times as many.
    assert any("in all 6,000 delivered rows" in each["estimate"]["note"] for each in diluted["evidence"])
    assert any("share of held-out people" in each["estimate"]["note"] for each in leaked["evidence"])
    verdicts = json.loads((market.out / "verdict.json").read_text(encoding="utf-8"))["candidates"]
    failed = {each["candidate"] for each in verdicts if each["verdict"] == "FAIL"}
    assert failed >= {"cheat", "diluted", "leaked", "incomplete"}
    assert run_command("gate", market.out / "evaluation.json", "--candidate", "cheat").exit_code == 1


def test_the_honest_vendors_are_ranked_in_groups_on_as_many_rows(market: Compared) -> None:
    order = {each["name"]: each for each in market.ranking["order"]}
    assert {*order} >= {"independent", "mst", "renamed"} and "cheat" not in order
    assert all(each["letters"] for each in order.values())
    assert market.ranking["terms"]["rows"] == N_TRAIN
    compared = {each["rows_compared"] for each in market.ranking["vendors"]} - {None}
    assert (compared, market.vendor("diluted")["rows_offered"]) == ({N_TRAIN}, 10 * N_TRAIN)
    if "constant" in order:  # of one row repeated
        assert all("constant" not in each["behind"] for each in order.values())
        assert "mst" in order["constant"]["behind"]
    assert market.vendor("renamed")["same_as"] == "mst"
    shared = [each for each in market.ranking["comparisons"] if {each["first"], each["second"]} == {"mst", "renamed"}]
    assert {each["better"] for each in shared} == {None}
    assert "delivered the same rows" in market.stderr


def test_two_numbers_never_go_by_one_name(market: Compared) -> None:
    words, diluted = "training rows that stand anywhere in the delivery", market.vendor("diluted")
    assert [each["name"] for each in diluted["evidence"]].count(words) == 1
    assert f"{words} 1 [" in diluted["reason"] and words in lines(market)["diluted"]["reason"]
    assert "privacy.copies.holdout 1 [" in lines(market)["leaked"]["reason"]
    for vendor in market.ranking["vendors"]:
        names = [each["name"] for each in vendor["evidence"] if each["beyond_policy"]]
        assert len(set(names)) == len(names), vendor["name"]


def test_what_a_vendor_delivers_claims_or_writes_is_told_and_harms_nobody(market: Compared) -> None:
    renamed, rows = market.vendor("renamed"), lines(market)
    assert renamed["extra_columns"] == [HOSTILE]
    assert renamed["formula_cells"] == 1  # the heading: a column of +1 is one of numbers
    assert rows["renamed"]["formula_cells"] == "1" and market.vendor("mst")["formula_cells"] == 0
    assert "renamed delivered 1 cell that a spreadsheet runs as a formula; open its file with none" in market.stderr
    cells = [cell for row in rows.values() for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "@", "\t")) or (cell[:1] == "-" and not number(cell)) for cell in cells)
    assert f"'{HOSTILE}" in cells
    assert market.vendor("cheat")["claim"]["epsilon"] == 0.1  # which counts for nothing
    assert all(candidate.statement is None for candidate in market.evaluation.candidates)
    assert "what mst claims of privacy is not verified" in market.stderr
    assert "Claim, <b>unverified</b>" in page(market)
    assert "<script>alert(1)" not in page(market) and "&lt;script&gt;alert(1)" in page(market)


def number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def test_who_lacks_a_column_is_ranked_behind_all_and_a_file_that_cannot_be_read_stops_no_other(
    market: Compared,
) -> None:
    incomplete, empty = market.vendor("incomplete"), market.vendor("empty")
    assert (incomplete["standing"], incomplete["missing_columns"]) == ("incomplete", ["weight"])
    (candidate,) = [each for each in market.evaluation.candidates if each.name == "incomplete"]
    assert getattr(candidate.find("validity.rows"), "value", None) == 0.0
    assert getattr(candidate.find("columns.tvd.excess"), "reason", "") == "failed"
    assert getattr(candidate.find("privacy.membership.auc"), "value", 0.0) > 0.0
    assert (empty["standing"], "is empty" in empty["reason"]) == ("not evaluated", True)
    assert market.exit_code == market.json["exit_code"] == 3


# One comparison each, as small as it can be.

QUICK = ("--measure", "privacy.copies")


def test_the_exit_code_is_1_where_all_are_disqualified_and_0_where_one_is_ranked(desk: Path) -> None:
    people(N_TRAIN, 1).to_csv(desk / "copy.csv", index=False)
    barred = run(desk, ["copy.csv"], *QUICK)
    assert (barred.exit_code, barred.ranking["order"]) == (1, [])
    (desk / "out").rename(desk / "first")
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    ranked = run(desk, ["honest.csv"], *QUICK, "--measure", "fidelity.looks", "--rows", 200, "--no-show-rows")
    assert ranked.exit_code == 0, ranked.stderr
    assert ranked.ranking["terms"]["rows"] == 200
    assert not ranked.evaluation.candidates[0].figures


def test_5_in_100_jittered_training_rows_are_not_waved_through(desk: Path) -> None:
    jittered = people(N_TRAIN, 5)
    near = people(N_TRAIN, 1)[:30].assign(weight=lambda frame: (frame["weight"] + 0.01).round(2))
    jittered.iloc[:30] = near.to_numpy()
    jittered.to_csv(desk / "jittered.csv", index=False)
    vendor = run(desk, ["jittered.csv"], *QUICK, "--measure", "privacy.membership").vendor("jittered")
    assert vendor["standing"] == "disqualified" or vendor["open"]


def test_half_a_percent_of_repeated_rows_in_the_holdout_saves_no_table_of_moved_digits(desk: Path) -> None:
    # Of fewer rows half a percent of repeats is no more than chance.
    train, holdout = people(4_000, 1), people(4_000, 2)
    pd.concat([holdout, holdout[:20]]).to_csv(desk / "holdout.csv", index=False)
    train.to_csv(desk / "train.csv", index=False)
    train.assign(weight=(train["weight"] + 0.01).round(2)).to_csv(desk / "moved.csv", index=False)
    result = run(desk, ["moved.csv"], "--measure", "privacy.copies", "--measure", "privacy.membership")
    assert 0.004 < result.evaluation.real.shift.repeats < 0.006
    assert (result.exit_code, result.vendor("moved")["standing"]) == (1, "disqualified"), result.stderr
    assert "privacy.membership.auc" in result.vendor("moved")["reason"]


REFUSALS: list[tuple[list[str], tuple[object, ...], str]] = [
    ([], ("--policy", "nosuch"), "does not ship"),
    ([], ("--rows", 10), "rows=10"),
    ([], ("--claims", "claims.toml"), "did you mean 'honest'"),
    (["mistyped.csv"], (), "there is no table at path="),
    (["empty.csv"], (), "empty.csv"),
]


@pytest.mark.parametrize(("tables", "options", "clause"), REFUSALS)
def test_what_cannot_be_compared_is_exit_code_2_and_nothing_is_written(
    desk: Path, tables: list[str], options: tuple[object, ...], clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    (desk / "claims.toml").write_text("[honst]\nepsilon = 1.0\n")
    (desk / "empty.csv").write_text("")
    compared = run(desk, ["empty.csv"] if tables == ["empty.csv"] else ["honest.csv", *tables], *options)
    assert (compared.exit_code, clause in compared.stderr) == (2, True), compared.stderr
    assert not (desk / "out").exists()


VISITS: dict[str, Any] = {
    "format": 1, "status": "declared", "n_units": 500, "entity": "person", "max_rows_per_unit": 3, "target": "ill",
    "constant_in_entity": ["age"], "sensitive": ["ill"], "quasi_identifiers": ["age", "day"],
    "parties": [["age"], ["day", "ill"]], "constraints": [{"kind": "inequality", "low": "day", "high": "left"}],
    "columns": {
        "person": {"kind": "identifier", "bounds": [0, 999]}, "age": {"kind": "integer", "bounds": [0, 99]},
        "day": {"kind": "integer", "bounds": [0, 1000]}, "left": {"kind": "integer", "bounds": [0, 2000]},
        "ill": {"kind": "boolean"},
    },
}  # fmt: skip


@pytest.fixture
def schema() -> Schema:
    return build_schema(SCHEMA)


def offered(name: str, n_rows: int, schema: Schema) -> DeliveredTable:
    return DeliveredTable(name, Path(name), "", "", n_rows, (), (), schema)


def test_all_get_the_rows_of_the_smallest_and_never_more_than_train_has(schema: Schema) -> None:
    few, some, many = (offered(str(n), n, schema) for n in (99, 700, 9_000))
    assert compared_rows([some, many], 1_000, None) == (700, {})
    assert compared_rows([many], 1_000, None) == (1_000, {})
    n_rows, left_out = compared_rows([few, some], 1_000, None)
    assert (n_rows, [*left_out]) == (700, ["99"])  # far too small


def test_a_sample_depends_on_what_rows_hold_and_not_on_their_order(schema: Schema) -> None:
    frame = people(500, 1)
    shuffled = frame.sample(frac=1.0, random_state=0)
    first, second = (sampled(each, schema, 100, 3) for each in (frame, shuffled))
    assert len(first) == 100
    key = ["age", "income", "weight"]
    assert first.sort_values(key).to_numpy().tolist() == second.sort_values(key).to_numpy().tolist()


def test_whole_entities_are_drawn() -> None:
    who, rng = np.repeat(np.arange(200), 3), np.random.default_rng(0)
    rows = {"person": who, "age": who % 90, "day": rng.integers(0, 1000, 600), "left": 1_000, "ill": who < 100}
    frame = pd.DataFrame(rows)
    drawn = sampled(frame, build_schema(VISITS), 150, 0)
    sizes = drawn["person"].value_counts()
    assert len(drawn) == 150
    assert (sizes == 3).sum() >= len(sizes) - 1


@pytest.mark.parametrize("gone", [("person",), ("age", "left"), ("person", "ill", "day")])
def test_a_schema_without_columns_is_consistent(gone: tuple[str, ...]) -> None:
    result = without(build_schema({**VISITS, "order": "day", "nondecreasing_in_entity": ["left"]}), gone)
    assert set(result.kept) == set(VISITS["columns"]) - set(gone)


def test_the_same_rows_are_known_in_any_order_and_format(schema: Schema, tmp_path: Path) -> None:
    frame = people(200, 1)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.sample(frac=1.0, random_state=1)[frame.columns[::-1]].to_parquet(tmp_path / "b.parquet", index=False)
    frame.assign(more=1).to_csv(tmp_path / "c.csv.gz", index=False)
    people(200, 2).to_csv(tmp_path / "d.csv", index=False)
    names = ("a.csv", "b.parquet", "c.csv.gz", "d.csv")
    contents = [look_at(name, tmp_path / name, schema, SizeLimits()).content for name in names]
    assert contents[0] == contents[1] == contents[2] != contents[3]


def test_a_file_that_was_exchanged_meanwhile_is_refused(schema: Schema, tmp_path: Path) -> None:
    people(100, 1).to_csv(tmp_path / "a.csv", index=False)
    result = look_at("a", tmp_path / "a.csv", schema, SizeLimits())
    people(100, 2).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(TableError, match="changed"):
        result.read(SizeLimits())


def test_cells_that_a_spreadsheet_would_run_are_counted_whatever_column_they_stand_in() -> None:
    names = ["North", "=South", "-"]
    town = {"kind": "categorical", "categories": names}
    schema = build_schema({**SCHEMA, "columns": {**SCHEMA["columns"], "town": town}})
    table = people(6, 1).assign(town="=South", note=["=HYPERLINK(1)", "@SUM(A1)", "-1.5", "+2", "plain", None])
    assert formulas(table, schema) == 2
    assert formulas(table.assign(town="=North"), schema) == 2 + 6
    assert formulas(table.rename(columns={"note": "=note"}), schema) == 2 + 1
    assert formulas(people(6, 1), schema) == 0


def test_a_heading_is_a_formula_as_it_was_delivered_and_digits_in_names_are_apart(tmp_path: Path) -> None:
    people(200, 1).rename(columns={"age": "-age"}).to_csv(tmp_path / "a.csv", index=False)
    result = look_at("a", tmp_path / "a.csv", build_schema(SCHEMA), SizeLimits())
    assert (result.renamed, result.n_formulas) == ({"-age": "age"}, 1)
    kept, left_out = ("dose 1.0", "lag_-1", "Name", "x_1", "bin 12"), ("name", "dose.2")
    columns = {name: {"kind": "boolean", "drop": name in left_out} for name in (*kept, *left_out)}
    schema = build_schema({"status": "declared", "columns": columns})
    assert other_spellings(["dose 10", "lag 1", "name", "X.1", "bin 1_2", "dose.2"], schema) == {"X.1": "x_1"}
    assert other_spellings(["Dose_1.0", "Lag -1"], schema) == {"Dose_1.0": "dose 1.0", "Lag -1": "lag_-1"}


@pytest.mark.statistical
def test_one_table_of_each_kind_of_harm_stops_no_honest_one(desk: Path) -> None:
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    with gzip.open(desk / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"age,income,weight,town,ill\n")
        for _ in range(16):
            file.write(b"0" * (1 << 20))
    os.mkfifo(desk / "pipe.csv")
    (desk / "folder.csv").mkdir()
    (desk / "absent.csv").symlink_to(desk / "nowhere.csv")
    (desk / "wide.csv").write_text(",".join(f"c{i}" for i in range(200_000)) + "\n")
    (desk / "sheet.csv").write_bytes(b"PK\x03\x04")
    people(N_TRAIN, 6).to_csv(desk / "twice.csv.gz", index=False, compression=None)
    absurd = pd.DataFrame({name: ["1e999", "nan", "=1+1", "9" * 400] * 100 for name in people(1, 0).columns})
    absurd.to_csv(desk / "absurd.csv", index=False)
    people(N_TRAIN, 7).drop(columns=["ill"]).to_csv(desk / "no_target.csv", index=False)
    pd.DataFrame({"x": range(N_TRAIN)}).to_csv(desk / "other.csv", index=False)
    names = [
        "bomb.csv.gz", "pipe.csv", "folder.csv", "wide.csv", "sheet.csv", "twice.csv.gz", "absurd.csv", "no_target.csv",
        "other.csv", "absent.csv", "honest.csv",
    ]  # fmt: skip
    result = run(desk, names, *QUICK, "--measure", "validity", "--rows", 100)
    assert result.exit_code == 3, result.stderr
    standings = {each["name"]: each["standing"] for each in result.ranking["vendors"]}
    assert standings.pop("honest") == "ranked"
    assert standings.pop("absurd") == "disqualified"
    assert standings.pop("no_target") == "incomplete"
    assert set(standings.values()) == {"not evaluated"}
    reasons = [each["reason"] for each in result.ranking["vendors"] if each["standing"] == "not evaluated"]
    assert all(reason and "\n" not in reason and "internal error" not in reason for reason in reasons)


def test_evaluate_gives_up_a_bomb_in_a_sentence(workspace: Workspace) -> None:
    rows = pd.read_csv(workspace.folder / "table.csv")
    with gzip.open(workspace.folder / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(f"{','.join(rows.columns)}\n".encode())
        for _ in range(80):
            file.write(b"0" * (1 << 20))
    train, holdout = (workspace.write_table(rows[part::2], f"{part}.csv") for part in (0, 1))
    result = workspace.run(
        "evaluate", "--train", train, "--holdout", holdout, "--synthetic", workspace.folder / "bomb.csv.gz",
        "--schema", workspace.folder / "schema.toml", "--out", workspace.folder / "evaluation.json",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "once it is uncompressed" in result.stderr


@pytest.mark.parametrize("cell", ["=1+1", "-1+1", "@A1", "\t=1", " =1", "\n=1", "|cmd", "\uff1d1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(cell: str) -> None:
    assert safe(cell) == f"'{cell}"
    assert [safe(value) for value in (-1.5, None, "acme", "a=b")] == [-1.5, None, "acme", "a=b"]


@pytest.mark.parametrize("labels", [("a",), ("a", "A"), ("a", "../b"), None])
def test_labels_that_do_not_name_one_table_each_are_refused(labels: tuple[str, ...] | None) -> None:
    path = Path()
    with pytest.raises(JobError, match="label"):
        Asked(path, path, path, (Path("x/a/t.csv"), Path("y/a/t.parquet")), labels=labels).named()

"""Vendors' tables are compared on the same terms, cheats are barred with the evidence shown, the others are ranked."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.understudy.vendors.conftest import HOSTILE, N_TRAIN, Compared, people, run

OWN = "privacy.copies.unique.excess"


@pytest.mark.statistical
def test_a_cheat_who_returns_5_in_100_training_rows_is_disqualified_with_the_evidence(market: Compared) -> None:
    cheat = market.vendor("cheat")
    assert cheat["standing"] == "disqualified"
    (evidence,) = [one for one in cheat["evidence"] if one["measure"] == OWN]
    found = evidence["estimate"]
    assert found["value"] == pytest.approx(0.05, abs=0.012)
    assert evidence["limit"] < found["low"] < found["high"]
    assert "cheat" not in [one["name"] for one in market.ranking["order"]]
    page = (market.out / "report.html").read_text(encoding="utf-8")
    assert "is a training row, beyond what a fresh real sample" in page


@pytest.mark.statistical
def test_the_honest_vendors_are_ranked_in_groups(market: Compared) -> None:
    order = market.ranking["order"]
    assert {one["name"] for one in order} >= {"independent", "mst", "aim", "renamed"}
    assert all(one["letters"] for one in order)
    assert order[0]["place"] == 1


def test_all_are_compared_on_as_many_rows(market: Compared) -> None:
    assert market.ranking["terms"]["rows"] == N_TRAIN
    compared = [one["rows_compared"] for one in market.ranking["vendors"] if one["rows_compared"] is not None]
    assert set(compared) == {N_TRAIN}
    assert market.vendor("diluted")["rows_offered"] == 10 * N_TRAIN


def test_training_rows_cannot_be_hidden_among_ten_times_as_many(market: Compared) -> None:
    diluted = market.vendor("diluted")
    assert diluted["standing"] == "disqualified"
    assert any("in all 6,000 delivered rows" in one["estimate"]["note"] for one in diluted["evidence"])


def test_two_numbers_never_go_by_one_name(market: Compared) -> None:
    words = "training rows that stand anywhere in the delivery"
    diluted = market.vendor("diluted")
    (evidence,) = [one for one in diluted["evidence"] if one["name"] == words]
    assert f"{words} 1 [" in diluted["reason"]
    assert evidence["reason"].startswith("Training rows that stand anywhere in the delivery: even the favorable end")
    with (market.out / "comparison.csv").open(encoding="utf-8", newline="") as file:
        reasons = {row["vendor"]: row["reason"] for row in csv.DictReader(file)}
    assert words in reasons["diluted"]
    assert "privacy.copies.holdout 1 [" in reasons["leaked"]
    asked = [one["reason"] for one in market.vendor("leaked")["evidence"] if one["name"] == "privacy.copies.holdout"]
    assert "swapped?" in asked[0]
    page = (market.out / "report.html").read_text(encoding="utf-8")
    assert "Training rows that stand anywhere in the delivery" in page
    assert "Share of training rows that stand in all 6,000 delivered rows, less that of held-out rows." in page
    assert "Measured is" not in page
    for vendor in market.ranking["vendors"]:
        names = [one["name"] for one in vendor["evidence"] if one["beyond_policy"]]
        assert len(set(names)) == len(names), vendor["name"]


def test_cells_that_a_spreadsheet_would_run_are_counted_and_not_shown(market: Compared) -> None:
    renamed = market.vendor("renamed")
    assert renamed["formula_cells"] == 1  # the heading: a column of +1 is one of numbers
    assert market.vendor("mst")["formula_cells"] == 0
    assert "renamed delivered 1 cell that a spreadsheet runs as a formula; open its file with none" in market.stderr
    with (market.out / "comparison.csv").open(encoding="utf-8", newline="") as file:
        assert {row["vendor"]: row["formula_cells"] for row in csv.DictReader(file)}["renamed"] == "1"


def test_a_vendor_who_has_seen_the_holdout_is_disqualified(market: Compared) -> None:
    leaked = market.vendor("leaked")
    assert leaked["standing"] == "disqualified"
    assert any("share of held-out people" in one["estimate"]["note"] for one in leaked["evidence"])


def test_a_table_of_one_row_repeated_is_not_ahead_of_anybody(market: Compared) -> None:
    order = {one["name"]: one for one in market.ranking["order"]}
    if "constant" in order:
        assert all("constant" not in one["behind"] for one in order.values())
        assert set(order["constant"]["behind"]) >= {"mst", "aim"}


def test_a_renamed_copy_of_another_table_is_said_and_not_told_apart(market: Compared) -> None:
    assert market.vendor("renamed")["same_as"] == "mst"
    shared = [one for one in market.ranking["comparisons"] if {one["first"], one["second"]} == {"mst", "renamed"}]
    assert {one["better"] for one in shared} == {None}
    assert "renamed" in market.stderr
    assert "delivered the same rows" in market.stderr


def test_who_lacks_a_column_is_measured_and_ranked_behind_all_who_do_not(market: Compared) -> None:
    incomplete = market.vendor("incomplete")
    assert incomplete["standing"] == "incomplete"
    assert incomplete["missing_columns"] == ["weight"]
    (candidate,) = [one for one in market.evaluation.candidates if one.name == "incomplete"]
    rows = candidate.find("validity.rows")
    assert rows is not None
    assert getattr(rows, "value", None) == 0.0
    assert getattr(candidate.find("columns.tvd.excess"), "reason", "") == "failed"
    assert getattr(candidate.find("privacy.membership.auc"), "value", 0.0) > 0.0


def test_a_file_that_cannot_be_read_stops_no_other_and_the_exit_code_says_so(market: Compared) -> None:
    empty = market.vendor("empty")
    assert empty["standing"] == "not evaluated"
    assert "is empty" in empty["reason"]
    assert market.exit_code == 3


def test_a_claim_is_shown_as_unverified_and_counts_for_nothing(market: Compared) -> None:
    assert market.vendor("cheat")["claim"]["epsilon"] == 0.1
    assert all(candidate.statement is None for candidate in market.evaluation.candidates)
    assert "what mst claims of privacy is not verified" in market.stderr
    page = (market.out / "report.html").read_text(encoding="utf-8")
    assert "Claim, <b>unverified</b>" in page


def test_no_cell_of_the_table_would_be_run_by_a_spreadsheet(market: Compared) -> None:
    with (market.out / "comparison.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["vendor"] for row in rows] == [one["name"] for one in market.ranking["vendors"]]
    cells = [cell for row in rows for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "@", "\t")) or (cell[:1] == "-" and not _number(cell)) for cell in cells)
    assert any(cell == f"'{HOSTILE}" for cell in cells)


def _number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def test_the_verdict_on_a_barred_table_is_do_not_release_wherever_it_is_judged(market: Compared) -> None:
    from typer.testing import CliRunner

    from understudy.cli import app

    said = json.loads((market.out / "verdict.json").read_text(encoding="utf-8"))["candidates"]
    verdicts = {one["candidate"]: one["verdict"] for one in said}
    assert {verdicts[name] for name in ("cheat", "diluted", "leaked", "incomplete")} == {"FAIL"}
    again = CliRunner().invoke(app, ["gate", str(market.out / "evaluation.json"), "--candidate", "cheat"])
    assert again.exit_code == 1


# One comparison each, as small as it can be.

QUICK = ("--measure", "privacy.copies")


def test_all_disqualified_is_exit_code_1(desk: Path) -> None:
    people(N_TRAIN, 1).to_csv(desk / "copy.csv", index=False)
    found = run(desk, ["copy.csv"], *QUICK)
    assert found.exit_code == 1
    assert found.ranking["order"] == []


def test_one_honest_table_is_ranked_and_exit_code_0(desk: Path) -> None:
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    found = run(desk, ["honest.csv"], *QUICK, "--measure", "fidelity.looks", "--rows", 200, "--no-show-rows")
    assert found.exit_code == 0, found.stderr
    assert found.ranking["terms"]["rows"] == 200
    assert not found.evaluation.candidates[0].figures


def test_5_in_100_jittered_training_rows_are_not_waved_through(desk: Path) -> None:
    jittered = people(N_TRAIN, 5)
    near = people(N_TRAIN, 1)[:30].assign(weight=lambda frame: (frame["weight"] + 0.01).round(2))
    jittered.iloc[:30] = near.to_numpy()
    jittered.to_csv(desk / "jittered.csv", index=False)
    found = run(desk, ["jittered.csv"], "--measure", "privacy.copies", "--measure", "privacy.membership")
    vendor = found.vendor("jittered")
    assert vendor["standing"] == "disqualified" or vendor["open"]


@pytest.mark.parametrize(
    ("tables", "options", "said"),
    [
        ([], ("--measure", "no.such"), "no.such"),
        ([], ("--policy", "nosuch"), "does not ship"),
        ([], ("--labels", "a,b"), "one label for each table"),
        ([], ("--rows", 10), "rows=10"),
        ([], ("--rows", 100_000), "rows=100000"),
        ([], ("--claims", "missing.toml"), "missing.toml"),
        ([], ("--target", "nobody"), "nobody"),
        (["mistyped.csv"], (), "there is no table at path="),
    ],
)
def test_what_cannot_be_used_is_exit_code_2_and_nothing_is_written(
    desk: Path, tables: list[str], options: tuple[object, ...], said: str
) -> None:
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    found = run(desk, ["honest.csv", *tables], *options)
    assert found.exit_code == 2
    assert said in found.stderr
    assert not (desk / "out").exists()


def test_without_one_table_that_can_be_read_nothing_is_written(desk: Path) -> None:
    (desk / "empty.csv").write_text("")
    (desk / "void.csv").write_text("")
    found = run(desk, ["empty.csv", "void.csv"])
    assert found.exit_code == 2
    assert "empty.csv" in found.stderr
    assert not (desk / "out").exists()


def test_a_table_of_few_rows_does_not_cut_all_others_down(desk: Path) -> None:
    people(N_TRAIN, 5).to_csv(desk / "honest.csv", index=False)
    people(30, 6).to_csv(desk / "few.csv", index=False)
    found = run(desk, ["honest.csv", "few.csv"], *QUICK)
    assert found.ranking["terms"]["rows"] == N_TRAIN
    assert found.vendor("few")["standing"] == "not evaluated"
    assert found.exit_code == 3

"""Vendors' tables are compared on the same terms, cheats are barred with the evidence shown, the others are ranked."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.understudy.conftest import run_command
from tests.understudy.vendors.conftest import HOSTILE, N_TRAIN, Compared, people, run

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
    assert {*order} >= {"independent", "mst", "aim", "renamed"} and "cheat" not in order
    assert all(each["letters"] for each in order.values())
    assert market.ranking["terms"]["rows"] == N_TRAIN
    compared = {each["rows_compared"] for each in market.ranking["vendors"]} - {None}
    assert (compared, market.vendor("diluted")["rows_offered"]) == ({N_TRAIN}, 10 * N_TRAIN)
    if "constant" in order:  # of one row repeated
        assert all("constant" not in each["behind"] for each in order.values())
        assert set(order["constant"]["behind"]) >= {"mst", "aim"}
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

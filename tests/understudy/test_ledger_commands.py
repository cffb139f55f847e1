"""`understudy ledger`, from the first total to a damaged row."""

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synth.dp.ledger import Request, open_ledger
from synth.dp.renyi_curve import RdpCurve

if TYPE_CHECKING:
    from conftest import Ran, Workspace

SECRET = "correct-horse-battery"


@pytest.fixture
def url(tmp_path: Path) -> Path:
    return tmp_path / "books.db"


def opened(workspace: "Workspace", url: Path, *more: object) -> "Ran":
    return workspace.run("ledger", "open", "patients", "--epsilon", 3, "--n-units", 900, "--ledger", url, *more)


def spend(url: Path, token: str = "t", rho: float = 0.01) -> str:
    """The hash of the entry."""
    curve = RdpCurve.of_rho(rho)
    return open_ledger(url).reserve([Request(token, "patients", "row", "mst, seed 0", curve, "s")])[0].entry


def test_a_total_is_opened_shown_and_spent(workspace: "Workspace", url: Path) -> None:
    ran = opened(workspace, url)
    assert ran.exit_code == 0 and "epsilon=3 at delta=1e-06" in ran.stdout
    spend(url)
    ran = workspace.run("ledger", "show", "--ledger", url)
    assert "A ledger counts more than the epsilon that a release claims alone (PLD)" in ran.stdout
    (kept_rows,) = workspace.run("ledger", "show", "--ledger", url, "--json").json["holdings"]
    assert (kept_rows["dataset"], kept_rows["unit"], kept_rows["n_releases"]) == ("patients", "row", 1)
    assert kept_rows["left_epsilon"] == kept_rows["epsilon"] - kept_rows["spent_epsilon"] > 0


REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "a ledger that is not there": (("show",), "there is no ledger"),
    "no number of units": (("open", "patients", "--epsilon", 1), "needs its n_units"),
    "no number": (("open", "patients", "--n-units", 900, "--epsilon", "nan"), "the total epsilon=nan must"),
    "a large delta": (("open", "a", "--n-units", 9, "--epsilon", 1, "--delta", 0.5), "the total delta=0.5 must"),
    "an inferred schema": (("open", "a", "--epsilon", 1, "--schema", "schema.toml"), "needs a declared schema"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused_makes_no_ledger(workspace: "Workspace", url: Path, which: str) -> None:
    words, text = REFUSED[which]
    schema = workspace.write_schema(status="inferred")
    ran = workspace.run("ledger", *(schema if word == "schema.toml" else word for word in words), "--ledger", url)
    assert ran.exit_code == 2 and text in ran.stderr and ran.stderr.count("\n") == 1
    assert not url.exists()


def test_a_ledger_must_be_named_and_a_total_cannot_be_changed(workspace: "Workspace", url: Path) -> None:
    ran = workspace.run("ledger", "show")
    assert ran.exit_code == 2 and "no ledger is named" in ran.stderr
    opened(workspace, url)
    ran = opened(workspace, url)
    assert ran.exit_code == 2 and "promised once" in ran.stderr


def test_a_declared_schema_says_what_to_open(workspace: "Workspace", url: Path) -> None:
    schema = workspace.write_schema(dataset="patients")
    ran = workspace.run("ledger", "open", "--schema", schema, "--epsilon", 1, "--ledger", url, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert [ran.json[key] for key in ("dataset", "unit", "n_units")] == ["patients", "row", 900]
    ran = workspace.run("ledger", "open", "others", "--schema", schema, "--epsilon", 1, "--ledger", url)
    assert ran.exit_code == 2 and "contradicts the schema, which says 'patients'" in ran.stderr


def test_a_damaged_row_is_found_and_ends_in_1(workspace: "Workspace", url: Path) -> None:
    opened(workspace, url)
    spend(url)
    assert workspace.run("ledger", "show", "--ledger", url).exit_code == 0
    with sqlite3.connect(url) as connection:
        connection.execute("DROP TRIGGER understudy_ledger_no_update")
        connection.execute("UPDATE understudy_ledger SET body = cast(x'0a1b5b334aff' AS TEXT) WHERE seq = 2")
    connection.close()
    ran = workspace.run("ledger", "show", "--ledger", url, "--json")
    assert ran.exit_code == ran.json["exit_code"] == 1 and not ran.json["whole"]
    assert {damage["seq"] for damage in ran.json["damages"]} == {2}
    ran = workspace.run("ledger", "show", "--ledger", url)
    assert ran.exit_code == 1 and "was altered" in ran.stdout
    # What a damaged row holds does not reach a terminal as it is.
    ran = workspace.run("ledger", "show", "--entries", "--ledger", url, "--json")
    assert "\x1b" not in ran.stdout and ran.json["holdings"] == []
    assert "(cannot" in workspace.run("ledger", "show", "--entries", "--ledger", url).stdout


def test_an_end_that_is_gone_is_found_by_a_hash_that_was_kept(workspace: "Workspace", url: Path) -> None:
    opened(workspace, url)
    kept = spend(url)
    ran = workspace.run("ledger", "show", "--ledger", url, "--holds", kept)
    assert ran.exit_code == 0 and "holds that entry" in ran.stdout
    ran = workspace.run("ledger", "show", "--ledger", url, "--holds", kept[::-1])
    assert ran.exit_code == 1 and "no entry has the hash" in ran.stdout
    assert workspace.run("ledger", "show", "--ledger", url, "--holds", "abc").exit_code == 2


def test_no_password_is_ever_shown(workspace: "Workspace") -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    url = f"postgresql://ann:{SECRET}@127.0.0.1:9/books?password={SECRET}"
    for words in (("show",), ("open", "a", "--epsilon", 1, "--n-units", 9)):
        ran = workspace.run("ledger", *words, "--ledger", url, "--json", "--debug")
        assert ran.exit_code == 2 and SECRET not in ran.stdout + ran.stderr
        assert "'postgresql://127.0.0.1:9/books' cannot be used" in ran.stderr

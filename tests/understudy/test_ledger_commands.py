"""`understudy ledger`, from the first total to a damaged row."""

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest import MonkeyPatch

from synth.dp.ledger import Request, open_ledger
from synth.dp.renyi_curve import RdpCurve

if TYPE_CHECKING:
    from conftest import Ran, Workspace

SECRET = "correct-horse-battery"


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_LEDGER", raising=False)


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
    assert ran.exit_code == 0 and "patients" in ran.stdout and "spent" in ran.stdout
    assert "A ledger counts more than the epsilon that a release claims alone (PLD)" in ran.stdout
    (held,) = workspace.run("ledger", "show", "--ledger", url, "--json").json["holdings"]
    assert (held["dataset"], held["unit"], held["n_releases"]) == ("patients", "row", 1)
    assert held["left_epsilon"] == held["epsilon"] - held["spent_epsilon"] > 0


def test_the_environment_names_a_ledger_and_the_option_another(
    workspace: "Workspace", url: Path, monkeypatch: MonkeyPatch
) -> None:
    opened(workspace, url)
    monkeypatch.setenv("UNDERSTUDY_LEDGER", str(url))
    assert workspace.run("ledger", "show").exit_code == 0
    other = url.with_name("other.db")
    ran = workspace.run("ledger", "show", "--ledger", other)
    assert ran.exit_code == 2 and "there is no ledger" in ran.stderr and not other.exists()


def test_a_ledger_must_be_named(workspace: "Workspace") -> None:
    ran = workspace.run("ledger", "show")
    assert ran.exit_code == 2
    assert ran.stderr == "Error: no ledger is named; pass --ledger, or set UNDERSTUDY_LEDGER.\n"


def test_reading_makes_no_ledger(workspace: "Workspace", url: Path) -> None:
    ran = workspace.run("ledger", "show", "--ledger", url)
    assert ran.exit_code == 2 and ran.stderr.count("\n") == 1
    assert not url.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", 0), "the total epsilon=0 must"),
        (("--epsilon", "nan"), "the total epsilon=nan must"),
        (("--epsilon", "inf"), "the total epsilon=inf must"),
        (("--epsilon", "much"), "invalid value for '--epsilon'"),
        (("--epsilon", 1, "--delta", 0.5), "the total delta=0.5 must"),
        (("--epsilon", 1, "--delta", "small"), "the total delta='small' must"),
    ],
    ids=str,
)
def test_a_total_that_promises_nothing_is_refused(
    workspace: "Workspace", url: Path, options: tuple[object, ...], words: str
) -> None:
    ran = workspace.run("ledger", "open", "patients", "--n-units", 900, "--ledger", url, *options)
    assert ran.exit_code == 2 and words in ran.stderr and not url.exists()


def test_a_total_cannot_be_changed(workspace: "Workspace", url: Path) -> None:
    opened(workspace, url)
    ran = opened(workspace, url)
    assert ran.exit_code == 2 and "promised once" in ran.stderr


def test_a_total_needs_a_name_and_a_number_of_units(workspace: "Workspace", url: Path) -> None:
    ran = workspace.run("ledger", "open", "--epsilon", 1, "--n-units", 900, "--ledger", url)
    assert ran.exit_code == 2 and "needs its dataset" in ran.stderr
    ran = workspace.run("ledger", "open", "patients", "--epsilon", 1, "--ledger", url)
    assert ran.exit_code == 2 and "needs its n_units" in ran.stderr


def test_a_declared_schema_says_what_to_open(workspace: "Workspace", url: Path) -> None:
    schema = workspace.write_schema(dataset="patients")
    ran = workspace.run("ledger", "open", "--schema", schema, "--epsilon", 1, "--ledger", url, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert {key: ran.json[key] for key in ("dataset", "unit", "n_units")} == {
        "dataset": "patients",
        "unit": "row",
        "n_units": 900,
    }
    ran = workspace.run("ledger", "open", "others", "--schema", schema, "--epsilon", 1, "--ledger", url)
    assert ran.exit_code == 2 and "contradicts the schema, which says 'patients'" in ran.stderr


def test_an_inferred_schema_opens_nothing(workspace: "Workspace", url: Path) -> None:
    schema = workspace.write_schema(status="inferred")
    ran = workspace.run("ledger", "open", "patients", "--schema", schema, "--epsilon", 1, "--ledger", url)
    assert ran.exit_code == 2 and "needs a declared schema" in ran.stderr and not url.exists()


def test_entries_tell_what_happened(workspace: "Workspace", url: Path) -> None:
    opened(workspace, url)
    spend(url)
    ran = workspace.run("ledger", "show", "patients", "--entries", "--ledger", url, "--json")
    assert [(entry["seq"], entry["kind"]) for entry in ran.json["entries"]] == [(1, "opened"), (2, "reserved")]
    assert "reserved" in workspace.run("ledger", "show", "--entries", "--ledger", url).stdout
    ran = workspace.run("ledger", "show", "patient", "--ledger", url)
    assert ran.exit_code == 2 and "did you mean 'patients'?" in ran.stderr


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
    assert {damage["seq"] for damage in ran.json["damages"]} == {None, 2}
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

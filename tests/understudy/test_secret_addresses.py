"""Servers that are not there, are lost on the way, or let nobody in: one sentence, and no secret told."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from synth.dp.ledger import open_ledger
from tests.synth.postgres import PASSWORD, Server
from tests.synth.postgres import server as server
from tests.understudy.conftest import Ran, Workspace
from tests.understudy.places import named_table, write_job

OPTIONS = ("--generator", "mst", "--epsilon", 1, "--clamp")


def run(workspace: Workspace, *more: object) -> Ran:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", "--debug", *more)


def files_below(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.is_file())


def assert_untold(workspace: Workspace, *all_ran: Ran) -> None:
    assert not any(PASSWORD in ran.stdout + ran.stderr for ran in all_ran)
    for path in files_below(workspace.folder):
        assert PASSWORD not in path.name and PASSWORD.encode() not in path.read_bytes(), path


def sentences(ran: Ran) -> list[str]:
    return [line for line in ran.stderr.splitlines() if line.startswith("Error: ")]


@pytest.fixture
def address(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the table in a database of its own; the password is where the driver looks for it."""
    import ibis

    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    url = server.url(server.create())
    connection = ibis.connect(url)
    connection.create_table("visits", pa.Table.from_pandas(named_table(), preserve_index=False))
    connection.disconnect()
    return f"{url.replace(f':{PASSWORD}', '')}#visits"


def with_password(address: str, password: str = PASSWORD) -> str:
    return address.replace("keeper@", f"keeper:{password}@")


def test_the_password_of_a_run_is_told_nowhere(workspace: Workspace, address: str) -> None:
    write_job(workspace, address, release="independent", generators={"independent": {"epsilon": 1.0}})
    ran = run(workspace)
    assert ran.exit_code in (1, 3), ran.stderr
    assert_untold(workspace, ran, run(workspace))
    shown = [path for path in files_below(workspace.folder / "out") if b"keeper@" in path.read_bytes()]
    assert shown == [workspace.folder / "out" / "job.toml"]  # as it was given, and as public as that


def test_a_password_in_an_address_is_told_nowhere(workspace: Workspace, address: str) -> None:
    write_job(workspace, address)
    schema, options = ("--schema", workspace.folder / "schema.toml"), with_password(address)
    fitted = workspace.run("fit", options, *schema, *OPTIONS, "--out", workspace.folder / "model", "--debug")
    assert fitted.exit_code == 0, fitted.stderr
    checked = workspace.run("schema", "check", options, *schema, "--json")
    assert checked.json["fits"], checked.stderr
    nowhere = options.replace("#visits", "#zebras")
    split = workspace.run("split", options, *schema, "--out", workspace.folder / "parts", "--debug")
    inferred = workspace.run("schema", "infer", options, "--out", workspace.folder / "inferred.toml", "--debug")
    assert (split.exit_code, inferred.exit_code) == (0, 0), inferred.stderr
    refused = [
        workspace.run("fit", nowhere, *schema, *OPTIONS, "--out", workspace.folder / "other", "--debug"),
        workspace.run(
            "compare", "a.csv", "--real", options, "--holdout", options, *schema, "--out", workspace.folder / "compared"
        ),
        workspace.run("fit", with_password(address, f"not-{PASSWORD}"), *schema, *OPTIONS, "--out", "m", "--debug"),
    ]
    assert [(ran.exit_code, len(sentences(ran))) for ran in refused] == [(2, 1)] * 3
    assert_untold(workspace, fitted, checked, split, inferred, *refused)


UNCLEAN = [
    "postgresql://user:1#zebrafish@host/d#visits",
    "postgresql://user:1/zebrafish@host/d#visits",
    "postgresql://host/d#visits?password=zebrafish",
    "postgresql://host/d#visits;zebrafish",
    "postgresql://host/d%3Fpassword=zebrafish#visits",
]
"""Addresses that do not come apart cleanly, so that some of a password may stand where a name does."""
MISSPELLED = [
    "postgresql:/user:zebrafish@host/d#visits",
    "postgresql:user:zebrafish@host/d#visits",
    "postgresql//user:z/zebrafish@host/d#visits",
    "postgresql//host/d?password=zebrafish#visits",
]


PASSED_ON = [
    "postgresql://user:zebrafish@host/d#visits",
    *(f"postgresql://user@host/d?{name}=zebrafish#visits" for name in ("password", "sslPassword", "pass")),
]


@pytest.mark.parametrize("address", [*UNCLEAN, *MISSPELLED, *PASSED_ON])
def test_no_command_shows_or_copies_an_address_that_may_hold_a_password(workspace: Workspace, address: str) -> None:
    write_job(workspace, address)
    before, schema = workspace.listing(), ("--schema", workspace.folder / "schema.toml")
    table, out = workspace.folder / "table.csv", workspace.folder / "made"
    refused = [run(workspace)]
    if address not in PASSED_ON:  # a command may be given a password; a file may not
        refused += [
            workspace.run("schema", "check", address, *schema),
            workspace.run("schema", "infer", address, "--out", out),
            workspace.run("evaluate", "--train", table, "--synthetic", address, *schema, "--out", out),
            workspace.run("compare", address, "--real", address, "--holdout", table, *schema, "--out", out),
        ]
    assert [(ran.exit_code, "zebra" in ran.stdout + ran.stderr) for ran in refused] == [(2, False)] * len(refused)
    assert workspace.listing() == before


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        (lambda address: address.replace("#visits", "#zebras"), "no such table"),
        (lambda address: "postgresql://keeper@127.0.0.1:1/d#visits", "cannot be reached"),
    ],
)
def test_a_table_that_is_not_there_ends_a_run_before_anything_is_paid(
    workspace: Workspace, address: str, change: Any, clause: str
) -> None:
    books = open_ledger(workspace.folder / "ledger.db")
    books.open("patients", unit="row", epsilon=5.0, n_units=900)
    write_job(workspace, change(address), ledger={"url": "ledger.db"})
    ran = run(workspace)
    assert ran.exit_code == 2, ran.stderr
    (sentence,) = sentences(ran)
    assert re.search(clause, sentence) and "keeper" not in sentence and "Traceback" not in ran.stderr
    assert [entry.kind for entry in books.history()] == ["opened"]
    assert not (workspace.folder / "out").exists() and not (workspace.folder / ".out.unfinished").exists()
    assert_untold(workspace, ran)

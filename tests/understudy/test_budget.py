"""The budget of a dataset, through the command line: what pays for private fits, what is said before a row is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from synth.dp.ledger import Ledger, open_ledger
from synth.generators.models.fitted import MarginalModel
from synth.generators.registry import generator
from synth.schema_file import read_schema
from understudy.budget import make_request
from understudy.run import run as running
from understudy.run import stages
from understudy.run.workspace import unfinished

FAST = {"measures": ["validity"]}
COLUMNS = {
    "age": {"kind": "integer", "bounds": [18, 90]},
    "ill": {"kind": "boolean"},
    "person": {"kind": "identifier", "bounds": [1, 2000]},
}
WITH_ENTITY = {"dataset": "patients", "entity": "person", "max_rows_per_unit": 50, "columns": COLUMNS}


@pytest.fixture
def ledger(workspace: Any) -> Ledger:
    """A ledger with a total of epsilon 3 for the dataset that the schema names."""
    workspace.write_schema(dataset="patients")
    content = open_ledger(workspace.folder / "ledger.db")
    content.open("patients", unit="row", epsilon=3.0, n_units=900)
    return content


def write_job(workspace: Any, generators: dict[str, Any], *, url: str | None = "ledger.db", **changes: Any) -> None:
    named = {} if url is None else {"ledger": {"url": url}}
    workspace.write_job(**{"generators": generators, "evaluation": FAST, **named, **changes})


def run(workspace: Any, *arguments: str) -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *arguments)


def fit(workspace: Any, *arguments: object, epsilon: float | None = 1.0) -> Any:
    folder = workspace.folder
    budget = () if epsilon is None else ("--epsilon", epsilon)
    return workspace.run(
        "fit", folder / "table.csv", "--schema", folder / "schema.toml", "--generator", "independent", *budget,
        "--out", folder / "model", *arguments,
    )  # fmt: skip


def hide_rows(workspace: Any) -> None:
    """Whoever reads a row now fails in another way than by the refusal under test."""
    (workspace.folder / "table.csv").write_bytes(b"")


def refusal(ran: Any, *saying: str) -> str:
    assert ran.exit_code == 2, ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if not line.startswith("Warning: ")]
    assert line.startswith("Error: ") and line.endswith(".") and all(text in line for text in saying), line
    return str(line)


def hidden(workspace: Any) -> list[Path]:
    return [path for path in workspace.folder.iterdir() if path.name.startswith(".")]


def test_a_run_reserves_uses_and_commits_and_says_what_is_left(workspace: Any, ledger: Ledger) -> None:
    write_job(workspace, {"independent": {"epsilon": 0.5}, "mst": {"epsilon": 1.0}})
    ran = run(workspace, "--json")
    assert ran.exit_code == 0, ran.stderr
    (holding,) = ledger.holdings()
    text = ran.json["ledger"]
    assert text["left_epsilon"] == pytest.approx(holding.left_epsilon)
    assert set(text["reserved_epsilon"]) == {"independent", "mst"}
    assert "Ledger: dataset 'patients', unit row: epsilon reserved for independent" in ran.stderr
    kinds = [entry.kind for entry in ledger.history()]
    assert kinds == ["opened", "reserved", "reserved", "used", "used", "committed", "committed"]
    evaluation = json.loads((workspace.folder / "out" / "evaluation.json").read_text())
    assert evaluation["provenance"]["ledger"] == text
    notes = [candidate["statement"]["ledger"] for candidate in evaluation["candidates"]]
    assert {note["entry"] for note in notes} <= {entry.hash for entry in ledger.history()}
    assert ledger.verify() == ()
    assert not hidden(workspace)


def test_reserving_decides_where_others_spent_in_between(
    workspace: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan finds room, and another job takes it while the table is read."""

    schema, original = read_schema(workspace.folder / "schema.toml"), stages.split

    def slow(*arguments: Any) -> Any:
        other: Any = generator("mst", epsilon=2.5)
        ledger.reserve([make_request("another job", other.schedule(schema), schema, "hmac-sha256:0")])
        return original(*arguments)

    monkeypatch.setattr(stages, "split", slow)
    write_job(workspace, {"independent": {"epsilon": 1.0}, "mst": {"epsilon": 1.0}})
    refusal(run(workspace, "-q"), "these 2 releases")
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved"]
    assert not hidden(workspace)


HUGE = {"kind": "real", "bounds": [-1.7e308, 1.7e308]}
NAMED = {"dataset": "patients"}
REFUSED: dict[str, tuple[dict[str, Any], str, float, str]] = {
    "no name of the dataset": ({}, "ledger.db", 1.0, 'add dataset = "NAME"'),
    "a dataset that the ledger does not know": ({"dataset": "patient"}, "ledger.db", 1.0, "did you mean 'patients'?"),
    "a ledger that is not there": (NAMED, "none.db", 1.0, "there is no ledger"),
    "another unit": (WITH_ENTITY, "ledger.db", 1.0, "unit='person'"),
    "a total that is too small": (NAMED, "ledger.db", 4.0, "the total of dataset='patients'"),
    "bounds too far apart": ({**NAMED, "columns": {**COLUMNS, "a": HUGE}}, "ledger.db", 1.0, "too far apart"),
    "a password": (NAMED, "postgresql://ann:zebrafish@db/books", 1.0, "PGPASSWORD"),
    "a password among the options": (NAMED, "postgresql://db/b?password=zebrafish", 1.0, "PGPASSWORD"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_ledger_cannot_pay_is_refused_before_the_table_is_read(
    workspace: Any, ledger: Ledger, case: str
) -> None:
    schema, url, epsilon, clause = REFUSED[case]
    workspace.write_schema(**schema)
    hide_rows(workspace)
    write_job(workspace, {"mst": {"epsilon": epsilon}}, url=url)
    assert "zebrafish" not in refusal(run(workspace), clause)
    if "password" not in case:
        refusal(fit(workspace, "--ledger", workspace.folder / url, epsilon=epsilon), clause)
    assert not hidden(workspace)
    assert [entry.kind for entry in ledger.history()] == ["opened"]


def test_the_environment_names_the_ledger_that_every_private_fit_uses(
    workspace: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_LEDGER", f"sqlite:///{workspace.folder}/ledger.db")
    write_job(workspace, {"mst": {"epsilon": 1.0}}, url="./ledger.db")  # the same, spelled otherwise
    assert run(workspace).exit_code == 0
    assert fit(workspace).exit_code == 0
    (holding,) = ledger.holdings()
    assert holding.n_releases == 2
    write_job(workspace, {"mst": {"epsilon": 1.0}}, url="other.db")
    (workspace.folder / "out").rename(workspace.folder / "first")
    refusal(run(workspace), "UNDERSTUDY_LEDGER")


def test_a_fit_that_fails_leaves_no_model_and_its_reservation_spent(
    workspace: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MarginalModel, "save", full)
    refusal(fit(workspace, "--ledger", workspace.folder / "ledger.db", "-q"), "no model was left", "stays spent")
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used"]
    assert not (workspace.folder / "model").exists()


def test_another_table_under_the_same_name_is_warned_of(workspace: Any, ledger: Ledger, table: Any) -> None:
    write_job(workspace, {"independent": {"epsilon": 0.5}})
    assert run(workspace).exit_code == 0
    workspace.write_table(table(900, 1))
    fitted = fit(workspace, "--ledger", workspace.folder / "ledger.db", "--json", epsilon=0.5)
    assert any("was used before with another table" in sentence for sentence in fitted.json["warnings"])


PRIVATE = {"mst": {"epsilon": 1.0}}
CAUTIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "no guarantee": ("no formal guarantee for generators.plain", {"plain": {"generator": "independent"}}, {}),
    "weak": ("epsilon=12 of generators.mst is weak", {"mst": {"epsilon": 12.0}}, {}),
    "delta": ("larger than", {"mst": {"epsilon": 1.0, "delta": 1e-5}}, {}),
    "few units": ("n_units=900 is few", PRIVATE, {}),
    "several": ("2 private fits of one table compose", {**PRIVATE, "independent": {"epsilon": 1.0}}, {}),
    "no ledger": ("outside a ledger", PRIVATE, {}),
    "refuse": ('outside = "refuse"', PRIVATE, {}),
    "rows per unit": ("max_rows_per_unit=50", PRIVATE, WITH_ENTITY),
}


@pytest.mark.parametrize("case", CAUTIONS)
def test_each_warning_is_given_before_the_table_is_read(workspace: Any, case: str) -> None:
    saying, generators, schema = CAUTIONS[case]
    path = {"path": "table.csv", "schema": "schema.toml"} | ({"outside": "refuse"} if case == "refuse" else {})
    workspace.write_schema(**schema)
    hide_rows(workspace)
    write_job(workspace, generators, url=None, table=path)
    ran = run(workspace)
    assert ran.exit_code == 2  # the table has no rows
    warned = [line for line in ran.stderr.splitlines() if line.startswith("Warning: ")]
    assert any(saying in line for line in warned), warned
    assert all(line.endswith(".") and "zebrafish" not in line for line in warned)
    assert "Warning" not in run(workspace, "--quiet").stderr


def test_several_private_fits_are_priced_together(workspace: Any, ledger: Ledger) -> None:
    workspace.write_schema(dataset="patients", n_units=1000)
    write_job(workspace, {"a": {"generator": "independent", "epsilon": 1.0}, "b": {"generator": "mst", "epsilon": 1.0}})
    hide_rows(workspace)
    ran = run(workspace)
    assert "n_units=1000 of the schema is not the n_units=900" in ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if "compose" in line]
    joint = float(line.partition("epsilon=")[2].partition(" ")[0])
    in_ledger = float(line.partition("(")[2].partition(" ")[0])
    assert 1.3 < joint < 1.6
    assert joint < in_ledger < 2.5


def test_two_runs_of_one_output_do_not_meet(workspace: Any) -> None:
    write_job(workspace, {"independent": {}}, url=None)
    with unfinished(workspace.folder / "out"):
        refusal(run(workspace), "another run is at work")
    assert not hidden(workspace)


def test_an_error_after_a_finished_fit_keeps_the_work_and_says_how_to_go_on(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    write_job(workspace, {"independent": {}}, url=None)
    with monkeypatch.context() as patch:
        patch.setattr(running, "write_evidence", full)
        refusal(run(workspace, "-q"), "the unfinished work is kept", "--restart")
    assert hidden(workspace)
    ran = run(workspace)
    assert ran.exit_code == 0, ran.stderr
    assert "fit independent" not in ran.stderr and "evaluate" not in ran.stderr
    assert not hidden(workspace)


@pytest.mark.parametrize(
    ("stage", "how", "code"), [("sample", SystemExit(143), 143), ("split", KeyboardInterrupt(), 130)]
)
def test_a_run_that_is_interrupted_keeps_what_was_drawn_and_leaves_nothing_before(
    workspace: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, stage: str, how: BaseException, code: int
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise how

    write_job(workspace, PRIVATE)
    with monkeypatch.context() as patch:
        patch.setattr(stages, stage, interrupted)
        ran = run(workspace, "-q")
    assert ran.exit_code == code
    has_drawn = stage == "sample"
    assert ("the unfinished work is kept" in ran.stderr) == bool(hidden(workspace)) == has_drawn
    assert len(ledger.history()) == (3 if has_drawn else 1)
    assert run(workspace).exit_code == 0
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]

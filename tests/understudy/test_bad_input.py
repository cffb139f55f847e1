"""Bad input, through the real command line: one sentence, exit code 2, no cell value, nothing left behind."""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from tests.understudy.conftest import SCHEMA, Workspace


def refused(workspace: Workspace, *arguments: object, clause: str = "") -> str:
    """Run a command that must be refused; its one sentence."""
    before = workspace.listing()
    ran = workspace.run(*arguments, "--quiet")
    assert (ran.exit_code, ran.stdout) == (2, ""), ran.stderr
    (line,) = ran.stderr.splitlines()
    assert line.startswith("Error: ") and line.endswith((".", "?")), line
    assert "zebrafish" not in line
    assert clause in line
    assert workspace.listing() == before
    return line


def run_refused(workspace: Workspace, clause: str = "") -> str:
    return refused(workspace, "run", workspace.folder / "job.toml", "--out", workspace.folder / "out", clause=clause)


def with_value(column: str, value: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[7, column] = value
        return frame

    return change


TABLES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "a missing column": (lambda frame: frame.drop(columns="age"), "age"),
    "an unknown column": (lambda frame: frame.assign(extra=1), "extra"),
    "a number above its bounds": (with_value("age", 987654), "age"),
    "an unknown category": (with_value("town", "zebrafish2"), "town"),
    "a missing value where none may be": (with_value("age", None), "age"),
    "text among numbers": (with_value("income", "zebrafish"), "income"),
    "a constant target": (lambda frame: frame.assign(ill=True), "ill"),
    "fewer rows than the split needs": (lambda frame: frame.head(50), "rows"),
    "no rows": (lambda frame: frame.head(0), "rows"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_does_not_fit_is_refused(workspace: Workspace, table: Any, case: str) -> None:
    change, clause = TABLES[case]
    workspace.write_table(change(table()))
    assert "987654" not in run_refused(workspace, clause)


FILES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "an empty table": ("table.csv", lambda content: b"", "table.csv"),
    "one name twice": ("table.csv", lambda content: content.replace(b"age,income", b"age,age", 1), "age"),
    "another encoding": ("table.csv", lambda content: content.replace(b"South", b"S\xfcd"), "UTF-8"),
    "a byte of the job": ("job.toml", lambda content: content + b"# \xff\n", "save it as UTF-8"),
    "no units": ("schema.toml", lambda content: content.replace(b"n_units = 900", b"# private = true"), "n_units"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_read_is_refused(workspace: Workspace, case: str) -> None:
    name, change, clause = FILES[case]
    if "units" in case:
        workspace.write_job(generators={"mst": {"epsilon": 1.0}})
    path = workspace.folder / name
    path.write_bytes(change(path.read_bytes()))
    run_refused(workspace, clause)


COLUMNS = SCHEMA["columns"]
SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "a target that is not there": ({"target": "il"}, "did you mean 'ill'?"),
    "an inferred one of a private fit": ({"status": "inferred"}, "schema declare"),
    "free text": ({"target": "age", "columns": {"age": COLUMNS["age"], "town": {"kind": "text"}}}, "drop = true"),
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_schema_is_refused_before_the_table_is_read(workspace: Workspace, case: str) -> None:
    changes, clause = SCHEMAS[case]
    workspace.write_schema(**changes)
    if "private" in case:
        workspace.write_job(generators={"mst": {"epsilon": 1.0}})
    (workspace.folder / "table.csv").write_bytes(b"")
    run_refused(workspace, clause)


def test_an_entity_column_with_missing_values_is_refused(workspace: Workspace) -> None:
    frame = pd.read_csv(workspace.folder / "table.csv", dtype=str, keep_default_na=False)
    workspace.write_table(frame.assign(who=["" if row == 7 else f"{row % 300:04d}" for row in range(len(frame))]))
    columns = {**COLUMNS, "who": {"kind": "identifier", "template": "####"}}
    workspace.write_schema(entity="who", max_rows_per_unit=3, columns=columns)
    path = {"path": "table.csv", "schema": "schema.toml", "outside": "refuse"}
    measures = {"measures": ["validity"]}  # none of which would have it asked whether the fit is worth its budget
    workspace.write_job(table=path, generators={"mst": {"epsilon": 1.0}}, evaluation=measures)
    assert "missing" in run_refused(workspace, "'who'")


def of(label: str, /, **parameters: Any) -> dict[str, Any]:
    return {"generators": {label: parameters}}


SWEEP = of("mst", epsilon=[0.3, 1, "none"])
UNPAID = "unless a ledger pays for all of its private fits"
TABLE = {"path": "table.csv", "schema": "schema.toml"}
JOBS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"epsilon {odd}": (of("mst", epsilon=odd), "epsilon") for odd in (0, math.nan, math.inf, "one")},
    **{f"delta {odd}": (of("mst", epsilon=1.0, delta=odd), "delta") for odd in (0.01, math.nan)},
    **{f"shares {odd}": (of("mst", epsilon=1.0, shares=odd), "shares") for odd in ([0.5] * 3, [0.0, 0.5, 0.5])},
    "a weight of nan": (of("aim", workload={"age": math.nan}), "generators.aim: generator='aim': workload.age="),
    "a weight of nobody": (of("aim", epsilon=[0.5, "none"], workload={"agee": 3.0}), "did you mean 'age'?"),
    "an epsilon without a guarantee": (of("sdv.gaussian_copula", epsilon=1.0), "no formal guarantee"),
    "a table that is not there": ({"table": {**TABLE, "path": "none.csv"}}, "none.csv"),
    "no schema": ({"table": {"path": "table.csv"}}, "`understudy schema infer table.csv --out schema.toml`"),
    "two sources of the table": ({"table": {**TABLE, "source": "statsmodels:fair"}}, "one of them"),
    "an unknown key": ({"polcy": "internal"}, "did you mean 'policy'?"),
    "an unknown key of a section": ({"ledger": {"uri": "books.db"}}, "'ledger.uri'; did you mean 'url'?"),
    "an unknown generator": (of("mst2"), "did you mean 'mst'?"),
    "an unknown parameter": (of("mst", epsilom=1.0), "did you mean 'epsilon'?"),
    "an unquoted label": (of("sdv", tvae={"epochs": 3}), '[generators."sdv.tvae"]'),
    "no generator": ({"generators": {}}, "generators"),
    "a label that leaves the folder": (of("../mst", generator="mst"), "letters"),
    "labels that differ in case": ({"generators": {"mst": {}, "MST": {"generator": "mst"}}}, "case"),
    "an unknown policy": ({"policy": "intern"}, "did you mean 'internal'?"),
    "missing waivers": ({"waivers": "none.toml"}, "there are no waivers at path="),
    "an unknown label to release": ({"release": "independant"}, "did you mean 'independent'?"),
    "an unknown measure": ({"evaluation": {"measures": ["validty"]}}, "did you mean 'validity'?"),
    "a task that does not fit": ({"evaluation": {"task": "regression"}}, "needs numbers or times: target='ill'"),
    "a share of one": ({"split": {"holdout_share": 1.0}}, "holdout_share"),
    "a negative seed": ({"seed": -1}, "seed"),
    "an unknown term": ({"card": {"licence": "mit"}}, "unknown key 'card.licence'; did you mean 'license'?"),
    "an epsilon twice": (of("mst", epsilon=[1, 1.0]), "the same value twice"),
    "an epsilon that is a text": ({**of("mst", epsilon="1"), "sweep": {"seeds": 1}}, "epsilon holds '1'"),
    "a seed twice": ({**SWEEP, "sweep": {"seeds": [1, 1]}}, "a seed stands in the list twice"),
    "a sweep to release": ({**SWEEP, "release": "mst"}, "name one of its points, as 'mst-eps0.3-seed0'"),
    "an unpaid point to release": ({**SWEEP, "release": "mst-eps1-seed0"}, UNPAID),
    "an unpaid sweep to release": ({**SWEEP, "sweep": {"releasable": True}}, UNPAID),
    "a point without a guarantee": (of("sdv.tvae", epsilon=["none", 1.0]), "no formal guarantee and takes no epsilon"),
}


@pytest.mark.parametrize("case", JOBS)
def test_a_job_that_cannot_be_used_is_refused(workspace: Workspace, case: str) -> None:
    changes, clause = JOBS[case]
    workspace.write_job(**changes)
    if "of nobody" in case:  # before a table or a ledger is looked for
        (workspace.folder / "table.csv").unlink()
        workspace.write_job(**changes, ledger={"url": "nowhere.db"})
    run_refused(workspace, clause)


@pytest.mark.parametrize("out", ["out", "job.toml/out"])
def test_an_output_that_exists_or_cannot_be_made_is_refused(workspace: Workspace, out: str) -> None:
    (workspace.folder / "out").mkdir()
    (workspace.folder / "out" / "mine.txt").write_text("mine")
    refused(workspace, "run", workspace.folder / "job.toml", "--out", workspace.folder / out, clause="out")


FIT = ("fit", "table.csv", "--schema", "schema.toml", "--out", "model", "--generator")
AUDIT = ("audit", "--schema", "schema.toml", "--out", "audit.json")
COMMANDS: dict[str, tuple[tuple[object, ...], str]] = {
    "an unknown command": (("rum",), "run"),
    "a command without its arguments": (("run",), "understudy run --help"),
    "an unknown option": (("gate", "evaluation.json", "--polcy", "internal"), "--policy"),
    "a job that is not there": (("run", "none.toml", "--out", "out"), "none.toml"),
    "a target that is not there": (("schema", "infer", "table.csv", "--target", "il", "--out", "i.toml"), "il"),
    "a folder that is no model": (("sample", ".", "--rows", 5, "--out", "s.csv"), "model"),
    **{f"a fit at epsilon {odd}": ((*FIT, "mst", "--epsilon", odd), "epsilon") for odd in ("0", "nan")},
    "a weight of an unknown column": ((*FIT, "aim", "--set", "workload={agee = 3.0}"), "did you mean 'age'"),
    "a parameter that is no pair": ((*FIT, "mst", "--set", "n_bins"), "key=value"),
    "no claim to audit": ((*AUDIT, "--generator", "independent"), "has no epsilon"),
    "an audit of two": ((*AUDIT, "--generator", "independent", "--epsilon", 1, "--model", "m"), "--model alone"),
    "an epsilon set twice": ((*AUDIT, "--generator", "mst", "--epsilon", 1, "--set", "epsilon=9"), "set twice"),
    "shadow models without a holdout": (
        ("evaluate", "--train", "table.csv", "--synthetic", "table.csv", "--model", "m", "--shadow-models", 4,
         "--out", "e.json"), "pass --holdout",
    ),
    "an evaluation that is not there": (("gate", "none.json"), "there is no evaluation at path="),
    "one that counts no units": (
        (*FIT, "ctgan", "--clamp", "--epsilon", 1, "--executor", "processes"), "is for counts with epsilon",
    ),
    "a cluster that is none": (
        (*FIT, "mst", "--clamp", "--epsilon", 1, "--executor", "tcp://keeper:zebrafish@host:1"), "is no address",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_that_cannot_be_used_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(workspace.folder)
    arguments, clause = COMMANDS[case]
    refused(workspace, *arguments, clause=clause)


HUGE = {"digits": "9" * 5000, "a float": "1e999", "nested": f"{'[' * 5000}{']' * 5000}"}
"""Values that the parser of TOML, or whatever comes after it, breaks on."""


@pytest.mark.parametrize("name", ["job.toml", "schema.toml", "policy.toml", "waivers.toml"])
def test_a_value_that_python_cannot_hold_is_refused_in_every_file(workspace: Workspace, name: str) -> None:
    folder = workspace.folder
    for empty in ("policy", "waivers"):
        (folder / f"{empty}.toml").write_text("")
    (folder / "evaluation.json").write_text("{}")
    workspace.write_job(policy="policy.toml", waivers="waivers.toml")
    content = (folder / name).read_text()
    for value in HUGE.values():
        (folder / name).write_text(f"seed = {value}\n{content}")
        if name in ("job.toml", "schema.toml"):
            run_refused(workspace, "cannot be used")
        else:
            option = f"--{name.removesuffix('.toml')}"
            refused(workspace, "gate", folder / "evaluation.json", option, folder / name, clause="cannot be used")


def test_a_file_that_is_no_evaluation_is_refused(workspace: Workspace) -> None:
    path = workspace.folder / "it.json"
    for value in ("9" * 5000, "1e999", "[" * 99_999, "NaN", '"\\ud800"'):
        path.write_text(f'{{"schema_version": 2, "candidates": {value}}}')
        refused(workspace, "gate", path, clause="damaged")
    for content in ("", "{}", "[1]", '{"schema_version": 99}', "\udcff"):
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        refused(workspace, "ledger", "show", "--release", path)


@pytest.mark.parametrize("odd", ["p@ss", "p@1:2/ss", "p/s@s", "p?s@s", "p#s@s"])
def test_no_part_of_a_password_is_shown_in_any_error(workspace: Workspace, odd: str) -> None:
    folder, address = workspace.folder, f"postgresql://zebrafish:zebrafish{odd}zebrafish@nowhere.invalid/zebrafish"
    for arguments in (
        ("ledger", "show", "--ledger", address),
        ("ledger", "show", address),
        ("schema", "check", f"{address}#t", "--schema", folder / "schema.toml"),
        (address,),
    ):
        refused(workspace, *arguments, "--debug")
    job = (folder / "job.toml").read_text() + f'\n[more]\nx = "{address}"\n'
    for content in (job, f'ledger = "{address}"', f'split = "{address}"', f'table = ["{address}"]'):
        (folder / "job.toml").write_text(content)
        run_refused(workspace)

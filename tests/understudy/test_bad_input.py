"""Bad input, through the real command line: one sentence, exit code 2, no cell value, nothing left behind."""

import math
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Change = Callable[[Any], None]


def refused(workspace: Any, *arguments: object, saying: str = "") -> str:
    """Run a command that must be refused; its one sentence."""
    before = workspace.listing()
    ran = workspace.run(*arguments, "--quiet")
    lines = ran.stderr.splitlines()
    assert ran.exit_code == 2, ran.stderr
    assert ran.stdout == ""
    assert len(lines) == 1, ran.stderr
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith((".", "?"))
    assert "Traceback" not in ran.stderr
    assert "zebrafish" not in ran.stderr
    assert saying in lines[0]
    assert workspace.listing() == before
    return lines[0]


def run_refused(workspace: Any, saying: str = "") -> str:
    return refused(workspace, "run", workspace.folder / "job.toml", "--out", workspace.folder / "out", saying=saying)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"age,income,town,ill\n"], ids=["empty", "blank", "header only"])
def test_a_table_without_rows_is_refused(workspace: Any, content: bytes) -> None:
    (workspace.folder / "table.csv").write_bytes(content)
    run_refused(workspace)


def test_duplicate_column_names_are_refused(workspace: Any) -> None:
    path = workspace.folder / "table.csv"
    path.write_text(path.read_text().replace("age,income", "age,age", 1))
    run_refused(workspace, "age")


def change_table(workspace: Any, change: Callable[[pd.DataFrame], pd.DataFrame], table: Any) -> None:
    workspace.write_table(change(table()))


def with_value(column: str, value: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[7, column] = value
        return frame

    return change


TABLES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "a column missing": (lambda f: f.drop(columns="town"), "town"),
    "a column extra": (lambda f: f.assign(more=1), "more"),
    "a number above its bounds": (with_value("age", 987654), "age"),
    "a number below its bounds": (with_value("age", -3), "age"),
    "an unknown category": (with_value("town", "zebrafish2"), "town"),
    "a column of missing values only": (lambda f: f.assign(age=np.nan), "age"),
    "a missing value where none may be": (with_value("age", None), "age"),
    "an infinite value": (with_value("income", "inf"), "income"),
    "text among numbers": (with_value("income", "zebrafish"), "income"),
    "a number among booleans": (with_value("ill", 17), "ill"),
    "a constant target": (lambda f: f.assign(ill=True), "ill"),
    "fewer rows than the split needs": (lambda f: f.head(50), "rows"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_does_not_fit_is_refused(workspace: Any, table: Any, case: str) -> None:
    change, saying = TABLES[case]
    change_table(workspace, change, table)
    message = run_refused(workspace, saying)
    assert "987654" not in message
    assert "-3" not in message


def test_wrong_encoding_is_refused(workspace: Any) -> None:
    path = workspace.folder / "table.csv"
    path.write_bytes(path.read_bytes().replace(b"South", "Süd".encode("latin-1")))
    run_refused(workspace, "UTF-8")


def test_a_truncated_parquet_file_is_refused(workspace: Any, table: Any) -> None:
    path = workspace.write_table(table(), "table.parquet")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    workspace.write_job(table={"path": "table.parquet", "schema": "schema.toml"})
    run_refused(workspace, "table.parquet")


def test_a_target_that_is_not_there_is_refused(workspace: Any) -> None:
    workspace.write_schema(target="il")
    run_refused(workspace, "did you mean 'ill'?")


@pytest.mark.parametrize(("name", "epsilon"), [("aim", 1.0), ("aim", [0.5, "none"]), ("latent_class", 1.0)])
def test_a_weight_of_an_unknown_column_is_refused_before_a_table_or_a_ledger_is_looked_for(
    workspace: Any, name: str, epsilon: Any
) -> None:
    (workspace.folder / "table.csv").unlink()
    weighed = {"epsilon": epsilon, "workload": {"agee": 3.0}}
    workspace.write_job(generators={name: weighed}, ledger={"url": "nowhere.db"})
    line = run_refused(workspace, "column='agee' is not in the schema; did you mean 'age'?")
    assert line.startswith(f"Error: generators.{name}")


def test_reversed_bounds_are_refused(workspace: Any) -> None:
    columns = tomllib.loads(workspace.write_schema().read_text())["columns"]
    workspace.write_schema(columns={**columns, "age": {"kind": "integer", "bounds": [90, 18]}})
    run_refused(workspace, "reversed")


def test_an_entity_column_with_missing_values_is_refused(workspace: Any) -> None:
    frame = pd.read_csv(workspace.folder / "table.csv", dtype=str, keep_default_na=False)
    frame["who"] = [f"{row % 300:04d}" for row in range(len(frame))]
    frame.loc[7, "who"] = ""
    workspace.write_table(frame)
    schema = tomllib.loads(workspace.write_schema(entity="who", max_rows_per_unit=3).read_text())
    columns = {**schema["columns"], "who": {"kind": "identifier", "template": "####"}}
    workspace.write_schema(entity="who", max_rows_per_unit=3, columns=columns)
    place = {"path": "table.csv", "schema": "schema.toml", "outside": "refuse"}
    workspace.write_job(table=place, generators={"mst": {"epsilon": 1.0}})
    assert "missing" in run_refused(workspace, "'who'")


def test_a_private_fit_under_an_inferred_schema_is_refused_before_the_table_is_read(workspace: Any) -> None:
    workspace.write_schema(status="inferred")
    workspace.write_job(generators={"mst": {"epsilon": 1.0}})
    (workspace.folder / "table.csv").write_bytes(b"")
    run_refused(workspace, "schema declare")


def test_a_private_fit_without_n_units_is_refused(workspace: Any) -> None:
    changed = workspace.write_schema()
    changed.write_text(changed.read_text().replace("n_units = 900\n", ""))
    workspace.write_job(generators={"mst": {"epsilon": 1.0}})
    run_refused(workspace, "n_units")


def test_free_text_is_refused(workspace: Any) -> None:
    columns = {"age": {"kind": "integer", "bounds": [18, 90]}, "town": {"kind": "text"}}
    workspace.write_schema(target="age", columns=columns)
    run_refused(workspace, "drop = true")


def test_an_output_folder_that_exists_is_refused(workspace: Any) -> None:
    (workspace.folder / "out").mkdir()
    (workspace.folder / "out" / "mine.txt").write_text("mine")
    run_refused(workspace, "out")


def test_an_output_folder_below_a_file_is_refused(workspace: Any) -> None:
    out = workspace.folder / "job.toml" / "out"
    refused(workspace, "run", workspace.folder / "job.toml", "--out", out, saying="is a file")


def test_an_output_folder_that_cannot_be_written_is_refused(workspace: Any) -> None:
    closed = workspace.folder / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() == 0:  # no permission stops root, but nobody makes a folder in /proc
        closed = Path("/proc")
    refused(workspace, "run", workspace.folder / "job.toml", "--out", closed / "out", saying="out")


def test_folders_of_an_output_are_made(workspace: Any) -> None:
    folder: Path = workspace.folder
    made = folder / "none" / "there" / "inferred.toml"
    assert workspace.run("schema", "infer", folder / "table.csv", "--out", made).exit_code == 0
    assert made.is_file()


def of(generator: str, **parameters: Any) -> dict[str, Any]:
    return {"generators": {generator: parameters}}


EPSILONS = (0, -1.0, float("nan"), float("inf"), "one", 1e9)
DELTAS = (0.01, 0, -1e-6, 1.0, float("nan"), float("inf"), "small")
SHARES = ([0.5, 0.5, 0.5], [0.2, 0.2, 0.2], [0.0, 0.5, 0.5], [1.0], [-0.5, 0.75, 0.75], "all")
WEIGHTS = (0, -1.0, 1001, math.inf, math.nan, "3", {"age": 1.0})
JOBS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"epsilon {epsilon}": (of("mst", epsilon=epsilon), "epsilon") for epsilon in EPSILONS},
    **{f"delta {delta}": (of("mst", epsilon=1.0, delta=delta), "delta") for delta in DELTAS},
    **{f"shares {shares}": (of("mst", epsilon=1.0, shares=shares), "shares") for shares in SHARES},
    **{
        f"a weight of {weight}": (of("aim", workload={"age": weight}), "generators.aim: generator='aim': workload.age=")
        for weight in WEIGHTS
    },
    "a weight of 0 for classes": (of("latent_class", workload={"age": 0}), "workload.age="),
    "weights without a choice": (of("mst", workload={"age": 3.0}), "unknown key 'workload'"),
    "an epsilon without a guarantee": (of("sdv.gaussian_copula", epsilon=1.0), "no formal guarantee"),
    "a table that is not there": ({"table": {"path": "none.csv", "schema": "schema.toml"}}, "none.csv"),
    "a schema that is not there": ({"table": {"path": "table.csv", "schema": "none.toml"}}, "none.toml"),
    "an unknown key": ({"polcy": "internal"}, "did you mean 'policy'?"),
    "an unknown key of what may be left out": ({"ledger": {"uri": "books.db"}}, "'ledger.uri'; did you mean 'url'?"),
    "an unknown key of a section": (
        {"table": {"path": "table.csv", "shema": "schema.toml", "schema": "schema.toml"}},
        "did you mean 'schema'?",
    ),
    "an unknown generator": ({"generators": {"mst2": {}}}, "did you mean 'mst'?"),
    "an unknown parameter": ({"generators": {"mst": {"epsilom": 1.0}}}, "did you mean 'epsilon'?"),
    "an unquoted label": ({"generators": {"sdv": {"tvae": {"epochs": 3}}}}, '[generators."sdv.tvae"]'),
    "no generator": ({"generators": {}}, "generators"),
    "a label that leaves the folder": ({"generators": {"../mst": {"generator": "mst"}}}, "letters"),
    "labels that differ in case": ({"generators": {"mst": {}, "MST": {"generator": "mst"}}}, "case"),
    "an unknown policy": ({"policy": "intern"}, "did you mean 'internal'?"),
    "a missing policy file": ({"policy": "mine.toml"}, "mine.toml"),
    "an unknown label to release": ({"release": "independant"}, "did you mean 'independent'?"),
    "an unknown measure": ({"evaluation": {"measures": ["validty"]}}, "did you mean 'validity'?"),
    "a time limit of zero": ({"evaluation": {"time_limit_s": 0}}, "time_limit_s"),
    "a share of one": ({"split": {"holdout_share": 1.0}}, "holdout_share"),
    "a negative seed": ({"seed": -1}, "seed"),
    "rows below one": ({"generators": {"mst": {"rows": 0}}}, "rows"),
    "two places for the table": (
        {"table": {"path": "table.csv", "source": "statsmodels:fair", "schema": "schema.toml"}},
        "one of them",
    ),
    "an unknown source": ({"table": {"source": "sklearn:iris", "schema": "schema.toml"}}, "statsmodels:fair"),
}


@pytest.mark.parametrize("case", JOBS)
def test_a_job_that_cannot_be_used_is_refused(workspace: Any, case: str) -> None:
    changes, saying = JOBS[case]
    workspace.write_job(**changes)
    run_refused(workspace, saying)


COMMANDS: dict[str, tuple[tuple[object, ...], str]] = {
    "a job that is not there": (("run", "none.toml", "--out", "out"), "none.toml"),
    "a job that is no TOML": (("run", "table.csv", "--out", "out"), "not TOML"),
    "a target that is not there": (("schema", "infer", "table.csv", "--target", "il", "--out", "i.toml"), "il"),
    "a folder that is no model": (("sample", ".", "--rows", 5, "--out", "s.csv"), "model"),
}
FITS: dict[str, tuple[tuple[object, ...], str]] = {
    **{f"epsilon {epsilon}": (("mst", "--epsilon", epsilon), "epsilon") for epsilon in ("0", "-1", "nan", "one")},
    "a weight of an unknown column": (("aim", "--set", "workload={agee = 3.0}"), "did you mean 'age'"),
    "models that cannot be saved": (("sdv.tvae",), "cannot be saved"),
    "a parameter that is no pair": (("mst", "--set", "n_bins"), "key=value"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_that_cannot_be_used_is_refused(workspace: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(workspace.folder)
    arguments, saying = COMMANDS[case]
    refused(workspace, *arguments, saying=saying)


def fit_refused(workspace: Any, *arguments: object, saying: str) -> str:
    folder = workspace.folder
    fit = ("fit", folder / "table.csv", "--schema", folder / "schema.toml", "--out", folder / "model", "--generator")
    return refused(workspace, *fit, *arguments, saying=saying)


@pytest.mark.parametrize("case", FITS)
def test_a_fit_that_cannot_be_made_is_refused(workspace: Any, case: str) -> None:
    arguments, saying = FITS[case]
    fit_refused(workspace, *arguments, saying=saying)


HUGE = {
    "digits": "9" * 5000, "more than a float has": "9" * 400, "hexadecimal": f"0x{'f' * 5000}", "a float": "1e999",
    "nested": f"{'[' * 5000}{']' * 5000}", "nested less": f"{'[' * 200}{']' * 200}",
}  # fmt: skip
"""Values that the parser of TOML, or whatever comes after it, breaks on."""


@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("name", ["job.toml", "schema.toml", "policy.toml", "waivers.toml"])
def test_a_value_that_python_cannot_hold_is_refused_in_every_file(workspace: Any, name: str, value: str) -> None:
    folder = workspace.folder
    for given in ("policy", "waivers"):
        (folder / f"{given}.toml").write_text("")
    workspace.write_job(policy="policy.toml", waivers="waivers.toml")
    path = folder / name
    path.write_text(f"seed = {value}\n{path.read_text()}")
    if name in ("policy.toml", "waivers.toml"):
        (folder / "policy.toml").write_text((folder / "policy.toml").read_text() or "policy = 1\n")
        given = ("gate", folder / "evaluation.json", f"--{'policy' if name == 'policy.toml' else 'waivers'}", path)
        (folder / "evaluation.json").write_text("{}")
        refused(workspace, *given, saying="cannot be used")
    else:
        run_refused(workspace, "cannot be used")


@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
def test_a_value_that_python_cannot_hold_is_refused_on_the_command_line(workspace: Any, value: str) -> None:
    assert len(fit_refused(workspace, "mst", "--set", f"n_bins={value}", saying="cannot be used")) < 250


@pytest.mark.parametrize("name", ["job.toml", "schema.toml"])
def test_a_byte_that_is_no_utf_8_is_refused(workspace: Any, name: str) -> None:
    path = workspace.folder / name
    path.write_bytes(path.read_bytes() + b"# \xff\n")
    run_refused(workspace, "save it as UTF-8")


JSON_FILES: dict[str, tuple[str, ...]] = {
    "gate": ("gate", "it.json"), "report": ("report", "it.json", "--out", "r.html"),
    "books": ("ledger", "show", "--release", "it.json"),
    "card": ("card", "it.json", "--candidate", "m", "--out", "card.md"),
}  # fmt: skip


@pytest.mark.parametrize("value", ["9" * 5000, "1e999", "[" * 99_999, "[" * 300 + "]" * 300, "NaN", '"\\ud800"'])
@pytest.mark.parametrize("command", JSON_FILES)
def test_a_value_that_python_cannot_hold_is_refused_in_what_a_run_wrote(
    workspace: Any, command: str, value: str
) -> None:
    (workspace.folder / "it.json").write_text(f'{{"schema_version": 2, "candidates": {value}}}')
    paths = [workspace.folder / word if "." in word else word for word in JSON_FILES[command]]
    refused(workspace, *paths, saying="damaged")


@pytest.mark.parametrize("odd", ["p@ss", "p@1:2/ss", "p/s@s", "p?s@s", "p#s@s"])
def test_no_part_of_a_password_is_shown_in_any_error(workspace: Any, odd: str) -> None:
    folder, address = workspace.folder, f"postgresql://zebrafish:zebrafish{odd}zebrafish@nowhere.invalid/zebrafish"
    for arguments in (
        ("ledger", "show", "--ledger", address),
        ("ledger", "show", address),
        ("schema", "check", f"{address}#t", "--schema", folder / "schema.toml"),
        (address,),
    ):
        refused(workspace, *arguments, "--debug")
    (folder / "job.toml").write_text((folder / "job.toml").read_text() + f'\n[more]\nx = "{address}"\n')
    for content in (f'ledger = "{address}"', f'split = "{address}"', f'table = ["{address}"]'):
        (folder / "job.toml").write_text(content)
        run_refused(workspace)


def test_the_fingerprint_key_that_cannot_be_made_is_refused(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_KEY_FILE", str(workspace.folder / "table.csv" / "key"))
    run_refused(workspace, "UNDERSTUDY_KEY_FILE")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema_version": 99}', '{"schema_version": 1}', "\udcff"])
@pytest.mark.parametrize("command", ["gate", "report"])
def test_a_file_that_is_no_evaluation_is_refused(workspace: Any, command: str, content: str) -> None:
    path = workspace.folder / "evaluation.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    out = [] if command == "gate" else ["--out", workspace.folder / "report.html"]
    refused(workspace, command, path, "--policy", "internal", *out, saying="evaluat")


def test_a_misused_command_line_is_refused_in_one_sentence(workspace: Any) -> None:
    refused(workspace, "rum", saying="run")
    refused(workspace, "run", saying="understudy run --help")
    refused(workspace, "gate", "evaluation.json", "--polcy", "internal", saying="--policy")

"""`understudy advise`: from public facts alone, with reasons, and never by a row of the table."""

import gzip
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
import tomli_w

from synth.generators.aim import Aim
from synth.generators.auto import Auto
from synth.generators.forecast import outlook
from synth.schema import Schema, build_schema
from synth.table import Table, read_table
from tests.text_tables import complaint_schema
from understudy.advice import DROWNED, MOST_SECONDS, Advice, advise

if TYPE_CHECKING:
    from tests.understudy.conftest import Ran, Workspace


def schema_of(n_columns: int, n_units: int, n_categories: int = 8, **changes: Any) -> Schema:
    texts = [f"v{i}" for i in range(n_categories)]
    columns = {f"c{i}": {"kind": "categorical", "categories": texts} for i in range(n_columns)}
    columns |= changes.pop("columns", {})
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **changes})


def recommended(advice: Advice) -> str:
    return advice.chosen.name


def warned(advice: Advice, start: str) -> bool:
    return any(start in sentence for sentence in advice.warnings)


@pytest.mark.parametrize(("n_columns", "name"), [(5, "aim"), (10, "latent_class")])
def test_a_large_table_at_a_fair_epsilon_gets_the_generator_that_auto_chooses(n_columns: int, name: str) -> None:
    advice = advise(schema_of(n_columns, 50_000), 1.0)
    assert recommended(advice) == name == Auto(epsilon=1.0).chosen(advice.schema).name
    assert advice.job_lines == (f"[generators.{name}]", "epsilon = 1.0")
    assert advice.warnings == ()


def test_latent_classes_are_fewer_where_they_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(10, 50_000)
    plain = advise(schema, 1.0).chosen.outlook.seconds
    monkeypatch.setattr("understudy.advice.MOST_SECONDS", plain * 0.9)
    advice = advise(schema, 1.0)
    assert advice.chosen.settings == {"n_classes": 1000}
    assert any("as it comes, latent_class would take" in reason for reason in advice.reasons)


def test_fewer_rounds_than_a_tree_has_pairs_get_mst() -> None:
    many = {"c0": {"kind": "categorical", "categories": [f"v{i}" for i in range(101)]}}
    advice = advise(schema_of(25, 50_000, columns=many), 0.1)
    assert recommended(advice) == "mst"
    assert "fewer than the 24 pairs that tie 25 columns together" in advice.reasons[0]


def test_a_tiny_table_gets_columns_on_their_own_and_a_warning() -> None:
    advice = advise(schema_of(8, 200, n_categories=20), 0.2)
    assert recommended(advice) == "independent"
    assert any("drown in noise" in reason for reason in advice.reasons)
    assert warned(advice, "n_units=200 is small for epsilon=0.2")


def test_pairs_that_drown_with_many_bins_get_fewer_and_the_outlook_says_so() -> None:
    numbers = {f"n{i}": {"kind": "integer", "bounds": [0, 200]} for i in range(4)}
    found = advise(schema_of(1, 12_000, columns=numbers), 0.1)
    assert recommended(found) == "mst"
    assert set(found.chosen.settings) == {"n_bins"}
    tree, plain = found.chosen.outlook.tree, found.options[1].outlook.tree
    assert tree is not None
    assert plain is not None
    assert tree.error <= DROWNED < plain.error
    assert f"n_bins = {found.chosen.settings['n_bins']}" in found.job_lines


def test_a_wide_table_gets_a_fit_that_ends_in_time() -> None:
    """Many columns and units: aim as it comes is too slow."""
    schema = schema_of(250, 3_000_000)
    advice = advise(schema, 1.0)
    assert outlook(Aim(epsilon=1.0), schema).seconds > MOST_SECONDS
    assert advice.chosen.outlook.seconds <= MOST_SECONDS


def test_one_column_has_no_pairs_to_measure() -> None:
    advice = advise(schema_of(1, 5000), 1.0)
    assert recommended(advice) == "independent"
    assert "no pairs" in advice.reasons[0]


@pytest.mark.parametrize(("n_columns", "n_units", "epsilon"), [(10, 50_000, 1.0), (25, 50_000, 0.1), (8, 200, 0.2)])
def test_why_no_network_is_said_last_whatever_is_recommended(n_columns: int, n_units: int, epsilon: float) -> None:
    advice = advise(schema_of(n_columns, n_units), epsilon)
    assert {"ctgan", "tvae"}.isdisjoint(option.name for option in advice.options)
    (reason,) = (reason for reason in advice.reasons if "ctgan and tvae" in reason)
    assert reason == advice.reasons[-1]
    assert all(figure in reason for figure in ("Adult", "epsilon 1", "0.89", "0.88", "0.905", "0.924"))


def test_the_default_without_epsilon_is_named_with_what_it_promises(workspace: "Workspace") -> None:
    ran = run(workspace, "--epsilon", 1)
    assert "Recommended at epsilon=1" in ran.stdout
    words = " ".join(ran.stdout.split())
    assert words.count("without epsilon the default is trees, which promises nothing") == 1
    said = run(workspace, "--epsilon", 1, "--json").json
    assert said["without_epsilon"].startswith("without epsilon the default is trees")
    assert "trees" not in {option["generator"] for option in said["options"]}


def test_two_columns_are_enough_for_a_pair() -> None:
    assert recommended(advise(schema_of(2, 50_000), 1.0)) in ("aim", "mst")


@pytest.mark.parametrize(
    ("changes", "epsilon", "start"),
    [
        ({}, 12.0, "epsilon=12 is weak"),
        ({"columns": {"x": {"kind": "categorical", "measure": True}}}, 1.0, "are to be measured, which takes 3%"),
        (
            {"columns": {"x": {"kind": "real", "bounds": [0, 1], "measure_spikes": True}}},
            1.0,
            "frequent values are to be measured, which takes",
        ),
        ({"columns": {"x": {"kind": "categorical", "categories": list(range(90))}}}, 1.0, "with 90, noise alone moves"),
        ({"columns": {"x": {"kind": "integer", "bounds": [0, 10**7]}}}, 1.0, "column='x' has wide bounds on a linear"),
        ({"columns": {"x": {"kind": "identifier", "template": "##"}}}, 1.0, "column='x': identifiers are made anew"),
        (
            {"columns": {"x": {"kind": "identifier", "template": "##"}}, "entity": "x", "max_rows_per_unit": 4},
            1.0,
            "max_rows_per_unit=4 makes noise 4 times as large",
        ),
    ],
)
def test_what_to_mind_is_said(changes: dict[str, Any], epsilon: float, start: str) -> None:
    assert warned(advise(schema_of(6, 50_000, **changes), epsilon), start)


def test_a_table_with_free_text_is_advised_on_with_a_model_of_texts() -> None:
    found = advise(complaint_schema(5_000), 2.0)
    assert found.job_lines[-1] == 'text = "lm"'
    assert warned(found, "column='complaint': free text needs text = \"lm\", and share=0.5 of the budget is counted")
    bare = advise(complaint_schema(5_000, drop=True, learn=False), 2.0)
    assert "text" not in "".join(bare.job_lines)
    # Steps on texts take their share, so that noise on columns is larger.
    assert found.chosen.outlook.column > bare.chosen.outlook.column


def test_a_log_scale_is_not_wide() -> None:
    column = {"x": {"kind": "integer", "bounds": [0, 10**7], "scale": "log"}}
    assert not warned(advise(schema_of(6, 50_000, columns=column), 1.0), "wide bounds")


def run(workspace: "Workspace", *more: object, table: str = "table.csv") -> "Ran":
    return workspace.run("advise", workspace.folder / table, "--schema", workspace.folder / "schema.toml", *more)


def test_it_reads_no_row(workspace: "Workspace", table: Any) -> None:
    ran = run(workspace, "--epsilon", 1)
    assert (ran.exit_code, "Recommended at epsilon=1" in ran.stdout) == (0, True), ran.stderr
    workspace.write_table(table(17, seed=5))
    assert run(workspace, "--epsilon", 1) == ran
    header = (workspace.folder / "table.csv").read_bytes().partition(b"\n")[0]
    (workspace.folder / "table.csv").write_bytes(header + b'\n\xff\xfe"a row that nobody could read')
    assert run(workspace, "--epsilon", 1) == ran


def test_its_lines_are_a_job_that_runs_and_meets_what_was_expected(workspace: "Workspace") -> None:
    said = run(workspace, "--epsilon", 2, "--json").json
    assert said["exit_code"] == 0
    lines = tomllib.loads("\n".join(said["job"]))
    label = said["recommended"]["generator"]
    assert list(lines["generators"]) == [label]
    workspace.write_job(**lines, evaluation={"measures": ["fidelity.columns", "fidelity.pairs"]})
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", "--json")
    assert ran.exit_code == 0, ran.stderr
    page = (workspace.folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "Expected from public facts, beside what was measured" in page


def test_json_has_every_option_with_its_outlook(workspace: "Workspace") -> None:
    said = run(workspace, "--epsilon", 1, "--json").json
    assert [option["generator"] for option in said["options"]][:4] == ["independent", "mst", "aim", "latent_class"]
    assert all(0 <= option["column"] <= 1 and option["seconds"] > 0 for option in said["options"])


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"status": "inferred"}, ("--epsilon", 1), "a private fit needs a declared schema"),
        ({"n_units": 0}, ("--epsilon", 1), "n_units"),
        ({}, ("--epsilon", 1, "--delta", 0.5), "delta=0.5 must lie in"),
        ({}, ("--epsilon", 1, "--delta", "small"), "delta"),
        ({}, ("--epsilon", 1, "--holdout-share", 1), "holdout_share=1"),
        ({}, ("--epsilon", 1, "--holdout-share", -0.1), "holdout_share=-0.1"),
        ({}, ("--epsilon", 0), "epsilon"),
        ({}, ("--epsilon", 1000), "epsilon"),
        ({}, (), "--epsilon"),
    ],
)
def test_what_cannot_be_advised_on_is_one_sentence(
    workspace: "Workspace", changes: dict[str, Any], options: tuple[object, ...], said: str
) -> None:
    workspace.write_schema(**changes)
    ran = run(workspace, *options)
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert ran.stderr.strip().count("\n") <= 1


@pytest.mark.statistical
def test_the_expectation_is_that_of_a_run_with_the_same_holdout(workspace: "Workspace") -> None:
    """By default that of a job that says nothing of its split."""
    generators = {"independent": {"epsilon": 3.0}}
    for split, options in (({}, ()), ({"split": {"holdout_share": 0.5}}, ("--holdout-share", 0.5))):
        job = workspace.folder / "job.toml"
        job.write_text(
            tomli_w.dumps(
                {
                    "table": {"path": "table.csv", "schema": "schema.toml"},
                    "generators": generators,
                    "evaluation": {"measures": ["validity"], "audit": False},
                    **split,
                }
            ),
            encoding="utf-8",
        )
        out = workspace.folder / f"out{len(split)}"
        assert workspace.run("run", job, "--out", out).exit_code == 0
        expected = json.loads((out / "evaluation.json").read_text())["candidates"][0]["expected"]
        advised = run(workspace, "--epsilon", 3, *options, "--json").json["options"][0]
        assert {name: advised[name] for name in ("column", "n_rows")} == {
            name: expected[name] for name in ("column", "n_rows")
        }


def test_a_holdout_that_a_job_has_to_be_told_of_is_among_its_lines() -> None:
    lines = advise(schema_of(10, 50_000), 1.0, holdout_share=0.3).job_lines
    content = tomllib.loads("\n".join(lines))
    assert content["split"] == {"holdout_share": 0.3}
    assert set(content["generators"]) == {"latent_class"}
    for share in (0.0, 0.2):
        assert advise(schema_of(10, 50_000), 1.0, holdout_share=share).job_lines[0] == "[generators.latent_class]"


def test_delta_is_a_number_or_auto(workspace: "Workspace") -> None:
    plain, auto, given = (
        run(workspace, "--epsilon", 1, *more, "--json").json for more in ((), ("--delta", "auto"), ("--delta", "1e-7"))
    )
    assert plain == auto
    assert given["delta"] == 1e-7 < auto["delta"]
    assert "delta = 1e-07" in given["job"]


def test_a_schema_without_units_says_how_to_add_them(workspace: "Workspace") -> None:
    path = workspace.write_schema()
    path.write_text(path.read_text(encoding="utf-8").replace("n_units = 900\n", ""), encoding="utf-8")
    ran = run(workspace, "--epsilon", 1)
    assert ran.exit_code == 2
    assert "a private fit needs n_units" in ran.stderr


def test_a_header_that_does_not_fit_is_refused(workspace: "Workspace", table: Any) -> None:
    workspace.write_table(table().rename(columns={"age": "aeg"}))
    ran = run(workspace, "--epsilon", 1)
    assert ran.exit_code == 2
    assert "'age'" in ran.stderr


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_header_is_that_of_the_table(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"a b": [1, 2], "c,d": ["x", "y"], 'e" f': [1.0, 2.0]})
    path = tmp_path / name
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    assert Table.of(path).names == ("a b", "c,d", 'e" f')


OPEN = [
    b'a,"b\n1,s3cret\n', b'a,"b\n1,s3cret"\n2,3\n', b'"a,b\r\n1,s3cret\r\n', b'a,"b\r1,s3cret"\r',
    b'\n\na,"b\n1,s3cret', b'"a\n1,s3cret",b\n3,4\n', b'a,"b',
]  # fmt: skip


@pytest.mark.parametrize("content", OPEN, ids=range(len(OPEN)))
@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_left_open_in_the_header_makes_no_name_of_a_row(tmp_path: Path, content: bytes, packed: bool) -> None:
    from synth.errors import TableError

    path = tmp_path / ("open.csv.gz" if packed else "open.csv")
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    for read in (Table.of, read_table):
        with pytest.raises(TableError, match=r"must be closed|begins with a blank one") as refused:
            read(path)
        assert "s3cret" not in str(refused.value)


def test_no_command_tells_a_row_that_an_open_quote_swallows(workspace: "Workspace") -> None:
    (workspace.folder / "table.csv").write_bytes(b'age,"sex\n17,s3cret"\n18,s3cret\n')
    schema, table = workspace.write_schema(), workspace.folder / "table.csv"
    workspace.write_job()
    for arguments in (
        ("advise", "--schema", schema, "--table", table, "--epsilon", 1),
        ("run", workspace.folder / "job.toml", "--out", workspace.folder / "out"),
        ("schema", "infer", table),
    ):
        ran = workspace.run(*arguments)
        assert ran.exit_code == 2, arguments
        assert "s3cret" not in ran.stdout + ran.stderr, arguments


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfa,b\r\n1,2\r\n", b"a,b\r1,2\r", b"a,b"])
def test_a_header_is_read_whatever_ends_its_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert Table.of(path).names == ("a", "b")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "needs a header row"),
        ("t.csv", b"\xff\xfea\x00", "is UTF-8"),
        ("t.csv.gz", b"a,b\n", "must be gzip-compressed"),
        ("t.csv.gz", gzip.compress(b"a,b\n", mtime=0)[:12], "is cut short"),
        ("t.parquet", b"PAR1", "must be whole"),
        ("t.xlsx", b"", "must be a whole .xlsx"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    from synth.errors import TableError

    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=said):
        Table.of(path)
    with pytest.raises(TableError, match="there is no table"):
        Table.of(tmp_path / "none.csv")

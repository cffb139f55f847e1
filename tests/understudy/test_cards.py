"""Cards, metrics and the summary in the output of a run, by the real command line."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from evaluate.metrics import CLIPPED
from synth.errors import JobError, TableError
from tests.understudy.conftest import Workspace, small_table
from understudy.artifacts import Handing, file_name, size_of, write_public_card
from understudy.evaluate_external import read_evaluation
from understudy.job.spec import Job, build_job
from understudy.run.candidates import _clipped
from understudy.run.workspace import RunWorkspace

TERMS = {"license": "cc-by-4.0", "contact": "dpo@example.org", "prohibited_use": ["Pricing."], "language": "de"}
MEASURES = ["validity", "fidelity.columns"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One run of two tables, one of them private and paid for by a ledger."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("UNDERSTUDY_KEY_FILE", str(tmp_path_factory.mktemp("key") / "key"))
        patched.delenv("UNDERSTUDY_LEDGER", raising=False)
        made = Workspace(tmp_path_factory.mktemp("run"))
        made.write_table(small_table())
        schema = made.write_schema(dataset="patients")
        made.write_job(
            name="A | title", release="safe",
            generators={"safe": {"generator": "independent", "epsilon": 1.0}, "independent": {}},
            evaluation={"measures": MEASURES}, ledger={"url": "ledger.db"}, card=TERMS,
        )  # fmt: skip
        opened = made.run("ledger", "open", "--schema", schema, "--epsilon", 3, "--ledger", made.folder / "ledger.db")
        assert opened.exit_code == 0, opened.stderr
        done = made.run("run", made.folder / "job.toml", "--out", made.folder / "out")
        assert done.exit_code in (0, 1, 3), done.stderr
        yield made


def metrics(path: Path) -> dict[str, list[dict[str, str]]]:
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return {family.name: [sample.labels for sample in family.samples] for family in families}


def test_every_table_of_a_run_has_its_card(ran: Workspace) -> None:
    cards = ran.folder / "out" / "cards"
    assert {path.name for path in cards.iterdir()} == {"safe.yaml", "safe.md", "independent.yaml", "independent.md"}
    safe, plain = (yaml.safe_load((cards / f"{label}.yaml").read_text()) for label in ("safe", "independent"))
    assert (safe["form"], safe["title"], safe["privacy"]["status"]) == ("internal", "A | title", "formal")
    assert safe["privacy"]["ledger"]["note"]["dataset"] == safe["trained"]["dataset"] == "patients"
    assert safe["privacy"]["n_units"] == 900
    assert safe["trained"]["holdout_share"] == 0.4
    table = pd.read_csv(ran.folder / "out" / "synthetic" / "safe.csv")
    assert (safe["table"]["n_rows"], safe["table"]["n_columns"]) == table.shape
    assert safe["table"]["file"] == "../synthetic/safe.csv"
    assert safe["use"]["license"] == "cc-by-4.0"
    assert safe["measured"]["verdicts"][0]["policy"] == "internal"
    assert plain["privacy"]["status"] == "none"
    assert "**no formal guarantee**" in (cards / "independent.md").read_text()


def test_a_run_goes_by_one_name_everywhere(ran: Workspace) -> None:
    out = ran.folder / "out"
    run_id = json.loads((out / "evaluation.json").read_text())["provenance"]["run_id"]
    assert len(run_id) == 16
    int(run_id, 16)
    assert yaml.safe_load((out / "cards" / "safe.yaml").read_text())["made"]["run_id"] == run_id
    found = metrics(out / "metrics.public.prom")
    assert found["dp_training_epsilon_consumed"] == [{"model": "safe", "dataset": "patients", "run_id": run_id}]
    assert found["dp_training_budget_remaining"] == [{"dataset": "patients"}]
    assert "understudy_verdict" not in found
    assert "understudy_verdict" in metrics(out / "metrics.internal.prom")


def test_the_summary_of_a_run_names_both_tables(ran: Workspace) -> None:
    summary = (ran.folder / "out" / "summary.md").read_text()
    assert summary.startswith("# A &#124; title\n")
    assert "`safe` (named for release)" in summary
    assert "`independent`" in summary


def test_a_public_card_is_readme_and_yaml_beside_the_table(ran: Workspace, tmp_path: Path) -> None:
    out = ran.folder / "out"
    (tmp_path / "safe.csv").write_bytes((out / "synthetic" / "safe.csv").read_bytes())
    evaluation = read_evaluation(out / "evaluation.json")
    write_public_card(evaluation, "safe", Handing(), tmp_path, "safe.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"safe.csv", "README.md", "model-card.yaml", "croissant.json"}
    content = yaml.safe_load((tmp_path / "model-card.yaml").read_text())
    assert (content["form"], content["table"]["n_rows"]) == ("to-hand-on", len(pd.read_csv(tmp_path / "safe.csv")))
    assert content["privacy"]["ledger"]["note"]["entry"] is None
    prints = [*evaluation.provenance.fingerprints.values(), *evaluation.provenance.files_sha256.values()]
    own = hashlib.sha256((tmp_path / "safe.csv").read_bytes()).hexdigest()  # which anybody has who has the table
    written = "".join((tmp_path / name).read_text() for name in ("model-card.yaml", "README.md", "croissant.json"))
    assert not [one for one in prints if one != own and one.removeprefix("hmac-sha256:") in written]


@pytest.mark.parametrize("form", ["internal", "to-hand-on"])
def test_the_command_writes_a_card(ran: Workspace, tmp_path: Path, form: str) -> None:
    flags = ["--to-hand-on"] if form == "to-hand-on" else ["--policy", "internal"]
    found = ran.run(
        "--json", "card", ran.folder / "out" / "evaluation.json", "--candidate", "safe", "--out", tmp_path / "safe.md",
        "--job", ran.folder / "job.toml", "--table", ran.folder / "out" / "synthetic" / "safe.csv", *flags,
    )  # fmt: skip
    assert found.exit_code == 0, found.stderr
    assert found.json == {"card": [str(tmp_path / "safe.yaml"), str(tmp_path / "safe.md")], "form": form}
    content = yaml.safe_load((tmp_path / "safe.yaml").read_text())
    assert (content["form"], content["use"]["contact"], "measured" in content) == (
        form, "dpo@example.org", form == "internal",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--candidate", "save", "--out", "c.md"), "candidate='save' is not in the evaluation; did you mean 'safe'?"),
        (("--candidate", "safe", "--out", "c.yaml"), "are two files"),
        (("--candidate", "safe", "--out", "c.md", "--table", "none.csv"), "the table is not there"),
    ],
)
def test_a_card_that_cannot_be_made_is_one_sentence(
    ran: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = ran.run("card", ran.folder / "out" / "evaluation.json", *arguments)
    assert found.exit_code == 2
    assert sentence in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_taken_up_again_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    work = RunWorkspace(tmp_path / "work", tmp_path / "out")
    work.claim({"job": "a"})
    first = work.attempt
    again = RunWorkspace(tmp_path / "work", tmp_path / "out")
    again.claim({"job": "a"})
    assert again.attempt == first
    again.claim({"job": "b"})
    assert again.attempt != first
    again.claim({"table": "1"})
    again.claim({"table": "2"})  # of a start that was killed before it drew: all that this one claimed stays
    assert again.unfinished.state.items() >= {"job": "b", "table": "2"}.items()


def test_clipped_units_are_read_from_the_unfinished_work_and_go_to_the_evaluation(tmp_path: Path) -> None:
    work = RunWorkspace(tmp_path, tmp_path / "out")
    assert work.clipped("net") is None
    work.expect_clipping("net")
    assert _clipped(work.clipped("net")) == ()
    lines = [{"step": 1, "clipped": 3, "units": 10}, {"step": 2, "clipped": 5, "units": 6}]
    (work.training("net") / "clipping.internal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert work.clipped("net") == (8, 16)
    (found,) = _clipped((8, 16))
    assert (found.measure, found.value, found.n, found.direction) == (CLIPPED, 0.5, 16, "none")


def job(**card: Any) -> Job:
    content = {"table": {"path": "t.csv", "schema": "s.toml"}, "generators": {"independent": {}}, "card": card}
    return build_job(json.loads(json.dumps(content)))


def test_a_job_without_terms_has_the_usual_ones() -> None:
    assert job().card.language == ("en",)
    assert job(intended_use="One.").card.intended_use == ("One.",)


@pytest.mark.parametrize(
    ("card", "sentence"),
    [
        ({"licence": "mit"}, "unknown key 'card.licence'; did you mean 'license'?"),
        ({"language": "english"}, "language='english' is no ISO 639 code"),
        ({"license": ""}, "card.license=''"),
        ({"intended_use": [""]}, "card.intended_use.0=''"),
    ],
)
def test_terms_that_cannot_be_used_are_one_sentence(card: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JobError) as caught:
        job(**card)
    assert sentence in str(caught.value)


def test_the_size_of_a_table_is_counted_in_every_format(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x\ny", "\u00e4,", '"']})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    (tmp_path / "odd.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert [size_of(tmp_path / name) for name in ("t.csv", "t.parquet", "t.csv.gz")] == [(3, 2)] * 3
    assert size_of(tmp_path / "odd.csv") == (None, None)
    with pytest.raises(TableError, match="the table is not there"):
        size_of(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 65, "..", ".hidden", "a\nb"])
def test_a_name_that_is_no_label_names_no_file(name: str) -> None:
    assert file_name(name, 3) == "table-3"

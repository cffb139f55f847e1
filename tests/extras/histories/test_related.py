"""A job of two related tables: keys match, both fits are paid for, and no verdict is better than the worse one."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomli_w

from evaluate.gate.claim import claims_of
from evaluate.result_io import evaluation_from
from synth.dp.ledger import Ledger, open_ledger
from synth.errors import BadInput
from synth.schema import Schema
from synth.schema_file import write_schema
from tests.extras.histories.related_tables import pair, schemas
from understudy.console import Console
from understudy.extras.histories.related import RelatedOutcome, make_related_plan, read_related, run_related
from understudy.run import stages

N, UNITS = 400, 20_000
MST = {"n_bins": 8, "n_iterations": 100}  # parameters of a quick fit
EPSILON = 2.0
PARENTS = {"path": "patients.csv", "schema": "patients.toml"}
ROWS = {"path": "visits.csv", "schema": "visits.toml"}
LENIENT = {
    "name": "lenient", "version": 1, "audience": "tests",
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip


def write(
    folder: Path, tables: tuple[pd.DataFrame, pd.DataFrame], own_schemas: tuple[Schema, Schema], **job: Any
) -> Path:
    for name, table, schema in zip(("patients", "visits"), tables, own_schemas, strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
        write_schema(schema, folder / f"{name}.toml")
    (folder / "policy.toml").write_text(tomli_w.dumps(LENIENT))
    content = {
        "policy": "policy.toml",
        "tables": {"parents": PARENTS, "rows": ROWS},
        "split": {"holdout_share": 0.4},
        "generators": {"trees": {}},
        **job,
        "evaluation": {"measures": ["validity", "privacy.copies"], "audit": False, **job.get("evaluation", {})},
    }
    (folder / "job.toml").write_text(tomli_w.dumps(content))
    return folder / "job.toml"


def opened(folder: Path, epsilon: float) -> Ledger:
    ledger = open_ledger(folder / "ledger.db")
    ledger.open("clinic", unit="who", epsilon=epsilon, n_units=UNITS)
    return ledger


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RelatedOutcome, Ledger]]:
    """One run with a private `mst`, shared by the tests that only look at it."""
    folder = tmp_path_factory.mktemp("related")
    job = write(
        folder, pair(N), schemas(UNITS, "clinic"), release="mst", ledger={"url": "ledger.db"},
        generators={"mst": {**MST, "epsilon": EPSILON}},
    )  # fmt: skip
    ledger = opened(folder, 3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_KEY_FILE", str(folder / "fingerprint.key"))
        patch.delenv("UNDERSTUDY_LEDGER", raising=False)
        yield folder, run_related(*make_related_plan(job, folder / "out"), Console(quiet=True)), ledger


def test_the_tables_are_as_the_real_ones_and_their_keys_match(finished: Any) -> None:
    folder, outcome, _ = finished
    parents, rows = (pd.read_csv(folder / "out" / "synthetic" / "mst" / f"{side}.csv") for side in ("parents", "rows"))
    assert list(parents.columns) == ["who", "sex", "age"]
    assert list(rows.columns) == ["who", "day", "ill", "weight"]
    assert parents["who"].is_unique
    assert rows["who"].isin(parents["who"]).all()
    assert 0 < (~parents["who"].isin(rows["who"])).mean() < 0.6
    assert outcome.keys_match == {"mst": True}


def test_the_ledger_is_charged_for_both_fits_and_knows_one_table(finished: Any) -> None:
    _, outcome, ledger = finished
    reserved = [entry for entry in ledger.history() if entry.kind == "reserved"]
    committed = [entry for entry in ledger.history() if entry.kind == "committed"]
    assert (len(reserved), len(committed)) == (2, 2)
    alone = [next(c for c in each.evaluation.candidates if c.name == "mst") for each in outcome.tables.values()]
    (holding,) = ledger.holdings()
    assert holding.spent_epsilon > max(each.statement.ledger.epsilon for each in alone) * 1.2
    assert not any(
        "another table" in text for each in outcome.tables.values() for text in each.evaluation.provenance.warnings
    )


def test_the_epsilon_of_the_job_is_that_of_both_tables_wherever_it_is_quoted(finished: Any) -> None:
    folder, outcome, _ = finished
    both = outcome.inputs.together["mst"]
    assert 0.95 * EPSILON < both.epsilon <= EPSILON
    for side in ("parents", "rows"):
        evaluation = evaluation_from((folder / "out" / side / "evaluation.json").read_text())
        candidate = next(each for each in evaluation.candidates if each.name == "mst")
        assert candidate.statement is not None
        assert candidate.statement.epsilon < 0.8 * EPSILON
        claims = claims_of(evaluation, candidate)
        assert claims is not None
        assert (claims.counted.scope, claims.counted.epsilon) == ("tables", pytest.approx(both.epsilon))
        card = (folder / "out" / side / "cards" / "mst.md").read_text()
        assert "both related tables" in card
    assert outcome.content()["candidates"]["mst"]["epsilon"] == both.epsilon


def test_the_exit_code_is_the_worse_verdict_and_keys_that_do_not_match_fail(finished: Any) -> None:
    _, outcome, _ = finished
    assert (outcome.verdict("mst"), outcome.exit_code) == ("PASS", 0)

    def judged(side: str, verdict: str) -> RelatedOutcome:
        run = outcome.tables[side]
        verdicts = tuple(replace(each, verdict=verdict) for each in run.verdicts)
        return replace(outcome, tables={**outcome.tables, side: replace(run, verdicts=verdicts)})

    assert [judged(side, "FAIL").exit_code for side in ("parents", "rows")] == [1, 1]
    assert [judged(side, "INCONCLUSIVE").exit_code for side in ("parents", "rows")] == [3, 3]
    unmatched = replace(outcome, keys_match={"mst": False})
    assert unmatched.exit_code == 1
    unnamed = replace(outcome.inputs, job=outcome.inputs.job.model_copy(update={"release": None}))
    assert replace(outcome, inputs=unnamed).exit_code == 0
    assert replace(unmatched, inputs=unnamed).exit_code == 1


def test_a_unit_is_on_one_side_in_both_tables(tmp_path: Path) -> None:
    private = {"mst": {**MST, "epsilon": 2.0}}
    _, plans = make_related_plan(write(tmp_path, pair(N), schemas(UNITS), generators=private), tmp_path / "out")
    sides = []
    for side in ("parents", "rows"):
        own = plans[side]  # type: ignore[index]
        split = stages.split(own, stages.read(own, tmp_path))
        sides.append({name: set(getattr(split, name).frame("who")["who"]) for name in ("train", "holdout")})
    assert sides[1]["train"] <= sides[0]["train"] and sides[1]["holdout"] <= sides[0]["holdout"]
    assert sides[1]["holdout"]


def test_a_total_that_admits_one_table_alone_admits_none(tmp_path: Path) -> None:
    job = write(
        tmp_path, pair(N), schemas(UNITS, "clinic"), ledger={"url": "ledger.db"},
        generators={"mst": {**MST, "epsilon": 2.0}},
    )  # fmt: skip
    ledger = opened(tmp_path, 1.6)
    with pytest.raises(BadInput, match="mst of the rows"):
        make_related_plan(job, tmp_path / "out")
    assert [entry.kind for entry in ledger.history()] == ["opened"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generators": {"trees": {}, "mst": {"epsilon": [1.0, 2.0]}}}, "a sweep is of one table"),
        ({"released_numbers": {"epsilon": 1.0}, "release": "trees"}, r"\[released_numbers\] is of one table"),
    ],
)
def test_a_job_that_cannot_be_is_refused_in_a_sentence_before_a_row_is_read(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    job = write(tmp_path, pair(20), schemas(UNITS), **changes)
    for name in ("patients", "visits"):
        (tmp_path / f"{name}.csv").write_bytes(b"")
    with pytest.raises(BadInput, match=message):
        make_related_plan(job, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_job_that_the_manual_shows_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "two-tables.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for name, block in zip(("patients.schema.toml", "visits.schema.toml", "job.toml"), shown, strict=True):
        (tmp_path / name).write_text(block)
    asked = read_related(tmp_path / "job.toml")
    assert asked.relation.key == "patient"
    assert 0.9 * 3.0 < asked.together["aim"].epsilon <= 3.0


def test_the_command_says_what_both_come_to_and_ends_with_the_worse_verdict(workspace: Any) -> None:
    job = write(workspace.folder, pair(N // 2), schemas(), release="trees")
    strict = {**LENIENT, "rules": [{**LENIENT["rules"][0], "limit": 1.5}]}  # type: ignore[index]
    (workspace.folder / "policy.toml").write_text(tomli_w.dumps(strict))
    ran = workspace.run("run", job, "--out", workspace.folder / "out")
    assert ran.exit_code == 1, ran.stderr
    assert ran.stdout.splitlines()[-2:] == [
        "trees: FAIL, the worse verdict of both tables",
        f"Both tables: {workspace.folder / 'out' / 'tables.json'}",
    ]
    told = json.loads((workspace.folder / "out" / "tables.json").read_text())["candidates"]["trees"]
    assert (told["guarantee"], told["epsilon"], told["keys_match"]) == ("no formal guarantee", None, True)
    assert workspace.run("verify", workspace.folder / "out" / "rows").exit_code == 0

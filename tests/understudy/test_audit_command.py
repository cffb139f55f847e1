"""`understudy audit`: a claim attacked without a run, its exit codes, and its refusals."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from evaluate.audit_result import EXCEEDS, NO_FAULT, TOO_WEAK, Audit
from synth.dp.mechanisms import SystemNoise

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = ("audit", "--generator", "independent", "--epsilon", 3)


@pytest.fixture
def schema(workspace: Any) -> "Path":
    """Two columns: fits of them are fast."""
    columns = {"ill": {"kind": "boolean"}, "town": {"kind": "categorical", "categories": ["North", "South", "East"]}}
    return workspace.write_schema(columns=columns, target="ill", dataset="people")  # type: ignore[no-any-return]


@pytest.fixture
def table(workspace: Any) -> "Path":
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ill": rng.random(60) < 0.2, "town": rng.choice(["North", "South"], 60)})
    return workspace.write_table(frame, "small.csv")  # type: ignore[no-any-return]


def test_a_true_claim_is_within_and_its_audit_is_written(workspace: Any, schema: "Path") -> None:
    out = workspace.folder / "audit.json"
    ran = workspace.run(*CLAIM, "--schema", schema, "--out", out, "--confidence", 0.95, "--time-limit-s", 4, "--json")
    assert ran.exit_code == 0
    assert ran.json == json.loads(out.read_text())
    assert ran.json["verdict"] == NO_FAULT
    content = {name: value for name, value in ran.json["white_box"].items() if name != "verdict"}
    found = TypeAdapter(Audit).validate_json(json.dumps(content))
    assert found.epsilon == pytest.approx(3.0, rel=0.01)
    assert found.bound < found.epsilon
    assert found.confidence == 0.95
    assert "measurement log" in ran.stderr
    assert f"Audit: {out}" in ran.stderr


def test_a_newcomer_reads_what_would_have_shown_and_what_was_not_looked_at(workspace: Any, schema: "Path") -> None:
    ran = workspace.run("audit", "--generator", "mst", "--epsilon", 1, "--schema", schema, "--time-limit-s", 2)
    assert ran.exit_code == 0
    said = " ".join(ran.stdout.split())
    assert "within the claim" not in said
    last = said[said.rindex("mst: no fault found (lower bound 0.") :]
    assert "it would have shown half the noise in 10 of 10 such audits." in last
    assert last.endswith("This is no proof of the claim.")
    assert "Noise on counts: no fault found. Looked at: " in said
    assert "It does not look at: choices of column pairs; what only the real table would bring out: " in said


def test_a_claim_without_noise_is_exceeded(
    workspace: Any, schema: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(SystemNoise, "gaussian", lambda self, values, sigma: values)
    ran = workspace.run(*CLAIM, "--schema", schema, "--time-limit-s", 2)
    assert ran.exit_code == 1
    assert EXCEEDS in ran.stdout


def test_an_audit_that_could_show_nothing_is_inconclusive(workspace: Any, schema: "Path") -> None:
    ran = workspace.run(*CLAIM, "--schema", schema, "--time-limit-s", 0.001)
    assert ran.exit_code == 3
    assert TOO_WEAK in ran.stdout


def test_a_model_is_audited_by_its_own_claim(workspace: Any, schema: "Path", table: "Path") -> None:
    model = workspace.folder / "model"
    fitted = workspace.run(
        "fit", table, "--schema", schema, "--generator", "independent", "--epsilon", 2, "--out", model
    )  # fmt: skip
    assert fitted.exit_code == 0
    ran = workspace.run("audit", "--model", model, "--time-limit-s", 0.3, "--json")
    assert ran.exit_code in (0, 3)
    assert ran.json["generator"]["epsilon"] == 2.0
    assert ran.json["white_box"]["epsilon"] == pytest.approx(2.0, rel=0.01)


def test_a_model_of_histories_is_audited_as_one(workspace: Any) -> None:
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 999]}, "time": {"kind": "integer", "bounds": [0, 60]},
        "state": {"kind": "categorical", "categories": ["x", "y", "z"]},
    }  # fmt: skip
    schema = workspace.write_schema(
        columns=columns, target="state", dataset="visits", n_units=400, entity="who", max_rows_per_unit=3, order="time"
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "who": np.repeat(np.arange(100), 4), "time": rng.integers(0, 61, 400), "state": rng.choice(["x", "y", "z"], 400)
    })  # fmt: skip
    table, model = workspace.write_table(frame, "visits.csv"), workspace.folder / "model"
    fit = ("fit", table, "--schema", schema, "--generator", "mst", "--epsilon", 3, "--set", "n_iterations=5")
    assert workspace.run(*fit, "--out", model).exit_code == 0
    ran = workspace.run("audit", "--model", model, "--time-limit-s", 0.1, "--json")
    assert ran.exit_code == 3  # so few fits are too weak to say
    found = ran.json["white_box"]
    assert "stand-in of histories" in found["ran_on"]
    assert {what.rsplit(", ", 1)[1] for what in found["covered"]} == {"first rows", "later rows"}
    assert len(found["covered"]) == 4
    assert [what for what in found["not_covered"] if "rows" in what and "choices" in what]
    assert not any(check["fault"] for check in found["checks"])


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        (["--generator", "independent"], "has no epsilon"),
        (["--generator", "sdv.ctgan", "--epsilon", 1], "takes no epsilon"),
        (["--generator", "none", "--epsilon", 1], "unknown"),
        (["--epsilon", 1], "something to audit"),
        (["--generator", "independent", "--epsilon", 1, "--model", "m"], "--model alone"),
        (["--generator", "independent", "--epsilon", 1, "--set", "bins=2"], "bins"),
        (["--generator", "independent", "--epsilon", 1, "--set", "epsilon=9"], "set twice"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_sentence(
    workspace: Any, schema: "Path", asked: list[Any], saying: str
) -> None:
    before, out = workspace.listing(), workspace.folder / "audit.json"
    ran = workspace.run("audit", *asked, "--schema", schema, "--out", out, "--quiet")
    assert ran.exit_code == 2
    assert ran.stderr.count("\n") == 1
    assert saying in ran.stderr
    assert workspace.listing() == before

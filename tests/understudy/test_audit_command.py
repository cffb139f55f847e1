"""`understudy audit`: a claim attacked without a run, its exit codes, and real rows only where somebody pays."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from evaluate.audit_result import EXCEEDS, NO_FAULT, TOO_WEAK, Audit
from evaluate.privacy.audit.black_box import BlackBox
from synth.dp.ledger import open_ledger
from synth.dp.mechanisms import SystemNoise
from understudy.audit import AuditAnswer

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = ("audit", "--generator", "independent", "--epsilon", 3)
BLACK = (*CLAIM, "--no-white-box", "--black-box", 20)


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
    assert ran.json["black_box"] is None
    found = Audit.from_dict(ran.json["white_box"])
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
    assert "it would have shown half the noise in 10 of 10 such audits, and 0." in last
    assert last.endswith("This is no proof of the claim.")
    for checked in (
        "Size of the noise on counts", "Exact numbers behind every draw", "Choices of column pairs",
        "Split into train and holdout",
    ):  # fmt: skip
        assert f"{checked}: no fault found. Looked at: " in said
    assert "By itself this attack would have shown half the noise in" in said
    assert "It does not look at: what only the real table would bring out; " in said


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
    black = workspace.run(*BLACK, "--schema", schema, "--json")
    assert black.exit_code == 3
    assert black.json["white_box"] is None
    assert black.json["black_box"]["ran_on"].startswith("a public stand-in of 2 columns")


def test_without_a_claim_only_tables_are_judged(workspace: Any, schema: "Path", table: "Path") -> None:
    asked = ("audit", "--generator", "independent", "--schema", schema, "--black-box", 20, "--public-table", table)
    ran = workspace.run(*asked, "--json")
    assert ran.exit_code == 0
    assert ran.json["verdict"] == "nothing is claimed"
    assert ran.json["white_box"] is None
    assert ran.json["black_box"]["epsilon"] is None
    assert "60 rows that are said to be public" in ran.json["black_box"]["ran_on"]
    assert "none" in ran.stderr  # the claim, in the table that people read


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


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        (["--generator", "independent"], "has no epsilon"),
        (["--generator", "sdv.ctgan", "--epsilon", 1], "takes no epsilon"),
        (["--generator", "none", "--epsilon", 1], "unknown"),
        (["--epsilon", 1], "something to audit"),
        (["--generator", "independent", "--epsilon", 1, "--model", "m"], "--model alone"),
        (["--generator", "independent", "--epsilon", 1, "--no-white-box"], "nothing is left"),
        (["--generator", "independent", "--epsilon", 1, "--train", "t.csv"], "--black-box"),
        (["--generator", "independent", "--black-box", 20, "--train", "t", "--public-table", "t"], "one of"),
        (["--generator", "independent", "--epsilon", 1, "--black-box", 20, "--public-table", "none.csv"], "none.csv"),
        (["--generator", "independent", "--epsilon", 1, "--set", "bins=2"], "bins"),
        (["--generator", "independent", "--epsilon", 1, "--set", "epsilon=9"], "set twice"),
        (["--generator", "independent", "--epsilon", 1, "--black-box", 5], "20"),
        (["--generator", "independent", "--epsilon", 1, "--black-box", 10**20], "1000000"),
        (["--generator", "independent", "--epsilon", 1, "--ledger", "ledger.db"], "--train"),
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


def test_real_rows_are_fitted_only_where_the_ledger_admits_every_fit(
    workspace: Any, schema: "Path", table: "Path"
) -> None:
    url = workspace.folder / "ledger.db"
    asked = (*BLACK, "--schema", schema, "--train", table)
    none = workspace.run(*asked)
    assert none.exit_code == 2
    assert "--ledger" in none.stderr
    ledger = open_ledger(str(url))
    ledger.open("people", unit="row", epsilon=4.0, n_units=900)
    refused = workspace.run(*asked, "--ledger", url)
    assert refused.exit_code == 2
    assert "these 20 releases" in refused.stderr
    assert [entry.kind for entry in ledger.history()] == ["opened"]
    gone = workspace.run(*BLACK, "--schema", schema, "--train", workspace.folder / "none.csv", "--ledger", url)
    assert gone.exit_code == 2
    assert [entry.kind for entry in ledger.history()] == ["opened"]


def test_every_fit_on_real_rows_is_reserved_before_the_first_and_none_is_released(
    workspace: Any, schema: "Path", table: "Path"
) -> None:
    url = workspace.folder / "ledger.db"
    ledger = open_ledger(str(url))
    ledger.open("people", unit="row", epsilon=60.0, n_units=900)
    ran = workspace.run(*BLACK, "--schema", schema, "--train", table, "--ledger", url, "--json")
    assert ran.exit_code == 3
    assert ran.json["black_box"]["ran_on"] == "real rows"
    kinds = [entry.kind for entry in ledger.history()]
    assert kinds == ["opened", *["reserved"] * 20, *["used"] * 20]
    assert "never released" in ledger.history()[1].content["what"]
    (holding,) = ledger.holdings()
    assert holding.spent_epsilon > 3.0 * 20**0.5
    assert ran.json["warnings"] == []
    table.write_text("\n".join(table.read_text().splitlines()[:-5]) + "\n")
    again = workspace.run(*BLACK, "--schema", schema, "--train", table, "--ledger", url, "--json")
    assert len(again.json["warnings"]) == 1
    assert "WARNING" in again.stderr.upper()


def test_either_audit_disproves_a_claim_and_only_one_that_could_have_says_within() -> None:
    rates = (0.1, 0.0, 0.2)
    black = BlackBox(1.0, 1e-6, 0.5, 2.0, 0.99, 300, 200, rates, rates, "copies of it", "a table")
    white = Audit(1.0, 1e-6, 0.5, 0.2, 9.0, 0.99, 200, rates, rates, "a stand-in")
    weak, loud = replace(white, strongest=1.5), replace(black, bound=1.1)
    assert (AuditAnswer(white, black).verdict, AuditAnswer(white, black).exit_code) == (NO_FAULT, 0)
    assert (AuditAnswer(white, loud).verdict, AuditAnswer(white, loud).exit_code) == (EXCEEDS, 1)
    assert AuditAnswer(None, loud).exit_code == AuditAnswer(replace(white, bound=1.1), black).exit_code == 1
    assert (AuditAnswer(weak, None).verdict, AuditAnswer(weak, None).exit_code) == (TOO_WEAK, 3)
    assert AuditAnswer(None, replace(black, strongest=0.9)).verdict == TOO_WEAK
    assert AuditAnswer(None, black).verdict == NO_FAULT
    assert AuditAnswer(None, replace(black, strongest=1.9)).verdict == TOO_WEAK
    assert AuditAnswer(None, replace(black, epsilon=None, bound=9.0)).exit_code == 0


def test_an_audit_that_dies_leaves_no_file_and_what_it_reserved_stays_spent(
    workspace: Any, schema: "Path", table: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    from synth.generators.marginal_generator import Independent

    fits = []
    fit = Independent.fit

    def dying(self: Independent, *given: Any, **named: Any) -> Any:
        fits.append(1)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(self, *given, **named)

    monkeypatch.setattr(Independent, "fit", dying)
    url, out = workspace.folder / "ledger.db", workspace.folder / "audit.json"
    ledger = open_ledger(str(url))
    ledger.open("people", unit="row", epsilon=60.0, n_units=900)
    ran = workspace.run(*BLACK, "--schema", schema, "--train", table, "--ledger", url, "--out", out)
    assert ran.exit_code == 130
    assert not out.exists()
    kinds = [entry.kind for entry in ledger.history()]
    assert kinds.count("reserved") == 20
    assert kinds.count("used") == 3

"""A job with free text through the command line: one release, one reservation, one statement."""

import json
from pathlib import Path
from typing import Any

import pytest

from synth.dp.ledger import open_ledger
from synth.generators.registry import load_model
from tests.extras.text import tiny
from tests.text_tables import TEXT, complaints
from understudy.extras.text.specification import STEPS
from understudy.extras.text.wrapper import THEMES
from understudy.run import stages

COLUMNS: dict[str, Any] = {
    "product": {"kind": "categorical", "categories": ["card", "loan", "mortgage", "transfer"]},
    "rating": {"kind": "integer", "bounds": [1, 5]},
    TEXT: {"kind": "text", "learn": True, "length": 60},
}
TINY: dict[str, Any] = {**tiny.TINY, "steps": 3, "sampling_rate": 0.1}


@pytest.fixture
def complained(workspace: Any) -> Any:
    """A workspace whose table has a column of text."""
    workspace.write_table(complaints(200, 0)[list(COLUMNS)])
    workspace.write_schema(dataset="complaints", target="rating", n_units=200, columns=COLUMNS)
    return workspace


def run(workspace: Any, *arguments: str) -> Any:
    return workspace.run("run", workspace.folder / "job.toml", "--out", workspace.folder / "out", *arguments)


@pytest.mark.slow
def test_a_job_with_texts_reserves_rows_and_texts_together_and_states_both(complained: Any) -> None:
    ledger = open_ledger(complained.folder / "ledger.db")
    ledger.open("complaints", unit="row", epsilon=3.0, n_units=200)
    complained.write_job(
        generators={"independent": {"epsilon": 1.0, "text": TINY}}, ledger={"url": "ledger.db"},
        evaluation={"measures": ["validity"]},
    )  # fmt: skip
    ran = run(complained, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]
    evaluation = json.loads((complained.folder / "out" / "evaluation.json").read_text())
    stated = evaluation["candidates"][0]["statement"]
    assert STEPS in [event["what"] for event in stated["events"]]
    assert len(stated["events"]) > 1
    assert 0.9 < stated["epsilon"] <= 1.0
    assert ran.json["ledger"]["reserved_epsilon"]["independent"] >= stated["epsilon"] - 1e-6
    (holding,) = ledger.holdings()
    assert holding.left_epsilon < 3.0 - 0.9
    assert (complained.folder / "out" / "training" / "texts" / "independent.jsonl").is_file()
    statement = load_model(complained.folder / "out" / "models" / "independent").statement
    assert statement is not None
    assert statement.epsilon == pytest.approx(stated["epsilon"])


def test_a_run_goes_on_with_the_public_texts_that_it_began_with_and_names_no_place_of_theirs(
    complained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = complained.folder / "public.txt"
    public.write_text("\n".join(complaints(60, 4)[TEXT]), encoding="utf-8")
    text = {name: value for name, value in TINY.items() if name != "sampling_rate"}
    text |= {"public_text": "public.txt", "public_epochs": 1, "themes": 3, "steps": 0}
    complained.write_job(
        generators={"independent": {"epsilon": 1.0, "text": text}}, release="independent",
        evaluation={"measures": ["validity"]},
    )  # fmt: skip

    def cut_short(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages, "sample", cut_short)
        assert run(complained).exit_code != 0
    before = public.read_text(encoding="utf-8")
    public.write_text(before.upper(), encoding="utf-8")
    ran = run(complained)
    assert ran.exit_code == 2
    assert "of another public_text of generators.independent" in ran.stderr
    public.write_text(before, encoding="utf-8")
    ran = run(complained)
    assert ran.exit_code == 3, ran.stderr  # one measure decides nothing
    out = complained.folder / "out"
    page = (out / "to-hand-on" / "report-to-hand-on.html").read_text(encoding="utf-8")
    assert "public.txt" in page
    assert "3 of the counted columns are themes of texts" in page
    for path in (
        out / "to-hand-on" / "report-to-hand-on.html",
        out / "to-hand-on" / "model-card.yaml",
        out / "evaluation.json",
    ):
        assert str(complained.folder) not in path.read_text(encoding="utf-8"), path.name
    # The file was for the fit: a claim is audited without it.
    public.unlink()
    audited = complained.run("audit", "--model", out / "models" / "independent", "--time-limit-s", "1", "--json")
    assert audited.exit_code != 2, audited.stderr
    assert THEMES in audited.json["white_box"]["not_covered"]


def test_a_job_whose_texts_cannot_be_learned_is_refused_before_a_row_is_read(complained: Any) -> None:
    complained.write_job(generators={"independent": {"text": {"public_text": "absent.txt"}}})
    Path(complained.folder / "table.csv").write_bytes(b"")
    ran = run(complained)
    (line,) = [line for line in ran.stderr.splitlines() if not line.startswith("Warning: ")]
    assert ran.exit_code == 2
    assert "cannot be read" in line
    assert line.endswith(".")

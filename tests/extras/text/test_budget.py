"""A job with free text through the command line: one release, one reservation, one statement."""

import json
from typing import Any

from synth.dp.ledger import open_ledger
from tests.extras.text import tiny
from tests.text_tables import TEXT, complaints
from understudy.extras.text.wrapper import STEPS

COLUMNS: dict[str, Any] = {
    "product": {"kind": "categorical", "categories": ["card", "loan", "mortgage", "transfer"]},
    "rating": {"kind": "integer", "bounds": [1, 5]},
    TEXT: {"kind": "text", "learn": True, "length": 60},
}
TINY: dict[str, Any] = {**tiny.TINY, "steps": 3, "sampling_rate": 0.1}


def test_a_job_with_texts_reserves_rows_and_texts_together_and_names_no_place_of_public_ones(workspace: Any) -> None:
    workspace.write_table(complaints(200, 0)[list(COLUMNS)])
    workspace.write_schema(dataset="complaints", target="rating", n_units=200, columns=COLUMNS)
    public, out = workspace.folder / "public.txt", workspace.folder / "out"
    public.write_text("\n".join(complaints(60, 4)[TEXT]), encoding="utf-8")
    ledger = open_ledger(workspace.folder / "ledger.db")
    ledger.open("complaints", unit="row", epsilon=3.0, n_units=200)
    text = {**TINY, "public_text": "public.txt", "public_epochs": 1, "themes": 3}
    workspace.write_job(
        generators={"independent": {"epsilon": 1.0, "text": text}}, release="independent",
        ledger={"url": "ledger.db"}, evaluation={"measures": ["validity"]},
    )  # fmt: skip
    ran = workspace.run("run", workspace.folder / "job.toml", "--out", out)
    assert ran.exit_code == 3, ran.stderr  # one measure decides nothing
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]
    evaluation = json.loads((out / "evaluation.json").read_text())
    stated = evaluation["candidates"][0]["statement"]
    assert STEPS in [event["what"] for event in stated["events"]]
    assert 0.9 < stated["epsilon"] <= 1.0
    page = out / "to-hand-on" / "report-to-hand-on.html"
    assert "3 of the counted columns are themes of texts" in page.read_text(encoding="utf-8")
    for path in (page, out / "to-hand-on" / "model-card.yaml", out / "evaluation.json"):
        assert str(workspace.folder) not in path.read_text(encoding="utf-8"), path.name

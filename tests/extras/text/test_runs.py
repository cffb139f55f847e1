"""Free text from the rows to the verdict: secrets repeated without epsilon are found, and under epsilon none are."""

import json
from typing import Any

import pytest

from evaluate.engine import evaluate_beside
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.tables import Real
from synth.dp.ledger import open_ledger
from synth.generators.registry import generator, load_model
from synth.schema import Schema
from tests.extras.text import tiny
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.wrapper import STEPS

pytestmark = pytest.mark.statistical
COPIED, PERSONAL = "privacy.texts.copied", "privacy.texts.personal"
MEASURES = ("privacy.texts", "privacy.texts.membership", "fidelity.texts", "utility.texts")
N_TRAIN = 500


def evaluated(tmp_path: Any, epsilon: float | None, **of_text: Any) -> tuple[Any, dict[str, str], list[str]]:
    """The evaluation of a table that was fitted, saved, loaded and sampled; outcomes of rules; its texts."""
    rows = complaints(N_TRAIN + 300, 5, n_secrets=12)
    train, holdout = rows[:N_TRAIN], rows[N_TRAIN:]
    schema: Schema = complaint_schema(None if epsilon is None else N_TRAIN)
    claimed = {} if epsilon is None else {"epsilon": epsilon}
    model = generator("independent", text={"d_model": 64, **of_text}, **claimed).fit(train, schema, seed=1)  # type: ignore[arg-type]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    synthetic = loaded.sample(1_500, seed=2)
    evaluation = evaluate_beside(
        Real.prepare(train, holdout, schema), {"made": synthetic}, measures=MEASURES,
        statements={} if loaded.statement is None else {"made": loaded.statement},
    )  # fmt: skip
    verdict = judge_candidate(evaluation.candidates[0], load_policy("internal"), real=evaluation.real)
    return evaluation, {f.rule.measure: f.outcome for f in verdict.findings}, synthetic[TEXT].tolist()


def repeated(evaluation: Any) -> list[str]:
    columns = evaluation.candidates[0].figures["text_copies"]["columns"]
    return [each["sentence"] for column in columns for each in column["sentences"]]


def test_secrets_that_a_fit_without_epsilon_repeats_fail_with_the_sentence(tmp_path: Any) -> None:
    evaluation, outcomes, texts = evaluated(tmp_path, None, epochs=100)
    secrets = [text[text.index("Call ") :] for text in complaints(N_TRAIN + 300, 5, n_secrets=12)[TEXT][:12]]
    leaked = [secret for secret in secrets if any(secret in text for text in texts)]
    assert leaked
    assert "FAIL" in (outcomes[COPIED], outcomes[PERSONAL])
    assert any(secret.split()[-1].rstrip(".").casefold() in sentence.casefold() for secret in leaked
               for sentence in repeated(evaluation))  # fmt: skip


def test_no_secret_is_repeated_under_epsilon(tmp_path: Any) -> None:
    epsilon = 8.0
    public = tmp_path / "public.txt"  # other complaints, of nobody in the table
    public.write_text("\n".join(complaints(600, 77)[TEXT]), encoding="utf-8")
    evaluation, outcomes, texts = evaluated(tmp_path, epsilon, public_text=str(public), steps=60)
    secrets = [text[text.index("Call ") :] for text in complaints(N_TRAIN + 300, 5, n_secrets=12)[TEXT][:12]]
    assert not [secret for secret in secrets if any(secret in text for text in texts)]
    assert outcomes[COPIED] != "FAIL"
    assert outcomes[PERSONAL] != "FAIL"
    assert repeated(evaluation) == []
    assert evaluation.candidates[0].statement.epsilon <= epsilon


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

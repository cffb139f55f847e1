"""Free text from the rows to the verdict: secrets repeated without epsilon are found, and under epsilon none are."""

from typing import Any

import pytest

from evaluate.engine import evaluate_beside
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.tables import Real
from synth.generators.registry import generator, load_model
from synth.schema import Schema
from tests.text_tables import TEXT, complaint_schema, complaints

pytestmark = pytest.mark.statistical
COPIED, PERSONAL = "privacy.texts.copied", "privacy.texts.personal"
MEASURES = ("privacy.texts",)
N_TRAIN = 300


def evaluated(tmp_path: Any, epsilon: float | None, **of_text: Any) -> tuple[Any, dict[str, str], list[str]]:
    """The evaluation of a table that was fitted, saved, loaded and sampled; outcomes of rules; its texts."""
    rows = complaints(N_TRAIN + 300, 5, n_secrets=12)
    train, holdout = rows[:N_TRAIN], rows[N_TRAIN:]
    schema: Schema = complaint_schema(None if epsilon is None else N_TRAIN)
    claimed = {} if epsilon is None else {"epsilon": epsilon}
    model = generator("independent", text={"d_model": 64, **of_text}, **claimed).fit(train, schema, seed=1)  # type: ignore[arg-type]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    synthetic = loaded.sample(800, seed=2)
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
    evaluation, outcomes, texts = evaluated(tmp_path, epsilon, public_text=str(public), steps=40)
    secrets = [text[text.index("Call ") :] for text in complaints(N_TRAIN + 300, 5, n_secrets=12)[TEXT][:12]]
    assert not [secret for secret in secrets if any(secret in text for text in texts)]
    assert outcomes[COPIED] != "FAIL"
    assert outcomes[PERSONAL] != "FAIL"
    assert repeated(evaluation) == []
    assert evaluation.candidates[0].statement.epsilon <= epsilon

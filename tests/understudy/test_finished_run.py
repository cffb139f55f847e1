"""What one finished run leaves: a whole folder, evidence that agrees, cards, books, and a public part apart."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.result import Evaluation
from evaluate.result_io import evaluation_from
from evaluate.text import loss, room
from reports.guarantee import AFTER_RUN
from synth.dp.accounting import rdp_curve
from synth.dp.events import event_of
from synth.dp.ledger import open_ledger
from tests.understudy.conftest import Ran, Workspace, run_command
from tests.understudy.planted import N_ROWS, SCHEMA, SEED, planted
from understudy.bundle import evidence
from understudy.bundle.evidence import write_public_folder
from understudy.bundle.manifest import About, rules_of
from understudy.provenance import sha256
from understudy.run.plan import make_plan
from understudy.run.run import RunOutcome

LABELS = ("independent", "plain")
N_FIT, N_RELEASED = 3, 1 + 3 + 1 + 1
"""Draws: a count for each column; released are rows, a distance for each column, their mean, and the accuracy."""
TEXTS = (".json", ".html", ".toml", ".yaml", ".md", ".csv", ".xml", ".prom")


@pytest.fixture(scope="module")
def evaluation(finished_out: Path) -> Evaluation:
    return evaluation_from((finished_out / "evaluation.json").read_text())


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_one_whole_folder(finished: tuple[Workspace, Ran]) -> None:
    workspace, ran = finished
    out = workspace.folder / "out"
    assert ran.exit_code == 0, ran.stderr
    public = ("independent.csv", "report-to-hand-on.html", "model-card.yaml", "README.md", "croissant.json",
              "schema.toml", "released.json", "manifest.json", "manifest.json.sig")  # fmt: skip
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == {
        "report.html", "evaluation.json", "verdict.json", "summary.md", "metrics.public.prom", "metrics.internal.prom",
        "junit.xml", "job.toml", "schema.toml", "policy.toml", "waivers.toml", "manifest.json", "manifest.json.sig",
        *(f"synthetic/{label}.csv" for label in LABELS),
        *(f"cards/{label}.{end}" for label in LABELS for end in ("yaml", "md")),
        *(f"models/{label}/{name}" for label in LABELS for name in ("model.json", "arrays.safetensors")),
        *(f"to-hand-on/{name}" for name in public),
    }  # fmt: skip
    assert not [path for path in workspace.folder.iterdir() if path.name.startswith(".")]
    assert "independent: PASS under policy lenient" in ran.stderr
    assert "QZEBRA" not in ran.stdout + ran.stderr and "clamped" not in ran.stderr
    content = json.loads((out / "verdict.json").read_text())
    assert (content["verdict"], [each["candidate"] for each in content["candidates"]]) == ("PASS", [*LABELS])


def test_the_evaluation_says_where_it_came_from(
    finished: tuple[Workspace, Ran], finished_out: Path, evaluation: Evaluation
) -> None:
    known, out = evaluation.provenance, finished_out
    inputs = {"policy": "lenient.toml", "waivers": "answers.toml", "job": "job.toml", "schema": "schema.toml"}
    for name, file in inputs.items():  # as they were understood, though somebody edited them meanwhile
        digest = sha256(finished[0].folder / file)
        assert digest == sha256(out / f"{name}.toml") == getattr(known, f"{name}_sha256"), name
    assert known.files_sha256["synthetic/plain.csv"] == sha256(out / "synthetic" / "plain.csv")
    assert {"python", "understudy", "numpy", "opendp"} <= set(known.versions)
    private, plain = evaluation.candidates
    assert plain.statement is None
    assert 0 < private.statement.epsilon <= 1.0  # type: ignore[union-attr]
    rows = [len(pd.read_csv(out / "synthetic" / f"{label}.csv")) for label in LABELS]
    assert rows == [SCHEMA["n_units"], 300]  # the former is public; train is smaller
    key = (finished[0].folder / "fingerprint.key").read_bytes()
    for path in (path for path in out.rglob("*") if path.is_file()):
        assert key not in path.read_bytes() and key.hex().encode() not in path.read_bytes()


def test_every_table_has_its_card_and_a_run_goes_by_one_name(finished_out: Path, evaluation: Evaluation) -> None:
    private, plain = (yaml.safe_load((finished_out / "cards" / f"{label}.yaml").read_text()) for label in LABELS)
    assert (private["form"], private["title"], private["use"]["license"]) == ("internal", "A | title", "cc-by-4.0")
    assert [card["privacy"]["status"] for card in (private, plain)] == ["formal", "none"]
    assert private["privacy"]["n_units"] == SCHEMA["n_units"]
    run_id = evaluation.provenance.run_id
    assert private["made"]["run_id"] == run_id and re.fullmatch("[0-9a-f]{16}", run_id)
    public, internal = (metrics(finished_out / f"metrics.{name}.prom") for name in ("public", "internal"))
    named = {"model": "independent", "dataset": "planted", "run_id": run_id}
    consumed = public["dp_training_epsilon_consumed"]
    assert consumed == [named, {**named, "model": evidence.ALONE}]
    assert public["dp_training_budget_remaining"] == [{"dataset": "planted"}]
    assert ("understudy_verdict" in public, "understudy_verdict" in internal) == (False, True)
    assert (finished_out / "summary.md").read_text().startswith("# A &#124; title\n")


def metrics(path: Path) -> dict[str, list[dict[str, str]]]:
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return {family.name: [sample.labels for sample in family.samples] for family in families}


def test_the_command_writes_a_card_as_the_run_did(
    finished: tuple[Workspace, Ran], finished_out: Path, evaluation: Evaluation, tmp_path: Path
) -> None:
    ran = run_command(
        "card", finished_out / "evaluation.json", "--candidate", "independent", "--out", tmp_path / "c.md", "--job",
        finished[0].folder / "job.toml", "--table", finished_out / "synthetic" / "independent.csv", "--to-hand-on",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    both = evaluation.provenance.released_numbers.together  # type: ignore[union-attr]
    privacy = yaml.safe_load((tmp_path / "c.yaml").read_text())["privacy"]
    assert privacy == yaml.safe_load((finished_out / "to-hand-on" / "model-card.yaml").read_text())["privacy"]
    assert (privacy["epsilon"], privacy["delta"]) == (both.epsilon, both.delta)
    assert [(part["of"], part["releases"]) for part in privacy["composition"]] == [("fit", 1), ("published", 2)]


# What it cost.


def test_a_run_pays_for_the_fit_and_the_numbers(finished: tuple[Workspace, Ran], evaluation: Evaluation) -> None:
    ledger, known = open_ledger(finished[0].folder / "ledger.db"), evaluation.provenance
    (holding,) = ledger.holdings()
    together = known.released_numbers.together  # type: ignore[union-attr]
    events = [event_of(e.what, e.mechanism, e.noise, e.count) for e in together.events]
    assert sum(event.count for event in events) == N_FIT + N_RELEASED
    np.testing.assert_allclose(holding.curve.divergences, rdp_curve(events).divergences, rtol=1e-9)
    entries = ledger.history()
    reserved = [entry.body for entry in entries if entry.kind == "reserved"]
    assert ["numbers published about independent of a run" in body for body in reserved] == [False, True]
    assert [entry.kind for entry in entries].count("committed") == 2
    assert ledger.verify() == ()
    assert known.composed.epsilon == together.epsilon  # type: ignore[union-attr]
    assert known.ledger.spent_epsilon == holding.spent_epsilon  # type: ignore[union-attr]
    assert finished[1].json["ledger"]["left_epsilon"] == pytest.approx(holding.left_epsilon)


def test_every_text_says_the_same_of_the_cost_and_of_which_moment(
    finished: tuple[Workspace, Ran], finished_out: Path, evaluation: Evaluation
) -> None:
    (holding,) = open_ledger(finished[0].folder / "ledger.db").holdings()
    both = evaluation.provenance.released_numbers.together  # type: ignore[union-attr]
    for path in (finished_out / "to-hand-on" / "model-card.yaml", finished_out / "cards" / "independent.yaml"):
        position = yaml.safe_load(path.read_text())["privacy"]["ledger"]
        booked = (position["note"]["spent_epsilon"], position["left_epsilon"], position["moment"])
        assert booked == (holding.spent_epsilon, holding.left_epsilon, AFTER_RUN)
    public = finished_out / "to-hand-on" / evidence.PUBLIC_REPORT
    for path in (finished_out / "report.html", public):
        assert f"{loss(holding.spent_epsilon)} <small>" in path.read_text() and AFTER_RUN in path.read_text()
    summary = (finished_out / "summary.md").read_text()
    assert f"{room(holding.left_epsilon)} of 10 is left {AFTER_RUN}." in summary
    claim = f"epsilon {loss(both.epsilon)}, delta {loss(both.delta)}, for the table and the numbers published"
    assert claim in summary
    assert f"&epsilon; = {loss(both.epsilon)}</b>" in public.read_text()


def test_the_released_numbers_are_the_same_wherever_they_stand_and_are_priced_anew(
    finished_out: Path, evaluation: Evaluation
) -> None:
    path = finished_out / "to-hand-on" / evidence.NUMBERS
    numbers = json.loads(path.read_text())["numbers"]
    assert numbers == json.loads(evaluation.to_json())["provenance"]["released_numbers"]["numbers"]
    assert len(numbers) == N_RELEASED + 1
    for number in numbers:
        estimate: Any = evaluation.candidates[0].find(number["measure"], tuple(number["subject"]))
        assert (estimate.value, estimate.low, estimate.high) == (number["value"], number["low"], number["high"])
    for name in ("independent", evidence.ALONE, evidence.BOTH):
        ran = run_command("ledger", "show", "--release", path, "--candidate", name)
        assert (ran.exit_code, "PASS: the claim" in ran.stdout) == (0, True), ran.stderr


def test_the_verdict_counts_the_numbers_too(evaluation: Evaluation) -> None:
    claim = evaluation.candidates[0].statement
    assert claim is not None
    rule = {"measure": "statement.epsilon", "limit": claim.epsilon + 0.01, "why": "As fitted."}
    policy = build_policy({"name": "p", "version": 1, "audience": "a", "rules": [rule]})
    assert judge(evaluation, [policy])[0].verdict == "FAIL"
    plain = replace(evaluation.provenance, released_numbers=None, composed=None, ledger=None)
    assert judge(replace(evaluation, provenance=plain), [policy])[0].findings[0].outcome == "PASS"


# What may leave.


def test_the_public_folder_holds_nothing_that_was_read_off_real_rows(
    finished: tuple[Workspace, Ran], finished_out: Path, evaluation: Evaluation
) -> None:
    out, public = finished_out, texts(finished_out / "to-hand-on")
    everything = "\n".join(public.values())
    around = "\n".join(text for name, text in public.items() if name != "independent.csv")
    around = re.sub(r'"size": \d+', "", around)  # of a file, in the manifest: a count by chance
    real = planted()
    assert not set(real["name"]) & set(re.findall(r"[A-Z]{6}[a-z]{2}\d{4}", everything))
    assert "ZEBRA" not in around
    incomes = {f"{income:.10f}".rstrip("0") for income in real["income"] if 0 < income < 200}
    assert not incomes & set(re.findall(r"\d+\.\d+", everything))
    inside = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.suffix in TEXTS}
    showing = {name for name, text in inside.items() if incomes & set(re.findall(r"\d+\.\d+", text))}
    assert showing == {"evaluation.json", "report.html"}
    assert not any("ZEBRA" in text for text in (*inside.values(), finished[1].stdout, finished[1].stderr))
    key = (finished[0].folder / "fingerprint.key").read_bytes()
    contents = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(key in content or key.hex().encode() in content for content in contents)
    counts = {N_ROWS, evaluation.real.train_rows, evaluation.real.holdout_rows, int(real["ill"].sum())}
    noisy = {count for number in json.loads(public["released.json"])["numbers"] for count in number["drawn"]}
    for count in counts - noisy:  # one in fifty is the real count by chance
        for form in (f"{count}", f"{count:,}", f"{count:,}".replace(",", "\u202f"), f"{count:,}".replace(",", " ")):
            assert re.search(rf"(?<![\w.]){re.escape(form)}(?!\w)", around) is None, form
    secrets = [value.partition(":")[2] for value in evaluation.provenance.fingerprints.values()]
    entries = open_ledger(finished[0].folder / "ledger.db").history()
    secrets += [text for entry in entries for text in (entry.hash, entry.token) if text]
    secrets += re.findall(r"[0-9a-f]{32,}", " ".join(entry.body for entry in entries))
    secrets += ["hmac-sha256", sha256(finished[0].folder / "table.csv")]
    assert not [secret for secret in secrets if secret in everything.lower()]


def test_the_public_folder_holds_no_seed_no_verdict_and_no_digest_of_what_stays_inside(
    finished_out: Path, evaluation: Evaluation
) -> None:
    out = finished_out
    everything = "\n".join(texts(out / "to-hand-on").values())
    about = json.loads((out / "to-hand-on" / "manifest.json").read_text())["predicate"]["about"]
    assert (about["verdict"], about["verdicts"], about["seeds"]) == (None, {}, {})
    assert "platform" not in about["versions"] and str(SEED) not in everything
    inside = [path for path in out.rglob("*") if path.is_file() and "to-hand-on" not in path.relative_to(out).parts]
    shared = {sha256(path) for path in (out / "to-hand-on").iterdir()}
    assert sha256(out / "synthetic" / "independent.csv") in shared  # what was made here goes on byte for byte
    assert not [path.name for path in inside if sha256(path) not in shared and sha256(path) in everything]
    columns = ("columns.tvd", "columns.tvd.excess", "columns.ks", "columns.wasserstein", "columns.chi2")
    estimates = evaluation.candidates[0].estimates
    values = [repr(e.value).lstrip("0.") for e in estimates if e.measure in columns and len(repr(e.value)) > 8]
    measured = [digits[:6] for digits in values if len(digits) > 8]
    assert len(measured) > 5
    assert not [digits for digits in measured if digits in everything]


PUBLIC_PARTS = {
    "statement", "audit", "generator", "expected", "released_numbers", "attempts", "versions", "run_id", "schema",
    "name", "job", "policy_sha256", "release", "composed", "sweep", "ledger",
}  # fmt: skip
"""Parts of an evaluation that what is public may rest on: configuration, what was released and what that cost, the
declared schema."""


def in_order(content: dict[str, Any]) -> dict[str, Any]:
    """Scrambled numbers of an estimate or an area, which lies within its interval even so."""
    middle = next((name for name in ("value", "auc") if {name, "low", "high"} <= content.keys()), None)
    if middle is None or content["low"] is None:
        return content
    names = ("low", middle, "high")
    return {**content, **dict(zip(names, sorted(content[name] for name in names), strict=True))}


def scrambled(content: Any, rng: np.random.Generator, key: str = "") -> Any:
    """Every value exchanged that no public thing may rest on."""
    if key in PUBLIC_PARTS:
        return content
    if key == "shift":  # it was tested, or says why not
        return {**content, "p_value": rng.random()}
    if isinstance(content, dict):
        return in_order({name: scrambled(value, rng, name) for name, value in content.items()})
    if isinstance(content, list):
        return [scrambled(value, rng, key) for value in content]
    if isinstance(content, int | float) and not isinstance(content, bool):
        is_share = isinstance(content, float) and abs(content) <= 1.0
        return rng.random() if is_share else type(content)(1e5 * (1 + 9 * rng.random()))
    kept = not isinstance(content, str) or content == "" or key in ("measure", "direction", "case", "reason")
    return content if kept else f"text{rng.random()}"


def test_no_file_of_the_public_folder_moves_with_what_was_measured(
    finished: tuple[Workspace, Ran], finished_out: Path, tmp_path: Path
) -> None:
    content = json.loads((finished_out / "evaluation.json").read_text())
    version, plan = content.pop("schema_version"), make_plan(finished[0].folder / "job.toml", tmp_path / "none")
    public = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        changed = content if seed == 0 else {key: scrambled(value, rng, key) for key, value in content.items()}
        evaluation = evaluation_from(json.dumps({**changed, "schema_version": version}))
        (tmp_path / str(seed) / "synthetic").mkdir(parents=True)
        for name in ("synthetic/independent.csv", "schema.toml"):
            (tmp_path / str(seed) / name).write_bytes((finished_out / name).read_bytes())
        about = About(kind="internal", made_at="2026-11-22T00:00:00Z", title=plan.title, policy=rules_of(plan.policy))
        write_public_folder(RunOutcome(plan, evaluation, ()).delivery, tmp_path / str(seed), about, None)
        public.append({path.name: path.read_bytes() for path in (tmp_path / str(seed) / "to-hand-on").iterdir()})
    assert len(public[0]) > 5
    for other in public[1:]:
        assert [name for name in public[0] if other[name] != public[0][name]] == []

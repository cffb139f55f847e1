"""Networks in a job: cut short at any moment they go on from their checkpoint, and what they tell is in the output."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from evaluate.audit_result import EXCEEDS, NO_FAULT, Audit
from evaluate.privacy.audit.canaries import N_STEP_CANARIES
from synth.dp.accounting import rdp_curve
from synth.dp.events import SubsampledGaussianEvent, event_of
from synth.dp.ledger import open_ledger
from synth.dp.mechanisms import SystemNoise
from synth.dp.renyi_curve import RdpCurve
from synth.generators.registry import load_model
from tests.understudy.driving import SCRIPT, Driver, charged, prepared, serving

N_EPOCHS, N_STEPS = 4, 6
GENERATORS: dict[str, dict[str, Any]] = {
    "net": {
        "generator": "ctgan", "epochs": N_EPOCHS, "batch_size": 300, "d_latent": 4, "generator_widths": [8],
        "critic_widths": [8],
    },
    "private": {
        "generator": "tvae", "epsilon": 2.0, "steps": N_STEPS, "n_bins": 6, "d_latent": 3, "encoder_widths": [8],
        "decoder_widths": [8],
    },
}  # fmt: skip
PRIVATE_LINE = {"step", "steps", "epsilon", "delta", "noise_multiplier", "sampling_rate", "seconds"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    script = SCRIPT.with_name("training_driver.py")
    with serving(tmp_path_factory.mktemp("key"), script, OMP_NUM_THREADS="1") as process:
        yield Driver(process)


def passed(folder: Path, moment: str) -> int:
    """How often a moment was passed by in the last attempt."""
    return (folder / "moments.log").read_text().splitlines().count(moment)


def log(folder: Path, label: str) -> list[dict[str, Any]]:
    lines = (folder / "out" / "training" / f"{label}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def weights(folder: Path, label: str) -> bytes:
    return (folder / "out" / "models" / label / "arrays.safetensors").read_bytes()


def lost_step(folder: Path) -> SubsampledGaussianEvent:
    """A step of the private fit."""
    statement = load_model(folder / "out" / "models" / "private").statement
    assert statement is not None
    events = (event_of(each.what, each.mechanism, each.noise, each.count) for each in statement.events)
    (event,) = (event for event in events if isinstance(event, SubsampledGaussianEvent))
    return replace(event, count=1)


def assert_charged(folder: Path, before: RdpCurve, event: SubsampledGaussianEvent) -> None:
    """The ledger holds the cost of an event more than before, at every order that has one."""
    more, cost = (np.array(curve.divergences) for curve in (charged(folder), rdp_curve([event])))
    known = np.isfinite(cost)
    assert known.sum() > 20
    np.testing.assert_allclose(more[known], (np.array(before.divergences) + cost)[known], rtol=1e-9)
    assert (cost[known] > 1e-6 * more[known]).all()


@pytest.fixture(scope="module")
def whole(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody cuts short."""
    from tests.understudy.conftest import Workspace, small_table

    workspace = Workspace(tmp_path_factory.mktemp("whole"))
    workspace.write_table(small_table())
    folder = prepared(workspace, "uninterrupted", generators=GENERATORS)
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    return folder


@pytest.mark.statistical  # two runs that train two networks
def test_training_without_epsilon_that_was_killed_goes_on_and_ends_where_it_would_have(
    driver: Driver, workspace: Any, whole: Path
) -> None:
    folder = prepared(workspace, "killed", generators=GENERATORS)
    assert driver.attempt(folder, die_at="epoch:after#2") == -9
    assert (folder / ".out.unfinished" / "training" / "net" / "checkpoint.pt").exists()
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    assert passed(folder, "epoch:after") == 2
    assert weights(folder, "net") == weights(whole, "net")
    assert [line["epoch"] for line in log(folder, "net")] == list(range(1, N_EPOCHS + 1))


def test_private_training_that_was_killed_goes_on_and_its_lost_step_is_charged_again(
    driver: Driver, workspace: Any
) -> None:
    folder = prepared(workspace, "killed", generators={"private": GENERATORS["private"]})
    assert driver.attempt(folder, die_at="step:after#3") == -9
    once = charged(folder)
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    assert passed(folder, "step:after") == 3
    assert_charged(folder, once, lost_step(folder))
    assert [entry.kind for entry in open_ledger(folder / "ledger.db").history()].count("charged") == 1
    lines = log(folder, "private")
    assert [line["step"] for line in lines] == list(range(1, N_STEPS + 1))
    assert all(set(line) == PRIVATE_LINE for line in lines)  # no loss: it reads real rows
    statement = load_model(folder / "out" / "models" / "private").statement
    assert statement is not None and lines[-1]["epsilon"] == pytest.approx(statement.epsilon, rel=1e-3)
    assert not list((folder / "out").rglob("*.pt")) and not (folder / ".out.unfinished").exists()


@pytest.mark.statistical  # two runs that train two networks
def test_a_finished_training_is_neither_done_nor_paid_for_again(driver: Driver, workspace: Any, whole: Path) -> None:
    folder = prepared(workspace, "killed", generators=GENERATORS)
    moments = (whole / "moments.log").read_text().splitlines()
    trained = len(moments) - moments[::-1].index("checkpoint:after")
    assert driver.attempt(folder, die_at=f"replace:after#{moments[:trained].count('replace:after')}") == -9
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    assert passed(folder, "epoch:after") == passed(folder, "step:after") == 0
    assert len(log(folder, "private")) == N_STEPS
    np.testing.assert_allclose(charged(folder).divergences, charged(whole).divergences, rtol=1e-9)


def test_a_private_single_fit_logs_no_loss_and_keeps_no_checkpoint(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "single", total=None, generators={"private": GENERATORS["private"]})
    named = {**GENERATORS["private"]}
    fit = ["fit", "table.csv", "--schema", "schema.toml", "--generator", named.pop("generator"), "--out", "model"]
    chosen = [part for key, value in named.items() for part in ("--set", f"{key}={value}")]
    assert driver.attempt(folder, arguments=[*fit, *chosen, "--training", "training"]) == 0
    assert {path.name for path in (folder / "training").iterdir()} == {"log.jsonl"}
    lines = [json.loads(line) for line in (folder / "training" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, N_STEPS + 1))
    assert all(set(line) == PRIVATE_LINE for line in lines)
    assert "absl" not in (folder / "stderr.txt").read_text()


def audited(workspace: Any) -> tuple[Any, dict[str, Any], str]:
    """What `run` said of the private network, its candidate, and the outcome of the rule about the audit."""
    folder = workspace.folder
    workspace.write_job(
        release="private", generators={"private": GENERATORS["private"]},
        evaluation={"measures": ["validity"], "audit": True},
    )  # fmt: skip
    ran = workspace.run("run", folder / "job.toml", "--out", folder / "out")
    (candidate,) = json.loads((folder / "out" / "evaluation.json").read_text())["candidates"]
    (judged,) = json.loads((folder / "out" / "verdict.json").read_text())["candidates"]
    outcomes = {finding["rule"]["measure"]: finding["outcome"] for finding in judged["findings"]}
    return ran, candidate, outcomes["privacy.audit.excess"]


@pytest.mark.statistical
def test_what_is_released_by_dp_sgd_is_audited_and_the_rule_about_it_passes(workspace: Any) -> None:
    _, candidate, outcome = audited(workspace)
    steps, counts = candidate["audit"]["parts"]
    assert TypeAdapter(Audit).validate_json(json.dumps(candidate["audit"])).verdict == NO_FAULT
    assert (steps["n_trials"], counts["n_trials"] > 0, outcome) == (N_STEP_CANARIES, True, "PASS")
    assert candidate["audit"]["epsilon"] == pytest.approx(2.0, rel=0.01)
    report = (workspace.folder / "out" / "report.html").read_text()
    assert "Audit of one training run and the counts before it: no fault found; lower bound" in report


@pytest.mark.slow
def test_a_training_with_half_its_noise_is_not_released(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    floats = SystemNoise.floats
    monkeypatch.setattr(SystemNoise, "floats", lambda self, values, sigma: floats(self, values, sigma / 2))
    ran, candidate, outcome = audited(workspace)
    assert TypeAdapter(Audit).validate_json(json.dumps(candidate["audit"])).verdict == EXCEEDS
    assert (ran.exit_code, outcome) == (1, "FAIL")
    assert "the audit disproves the privacy statement of private" in ran.stderr

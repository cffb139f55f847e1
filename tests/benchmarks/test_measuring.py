"""What benchmarks measure with: peers in processes of their own, plain steps beside DP-SGD, seconds, canaries."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import synth
from benchmarks import large, peer, shelf
from benchmarks.adult_table import DELTA, SCHEMA
from benchmarks.neural_limits import private_step
from benchmarks.neural_peers import real_epsilon
from benchmarks.public_texts import like, unlike
from benchmarks.runs import NOT_INSTALLED
from benchmarks.text_canaries import exposures, find_canaries, plant
from benchmarks.text_fits import LENGTH, N_SECRETS, REPEATED, SINGLE, Case
from synth.dp.accounting import epsilon_pld
from synth.dp.events import SubsampledGaussianEvent
from synth.neural import dp_sgd
from synth.schema import Schema, build_schema
from synth.schema_file import read_schema
from tests.text_tables import TEXT, complaint_schema, complaints

# ---- A run of several processes.

BUSY = "import time\nheld = bytearray(1 << 26)\nwhile time.process_time() < 1: pass"


def test_what_a_run_costs_is_that_of_the_processes_that_it_starts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LOOK_S", 0.02)
    alone = large.of_all(lambda: None)
    cost = large.of_all(lambda: subprocess.run([sys.executable, "-c", BUSY], check=True))
    assert cost["cpu_s"] > 0.5 > alone["cpu_s"]  # processes that end are counted by hundredths of a second
    assert cost["peak_mib"] > 64


# ---- Peers that learn from a table as it is.

SCRIPTS = Path(peer.__file__).parent / "peers"
SHUFFLED = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(SCRIPTS)!r})
from evaluated import measured, read_csv, read_task, write_result
folder, made = Path(sys.argv[1]), []
task = read_task(folder)
train = read_csv(folder / "train.csv", [name for name, one in task["columns"].items() if one["kind"] != "real"])
cost = measured(lambda: made.append(train.sample(frac=1, random_state=task["seed"])))
made[0].to_csv(folder / "synthetic.csv", index=False)
write_result(folder, {{**cost, "epsilon": task.get("epsilon", 0.0)}}, ["pandas"])
"""
"""A peer that gives the real rows back in another order."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Schema]:
    rng, n, path = np.random.default_rng(4), 300, tmp_path_factory.mktemp("peer") / "made.csv"
    days = pd.to_datetime("2019-06-01") + pd.to_timedelta(rng.integers(0, 200, n), "D")
    times = pd.to_datetime("2021-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), "s")
    absent = rng.random(n) < 0.2
    pd.DataFrame({
        "person": [f"P{i:05d}" for i in range(n)],
        "day": pd.Series(days.strftime("%d.%m.%Y")).mask(absent),
        "time": times.strftime("%Y-%m-%dT%H:%M:%S"),
        "zoned": times.tz_localize("UTC").strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        "code": pd.Series(np.array(["007", "n/a", "b"])[rng.integers(3, size=n)]).mask(absent),
        "count": pd.Series(rng.integers(0, 900, n)).mask(rng.random(n) < 0.1),
        "amount": rng.normal(size=n).round(3),
        "target": rng.integers(2, size=n),
    }).to_csv(path, index=False)  # fmt: skip
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
    schema = synth.infer_schema(frame, target="target")
    return frame, synth.declare_schema(schema, n_units=len(frame), dataset="made")


def install(monkeypatch: pytest.MonkeyPatch, script: Path, content: str, python: str = sys.executable) -> None:
    script.write_text(content)
    monkeypatch.setitem(peer.TABLE_PEERS, "fake", peer.TablePeer(Path(python), script))


def test_a_table_with_gaps_and_times_comes_back_as_it_was(
    table: tuple[pd.DataFrame, Schema], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, schema = table
    kinds = {schema.columns[name].kind for name in schema.learned}
    assert kinds == {"date", "datetime", "categorical", "integer", "real"}
    install(monkeypatch, tmp_path / "fake.py", SHUFFLED)
    run = peer.run_peer("fake", frame, schema, {}, 3, 60.0)
    assert run.synthetic is not None, run.failure
    expected = frame[list(schema.learned)].sample(frac=1, random_state=3).reset_index(drop=True)
    pd.testing.assert_frame_equal(shelf._as_read(run.synthetic, frame, schema), expected)
    assert run.facts["peak_mib"] > 10
    assert run.versions is not None and set(run.versions) == {"pandas", "python"}
    days = peer._from_iso(pd.Series(["1999-01-01", None, "2099-01-01 00:00:00"]), "day", schema)
    low, high = schema.columns["day"].bounds  # type: ignore[union-attr]
    assert days.tolist() == [low.strftime("%d.%m.%Y"), None, high.strftime("%d.%m.%Y")], (
        "beyond the bounds: the nearest"
    )


@pytest.mark.parametrize(
    ("content", "python", "limit_s", "failure"),
    [
        ("raise ValueError('too few rows')", sys.executable, 60.0, "ValueError: too few rows"),
        ("import time; time.sleep(60)", sys.executable, 0.5, "stopped after 0 s"),
        ("", "/no environment/python", 60.0, f"fake is {NOT_INSTALLED}"),
    ],
)
def test_a_peer_that_fails_says_why(
    content: str, python: str, limit_s: float, failure: str, table: tuple[pd.DataFrame, Schema], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    install(monkeypatch, tmp_path / "fake.py", content, python)
    run = peer.run_peer("fake", *table, {}, 0, limit_s)
    assert run.synthetic is None
    assert failure in str(run.failure)
    assert shelf._is_to_do({"failure": run.failure}) is (failure == f"fake is {NOT_INSTALLED}")


def test_codes_of_adult_become_values_and_the_same_codes_again() -> None:
    coder = peer.Codes(read_schema(SCHEMA))  # a code that is missing or unknown is drawn from the column's others
    codes = pd.DataFrame({name: np.arange(42) % size for name, size in coder.sizes.items()})
    assert len(codes.columns) == 15 and codes.max().max() == 41
    again = coder.encode(coder.decode(codes, 1))
    assert again.value_counts().sort_index().equals(codes.value_counts().sort_index())
    broken = codes.assign(c9=[None, 99, -1, *[1] * 39])
    assert (coder.encode(coder.decode(broken, 3))["c9"] == 1).all()


def test_codes_of_any_table_become_values_and_the_same_codes_again(table: tuple[pd.DataFrame, Schema]) -> None:
    coder = peer.Codes(table[1])
    codes = coder.encode(table[0])
    assert (codes.max() < pd.Series(coder.sizes)).all() and len(codes.drop_duplicates()) > 250
    again = coder.encode(shelf._as_read(coder.decode(codes, 1), *table))
    for name in codes:  # a time that its weekday takes beyond the bounds is another row's
        assert again[name].value_counts().sub(codes[name].value_counts(), fill_value=0).abs().sum() <= 4


# ---- Networks.


def test_poisson_steps_cost_what_our_own_accountant_says() -> None:
    steps = {"noise_multiplier": 1.5, "sampling_rate": 0.02, "steps": 30}
    ours = epsilon_pld([SubsampledGaussianEvent("steps", 1.5, 0.02, 30)], DELTA)
    assert real_epsilon(steps) == {"steps_epsilon": pytest.approx(ours, rel=0.01)}


@pytest.mark.slow  # the accountant adds up steps that are not Poisson samples one by one
def test_rows_drawn_with_replacement_cost_more_than_a_poisson_sample() -> None:
    cost = real_epsilon({"noise_multiplier": 1.0, "batch_size": 50, "n_rows": 200, "steps": 10})
    assert cost["repeats_epsilon"] > 1.05 * cost["steps_epsilon"]


def test_the_step_that_dp_sgd_is_measured_against_clips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("clipped")

    columns = {"a": {"kind": "boolean"}, "b": {"kind": "categorical", "categories": ["x", "y", "z"]}}
    schema = build_schema({"status": "declared", "n_units": 60, "columns": columns})
    adult: Any = SimpleNamespace(train=pd.DataFrame({"a": [True, False] * 30, "b": list("xyz") * 20}), binned=schema)
    monkeypatch.setattr(dp_sgd, "clip_factors", refuse)
    private_step(adult, "plain", torch.device("cpu"))()
    with pytest.raises(AssertionError, match="clipped"):
        private_step(adult, "private", torch.device("cpu"))()


# ---- Free text: secrets and canaries.


def test_each_secret_is_in_as_many_rows_as_it_says_and_in_no_public_text() -> None:
    case = Case.of(600, 0)
    texts = case.train[TEXT].tolist()
    assert len(set(case.secrets)) == N_SECRETS
    assert [sum(secret in text for text in texts) for secret in case.secrets] == [1] * N_SECRETS
    for canaries, (n, repeats, _) in ((case.single, SINGLE), (case.repeated, REPEATED)):
        assert len(canaries) == n
        for canary in canaries:
            assert [row for row, text in enumerate(texts) if canary.sentence in text] == list(canary.rows)
            assert len(canary.rows) == repeats
    assert max(map(len, texts)) <= LENGTH
    for text in ("\n".join(like()), "\n".join(unlike())):
        assert "Call " not in text
        assert not any(secret in text for secret in case.secrets)


def test_canaries_that_are_repeated_are_found_and_others_are_not() -> None:
    train = complaints(100, 0)
    planted, canaries = plant(train, complaint_schema(), 4, 3, seed=2)
    assert planted.drop(columns=TEXT).equals(train.drop(columns=TEXT))
    changed = np.flatnonzero((planted[TEXT] != train[TEXT]).to_numpy()).tolist()
    assert changed == sorted(row for canary in canaries for row in canary.rows)
    assert all(canary.sentence in planted[TEXT][row] for canary in canaries for row in canary.rows)
    rows = complaints(300, 5)
    assert find_canaries(canaries, rows).share == 0.0
    rows.loc[7, TEXT] += " " + canaries[2].sentence
    rows.loc[8, TEXT] += f" It was {canaries[3].secret}."
    result = find_canaries(canaries, rows)
    assert result.whole.tolist() == [False, False, True, False]
    assert result.secrets.tolist() == [False, False, True, True]
    assert result.by_chance < 1e-5


@pytest.mark.parametrize("ties", [True, False])
def test_exposure_is_all_of_a_model_that_memorizes_and_chance_of_one_that_knows_nothing(ties: bool) -> None:
    """Of a uniform rank, the exposure is exponential with a mean of 1 / ln 2 bits; 60 canaries, 4 standard errors."""
    planted, canaries = plant(complaints(100, 0), complaint_schema(), 60, 1, seed=4)
    rng, known = np.random.default_rng(5), set(planted[TEXT])

    def blind(rows: pd.DataFrame, column: str) -> np.ndarray:
        return np.ones(len(rows)) if ties else rng.random(len(rows))

    def memorizing(rows: pd.DataFrame, column: str) -> np.ndarray:
        return np.array([0.2 if text in known else 1.0 for text in rows[column]])

    result, mean = exposures(canaries, planted, blind, seed=1, n_others=255), 1 / np.log(2)
    assert abs(result.mean() - mean) < 4 * mean / np.sqrt(60)
    assert abs((result <= 1).mean() - 0.5) < 4 * 0.5 / np.sqrt(60)
    assert exposures(canaries[:3], planted, memorizing, seed=0, n_others=255).tolist() == pytest.approx([8.0] * 3)

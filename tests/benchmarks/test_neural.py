"""The neural benchmark: real costs against closed forms, tables from runs, and a start that takes up an earlier one."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import neural
from benchmarks.adult_table import DELTA
from benchmarks.neural_limits import private_step
from benchmarks.neural_peers import real_epsilon
from benchmarks.neural_point import Point, Watch
from benchmarks.neural_table import QUALITY, draw
from benchmarks.runs import Results, Run
from synth.neural import dp_sgd
from synth.schema import build_schema


def test_poisson_steps_cost_what_our_own_accountant_says() -> None:
    from synth.dp.accounting import epsilon_pld
    from synth.dp.events import SubsampledGaussianEvent

    found = real_epsilon({"noise_multiplier": 1.5, "sampling_rate": 0.02, "steps": 100})
    ours = epsilon_pld([SubsampledGaussianEvent("steps", 1.5, 0.02, 100)], DELTA)
    assert found == {"steps_epsilon": pytest.approx(ours, rel=0.01)}


@pytest.mark.slow
def test_rows_drawn_with_replacement_cost_more_than_a_poisson_sample() -> None:
    found = real_epsilon({"noise_multiplier": 1.0, "batch_size": 50, "n_rows": 200, "steps": 10})
    assert found["repeats_epsilon"] > 1.05 * found["steps_epsilon"]


def test_a_point_has_one_name_for_all_its_repeats_and_epsilons() -> None:
    names = {
        Point("quality", "tvae", epochs=5, seed=seed, epsilon=epsilon).name for seed in (0, 1) for epsilon in (1, 3)
    }
    assert names == {"quality tvae, 5 epochs, 1 threads"}


def test_a_device_or_a_way_to_clip_that_is_asked_for_is_in_the_name() -> None:
    names = [Point("fit", "tvae", device=device, backend="opacus").name for device in ("auto", "cpu", "cuda")]
    assert names == [f"fit tvae, 1 threads, opacus{on}" for on in ("", ", on cpu", ", on cuda")]


def test_every_part_yields_points_that_a_task_is_there_for() -> None:
    from benchmarks.neural_task import TASKS

    options = neural._options([])
    points = [point for part in neural.PARTS.values() for point in part(options)]
    assert {point.task for point in points} == set(TASKS)
    keys = [(point.name, point.epsilon, point.seed) for point in points]
    assert len(keys) == len(set(keys)), "two points would take each other's place in the file"


def test_what_the_file_holds_is_not_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "neural.json"
    held = Point("quality", "ctgan.TVAE", epochs=3)
    Results(out).add(Run(held.name, fit_s=7.0, fit_cpu_s=6.0, scores=dict.fromkeys(QUALITY, 0.25)))
    table = tmp_path / "no table, so that measuring anything would fail"
    asked = [
        "--only",
        "quality",
        "--generators",
        "ctgan.TVAE",
        "--quality-epochs",
        "3",
        "--seeds",
        "1",
        "--out",
        str(out),
    ]
    neural.main([str(table), *asked])
    assert "0.250" in capsys.readouterr().out
    assert [run.failure for run in Results(out).runs] == [None]


def test_a_measurement_that_fails_is_a_result_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "neural.json"
    asked = ["--only", "quality", "--generators", "ctgan.TVAE", "--seeds", "1", "--out", str(out)]
    neural.main([str(tmp_path / "none.data"), *asked])
    (run,) = Results(out).runs
    assert run.failure is not None
    assert "FileNotFoundError" in run.failure
    capsys.readouterr()


def test_the_step_that_dp_sgd_is_measured_against_clips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("clipped")

    columns = {"a": {"kind": "boolean"}, "b": {"kind": "categorical", "categories": ["x", "y", "z"]}}
    schema = build_schema({"status": "declared", "n_units": 60, "columns": columns})
    adult: Any = SimpleNamespace(train=pd.DataFrame({"a": [True, False] * 30, "b": list("xyz") * 20}), binned=schema)
    monkeypatch.setattr(dp_sgd, "clip_factors", refused)
    private_step(adult, "plain", torch.device("cpu"))()
    with pytest.raises(AssertionError, match="clipped"):
        private_step(adult, "private", torch.device("cpu"))()


def test_tables_show_medians_spans_and_ratios() -> None:
    results = Results(None)
    for seed, (theirs, ours) in enumerate([(10.0, 4.0), (12.0, 5.0), (30.0, 6.0)]):
        for name, seconds in (("ctgan.CTGAN", theirs), ("ctgan", ours)):
            point = Point("fit", name, epochs=2, seed=seed)
            results.add(Run(point.name, seed=seed, fit_s=seconds, fit_cpu_s=seconds, scores={"peak_mib": 500.0}))
    shown = draw(results)
    assert "12.0 [10.0, 30.0]" in shown
    assert "2.40" in shown
    assert "Private peers" not in shown


def test_a_peer_that_failed_is_named_with_its_reason() -> None:
    results = Results(None)
    results.add(Run(Point("peer", "mostly.argn", epsilon=1.0).name, 1.0, failure="stopped after 600 s"))
    assert "not measured: stopped after 600 s" in draw(results)


def test_the_watch_counts_a_childs_processor_time() -> None:
    import subprocess
    import sys

    watch = Watch()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    seconds, used = watch.read()
    assert 0.02 < used <= seconds * 1.5


@pytest.mark.slow
def test_gaps_are_a_category_for_the_library_and_gaps_again_in_what_it_draws() -> None:
    pytest.importorskip("ctgan")
    from benchmarks.neural_fits import _fit_library

    rng = np.random.default_rng(0)
    texts = np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, 600)]
    frame = pd.DataFrame({"text": texts, "number": rng.normal(size=600)})
    sampled = _fit_library(Point("quality", "ctgan.TVAE"), frame, epochs=1)(200, 0)
    assert list(sampled) == ["text", "number"]
    assert set(sampled["text"].dropna()) <= {"a", "b"}
    assert all(value is None or value in "ab" for value in sampled["text"])
    assert math.isfinite(float(sampled["number"].sum()))

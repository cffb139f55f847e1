"""The benchmark of histories: tables of the law that they name, and figures that tell histories from rows at random."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks import histories
from benchmarks.history_tables import (
    STATES,
    TRANSITIONS,
    patients,
    patients_schema,
    shoppers,
    shoppers_schema,
)
from evaluate.tables import Tables
from synth.row_order import histories_of
from synth.table import conform, violations
from tests.extras.histories.markov import AUTOCORRELATION, SCHEMA, dealt, markov
from understudy.extras.histories.samples import HistorySamples


def test_tables_keep_their_schemas_and_their_law() -> None:
    assert violations(shoppers(200), shoppers_schema()) == []
    table = patients(2_000)
    assert violations(table, patients_schema()) == []
    held = conform(table, patients_schema())
    now, before = histories_of(held, patients_schema()).pairs
    codes = np.array([STATES.index(state) for state in held["state"]])
    counts = np.bincount(4 * codes[before] + codes[now], minlength=16).reshape(4, 4)
    assert counts[0].sum() == 0
    assert np.abs(counts[1:] / counts[1:].sum(axis=1, keepdims=True) - TRANSITIONS[1:]).max() < 0.04


def test_figures_tell_fresh_histories_from_rows_dealt_at_random() -> None:
    halves = histories._halves(patients(600, 0), patients_schema(), 0)
    fresh, dealt = (histories._measured(run, *halves, 0) for run in ("fresh", "dealt"))
    name = "histories.dependence.floor_share"
    assert fresh[name] < 0.1
    assert dealt[name] > 0.8
    assert not {*halves[0]["who"]} & {*halves[1]["who"]}


def test_correlations_with_the_row_before_are_those_that_one_counts_by_hand() -> None:
    """Values are ranked among all of the training table here, by Spearman those before and now by themselves."""
    train, made = markov(900, 0), dealt(markov(450, 2, 2_000), 5).drop_duplicates(["machine", "day"])
    by_hand = []
    for table in (train, made):
        table = table.sort_values(["machine", "day"], kind="stable")
        by_hand.append(spearmanr(table["reading"], table.groupby("machine")["reading"].shift(), nan_policy="omit")[0])
    samples = HistorySamples.of(Tables.prepare(train, markov(500, 1, 900), made, SCHEMA))
    assert histories.lag_correlations("reading", samples, SCHEMA) == pytest.approx(by_hand, abs=0.01)
    assert by_hand[0] == pytest.approx(AUTOCORRELATION, abs=0.06)


def test_the_table_of_results_shows_medians() -> None:
    runs = [{"table": "patients", "run": "trees", "seed": seed, "cpu_s": float(seed)} for seed in range(3)]
    assert "trees | - | - | - | - | - | - | - | - | 1.000 (0.000 to 2.000)" in histories.drawn(runs)


def test_a_run_that_is_done_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "histories.json"
    out.write_text('[{"table": "patients", "run": "fresh", "seed": 0, "cpu_s": 7.0},'
                   ' {"table": "shoppers", "run": "fresh", "seed": 0, "cpu_s": 8.0}]')  # fmt: skip
    histories.main(["--out", str(out), "--run", "fresh", "--seeds", "1"])
    assert "7.000" in capsys.readouterr().out

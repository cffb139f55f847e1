"""A sweep in the report: means and intervals over seeds, the fit without epsilon apart, landmarks, what is shown."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest

from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports import render_html, write_sweep
from reports.charts.tradeoff import Axis, tradeoff
from reports.sections.sweep import mean_of, shown_in_full, sweep_of
from synth.schema import build_schema
from tests.evaluations import evaluation_of, facts, origin, stated

EPSILONS = (0.3, 1.0, 3.0, 10.0, None)


def candidate(name: str, epsilon: float | None, seed: int, *, lift: float = 0.0) -> Candidate:
    """A point whose score grows with epsilon and moves with the seed."""
    score = 0.7 + 0.05 * math.log10(epsilon or 100.0) + 0.01 * seed + lift
    estimates = (
        Estimate("utility.tstr.boosting", score, 900, "higher", low=score - 0.02, high=score + 0.02, reference=0.9,
                 floor=0.5, note="roc_auc"),
        Estimate("privacy.membership.auc", 0.5 + 0.001 * seed, 900, "lower", low=0.48, high=0.53, reference=0.5),
        Estimate("columns.tvd", 0.1, 900, "lower", subject=("=1+1", "town"), low=0.0, high=0.2),
    )  # fmt: skip
    failures = (Failure("columns.ks", "timed out", "it did not end"),)
    return Candidate(name, estimates, failures, statement=None if epsilon is None else stated(epsilon=epsilon * 0.999))


def swept(*, n_seeds: int = 3, generators: tuple[str, ...] = ("mst",), releasable: bool = False) -> Evaluation:
    """A sweep of every generator over five epsilons."""
    points = [
        {"label": f"{generator}-{epsilon}-{seed}", "generator": generator, "epsilon": epsilon, "seed": seed}
        for generator in generators
        for epsilon in EPSILONS
        for seed in range(n_seeds)
    ]
    candidates = tuple(
        candidate(p["label"], p["epsilon"], p["seed"], lift=0.02 * generators.index(p["generator"]))  # type: ignore[arg-type]
        for p in points
    )
    composed = {"epsilon": 21.47, "delta": 1e-6, "n_fits": 4 * n_seeds * len(generators)}
    said = {"releasable": releasable, "composed": composed, "points": points}
    schema = build_schema({"status": "declared", "columns": {"town": {"kind": "categorical", "categories": ["a"]}}})
    return Evaluation(candidates, facts(), schema, origin(sweep=said))


def test_the_interval_of_a_mean_is_students() -> None:
    mean = mean_of([0.5, 0.6, 0.7])
    assert mean.value == pytest.approx(0.6)
    assert mean.high is not None
    assert mean.high - mean.value == pytest.approx(4.302653 * 0.1 / math.sqrt(3))


def test_the_interval_of_a_mean_holds_it_in_95_of_100_sweeps() -> None:
    """4,000 sweeps of three seeds: a share outside 0.95 ± 4 standard errors happens once in 15,000 times."""
    import numpy as np

    rng = np.random.default_rng(0)
    means = [mean_of(list(rng.normal(size=3))) for _ in range(4000)]
    share = sum(m.low <= 0 <= m.high for m in means) / len(means)  # type: ignore[operator]
    assert abs(share - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_curves_run_from_the_smallest_epsilon_to_none() -> None:
    sweep = sweep_of(swept(generators=("mst", "tvae")))
    assert sweep is not None
    panel = sweep.panels[0]
    assert panel.measure == "utility.tstr.boosting"
    assert [curve.generator for curve in panel.curves] == ["mst", "tvae"]
    assert [epsilon for epsilon, _ in panel.curves[0].dots] == list(EPSILONS)
    assert all(len(mean.values) == 3 for _, mean in panel.curves[0].dots)
    assert (panel.reference, panel.floor) == (pytest.approx(0.9), pytest.approx(0.5))
    assert [(row.generator, row.epsilon) for row in sweep.rows][:2] == [("mst", 0.3), ("mst", 1.0)]


def test_an_evaluation_of_no_sweep_has_none() -> None:
    assert sweep_of(evaluation_of()) is None


def test_the_point_for_release_is_shown_in_full_else_a_few_of_the_first_seed() -> None:
    made = swept(generators=("mst", "tvae"))
    assert [c.name for c in shown_in_full(made, "tvae-3.0-2")] == ["tvae-3.0-2"]
    few = [c.name for c in shown_in_full(made, None)]
    assert len(few) == 4
    assert all(name.endswith("-0") for name in few)
    assert (few[0], few[-1]) == ("mst-0.3-0", "tvae-None-0")


def test_the_axis_is_logarithmic_and_none_stands_apart() -> None:
    sweep = sweep_of(swept())
    assert sweep is not None
    places = Axis.of(sweep.panels[0].epsilons).places
    assert places[1.0] - places[0.3] == pytest.approx(places[10.0] - places[3.0])
    assert places[None] - places[10.0] > 40
    assert Axis.of(sweep.panels[0].epsilons).ends is not None


def test_error_bars_and_seeds_are_drawn_and_nothing_joins_the_fit_without_epsilon() -> None:
    sweep = sweep_of(swept())
    assert sweep is not None
    drawn = str(tradeoff(sweep.panels[0]))
    assert drawn.count('class="bar s0"') == 5 * 3
    assert drawn.count('class="seed s0"') == 5 * 3
    assert drawn.count('class="run s0"') == 3
    assert "trained on real" in drawn
    assert ">shuffled<" in drawn
    assert "epsilon 0.3: 0.684, " in drawn


def test_one_seed_has_no_error_bars_and_the_page_says_why() -> None:
    made = swept(n_seeds=1)
    sweep = sweep_of(made)
    assert sweep is not None
    assert 'class="bar' not in str(tradeoff(sweep.panels[0]))


@pytest.mark.parametrize("only", [(None,), (1.0,), (1.0, None)])
def test_few_epsilons_are_drawn_too(only: tuple[float | None, ...]) -> None:
    sweep = sweep_of(swept())
    assert sweep is not None
    (curve,) = sweep.panels[0].curves
    less = replace(curve, dots=tuple(dot for dot in curve.dots if dot[0] in only))
    drawn = str(tradeoff(replace(sweep.panels[0], curves=(less,), epsilons=only, reference=None, floor=None)))
    assert "NaN" not in drawn
    assert drawn.count("<circle") == 4 * len(only)


def test_a_hostile_generator_name_is_text() -> None:
    page = render_html(swept(generators=("<img src=x>", "b")))
    assert "<img" not in page


def test_the_files_hold_one_line_for_each_number_and_each_failure(tmp_path: Path) -> None:
    made = swept()
    write_sweep(made, tmp_path)
    with (tmp_path / "sweep.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 15 * 4
    first = lines[0]
    assert (first["generator"], first["epsilon"], first["seed"]) == ("mst", "0.3", "0")
    assert float(first["claimed_epsilon"]) == 0.3 * 0.999
    assert {line["failure"] for line in lines} == {"", "timed out: it did not end"}
    assert {line["notice"] for line in lines} == {"internal: reads real rows; not releasable"}
    with (tmp_path / "sweep_summary.csv").open(newline="") as file:
        summary = list(csv.DictReader(file))
    assert len(summary) == 5 * 3
    assert {line["n_seeds"] for line in summary} == {"3"}
    assert "NOT RELEASABLE" in (tmp_path / "NOT_RELEASABLE.txt").read_text()


def test_a_paid_sweep_says_which_guarantee_to_state(tmp_path: Path) -> None:
    write_sweep(swept(releasable=True), tmp_path)
    said = (tmp_path / "COMPOSED_STATEMENT.txt").read_text()
    assert "epsilon = 21.5 at delta = 1" in said
    assert "3 more, without epsilon: tables and models of these have no formal guarantee" in said
    assert not (tmp_path / "NOT_RELEASABLE.txt").exists()

"""The benchmark of generators on any table: its figures on tables of which they are known, and its page."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import shelf, shelf_curves
from benchmarks.looks import looks
from benchmarks.scoring import Scorer


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 500.0, n)
    return pd.DataFrame({
        "amount": (x / 100).round() * 100,
        "mixed": np.where(rng.random(n) < 0.3, "N", (x / 7).round().astype(int).astype(str)),
        "day": (pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")).strftime("%Y-%m-%d"),
        "target": np.where(x + rng.normal(0, 300, n) > 900, "yes", "no"),
    })  # fmt: skip


def test_steps_tails_and_spread_are_those_that_were_made() -> None:
    real = pd.DataFrame({"amount": np.repeat(np.arange(1, 101) * 100.0, 40)})
    same = looks(real, real)
    assert (same.std, same.spikes, same.steps, same.correlation) == (1.0, 1.0, 1.0, 0.0)
    off = looks(real, real + 1)
    assert off.steps == off.spikes == 0.0
    assert off.tail == pytest.approx(0.01)
    wide = looks(real, real.where(real < 10_000, 1e6))
    assert wide.std > 10
    assert wide.worst["std"] == "amount"


def test_zeros_are_on_no_step() -> None:
    rng = np.random.default_rng(0)
    values = np.r_[np.zeros(500), np.arange(1, 501) * 250.0]
    synthetic = pd.DataFrame({"x": np.r_[np.zeros(500), rng.uniform(1, 100_000, 500)]})
    assert looks(pd.DataFrame({"x": values}), synthetic).steps < 0.05


def test_texts_beside_numbers_and_days_have_cells_of_their_own() -> None:
    real, other = table(3000), table(3000, seed=1)
    scorer = Scorer(real.head(2000), real.tail(1000), "target")
    assert scorer.tv(real.head(2000), 1) == 0.0
    assert scorer.tv(other, 2) < 0.15
    without = other.assign(mixed=other["mixed"].where(other["mixed"] != "N", "5"))
    assert scorer.tv(without, 1) > scorer.tv(other, 1) + 0.05
    late = other.assign(day="2015-10-01")
    assert scorer.tv(late, 1) > scorer.tv(other, 1) + 0.1
    assert scorer.c2st(other) == pytest.approx(0.5, abs=0.05)
    assert scorer.c2st(without) > 0.6


def test_a_number_is_predicted_as_a_number_and_few_values_as_classes() -> None:
    real = table(3000)
    amounts = Scorer(real.head(2000), real.tail(1000), "amount")
    assert not amounts.is_class
    assert 0.5 < amounts.tstr(real.head(2000)) <= 1
    # The target is a step of the amount, so that a line explains a part of it.
    assert 0.3 < amounts.linear_tstr(real.head(2000)) < amounts.tstr(real.head(2000))
    shuffled = real.head(2000).assign(amount=np.random.default_rng(0).permutation(real["amount"].head(2000)))
    assert amounts.linear_tstr(shuffled) < 0.1
    three = real.assign(target=np.digitize(real["amount"], [700, 1200]))
    classes = Scorer(three.head(2000), three.tail(1000), "target")
    assert classes.is_class
    assert classes.tstr(three.head(2000)) > 0.95
    assert classes.tstr(three.head(2000).assign(target=0)) == 0.5


def test_curves_are_means_over_seeds_by_epsilon_and_failures_are_left_out() -> None:
    def run(value: float) -> dict[str, float]:
        return dict.fromkeys(shelf_curves.PANELS, value)

    fits = {
        "fresh real rows": {"0": run(0.9)},
        "aim:10": {"0": run(0.8), "1": run(0.6)},
        "aim:0.3": {"0": run(0.5), "1": {"failure": "stopped"}},
        "aim:1": {"0": {"failure": "stopped"}},
        "aim": {"0": run(0.85)},
    }
    assert shelf_curves.curves_of(fits, "tstr") == {"aim": [(0.3, 0.5), (10.0, pytest.approx(0.7))]}
    drawn = ET.fromstring(shelf_curves.draw_curves({"made": fits, "one": {"aim:1": {"0": run(0.5)}}}))
    dots = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == 2 * len(shelf_curves.PANELS)
    assert {dot.findtext("{http://www.w3.org/2000/svg}title") for dot in dots} == {
        "aim, epsilon 0.3: 0.5", "aim, epsilon 10: 0.7",
    }  # fmt: skip
    texts = [element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("made") for text in texts)
    assert not any(text.startswith("one") for text in texts)


@pytest.mark.parametrize("value", [1.0, 0.0, -2.0])
def test_curves_that_are_flat_or_below_zero_are_drawn(value: float) -> None:
    runs = {epsilon: {"0": dict.fromkeys(shelf_curves.PANELS, value)} for epsilon in ("aim:1", "aim:3")}
    drawn = ET.fromstring(shelf_curves.draw_curves({"made": runs}))
    heights = {float(dot.get("cy", "")) for dot in drawn.iter("{http://www.w3.org/2000/svg}circle")}
    assert len(heights) == 1


def test_a_column_that_is_missing_in_all_synthetic_rows_is_scored() -> None:
    real = table(3000)
    scorer = Scorer(real.head(2000), real.tail(1000), "target")
    assert 0.9 < scorer.tstr(real.head(2000).assign(day=None)) <= 1


@pytest.mark.statistical
def test_every_fit_is_measured_kept_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(1000).to_csv(tmp_path / "made.csv", index=False)
    out, page = tmp_path / "out.json", tmp_path / "page.html"
    asked = [str(tmp_path), "--fits", "independent:1", "no_such_generator", "--seeds", "1"]
    shelf.main([*asked, "--out", str(out), "--page", str(page)])
    drawn = capsys.readouterr().out
    fits = json.loads(out.read_text())["tables"]["made"]
    assert list(fits) == [*shelf.LANDMARKS, "independent:1", "no_such_generator"]
    assert fits["fresh real rows"]["0"]["c2st"] == pytest.approx(0.5, abs=0.15)
    assert 0 < fits["independent:1"]["0"]["cpu_s"] < 60
    assert "ended with exit code" in fits["no_such_generator"]["0"]["failure"]
    assert drawn.count("\n| independent:1 |") == drawn.count("\n| no_such_generator | failed |") == 4
    assert page.read_text().count("<svg") == sum(len(runs["0"].get("pictures", ())) for runs in fits.values()) >= 9
    shelf.main(["--out", str(out)])
    assert capsys.readouterr().out == drawn


def test_the_docs_show_the_table_that_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    shelf.main(["--out", str(root / "benchmarks/shelf.json")])
    drawn = capsys.readouterr().out.strip()
    assert drawn.count("\n") > 10
    assert drawn in (root / "docs/explanation/generators.md").read_text(encoding="utf-8")


def test_the_docs_show_the_curves_that_the_results_give() -> None:
    root = Path(__file__).parents[2]
    held = json.loads((root / "benchmarks/epsilons.json").read_text())
    assert shelf_curves.draw_curves(held["tables"]) == (root / "docs/epsilons.svg").read_text(encoding="utf-8")
